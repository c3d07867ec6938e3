//! Cycle stealing with central queue (Harchol-Balter et al., "Analysis of task assignment with
//! cycle stealing under central queue", ICDCS 2003; Perséphone, table 5).
//!
//! The shortest group of types is short, all others are long, and each of the two is served in order
//! of arrival. Long requests run on at most `workers - reserved` workers at a time; any workers will
//! do, as the paper's hosts are renamable. Short requests may run on all. A free worker takes a long
//! request while fewer long ones run than may, else a short one; so neither can starve the other.
//!
//! If as many long requests run as may, and all are [stuck](crate::parts::stuck), one more runs.
//!
//! `UNKNOWN` and types of unknown length are long. On a single worker, and while no type's length is
//! known, the order is that of arrival.

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event};
use crate::parts::grouped::Grouped;
use crate::request_type::RequestType;
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::settings;
use crate::settings::Darc;
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct Cscq {
    settings: settings::Cscq,
    /// How many are present.
    workers: usize,
    grouped: Grouped,
    /// Workers that are left to short types.
    reserved: usize,
    /// How many run something long.
    longs_running: usize,
}

impl Cscq {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Cscq) -> Self {
        let mut policy = Self {
            settings: settings.clone(),
            workers: setup.workers,
            grouped: Grouped::new(setup, &Darc::default()),
            reserved: 0,
            longs_running: 0,
        };
        policy.make_plan();
        policy
    }

    fn make_plan(&mut self) {
        let Self { settings, grouped, .. } = self;
        let Grouped { plan, profile, .. } = grouped;
        plan.regroup(settings.delta, |slot| profile.mean_ns(slot));
        if let Some((shortest, _)) = plan.shortest_and_longer() {
            let share: f64 = shortest.iter().map(|&slot| profile.demand(slot)).sum();
            let by_demand = (share * self.workers as f64).round() as usize;
            let reserved = settings.reserved.unwrap_or(by_demand).max(1);
            self.reserved = reserved.min(self.workers - 1);
        }
        self.count_longs();
    }

    fn count_longs(&mut self) {
        let turns = self.grouped.running.turns();
        let long = turns.filter(|(_, turn)| self.is_long(turn.waiting.request_type));
        self.longs_running = long.count();
    }

    fn is_long(&self, request_type: RequestType) -> bool {
        let slot = self.grouped.queues.slot(request_type);
        self.grouped.plan.group_of(slot) != Some(0)
    }

    /// How many long requests may run, unless all are stuck.
    const fn longs_max(&self) -> usize {
        self.workers - self.reserved
    }

    /// Whether just as many long requests run as may.
    const fn is_at_limit(&self) -> bool {
        self.workers > 1 && self.longs_running == self.longs_max()
    }

    /// The type whose turn it is.
    fn next_type(&self) -> Option<usize> {
        let grouped = &self.grouped;
        let halves = grouped.plan.shortest_and_longer();
        let Some((shorts, longs)) = halves.filter(|_| self.workers > 1) else {
            return grouped.oldest_of(grouped.plan.slots());
        };
        let long = grouped.oldest_of(longs);
        long.filter(|_| self.longs_running < self.longs_max())
            .or_else(|| grouped.oldest_of(shorts))
    }
}

impl Scheduler for Cscq {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        let ended = self.grouped.record(now_ns, event);
        if ended.is_some_and(|turn| self.is_long(turn.waiting.request_type)) {
            self.longs_running -= 1;
        }
        if let Event::Workers { present } = event {
            self.workers = present;
            self.make_plan();
        }
        if self.grouped.close_window_if_due(now_ns).is_some() {
            self.make_plan();
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.grouped.queues.pop_refused() {
            return Some(refused);
        }
        let next = { self.grouped.can_dispatch() }.then(|| self.next_type()).flatten();
        let Some(slot) = next else {
            let has_limit = self.is_at_limit();
            let action = self.grouped.relieve_longer(now_ns, has_limit)?;
            self.longs_running += 1;
            return Some(action);
        };
        let (_, action) = self.grouped.dispatch_type(now_ns, slot)?;
        self.longs_running += usize::from(self.grouped.plan.group_of(slot) != Some(0));
        Some(action)
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.grouped.deadline_ns()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        self.grouped.same_group(first, next)
    }

    /// All groups but the first are long and share a number of workers, but no particular ones.
    fn type_status(&self, slot: usize) -> TypeStatus {
        let status = self.grouped.type_status(slot);
        let workers_reserved = match status.group {
            None => 0,
            Some(0) => self.reserved,
            Some(_) => self.longs_max(),
        };
        TypeStatus { workers_reserved, ..status }
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        if self.grouped.plan.group_of(slot) == Some(0) || self.workers == 1 {
            return Relief::NotNeeded;
        }
        self.grouped.relief_of_longer(now_ns, self.longs_max())
    }
}

impl Handover for Cscq {
    fn hand_over(&mut self) -> Backlog {
        self.grouped.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.grouped.take_over(now_ns, backlog);
        self.count_longs();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN, requests};
    use crate::request_type::TypeSpec;
    use crate::settings::Cscq;

    /// Half of the demand is short, the other half is in two longer groups.
    fn types() -> [TypeSpec; 3] {
        let spec = |name, us, share| TypeSpec::new(name).service_time(Duration::from_micros(us)).share(share);
        [spec("SHORT", 1, 0.9), spec("LONG", 10, 0.05), spec("LONGER", 40, 0.01)]
    }

    fn reserving(reserved: usize, workers: usize) -> Rehearsal {
        Rehearsal::new(Cscq::default().reserved(reserved), workers, types())
    }

    #[test]
    fn a_worker_is_left_to_longs_even_where_nearly_all_demand_is_short() {
        let spec = |us, share| TypeSpec::new("T").service_time(Duration::from_micros(us)).share(share);
        let mut cscq = Rehearsal::new(Policy::cscq(), 2, [spec(1, 0.99), spec(3, 0.01)]);
        assert_eq!(cscq.type_status(0).workers_reserved, 1);
        assert_eq!(cscq.arrive_all([1, 1]), "0@0");
    }

    #[test]
    fn longs_go_first_until_they_have_their_number_of_workers() {
        let mut cscq = reserving(2, 4);
        let ran = cscq.arrive_all([0, 1, 0, 1, 2, 0, UNKNOWN]);
        assert_eq!(ran, "1@0, 3@1, 0@2, 2@3");
        assert_eq!(cscq.finishes(2, 1_000), "5@2", "two longs run");
        assert_eq!(cscq.arrive_all([0]), "");
        let next = cscq.finishes(0, 10_000);
        assert_eq!(next, "4@0", "the oldest of the longs, before shorts");
        assert_eq!(cscq.finishes(2, 1_000), "7@2");
        assert_eq!(cscq.finishes(2, 1_000), "", "the unknown is long");
        assert_eq!(cscq.finishes(1, 10_000), "6@1");
    }

    #[test]
    fn the_workers_of_longs_are_whichever_were_free() {
        let mut cscq = reserving(1, 2);
        assert_eq!(cscq.arrive_all([0, 1, 1]), "1@0, 0@1");
        assert_eq!(cscq.finishes(0, 10_000), "2@0");
        assert_eq!(cscq.arrive_all([1]), "");
        assert_eq!(cscq.finishes(1, 1_000), "", "worker 1 is left to shorts");
        assert_eq!(cscq.arrive_all([0, 0]), "4@1");
        assert_eq!(cscq.finishes(0, 10_000), "3@0");
        assert_eq!(cscq.finishes(0, 10_000), "5@0");
        assert_eq!(cscq.arrive_all([1]), "", "both are busy");
        assert_eq!(cscq.yields_now(1, 500), "6@1", "they have changed places");
        assert_eq!(cscq.finishes(0, 1_000), "4@0");
    }

    #[test]
    fn shorts_may_use_all_workers_while_no_long_waits() {
        let mut cscq = Rehearsal::new(Policy::cscq(), 4, types());
        assert_eq!(requests(&cscq.arrive_all([0; 6])).len(), 4);
        let reserved = [0, 1, 2, 3].map(|slot| cscq.type_status(slot).workers_reserved);
        assert_eq!(reserved, [2, 2, 2, 0], "half of the demand is short");
        assert_eq!(cscq.type_status(0).worker_first, None);
    }

    #[test]
    fn one_worker_and_types_without_hints_are_served_in_order_of_arrival() {
        let unhinted = vec![TypeSpec::new("A"), TypeSpec::new("B")];
        for (workers, types) in [(1, types().to_vec()), (1, unhinted.clone()), (2, unhinted)] {
            let mut cscq = Rehearsal::new(Policy::cscq(), workers, types);
            assert_eq!(cscq.order_of([1, 0, 9, 0, 1], 1_000), [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let mut policy = Rehearsal::new(Policy::c_fcfs(), 2, types());
        assert_eq!(policy.arrive_all([1, 1, 1, 0]), "0@0, 1@1");
        assert_eq!(policy.switches(10, reserving(1, 2)), "");
        assert_eq!(policy.finishes(0, 10_000), "3@0", "another long runs");
        assert_eq!(policy.finishes(1, 10_000), "2@1");
        assert_eq!(policy.arrive_all([1, 0]), "");
        let sjf = Rehearsal::new(Policy::sjf(), 2, types());
        assert_eq!(policy.switches(20, sjf), "");
        assert_eq!(policy.drain(1_000), [5, 4]);
    }
}
