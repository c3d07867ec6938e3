//! Why a mechanism cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a mechanism cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MechanismError {
    /// The hierarchy is not mounted.
    #[error("no hierarchy of {0} is mounted here")]
    NotMounted(&'static str),
    /// The controller is not in the hierarchy.
    #[error("{path} does not name cpuset: it is disabled, or used by cgroup v1")]
    NoController {
        /// The file that lists controllers.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {doing} {path}: {source}{}", hint(.source))]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There are too few cores.
    #[error("{0} can be managed, but one stays for everything else: there must be at least 2 cores")]
    TooFewCores(String),
    /// The system says something that cannot be understood.
    #[error("{path} has '{text}', which is no set of cores")]
    Text {
        /// The file.
        path: PathBuf,
        /// Its contents.
        text: String,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " (run as root, or choose the mechanism affinity)"
        }
        _ => "",
    }
}
