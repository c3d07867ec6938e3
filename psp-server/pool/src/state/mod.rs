//! The scheduler, its tasks and workers: everything behind the lock.
//!
//! ```text
//!   submit, wake ──► Arrived, Unblocked ─┐                 ┌──► Run ──► the worker's next task ── wakes it
//!   a poll ends  ──► Completed, Blocked, ┼──► Scheduler ───┤
//!                    Yielded             │                 └──► Reject ──► refused
//!   time passes  ──► Tick ───────────────┘
//! ```
//!
//! A task that is [handed off](State::hand_off) is `Blocked` to the scheduler while it goes on. When it has ended it is
//! `Unblocked`, and its next turn is over as it begins.
//!
//! A task that [yields](State::yield_at_checkpoint) at a checkpoint has `Yielded`. Its next turn begins as the thread
//! that serves the worker then [hands it over](Next::HandedOver) to the task's own.
//!
//! What is refused or dropped leaves through [`Left`]: futures are dropped without the lock, as their destructors are
//! the user's.
//!
//! | file | job |
//! | --- | --- |
//! | `scheduling.rs` | the scheduler, and what follows from its decisions |
//! | `tasks.rs` | how tasks come, and how those go that will not run |
//! | `turns.rs` | what the threads do that serve workers |
//! | `time.rs` | what happens by time alone |
//! | `studying.rs` | studies that the scheduler asks for |
//! | `ending.rs` | the end of a pool |
//! | `parts.rs` | what the state is made of, and what it tells those who ask |

mod ending;
mod parts;
mod scheduling;
mod studying;
mod tasks;
mod time;
mod turns;

pub(crate) use parts::{Due, Left, Limits, Next, Polled, Turn, Way};
pub(crate) use scheduling::State;
