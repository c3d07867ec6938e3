//! Policies without a dispatcher: each worker decides for itself.
//!
//! ```text
//!   worker k        WorkerPolicy  ◄── its own queue (Mine), Board, Knowledge, Random
//!                       │ place, next, quantum, requeue
//!                       ▼
//!   all workers     Board         a line each: turn, quantum, what waits; read by the others and the timer core
//!   one for all     Feedback      measurements in, Knowledge out: lengths, reservations
//! ```
//!
//! Decisions are pure: time and chance are arguments, nothing allocates after the start, and what workers
//! share are [words](Word) that are read and written one by one. So the same objects serve worker threads, with
//! atomics, and the simulator and the property kit, with plain values: `adapter` drives all of them as
//! one [`Scheduler`](crate::Scheduler), in order of events.
//!
//! | part | job |
//! | --- | --- |
//! | `worker`, `lanes` | [`WorkerPolicy`]: the decisions, and what a worker finds for itself |
//! | `board`, `knowledge`, `word` | what workers share |
//! | `feedback` | [`Feedback`]: what all measurements together say |
//! | `local` | the objects of one policy |
//! | `adapter` | all workers as one scheduler |
//! | `watch`, `timer` | which worker is preempted, and when: by the board alone; and in the adapter |
//! | `congestion` | when the wait queue goes first |
//! | `receivers` | which worker receives each request, where flows are few |

pub(crate) mod adapter;
mod board;
mod congestion;
mod feedback;
pub(crate) mod knowledge;
mod lanes;
mod local;
mod random;
mod receivers;
mod timer;
mod watch;
mod word;
mod worker;

pub use board::{Board, Line, Quantum, Queue, Runs};
pub use congestion::Congestion;
#[cfg(test)]
pub(crate) use feedback::EmptySystem;
pub use feedback::{Feedback, InSystem, NoFeedback};
pub use knowledge::Knowledge;
pub use lanes::{LANES_MAX, LaneSet, lane_of};
pub use local::{AnyLocal, Local, Ways};
pub use random::Random;
pub use receivers::Receivers;
pub use watch::{Expired, Watch};
pub use word::{Live, Plain, Word};
pub use worker::{Look, Mine, Next, Requeue, WorkerPolicy};
