//! File descriptors: one for each connection, and some for other uses.

use psp_server::ServerHandle;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors that are not connections: listeners, the event queue, standard streams.
const OTHERS: u64 = 32;

/// Raises the process's limit of open files for `connections`, as far as the system allows. Returns the
/// number of connections that the limit then allows, at most `connections`.
#[must_use]
pub fn make_room(connections: usize) -> usize {
    let wanted = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_add(OTHERS);
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
        let before = limit.current.replace(raised);
        if setrlimit(Resource::Nofile, limit).is_err() {
            limit.current = before;
        }
    }
    let room = limit
        .current
        .map_or(u64::MAX, |current| current.saturating_sub(OTHERS));
    connections.min(usize::try_from(room).unwrap_or(usize::MAX))
}

/// Makes room for the connections that `server` may have. If the system allows fewer, the server refuses those
/// beyond, in place of leaving them without an answer, and the log says so.
pub(crate) fn limit_connections(server: &ServerHandle) {
    let connections_max = server.connections_max();
    let room = make_room(connections_max);
    if room < connections_max {
        tracing::warn!("the limit of open files allows {room} of {connections_max} connections");
        server.set_connections_max(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_allows_some_connections_and_is_not_exceeded() {
        assert_eq!(make_room(1), 1);
        let room = make_room(usize::MAX);
        let limit = getrlimit(Resource::Nofile).current;
        assert!(limit.is_none_or(|limit| room as u64 + OTHERS <= limit));
    }
}
