//! A scheduler, and workers that come and go with its load.
//!
//! ```text
//!   driver ── events ──► scheduler ── actions ──► driver
//!               └──────► estimator ◄─────┘
//!                           └── once an interval: Workers { present } ──► scheduler
//! ```

use std::ops::Deref;

use super::Elastic;
use crate::backlog::Backlog;
use crate::event::{Action, Event};
use crate::scheduler::{Scheduler, switch_seeing};
use crate::study::{Findings, Study};

/// A scheduler whose driver need not know whether workers come and go. See [`elastic`](crate::elastic).
pub struct ElasticScheduler {
    scheduler: Box<dyn Scheduler>,
    /// `None` if all workers are always present.
    elastic: Option<Elastic>,
    /// Workers that are present, if they come and go.
    present: usize,
}

impl ElasticScheduler {
    /// A scheduler and, if workers come and go, their estimator. Both have the same setup, in which the fewest
    /// workers are present.
    #[must_use]
    pub fn new(scheduler: Box<dyn Scheduler>, elastic: Option<Elastic>) -> Self {
        Self {
            scheduler,
            present: elastic.as_ref().map_or(0, Elastic::present),
            elastic,
        }
    }

    /// Goes on under another scheduler with all requests and with the workers that are present, if both schedulers
    /// can hand over. Returns whether they can.
    #[must_use]
    pub fn switch_to(&mut self, now_ns: u64, next: Box<dyn Scheduler>) -> bool {
        self.switch_seeing(now_ns, next, |_| {})
    }

    /// As [`switch_to`](Self::switch_to), and shows `see` what goes over.
    #[must_use]
    pub fn switch_seeing(&mut self, now_ns: u64, mut next: Box<dyn Scheduler>, see: impl FnOnce(&Backlog)) -> bool {
        let can_switch = switch_seeing(&mut *self.scheduler, &mut *next, now_ns, see);
        if can_switch {
            self.scheduler = next;
            if self.elastic.is_some() {
                let present = self.present;
                self.scheduler.on_event(now_ns, Event::Workers { present });
            }
        }
        can_switch
    }

    /// Reports an event.
    #[inline]
    pub fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        if let Some(elastic) = &mut self.elastic {
            elastic.on_event(now_ns, &event);
        }
        self.scheduler.on_event(now_ns, event);
    }

    /// The next action.
    #[inline]
    pub fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let action = self.scheduler.poll(now_ns);
        if let (Some(elastic), Some(action)) = (&mut self.elastic, &action) {
            elastic.on_action(now_ns, action);
        }
        action
    }

    /// When the driver has to tick and [follow the load](Self::follow_load) at the latest: the scheduler's
    /// deadline, or the end of an interval.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let elastic_ns = self.elastic.as_ref().and_then(Elastic::deadline_ns);
        let deadlines_ns = [self.scheduler.deadline_ns(), elastic_ns];
        deadlines_ns.into_iter().flatten().min()
    }

    /// At the end of an interval, has a worker come or go if the load says so. Returns how many are present, if that
    /// has changed. The driver calls it whenever it ticks, and polls.
    pub fn follow_load(&mut self, now_ns: u64) -> Option<usize> {
        let elastic = self.elastic.as_mut()?;
        let present = elastic.observe(now_ns, &*self.scheduler)?;
        self.set_present(now_ns, present);
        Some(present)
    }

    /// At the end of an interval, how many workers the load needs. For a driver that gives no more than it has cores
    /// for: it calls this in place of [`follow_load`](Self::follow_load), and says with
    /// [`set_present`](Self::set_present) how many there are. The estimator goes on from these.
    pub fn needed(&mut self, now_ns: u64) -> Option<usize> {
        let elastic = self.elastic.as_mut()?;
        if elastic.deadline_ns().is_none_or(|deadline_ns| now_ns >= deadline_ns) {
            elastic.correct_to(self.present);
        }
        elastic.estimate(now_ns, &*self.scheduler)
    }

    /// As [`Scheduler::study`].
    pub fn study(&mut self) -> Option<Study> {
        self.scheduler.study()
    }

    /// As [`Scheduler::conclude`].
    pub fn conclude(&mut self, now_ns: u64, findings: Option<&Findings>) {
        self.scheduler.conclude(now_ns, findings);
    }

    /// So many workers are present from now on. The driver polls.
    pub fn set_present(&mut self, now_ns: u64, present: usize) {
        self.present = present;
        self.on_event(now_ns, Event::Workers { present });
    }
}

/// What does not change the scheduler.
impl Deref for ElasticScheduler {
    type Target = dyn Scheduler;

    fn deref(&self) -> &Self::Target {
        &*self.scheduler
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::ElasticSettings;
    use crate::event::RequestId;
    use crate::policy::Policy;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};
    use crate::setup::{Preemption, SchedulerSetup};

    const INTERVAL_NS: u64 = 50_000_000;

    fn types() -> TypeTable {
        [TypeSpec::new("ONE")].into_iter().collect()
    }

    /// One of four workers is present, and others come.
    fn scheduler(types: &TypeTable) -> ElasticScheduler {
        let setup = SchedulerSetup::new(4, types).present(1);
        let elastic = Elastic::new(&setup, 1, ElasticSettings::default());
        ElasticScheduler::new(Policy::c_fcfs().scheduler(&setup), Some(elastic))
    }

    /// A request arrives. How many begin to run?
    fn arrives(scheduler: &mut ElasticScheduler, now_ns: u64, number: u32) -> usize {
        let arrived = Event::Arrived {
            request: RequestId(number),
            request_type: RequestType::new(0),
            deadline_ns: None,
        };
        scheduler.on_event(now_ns, arrived);
        begins(scheduler, now_ns)
    }

    fn begins(scheduler: &mut ElasticScheduler, now_ns: u64) -> usize {
        std::iter::from_fn(|| scheduler.poll(now_ns)).count()
    }

    #[test]
    fn another_policy_goes_on_with_the_workers_that_are_present() {
        let types = types();
        let mut scheduler = scheduler(&types);
        let begun: usize = (0..4).map(|number| arrives(&mut scheduler, 0, number)).sum();
        assert_eq!(begun, 1);
        assert_eq!(scheduler.deadline_ns(), Some(INTERVAL_NS), "c-FCFS has no deadline");
        assert_eq!(scheduler.follow_load(INTERVAL_NS - 1), None);
        assert_eq!(scheduler.follow_load(INTERVAL_NS), Some(2));
        assert_eq!(begins(&mut scheduler, INTERVAL_NS), 1);

        let mut seen = 0;
        let setup = SchedulerSetup::new(4, &types).preemption(Some(Preemption::new(0)));
        let next = Policy::sq().scheduler(&setup);
        assert!(scheduler.switch_seeing(INTERVAL_NS, next, |backlog| seen = backlog.requests.len()));
        assert_eq!(
            (seen, begins(&mut scheduler, INTERVAL_NS)),
            (4, 0),
            "two workers are busy, and two absent"
        );
        let quantum_ends = scheduler.deadline_ns().expect("two requests run");
        assert!(quantum_ends < 2 * INTERVAL_NS, "before the next interval does");
        assert!(!scheduler.switch_to(INTERVAL_NS, Box::new(Studies(None))), "it has no handover");
        assert!(scheduler.switch_to(INTERVAL_NS, Policy::c_fcfs().scheduler(&setup)));
        assert_eq!(scheduler.deadline_ns(), Some(2 * INTERVAL_NS));
    }

    /// Runs nothing, and wants a study until it has findings.
    struct Studies(Option<usize>);

    impl Scheduler for Studies {
        fn on_event(&mut self, _: u64, _: Event<'_>) {}

        fn poll(&mut self, _: u64) -> Option<Action> {
            None
        }

        fn study(&mut self) -> Option<Study> {
            self.0.is_none().then(|| Study::new(|| Findings::new(7, "")))
        }

        fn conclude(&mut self, _: u64, findings: Option<&Findings>) {
            self.0 = findings.map(Findings::choice);
        }
    }

    #[test]
    fn studies_are_those_of_the_scheduler() {
        let mut scheduler = ElasticScheduler::new(Box::new(Studies(None)), None);
        let study = scheduler.study().expect("there are no findings");
        scheduler.conclude(0, None);
        assert!(scheduler.study().is_some());
        scheduler.conclude(0, Some(&study.run()));
        assert!(scheduler.study().is_none());
        assert_eq!((scheduler.follow_load(INTERVAL_NS), scheduler.needed(INTERVAL_NS)), (None, None));
    }

    #[test]
    fn a_driver_without_cores_is_asked_for_one_more_than_it_has() {
        let types = types();
        // Whether it asks more often than once an interval does not matter.
        for every in [1, 50] {
            let mut scheduler = scheduler(&types);
            let mut needed = Vec::new();
            for number in 1..400 {
                let now_ns = u64::from(number) * 1_000_000;
                arrives(&mut scheduler, now_ns, number);
                let asked = (number % every == 0).then(|| scheduler.needed(now_ns));
                let Some(workers) = asked.flatten() else {
                    continue;
                };
                // There are cores for two workers.
                scheduler.set_present(now_ns, workers.min(2));
                needed.push(workers);
            }
            assert_eq!(needed[..2], [2, 3]);
            assert!(needed[2..].iter().all(|&workers| workers == 3), "{needed:?}");
        }
    }
}
