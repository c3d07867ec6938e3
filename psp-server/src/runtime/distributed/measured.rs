//! What each worker measures, for feedback to read: counts from the start, which the worker alone writes.

use std::sync::atomic::{AtomicU64, Ordering};

use psp_policy::Sample;

/// What one worker measured of one type, from the start. One thread writes it.
#[derive(Debug, Default)]
struct Counts {
    completed: AtomicU64,
    service_ns: AtomicU64,
    begun: AtomicU64,
    blocked: AtomicU64,
    /// The longest wait of a request that began since the last pass.
    waited_ns_max: AtomicU64,
}

/// What one worker measured.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Measured {
    types: Box<[Counts]>,
}

fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Measured {
    pub(super) fn new(slots: usize) -> Self {
        Self { types: (0..slots).map(|_| Counts::default()).collect() }
    }

    /// A request has begun that had waited for so long.
    pub(super) fn begun(&self, slot: usize, waited_ns: u64) {
        let counts = &self.types[slot];
        add(&counts.begun, 1);
        if waited_ns > counts.waited_ns_max.load(Ordering::Relaxed) {
            counts.waited_ns_max.store(waited_ns, Ordering::Relaxed);
        }
    }

    /// Requests have ended.
    pub(super) fn completed(&self, slot: usize, sample: &Sample) {
        let counts = &self.types[slot];
        add(&counts.completed, sample.count.into());
        add(&counts.service_ns, sample.service_ns);
    }

    /// One more request is blocked.
    pub(super) fn blocked(&self, slot: usize) {
        add(&self.types[slot].blocked, 1);
    }

    /// A request is blocked no longer.
    pub(super) fn unblocked(&self, slot: usize) {
        add(&self.types[slot].blocked, u64::MAX);
    }

    /// How many requests are blocked.
    pub(super) fn blocked_now(&self, slot: usize) -> u64 {
        self.types[slot].blocked.load(Ordering::Relaxed)
    }

    /// What has come until now.
    pub(super) fn seen(&self, slot: usize) -> Seen {
        let counts = &self.types[slot];
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Seen {
            completed: load(&counts.completed),
            service_ns: load(&counts.service_ns),
            begun: load(&counts.begun),
        }
    }

    /// The longest wait of a request that began since the last call.
    pub(super) fn take_longest_wait_ns(&self, slot: usize) -> u64 {
        self.types[slot].waited_ns_max.swap(0, Ordering::Relaxed)
    }
}

/// The counts of one worker and one type at some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) completed: u64,
    pub(super) service_ns: u64,
    pub(super) begun: u64,
}
