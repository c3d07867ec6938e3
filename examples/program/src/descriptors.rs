//! File descriptors: one for each connection, and some for other uses.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;
use psp_server::ServerHandle;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors that are not connections, at least: listeners, event queues, standard streams.
const OTHERS_MIN: u64 = 32;
/// What a server opens as it begins to run, beside some for each worker.
const OPENED_LATER: usize = 16;
const OPENED_LATER_PER_WORKER: usize = 2;

/// Descriptors of this program's server that are not connections.
static OTHERS: AtomicU64 = AtomicU64::new(OTHERS_MIN);

fn others() -> u64 {
    OTHERS.load(Ordering::Relaxed)
}

/// Counts what a server of so many workers, which is about to run, has open and will open.
fn count_others(workers: usize) {
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let others = open + OPENED_LATER + OPENED_LATER_PER_WORKER * workers;
    OTHERS.fetch_max(others as u64, Ordering::Relaxed);
}

/// Raises the process's limit of open files for `connections`, as far as the system allows. Returns the
/// number of connections that the limit then allows, at most `connections`.
#[must_use]
pub fn make_room(connections: usize) -> usize {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(others());
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
        let before = limit.current.replace(raised);
        if setrlimit(Resource::Nofile, limit).is_err() {
            limit.current = before;
        }
    }
    let room = limit.current.map_or(u64::MAX, |current| current.saturating_sub(others()));
    connections.min(usize::try_from(room).unwrap_or(usize::MAX))
}

/// Checks that a server may have one connection at least. [`run`](crate::run) does the same; a program that opens files
/// before asks earlier.
///
/// # Errors
/// Names the limit of open files, and the least that a server needs.
pub fn require_room() -> anyhow::Result<()> {
    let has_room = make_room(1) > 0;
    ensure!(has_room, "{}: the server needs {} at least", limit(), others() + 1);
    Ok(())
}

/// The limit of open files, for errors.
pub(crate) fn limit() -> String {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    format!("the limit of open files (ulimit -n) is {limit}")
}

/// Makes room for the connections of `server`, which is about to run, as [`limit_connections`] does.
///
/// # Errors
/// See [`require_room`].
pub(crate) fn begin(server: &ServerHandle) -> anyhow::Result<()> {
    count_others(server.workers());
    limit_connections(server)
}

/// Makes room for the connections that `server` may have. If the system allows fewer, the server refuses those
/// beyond, in place of leaving them without an answer, and the log says so.
///
/// # Errors
/// See [`require_room`].
pub(crate) fn limit_connections(server: &ServerHandle) -> anyhow::Result<()> {
    require_room()?;
    let connections_max = server.connections_max();
    let room = make_room(connections_max);
    if room < connections_max {
        tracing::warn!("the limit of open files allows {room} of {connections_max} connections");
        server.set_connections_max(room);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_allows_some_connections_and_is_not_exceeded() {
        assert_eq!(make_room(1), 1);
        let room = make_room(usize::MAX);
        let limit = getrlimit(Resource::Nofile).current;
        assert!(limit.is_none_or(|limit| room as u64 + others() <= limit));
    }
}
