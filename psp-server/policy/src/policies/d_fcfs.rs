//! d-FCFS: one queue per worker. Each request joins one at random, as receive-side scaling spreads
//! them. A worker never takes from another's queue.

use crate::distributed::adapter::Distributed;
use crate::distributed::{LaneSet, Local, Look, Next, NoFeedback, Plain, Word, WorkerPolicy};
use crate::setup::SchedulerSetup;

/// See the [module](self).
#[derive(Debug, Clone, Copy)]
pub(crate) struct DFcfs;

impl<C: Word> WorkerPolicy<C> for DFcfs {
    fn next(&mut self, look: &mut Look<'_, C>) -> Next {
        if look.mine.own().is_empty() {
            Next::Nothing
        } else {
            Next::Own(LaneSet::ALL)
        }
    }

    fn looks_elsewhere(&self) -> bool {
        false
    }
}

/// The objects of all workers.
pub(crate) fn local<C: Word>(setup: &SchedulerSetup<'_>) -> Local<C, DFcfs, NoFeedback> {
    Local::new(setup, |_| NoFeedback, || DFcfs)
}

/// All workers as one scheduler.
pub(crate) fn scheduler(setup: &SchedulerSetup<'_>) -> Distributed<DFcfs, NoFeedback> {
    Distributed::new(setup, local::<Plain>(setup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, requests};
    use crate::request_type::TypeSpec;

    /// So no driver wakes them for what waits elsewhere.
    #[test]
    fn workers_find_nothing_in_the_queues_of_others() {
        assert!(!WorkerPolicy::<Plain>::looks_elsewhere(&DFcfs));
    }

    #[test]
    fn what_was_refused_and_what_waits_is_counted() {
        let mut policy = Rehearsal::new(Policy::d_fcfs(), 1, [TypeSpec::new("ONE").queue_capacity(2)]);
        assert_eq!(policy.arrive_all([0; 5]), "refuse 2, refuse 3, refuse 4, 0@0");
        let status = policy.type_status(0);
        assert_eq!((status.queued, status.rejections), (1, 3));
    }

    #[test]
    fn queues_of_workers_that_go_join_others_in_order_of_arrival() {
        for policy in [Policy::d_fcfs(), Policy::stealing(), Policy::synergy()] {
            let mut policy = Rehearsal::with_one_type(policy, 4);
            let mut ran = requests(&policy.arrive_all([0; 40]));
            ran.extend(requests(&policy.has_workers(1)));
            ran.sort_unstable();
            let busy = ran.len();
            let order = policy.drain(1_000);
            assert!(order.is_sorted(), "{order:?}");
            assert_eq!(busy + order.len(), 40);
        }
    }
}
