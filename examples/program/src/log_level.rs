//! The log, which goes to standard error.

use std::io::IsTerminal;

use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, reload};

/// Severity of log messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What made something fail.
    Error,
    /// What may become a problem.
    Warn,
    /// Start, stop and what an operator wants to know.
    #[default]
    Info,
    /// What a developer wants to know.
    Debug,
    /// Everything.
    Trace,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

impl LogLevel {
    /// Starts to log messages of this severity and worse. To be called once.
    #[must_use = "it changes the level later"]
    pub(crate) fn start_log(self) -> Log {
        let (level, log) = self.layer();
        let text = tracing_subscriber::fmt::layer()
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr);
        tracing_subscriber::registry().with(level).with(text).init();
        log
    }

    /// The part of a log that keeps to the level.
    pub(crate) fn layer(self) -> (reload::Layer<LevelFilter, Registry>, Log) {
        let (level, handle) = reload::Layer::new(LevelFilter::from_level(self.into()));
        (level, Log { handle })
    }
}

/// The log of the process.
#[derive(Debug, Clone)]
pub struct Log {
    handle: reload::Handle<LevelFilter, Registry>,
}

impl Log {
    /// Logs messages of this severity and worse from now on.
    pub fn set_level(&self, level: LogLevel) {
        // It fails only when the subscriber is gone.
        let _ = self.handle.reload(LevelFilter::from_level(level.into()));
    }

    /// The level in force, while the log is there.
    #[cfg(test)]
    pub(crate) fn level(&self) -> Option<LevelFilter> {
        self.handle.clone_current()
    }
}
