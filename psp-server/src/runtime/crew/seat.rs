//! One worker's place among the others: what its net worker needs of them.

use std::sync::Arc;

use psp_policy::{RequestId, WorkerId};

use super::offers::Offers;
use super::shared_state::Crew;
use crate::runtime::carriers::CarrierNumber;

/// See the [module](self). `T` is what the workers run.
pub(crate) struct Seat<T> {
    me: WorkerId,
    crew: Arc<Crew>,
    /// Tasks that wait at any worker.
    offers: Arc<Offers<T>>,
    /// The worker has said that it has no connections left.
    has_left: bool,
}

impl<T> Seat<T> {
    pub(crate) const fn new(me: WorkerId, crew: Arc<Crew>, offers: Arc<Offers<T>>) -> Self {
        Self {
            me,
            crew,
            offers,
            has_left: false,
        }
    }

    /// Puts a task of the type at `slot`, which this worker received, where others find it.
    #[inline]
    pub(crate) fn offer(&self, slot: usize, request: RequestId, task: T) {
        self.offers.put(self.me, slot, request, task);
    }

    /// Takes the task of a request, whoever received it. `None` if it has begun: another turn of it follows. A worker that
    /// had no place left for the type is woken: more may wait for one there.
    #[inline]
    pub(crate) fn take(&self, request: RequestId) -> Option<T> {
        let (task, full) = self.offers.take(request)?;
        if let Some(receiver) = full.filter(|&receiver| receiver != self.me) {
            self.crew.wake(receiver);
        }
        Some(task)
    }

    /// The worker sleeps unless it finds something now.
    pub(crate) fn announce_sleep(&self) {
        self.crew.announce_sleep(self.me);
    }

    /// The worker is awake again.
    pub(crate) fn awake(&self) {
        self.crew.awake(self.me);
    }

    /// Whether the worker's turn has a quantum, so that what comes before it must be done by now.
    #[inline]
    pub(crate) fn may_give_way(&self) -> bool {
        self.quantum_end_ns().is_some()
    }

    /// The number of the thread that is to run the worker's turn, if that is none of the worker's own.
    #[inline]
    pub(crate) fn carrier(&self, request: RequestId, has_begun: bool) -> Option<CarrierNumber> {
        let moving = self.crew.moving()?;
        // What has neither begun nor a quantum has none.
        (has_begun || self.may_give_way())
            .then(|| moving.carrier_of(request))
            .flatten()
    }

    fn quantum_end_ns(&self) -> Option<u64> {
        let line = self.crew.line(self.me);
        Some(line.since_ns().saturating_add(line.quantum()?.ns))
    }

    /// The worker runs its turn now. `unserved` says that connections of it have something that it has not looked at.
    pub(crate) fn runs(&self, now_ns: u64, unserved: bool) {
        if let Some((prompter, end_ns)) = self.crew.prompter().zip(self.quantum_end_ns()) {
            prompter.begins(now_ns, self.me, end_ns, unserved);
        }
    }

    /// The worker drains and has no connections left. Returns whether no worker has: until then this one runs what
    /// others hand over.
    pub(crate) fn may_leave(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_left, true) {
            self.crew.leave();
        }
        self.crew.is_empty()
    }
}
