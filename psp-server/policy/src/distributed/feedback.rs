//! What all workers' measurements together say: central knowledge, off the path of requests.

use crate::distributed::board::Board;
use crate::distributed::knowledge::Knowledge;
use crate::distributed::word::Word;
use crate::event::{Sample, WorkerId};
use crate::request_type::RequestType;
use crate::scheduler::{Relief, TypeStatus};

/// What is in the system, as well as the driver can tell.
pub trait InSystem {
    /// How many requests of the type at `slot` wait, run or are blocked.
    fn requests(&self, slot: usize) -> u64;
    /// For how long the oldest waiting request of the type has waited, in nanoseconds.
    fn waited_ns(&self, slot: usize) -> u64;
}

/// Makes [`Knowledge`] of measurements. On live servers a slow thread feeds it every few milliseconds with what the
/// workers collected; in the simulator it sees each sample at once.
pub trait Feedback<C: Word>: Send {
    /// Adds what a worker measured of the type at `slot`.
    fn record(&mut self, slot: usize, sample: &Sample) {
        let _ = (slot, sample);
    }

    /// So many requests of the type at `slot` began on `worker`, of which one had waited for this long and none for
    /// longer.
    fn began(&mut self, slot: usize, worker: WorkerId, requests: u64, waited_ns_max: u64) {
        let _ = (slot, worker, requests, waited_ns_max);
    }

    /// Time passes. Publishes what changed, and returns whether requests may wait where they must not run: each
    /// worker then [places](super::WorkerPolicy::place) what waits in its queue again.
    fn passes(&mut self, now_ns: u64, in_system: &dyn InSystem, knowledge: &Knowledge<C>) -> bool {
        let _ = (now_ns, in_system, knowledge);
        false
    }

    /// Names an idle worker for each group of types whose own are all [stuck](crate::Scheduler::relief). Returns when
    /// others will be. The board shows what runs. Not before the worker has taken a request is another one
    /// named, so that no two take one at a time.
    fn relieve(&mut self, now_ns: u64, board: &Board<C>, knowledge: &Knowledge<C>) -> Option<u64> {
        let _ = (now_ns, board, knowledge);
        None
    }

    /// As [`Scheduler::relief`](crate::Scheduler::relief).
    fn relief(&self, now_ns: u64, board: &Board<C>, slot: usize) -> Relief {
        let _ = (now_ns, board, slot);
        Relief::NotNeeded
    }

    /// Workers `0..present` are present from now on. Publishes what changed, and returns whether a worker may have
    /// other rights than before to what it runs.
    fn set_present(&mut self, present: u32, knowledge: &Knowledge<C>) -> bool {
        let _ = (present, knowledge);
        false
    }

    /// What is known of the type at `slot`; nothing of queues.
    fn type_status(&self, slot: usize) -> TypeStatus {
        let _ = slot;
        TypeStatus::default()
    }

    /// As [`Scheduler::same_run`](crate::Scheduler::same_run).
    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        first == next
    }

    /// How often workers were reserved.
    fn reservation_updates(&self) -> u64 {
        0
    }
}

/// For policies that know nothing of types.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFeedback;

impl<C: Word> Feedback<C> for NoFeedback {}

/// A system in which nothing is, for tests.
#[cfg(test)]
pub(crate) struct EmptySystem;

#[cfg(test)]
impl InSystem for EmptySystem {
    fn requests(&self, _slot: usize) -> u64 {
        0
    }

    fn waited_ns(&self, _slot: usize) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::Plain;

    #[test]
    fn without_feedback_nothing_changes_and_equals_alone_travel_together() {
        let knowledge = Knowledge::<Plain>::new(1, 1);
        assert!(!NoFeedback.passes(0, &EmptySystem, &knowledge));
        let same = |first, next| {
            let [first, next] = [first, next].map(RequestType::new);
            Feedback::<Plain>::same_run(&NoFeedback, first, next)
        };
        assert_eq!([same(0, 0), same(0, 1)], [true, false]);
        assert_eq!(Feedback::<Plain>::reservation_updates(&NoFeedback), 0);
    }
}
