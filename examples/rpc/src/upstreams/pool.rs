//! The connections to one upstream: at most so many, each for one call at a time.
//!
//! psp runs the requests of a connection one after the other. A call that shared its connection would wait for the
//! calls before it.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use psp_protocols::rpc::{Failure, Rpc, Status};
use tokio::sync::Semaphore;

use super::connection::Connection;
use super::{Outcome, Question};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pool {
    address: SocketAddr,
    framing: Rpc,
    /// One for each connection that there may be. Calls get them in order.
    places: Semaphore,
    /// Connections without a call; the last was used last.
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) fn new(address: SocketAddr, connections_max: usize, message_len_max: u32) -> Self {
        Self {
            address,
            framing: Rpc::default().message_len_max(message_len_max),
            places: Semaphore::new(connections_max),
            idle: Mutex::default(),
        }
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a connection, sends the request with the time that is left `until` then as its deadline, and waits for
    /// the response. If this is dropped before, the connection is closed: the upstream sees that its client has gone.
    pub(super) async fn call(&self, question: Question<'_>, until: Instant) -> Outcome {
        let place = self.places.acquire().await;
        let _place = place.expect("the semaphore is never closed");
        let mut connection = match self.idle_connection() {
            Some(connection) => connection,
            None => Connection::open(self.address).await.map_err(unavailable)?,
        };
        let response = connection.call(&self.framing, question, until).await?;
        if response.is_last {
            drop(connection);
        } else {
            self.lock().push(connection);
        }
        response.outcome
    }

    /// An idle connection that the upstream has not closed.
    fn idle_connection(&self) -> Option<Connection> {
        let mut idle = self.lock();
        std::iter::from_fn(|| idle.pop()).find(Connection::is_open)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failure of a connection.
pub(super) fn unavailable(error: impl std::fmt::Display) -> Failure {
    Failure::new(Status::Unavailable, error.to_string())
}
