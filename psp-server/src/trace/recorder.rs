//! What the threads of a server record while a trace is made.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::fmt;
use std::sync::OnceLock;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use psp_policy::{HandOff, RequestId, WorkerId};
use psp_trace::{Event, Kind};

use super::ring::Ring;

/// Events of all rings together.
const EVENTS_MAX: usize = 1 << 20;
/// Events of one ring.
const RING_MIN: usize = if cfg!(loom) { 2 } else { 1 << 9 };
pub(super) const RING_MAX: usize = if cfg!(loom) { 2 } else { 1 << 17 };

/// No trace is made.
pub(super) const OFF: u64 = 0;

type Now = Box<dyn Fn() -> u64 + Send + Sync>;

/// The rings of a server's threads, and the trace that is made, if one is.
pub(crate) struct Trace {
    /// Number of the trace that is made, or [`OFF`].
    pub(super) session: AtomicU64,
    /// Somebody makes a trace.
    pub(super) is_taken: AtomicBool,
    /// Number of the last trace.
    pub(super) last: AtomicU64,
    /// Those of the receivers, of the workers and of the timer core, in this order.
    pub(super) rings: Box<[Ring]>,
    receivers: usize,
    /// The clock of the server's threads, once it runs.
    pub(super) clock: OnceLock<Now>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Trace").finish_non_exhaustive()
    }
}

/// What happens to a request on a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) worker: WorkerId,
    pub(crate) request: RequestId,
    /// Slot of its type.
    pub(crate) slot: usize,
}

impl Trace {
    /// For so many threads that receive, and workers.
    pub(crate) fn new(receivers: usize, workers: usize) -> Self {
        let rings = receivers + workers + 1;
        let len = (EVENTS_MAX / rings).clamp(RING_MIN, RING_MAX);
        Self {
            session: AtomicU64::new(OFF),
            is_taken: AtomicBool::new(false),
            last: AtomicU64::new(OFF),
            rings: (0..rings).map(|_| Ring::new(len)).collect(),
            receivers,
            clock: OnceLock::new(),
        }
    }

    /// The server runs by this clock.
    pub(crate) fn run_by(&self, now: impl Fn() -> u64 + Send + Sync + 'static) {
        // A server runs once.
        let _ = self.clock.set(Box::new(now));
    }

    fn worker_ring(&self, worker: WorkerId) -> usize {
        self.receivers + worker.index()
    }

    /// Records an event in a ring of the calling thread, if a trace is made.
    #[inline]
    fn record(&self, ring: impl FnOnce(&Self) -> usize, event: impl FnOnce(&Now) -> Event) {
        if self.session.load(Ordering::Relaxed) != OFF {
            self.record_in(ring(self), event);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_in(&self, ring: usize, event: impl FnOnce(&Now) -> Event) {
        // With the room that was made before.
        let session = self.session.load(Ordering::Acquire);
        if let Some((ring, now)) = self.rings.get(ring).zip(self.clock.get())
            && session != OFF
        {
            ring.push(session, event(now).to_words());
        }
    }

    #[inline]
    fn record_of_receiver(&self, kind: Kind, receiver: usize, request: RequestId, slot: usize) {
        self.record(|_| receiver, |now| event(now(), kind, request, slot, WorkerId(0), 0));
    }

    /// A receiver has a request.
    #[inline]
    pub(crate) fn arrived(&self, receiver: usize, request: RequestId, slot: usize) {
        self.record_of_receiver(Kind::Arrived, receiver, request, slot);
    }

    /// A receiver heard that a request was woken.
    #[inline]
    pub(crate) fn woken(&self, receiver: usize, request: RequestId, slot: usize) {
        self.record_of_receiver(Kind::Woken, receiver, request, slot);
    }

    /// A receiver refused a request.
    #[inline]
    pub(crate) fn rejected(&self, receiver: usize, request: RequestId, slot: usize) {
        self.record_of_receiver(Kind::Rejected, receiver, request, slot);
    }

    /// A receiver does not run a request.
    #[inline]
    pub(crate) fn dropped(&self, receiver: usize, request: RequestId, slot: usize) {
        self.record_of_receiver(Kind::Dropped, receiver, request, slot);
    }

    /// A worker, which is that receiver, takes a request from another one.
    #[inline]
    pub(crate) fn taken(&self, receiver: usize, turn: Turn, hand_off: HandOff) {
        let kind = match hand_off {
            HandOff::Stolen => Kind::Stolen,
            HandOff::HandedOver => Kind::HandedOver,
            HandOff::Own | HandOff::Dispatched => return,
        };
        let Turn { worker, request, slot } = turn;
        self.record(|_| receiver, |now| event(now(), kind, request, slot, worker, 0));
    }

    /// A receiver asks the request on a worker to yield.
    #[inline]
    pub(crate) fn asked(&self, receiver: usize, worker: WorkerId) {
        self.record(|_| receiver, |now| event(now(), Kind::Asked, RequestId(0), 0, worker, 0));
    }

    /// The timer core asks the request on a worker to yield.
    #[inline]
    pub(crate) fn asked_by_timer(&self, worker: WorkerId) {
        self.record(|trace| trace.rings.len() - 1, |now| event(now(), Kind::Asked, RequestId(0), 0, worker, 0));
    }

    #[inline]
    fn record_turn(&self, kind: Kind, at_ns: u64, turn: Turn, count: usize) {
        let Turn { worker, request, slot } = turn;
        self.record(|trace| trace.worker_ring(worker), |_| event(at_ns, kind, request, slot, worker, count));
    }

    /// A turn began, of a run of so many requests. To be called on the thread that is the worker.
    #[inline]
    pub(crate) fn begun(&self, at_ns: u64, turn: Turn, requests: usize) {
        self.record_turn(Kind::Begun, at_ns, turn, requests);
    }

    /// It ended with the run, with so many replies. To be called there, too.
    #[inline]
    pub(crate) fn completed(&self, at_ns: u64, turn: Turn, replies: usize) {
        self.record_turn(Kind::Completed, at_ns, turn, replies);
    }

    /// It ended because the request yielded.
    #[inline]
    pub(crate) fn yielded(&self, at_ns: u64, turn: Turn) {
        self.record_turn(Kind::Yielded, at_ns, turn, 0);
    }

    /// It ended because the request waits for something else.
    #[inline]
    pub(crate) fn blocked(&self, at_ns: u64, turn: Turn) {
        self.record_turn(Kind::Blocked, at_ns, turn, 0);
    }
}

fn event(at_ns: u64, kind: Kind, request: RequestId, slot: usize, worker: WorkerId, count: usize) -> Event {
    let short = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    Event {
        at_ns,
        kind,
        request: request.0,
        slot: short(slot),
        worker: short(worker.index()),
        count: short(count),
    }
}
