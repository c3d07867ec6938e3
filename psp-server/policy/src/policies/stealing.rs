//! d-FCFS with work stealing: one queue per worker, and each request joins one at random. A worker
//! whose own queue is empty takes the oldest request of another queue (ZygOS, SOSP '17; the baseline
//! of Shinjuku and Perséphone).
//!
//! A thief begins at a random worker and goes round; the first queue that is not empty loses its head.
//! That spreads thieves over the victims, and needs no lengths of queues. No worker is idle while a
//! request waits. Requests are not served in order of arrival, but each queue is while every worker is
//! busy.

use crate::distributed::adapter::Distributed;
use crate::distributed::{LaneSet, Local, Look, Next, NoFeedback, Plain, Word, WorkerPolicy};
use crate::event::WorkerId;
use crate::setup::SchedulerSetup;

/// See the [module](self).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stealing;

impl Stealing {
    /// The worker that loses a request.
    fn victim<C: Word>(look: &mut Look<'_, C>) -> Option<WorkerId> {
        let workers = look.board.workers();
        let queued = |&worker: &u32| look.board.line(WorkerId(worker)).queued() > 0;
        if !(0..workers).any(|worker| queued(&worker)) {
            return None;
        }
        let first = look.random.below(workers);
        let victim = (first..workers).chain(0..first).find(queued);
        victim.map(WorkerId)
    }
}

impl<C: Word> WorkerPolicy<C> for Stealing {
    fn next(&mut self, look: &mut Look<'_, C>) -> Next {
        if !look.mine.own().is_empty() {
            return Next::Own(LaneSet::ALL);
        }
        if !look.mine.has_context {
            return Next::Nothing;
        }
        Self::victim(look).map_or(Next::Nothing, |victim| Next::Steal { victim, lanes: LaneSet::ALL, requests: 1 })
    }
}

/// The objects of all workers.
pub(crate) fn local<C: Word>(setup: &SchedulerSetup<'_>) -> Local<C, Stealing, NoFeedback> {
    Local::new(setup, |_| NoFeedback, || Stealing)
}

/// All workers as one scheduler.
pub(crate) fn scheduler(setup: &SchedulerSetup<'_>) -> Distributed<Stealing, NoFeedback> {
    Distributed::new(setup, local::<Plain>(setup))
}

#[cfg(test)]
mod tests {
    use crate::event::HandOff;
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN, requests};

    #[test]
    fn no_worker_idles_while_a_request_waits_in_some_queue() {
        let mut stealing = Rehearsal::with_one_type(Policy::stealing(), 4);
        let ran = stealing.arrive_all([0; 4]);
        assert_eq!(requests(&ran).len(), 4, "all four workers have one: {ran}");
        let stolen = |how: &&HandOff| **how == HandOff::Stolen;
        let hand_offs = stealing.hand_offs;
        assert!(
            hand_offs.iter().any(|how| stolen(&how)),
            "four choices of four workers hit some queue twice"
        );
        let own = hand_offs.iter().take_while(|how| !stolen(how));
        let own = own.count();
        assert!(hand_offs[own..].iter().all(|how| stolen(&how)));
        assert!(own > 0, "own queues come first");
    }

    #[test]
    fn own_requests_go_first_and_thieves_take_the_oldest() {
        let mut stealing = Rehearsal::with_one_type(Policy::stealing(), 2);
        stealing.arrive_all([0; 40]);
        // Only worker 1 completes: it drains its own queue, then worker 0's, each from its head.
        let mut own: Vec<u32> = Vec::new();
        let mut stolen: Vec<u32> = Vec::new();
        loop {
            let ran = stealing.finishes(1, 1_000);
            let [request] = requests(&ran)[..] else {
                assert_eq!(ran, "", "one at a time");
                break;
            };
            match stealing.hand_offs.last() {
                Some(HandOff::Own) if stolen.is_empty() => own.push(request),
                Some(HandOff::Stolen) => stolen.push(request),
                other => panic!("{other:?} after {own:?} and {stolen:?}"),
            }
        }
        assert_eq!(own.len() + stolen.len(), 38);
        assert!(own.is_sorted() && stolen.is_sorted());
        assert!(!own.is_empty() && !stolen.is_empty(), "40 random choices");
    }

    #[test]
    fn one_worker_has_no_victim() {
        let mut stealing = Rehearsal::new(Policy::stealing(), 1, []);
        assert_eq!(stealing.arrive_all([UNKNOWN; 3]), "0@0");
        assert_eq!(stealing.yields_now(0, 500), "0@0", "it was first");
        assert_eq!(stealing.finishes(0, 900), "1@0");
        assert_eq!(stealing.hand_offs, [HandOff::Own; 3]);
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let stealing = || Rehearsal::with_one_type(Policy::stealing(), 2);
        let mut policy = stealing();
        assert_eq!(requests(&policy.arrive_all([0; 5])).len(), 2);
        let c_fcfs = Rehearsal::with_one_type(Policy::c_fcfs(), 2);
        assert_eq!(policy.switches(10, c_fcfs), "", "both are busy");
        assert_eq!(requests(&policy.finishes(0, 1_000)).len(), 1);
        assert_eq!(policy.switches(20, stealing()), "");
        let ran = policy.finishes(1, 1_000);
        assert_eq!(requests(&ran).len(), 1, "its own or worker 0's");
        assert_eq!(policy.type_status(0).queued, 1);
        assert_eq!(policy.drain(1_000).len(), 1);
    }
}
