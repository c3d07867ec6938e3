//! Takes a worker's turn away from the carrier that has it.

use std::sync::Arc;

use psp_policy::WorkerId;

use super::carrier::Seat;
use super::pool::Carriers;
use crate::runtime::channel::preempter::Preempter;

/// Asks the request that runs on a worker to give way.
pub(crate) struct CarrierPreempter<T> {
    carriers: Arc<Carriers<T>>,
    worker: WorkerId,
}

impl<T> CarrierPreempter<T> {
    pub(crate) const fn new(carriers: Arc<Carriers<T>>, worker: WorkerId) -> Self {
        Self { carriers, worker }
    }
}

impl<T: Send> Preempter for CarrierPreempter<T> {
    fn preempt(&self, turn: u64) {
        let post = self.carriers.post(self.worker);
        if post.active.take_away(turn) {
            let seat = Seat::new(self.worker, turn);
            let carrier = self.carriers.carrier(post.carrier());
            // Another carrier may have the next turn by now, or this one.
            carrier.member.lower(|| carrier.seat() == seat);
            post.wake();
        } else if post.active.is_wanted() {
            // The worker's thread tells the request, which gives way at a checkpoint.
            post.wake();
        }
    }
}
