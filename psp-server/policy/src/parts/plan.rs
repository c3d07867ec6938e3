//! Groups of types by ascending service time, and the workers that each group may use.
//!
//! ```text
//!   14 workers, TPC-C        own                     further (cycle stealing)
//!   {Payment, OrderStatus}   0 1                     2 3 4 5 6 7 8 9 10 11 12 13
//!   {NewOrder}               2 3 4 5 6 7             8 9 10 11 12 13
//!   {Delivery, StockLevel}   8 9 10 11 12 13         none
//!   the rest: UNKNOWN        none                    13, the spillway
//! ```
//!
//! Memory is set aside at construction; making a new plan allocates nothing, but for partitions, which
//! are made a few times.

use std::ops::Range;

use crate::event::WorkerId;
use crate::parts::waiting::Waiting;
use crate::parts::workers::WorkerRange;
use crate::request_type::{TypeSpec, TypeTable};

/// Types that are served in order of arrival, and where they run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    /// Its part of [`Plan::order`].
    members: Range<usize>,
    /// Mean service time of its shortest type.
    shortest_ns: f64,
    /// Whether it is one type that is never grouped.
    is_alone: bool,
    /// Whether it has the same workers as the group before it.
    shares: bool,
    /// Workers reserved for it, used first.
    pub(crate) own: WorkerRange,
    /// Workers it may use when none of its own is idle.
    pub(crate) further: WorkerRange,
    /// Of those, the ones before this are reserved for longer groups.
    stealable_end: u32,
    /// Whether it uses the driver's own thread first, though that is reserved for a shorter group.
    pub(crate) on_own_thread: bool,
    /// Workers of shorter groups that it may use when none of those is idle, until they are
    /// taken back.
    pub(crate) borrowed: WorkerRange,
    /// How long a request waits before it may borrow.
    pub(crate) borrow_after_ns: u64,
    /// How long a request may wait at all, if known. A request that is nearer to that than requests of
    /// shorter groups goes first.
    pub(crate) allowance_ns: Option<u64>,
    /// How its requests age, if they do.
    pub(crate) aging: Option<Aging>,
}

/// Levels of aged requests.
pub(crate) const AGED_LEVELS: usize = 8;
/// How many times longer a request has run at each level than at the one before.
const LEVEL_FACTOR: u64 = 4;

/// How requests of a group age: a request that ran for long and was preempted resumes when the
/// others need no worker, and those that ran for much longer need none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Aging {
    /// Service time from which a request is aged.
    pub(crate) after_ns: u64,
    /// Workers that stay idle when an aged request goes on.
    pub(crate) spare: usize,
    /// An aged request that has waited for so many times as long as it ran is late: it goes on whatever stays idle, and
    /// is not preempted for others of its group.
    pub(crate) late_after: f64,
}

impl Aging {
    /// For how long a request may wait until it is late, if it ran for so long.
    fn waits_ns(&self, served_ns: u64) -> u64 {
        (served_ns as f64 * self.late_after) as u64
    }

    /// For how long a request must have run not to be late, if it has waited for so long.
    pub(crate) fn in_time_ns(&self, waited_ns: u64) -> u64 {
        (waited_ns as f64 / self.late_after) as u64
    }

    /// When a request that waits is late.
    pub(crate) fn late_at_ns(&self, waiting: &Waiting) -> u64 {
        waiting.since_ns().saturating_add(self.waits_ns(waiting.served_ns))
    }

    /// The level of a request that ran for so long; `None` if it is not aged.
    pub(crate) fn level(&self, served_ns: u64) -> Option<usize> {
        let ratio = served_ns / self.after_ns.max(1);
        let level = ratio.checked_ilog(LEVEL_FACTOR)? as usize;
        Some(level.min(AGED_LEVELS - 1))
    }

    /// For how long a request runs before it is beyond `level`; `None` if that is the last.
    pub(crate) fn ends_ns(&self, level: usize) -> Option<u64> {
        let factor = LEVEL_FACTOR.saturating_pow(level as u32 + 1);
        (level + 1 < AGED_LEVELS).then(|| self.after_ns.saturating_mul(factor))
    }
}

/// How a group takes part in lending.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Loan {
    /// Whether longer groups may borrow its workers.
    pub(crate) lends: bool,
    /// Whether it may borrow: a worker that it runs on can be taken back.
    pub(crate) borrows: bool,
    /// As [`Group::borrow_after_ns`].
    pub(crate) borrow_after_ns: u64,
    /// As [`Group::allowance_ns`].
    pub(crate) allowance_ns: u64,
    /// As [`Group::aging`].
    pub(crate) aging: Option<Aging>,
}

impl Group {
    /// A group without workers.
    const fn of(members: Range<usize>, shortest_ns: f64) -> Self {
        Self {
            members,
            shortest_ns,
            is_alone: false,
            shares: false,
            own: NONE,
            further: NONE,
            stealable_end: 0,
            on_own_thread: false,
            borrowed: NONE,
            borrow_after_ns: 0,
            allowance_ns: None,
            aging: None,
        }
    }

    /// What is left of the allowance of a request that has waited for so long, if anything.
    pub(crate) fn left_ns(&self, waited_ns: u64) -> Option<u64> {
        self.allowance_ns?.checked_sub(waited_ns)
    }

    /// Whether its requests may run on `worker` when they have waited for so long.
    pub(crate) const fn may_use(&self, worker: WorkerId, waited_ns: u64) -> bool {
        self.own.contains(worker.0)
            || (self.on_own_thread && worker.0 == 0)
            || self.further.contains(worker.0)
            || (self.borrowed.contains(worker.0) && waited_ns >= self.borrow_after_ns)
    }

    /// Whether running on `worker` takes it from a longer group.
    pub(crate) const fn steals(&self, worker: WorkerId) -> bool {
        self.own.end <= worker.0 && worker.0 < self.stealable_end
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Plan {
    workers: u32,
    /// Type slots, group after group.
    order: Vec<usize>,
    /// Groups by ascending service time. The last holds the rest: `UNKNOWN`, and types of which
    /// nothing is known.
    groups: Vec<Group>,
    /// Per type slot; `None` for the rest.
    group_of: Vec<Option<usize>>,
    /// Per type slot: whether the type is a group by itself.
    is_alone: Vec<bool>,
}

const NONE: WorkerRange = WorkerRange::new(0, 0);

impl Plan {
    /// One queue for all these types, `UNKNOWN` and all workers, which is c-FCFS.
    pub(crate) fn shared(types: &TypeTable, workers: u32) -> Self {
        let slots = types.len() + 1;
        let mut groups = Vec::with_capacity(slots + 1);
        groups.push(Group {
            further: WorkerRange::new(0, workers),
            ..Group::of(0..slots, f64::INFINITY)
        });
        Self {
            workers,
            order: (0..slots).collect(),
            groups,
            group_of: vec![None; slots],
            is_alone: { types.specs().iter() }.map(TypeSpec::is_never_grouped).chain([false]).collect(),
        }
    }

    /// Workers come or go. Groups keep their workers until they get others; the one queue for all types, which
    /// has no groups, is for all workers at once.
    pub(crate) fn set_workers(&mut self, workers: u32) {
        self.workers = workers;
        if !self.has_groups() {
            self.groups[0].further = WorkerRange::new(0, workers);
        }
    }

    /// Sorts the types by `mean_ns` and groups those within a factor `delta` of a group's
    /// shortest, but for types that are never grouped. The groups have no workers until one of the other methods gives
    /// them some.
    pub(crate) fn regroup(&mut self, delta: f64, mean_ns: impl Fn(usize) -> Option<f64>) {
        let unknown = self.order.len() - 1;
        let key = |slot: usize| mean_ns(slot).filter(|_| slot != unknown).unwrap_or(f64::INFINITY);
        let is_alone = &self.is_alone;
        self.order.sort_unstable_by(|&a, &b| key(a).total_cmp(&key(b)).then(a.cmp(&b)));
        self.groups.clear();
        self.group_of.fill(None);
        let known = self.order.partition_point(|&slot| key(slot).is_finite());
        let mut first = 0;
        while first < known {
            let shortest_ns = key(self.order[first]);
            let limit = shortest_ns * delta;
            let begins_alone = is_alone[self.order[first]];
            let joining = self.order[first + 1..known]
                .iter()
                .take_while(|&&slot| key(slot) <= limit && !begins_alone && !is_alone[slot]);
            let end = first + 1 + joining.count();
            for &slot in &self.order[first..end] {
                self.group_of[slot] = Some(self.groups.len());
            }
            self.groups.push(Group { is_alone: begins_alone, ..Group::of(first..end, shortest_ns) });
            first = end;
        }
        self.groups.push(Group::of(known..self.order.len(), f64::INFINITY));
    }

    /// Groups whose types all take less time than it takes to hand a request over use the driver's own thread, too. The
    /// rest does not: how long its next request takes is not known.
    pub(crate) fn open_own_thread(&mut self, hand_over_ns: f64, mean_ns: impl Fn(usize) -> Option<f64>) {
        let is_brief = |slot: &usize| mean_ns(*slot).is_some_and(|mean_ns| mean_ns <= hand_over_ns);
        let (_rest, groups) = self.groups.split_last_mut().expect("the rest is a group");
        for group in groups {
            let mut members = self.order[group.members.clone()].iter();
            group.on_own_thread = members.all(is_brief);
        }
    }

    /// Reserves workers for each group by its share of the CPU demand (Perséphone, algorithm 2).
    ///
    /// Where there are more groups than workers, those nearest to each other have the same workers,
    /// the shorter ones first; the paper sends all that find no worker to the spillway, where a group
    /// of microseconds would wait behind one of milliseconds. A group that finds none left all the
    /// same, because shorter ones need them all, gets the `spillway` last workers, which are also
    /// all that the rest may use. With `stealing`, a group may use the workers after its own;
    /// without, the workers that no group has reserved.
    pub(crate) fn reserve_by_demand(&mut self, demand: impl Fn(usize) -> f64, spillway: u32, stealing: bool) {
        let workers = self.workers;
        let spillway = WorkerRange::new(workers - spillway.clamp(1, workers), workers);
        let (rest, groups) = self.groups.split_last_mut().expect("the rest is a group");
        share_workers(groups, workers as usize);
        let mut next: u32 = 0;
        for sharing in groups.chunk_by_mut(|_, following| following.shares) {
            let members = sharing.iter().flat_map(|group| &self.order[group.members.clone()]);
            let share: f64 = members.map(|&slot| demand(slot)).sum();
            let wanted = (share * f64::from(workers)).round().max(1.0) as u32;
            let end = next.saturating_add(wanted).min(workers);
            let own = if next == workers {
                spillway
            } else {
                WorkerRange::new(next, end)
            };
            sharing.iter_mut().for_each(|group| group.own = own);
            next = end;
        }
        for group in groups {
            let first = if stealing {
                group.own.end
            } else {
                group.own.end.max(next)
            };
            group.further = WorkerRange::new(first, workers);
            group.stealable_end = next;
        }
        rest.further = spillway;
    }

    /// Divides all workers among the groups by their share of the CPU demand, each at least one.
    ///
    /// Where there are more groups than workers, those nearest to each other are one partition. The
    /// rest belongs to the last partition.
    pub(crate) fn partition_by_demand(&mut self, demand: impl Fn(usize) -> f64) {
        let workers = self.workers;
        let (rest, groups) = self.groups.split_last_mut().expect("the rest is a group");
        if groups.is_empty() {
            rest.own = WorkerRange::new(0, workers);
            return;
        }
        share_workers(groups, workers as usize);
        rest.shares = true;
        let mut divided: Vec<(f64, u32)> = groups
            .chunk_by(|_, following| following.shares)
            .map(|sharing| {
                let members = sharing.iter().flat_map(|group| &self.order[group.members.clone()]);
                let share: f64 = members.map(|&slot| demand(slot)).sum();
                (share * f64::from(workers), 1)
            })
            .collect();
        for _ in divided.len()..workers as usize {
            let lacking = |&(wanted, given): &(f64, u32)| wanted - f64::from(given);
            let neediest = divided.iter_mut().max_by(|a, b| lacking(a).total_cmp(&lacking(b)));
            neediest.expect("there are groups").1 += 1;
        }
        let mut first = 0;
        let partitions = self.groups.chunk_by_mut(|_, following| following.shares);
        for (partition, (_, given)) in partitions.zip(divided) {
            let own = WorkerRange::new(first, first + given);
            partition.iter_mut().for_each(|group| group.own = own);
            first = own.end;
        }
    }

    /// Reserves the first `reserved` workers for the shortest group, which may use the others
    /// too; all other types share the others (Perséphone 5.3).
    pub(crate) fn reserve_for_shortest(&mut self, reserved: u32) {
        let shared = WorkerRange::new(reserved.min(self.workers - 1), self.workers);
        for group in &mut self.groups {
            group.further = shared;
        }
        if self.has_groups() {
            self.groups[0].own = WorkerRange::new(0, shared.first);
        } else {
            self.groups[0].further = WorkerRange::new(0, self.workers);
        }
    }

    /// Lets every group borrow workers of the groups before it, under the `loan` of each group's number:
    /// those from `first` on, but for those of groups that do not lend and of groups before them.
    pub(crate) fn lend(&mut self, first: u32, loan: impl Fn(usize) -> Loan) {
        let mut first = first.min(self.workers);
        for (number, group) in self.groups.iter_mut().enumerate() {
            let end = if group.own.len() > 0 {
                group.own.first
            } else {
                self.workers
            };
            let Loan { lends, borrows, borrow_after_ns, allowance_ns, aging } = loan(number);
            let first_borrowed = if borrows { first.min(end) } else { end };
            group.borrowed = WorkerRange::new(first_borrowed, end);
            group.borrow_after_ns = borrow_after_ns;
            group.allowance_ns = Some(allowance_ns);
            group.aging = aging;
            if !lends {
                first = first.max(group.own.end);
            }
        }
    }

    /// Whether the service time of any type is known.
    pub(crate) fn has_groups(&self) -> bool {
        self.groups.len() > 1
    }

    /// The groups in the order in which they are served, each with its type slots.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Group, &[usize])> {
        self.groups.iter().map(|group| (group, &self.order[group.members.clone()]))
    }

    /// The last group, with its type slots: `UNKNOWN`, and types of which nothing is known.
    pub(crate) fn rest(&self) -> (&Group, &[usize]) {
        let rest = self.groups.last().expect("the rest is a group");
        (rest, &self.order[rest.members.clone()])
    }

    /// The first group of each partition, with the type slots of all its groups.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (&Group, &[usize])> {
        self.groups.chunk_by(|_, following| following.shares).map(|sharing| {
            let first = sharing[0].members.start;
            let end = sharing[sharing.len() - 1].members.end;
            (&sharing[0], &self.order[first..end])
        })
    }

    /// The type slots of the shortest group, and all others. `None` while no service time is
    /// known.
    pub(crate) fn shortest_and_longer(&self) -> Option<(&[usize], &[usize])> {
        self.has_groups().then(|| self.order.split_at(self.groups[0].members.end))
    }

    /// The group after the shortest, with the type slots of all groups but the shortest. `None` while no service time
    /// is known.
    pub(crate) fn longer(&self) -> Option<(&Group, &[usize])> {
        let (_, longer) = self.shortest_and_longer()?;
        Some((self.groups.get(1)?, longer))
    }

    /// How requests of the type at `slot` age, if they do.
    pub(crate) fn aging_of(&self, slot: usize) -> Option<Aging> {
        self.groups[self.group_of(slot)?].aging
    }

    /// Number of groups, the rest among them.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// All type slots, group after group.
    pub(crate) fn slots(&self) -> &[usize] {
        &self.order
    }

    /// Number of the group of the type at `slot`.
    pub(crate) fn group_of(&self, slot: usize) -> Option<usize> {
        self.group_of[slot]
    }

    /// Whether the group of the type at `slot` uses the driver's own thread whoever has it reserved.
    pub(crate) fn is_on_own_thread(&self, slot: usize) -> bool {
        self.group_of[slot].is_some_and(|group| self.groups[group].on_own_thread)
    }

    /// Number of workers reserved for the group of the type at `slot`, and the first of them.
    pub(crate) fn reservation(&self, slot: usize) -> (usize, Option<WorkerId>) {
        let own = self.group_of[slot].map_or(NONE, |group| self.groups[group].own);
        let first = (own.len() > 0).then_some(WorkerId(own.first));
        (own.len(), first)
    }
}

/// Lets groups that are nearest to each other by their service times share workers, until there are
/// no more sets of groups than workers. Sets with a type that is never grouped get longer groups last of all.
fn share_workers(groups: &mut [Group], workers: usize) {
    for _ in workers..groups.len() {
        // Nothing comes before the first.
        let (mut first_ns, mut has_alone) = (f64::NAN, true);
        let mut nearest = ((true, f64::INFINITY), 0);
        for (index, group) in groups.iter().enumerate() {
            if !group.shares {
                let shortest_ns = group.shortest_ns.max(1.0);
                let distance = (has_alone, shortest_ns / first_ns);
                if distance < nearest.0 {
                    nearest = (distance, index);
                }
                (first_ns, has_alone) = (shortest_ns, false);
            }
            has_alone |= group.is_alone;
        }
        groups[nearest.1].shares = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean service time in microseconds and share of each type.
    type Mix = [(f64, f64)];

    const TPC_C: &Mix = &[(5.7, 0.44), (6.0, 0.04), (20.0, 0.44), (88.0, 0.04), (100.0, 0.04)];

    /// Types of 1, 1 and 20 us and 10 ms, equally many of each.
    const STORE: &Mix = &[(1.0, 0.25), (1.0, 0.25), (20.0, 0.25), (10_000.0, 0.25)];

    fn demand(mix: &Mix, slot: usize) -> f64 {
        let total: f64 = mix.iter().map(|(mean, share)| mean * share).sum();
        mix[slot].0 * mix[slot].1 / total
    }

    /// So many types without hints.
    fn types(count: usize) -> TypeTable {
        { 0..count }.map(|number| TypeSpec::new(number.to_string())).collect()
    }

    fn plan_with(mix: &Mix, workers: u32, spillway: u32, stealing: bool) -> Plan {
        let mut plan = Plan::shared(&types(mix.len()), workers);
        plan.regroup(2.0, |slot| Some(mix.get(slot)?.0));
        plan.reserve_by_demand(|slot| demand(mix, slot), spillway, stealing);
        plan
    }

    const AGING: Aging = Aging { after_ns: 1_000, spare: 1, late_after: 2.0 };

    #[test]
    fn a_level_of_aged_requests_ends_where_the_next_begins() {
        for level in 0..AGED_LEVELS - 1 {
            let ends_ns = AGING.ends_ns(level).unwrap();
            let around = [ends_ns - 1, ends_ns].map(|ns| AGING.level(ns));
            assert_eq!(around, [Some(level), Some(level + 1)]);
        }
        assert_eq!(AGING.level(999), None);
        assert_eq!(AGING.level(u64::MAX), Some(AGED_LEVELS - 1));
        assert_eq!(AGING.ends_ns(AGED_LEVELS - 1), None);
    }

    #[test]
    fn an_aged_request_is_late_once_it_has_waited_for_as_long_as_it_may() {
        let times_of = |aging: Aging| (aging.waits_ns(3_000), aging.in_time_ns(6_000));
        assert_eq!(times_of(AGING), (6_000, 3_000));
        let never = Aging { late_after: f64::INFINITY, ..AGING };
        assert_eq!(times_of(never), (u64::MAX, 0));
        let waiting = Waiting { arrived_ns: 70, served_ns: 30, ..Waiting::example() };
        assert_eq!(AGING.late_at_ns(&waiting), 100 + 60);
    }

    type Row<'a> = (&'a [usize], (u32, u32), (u32, u32));

    /// Members, own workers and further workers of each group, as half-open ranges.
    fn rows(plan: &Plan) -> Vec<Row<'_>> {
        plan.groups()
            .map(|(group, members)| {
                let range = |range: WorkerRange| (range.first, range.end);
                (members, range(group.own), range(group.further))
            })
            .collect()
    }

    #[test]
    fn tpc_c_gets_the_published_groups() {
        assert_eq!(
            rows(&plan_with(TPC_C, 14, 1, true)),
            [
                (&[0, 1][..], (0, 2), (2, 14)),
                (&[2], (2, 8), (8, 14)),
                (&[3, 4], (8, 14), (14, 14)),
                (&[5], (0, 0), (13, 14)),
            ]
        );
    }

    #[test]
    fn small_numbers_of_workers_keep_the_shortest_on_worker_0() {
        let expected: [[(u32, u32); 3]; 4] = [
            [(0, 1), (0, 1), (0, 1)],
            [(0, 1), (0, 1), (1, 2)],
            [(0, 1), (1, 2), (2, 3)],
            [(0, 1), (1, 2), (2, 4)],
        ];
        for (workers, own) in (1..).zip(expected) {
            let plan = plan_with(STORE, workers, 1, true);
            let rows = rows(&plan);
            assert_eq!(rows.len(), own.len() + 1);
            for ((_, reserved, further), own) in rows.iter().zip(own) {
                assert_eq!(*reserved, own, "{workers} workers");
                assert_eq!(*further, (own.1, workers));
            }
            assert_eq!(rows[3].2, (workers - 1, workers), "UNKNOWN");
        }
    }

    #[test]
    fn groups_nearest_to_each_other_share_workers_when_there_are_few() {
        // A probe of 0.3 us, reads, ranges, scans.
        let mix = [(0.3, 0.1), (1.0, 0.8), (20.0, 0.09), (10_000.0, 0.01)];
        let own = |workers| {
            let plan = plan_with(&mix, workers, 1, true);
            let rows = rows(&plan);
            [0, 1, 2, 3].map(|group| rows[group].1)
        };
        assert_eq!(own(1), [(0, 1), (0, 1), (0, 1), (0, 1)]);
        assert_eq!(own(2), [(0, 1), (0, 1), (0, 1), (1, 2)]);
        assert_eq!(own(3), [(0, 1), (0, 1), (1, 2), (2, 3)]);
        assert_eq!(own(4), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    }

    #[test]
    fn a_group_that_finds_no_worker_gets_the_spillway() {
        let mix = [(1.0, 0.98), (50.0, 0.01), (9000.0, 0.000_001)];
        assert_eq!(
            rows(&plan_with(&mix, 3, 2, true)),
            [
                (&[0][..], (0, 2), (2, 3)),
                (&[1], (2, 3), (3, 3)),
                (&[2], (1, 3), (3, 3)),
                (&[3], (0, 0), (1, 3)),
            ]
        );
    }

    #[test]
    fn without_stealing_only_leftover_workers_are_shared() {
        // Each asks for 1.33 of 4 workers.
        let mix = [(1.0, 0.9), (10.0, 0.09), (100.0, 0.009)];
        let own_and_further = |stealing| {
            let plan = plan_with(&mix, 4, 1, stealing);
            let rows = rows(&plan);
            [rows[0], rows[1], rows[2]].map(|(_, own, further)| (own, further))
        };
        assert_eq!(own_and_further(true), [((0, 1), (1, 4)), ((1, 2), (2, 4)), ((2, 3), (3, 4))]);
        assert_eq!(own_and_further(false), [((0, 1), (3, 4)), ((1, 2), (3, 4)), ((2, 3), (3, 4))]);
        let plan = plan_with(&mix, 4, 1, true);
        let shortest = plan.groups().next().map(|(group, _)| group).unwrap();
        let stolen = [0, 1, 2, 3].map(|worker| shortest.steals(WorkerId(worker)));
        assert_eq!(stolen, [false, true, true, false]);
    }

    #[test]
    fn workers_that_come_are_for_all_types_at_once_unless_there_are_groups() {
        let mut shared = Plan::shared(&types(2), 4);
        let mut grouped = plan_with(STORE, 4, 1, true);
        let before = rows(&grouped).len();
        for workers in [2, 6] {
            shared.set_workers(workers);
            grouped.set_workers(workers);
            assert_eq!(rows(&shared)[0].2, (0, workers));
            assert_eq!(
                (rows(&grouped)[0].2, rows(&grouped).len()),
                ((1, 4), before),
                "until there is another plan"
            );
        }
    }

    #[test]
    fn a_worker_left_over_goes_to_the_partition_that_lacks_most_and_the_nearest_by_their_ratio_are_one() {
        let partitions = |mix: &Mix, workers| {
            let mut plan = Plan::shared(&types(mix.len()), workers);
            plan.regroup(1.0, |slot| Some(mix.get(slot)?.0));
            plan.partition_by_demand(|slot| demand(mix, slot));
            rows(&plan).into_iter().map(|(_, own, _)| own).collect::<Vec<_>>()
        };
        // 6.6 and 1.4 of 8 workers.
        assert_eq!(partitions(&[(1.0, 0.825), (2.0, 0.0875)], 8), [(0, 7), (7, 8), (7, 8)]);
        let apart = [(1.0, 0.25), (10.0, 0.25), (1_000.0, 0.25), (2_000.0, 0.25)];
        assert_eq!(partitions(&apart, 3), [(0, 1), (1, 2), (2, 3), (2, 3), (2, 3)]);
    }

    #[test]
    fn partitions_have_all_workers_and_the_rest_is_part_of_the_last() {
        let partitions = |mix: &Mix, workers| {
            let mut plan = Plan::shared(&types(mix.len()), workers);
            plan.regroup(2.0, |slot| Some(mix.get(slot)?.0));
            plan.partition_by_demand(|slot| demand(mix, slot));
            let row = |(group, members): (&Group, &[usize])| (members.to_vec(), (group.own.first, group.own.end));
            plan.partitions().map(row).collect::<Vec<_>>()
        };
        assert_eq!(partitions(TPC_C, 14), [(vec![0, 1], (0, 2)), (vec![2], (2, 8)), (vec![3, 4, 5], (8, 14))]);
        // Each asks for 1.33 of 4 workers.
        let alike = [(1.0, 0.9), (10.0, 0.09), (100.0, 0.009)];
        let sizes: Vec<u32> = partitions(&alike, 4).into_iter().map(|(_, (first, end))| end - first).collect();
        assert_eq!(sizes.iter().sum::<u32>(), 4);
        assert_eq!(sizes.iter().min(), Some(&1));
        assert_eq!(partitions(STORE, 2), [(vec![0, 1, 2], (0, 1)), (vec![3, 4], (1, 2))]);
        assert_eq!(partitions(STORE, 1), [(vec![0, 1, 2, 3, 4], (0, 1))]);
        assert_eq!(partitions(&[], 3), [(vec![0], (0, 3))]);
    }

    #[test]
    fn one_group_of_alike_types_has_all_workers() {
        let plan = plan_with(&[(50.0, 0.5), (51.0, 0.5)], 8, 1, true);
        assert_eq!(rows(&plan)[0], (&[0, 1][..], (0, 8), (8, 8)));
    }

    #[test]
    fn a_group_reaches_to_delta_times_its_shortest_not_its_longest() {
        let plan = plan_with(&[(1.0, 0.3), (1.9, 0.3), (2.5, 0.4)], 4, 1, true);
        let groups: Vec<_> = (0..4).map(|slot| plan.group_of(slot)).collect();
        assert_eq!(groups, [Some(0), Some(0), Some(1), None]);
    }

    /// The plan of `plan_with`, in which the types at these slots are never grouped.
    fn plan_apart(mix: &Mix, workers: u32, alone: &[usize]) -> Plan {
        let apart = |(slot, spec): (usize, &TypeSpec)| match alone.contains(&slot) {
            true => spec.clone().never_grouped(),
            false => spec.clone(),
        };
        let types = types(mix.len());
        let types = types.specs().iter().enumerate().map(apart).collect();
        let mut plan = Plan::shared(&types, workers);
        plan.regroup(2.0, |slot| Some(mix.get(slot)?.0));
        plan.reserve_by_demand(|slot| demand(mix, slot), 1, true);
        plan
    }

    #[test]
    fn a_type_that_is_never_grouped_has_a_group_to_itself() {
        let mix = [(1.0, 0.3), (1.1, 0.3), (1.2, 0.2), (1.3, 0.2)];
        let groups = |alone: &[usize]| {
            let plan = plan_apart(&mix, 4, alone);
            [0, 1, 2, 3].map(|slot| plan.group_of(slot).unwrap())
        };
        assert_eq!(groups(&[]), [0, 0, 0, 0]);
        assert_eq!(groups(&[0]), [0, 1, 1, 1]);
        assert_eq!(groups(&[1]), [0, 1, 2, 2]);
        assert_eq!(groups(&[1, 2]), [0, 1, 2, 3]);
        assert_eq!(groups(&[3]), [0, 0, 0, 1]);
    }

    #[test]
    fn a_type_that_is_never_grouped_shares_workers_with_shorter_ones_first() {
        // Reads, administration, scripts that are nearer to it.
        let mix = [(1.0, 0.8), (400.0, 0.1), (500.0, 0.1)];
        let own = |workers, alone: &[usize]| {
            let plan = plan_apart(&mix, workers, alone);
            let rows = rows(&plan);
            { rows.iter() }.map(|row| row.1).collect::<Vec<_>>()
        };
        assert_eq!(own(2, &[]), [(0, 1), (1, 2), (0, 0)]);
        assert_eq!(own(2, &[1]), [(0, 1), (0, 1), (1, 2), (0, 0)]);
        assert_eq!(own(1, &[1]), [(0, 1), (0, 1), (0, 1), (0, 0)], "no other way");
    }

    #[test]
    fn types_of_unknown_length_join_the_rest() {
        let mut plan = Plan::shared(&types(3), 2);
        plan.regroup(2.0, |slot| [None, Some(5.0), None, Some(1.0)][slot]);
        plan.reserve_by_demand(|_| 0.0, 1, true);
        assert_eq!(rows(&plan), [(&[1][..], (0, 1), (1, 2)), (&[0, 2, 3], (0, 0), (1, 2))]);
        assert_eq!(plan.reservation(1), (1, Some(WorkerId(0))));
        assert_eq!(plan.reservation(0), (0, None));
    }

    #[test]
    fn the_shortest_group_alone_can_be_given_workers() {
        let mut plan = Plan::shared(&types(2), 4);
        plan.reserve_for_shortest(1);
        assert_eq!(rows(&plan), [(&[0, 1, 2][..], (0, 0), (0, 4))]);
        plan.regroup(2.0, |slot| [Some(9.0), Some(1.0), None][slot]);
        plan.reserve_for_shortest(1);
        assert_eq!(rows(&plan), [(&[1][..], (0, 1), (1, 4)), (&[0], (0, 0), (1, 4)), (&[2], (0, 0), (1, 4)),]);
        plan.reserve_for_shortest(9);
        assert_eq!(
            rows(&plan)[..2],
            [(&[1][..], (0, 3), (3, 4)), (&[0], (0, 0), (3, 4))],
            "one is left to others"
        );
    }

    #[test]
    fn groups_borrow_from_all_shorter_ones_behind_the_last_that_does_not_lend() {
        let borrowed = |first, lending: &[usize]| {
            let mut plan = plan_with(TPC_C, 14, 1, true);
            plan.lend(first, |number| Loan {
                lends: lending.contains(&number),
                borrows: true,
                borrow_after_ns: 7,
                allowance_ns: 9,
                aging: None,
            });
            assert!(plan.groups().all(|(group, _)| group.borrow_after_ns == 7));
            let range = |group: &Group| (group.borrowed.first, group.borrowed.end);
            plan.groups().map(|(group, _)| range(group)).collect::<Vec<_>>()
        };
        assert_eq!(borrowed(0, &[0, 1, 2]), [(0, 0), (0, 2), (0, 8), (0, 14)], "the rest borrows too");
        assert_eq!(borrowed(1, &[0, 1, 2]), [(0, 0), (1, 2), (1, 8), (1, 14)]);
        assert_eq!(borrowed(0, &[1, 2]), [(0, 0), (2, 2), (2, 8), (2, 14)]);
        assert_eq!(borrowed(0, &[]), [(0, 0), (2, 2), (8, 8), (14, 14)]);
    }

    #[test]
    fn only_workers_of_longer_groups_are_stolen() {
        let plan = plan_with(TPC_C, 14, 1, true);
        let steals: Vec<bool> = plan.groups().map(|(group, _)| group.steals(WorkerId(7))).collect();
        assert_eq!(steals, [true, false, false, false]);
    }
}
