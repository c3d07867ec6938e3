//! Measures how many workers each type keeps busy, how many of its requests wait, both on average over an interval, and
//! whether too many of them wait for too long. It hears what the scheduler hears and answers, so that the averages are
//! exact.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::estimator::GroupLoad;
use super::lateness::Lateness;
use super::settings::ElasticSettings;
use crate::event::{RequestId, Sample, WorkerId};
use crate::scheduler::Scheduler;
use crate::setup::SchedulerSetup;

/// The requests of a type, and what they did since the interval began.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    running: u32,
    waiting: u32,
    arrived: u32,
    /// Until when the times below are counted.
    until_ns: u64,
    /// Worker time.
    busy_ns: u64,
    /// Waiting time of all requests.
    queued_ns: u64,
}

impl Counted {
    /// Counts the times up to now. The numbers of requests change afterwards.
    #[inline]
    fn count(&mut self, now_ns: u64) -> &mut Self {
        let passed_ns = now_ns.saturating_sub(self.until_ns);
        self.until_ns = now_ns;
        self.busy_ns += passed_ns * u64::from(self.running);
        self.queued_ns += passed_ns * u64::from(self.waiting);
        self
    }
}

/// A request that waits for a worker.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    since_ns: u64,
    /// For how long it waited before its last turn.
    before_ns: u64,
}

/// A request that runs, or is blocked.
#[derive(Debug, Clone, Copy)]
struct Begun {
    request: RequestId,
    slot: usize,
    /// For how long it waited for workers.
    waited_ns: u64,
}

type Requests<T> = HashMap<RequestId, T, BuildHasherDefault<IdHasher>>;

/// Drivers choose the names of requests, so that no peer can make them collide.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    #[inline]
    fn write_u32(&mut self, id: u32) {
        // The golden ratio spreads neighbours over high and low bits.
        let spread = u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the name of a request is a number");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Meter {
    /// Per type slot, `UNKNOWN` last.
    types: Vec<Counted>,
    /// The same.
    lateness: Vec<Lateness>,
    /// Per worker: what runs.
    running: Vec<Option<Begun>>,
    waiting: Requests<Waiting>,
    blocked: Requests<Begun>,
    /// Requests that run or wait.
    requests: usize,
    began_ns: u64,
    groups: Vec<GroupLoad>,
}

impl Meter {
    pub(super) fn new(setup: &SchedulerSetup<'_>, settings: &ElasticSettings) -> Self {
        let slots = setup.types.len() + 1;
        Self {
            types: vec![Counted::default(); slots],
            lateness: vec![Lateness::new(settings.tail_factor); slots],
            running: vec![None; setup.workers],
            waiting: Requests::with_capacity_and_hasher(setup.queue_capacity, BuildHasherDefault::default()),
            blocked: Requests::default(),
            requests: 0,
            began_ns: 0,
            groups: Vec::with_capacity(slots + 1),
        }
    }

    #[inline]
    pub(super) fn arrived(&mut self, now_ns: u64, request: RequestId, slot: usize) {
        self.types[slot].arrived += 1;
        self.waits(now_ns, request, slot, 0);
    }

    /// A request waits for a worker, after it has waited before for so long.
    #[inline]
    fn waits(&mut self, now_ns: u64, request: RequestId, slot: usize, before_ns: u64) {
        self.types[slot].count(now_ns).waiting += 1;
        self.requests += 1;
        let since_ns = now_ns;
        self.waiting.insert(request, Waiting { since_ns, before_ns });
    }

    /// A request waits no longer. For how long has it waited for workers?
    #[inline]
    fn waited_ns(&mut self, now_ns: u64, request: RequestId, slot: usize) -> u64 {
        let counted = self.types[slot].count(now_ns);
        counted.waiting = counted.waiting.saturating_sub(1);
        self.waiting
            .remove(&request)
            .map_or(0, |waiting| waiting.before_ns + now_ns.saturating_sub(waiting.since_ns))
    }

    #[inline]
    pub(super) fn refused(&mut self, now_ns: u64, request: RequestId, slot: usize) {
        self.waited_ns(now_ns, request, slot);
        self.requests = self.requests.saturating_sub(1);
    }

    #[inline]
    pub(super) fn started(&mut self, now_ns: u64, worker: WorkerId, request: RequestId, slot: usize) {
        let waited_ns = self.waited_ns(now_ns, request, slot);
        self.types[slot].running += 1;
        self.running[worker.index()] = Some(Begun { request, slot, waited_ns });
    }

    #[inline]
    pub(super) fn completed(&mut self, now_ns: u64, worker: WorkerId, samples: &[Sample]) {
        if let Some(Begun { slot, waited_ns, .. }) = self.stop(now_ns, worker) {
            let service_ns = samples.iter().map(|sample| sample.service_ns).sum();
            if service_ns > 0 {
                self.lateness[slot].completed(waited_ns, service_ns);
            }
        }
    }

    pub(super) fn yielded(&mut self, now_ns: u64, worker: WorkerId) {
        if let Some(begun) = self.stop(now_ns, worker) {
            self.waits(now_ns, begun.request, begun.slot, begun.waited_ns);
        }
    }

    /// The request on `worker` neither runs nor waits for a worker.
    pub(super) fn blocked(&mut self, now_ns: u64, worker: WorkerId) {
        if let Some(begun) = self.stop(now_ns, worker) {
            self.blocked.insert(begun.request, begun);
        }
    }

    pub(super) fn unblocked(&mut self, now_ns: u64, request: RequestId) {
        if let Some(begun) = self.blocked.remove(&request) {
            self.waits(now_ns, request, begun.slot, begun.waited_ns);
        }
    }

    /// Nothing runs on `worker` any more. What did?
    #[inline]
    fn stop(&mut self, now_ns: u64, worker: WorkerId) -> Option<Begun> {
        let begun = self.running[worker.index()].take()?;
        self.types[begun.slot].count(now_ns).running -= 1;
        self.requests -= 1;
        Some(begun)
    }

    /// Whether nothing runs or waits.
    pub(super) const fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Whether too many requests of a type wait for too long.
    pub(super) fn is_late(&self) -> bool {
        self.lateness.iter().any(Lateness::is_late)
    }

    /// Another number of workers is present, and lateness counts from now on.
    pub(super) fn forgive(&mut self) {
        self.lateness.iter_mut().for_each(Lateness::forgive);
    }

    /// The load of each group of types in the last interval. Types without a group are the first.
    pub(super) fn groups(&self) -> &[GroupLoad] {
        &self.groups
    }

    /// An interval ends, and another begins.
    pub(super) fn end_interval(&mut self, now_ns: u64, scheduler: &dyn Scheduler) {
        let interval_ns = now_ns.saturating_sub(self.began_ns).max(1) as f64;
        self.began_ns = now_ns;
        self.groups.clear();
        self.groups.push(GroupLoad::default());
        for (slot, counted) in self.types.iter_mut().enumerate() {
            let status = scheduler.type_status(slot);
            let place = status.group.map_or(0, |group| group + 1);
            while self.groups.len() <= place {
                self.groups.push(GroupLoad::default());
            }
            let group = &mut self.groups[place];
            let Counted { arrived, busy_ns, queued_ns, .. } = *counted.count(now_ns);
            group.offered += f64::from(arrived) * self.lateness[slot].service_ns_mean() / interval_ns;
            group.busy += busy_ns as f64 / interval_ns;
            group.queued += queued_ns as f64 / interval_ns;
            group.reserved = if place > 0 { status.workers_reserved } else { 0 };
            counted.arrived = 0;
            counted.busy_ns = 0;
            counted.queued_ns = 0;
        }
        self.lateness.iter_mut().for_each(Lateness::end_interval);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::Policy;
    use crate::rehearsal::sample;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    fn load(busy: f64, queued: f64, offered: f64, reserved: usize) -> GroupLoad {
        GroupLoad { busy, queued, offered, reserved }
    }

    /// SHORT requests at slot 0, LONG ones at 1, and UNKNOWN ones at 2. Each does all that a request can do.
    #[test]
    fn each_group_has_the_times_in_which_its_requests_ran_and_waited() {
        let spec = |name, us| TypeSpec::new(name).service_time(Duration::from_micros(us)).share(0.5);
        let types: TypeTable = [spec("SHORT", 1), spec("LONG", 100)].into_iter().collect();
        let setup = SchedulerSetup::new(4, &types);
        let scheduler = Policy::darc().scheduler(&setup);
        let mut meter = Meter::new(&setup, &ElasticSettings::default());
        let measured = |slot, service_ns| [sample(RequestType::new(slot), service_ns)];

        meter.arrived(0, RequestId(0), 0);
        meter.started(0, WorkerId(0), RequestId(0), 0);
        meter.arrived(0, RequestId(1), 1);
        meter.started(32, WorkerId(1), RequestId(1), 1);
        meter.arrived(32, RequestId(2), 2);
        meter.refused(64, RequestId(2), 2);
        meter.yielded(64, WorkerId(1));
        meter.started(80, WorkerId(1), RequestId(1), 1);
        meter.blocked(96, WorkerId(1));
        meter.unblocked(112, RequestId(1));
        meter.started(128, WorkerId(1), RequestId(1), 1);
        meter.completed(192, WorkerId(0), &measured(0, 64));
        meter.end_interval(256, &*scheduler);
        let status = [0, 1].map(|slot| scheduler.type_status(slot).workers_reserved);
        assert_eq!(
            meter.groups(),
            [
                load(0.0, 32.0 / 256.0, 0.0, 0),
                load(192.0 / 256.0, 0.0, 64.0 / 256.0, status[0]),
                load((32.0 + 16.0 + 128.0) / 256.0, (32.0 + 16.0 + 16.0) / 256.0, 0.0, status[1]),
            ]
        );
        assert!(!meter.is_empty());

        // What was counted counts no more, and what runs goes on.
        meter.completed(288, WorkerId(1), &measured(1, 176));
        assert!(meter.is_empty());
        meter.arrived(384, RequestId(3), 1);
        meter.end_interval(384, &*scheduler);
        let long = load(32.0 / 128.0, 0.0, 176.0 / 128.0, status[1]);
        assert_eq!(meter.groups(), [load(0.0, 0.0, 0.0, 0), load(0.0, 0.0, 0.0, status[0]), long]);
    }

    /// Requests of 800 ns, and one in a hundred of 1000, which others exceed if they wait for 240 ns in all.
    #[test]
    fn a_request_is_late_by_all_its_waits() {
        let types = TypeTable::new();
        let setup = SchedulerSetup::new(1, &types);
        let scheduler = Policy::c_fcfs().scheduler(&setup);
        for (wait_ns, is_late) in [(80, true), (40, false)] {
            let mut meter = Meter::new(&setup, &ElasticSettings::default());
            let mut now_ns = 0;
            for id in (0..400).map(RequestId) {
                // One that was not measured is not late, for however long it waited.
                let dropped = RequestId(1_000 + id.0);
                meter.arrived(now_ns, dropped, 0);
                now_ns += 1_000_000;
                meter.started(now_ns, WorkerId(0), dropped, 0);
                meter.completed(now_ns, WorkerId(0), &[]);
                meter.arrived(now_ns, id, 0);
                for stops in [Meter::yielded, Meter::blocked] {
                    now_ns += wait_ns;
                    meter.started(now_ns, WorkerId(0), id, 0);
                    stops(&mut meter, now_ns, WorkerId(0));
                }
                now_ns += 1_000;
                meter.unblocked(now_ns, id);
                now_ns += wait_ns;
                meter.started(now_ns, WorkerId(0), id, 0);
                let service_ns = if id.0 % 100 == 0 { 1_000 } else { 800 };
                meter.completed(now_ns, WorkerId(0), &[sample(RequestType::UNKNOWN, service_ns)]);
            }
            meter.end_interval(now_ns, &*scheduler);
            assert_eq!(meter.is_late(), is_late, "{wait_ns}");
            meter.forgive();
            assert!(!meter.is_late());
        }
    }
}
