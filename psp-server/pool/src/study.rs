//! Studies: computations that a policy asks for, such as the trials of `portfolio`. Each has a thread of its own, of
//! nice value 19.
//!
//! ```text
//!   a worker, between two tasks:  Scheduler::study ──► NAME-study ──┐
//!   the scheduler, under the lock:  Scheduler::conclude ◄───────────┘
//! ```
//!
//! No thread waits for a study. One that still runs when the pool ends goes on until it is done, or the process ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use psp_policy::Study;

use crate::shared::Shared;
use crate::system;

/// Begins a study.
#[cold]
pub(crate) fn begin(shared: &Arc<Shared>, study: Study) {
    let name = format!("{}-study", shared.threads.name);
    let pool = Arc::downgrade(shared);
    let body = move || {
        system::set_nice(system::NICE_MAX);
        // A study shares nothing with the scheduler.
        let findings = catch_unwind(AssertUnwindSafe(|| study.run())).ok();
        if let Some(shared) = pool.upgrade() {
            let now_ns = shared.now_ns();
            shared.change(|state, left| state.conclude(now_ns, findings.as_ref(), left));
        }
    };
    if std::thread::Builder::new().name(name).spawn(body).is_err() {
        let now_ns = shared.now_ns();
        shared.change(|state, left| state.study_is_refused(now_ns, left));
    }
}
