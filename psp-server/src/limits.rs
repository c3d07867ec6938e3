//! Limits that settings and the runtime have in common.

/// Threads of a worker that the kernel preempts, where one context is one thread.
pub(crate) const TEAM_THREADS_MAX: usize = 64;

/// Connections have indices below this. The rest of the range of
/// [`RequestId`](psp_policy::RequestId)s is for datagrams.
pub(crate) const CONNECTION_INDEX_LIMIT: u32 = 1 << 30;

/// Replies that a connection may owe, deferred ones or those of requests that run at once, if they name their requests.
pub(crate) const OWED_MAX: usize = 64;

/// Workers of a server. Each has a thread, and counters for each request type.
pub(crate) const WORKERS_MAX: usize = 1024;

/// Requests that may wait in one typed queue.
pub(crate) const QUEUE_CAPACITY_MAX: usize = 1 << 20;

/// Address space of the stacks of all contexts of all workers, in bytes.
pub(crate) const STACK_BYTES_TOTAL_MAX: u64 = 1 << 40;

/// Buffers of the datagrams of all sockets, in bytes.
pub(crate) const DATAGRAM_BYTES_TOTAL_MAX: u64 = 1 << 34;
