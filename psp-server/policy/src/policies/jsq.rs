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

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, RequestId, WorkerId};
use crate::parts::own_queues::OwnQueues;
use crate::scheduler::{Scheduler, TypeStatus};
use crate::settings;
use crate::settings::JsqTies;
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct Jsq {
    own: OwnQueues,
    ties: JsqTies,
    /// Per worker: for how long its unfinished requests ran before they were last preempted.
    attained_ns: Vec<u64>,
}

impl Jsq {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Jsq) -> Self {
        Self {
            own: OwnQueues::new(setup, settings::nanoseconds(settings.quantum_us)),
            ties: settings.ties,
            attained_ns: vec![0; setup.workers],
        }
    }

    /// Sends everything that the dispatcher has.
    fn send_all(&mut self) {
        while let Some(waiting) = self.own.next_to_send() {
            let served_ns = waiting.served_ns;
            let Some(worker) = self.shortest() else {
                return;
            };
            self.serve(worker, served_ns);
            self.own.send(worker);
        }
    }

    /// Sends what is suspended to the workers where it is.
    fn send_home(&mut self) {
        let dispatcher = self.own.dispatcher();
        for worker in self.own.workers() {
            while let Some(suspended) = self.own.queues.front_at(dispatcher, worker) {
                let served_ns = suspended.served_ns;
                self.serve(worker, served_ns);
                self.own.send_home(worker);
            }
        }
    }

    /// Counts service to unfinished requests of `worker`.
    fn serve(&mut self, worker: WorkerId, served_ns: u64) {
        let attained_ns = &mut self.attained_ns[worker.index()];
        *attained_ns = attained_ns.saturating_add(served_ns);
    }

    /// The request on `worker` waits again: there, or anywhere if the worker is absent.
    fn gave_up(&mut self, worker: WorkerId, served_ns: u64) {
        if self.own.queues.keeps(worker) {
            self.serve(worker, served_ns);
            self.own.give_up(worker, served_ns, worker.index());
        } else {
            self.attained_ns[worker.index()] = 0;
            self.own.give_up(worker, served_ns, self.own.dispatcher());
            self.send_all();
        }
    }

    /// A request that was blocked waits where it ran, or anywhere if that worker is absent.
    fn resume(&mut self, now_ns: u64, request: RequestId) {
        let queues = &mut self.own.queues;
        if queues.keeps(queues.blocked_request(request).home) {
            let (worker, waiting) = self.own.resume(now_ns, request);
            self.serve(worker, waiting.served_ns);
        } else {
            let waiting = queues.unblock(now_ns, request);
            let lane = self.own.dispatcher();
            self.own.queues.put_back_first(lane, waiting);
            self.send_all();
        }
    }

    /// Workers come or go. What waits at those that go joins others.
    fn set_present(&mut self, present: usize) {
        let attained_ns = &mut self.attained_ns;
        self.own.set_present(present, |worker, served_ns| {
            let attained_ns = &mut attained_ns[worker.index()];
            *attained_ns = attained_ns.saturating_sub(served_ns);
        });
        self.send_all();
    }

    fn shortest(&self) -> Option<WorkerId> {
        self.own.present().min_by_key(|&worker| {
            let attained_ns = match self.ties {
                JsqTies::LowestNumber => 0,
                JsqTies::MostServed => self.attained_ns[worker.index()],
            };
            let stuck = self.own.queues.is_blocked_up(worker);
            let unfinished = self.own.unfinished(worker);
            (stuck, unfinished, Reverse(attained_ns), worker)
        })
    }
}

impl Scheduler for Jsq {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived {
                request,
                request_type,
                deadline_ns,
            } => {
                let lane = self.own.dispatcher();
                self.own
                    .queues
                    .push(lane, now_ns, request, request_type, deadline_ns);
                self.send_all();
            }
            Event::Completed { worker, .. } => {
                let finished = self.own.finish(worker);
                let attained_ns = &mut self.attained_ns[worker.index()];
                *attained_ns = attained_ns.saturating_sub(finished.served_ns);
            }
            Event::Yielded { worker, served_ns } => self.gave_up(worker, served_ns),
            Event::Blocked { worker, served_ns } => {
                let blocked = self.own.block(now_ns, worker, served_ns);
                let before_ns = blocked.served_ns.saturating_sub(served_ns);
                let attained_ns = &mut self.attained_ns[worker.index()];
                *attained_ns = attained_ns.saturating_sub(before_ns);
            }
            Event::Unblocked { request } => self.resume(now_ns, request),
            Event::Workers { present } => self.set_present(present),
            Event::Tick => {}
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let own = &mut self.own;
        let action = own.queues.pop_refused().or_else(|| own.run_next(now_ns));
        action.or_else(|| own.preempt_next(now_ns))
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.own.quanta.next_ns()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.own.queues.type_status(slot)
    }
}

impl Handover for Jsq {
    fn hand_over(&mut self) -> Backlog {
        self.own.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.own.take_over(now_ns, &backlog);
        for (worker, turn) in self.own.running.turns() {
            self.attained_ns[worker.index()] = turn.waiting.served_ns;
        }
        self.send_home();
        self.send_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::HandOff;
    use crate::policy::Policy;
    use crate::rehearsal::{ONE, Rehearsal};

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
    fn it_takes_over_and_hands_over() {
        let mut policy = Rehearsal::with_one_type(Policy::c_fcfs(), 2);
        for (id, ran) in (0..).zip(["0@0", "1@1", "", "", ""]) {
            assert_eq!(policy.arrives(0, id, ONE), ran);
        }
        assert_eq!(
            policy.switches(100, Rehearsal::with_one_type(Policy::jsq(), 2)),
            ""
        );
        assert_eq!(
            policy.deadline_ns(),
            Some(2_100),
            "2 and 4 wait for 0, 3 for 1"
        );
        assert_eq!(policy.completes(200, 0), "2@0");
        assert_eq!(policy.completes(300, 0), "4@0");
        assert_eq!(policy.completes(400, 0), "");
        assert_eq!(
            policy.switches(500, Rehearsal::with_one_type(Policy::c_fcfs(), 2)),
            "3@0"
        );
    }

    #[test]
    fn what_waits_at_a_worker_that_goes_joins_others_in_order_of_arrival() {
        let behind = ["2@0", "4@0", "3@0", "5@0"];
        let first_in_the_central_queue = ["2@0", "3@0", "4@0", "5@0"];
        for (policy, order) in [
            (Policy::jsq(), behind),
            (Policy::jbsq(), first_in_the_central_queue),
        ] {
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
