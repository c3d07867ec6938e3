//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process' limit of open files, which the server inherits, to the hard limit. Returns
/// the limit.
///
/// # Panics
/// When the system refuses that.
pub fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("the soft limit may rise to the hard one");
    limit.maximum.map_or(usize::MAX, |maximum| maximum as usize)
}
