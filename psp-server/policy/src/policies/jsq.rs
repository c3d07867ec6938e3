//! JSQ and processor sharing: each request joins the worker with the fewest unfinished ones, and
//! stays there; each worker serves its own queue round robin with a small quantum (Tiny Quanta,
//! ASPLOS '24; Synergy V-A compares with it).
//!
//! Where several workers have equally few, the one with the lowest number gets the request, or by
//! Tiny Quanta's rule (MSQ, maximum serviced quanta) the worker whose unfinished requests have been
//! served the most: they are likeliest to end soon.
//!
//! A blocked request does not count. Unblocked, it goes on where it ran, before the others there.
//!
//! Blind: it knows no types. No request starves: turns go round.

use std::cmp::Reverse;

use crate::distributed::adapter::Distributed;
use crate::distributed::{LaneSet, Local, Look, Next, NoFeedback, Plain, Quantum, Requeue, Ways, Word, WorkerPolicy};
use crate::event::WorkerId;
use crate::settings;
use crate::settings::JsqTies;
use crate::setup::SchedulerSetup;

/// One worker; see the [module](self).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jsq {
    ties: JsqTies,
    quantum_ns: u64,
}

impl<C: Word> WorkerPolicy<C> for Jsq {
    fn place(&mut self, look: &mut Look<'_, C>, _slot: usize) -> Option<WorkerId> {
        let workers = (0..look.board.present()).map(WorkerId);
        workers.min_by_key(|&worker| {
            let line = look.board.line(worker);
            let served_ns = match self.ties {
                JsqTies::LowestNumber => 0,
                JsqTies::MostServed => line.served_ns(),
            };
            (line.is_blocked_up(), line.unfinished(), Reverse(served_ns), worker)
        })
    }

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

    fn quantum(&self, _look: &Look<'_, C>, _slot: usize) -> Option<Quantum> {
        Some(Quantum { ns: self.quantum_ns, yields_to: LaneSet::ALL })
    }

    fn requeue(&self) -> Requeue {
        Requeue::Tail
    }
}

/// The objects of all workers.
pub(crate) fn local<C: Word>(setup: &SchedulerSetup<'_>, settings: &settings::Jsq) -> Local<C, Jsq, NoFeedback> {
    let worker = Jsq {
        ties: settings.ties,
        quantum_ns: settings.quantum_us.ns(settings::Jsq::OWN_QUANTUM_US, setup.preemption),
    };
    let ways = Ways { at_random: false, renewed: false, ..Ways::default() };
    Local::new(setup, |_| NoFeedback, || worker).with(ways)
}

/// All workers as one scheduler, to which a dispatcher sends requests.
pub(crate) fn scheduler(setup: &SchedulerSetup<'_>, settings: &settings::Jsq) -> Distributed<Jsq, NoFeedback> {
    Distributed::new(setup, local::<Plain>(setup, settings))
}

#[cfg(test)]
mod tests {
    use crate::event::HandOff;
    use crate::policy::Policy;
    use crate::rehearsal::{ONE, Rehearsal};
    use crate::request_type::TypeSpec;
    use crate::settings;
    use crate::settings::JsqTies;
    use crate::setup::Preemption;

    #[test]
    fn requests_join_the_worker_with_the_fewest_and_stay_there() {
        let mut jsq = Rehearsal::with_one_type(Policy::jsq(), 3);
        for (id, ran) in (0..).zip(["0@0", "1@1", "2@2", "", ""]) {
            assert_eq!(jsq.arrives(0, id, ONE), ran);
        }
        assert_eq!(jsq.completes(10, 2), "", "3 and 4 are with 0 and 1");
        assert_eq!(jsq.arrives(20, 5, ONE), "5@2");
        assert_eq!(jsq.arrives(30, 6, ONE), "");
        assert_eq!(jsq.completes(40, 0), "3@0");
        assert_eq!(jsq.completes(50, 1), "4@1");
        assert_eq!(jsq.completes(60, 2), "6@2", "2 had one, the others two");
        let (dispatched, own) = jsq.hand_offs.split_at(4);
        assert_eq!(dispatched, [HandOff::Dispatched; 4]);
        assert_eq!(own, [HandOff::Own; 3]);
    }

    #[test]
    fn a_worker_serves_its_queue_round_robin() {
        let mut jsq = Rehearsal::with_one_type(Policy::jsq(), 1);
        assert_eq!(jsq.arrives(0, 0, ONE), "0@0");
        assert_eq!(jsq.deadline_ns(), None, "alone");
        assert_eq!(jsq.arrives(100, 1, ONE), "");
        assert_eq!(jsq.arrives(200, 2, ONE), "");
        for (turn, next) in (1..).zip(["1@0", "2@0", "0@0", "1@0"]) {
            let end_ns = turn * 2_000;
            assert_eq!(jsq.deadline_ns(), Some(end_ns));
            assert_eq!(jsq.ticks(end_ns - 1), "");
            assert_eq!(jsq.ticks(end_ns), "stop 0");
            assert_eq!(jsq.yields(end_ns, 0), next);
        }
        assert_eq!(jsq.completes(8_500, 0), "2@0");
        assert_eq!(jsq.completes(8_600, 0), "0@0");
        assert_eq!((jsq.ticks(99_000).as_str(), jsq.deadline_ns()), ("", None));
        assert_eq!(jsq.arrives(99_100, 3, ONE), "stop 0", "it had its quantum");
    }

    #[test]
    fn of_equally_short_queues_one_is_joined_by_number_or_by_service() {
        for (ties, joined) in [(JsqTies::LowestNumber, ""), (JsqTies::MostServed, "5@1")] {
            let mut jsq = Rehearsal::with_one_type(settings::Jsq::default().ties(ties), 2);
            assert_eq!(jsq.arrives(0, 0, ONE), "0@0");
            assert_eq!(jsq.arrives(0, 1, ONE), "1@1");
            assert_eq!(jsq.arrives(0, 2, ONE), "");
            assert_eq!(jsq.completes(1_900, 0), "2@0");
            assert_eq!(jsq.arrives(1_900, 3, ONE), "");
            assert_eq!(jsq.arrives(1_900, 4, ONE), "");
            assert_eq!(jsq.ticks(2_000), "stop 1");
            assert_eq!(jsq.yields(2_100, 1), "4@1");
            assert_eq!(jsq.arrives(2_200, 5, ONE), "", "both have two");
            assert_eq!(jsq.completes(2_300, 1), "1@1");
            assert_eq!(jsq.completes(2_400, 1), joined);
        }
    }

    #[test]
    fn what_a_blocked_request_was_served_goes_with_it_and_comes_back() {
        for (served_ns, blocks_again, joined) in [(250, false, ""), (600, true, "4@1")] {
            let mut jsq = Rehearsal::with_one_type(settings::Jsq::default().ties(JsqTies::MostServed), 2);
            for (id, ran) in (0..).zip(["0@0", "1@1", "", ""]) {
                assert_eq!(jsq.arrives(0, id, ONE), ran);
            }
            assert_eq!(jsq.ticks(2_000), "stop 0, stop 1");
            assert_eq!(jsq.yields_after(2_000, 0, 300), "2@0");
            assert_eq!(jsq.yields_after(2_000, 1, served_ns), "3@1");
            assert_eq!(jsq.blocks(2_100, 0, 100), "0@0");
            assert_eq!(jsq.unblocks(2_100, 2), "");
            if blocks_again {
                assert_eq!(jsq.blocks(2_150, 0, 50), "2@0");
                assert_eq!(jsq.unblocks(2_150, 0), "");
            }
            // Worker 0 has served its two requests for 400 ns, or 450.
            assert_eq!(jsq.arrives(2_200, 4, ONE), "");
            assert_eq!(jsq.completes(2_300, 1), "1@1");
            assert_eq!(jsq.completes(2_400, 1), joined);
        }
    }

    #[test]
    fn suspended_requests_count_and_a_worker_without_a_context_is_joined_last() {
        let at_home = |contexts| {
            let preemption = Some(Preemption::new(0));
            Rehearsal::at_home(Policy::jsq(), 2, [TypeSpec::new("ONE")], preemption, contexts)
        };
        let mut jsq = at_home(4);
        for (id, ran) in (0..).zip(["0@0", "1@1", ""]) {
            assert_eq!(jsq.arrives(0, id, ONE), ran);
        }
        assert_eq!(jsq.yields_after(100, 0, 100), "2@0");
        assert_eq!(jsq.arrives(200, 3, ONE), "");
        assert_eq!(jsq.completes(300, 1), "3@1", "worker 0 has two");

        let mut jsq = at_home(1);
        assert_eq!(jsq.arrives(0, 0, ONE), "0@0");
        assert_eq!(jsq.blocks(100, 0, 100), "");
        assert_eq!(jsq.arrives(200, 1, ONE), "1@1");
    }

    #[test]
    fn it_takes_over_and_hands_over() {
        let mut policy = Rehearsal::with_one_type(Policy::c_fcfs(), 2);
        for (id, ran) in (0..).zip(["0@0", "1@1", "", "", ""]) {
            assert_eq!(policy.arrives(0, id, ONE), ran);
        }
        assert_eq!(policy.switches(100, Rehearsal::with_one_type(Policy::jsq(), 2)), "");
        assert_eq!(policy.deadline_ns(), Some(2_100), "2 and 4 wait for 0, 3 for 1");
        assert_eq!(policy.completes(200, 0), "2@0");
        assert_eq!(policy.completes(300, 0), "4@0");
        assert_eq!(policy.completes(400, 0), "");
        assert_eq!(policy.switches(500, Rehearsal::with_one_type(Policy::c_fcfs(), 2)), "3@0");
    }

    #[test]
    fn it_takes_over_what_was_preempted() {
        let mut policy = Rehearsal::with_one_type(Policy::sq().quantum_us(2), 1);
        assert_eq!(policy.arrives(0, 0, ONE), "0@0");
        assert_eq!(policy.arrives(0, 1, ONE), "");
        assert_eq!(policy.ticks(2_000), "stop 0");
        assert_eq!(policy.yields_after(2_000, 0, 2_000), "1@0");
        assert_eq!(policy.switches(2_100, Rehearsal::with_one_type(Policy::jsq(), 1)), "");
        assert_eq!(policy.completes(2_200, 0), "0@0");
    }

    #[test]
    fn what_waits_at_a_worker_that_goes_joins_others_in_order_of_arrival() {
        let behind = ["2@0", "4@0", "3@0", "5@0"];
        let first_in_the_central_queue = ["2@0", "3@0", "4@0", "5@0"];
        for (policy, order) in [(Policy::jsq(), behind), (Policy::jbsq(), first_in_the_central_queue)] {
            let mut policy = Rehearsal::with_one_type(policy, 2);
            assert_eq!(policy.arrive_all([0; 6]), "0@0, 1@1");
            assert_eq!(policy.has_workers(1), "", "worker 1 goes on with request 1");
            assert_eq!(policy.finishes(1, 1_000), "", "and begins no other");
            let ran: Vec<String> = (0..4).map(|_| policy.finishes(0, 1_000)).collect();
            assert_eq!(ran, order.map(String::from));
            assert_eq!(policy.has_workers(2), "");
            assert_eq!(policy.arrive_all([0]), "6@1", "worker 0 has request 5");
        }
    }
}
