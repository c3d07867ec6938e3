//! Shinjuku's single queue: c-FCFS whose requests yield after a quantum while others wait
//! (Shinjuku 3.4, "SQ").
//!
//! A preempted request goes to the tail, and requests take turns as in processor sharing. At the head
//! it would be the next to run, so it is not preempted at all. That is c-FCFS, the better choice for
//! service times that lie close together. The automatic choice is the tail until the dispersion of all
//! service times is known.

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event};
use crate::parts::dispersion::Dispersion;
use crate::parts::finishing::Finishing;
use crate::parts::quanta::Quanta;
use crate::policies::c_fcfs::{CFcfs, LANE};
use crate::scheduler::{Scheduler, TypeStatus};
use crate::settings;
use crate::settings::Requeue;
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct Sq {
    fcfs: CFcfs,
    quanta: Quanta,
    requeue: Requeue,
    dispersion: Dispersion,
    finishing: Finishing,
}

impl Sq {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Sq) -> Self {
        Self {
            fcfs: CFcfs::new(setup),
            quanta: Quanta::new(setup, settings.quantum_us.ns(settings::Sq::OWN_QUANTUM_US, setup.preemption)),
            requeue: settings.requeue,
            dispersion: Dispersion::new(setup),
            finishing: Finishing::new(setup, settings.spare_finishing),
        }
    }

    /// Whether requests take turns, that is, yield at the ends of their quanta.
    fn take_turns(&self) -> bool {
        let wide = || self.dispersion.is_wide_overall();
        self.requeue.is_tail(wide).unwrap_or(true)
    }

    fn preempt(&mut self, now_ns: u64) -> Option<Action> {
        if !self.take_turns() {
            return None;
        }
        let CFcfs { queues, running, .. } = &mut self.fcfs;
        let (finishing, quanta) = (self.finishing, &mut self.quanta);
        let worker = finishing.expired(quanta, now_ns, running, queues, &self.dispersion)?;
        quanta.preempt(worker, running)
    }
}

impl Scheduler for Sq {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Completed { worker, samples, .. } => {
                self.quanta.stop(worker);
                for sample in samples {
                    let slot = self.fcfs.queues.slot(sample.request_type);
                    self.dispersion.record(slot, sample);
                }
            }
            Event::Yielded { worker, .. } => self.quanta.stop(worker),
            Event::Blocked { worker, .. } => self.quanta.stop(worker),
            Event::Unblocked { .. } => {}
            Event::Arrived { .. } | Event::Workers { .. } | Event::Tick => {}
        }
        match event {
            Event::Yielded { worker, served_ns } if self.take_turns() => {
                let waiting = self.fcfs.running.give_up(worker, served_ns);
                self.fcfs.queues.put_back_last(LANE, waiting);
                self.fcfs.workers.release(worker);
            }
            event => self.fcfs.on_event(now_ns, event),
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let action = self.fcfs.poll(now_ns);
        match action {
            None => self.preempt(now_ns),
            Some(Action::Run { worker, .. }) => {
                self.quanta.start(now_ns, worker, &self.fcfs.running);
                action
            }
            Some(_) => action,
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.take_turns().then(|| self.quanta.deadline_for(&self.fcfs.queues))?
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.fcfs.type_status(slot)
    }
}

impl Handover for Sq {
    fn hand_over(&mut self) -> Backlog {
        self.fcfs.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.fcfs.take_over(now_ns, backlog);
        self.quanta.take_over(now_ns, &self.fcfs.running);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Sample;
    use crate::policy::Policy;
    use crate::rehearsal::{ONE, Rehearsal, sample};
    use crate::request_type::RequestType;
    use crate::request_type::TypeSpec;

    const ANY: RequestType = RequestType::UNKNOWN;

    fn rehearsal(requeue: Requeue, workers: usize) -> Rehearsal {
        Rehearsal::new(settings::Sq::default().requeue(requeue), workers, [])
    }

    #[test]
    fn requests_take_turns_a_quantum_each() {
        let mut sq = rehearsal(Requeue::Tail, 1);
        assert_eq!(sq.arrives(0, 0, ANY), "0@0");
        assert_eq!(sq.arrives(1_000, 1, ANY), "");
        assert_eq!(sq.deadline_ns(), Some(5_000));
        assert_eq!(sq.ticks(4_999), "");
        assert_eq!(sq.ticks(5_000), "stop 0");
        assert_eq!((sq.ticks(5_001).as_str(), sq.deadline_ns()), ("", None));
        assert_eq!(sq.arrives(5_500, 2, ANY), "", "it stops once");
        assert_eq!(sq.yields(6_000, 0), "1@0");
        assert_eq!(sq.deadline_ns(), Some(11_000));
        assert_eq!(sq.completes(7_000, 0), "2@0", "0 went to the tail");
        assert_eq!(sq.ticks(12_000), "stop 0");
        assert_eq!(sq.completes(12_500, 0), "0@0", "done before it stopped");
        assert_eq!(sq.deadline_ns(), None);
    }

    #[test]
    fn the_longest_expired_is_preempted_once_a_request_waits() {
        let mut sq = rehearsal(Requeue::Tail, 3);
        assert_eq!(sq.arrives(0, 0, ANY), "0@0");
        assert_eq!(sq.arrives(100, 1, ANY), "1@1");
        assert_eq!(sq.arrives(200, 2, ANY), "2@2");
        assert_eq!(sq.completes(300, 0), "");
        assert_eq!(sq.arrives(400, 3, ANY), "3@0");
        assert_eq!((sq.ticks(50_000).as_str(), sq.deadline_ns()), ("", None));
        assert_eq!(sq.arrives(60_000, 4, ANY), "stop 1");
        assert_eq!(sq.arrives(60_000, 5, ANY), "stop 2");
        assert_eq!(sq.completes(60_100, 0), "4@0");
        assert_eq!(sq.yields(61_000, 1), "5@1");
        assert_eq!(sq.yields(61_001, 2), "1@2", "it waits first");
        assert_eq!(sq.ticks(65_099), "");
        assert_eq!(sq.ticks(65_100), "stop 0");
    }

    #[test]
    fn at_the_head_they_run_in_order_of_arrival() {
        let mut sq = rehearsal(Requeue::Head, 1);
        assert_eq!(sq.arrives(0, 0, ANY), "0@0");
        assert_eq!(sq.arrives(0, 1, ANY), "");
        assert_eq!((sq.ticks(50_000).as_str(), sq.deadline_ns()), ("", None));
        assert_eq!(sq.yields(50_001, 0), "0@0", "the handler yielded");
        assert_eq!(sq.completes(60_000, 0), "1@0");
    }

    #[test]
    fn the_automatic_choice_follows_the_dispersion() {
        let mut sq = rehearsal(Requeue::Automatic, 1);
        let mut after = |now_ns, samples: &[Sample]| {
            sq.arrives(now_ns, 0, ANY);
            sq.arrives(now_ns, 1, ANY);
            let has_yielded = sq.ticks(now_ns + 5_000) == "stop 0";
            sq.measures(now_ns + 5_001, 0, samples);
            sq.completes(now_ns + 5_002, 0);
            has_yielded
        };
        let alike = vec![sample(ANY, 1000); 5_000];
        let apart = [sample(ANY, 1000), sample(ANY, 100_000)].repeat(2_500);
        assert!(after(0, &alike), "nothing is known");
        assert!(!after(10_000, &apart));
        assert!(after(20_000, &alike));
        assert!(!after(30_000, &[]));
    }

    #[test]
    fn without_preemption_it_is_c_fcfs() {
        let mut sq = Rehearsal::with_preemption(Policy::sq(), 1, [], None);
        assert_eq!(sq.arrives(0, 0, ANY), "0@0");
        assert_eq!(sq.arrives(0, 1, ANY), "");
        assert_eq!((sq.ticks(90_000).as_str(), sq.deadline_ns()), ("", None));
        assert_eq!(sq.completes(90_001, 0), "1@0");
    }

    #[test]
    fn what_is_taken_over_has_a_new_quantum() {
        for other in ["c-fcfs", "d-fcfs", "darc", "mq"] {
            let other: Policy = other.parse().unwrap();
            let types = || [TypeSpec::new("A"), TypeSpec::new("B")];
            let a = RequestType::new(0);
            let mut policy = Rehearsal::new(other.clone(), 1, types());
            assert_eq!(policy.arrives(0, 0, a), "0@0");
            assert_eq!(policy.arrives(1, 1, ANY), "");
            assert_eq!(policy.arrives(2, 2, a), "");
            let sq = Rehearsal::new(Policy::sq(), 1, types());
            assert_eq!(policy.switches(4_000, sq), "", "{other}");
            assert_eq!(policy.deadline_ns(), Some(9_000));
            assert_eq!(policy.ticks(9_000), "stop 0");
            let back = Rehearsal::new(other.clone(), 1, types());
            assert_eq!(policy.switches(9_500, back), "");
            let served: Vec<String> = (0..3).map(|turn| policy.completes(10_000 + turn, 0)).collect();
            assert!(served.contains(&"1@0".into()), "{other}: {served:?}");
            assert!(served.contains(&"2@0".into()), "{other}: {served:?}");
        }
    }

    #[test]
    fn a_full_queue_refuses_its_type() {
        let mut sq = Rehearsal::new(Policy::sq(), 1, [TypeSpec::new("ONE").queue_capacity(3)]);
        let answers = [0, 1, 2, 3, 4].map(|id| sq.arrives(0, id, ONE));
        assert_eq!(answers, ["0@0", "", "", "", "refuse 4"]);
        assert_eq!(sq.ticks(5_000), "stop 0");
        assert_eq!(sq.yields(5_001, 0), "1@0", "what ran has its place");
    }
}
