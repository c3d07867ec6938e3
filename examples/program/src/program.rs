//! A server program from its start to its end.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use psp_protocols::Framing;
use psp_server::{Classifier, Handler, Server};

use crate::as_written::as_written;
use crate::configuration::{CommandLine, ProgramConfig};
use crate::descriptors;
use crate::failure::explain;
use crate::log_level::Log;
use crate::log_queue::{FlushAtEnd, print_error};
use crate::memory::fit_buffers;
use crate::reload::Reload;
use crate::service_manager::Notifier;

/// A program that has read its configuration and is ready to serve.
#[derive(Debug)]
pub struct Program<C: ProgramConfig> {
    /// The configuration.
    pub config: C,
    /// The log.
    pub log: Log,
    command_line: CommandLine<C>,
}

/// The `main` of a program: reads flags and configuration, and calls `serve`. With `--print-config`, prints the
/// configuration instead. If anything fails, prints one line to standard error and returns a failure. Unknown flags
/// end the process.
pub fn main<C: ProgramConfig>(serve: impl FnOnce(Program<C>) -> anyhow::Result<()>) -> ExitCode {
    main_of(Ok, serve)
}

/// Like [`main`], of a program whose command line has other forms, too: `as_flags` makes flags of them. The first word is
/// the program's name.
pub fn main_of<C: ProgramConfig>(
    as_flags: impl FnOnce(Vec<OsString>) -> anyhow::Result<Vec<OsString>>,
    serve: impl FnOnce(Program<C>) -> anyhow::Result<()>,
) -> ExitCode {
    end(|| {
        let words = as_flags(std::env::args_os().collect())?;
        try_main(words, serve).map_err(as_written::<C>)
    })
}

/// Calls `run`, which is all that a program does. If it returns an error, prints that on one line to standard error and
/// returns a failure. Waits until the log is written, for a second at most, also if `run` panics.
pub fn end(run: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    let _flushed = FlushAtEnd;
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("Error: {}\n", explain(&error)));
            ExitCode::FAILURE
        }
    }
}

/// See [`main`].
fn try_main<C: ProgramConfig>(
    words: Vec<OsString>,
    serve: impl FnOnce(Program<C>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let command_line = CommandLine::<C>::parse(words);
    let mut config = command_line.clone().resolve()?;
    if command_line.file.print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    descriptors::require_room()?;
    if let Some(path) = config.log_file() {
        log_to(path).with_context(|| format!("cannot write the log to {}", path.display()))?;
    }
    let log = { config.common().log_level.start_log() }.context("cannot start the log")?;
    let data_bytes = config.data_bytes();
    fit_buffers(config.common().server, data_bytes);
    serve(Program { config, log, command_line })
}

/// Has standard error, which has the log, go to the end of a file.
fn log_to(path: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    rustix::stdio::dup2_stderr(file)?;
    Ok(())
}

impl<C: ProgramConfig> Program<C> {
    /// [Runs](run) `server`, and reloads the configuration on SIGHUP. A reload changes the policy, the log
    /// level, and the settings that [`psp_server::Config::reloaded`] names. The log names other changed
    /// settings, which need a restart.
    ///
    /// # Errors
    /// When a thread or a signal handler cannot be set up, and those of [`Server::run`].
    pub fn serve<S: Framing, K: Classifier<S::Head>, H: Handler<S::Head>>(
        self,
        server: Server<S, K, H>,
    ) -> anyhow::Result<()> {
        self.serve_and_reload(server, |_, _| {})
    }

    /// Like [`serve`](Self::serve), for a program that can change more settings while it runs.
    ///
    /// `take_over` gets the configuration in force and the reloaded one. It applies the program's own
    /// settings from the reloaded configuration, and copies the settings that it applied into the first one.
    ///
    /// # Errors
    /// See [`serve`](Self::serve).
    pub fn serve_and_reload<S: Framing, K: Classifier<S::Head>, H: Handler<S::Head>>(
        self,
        server: Server<S, K, H>,
        take_over: impl FnMut(&mut C, &C) + Send + 'static,
    ) -> anyhow::Result<()> {
        let Self { config, log, command_line } = self;
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

/// Runs `server` until SIGTERM or SIGINT. The server logs its addresses when it is ready.
///
/// # Errors
/// When the limit of open files allows no connection, and those of [`Server::run`].
pub fn run<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(server: Server<F, K, H>) -> anyhow::Result<()> {
    descriptors::begin(&server.handle())?;
    let _notifier = Notifier::start(server.handle())?;
    let report = server.run()?;
    if report.abandoned > 0 {
        tracing::warn!(report.abandoned, "stopped before all requests were answered");
    }
    Ok(())
}
