//! Errors of building and running a server.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use psp_policy::{PolicyError, PreemptPolicy};

/// A server cannot be built from these settings, or cannot have these addresses.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No address to serve was given.
    #[error("no address to listen on: call tcp(), unix() or udp()")]
    NoAddress,
    /// A setting is out of its range.
    #[error("{setting} is {value}, it must be {expected}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        expected: String,
    },
    /// A setting that workers which receive for themselves cannot have.
    #[error("{setting} needs topology inline or dedicated: {reason}")]
    NotDistributed {
        /// The setting.
        setting: &'static str,
        /// Why they cannot have it.
        reason: &'static str,
    },
    /// Workers, contexts and stacks reserve too much address space together.
    #[error(
        "stack_bytes is {stack_bytes}: {workers} workers with contexts_per_worker = {contexts} reserve \
         {total} bytes, they may reserve at most {max}"
    )]
    Stacks {
        /// Number of workers.
        workers: usize,
        /// [`Config::contexts_per_worker`](crate::Config::contexts_per_worker).
        contexts: usize,
        /// [`Config::stack_bytes`](crate::Config::stack_bytes).
        stack_bytes: usize,
        /// The product, in bytes.
        total: u128,
        /// The largest product, in bytes.
        max: u64,
    },
    /// The datagrams of UDP sockets that may wait need too much memory.
    #[error(
        "datagram_bytes_max is {bytes_max}: the queues of all types hold {datagrams} datagrams, which take \
         {total} bytes; they may take at most {max}"
    )]
    Datagrams {
        /// [`Config::datagram_bytes_max`](crate::Config::datagram_bytes_max).
        bytes_max: usize,
        /// Datagrams that may wait or be in flight.
        datagrams: usize,
        /// Their buffers, in bytes.
        total: u128,
        /// The most that they may take, in bytes.
        max: u64,
    },
    /// This platform or this handler does not support a mechanism of preemption, or a type asks for a mechanism
    /// that the server does not have.
    #[error("preempt is {preempt}: {reason}")]
    Preempt {
        /// The mechanism.
        preempt: PreemptPolicy,
        /// Why the server does not have it.
        reason: String,
    },
    /// The server cannot ask an arbiter for cores.
    #[error("arbiter is {}: {reason}", path.display())]
    Arbiter {
        /// [`Config::arbiter`](crate::Config::arbiter).
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// The address of the [admin port](crate::Config::admin) could not be bound, or this build has no admin port.
    #[error("cannot listen on {address} for the admin port: {source}")]
    Admin {
        /// The address as given.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The token of the admin port could not be read, or is empty.
    #[error("cannot read the token of the admin port from {}: {source}", path.display())]
    AdminToken {
        /// [`Config::admin_token_file`](crate::Config::admin_token_file).
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The server cannot run the policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The request types are not well-formed.
    #[error(transparent)]
    Types(#[from] TypesError),
    /// The system has no event queue for the server.
    #[error("cannot make the event queue: {0}")]
    EventQueue(#[source] io::Error),
    /// The system has no waker for the event queue.
    #[error("cannot make the waker of the net thread: {0}")]
    Waker(#[source] io::Error),
    /// An address could not be bound.
    #[error("cannot listen on {transport} {address}: {source}")]
    Bind {
        /// `tcp` or `udp`.
        transport: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A Unix socket could not be bound: the error says whether another process listens on it.
    #[error("cannot listen on unix:{}: {source}", path.display())]
    BindUnix {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A socket that the builder was given cannot be used.
    #[error("cannot use a socket that was passed: {0}")]
    Adopt(#[source] io::Error),
    /// No service manager passed sockets, or not such that a server can serve: see
    /// [`ServerBuilder::listen_fds`](crate::ServerBuilder::listen_fds).
    #[error("cannot listen on sockets of a service manager: {0}")]
    ListenFds(String),
    /// The address could not be resolved.
    #[error("cannot resolve {address}: {source}")]
    Resolve {
        /// The address as given.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// A DPDK port cannot be opened.
    #[cfg(feature = "dpdk")]
    #[error("cannot listen through DPDK: {0}")]
    Dpdk(#[from] super::dpdk::DpdkError),
}

/// Request types that no server can have.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TypesError {
    /// There are no types.
    #[error("the classifier has no request types: call types(), or implement Classifier::types")]
    None,
    /// A type has no name.
    #[error("request type {index} has no name")]
    Unnamed {
        /// Its index.
        index: usize,
    },
    /// A configuration file has hints for a type that the classifier does not have.
    #[error("there is no request type {name}; the types are {}", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The names of the types.
        known: Vec<String>,
    },
    /// Two types have one name.
    #[error("two request types have the name {0}")]
    Duplicate(String),
    /// A setting of a type is out of its range.
    #[error("{setting} of type {name} is {value}, it must be {expected}")]
    Setting {
        /// Name of the type.
        name: String,
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        expected: String,
    },
    /// The types have more than all requests.
    #[error("share of all types together is {0}, it must be at most 1")]
    Shares(f64),
}

/// A server could not start, or stopped because of an error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A thread could not be started.
    #[error("cannot start thread {name}: {source}")]
    Thread {
        /// Name of the thread.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A worker could not start. No request was served.
    #[error("worker {worker} cannot start: {fault}")]
    WorkerStart {
        /// Index of the worker.
        worker: usize,
        /// The cause.
        fault: WorkerFault,
    },
    /// A worker died while the server ran. The requests that it held are lost.
    #[error("worker {worker} died: {fault}")]
    WorkerDied {
        /// Index of the worker.
        worker: usize,
        /// The cause.
        fault: WorkerFault,
    },
    /// The event queue failed.
    #[error("event queue: {0}")]
    Events(#[source] io::Error),
    /// Signals could not be registered.
    #[error("cannot watch for signals: {0}")]
    Signals(#[source] io::Error),
}

/// Why a worker cannot run requests.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WorkerFault {
    /// The handler could not make the worker's state.
    #[error("its state cannot be made: {0}")]
    State(#[source] Box<dyn Error + Send + Sync>),
    /// There is no memory for the worker's contexts.
    #[error("its stacks cannot be mapped: {0}")]
    Stacks(#[source] io::Error),
    /// A panic outside of [`Handler::handle`](crate::Handler::handle), such as one in
    /// [`Handler::init_worker`](crate::Handler::init_worker).
    #[error("panicked: {0}")]
    Panicked(String),
}
