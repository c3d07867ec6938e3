//! Why a figure cannot be drawn.

use thiserror::Error;

use crate::experiment::SettingError;
use crate::simulator::SimError;

/// Why a figure cannot be drawn.
#[derive(Debug, Error)]
pub enum FigureError {
    /// A file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A file has a mistake.
    #[error("{path}:{line}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The line, from 1 on.
        line: usize,
        /// The mistake.
        reason: String,
    },
    /// A definition says what cannot be drawn.
    #[error("{reason}")]
    Invalid {
        /// Why not.
        reason: String,
    },
    /// A system has a setting that there is not.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A simulation failed.
    #[error(transparent)]
    Simulation(#[from] SimError),
}

impl FigureError {
    pub(super) const fn invalid(reason: String) -> Self {
        Self::Invalid { reason }
    }
}
