//! The servers that Gather asks: for each a pool of connections, and a runtime of tokio for their sockets.
//!
//! ```text
//!   worker: Gather ─ wait ─ polls ─┬► pool of upstream 0 ─► connection ─► socket ─┐
//!              ▲                   └► pool of upstream 1 ─► connection ─► socket ─┤
//!              └──────────────── wakes ─────────── runtime: one thread ◄── epoll ─┘
//! ```
//!
//! Requests poll their own calls, on their workers. The runtime's thread does nothing but see which sockets are ready.

mod connection;
mod pool;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psp_protocols::rpc::{Failure, Status};
use psp_server::task;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::config::UpstreamConfig;
use pool::Pool;

/// What all upstreams are asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The method's name.
    pub method: &'a str,
    /// The method's own message.
    pub payload: &'a [u8],
    /// For how long an upstream may take; none is asked for longer than
    /// [`timeout_ms`](UpstreamConfig::timeout_ms).
    pub time_max: Duration,
}

/// The payload of an upstream's response, or why there is none.
pub type Outcome = Result<Vec<u8>, Failure>;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Upstreams {
    pools: Vec<Pool>,
    timeout: Duration,
    /// `None` without upstreams.
    runtime: Option<Runtime>,
}

impl Upstreams {
    /// Connects to none of them yet: connections are made when calls need them. Messages have at most `message_len_max`
    /// bytes.
    ///
    /// # Errors
    /// When the runtime's thread cannot be started.
    pub fn new(config: &UpstreamConfig, message_len_max: u32) -> io::Result<Self> {
        let pool = |&address| Pool::new(address, config.connections_max, message_len_max);
        let runtime = || {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(1).thread_name("upstreams");
            builder.enable_io().build()
        };
        Ok(Self {
            pools: config.addresses.iter().map(pool).collect(),
            timeout: Duration::from_millis(config.timeout_ms),
            runtime: (!config.addresses.is_empty()).then(runtime).transpose()?,
        })
    }

    /// The runtime within which requests have to poll.
    #[must_use]
    pub fn runtime(&self) -> Option<&Handle> {
        self.runtime.as_ref().map(Runtime::handle)
    }

    /// The addresses, in the order of the configuration.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = SocketAddr> {
        self.pools.iter().map(Pool::address)
    }

    /// Asks all upstreams at once, and returns when each has answered, failed, or had its time. If the future is
    /// dropped before, the upstreams see that their client has gone.
    pub async fn ask_all(&self, question: Question<'_>) -> Vec<Outcome> {
        let time = question.time_max.min(self.timeout);
        let until = Instant::now() + time;
        let pools = self.pools.iter();
        task::join_all(pools.map(|pool| ask_within(time, pool.call(question, until)))).await
    }
}

async fn ask_within(time: Duration, call: impl Future<Output = Outcome>) -> Outcome {
    task::timeout(time, call).await.unwrap_or_else(|_| {
        let error = format!("no answer within {} us", time.as_micros());
        Err(Failure::new(Status::DeadlineExceeded, error))
    })
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        // It has nothing left to do that would be worth waiting for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
