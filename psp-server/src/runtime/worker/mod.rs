//! A worker: takes a task, runs it, sends it back.
//!
//! | file | job |
//! | --- | --- |
//! | `setup.rs` | what a worker's threads start with |
//! | `notices.rs` | what workers tell at their start and their death |
//! | `executor.rs` | runs a task: the same code on a worker's thread and on the net thread |
//! | `spans.rs` | spans of the crate `tracing`, of some requests |
//! | `contexts.rs` | runs tasks on contexts, which yield to each other, and wait |
//! | `inline.rs` | runs tasks on contexts of the net thread |
//! | `thread_runner.rs` | runs tasks of net threads on threads that go from worker to worker |
//! | `threads.rs` | runs tasks on a team of threads, which the kernel preempts |

pub(crate) mod contexts;
pub(crate) mod executor;
pub(crate) mod inline;
pub(crate) mod notices;
pub(crate) mod setup;
mod spans;
pub(crate) mod thread_runner;
pub(crate) mod threads;
