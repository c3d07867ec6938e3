//! Changes settings of a running server, for programs that read their configuration again on SIGHUP.

use std::fmt::Display;

use psp_policy::{Policy, PolicyError};
use serde::Serialize;
use signal_hook::consts::SIGHUP;
use toml::{Table, Value};

use crate::config::Config;
use crate::error::RunError;
use crate::shared::ServerHandle;

/// Calls `reload` for every SIGHUP, on a thread of its own. Without this SIGHUP ends the process.
///
/// # Errors
/// When the signal handler or the thread cannot be installed.
pub fn on_hangup(mut reload: impl FnMut() + Send + 'static) -> Result<(), RunError> {
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP]).map_err(RunError::Signals)?;
    std::thread::Builder::new()
        .name("psp-reload".into())
        .spawn(move || signals.forever().for_each(|_| reload()))
        .map_err(RunError::Signals)?;
    Ok(())
}

/// Logs how a reload of `what` ended: with the names of changed settings that need a restart, or with an error.
pub fn log_reload(what: &str, outcome: Result<Vec<String>, impl Display>) {
    match outcome {
        Ok(restart) if restart.is_empty() => tracing::info!("{what} reloaded"),
        Ok(restart) => {
            let settings = restart.join(", ");
            tracing::warn!("{what} reloaded; a restart is needed to change {settings}");
        }
        Err(error) => tracing::error!("{what} not reloaded: {error}"),
    }
}

impl ServerHandle {
    /// Takes over the settings that may change while the server runs: the policy, `connections_max`, `idle_timeout_s`,
    /// `output_bytes_max` and `slow_us`. Other fields of `config` are ignored.
    ///
    /// # Errors
    /// When the server cannot run the policy. Nothing has changed then.
    pub fn reload(&self, policy: &Policy, config: &Config) -> Result<(), PolicyError> {
        if *policy != self.policy() {
            self.set_policy(policy.clone())?;
        }
        self.set_connections_max(config.connections_max);
        self.set_idle_timeout_s(config.idle_timeout_s);
        self.set_output_bytes_max(config.output_bytes_max);
        self.set_slow_us(config.slow_us);
        Ok(())
    }
}

impl Config {
    /// This configuration with the fields that [`ServerHandle::reload`] takes over from `other`.
    #[must_use]
    pub fn reloaded(&self, other: &Self) -> Self {
        Self {
            connections_max: other.connections_max,
            idle_timeout_s: other.idle_timeout_s,
            output_bytes_max: other.output_bytes_max,
            slow_us: other.slow_us,
            ..self.clone()
        }
    }
}

/// The settings in which two configurations differ, as a file names them: `server.workers`.
#[must_use]
pub fn differences<C: Serialize>(left: &C, right: &C) -> Vec<String> {
    let mut found = Vec::new();
    if let (Ok(left), Ok(right)) = (Table::try_from(left), Table::try_from(right)) {
        compare("", &left, &right, &mut found);
    }
    found
}

fn compare(prefix: &str, left: &Table, right: &Table, found: &mut Vec<String>) {
    let added = right.keys().filter(|key| !left.contains_key(*key));
    for key in left.keys().chain(added) {
        match (left.get(key), right.get(key)) {
            (Some(Value::Table(left)), Some(Value::Table(right))) => {
                compare(&format!("{prefix}{key}."), left, right, found);
            }
            (left, right) if left != right => found.push(format!("{prefix}{key}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_are_named_once_wherever_they_are() {
        #[derive(Serialize)]
        struct Program {
            port: u16,
            policy: Policy,
            server: Config,
        }
        let program = |port, workers, policy: Policy| Program {
            port,
            policy,
            server: Config { workers, ..Config::default() },
        };
        let before = program(1, None, Policy::darc());
        assert_eq!(differences(&before, &before), [""; 0]);
        let after = program(2, Some(3.into()), Policy::darc());
        assert_eq!(differences(&before, &after), ["port", "server.workers"]);
        assert_eq!(differences(&after, &before), ["port", "server.workers"]);
        let other = program(1, None, Policy::mq());
        assert!(differences(&before, &other).contains(&"policy.name".to_owned()));
    }
}
