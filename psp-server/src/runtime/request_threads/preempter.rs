//! Takes a worker's turn away from the request thread that has it.

use std::sync::Arc;

use psp_policy::WorkerId;

use super::pool::RequestThreads;
use super::request_thread::WorkerTurn;
use crate::runtime::channel::preempter::Preempter;

/// Asks the request that runs on a worker to yield.
pub(crate) struct RequestThreadPreempter<T> {
    request_threads: Arc<RequestThreads<T>>,
    worker: WorkerId,
}

impl<T> RequestThreadPreempter<T> {
    pub(crate) const fn new(request_threads: Arc<RequestThreads<T>>, worker: WorkerId) -> Self {
        Self { request_threads, worker }
    }
}

impl<T: Send> Preempter for RequestThreadPreempter<T> {
    fn preempt(&self, turn: u64) {
        let owner = self.request_threads.owner(self.worker);
        if owner.active.take_away(turn) {
            let at = WorkerTurn::new(self.worker, turn);
            let thread = self.request_threads.request_thread(owner.request_thread());
            // Another request thread may have the next turn by now, or this one.
            thread.member.lower(|| thread.worker_turn() == at);
            owner.wake();
        } else if owner.active.is_wanted() {
            // The worker's thread tells the request, which yields at a checkpoint.
            owner.wake();
        }
    }
}
