//! Why a figure cannot be drawn.

use thiserror::Error;

use crate::experiment::SettingError;
use crate::simulator::{SimError, UnknownPolicy};
use crate::workload::WorkloadError;

/// Why a figure cannot be drawn.
#[derive(Debug, Error)]
pub enum FigureError {
    /// A table names an unknown policy.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// A table names an unknown setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A table names an unknown workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A simulation failed.
    #[error(transparent)]
    Simulation(#[from] SimError),
}
