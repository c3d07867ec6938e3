//! The timer core: whom to preempt, and when (Synergy II-B, algorithm 3).
//!
//! A worker's timer runs while it runs a long request. When it expires and the worker's own queue is
//! empty, it is renewed for the same time; when somebody waits there, the worker is preempted. So
//! one who comes to a long request waits for the rest of some quantum.

use super::super::quanta::Quanta;
use super::super::running::Running;
use super::super::{Action, SchedulerSetup, WorkerId};

/// When a timer was armed, and for how long.
#[derive(Debug, Clone, Copy)]
struct Armed {
    at_ns: u64,
    quantum_ns: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Timer {
    quanta: Quanta,
    /// Whether those are left alone for whom nobody waits.
    conditional: bool,
    /// Per worker; `None` unless it runs a long request.
    armed: Vec<Option<Armed>>,
}

impl Timer {
    pub(super) fn new(setup: &SchedulerSetup<'_>, conditional: bool) -> Self {
        Self {
            quanta: Quanta::new(setup, u64::MAX),
            conditional,
            armed: vec![None; setup.workers],
        }
    }

    /// What runs on `worker`, a long request, begins or goes on. `waited_for` says whether its own queue
    /// has any more.
    pub(super) fn arm(
        &mut self,
        at_ns: u64,
        worker: WorkerId,
        running: &Running,
        quantum_ns: u64,
        waited_for: bool,
    ) {
        self.armed[worker.index()] = Some(Armed { at_ns, quantum_ns });
        self.quanta.start_for(at_ns, worker, running, quantum_ns);
        if !waited_for {
            self.queue_is_empty(worker);
        }
    }

    /// `worker` is idle.
    pub(super) fn disarm(&mut self, worker: WorkerId) {
        self.armed[worker.index()] = None;
        self.quanta.stop(worker);
    }

    /// The own queue of `worker` has its first request, as the timer has been renewed until now.
    pub(super) fn queue_begins(&mut self, now_ns: u64, worker: WorkerId, running: &Running) {
        if let Some(Armed { at_ns, quantum_ns }) = self.armed[worker.index()]
            && self.conditional
        {
            let left_ns = quantum_ns - now_ns.saturating_sub(at_ns) % quantum_ns;
            self.quanta.start_for(now_ns, worker, running, left_ns);
        }
    }

    /// The own queue of `worker` is empty.
    pub(super) fn queue_is_empty(&mut self, worker: WorkerId) {
        if self.conditional {
            self.quanta.spare(worker);
        }
    }

    /// Asks the worker to stop whose timer expired first.
    pub(super) fn preempt_next(&mut self, now_ns: u64, running: &mut Running) -> Option<Action> {
        self.quanta.preempt_next(now_ns, running)
    }

    /// When the next timer expires that matters.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.quanta.next_ns()
    }

    /// Takes over what runs; all timers have yet to be armed.
    pub(super) fn take_over(&mut self, now_ns: u64, running: &Running) {
        self.quanta.take_over(now_ns, running);
    }
}
