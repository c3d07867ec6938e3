//! Why there is no link to an arbiter.

use std::io;
use std::path::PathBuf;

use crate::protocol::Refusal;
use crate::registration::RegistrationError;

/// Why there is no link to an arbiter.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No arbiter listens there, or this user may not connect.
    #[error("cannot reach an arbiter at {path}: {source}")]
    Unreachable {
        /// The socket's path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The registration is wrong in itself.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The arbiter refuses the server.
    #[error("the arbiter refuses this server: {0}")]
    Refused(Refusal),
    /// The arbiter does not answer.
    #[error("the arbiter does not answer")]
    NoAnswer,
    /// A system call failed.
    #[error("cannot make a link to the arbiter: {0}")]
    System(#[from] io::Error),
}
