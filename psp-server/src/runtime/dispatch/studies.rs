//! Studies that a scheduler asks for, each on a thread of its own that runs when no other thread wants its core.
//!
//! ```text
//!   net thread:  Scheduler::study ──► psp-study: SCHED_IDLE, any core
//!                Scheduler::conclude ◄── findings ──┘
//! ```
//!
//! No thread waits for a study. One that still runs when the server ends goes on until it is done, or the process ends.

use std::thread::JoinHandle;

use psp_policy::internal::StudyPace;
use psp_policy::{Findings, Study};

use crate::runtime::host::cores::Cores;
use crate::runtime::host::scheduling::Standing;

/// Name of the thread.
const NAME: &str = "psp-study";

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Studies {
    cores: Cores,
    running: Option<JoinHandle<Findings>>,
    pace: StudyPace,
}

/// There was no thread for a study. The log says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

/// What came of a study.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// `None` if it panicked.
    pub(crate) findings: Option<Findings>,
    /// Whether the scheduler in force asked for it.
    pub(crate) is_wanted: bool,
}

impl Studies {
    /// Studies that may run on all `cores`.
    pub(crate) fn new(cores: Cores) -> Self {
        Self { cores, running: None, pace: StudyPace::default() }
    }

    /// Whether another study may begin.
    pub(crate) const fn may_begin(&self, now_ns: u64) -> bool {
        self.pace.may_begin(now_ns)
    }

    /// The scheduler that may have asked for a study is replaced.
    pub(crate) const fn scheduler_is_replaced(&mut self) {
        self.pace.is_replaced();
    }

    /// Begins a study.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn begin(&mut self, now_ns: u64, study: Study) -> Result<(), Refused> {
        let cores = self.cores.clone();
        let body = move || {
            cores.unpin();
            if let Err(error) = Standing::of_this_thread().and_then(|own| own.suspend()) {
                tracing::debug!(%error, "cannot lower the priority of a study");
            }
            study.run()
        };
        self.pace.begins(now_ns);
        let thread = std::thread::Builder::new().name(NAME.to_owned());
        match thread.spawn(body) {
            Ok(thread) => {
                self.running = Some(thread);
                Ok(())
            }
            Err(error) => {
                self.pace.refused(now_ns);
                tracing::warn!(%error, "no thread for a study: the policy stays as it is");
                Err(Refused)
            }
        }
    }

    /// What came of the study that ran, if it has ended since the last call.
    pub(crate) fn ended(&mut self, now_ns: u64) -> Option<Outcome> {
        let thread = self.running.take_if(|thread| thread.is_finished())?;
        let ended = self.pace.ends(now_ns);
        let findings = thread.join().ok();
        match &findings {
            Some(findings) => {
                let took_ms = ended.took_ns / 1_000_000;
                tracing::info!(%findings, took_ms, "studied the workload");
            }
            None => tracing::error!("a study panicked: the policy stays as it is"),
        }
        Some(Outcome { findings, is_wanted: ended.is_wanted })
    }
}
