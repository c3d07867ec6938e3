//! What a task, its result and the pool share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use psp_policy::{RequestId, RequestType};

/// The pool has no name for it yet.
const NAMELESS: u32 = u32::MAX;
/// It may begin at any time.
const NEVER: u64 = u64::MAX;

/// Why a task will not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It may run yet, or has run.
    Open = 0,
    /// The queue of its type was full.
    Busy = 1,
    /// Its turn came too late.
    Expired = 2,
    /// The pool has ended.
    Closed = 3,
    /// No caller waits for its result.
    Cancelled = 4,
}

const FATES: [Fate; 5] = [Fate::Open, Fate::Busy, Fate::Expired, Fate::Closed, Fate::Cancelled];

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request_type: RequestType,
    name: AtomicU32,
    deadline_ns: AtomicU64,
    fate: AtomicU8,
    /// Its future is gone.
    is_over: AtomicBool,
    has_panicked: AtomicBool,
}

impl Job {
    pub(crate) fn new(request_type: RequestType) -> Self {
        Self {
            request_type,
            name: AtomicU32::new(NAMELESS),
            deadline_ns: AtomicU64::new(NEVER),
            fate: AtomicU8::new(Fate::Open as u8),
            is_over: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
        }
    }

    /// The scheduler's name for it. Read and written under the pool's lock.
    pub(crate) fn name(&self) -> Option<RequestId> {
        let name = self.name.load(Ordering::Relaxed);
        (name != NAMELESS).then_some(RequestId(name))
    }

    pub(crate) fn set_name(&self, name: RequestId) {
        self.name.store(name.0, Ordering::Relaxed);
    }

    /// When it shall have begun at the latest, on the pool's clock.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.deadline_ns.load(Ordering::Relaxed)
    }

    /// It shall have begun by then, or by an earlier time that was set before.
    pub(crate) fn begin_by(&self, deadline_ns: u64) {
        self.deadline_ns.fetch_min(deadline_ns, Ordering::Relaxed);
    }

    pub(crate) fn fate(&self) -> Fate {
        FATES[self.fate.load(Ordering::Acquire) as usize]
    }

    /// Decides its fate, if that is open.
    pub(crate) fn decide(&self, fate: Fate) {
        let (order, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let open = Fate::Open as u8;
        let _ = self.fate.compare_exchange(open, fate as u8, order, failure);
    }

    /// Whether its future is gone: it has returned, has panicked, or was cancelled.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::Relaxed)
    }
}

/// Lies within the future of a task. Says when that is gone, and whether by a panic.
pub(crate) struct Within(pub(crate) Arc<Job>);

impl Drop for Within {
    fn drop(&mut self) {
        let Self(job) = self;
        let has_panicked = std::thread::panicking();
        job.has_panicked.store(has_panicked, Ordering::Relaxed);
        job.is_over.store(true, Ordering::Release);
    }
}
