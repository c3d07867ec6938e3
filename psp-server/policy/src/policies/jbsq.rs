//! JBSQ(k): join the bounded shortest queue (nanoPU, OSDI '21; with preemption Concord, SOSP '23,
//! sections 3 and 4; Synergy V-A compares with it).
//!
//! It approximates one central queue. The dispatcher sends the head of its queue to the worker that
//! has the fewest requests, the running one included, if that is fewer than `k`; of equals, to the
//! worker with the lowest number. A worker that completes a request finds the next one in its own
//! queue, and does not wait for the dispatcher. If others wait behind a request when its quantum is
//! over, the request goes to the tail of the central queue, and from there to any worker. With a `k`
//! of 1 no request queues at a worker, and this is a single queue with time slices.
//!
//! A blocked request leaves its worker, and another may take its place. Unblocked, it is at the head of the
//! queue of its home worker, which may have more than `k` requests then. Where requests migrate, an unblocked
//! request is at the head of the central queue.
//!
//! It knows no types. No request starves: a request that waits in front of a bounded queue moves up
//! with every quantum.

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, WorkerId};
use crate::parts::own_queues::OwnQueues;
use crate::scheduler::{Scheduler, TypeStatus};
use crate::settings;
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct Jbsq {
    own: OwnQueues,
    bound: usize,
}

impl Jbsq {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Jbsq) -> Self {
        Self {
            own: OwnQueues::new(setup, settings.quantum_us.ns(settings::Jbsq::OWN_QUANTUM_US, setup.preemption)),
            bound: settings.k.max(1),
        }
    }

    /// Fills the workers' queues from the central one.
    fn fill(&mut self) {
        while let Some((worker, home)) = self.next_to_fill() {
            match home {
                Some(_) => self.own.send_home(worker),
                None => self.own.send(worker),
            }
        }
    }

    /// Of the workers with room for a request that the central queue has for them, the one with the
    /// fewest; and the home of that request.
    fn next_to_fill(&self) -> Option<(WorkerId, Option<WorkerId>)> {
        let own = &self.own;
        if own.next_to_send().is_none() && !own.queues.any_suspended() {
            return None;
        }
        let candidates = own.workers().filter_map(|worker| {
            let unfinished = own.unfinished(worker);
            // A worker without a context for the requests of its queue runs what it can.
            let stuck = || !own.running.is_busy(worker) && !own.queues.can_run_own(worker);
            let room = unfinished < self.bound || stuck();
            let next = own.queues.next_for(own.dispatcher(), worker);
            Some((unfinished, worker, next.filter(|_| room)?.home))
        });
        let (_, worker, home) = candidates.min_by_key(|&(unfinished, worker, _)| (unfinished, worker))?;
        Some((worker, home))
    }

    /// Whether no request queues at a worker: each waits for all workers.
    const fn is_single_queue(&self) -> bool {
        self.bound == 1
    }

    /// Where no request queues at a worker, all workers may be preempted for those that wait.
    fn expose_all(&mut self) {
        if self.is_single_queue() {
            for worker in self.own.workers() {
                self.own.quanta.expose(worker);
            }
        }
    }

    fn preempt_next(&mut self, now_ns: u64) -> Option<Action> {
        if !self.is_single_queue() {
            return self.own.preempt_next(now_ns);
        }
        let OwnQueues { queues, quanta, running, .. } = &mut self.own;
        quanta.preempt_for(queues, now_ns, running)
    }
}

impl Scheduler for Jbsq {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        let central = self.own.dispatcher();
        match event {
            Event::Arrived { request, request_type, deadline_ns } => {
                self.own.queues.push(central, now_ns, request, request_type, deadline_ns);
            }
            Event::Completed { worker, .. } => {
                self.own.finish(worker);
            }
            Event::Yielded { worker, served_ns } => self.own.give_up(worker, served_ns, central),
            Event::Blocked { worker, served_ns } => {
                self.own.block(now_ns, worker, served_ns);
            }
            Event::Unblocked { request } => {
                if self.own.queues.have_homes() {
                    self.own.resume(now_ns, request);
                } else {
                    let waiting = self.own.queues.unblock(now_ns, request);
                    self.own.queues.put_back_first(central, waiting);
                }
            }
            Event::Workers { present } => {
                self.own.set_present(present);
                self.expose_all();
            }
            Event::Tick => {}
        }
        self.fill();
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let own = &mut self.own;
        let action = own.queues.pop_refused().or_else(|| own.run_next(now_ns));
        if let Some(Action::Run { worker, .. }) = action
            && self.is_single_queue()
        {
            self.own.quanta.expose(worker);
        }
        action.or_else(|| self.preempt_next(now_ns))
    }

    fn deadline_ns(&self) -> Option<u64> {
        if self.is_single_queue() {
            self.own.quanta.deadline_for(&self.own.queues)
        } else {
            self.own.quanta.next_ns()
        }
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.own.queues.type_status(slot)
    }
}

impl Handover for Jbsq {
    fn hand_over(&mut self) -> Backlog {
        self.own.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.own.take_over(now_ns, &backlog);
        self.expose_all();
        self.fill();
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::event::{HandOff, RequestId};
    use crate::policy::Policy;
    use crate::rehearsal::{ONE, Rehearsal, setup};
    use crate::request_type::{TypeSpec, TypeTable};

    #[test]
    fn the_shortest_queue_gets_the_next_and_full_ones_none() {
        let mut jbsq = Rehearsal::with_one_type(Policy::jbsq(), 2);
        for (id, ran) in (0..).zip(["0@0", "1@1", "", "", "", ""]) {
            assert_eq!(jbsq.arrives(0, id, ONE), ran);
        }
        assert_eq!(jbsq.completes(10, 1), "3@1", "2 waits for worker 0");
        assert_eq!(jbsq.completes(20, 1), "4@1");
        assert_eq!(jbsq.completes(30, 1), "5@1");
        assert_eq!(jbsq.completes(40, 0), "2@0");
        let (dispatched, own) = jbsq.hand_offs.split_at(2);
        assert_eq!(dispatched, [HandOff::Dispatched; 2]);
        assert_eq!(own, [HandOff::Own; 4]);
    }

    #[test]
    fn no_worker_ever_has_more_than_k_nor_fewer_while_others_wait() {
        let types: TypeTable = [TypeSpec::new("A")].into_iter().collect();
        for k in 1..4 {
            let mut jbsq = Jbsq::new(&setup(3, &types), &settings::Jbsq::default().k(k));
            let mut random = SmallRng::seed_from_u64(1);
            let (mut ran, mut crowded) = (0, 0);
            for step in 0..2_000 {
                let worker = WorkerId(random.random_range(0..3));
                let busy = jbsq.own.running.is_busy(worker);
                let event = match random.random_range(0..5) {
                    0 if busy => Event::Yielded { worker, served_ns: 1 },
                    1 | 2 if busy => Event::Completed { worker, samples: &[], dropped: false },
                    _ => Event::Arrived {
                        request: RequestId(step),
                        request_type: ONE,
                        deadline_ns: None,
                    },
                };
                jbsq.on_event(u64::from(step), event);
                while let Some(action) = jbsq.poll(u64::from(step)) {
                    ran += u32::from(matches!(action, Action::Run { .. }));
                }
                let unfinished = || jbsq.own.workers().map(|worker| jbsq.own.unfinished(worker));
                assert!(unfinished().all(|unfinished| unfinished <= k));
                if jbsq.own.next_to_send().is_some() {
                    crowded += 1;
                    assert!(unfinished().all(|unfinished| unfinished == k));
                }
            }
            assert!(ran > 500 && crowded > 100, "{ran} ran, {crowded} times crowded");
        }
    }

    #[test]
    fn preempted_requests_go_to_the_tail_of_the_central_queue_and_on_to_any_worker() {
        let mut jbsq = Rehearsal::with_one_type(Policy::jbsq(), 2);
        assert_eq!(jbsq.arrives(0, 0, ONE), "0@0");
        assert_eq!(jbsq.arrives(0, 1, ONE), "1@1");
        assert_eq!(jbsq.deadline_ns(), None, "no request waits");
        assert_eq!(jbsq.arrives(1_000, 2, ONE), "");
        assert_eq!(jbsq.deadline_ns(), Some(5_000));
        assert_eq!(jbsq.ticks(5_000), "stop 0", "no request waits for worker 1");
        assert_eq!(jbsq.completes(5_050, 1), "", "2 is bound to worker 0");
        assert_eq!(jbsq.yields(5_100, 0), "2@0, 0@1");
        assert_eq!(jbsq.hand_offs[2..], [HandOff::Own, HandOff::Dispatched]);
        for id in 3..6 {
            assert_eq!(jbsq.arrives(6_000, id, ONE), "");
        }
        assert_eq!(jbsq.ticks(10_100), "stop 0, stop 1");
        assert_eq!(jbsq.yields(10_200, 0), "3@0", "5 and then 2 follow it");
        assert_eq!(jbsq.completes(10_300, 0), "5@0");
        assert_eq!(jbsq.completes(10_400, 0), "2@0");
    }

    #[test]
    fn with_room_for_one_it_is_a_single_queue_with_quanta() {
        let mut jbsq = Rehearsal::with_one_type(settings::Jbsq::default().k(1).quantum_us(3), 2);
        for (id, ran) in (0..).zip(["0@0", "1@1", ""]) {
            assert_eq!(jbsq.arrives(0, id, ONE), ran);
        }
        assert_eq!(jbsq.deadline_ns(), Some(3_000));
        assert_eq!(jbsq.ticks(3_000), "stop 0", "one waits, one stops");
        assert_eq!(jbsq.yields(3_100, 0), "2@0, stop 1", "0 waits now");
        assert_eq!(jbsq.hand_offs, [HandOff::Dispatched; 3]);
        assert_eq!(jbsq.completes(3_200, 1), "0@1");
        assert_eq!(jbsq.deadline_ns(), None);
    }

    #[test]
    fn it_takes_over_and_hands_over() {
        for k in [1, 2] {
            let jbsq = || Rehearsal::with_one_type(settings::Jbsq::default().k(k), 1);
            let mut policy = Rehearsal::with_one_type(Policy::c_fcfs(), 1);
            assert_eq!(policy.arrives(0, 0, ONE), "0@0");
            assert_eq!(policy.arrives(1, 1, ONE), "");
            assert_eq!(policy.arrives(2, 2, ONE), "");
            assert_eq!(policy.switches(100, jbsq()), "");
            assert_eq!(policy.ticks(5_100), "stop 0", "a new quantum since then");
            assert_eq!(policy.switches(5_150, jbsq()), "", "it is still stopping");
            assert_eq!(policy.yields(5_200, 0), "1@0");
            assert_eq!(policy.switches(5_300, Rehearsal::with_one_type(Policy::c_fcfs(), 1)), "");
            assert_eq!(policy.completes(5_400, 0), "0@0", "it arrived before 2");
            assert_eq!(policy.completes(5_500, 0), "2@0");
        }
    }
}
