//! The threads of a server.
//!
//! ```text
//!  dedicated                                   inline
//!
//!  net thread: net worker + dispatcher         net thread: net worker + dispatcher + worker 0
//!     │  ▲                                        │  ▲
//!  SPSC rings, one pair a worker               SPSC rings, one pair a worker
//!     ▼  │                                        ▼  │
//!  worker 0 … worker N-1 (pinned)              worker 1 … worker N-1 (lower scheduling weight)
//! ```
//!
//! The net thread owns every socket, connection and queue. It lends a connection to the worker
//! that the policy picked and gets it back, so no two threads ever touch the same data.
//!
//! | room | job |
//! | --- | --- |
//! | `host/` | what the system offers: clock, cores, scheduling classes, an alarm |
//! | `channel/` | what passes between the net thread and a worker |
//! | `team/` | a worker of several kernel threads |
//! | `worker_link.rs` | the net thread's end of a channel |
//! | `task.rs` | what a worker is lent |
//! | `worker/` | runs tasks |
//! | `dispatch/` | classifies requests, drives the scheduler, asks requests to yield |
//! | `net/` | the net worker |
//! | `launch.rs` | starts and ends the threads |
//! | `receivers/` | the same for workers that receive for themselves |
//! | `distributed/` | how these run each other's requests |
//! | `request_threads/` | the threads of their requests that the kernel preempts |
//! | `start.rs` | what threads start with: an event queue and the sockets on which a thread receives |

pub(crate) mod channel;
pub(crate) mod dispatch;
mod distributed;
mod drain_report;
pub(crate) mod host;
mod launch;
pub(crate) mod net;
mod receivers;
mod request_threads;
#[cfg(all(test, not(loom)))]
mod simulation;
mod start;
pub(crate) mod task;
mod team;
pub(crate) mod worker;
pub(crate) mod worker_link;

pub use drain_report::DrainReport;
pub use host::scheduling::shorten_slice;
pub(crate) use launch::launch;
pub(crate) use start::{Launch, Port};
