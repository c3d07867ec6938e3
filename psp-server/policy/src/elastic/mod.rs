//! How many workers a load needs: the core estimator of Arachne (OSDI '18, section 6.2) for a server's workers.
//!
//! ```text
//!   driver ── events, actions ──► meter ── the load of each group, once an interval ──► estimator
//!      ▲                                                                                    │
//!      └── Event::Workers { present } to the scheduler ◄── how many workers shall be present ┘
//! ```
//!
//! [`Elastic`] is the whole of it, and [`ElasticScheduler`] a scheduler with it. Servers and the simulator drive the
//! same object, which reads no clock.
//! `docs/elastic.md` says how it decides and what was measured.

mod estimator;
mod lateness;
mod meter;
mod scheduler;
mod settings;
mod workers;

pub use estimator::{Estimator, GroupLoad};
pub use scheduler::ElasticScheduler;
pub use settings::{ElasticSettings, ElasticSettingsError};
pub use workers::Workers;

use crate::event::{Action, Event};
use crate::request_type::TypeTable;
use crate::scheduler::Scheduler;
use crate::setup::SchedulerSetup;
use meter::Meter;

/// Measures the load of a scheduler, and says how many workers shall be present. See the [module](self).
#[derive(Debug)]
pub struct Elastic {
    types: TypeTable,
    meter: Meter,
    estimator: Estimator,
    workers_min: usize,
    interval_ns: u64,
    /// When the interval began.
    since_ns: u64,
}

impl Elastic {
    /// For a scheduler of `setup`, between `workers_min` and all workers. The fewest are present at first.
    ///
    /// # Panics
    ///
    /// When `workers_min` is 0 or more than there are.
    #[must_use]
    pub fn new(setup: &SchedulerSetup<'_>, workers_min: usize, settings: ElasticSettings) -> Self {
        Self {
            types: setup.types.clone(),
            meter: Meter::new(setup, &settings),
            estimator: Estimator::new(workers_min, setup.workers, settings),
            workers_min,
            interval_ns: settings.interval_ns(),
            since_ns: 0,
        }
    }

    /// How many workers shall be present.
    #[must_use]
    pub const fn present(&self) -> usize {
        self.estimator.workers()
    }

    /// Counts what the driver reports to the scheduler.
    #[inline]
    pub fn on_event(&mut self, now_ns: u64, event: &Event<'_>) {
        match *event {
            Event::Arrived { request, request_type, .. } => {
                let slot = self.types.slot(request_type);
                self.meter.arrived(now_ns, request, slot);
            }
            Event::Completed { worker, samples, .. } => self.meter.completed(now_ns, worker, samples),
            Event::Yielded { worker, .. } => self.meter.yielded(now_ns, worker),
            Event::Blocked { worker, .. } => self.meter.blocked(now_ns, worker),
            Event::Unblocked { request } => self.meter.unblocked(now_ns, request),
            Event::Workers { .. } => self.meter.forgive(),
            Event::Tick => {}
        }
    }

    /// Counts what the scheduler answers.
    #[inline]
    pub fn on_action(&mut self, now_ns: u64, action: &Action) {
        match *action {
            Action::Run { worker, request, request_type, .. } => {
                let slot = self.types.slot(request_type);
                self.meter.started(now_ns, worker, request, slot);
            }
            Action::Reject { request, request_type, .. } => {
                let slot = self.types.slot(request_type);
                self.meter.refused(now_ns, request, slot);
            }
            Action::Preempt { .. } => {}
        }
    }

    /// The driver calls it whenever it ticks. At the end of an interval, returns how many workers shall be
    /// present if that has changed. The driver then reports [`Event::Workers`] to the scheduler, and polls.
    pub fn observe(&mut self, now_ns: u64, scheduler: &dyn Scheduler) -> Option<usize> {
        let before = self.present();
        let present = self.estimate(now_ns, scheduler)?;
        (present != before).then_some(present)
    }

    /// The same, and at the end of every interval: how many workers shall be present, changed or not.
    pub fn estimate(&mut self, now_ns: u64, scheduler: &dyn Scheduler) -> Option<usize> {
        if now_ns.saturating_sub(self.since_ns) < self.interval_ns {
            return None;
        }
        self.since_ns = now_ns;
        self.meter.end_interval(now_ns, scheduler);
        Some(self.estimator.decide(self.meter.groups(), self.meter.is_late()))
    }

    /// So many workers are present, whatever was decided: others need the cores.
    pub fn correct_to(&mut self, present: usize) {
        self.estimator.correct_to(present);
    }

    /// When [`Elastic::observe`] has to be called at the latest. `None` while the fewest workers are present and
    /// nothing runs or waits: a driver without requests may sleep.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let rests = self.present() == self.workers_min && self.meter.is_empty();
        (!rests).then(|| self.since_ns.saturating_add(self.interval_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{RequestId, Sample, WorkerId};
    use crate::policy::Policy;
    use crate::request_type::{RequestType, TypeSpec};

    const MILLI: u64 = 1_000_000;

    /// A scheduler of one type, the estimator beside it, and what runs.
    struct Driver {
        scheduler: Box<dyn Scheduler>,
        elastic: Elastic,
        now_ns: u64,
        arrivals: u32,
        running: Vec<WorkerId>,
    }

    impl Driver {
        fn new() -> Self {
            Self::with(ElasticSettings::default())
        }

        fn with(settings: ElasticSettings) -> Self {
            let types: TypeTable = [TypeSpec::new("ONE")].into_iter().collect();
            let setup = SchedulerSetup::new(4, &types).present(1);
            Self {
                scheduler: Policy::c_fcfs().scheduler(&setup),
                elastic: Elastic::new(&setup, 1, settings),
                now_ns: 0,
                arrivals: 0,
                running: Vec::new(),
            }
        }

        fn report(&mut self, event: &Event<'_>) {
            self.elastic.on_event(self.now_ns, event);
            self.scheduler.on_event(self.now_ns, *event);
        }

        /// A millisecond passes, in which each running request ends and so many arrive.
        fn pass(&mut self, arrivals: u32) {
            self.now_ns += MILLI;
            let samples: &[Sample] = &[Sample {
                request_type: RequestType::new(0),
                count: 1,
                service_ns: MILLI,
            }];
            for worker in std::mem::take(&mut self.running) {
                let dropped = false;
                self.report(&Event::Completed { worker, samples, dropped });
            }
            for _ in 0..arrivals {
                self.arrivals += 1;
                self.report(&Event::Arrived {
                    request: RequestId(self.arrivals),
                    request_type: RequestType::new(0),
                    deadline_ns: None,
                });
            }
            if let Some(present) = self.elastic.observe(self.now_ns, &*self.scheduler) {
                self.report(&Event::Workers { present });
            }
            while let Some(action) = self.scheduler.poll(self.now_ns) {
                self.elastic.on_action(self.now_ns, &action);
                if let Action::Run { worker, .. } = action {
                    self.running.push(worker);
                }
            }
        }

        fn pass_all(&mut self, arrivals: u32, millis: u64) -> usize {
            for _ in 0..millis {
                self.pass(arrivals);
            }
            self.elastic.present()
        }
    }

    #[test]
    fn workers_follow_the_load_and_an_idle_driver_may_sleep() {
        let mut driver = Driver::new();
        assert_eq!(driver.elastic.deadline_ns(), None, "nothing runs");
        driver.pass(1);
        assert_eq!(driver.elastic.deadline_ns(), Some(50 * MILLI));
        assert_eq!(driver.pass_all(1, 1_000), 1, "it is busy, and no request waits");
        assert_eq!(driver.pass_all(3, 48), 1, "within the interval");
        assert_eq!(driver.pass_all(3, 2_000), 4, "one to drain the backlog");
        assert_eq!(driver.pass_all(0, 3_000), 1);
        assert_eq!(driver.elastic.deadline_ns(), None);
    }

    /// Four milliseconds with two requests at once, one of which waits beside one worker. Returns how many workers are
    /// present.
    fn pair(driver: &mut Driver) -> usize {
        driver.pass(2);
        driver.pass_all(0, 3)
    }

    #[test]
    fn a_worker_comes_when_requests_are_late_at_a_low_load() {
        for (tail_factor, present) in [(1.0, 2), (2.0, 1), (0.0, 1)] {
            let mut driver = Driver::with(ElasticSettings::default().tail_factor(tail_factor));
            let workers: Vec<usize> = (0..2_000).map(|_| pair(&mut driver)).collect();
            assert_eq!(workers.iter().max(), Some(&present), "{tail_factor}");
            assert_eq!(workers.last(), Some(&present), "{tail_factor}");
        }
    }

    #[test]
    fn what_is_refused_or_yields_is_counted_once() {
        let mut driver = Driver::new();
        driver.pass(3_000);
        assert_eq!(driver.running.len(), 1);
        let worker = driver.running.pop().expect("one runs");
        driver.report(&Event::Yielded { worker, served_ns: 1 });
        for _ in 0..3_000 {
            driver.pass(0);
        }
        assert!(driver.elastic.meter.is_empty());
    }
}
