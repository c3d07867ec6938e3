//! Reloads the configuration on SIGHUP.

use psp_server::ServerHandle;
use psp_server::reload::{differences, log_reload, on_hangup};

use crate::Log;
use crate::configuration::{CommandLine, ProgramConfig};
use crate::descriptors;
use crate::memory::fit_buffers;

/// Reloads the configuration of a running program. `T` applies the program's own settings.
pub(crate) struct Reload<C: ProgramConfig, T> {
    /// Names the file, and has the flags that take precedence over it.
    pub(crate) command_line: CommandLine<C>,
    /// The configuration that the server was started with.
    pub(crate) started: C,
    pub(crate) server: ServerHandle,
    pub(crate) log: Log,
    pub(crate) take_over: T,
}

impl<C, T> Reload<C, T>
where
    C: ProgramConfig,
    T: FnMut(&mut C, &C) + Send + 'static,
{
    /// Reloads on each SIGHUP, and logs the result.
    ///
    /// # Errors
    /// When the signal handler or its thread cannot be installed.
    pub(crate) fn on_hangup(mut self) -> anyhow::Result<()> {
        on_hangup(move || {
            let outcome = self.reload().map_err(|error| format!("{error:#}"));
            log_reload("configuration", outcome);
        })?;
        Ok(())
    }

    /// Applies the settings that can change while the server runs. Returns the changed settings that need a
    /// restart.
    ///
    /// # Errors
    /// When the file cannot be read, or its configuration is refused. Then nothing has changed.
    fn reload(&mut self) -> anyhow::Result<Vec<String>> {
        let mut config = self.command_line.clone().resolve()?;
        let data_bytes = config.data_bytes();
        fit_buffers(config.common().server, data_bytes);
        let mut in_force = self.started.clone();
        let (old, new) = (in_force.common(), config.common());
        self.server.reload(new.policy, new.server)?;
        descriptors::limit_connections(&self.server)?;
        self.log.set_level(*new.log_level);
        old.policy.clone_from(new.policy);
        *old.log_level = *new.log_level;
        *old.server = old.server.reloaded(new.server);
        (self.take_over)(&mut in_force, &config);
        Ok(differences(&in_force, &config))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use psp_protocols::psp_header::PspFraming;
    use psp_server::{Policy, Reply, Request, Server};
    use tracing::level_filters::LevelFilter;

    use super::*;
    use crate::LogLevel;
    use crate::testing::Config;

    #[test]
    fn a_reload_applies_some_settings_and_names_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program.toml");
        let server = Server::builder()
            .tcp("127.0.0.1:0")
            .framing(PspFraming::default())
            .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
            .build()
            .unwrap();
        let handle = server.handle();
        let (layer, log) = LogLevel::default().layer();
        let words = ["program", "--config", path.to_str().unwrap()];
        let mut reload = Reload {
            command_line: CommandLine::try_parse_from(words).unwrap(),
            started: Config::default(),
            server: server.handle(),
            log: log.clone(),
            take_over: |started: &mut Config, config: &Config| {
                started.motto.clone_from(&config.motto);
            },
        };
        assert!(reload.reload().is_err(), "there is no file");

        let text = "port = 2\nmotto = 'more'\nlog_level = 'warn'\npolicy = 'sjf'\n\
                    [server]\nconnections_max = 9\nworkers = 3";
        fs::write(&path, text).unwrap();
        assert_eq!(reload.reload().unwrap(), ["port", "server.workers"]);
        assert_eq!(handle.policy(), Policy::sjf());
        assert_eq!(handle.connections_max(), 9);
        assert_eq!(log.level(), Some(LevelFilter::WARN));

        fs::write(&path, "policy = 'c-fcfs'\nlog_level = 'trace'\ncolour = 1").unwrap();
        assert!(reload.reload().is_err());
        assert_eq!(handle.policy(), Policy::sjf());
        assert_eq!(log.level(), Some(LevelFilter::WARN));
        drop(layer);
    }
}
