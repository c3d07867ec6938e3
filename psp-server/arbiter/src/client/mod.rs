//! A server's side: asks the arbiter for cores, and hears which threads have which.
//!
//! ```text
//!   net thread                                            worker threads
//!     epoll ◄── Arbiter (a descriptor)                      Gate::block_until_core() ─ sleeps
//!     poll() ─► Granted { thread, core } ── Gate::open ──►    runs on the core
//!            ─► Recalled { release } ───── stop one ───────►  finishes its request, returns to the gate
//!     release(thread) ◄───────────────────────────────────    asleep
//! ```
//!
//! One thread owns the [`Arbiter`]. It waits for the descriptor beside its sockets, and polls when that is readable;
//! nothing here blocks, except for [`Arbiter::connect`]. Threads that are busy for long read the shared
//! [`Page`](crate::Page).
//!
//! When the arbiter dies, a server goes on with what it has. The client registers again by itself, and names the cores
//! that its threads have.

mod arbiter;
mod error;
mod gate;
mod link;

pub use arbiter::{Arbiter, ArbiterEvent};
pub use error::ConnectError;
pub use gate::Gate;
pub(crate) use link::open;
