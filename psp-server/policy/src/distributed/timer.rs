//! The timer core: which worker to preempt, and when (Synergy II-B, algorithm 3).
//!
//! A worker's timer runs while the worker runs a request with a quantum. When the timer expires and the worker's
//! own queue is empty, the timer is renewed for the same time; when a request waits there, the worker
//! is preempted. So a request that arrives behind a long one waits for the rest of one quantum. Where timers are not
//! renewed, a worker is preempted for the first request that comes behind an expired one.

use crate::distributed::local::Ways;
use crate::event::{Action, WorkerId};
use crate::parts::quanta::Quanta;
use crate::parts::running::Running;
use crate::setup::SchedulerSetup;

/// When a timer was armed, and for how long.
#[derive(Debug, Clone, Copy)]
struct Armed {
    at_ns: u64,
    quantum_ns: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Timer {
    quanta: Quanta,
    /// Whether a worker is left alone while its own queue is empty.
    conditional: bool,
    /// Whether a quantum that ends meanwhile is followed by another.
    renewed: bool,
    /// Per worker; `None` unless it runs a long request.
    armed: Vec<Option<Armed>>,
}

impl Timer {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, ways: &Ways) -> Self {
        Self {
            quanta: Quanta::new(setup, u64::MAX),
            conditional: ways.conditional,
            renewed: ways.renewed,
            armed: vec![None; setup.workers],
        }
    }

    /// What runs on `worker`, a long request, begins or goes on. `waited_for` says whether its own queue
    /// has any more.
    pub(crate) fn arm(&mut self, at_ns: u64, worker: WorkerId, running: &Running, quantum_ns: u64, waited_for: bool) {
        self.armed[worker.index()] = Some(Armed { at_ns, quantum_ns });
        self.quanta.start_for(at_ns, worker, running, quantum_ns);
        if !waited_for {
            self.queue_is_empty(worker);
        }
    }

    /// Whether `worker` runs what was long when it began.
    pub(crate) fn is_armed(&self, worker: WorkerId) -> bool {
        self.armed[worker.index()].is_some()
    }

    /// `worker` is idle.
    pub(crate) fn disarm(&mut self, worker: WorkerId) {
        self.armed[worker.index()] = None;
        self.quanta.stop(worker);
    }

    /// The own queue of `worker` has its first request, as the timer has been renewed until now.
    pub(crate) fn queue_begins(&mut self, now_ns: u64, worker: WorkerId, running: &Running) {
        if !(self.conditional && self.renewed) {
            self.quanta.expose(worker);
        } else if let Some(Armed { at_ns, quantum_ns }) = self.armed[worker.index()] {
            let left_ns = quantum_ns - now_ns.saturating_sub(at_ns) % quantum_ns;
            self.quanta.start_for(now_ns, worker, running, left_ns);
        }
    }

    /// The own queue of `worker` is empty.
    pub(crate) fn queue_is_empty(&mut self, worker: WorkerId) {
        if self.conditional {
            self.quanta.spare(worker);
        }
    }

    /// `worker` could run nothing else if it stopped: it is not asked to until its own queue begins.
    pub(crate) fn spare(&mut self, worker: WorkerId) {
        self.quanta.spare(worker);
    }

    /// Asks the worker to stop whose timer expired first.
    pub(crate) fn preempt_next(&mut self, now_ns: u64, running: &mut Running) -> Option<Action> {
        self.quanta.preempt_next(now_ns, running)
    }

    /// When the next timer expires that matters.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.quanta.next_ns()
    }

    /// Takes over what runs; all timers have yet to be armed.
    pub(crate) fn take_over(&mut self, now_ns: u64, running: &Running) {
        self.quanta.take_over(now_ns, running);
    }
}
