//! What workers tell the timer core.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use psp_policy::WorkerId;

use crate::runtime::host::shared_alarm::SharedAlarm;
use crate::runtime::host::timer_fd::TimerFd;

/// No timer is set.
const NEVER: u64 = u64::MAX;

/// What the timer core has to know of one worker's turn.
#[derive(Debug)]
struct Turn {
    /// The worker has read something that it has not looked at.
    unserved: AtomicBool,
    /// A request of it was woken meanwhile, or something came to its port.
    is_called: AtomicBool,
    /// When a timer of a request of it is due.
    due_ns: AtomicU64,
}

/// The workers' way to the timer core.
#[derive(Debug)]
pub(crate) struct Prompter {
    pub(super) alarm: SharedAlarm<TimerFd>,
    /// Per worker.
    turns: Box<[Turn]>,
    quantum_ns_min: u64,
    pub(super) is_over: AtomicBool,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            unserved: AtomicBool::new(false),
            is_called: AtomicBool::new(false),
            due_ns: AtomicU64::new(NEVER),
        }
    }
}

impl Prompter {
    /// For so many workers, and a mechanism with which quanta are no shorter than `quantum_ns_min`.
    ///
    /// # Errors
    /// When the system has no timer.
    pub(crate) fn new(workers: usize, quantum_ns_min: u64) -> io::Result<Self> {
        Ok(Self {
            alarm: SharedAlarm::new(TimerFd::new()?),
            turns: (0..workers).map(|_| Turn::default()).collect(),
            quantum_ns_min,
            is_over: AtomicBool::default(),
        })
    }

    pub(super) fn quantum_ns_min(&self) -> u64 {
        self.quantum_ns_min
    }

    /// Somebody waits for a worker that yields at the end of its quantum.
    pub(super) fn prompt(&self, now_ns: u64) {
        self.alarm.set(now_ns, now_ns);
    }

    /// `worker` is about to run a request that may yield. `unserved` says that it has read something that it has not
    /// looked at.
    pub(super) fn begins(&self, worker: WorkerId, unserved: bool) {
        let turn = &self.turns[worker.index()];
        turn.unserved.store(unserved, Ordering::Relaxed);
        turn.is_called.store(false, Ordering::Relaxed);
        turn.due_ns.store(NEVER, Ordering::Relaxed);
    }

    /// A timer of a request that waits for `worker` is due at `due_ns`, in the same turn.
    pub(super) fn expect(&self, worker: WorkerId, due_ns: u64) {
        let turn = &self.turns[worker.index()];
        turn.due_ns.store(due_ns, Ordering::Relaxed);
    }

    /// A request that `worker` alone can resume was woken, or another thread left something for its port, in a turn of
    /// another request or before.
    pub(super) fn note_call(&self, worker: WorkerId) {
        let turn = &self.turns[worker.index()];
        turn.is_called.store(true, Ordering::Relaxed);
    }

    /// The turn may yield at `end_ns`.
    pub(super) fn set_end(&self, now_ns: u64, end_ns: u64) {
        self.alarm.set(now_ns, end_ns);
    }

    /// As [`note_call`](Self::note_call), while the turn runs.
    pub(super) fn call(&self, worker: WorkerId) {
        self.note_call(worker);
        self.prompt(0);
    }

    /// Whether a request was woken since the turn of `worker` began.
    pub(super) fn is_called(&self, worker: WorkerId) -> bool {
        self.turns[worker.index()].is_called.load(Ordering::Relaxed)
    }

    /// Whether `worker` has read something that it has not looked at.
    pub(super) fn is_unserved(&self, worker: WorkerId) -> bool {
        self.turns[worker.index()].unserved.load(Ordering::Relaxed)
    }

    /// When a timer of a request is due that waits for `worker`.
    pub(super) fn due_ns(&self, worker: WorkerId) -> Option<u64> {
        let due_ns = self.turns[worker.index()].due_ns.load(Ordering::Relaxed);
        (due_ns != NEVER).then_some(due_ns)
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.alarm.set(0, 0);
    }
}
