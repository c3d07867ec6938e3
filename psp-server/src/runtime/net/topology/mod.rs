//! The net worker of each topology: the loop of its turn, and how its requests run.
//!
//! ```text
//!   inline        net worker ─┬─► worker 0, this thread      dedicated     net worker ──► workers 0 …
//!                             └─► workers 1 …                                └──────────► control requests
//!
//!   distributed   net worker ──► its worker, this thread ◄── offers, ports ──► others
//! ```
//!
//! Each owns a [`NetWorker`](super::net_worker::NetWorker), and beside it what only it has.

mod dedicated;
mod distributed;
mod inline;
mod stages;

pub(crate) use dedicated::Dedicated;
pub(crate) use distributed::Distributed;
pub(crate) use inline::Inline;
