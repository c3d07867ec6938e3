//! A program from its start to its end.

use psp_protocols::Framing;
use psp_server::{Classifier, Handler, Server};

use crate::configuration::{CommandLine, ProgramConfig as _, ProgramFlags};
use crate::descriptors;
use crate::log_level::Log;
use crate::reload::Reload;

/// A program that was called to serve.
#[derive(Debug)]
pub struct Program<F: ProgramFlags> {
    /// What it is started with.
    pub config: F::Config,
    /// Its log.
    pub log: Log,
    command_line: CommandLine<F>,
}

/// The `main` of a program: reads its flags and its configuration, prints that if it is asked to, and has
/// it `serve` otherwise.
///
/// # Errors
/// What [`CommandLine::resolve`] and `serve` say. Flags that nobody understands end the process.
pub fn main<F: ProgramFlags>(
    serve: impl FnOnce(Program<F>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let command_line = CommandLine::<F>::parse();
    let mut config = command_line.clone().resolve()?;
    if command_line.file.print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    let log = config.common().log_level.start_log();
    serve(Program {
        config,
        log,
        command_line,
    })
}

impl<F: ProgramFlags> Program<F> {
    /// [Runs](run) `server`, and reads the configuration again on SIGHUP: policy, log level, and what
    /// [`psp_server::Config::reloaded`] names change; the log says what would need a restart.
    ///
    /// # Errors
    /// When a thread or a signal handler cannot be set up, or the event queue fails.
    pub fn serve<S: Framing, K: Classifier, H: Handler>(
        self,
        server: Server<S, K, H>,
    ) -> anyhow::Result<()> {
        self.serve_and_reload(server, |_, _| {})
    }

    /// The same for a program that can change more than others while it runs: `take_over` gets what was
    /// started with and what was read again, puts the latter's own settings into force, and copies what it
    /// took over into the former.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn serve_and_reload<S: Framing, K: Classifier, H: Handler>(
        self,
        server: Server<S, K, H>,
        take_over: impl FnMut(&mut F::Config, &F::Config) + Send + 'static,
    ) -> anyhow::Result<()> {
        let Self {
            config,
            log,
            command_line,
        } = self;
        let reload = Reload {
            command_line,
            started: config,
            server: server.handle(),
            log,
            take_over,
        };
        reload.on_hangup()?;
        run(server)
    }
}

/// Says where `server` listens and runs it until SIGTERM or SIGINT.
///
/// # Errors
/// When a thread or the signal handlers cannot be set up, or the event queue fails.
pub fn run<F: Framing, K: Classifier, H: Handler>(server: Server<F, K, H>) -> anyhow::Result<()> {
    let connections_max = server.handle().connections_max();
    let room = descriptors::make_room(connections_max);
    if room < connections_max {
        tracing::warn!("the limit of open files has room for {room} of {connections_max} clients");
    }
    for address in server.local_addrs() {
        tracing::info!("listening on {address}");
    }
    let report = server.run()?;
    if report.abandoned > 0 {
        tracing::warn!(report.abandoned, "stopped before everything was answered");
    }
    Ok(())
}
