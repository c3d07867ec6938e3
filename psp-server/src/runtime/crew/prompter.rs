//! What workers tell the timer core.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use psp_policy::WorkerId;

use crate::runtime::host::shared_alarm::SharedAlarm;
use crate::runtime::host::timer_fd::TimerFd;

/// The workers' way to the timer core.
#[derive(Debug)]
pub(crate) struct Prompter {
    pub(super) alarm: SharedAlarm<TimerFd>,
    /// Per worker: it has read something that it has not looked at.
    pub(super) unserved: Box<[AtomicBool]>,
    quantum_ns_min: u64,
    pub(super) is_over: AtomicBool,
}

impl Prompter {
    /// For so many workers, and a mechanism with which quanta are no shorter than `quantum_ns_min`.
    ///
    /// # Errors
    /// When the system has no timer.
    pub(crate) fn new(workers: usize, quantum_ns_min: u64) -> io::Result<Self> {
        Ok(Self {
            alarm: SharedAlarm::new(TimerFd::new()?),
            unserved: (0..workers).map(|_| AtomicBool::default()).collect(),
            quantum_ns_min,
            is_over: AtomicBool::default(),
        })
    }

    pub(super) fn quantum_ns_min(&self) -> u64 {
        self.quantum_ns_min
    }

    /// Somebody waits for a worker that gives way at the end of its quantum.
    pub(super) fn prompt(&self, now_ns: u64) {
        self.alarm.set(now_ns, now_ns);
    }

    /// `worker` is about to run a request that may give way at `end_ns`. `unserved` says that it has read something that
    /// it has not looked at.
    pub(super) fn begins(&self, now_ns: u64, worker: WorkerId, end_ns: u64, unserved: bool) {
        self.unserved[worker.index()].store(unserved, Ordering::Relaxed);
        self.alarm.set(now_ns, end_ns);
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.alarm.set(0, 0);
    }
}
