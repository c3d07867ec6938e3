//! What the dispatcher does as time passes: it ticks, looks for stuck requests, and publishes what it knows.

use psp_policy::{Event, Relief, RequestType, TypeStatus, WorkerId};

use super::{Dispatcher, mean_ns};
use crate::runtime::dispatch::turns::RunningTurn;
use crate::telemetry::Telemetry;

/// How often queue lengths and reservations are published for other threads.
const PUBLISH_INTERVAL_NS: u64 = 10_000_000;
/// How often the scheduler gets a tick while nothing else happens.
const TICK_INTERVAL_NS: u64 = 1_000_000;
/// If a tick did not move the deadline, the next tick comes after this time: the deadline must not keep the net
/// thread awake.
const UNMOVED_DEADLINE_NS: u64 = 10_000;

impl<K> Dispatcher<K> {
    /// When [`Dispatcher::tick`] has to be called at the latest, if no event comes before.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let moved_ns = |deadline_ns| {
            if deadline_ns > self.ticked_ns {
                deadline_ns
            } else {
                self.ticked_ns + UNMOVED_DEADLINE_NS
            }
        };
        let scheduler_ns = self.scheduler.deadline_ns().map(moved_ns);
        scheduler_ns.into_iter().chain(self.turns.deadline_ns()).min()
    }

    /// Does the periodic work, and ticks at the scheduler's deadlines.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        let deadline_ns = self.scheduler.deadline_ns().unwrap_or(u64::MAX);
        if now_ns >= self.tick_at_ns || now_ns >= deadline_ns {
            self.ticked_ns = now_ns;
            self.tick_at_ns = now_ns + TICK_INTERVAL_NS;
            self.scheduler.on_event(now_ns, Event::Tick);
            self.turns.watch(now_ns);
        }
        if self.shared.config.arbiter.is_none()
            && let Some(present) = self.scheduler.follow_load(now_ns)
        {
            self.note_present(now_ns, present);
        }
        self.study(now_ns);
        if now_ns >= self.publish_at_ns {
            self.publish_at_ns = now_ns + PUBLISH_INTERVAL_NS;
            self.publish(now_ns);
            let (scheduler, shared) = (&self.scheduler, &self.shared);
            { &mut self.brief }.follow(|slot| mean_ns(scheduler, shared, slot));
            if let Some(lengths) = &mut self.lengths {
                lengths.measure(&self.shared, Telemetry::length_ns_mean);
            }
            if let Some(keeping) = &mut self.keeping {
                keeping.measure(&self.shared, Telemetry::handling_ns_mean);
            }
        }
    }

    /// Tells the scheduler what came of a study, and begins the next.
    #[inline]
    fn study(&mut self, now_ns: u64) {
        let Some(studies) = &mut self.studies else {
            return;
        };
        if let Some(outcome) = studies.ended(now_ns) {
            let findings = outcome.findings.as_ref();
            self.shared.telemetry.studies.add(u64::from(findings.is_some()));
            if outcome.is_wanted {
                self.scheduler.conclude(now_ns, findings);
            }
        }
        if studies.may_begin(now_ns)
            && let Some(study) = self.scheduler.study()
            && studies.begin(now_ns, study).is_err()
        {
            self.scheduler.conclude(now_ns, None);
        }
    }

    /// At the end of an interval, how many workers the load needs. Servers with an arbiter ask for as many cores, and
    /// [set](Self::set_present) how many workers they got.
    pub(crate) fn needed(&mut self, now_ns: u64) -> Option<usize> {
        self.scheduler.needed(now_ns)
    }

    /// So many workers are present from now on.
    pub(crate) fn set_present(&mut self, now_ns: u64, present: usize) {
        self.scheduler.set_present(now_ns, present);
        self.note_present(now_ns, present);
    }

    fn note_present(&self, now_ns: u64, present: usize) {
        self.shared.telemetry.elastic.changed_to(present);
        if let Some(gate) = &self.shared.gate {
            gate.workers(now_ns, present);
        }
    }

    /// The next request that is stuck and was not returned before, and what is left to its type. To be asked after
    /// each tick.
    #[inline]
    pub(crate) fn next_stuck(&mut self, now_ns: u64) -> Option<(RunningTurn, Relief)> {
        let (scheduler, shared) = (&self.scheduler, &self.shared);
        let stuck = self
            .turns
            .next_stuck(now_ns, |request_type| mean_ns(scheduler, shared, shared.types.slot(request_type)))?;
        let slot = self.slot(stuck.request_type);
        Some((stuck, self.scheduler.relief(now_ns, slot)))
    }

    /// Whether a request of this type that has run for `for_ns` may never end.
    pub(crate) fn is_stuck(&self, request_type: RequestType, for_ns: u64) -> bool {
        for_ns >= self.stuck_after_ns(request_type)
    }

    /// The service time from which on a request of this type may never end.
    pub(crate) fn stuck_after_ns(&self, request_type: RequestType) -> u64 {
        let mean_ns = || mean_ns(&self.scheduler, &self.shared, self.slot(request_type));
        let after = self.shared.config.stuck_after();
        after.map_or(u64::MAX, |after| after.service_ns(mean_ns()))
    }

    /// Counts a request on `worker` that may never end.
    pub(crate) fn count_stuck(&self, worker: WorkerId) {
        self.turns.count_stuck(worker);
    }

    fn publish(&self, now_ns: u64) {
        for slot in 0..=self.shared.types.len() {
            let status = self.scheduler.type_status(slot);
            self.shared.counters(slot).publish(&TypeStatus {
                steals: status.steals + self.before.steals[slot],
                relieved: status.relieved + self.before.relieved[slot],
                ..status
            });
        }
        let updates = self.before.reservation_updates + self.scheduler.reservation_updates();
        self.shared.telemetry.reservation_updates.set(updates);
        if let Some(gate) = &self.shared.gate {
            self.measure(now_ns, gate);
        }
    }
}
