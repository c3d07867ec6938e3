//! A pool of threads that runs tasks by their types, under any of psp's policies: for services that keep their own
//! runtime and transport.
//!
//! ```text
//!   any thread   run(type, closure)   ──► ┌ scheduler ┐ ──► worker 0   ──► Running<T>: a future
//!                spawn(type, future)  ──► │ (a lock)  │ ──► worker 1
//!                a waker              ──► └───────────┘ ──► ...
//!                                            ▲   a worker that has ended a task takes its next one here
//! ```
//!
//! There is no dispatcher thread. The scheduler is the same object that serves psp's servers, behind a lock: whoever
//! submits a task, wakes one, or has ended one asks it what runs next. A future that is pending has no worker; its
//! polls add up to one service time, which the policy learns from.
//!
//! ```
//! use psp_pool::{Pool, RequestType, TypeSpec};
//! use psp_pool::policy::Policy;
//!
//! const LOOK_UP: RequestType = RequestType::new(0);
//! const REPORT: RequestType = RequestType::new(1);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::builder()
//!     .types([TypeSpec::new("look-up"), TypeSpec::new("report")])
//!     .policy(Policy::darc())
//!     .workers(2)
//!     .build()?;
//! let report = pool.run(REPORT, || (0..1_000_000_u64).sum::<u64>());
//! let look_up = pool.run(LOOK_UP, || 7);
//! # futures_lite::future::block_on(async {
//! assert_eq!(look_up.await?, 7);
//! assert_eq!(report.await?, 499_999_500_000);
//! # Ok::<(), psp_pool::PoolError>(())
//! # })?;
//! # Ok(())
//! # }
//! ```
//!
//! - **Dropping** a [`Running`] cancels its task. One that has not begun is dropped at once, and leaves its place in
//!   the queue to others.
//! - **A full queue** refuses a task with [`PoolError::Busy`]. Each type has a queue of
//!   [its own capacity](TypeSpec::queue_capacity).
//! - **A panic** of a task goes on where its [`Running`] is awaited. The worker stays.
//! - **Preemption** is at [checkpoints](checkpoint()): a task that calls them yields where the policy asks for that,
//!   and goes on later. Any other has its worker until it ends, or its future is pending. A pool may
//!   [hand off](Builder::hand_off_after) tasks that run for too long.
//!
//! | file | job |
//! | --- | --- |
//! | `builder.rs` | what a pool is made of |
//! | `pool.rs` | takes tasks, changes the policy, ends |
//! | `running.rs` | the result of a task |
//! | `checkpoint.rs`, `here.rs` | where tasks yield, and what the calling thread does for a pool |
//! | `shared.rs` | the lock, and what is beside it |
//! | `bell.rs` | how workers wait for tasks |
//! | `sync.rs` | locks, for programs and for models |
//! | `job.rs` | what a task and its result share |
//! | `table.rs` | the tasks of a pool, by the scheduler's names for them |
//! | `vacant.rs` | names of tasks that were withdrawn while they waited |
//! | `pool_thread.rs`, `worker_threads.rs` | threads, and which of them serves which worker |
//! | `hand_off.rs`, `lengths.rs`, `waiting.rs` | tasks that run for too long while others wait |
//! | `timer.rs`, `tick.rs` | who sees to what happens by time alone, and when |
//! | `state` | the scheduler, its tasks and workers: everything behind the lock |
//! | `study.rs` | computations that a policy asks for |
//! | `worker.rs` | the life of a thread that serves workers |
//! | `system.rs` | how much of the processor threads get |
//! | `snapshot.rs` | counters |

mod bell;
mod builder;
mod checkpoint;
mod error;
mod hand_off;
mod here;
mod job;
mod lengths;
mod pool;
mod pool_thread;
mod running;
mod shared;
mod snapshot;
mod state;
mod study;
mod sync;
mod system;
mod table;
mod tick;
mod timer;
mod vacant;
mod waiting;
mod worker;
mod worker_threads;

/// Policies and their settings.
pub use psp_policy as policy;
pub use psp_policy::{RequestType, TypeSpec};

pub use builder::Builder;
pub use checkpoint::{checkpoint, is_cancelled, suspended};
pub use error::{BuildError, PolicyRefused, PoolError};
pub use pool::{DrainReport, Pool};
pub use running::Running;
pub use snapshot::{Snapshot, TypeSnapshot};
