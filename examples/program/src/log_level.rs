//! The log, which goes to standard error.

use std::io::IsTerminal;

use serde::{Deserialize, Serialize};

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
    pub fn start_log(self) {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::from(self))
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr)
            .init();
    }
}
