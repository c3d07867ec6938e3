//! Threads that run a request each, for one worker after another: `kernel-thread` preemption where workers receive for
//! themselves.
//!
//! ```text
//!   worker 0's thread             request thread 3             worker 1's thread
//!     gives its turn ───────────► runs the request
//!     waits                         │ asked by the timer core
//!     goes on: Yielded ◄────────────┴─► SCHED_IDLE
//!                                       │
//!                                 pinned to worker 1's core ◄──  takes the request, gives its turn
//!                                 goes on with it                waits
//!                                 has ended ──────────────────►  goes on: Completed
//! ```
//!
//! A worker that receives for itself cannot become another thread, as a [team](super::team) does. So it stays, and
//! lends a *turn* to a request thread: as long as that has the turn it is the worker, runs the request and writes the
//! worker's counters, and the worker's thread sleeps. The worker's [`ActiveThread`](super::team::active_thread) names
//! one of the two, with the same moves as in a team, so that a request which ends at the instant of its preemption has
//! ended or yielded, never both. A request thread knows by its [word](request_thread) which worker's turn it has, or
//! had last.
//!
//! Preempted request threads have the lowest standing on their core, as in a team, and whatever is safe there is safe
//! here: locks, thread-local variables, the allocator. A request has the same thread until it ends. So any worker may
//! go on with it.
//!
//! | file | job |
//! | --- | --- |
//! | `request_thread.rs` | one thread: whose turn it has, and the way of a request to it |
//! | `turn_owner.rs` | one worker: who has its turn |
//! | `pool.rs` | all of them, and what a request thread does |
//! | `lending.rs` | what the thread of a worker does: lends a turn, and waits for its end |
//! | `preempter.rs` | takes a turn away |

mod lending;
#[cfg(all(test, loom))]
mod loom_tests;
mod pool;
mod preempter;
mod request_thread;
mod turn_owner;

pub(crate) use lending::{Lent, LentTurn};
pub(crate) use pool::RequestThreads;
pub(crate) use preempter::RequestThreadPreempter;
pub(crate) use request_thread::Readiness;
pub(crate) use turn_owner::RequestThreadNumber;
