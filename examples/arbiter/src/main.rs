//! psp-arbiter: a daemon that moves cores between the servers of a machine. `docs/arbiter.md` is about it.
//!
//! ```text
//!   psp-arbiter           config ─► mechanism ─► Daemon ─► SIGTERM ─► everything put back
//!   psp-arbiter status    who has what
//!   psp-arbiter measure   how long grants and moves take
//! ```

mod config;
mod measure;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use psp_arbiter::daemon::{Daemon, Listener};
use psp_arbiter::{mechanism, status};
use psp_program::FileFlags;
use signal_hook::consts::{SIGINT, SIGTERM};

use config::{Config, DEFAULT_SOCKET, Resolved};

/// The arbiter answers within microseconds only if it runs at once when a message comes.
const NICE: i32 = -10;
const SLICE_US: u64 = 100;

/// Moves cores between the servers of this machine.
///
/// Servers ask for cores, and this daemon grants whole cores to them: by priority, evenly within a priority, and one
/// stays for everything else. SIGTERM puts everything back.
#[derive(Debug, Parser)]
#[command(name = "psp-arbiter", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    _command: Option<Command>,
    #[command(flatten)]
    _config: Config,
    #[command(flatten)]
    _file: FileFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print who has which cores
    Status {
        /// The arbiter's Unix socket
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure how long an arbiter that runs takes to grant a core, and how long a thread's move takes
    Measure(measure::Flags),
}

fn main() -> ExitCode {
    let given = psp_manual::matches(Cli::command_for_update());
    psp_program::end(|| match given.subcommand_name() {
        None => Resolved::new(given).and_then(serve),
        Some(_) => match Command::from_arg_matches(&given)? {
            Command::Status { socket, json } => print_status(&socket, json),
            Command::Measure(flags) => measure::run(&flags),
        },
    })
}

fn print_status(socket: &std::path::Path, json: bool) -> anyhow::Result<()> {
    let status = status::ask(socket)?;
    match json {
        true => println!("{}", serde_json::to_string_pretty(&status)?),
        false => print!("{status}"),
    }
    Ok(())
}

fn serve(resolved: Resolved) -> anyhow::Result<()> {
    let Config { socket, socket_mode, log_level, mechanism: choice, .. } = resolved.config.clone();
    if resolved.print_only {
        print!("{}", toml::to_string(&resolved.config)?);
        return Ok(());
    }
    let settings = resolved.config.settings()?;
    let _log = log_level.start_log()?;
    // Taken early, so that nothing is left behind by a signal that comes meanwhile.
    let (stop, signal) = UnixStream::pair()?;
    for number in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(number, signal.try_clone()?)?;
    }
    // Before the mechanism: a second arbiter must not touch the first one's cores.
    let listener = Listener::bind(&socket, socket_mode.0)?;
    let started = mechanism::choose(choice, &resolved.config.scope()).context("cannot manage this machine's cores")?;
    be_prompt();
    let kind = started.mechanism.kind();
    let daemon = Daemon::new(listener, settings, started).context("cannot manage this machine's cores")?;
    let status = daemon.status();
    tracing::info!(%kind, cores = %status.cores, grantable = status.grantable, socket = %socket.display(), "ready");
    if status.grantable == 0 {
        tracing::warn!("no core can be granted: as many are in reserve as there are");
    }
    daemon.run(stop).context("not everything could be put back")?;
    tracing::info!("everything is put back");
    Ok(())
}

/// Runs before other programs, as far as rights allow.
fn be_prompt() {
    psp_server::internal::shorten_slice(SLICE_US);
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::info!(%error, "grants may be late beside busy programs: cannot raise the arbiter's priority");
    }
}
