//! What can go wrong with a server as a whole.

use std::io;
use std::net::SocketAddr;

/// A server cannot be built from these settings, or cannot have these addresses.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No address to serve was given.
    #[error("no address to listen on: call tcp() or udp()")]
    NoAddress,
    /// A setting is out of its range.
    #[error("{setting}: {reason}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// An address could not be bound.
    #[error("cannot listen on {transport} {address}: {source}")]
    Bind {
        /// `tcp` or `udp`.
        transport: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The address could not be resolved.
    #[error("cannot resolve {address}: {source}")]
    Resolve {
        /// The address as given.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A port of DPDK cannot be had.
    #[cfg(feature = "dpdk")]
    #[error("cannot listen through DPDK: {0}")]
    Dpdk(#[from] crate::dpdk::DpdkError),
}

/// A server could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A thread could not be started.
    #[error("cannot start thread {name}: {source}")]
    Thread {
        /// Name of the thread.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The event queue failed.
    #[error("event queue: {0}")]
    Events(#[source] io::Error),
    /// There is no memory for the contexts of a worker.
    #[error("cannot make the stacks of a worker: {0}")]
    Stacks(#[source] io::Error),
    /// Signals could not be registered.
    #[error("cannot watch for signals: {0}")]
    Signals(#[source] io::Error),
}
