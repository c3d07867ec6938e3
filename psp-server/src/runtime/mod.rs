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

mod alarm;
pub(crate) mod channel;
pub(crate) mod clock;
mod connections;
pub(crate) mod cores;
pub(crate) mod dispatcher;
mod executor;
mod intake;
pub(crate) mod late_waker;
#[cfg(all(test, not(loom)))]
mod late_workers;
mod net_worker;
pub(crate) mod policy_mailbox;
mod scheduling;
pub(crate) mod shared;
mod sleep_flag;
mod spin;
#[cfg(feature = "dpdk")]
pub(crate) mod stages;
mod start;
mod task;
mod team;
mod turn_start;
mod turns;
mod worker;

pub(crate) use net_worker::WAKER;
pub use scheduling::shorten_slice;
pub(crate) use start::{Launch, launch};
pub(crate) use team::SEATS_MAX;
