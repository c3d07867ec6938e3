//! Errors of configuration files.

use std::io;
use std::path::PathBuf;

use psp_policy::PolicyError;

use super::server::BuildError;

/// A configuration file cannot be read, or has settings that no server has. The text is one line.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The text is no TOML, or has a key or a value that it may not have.
    #[error("{}{place}: {reason}", in_file(path.as_deref()))]
    Text {
        /// The file, if the text comes from one.
        path: Option<PathBuf>,
        /// Where in the text.
        place: Place,
        /// What is wrong there.
        reason: String,
    },
    /// A setting is out of its range.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The server cannot run the policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The file cannot be watched.
    #[error("cannot watch the settings: {0}")]
    Watch(#[source] io::Error),
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of the character in the line, from 1.
    pub column: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

fn in_file(path: Option<&std::path::Path>) -> String {
    path.map_or_else(String::new, |path| format!("{}: ", path.display()))
}
