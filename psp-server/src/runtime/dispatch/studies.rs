//! Studies that a scheduler asks for, each on a thread of its own that runs when no other thread wants its core.
//!
//! ```text
//!   net thread:  Scheduler::study ──► psp-study: SCHED_IDLE, any core
//!                Scheduler::conclude ◄── findings ──┘
//! ```
//!
//! Nobody waits for a study. One that still runs when the server ends goes on until it is done, or the process ends.

use std::thread::JoinHandle;

use psp_policy::{Findings, Study};

use crate::runtime::host::cores::Cores;
use crate::runtime::host::scheduling::Standing;

/// Name of the thread.
const NAME: &str = "psp-study";
/// For so many times as long as a study took, there is no other.
const REST: u64 = 9;
/// For how long there is none where the system has no thread.
const REFUSED_REST_NS: u64 = 10_000_000_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Studies {
    cores: Cores,
    running: Option<JoinHandle<Findings>>,
    began_ns: u64,
    next_ns: u64,
}

/// Nothing came of a study. The log says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed;

impl Studies {
    /// Studies that may run on all `cores`.
    pub(crate) const fn new(cores: Cores) -> Self {
        Self {
            cores,
            running: None,
            began_ns: 0,
            next_ns: 0,
        }
    }

    /// Whether another study may begin.
    pub(crate) const fn may_begin(&self, now_ns: u64) -> bool {
        self.running.is_none() && now_ns >= self.next_ns
    }

    /// Begins a study.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn begin(&mut self, now_ns: u64, study: Study) -> Result<(), Failed> {
        let cores = self.cores.clone();
        let body = move || {
            cores.unpin();
            if let Err(error) = Standing::of_this_thread().and_then(|own| own.suspend()) {
                tracing::debug!(%error, "cannot lower the priority of a study");
            }
            study.run()
        };
        self.began_ns = now_ns;
        let thread = std::thread::Builder::new().name(NAME.to_owned());
        match thread.spawn(body) {
            Ok(thread) => {
                self.running = Some(thread);
                Ok(())
            }
            Err(error) => {
                self.next_ns = now_ns.saturating_add(REFUSED_REST_NS);
                tracing::warn!(%error, "no thread for a study: the policy stays as it is");
                Err(Failed)
            }
        }
    }

    /// What came of the study that ran, if it has ended since the last call.
    pub(crate) fn ended(&mut self, now_ns: u64) -> Option<Result<Findings, Failed>> {
        let thread = self.running.take_if(|thread| thread.is_finished())?;
        let took_ns = now_ns - self.began_ns;
        self.next_ns = now_ns.saturating_add(took_ns.saturating_mul(REST));
        Some(match thread.join() {
            Ok(findings) => {
                tracing::info!(%findings, took_ms = took_ns / 1_000_000, "studied the workload");
                Ok(findings)
            }
            Err(_) => {
                tracing::error!("a study panicked: the policy stays as it is");
                Err(Failed)
            }
        })
    }
}
