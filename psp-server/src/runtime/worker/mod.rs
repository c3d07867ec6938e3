//! A worker thread: takes a task, runs it, sends it back.
//!
//! | file | worker |
//! | --- | --- |
//! | `to_completion.rs` | runs each task to its end, on the thread's own stack |
//! | `contexts.rs` | runs tasks on contexts, which give way to each other |
//! | `threads.rs` | runs tasks on a team of threads, which are made to give way to each other |

mod contexts;
mod post;
mod threads;
mod to_completion;

pub(super) use contexts::{ContextPreempter, Desk, serve_on_contexts};
pub(super) use post::Post;
pub(super) use threads::serve_on_threads;
pub(super) use to_completion::serve_to_completion;
