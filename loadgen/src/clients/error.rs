//! Why a run failed.

use std::io;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The first connection failed.
    #[error("cannot connect to {target}")]
    Connect {
        /// The target.
        target: String,
        /// Why.
        source: io::Error,
    },
    /// Another system call failed.
    #[error("the generator failed")]
    System(#[from] io::Error),
    /// The plan has a request that the target's protocol cannot carry.
    #[error("type `{type_name}` cannot be sent to {target}")]
    Mismatch {
        /// The type.
        type_name: String,
        /// The target.
        target: String,
    },
    /// The clients of a closed loop share types whose rates are all 0.
    #[error("no type has a rate above 0")]
    NoWeights,
}
