//! The log, which goes to standard error.

use std::io::{self, IsTerminal};

use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, reload};

use crate::log_queue::LogQueue;

/// Severity of log messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Possible problems.
    Warn,
    /// Start, stop and other events for operators.
    #[default]
    Info,
    /// Events for developers.
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
    /// Starts to log messages of at least this severity, and panics. Call it once per process, within
    /// [`end`](crate::end), which waits until they are written. No other thread waits for the reader of the log: lines
    /// that find no room are dropped and counted.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start_log(self) -> io::Result<Log> {
        let queue = LogQueue::start()?;
        let (level, log) = self.layer();
        let text = tracing_subscriber::fmt::layer()
            .with_ansi(io::stderr().is_terminal())
            .with_writer(move || queue);
        tracing_subscriber::registry().with(level).with(text).init();
        Ok(log)
    }

    /// The layer that filters by the level, and the log that can change the level.
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
    /// From now on, logs messages of at least this severity.
    pub fn set_level(&self, level: LogLevel) {
        // This fails only after the subscriber was dropped.
        let _ = self.handle.reload(LevelFilter::from_level(level.into()));
    }

    /// The current level; `None` after the subscriber was dropped.
    #[cfg(test)]
    pub(crate) fn level(&self) -> Option<LevelFilter> {
        self.handle.clone_current()
    }
}
