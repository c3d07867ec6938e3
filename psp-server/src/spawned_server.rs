//! A server on a thread of its own.

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use crate::error::RunError;
use crate::runtime::DrainReport;
use crate::shared::ServerHandle;

/// Name of the thread.
const NAME: &str = "psp-net";

type Ended = Result<DrainReport, RunError>;

/// A server that [`Server::spawn`](crate::Server::spawn) started. Dropping it shuts the server down and waits for its
/// end.
#[derive(Debug)]
pub struct SpawnedServer {
    local_addrs: Vec<SocketAddr>,
    unix_paths: Vec<PathBuf>,
    handle: ServerHandle,
    /// Taken by `join`, and by `drop`.
    thread: Option<JoinHandle<Ended>>,
}

impl SpawnedServer {
    /// Calls `serve` on a thread of its own, and returns when `serve` sends a message or fails.
    pub(crate) fn start(
        local_addrs: Vec<SocketAddr>,
        unix_paths: Vec<PathBuf>,
        handle: ServerHandle,
        serve: impl FnOnce(SyncSender<()>) -> Ended + Send + 'static,
    ) -> Result<Self, RunError> {
        let (ready, is_ready) = sync_channel(1);
        let spawned = Builder::new().name(NAME.into()).spawn(|| serve(ready));
        let thread = spawned.map_err(|source| RunError::Thread { name: NAME.into(), source })?;
        match is_ready.recv() {
            Ok(()) => Ok(Self { local_addrs, unix_paths, handle, thread: Some(thread) }),
            Err(_) => Err(end_of(thread).expect_err("a server that ends well was ready before")),
        }
    }

    /// The addresses that the server listens on, in the order of [`Server::local_addrs`](crate::Server::local_addrs).
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// The paths of the Unix sockets that the server listens on, as [`Server::unix_paths`](crate::Server::unix_paths).
    #[must_use]
    pub fn unix_paths(&self) -> &[PathBuf] {
        &self.unix_paths
    }

    /// A handle to the server's counters and limits.
    #[must_use]
    pub fn handle(&self) -> &ServerHandle {
        &self.handle
    }

    /// Asks the server to drain and end. Returns at once; [`join`](Self::join) waits.
    pub fn shut_down(&self) {
        self.handle.shut_down();
    }

    /// Waits until the server ends: after [`shut_down`](Self::shut_down), or by an error.
    ///
    /// # Errors
    /// When a worker died, or the event queue failed.
    ///
    /// # Panics
    /// When the server's thread panicked.
    pub fn join(mut self) -> Result<DrainReport, RunError> {
        end_of(self.thread.take().expect("only join takes the thread, once"))
    }
}

impl Drop for SpawnedServer {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.shut_down();
        match thread.join() {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!(%error, "the server ended"),
            Err(_) => tracing::error!("the server's thread panicked"),
        }
    }
}

/// How the thread ended. A panic goes on here.
fn end_of(thread: JoinHandle<Ended>) -> Ended {
    thread.join().unwrap_or_else(|payload| resume_unwind(payload))
}
