//! Requests that are stuck, and the workers that types may use whose own are all stuck:
//! [`Scheduler::relief`](crate::Scheduler::relief) has the rule.
//!
//! ```text
//!   own and further workers     outlook          other workers
//!   one runs nothing            Open             stay with their groups
//!   one is not yet stuck        Open until then  stay with their groups
//!   all are stuck               CutOff           the idle one of the longest types runs a request
//! ```

use std::cmp::Ordering::{Equal, Greater, Less};

use crate::event::WorkerId;
use crate::parts::profile::Profile;
use crate::parts::queues::Queues;
use crate::parts::running::Running;
use crate::parts::workers::WorkerRange;
use crate::scheduler::Relief;
use crate::setup::{SchedulerSetup, StuckAfter};

/// A deadline is put off by up to this part of the time after which requests are stuck. So it seldom moves while
/// requests come and go.
const DEADLINES_PER_TIME: u64 = 16;

/// The rule of a setup, and what came of it.
#[derive(Debug)]
pub(crate) struct StuckRule {
    after: Option<StuckAfter>,
    /// The first worker that is not the driver's own thread.
    first: u32,
    /// When to look again.
    pub(crate) deadline_ns: Option<u64>,
    /// Per type slot: requests that began on workers of others.
    pub(crate) relieved: Vec<u64>,
}

impl StuckRule {
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            after: setup.stuck,
            first: u32::from(setup.inline),
            deadline_ns: None,
            relieved: vec![0; setup.types.len() + 1],
        }
    }

    /// Whether there is a look no later than at `look_ns` anyway.
    #[inline]
    pub(crate) fn looks_by(&self, now_ns: u64, look_ns: u64) -> bool {
        let is_next = |deadline_ns: u64| now_ns < deadline_ns && deadline_ns <= look_ns;
        self.deadline_ns.is_some_and(is_next)
    }

    /// The workers as they are now; `None` if no request is ever stuck.
    #[inline]
    pub(crate) fn scene<'a, T: Turns>(
        &self,
        now_ns: u64,
        turns: T,
        profile: &'a Profile,
        present: WorkerRange,
    ) -> Option<Scene<'a, T>> {
        Some(Scene {
            after: self.after?,
            first: self.first,
            now_ns,
            turns,
            profile,
            present,
        })
    }
}

/// Where the turns of all workers can be seen.
pub(crate) trait Turns {
    /// Number of workers, present or absent.
    fn workers(&self) -> u32;

    /// The type slot of the request on `worker`, and for how long it has run in all its turns.
    fn attained(&self, worker: WorkerId, now_ns: u64) -> Option<(usize, u64)>;

    /// Whether `worker` is idle and can begin a request.
    fn begins(&self, worker: WorkerId) -> bool;
}

/// The turns of a scheduler that has all queues in one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnePlace<'a> {
    pub(crate) running: &'a Running,
    pub(crate) queues: &'a Queues,
}

impl Turns for OnePlace<'_> {
    fn workers(&self) -> u32 {
        self.running.workers() as u32
    }

    #[inline]
    fn attained(&self, worker: WorkerId, now_ns: u64) -> Option<(usize, u64)> {
        let turn = self.running.on(worker)?;
        let slot = self.queues.slot(turn.waiting.request_type);
        Some((slot, turn.attained_ns(now_ns)))
    }

    fn begins(&self, worker: WorkerId) -> bool {
        !self.running.is_busy(worker) && self.queues.has_context(worker)
    }
}

/// Whether workers are stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// All are.
    CutOff,
    /// Some worker is not. If nothing happens before, it is worth another look at this time.
    Open(Option<u64>),
}

/// All workers at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a, T> {
    after: StuckAfter,
    first: u32,
    pub(crate) now_ns: u64,
    turns: T,
    profile: &'a Profile,
    present: WorkerRange,
}

impl<T: Turns> Scene<'_, T> {
    /// For how long the request on `worker` can go on until it is stuck: 0 if it is. `None` if the worker is idle.
    fn left_ns(&self, worker: WorkerId) -> Option<u64> {
        let (slot, attained_ns) = self.turns.attained(worker, self.now_ns)?;
        let mean_ns = self.profile.mean_ns(slot).unwrap_or(0.0);
        Some(self.after.service_ns(mean_ns).saturating_sub(attained_ns))
    }

    fn is_stuck(&self, worker: WorkerId) -> bool {
        self.left_ns(worker) == Some(0)
    }

    /// Whether all `workers` are stuck.
    #[inline]
    pub(crate) fn outlook(&self, workers: impl IntoIterator<Item = WorkerId>) -> Outlook {
        for worker in workers {
            let Some(left_ns) = self.left_ns(worker) else {
                return Outlook::Open(None);
            };
            if left_ns > 0 {
                let stuck_ns = self.now_ns.saturating_add(left_ns);
                let step_ns = (self.after.time_ns / DEADLINES_PER_TIME).max(1);
                let look_ns = stuck_ns.checked_next_multiple_of(step_ns);
                return Outlook::Open(look_ns);
            }
        }
        Outlook::CutOff
    }

    /// The workers that are present and are among `mine`.
    pub(crate) fn among(&self, mine: impl Fn(WorkerId) -> bool) -> impl Iterator<Item = WorkerId> {
        (self.present.first..self.present.end).map(WorkerId).filter(move |&worker| mine(worker))
    }

    /// The workers that are present, are not among `mine`, and are not the driver's own thread.
    fn others(&self, mine: impl Fn(WorkerId) -> bool) -> impl Iterator<Item = WorkerId> {
        let first = self.first;
        self.among(move |worker| worker.0 >= first && !mine(worker))
    }

    /// The worker that begins a request in the place of a stuck one among `mine`: of those that are idle, that of the
    /// longest types.
    pub(crate) fn spare(&self, mine: impl Fn(WorkerId) -> bool) -> Option<WorkerId> {
        let begins = |&worker: &WorkerId| self.turns.begins(worker);
        self.others(mine).filter(begins).last()
    }

    /// The workers beside `mine` that run requests of the types `members`.
    pub(crate) fn away(&self, members: &[usize], mine: impl Fn(WorkerId) -> bool) -> impl Iterator<Item = WorkerId> {
        let all = (0..self.turns.workers()).map(WorkerId);
        all.filter(move |&worker| !mine(worker) && self.runs(members, worker))
    }

    /// Whether `worker` runs a request of the types `members`.
    pub(crate) fn runs(&self, members: &[usize], worker: WorkerId) -> bool {
        let runs = self.turns.attained(worker, self.now_ns);
        runs.is_some_and(|(slot, _)| members.contains(&slot))
    }

    /// What is left to the types `members`, which may use any `workers_max` workers.
    pub(crate) fn relief_of_any(&self, members: &[usize], workers_max: usize) -> Relief {
        let all = (0..self.turns.workers()).map(WorkerId);
        let stuck = all.filter(|&worker| self.runs(members, worker) && self.is_stuck(worker));
        match stuck.count().cmp(&workers_max) {
            Less => Relief::NotNeeded,
            Equal if self.others(|worker| self.is_stuck(worker)).next().is_some() => Relief::OtherWorker,
            Equal | Greater => Relief::NoWorker,
        }
    }

    /// What is left to the types `members`, which may use the workers that are among `mine`.
    pub(crate) fn relief(&self, members: &[usize], mine: impl Fn(WorkerId) -> bool + Copy) -> Relief {
        if self.outlook(self.among(mine)) != Outlook::CutOff {
            return Relief::NotNeeded;
        }
        let is_lost = self.away(members, mine).any(|worker| self.is_stuck(worker));
        if is_lost || self.others(mine).all(|worker| self.is_stuck(worker)) {
            Relief::NoWorker
        } else {
            Relief::OtherWorker
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN, requests, setup};
    use crate::request_type::{TypeSpec, TypeTable};

    const STUCK_NS: u64 = 160_000;
    /// The end of the step of deadlines in which requests are stuck that began at once.
    const LOOK_NS: u64 = 170_000;

    /// One worker of four for A, three for B.
    fn policies() -> [Policy; 5] {
        [
            Policy::darc(),
            Policy::darc_lending(),
            Policy::darc_static(1),
            Policy::static_partition(),
            Policy::cscq(),
        ]
    }

    /// On an own thread, B takes longer than a hand-over.
    fn rehearsal(policy: impl Into<Policy>, workers: usize, inline: bool) -> Rehearsal {
        let (b_us, means) = if inline { (100, 1) } else { (10, 9) };
        let spec = |name, us, share| TypeSpec::new(name).service_time(Duration::from_micros(us)).share(share);
        let types = [spec("A", 1, 0.75), spec("B", b_us, 0.25)];
        let stuck = StuckAfter::new(STUCK_NS, means);
        Rehearsal::with_stuck(policy, workers, types, stuck, inline)
    }

    /// The workers of what ran, as `request@worker`.
    fn workers(actions: &str) -> Vec<u32> {
        let runs = actions.split(", ").filter_map(|run| run.split_once('@'));
        runs.map(|(_, worker)| worker.parse().unwrap()).collect()
    }

    #[test]
    fn a_type_whose_workers_are_stuck_uses_another_with_one_request_at_a_time() {
        for policy in policies() {
            let mut policy = (policy.name().to_owned(), rehearsal(policy, 4, false));
            let (name, policy) = (&policy.0, &mut policy.1);
            let begun = policy.arrive_all([1; 6]);
            assert_eq!(requests(&begun), [0, 1, 2], "{name}");
            let mine = workers(&begun);
            let other = (0..4).find(|worker| !mine.contains(worker)).unwrap();
            assert_eq!(policy.relief(1), Relief::NotNeeded, "{name}");
            assert_eq!(policy.deadline_ns(), Some(LOOK_NS), "{name}");
            assert_eq!(policy.ticks(STUCK_NS), "", "{name}: none is stuck yet");
            assert_eq!(policy.ticks(LOOK_NS), format!("3@{other}"), "{name}");
            assert_eq!(policy.relief(1), Relief::OtherWorker, "{name}");
            assert_eq!(policy.relief(0), Relief::NotNeeded, "{name}");
            assert_eq!(policy.arrive_all([0]), "", "{name}: all are busy");
            let next = policy.finishes(other, 10_000);
            assert_eq!(next, format!("6@{other}"), "{name}: its own group goes first");
            assert_eq!(policy.finishes(other, 1_000), format!("4@{other}"), "{name}");
            assert_eq!(policy.type_status(1).relieved, 2, "{name}");
            let mut ran = requests(&policy.finishes(mine[0], 10_000));
            ran.extend(requests(&policy.finishes(other, 10_000)));
            assert_eq!(ran, [5], "{name}");
            assert_eq!(policy.relief(1), Relief::NotNeeded, "{name}");
            assert_eq!(policy.arrive_all([1]), "", "{name}: as before");
            assert_eq!(policy.type_status(1).relieved, 2, "{name}");
        }
    }

    #[test]
    fn a_request_that_is_stuck_on_a_worker_of_others_is_the_last() {
        for policy in policies() {
            let name = policy.name().to_owned();
            // One worker of five for A, but for `darc-static`, which has two.
            let policy = match policy {
                Policy::DarcStatic(settings) => settings.reserved(2).into(),
                other => other,
            };
            let mut policy = rehearsal(policy, 5, false);
            let begun = requests(&policy.arrive_all([1; 9])).len();
            for ticks in 1..4 {
                let ran = policy.ticks(2 * ticks * STUCK_NS);
                assert_eq!(requests(&ran).len(), usize::from(ticks == 1), "{name}");
            }
            assert_eq!(begun, if name == "darc-static" { 3 } else { 4 }, "{name}");
            assert_eq!(policy.relief(1), Relief::NoWorker, "{name}");
        }
    }

    #[test]
    fn where_all_workers_are_stuck_none_is_left() {
        for policy in policies() {
            let name = policy.name().to_owned();
            let mut policy = rehearsal(policy, 4, false);
            assert_eq!(requests(&policy.arrive_all([1, 1, 1, 0, 1])).len(), 4, "{name}");
            assert_eq!(policy.ticks(2 * STUCK_NS), "", "{name}");
            assert_eq!(policy.relief(1), Relief::NoWorker, "{name}");
        }
    }

    #[test]
    fn a_look_to_come_is_one_after_now_and_by_then() {
        let types = TypeTable::new();
        let mut rule = StuckRule::new(&setup(1, &types));
        assert!(!rule.looks_by(0, u64::MAX), "there is none");
        rule.deadline_ns = Some(50);
        let looks =
            [(49, 50), (0, 60), (0, 49), (50, 60), (60, 70)].map(|(now_ns, by_ns)| rule.looks_by(now_ns, by_ns));
        assert_eq!(looks, [true, true, false, false, false]);
    }

    #[test]
    fn the_own_thread_relieves_no_type() {
        for policy in [Policy::darc(), Policy::darc_static(1), Policy::static_partition()] {
            let mut policy = rehearsal(policy, 4, true);
            assert_eq!(policy.arrive_all([1, 1, 1, 1, UNKNOWN]), "0@1, 1@2, 2@3");
            assert_eq!(policy.ticks(2 * STUCK_NS), "");
            assert_eq!(policy.deadline_ns(), None);
            assert_eq!([1, 2].map(|slot| policy.relief(slot)), [Relief::NoWorker; 2]);
            assert_eq!(policy.arrive_all([0]), "5@0");
        }
    }

    /// `UNKNOWN` has the last worker alone, and B has three.
    #[test]
    fn a_type_that_shares_one_worker_uses_those_of_the_longest_first() {
        let mut darc = rehearsal(Policy::darc(), 4, true);
        let begun = darc.arrive_all([UNKNOWN, UNKNOWN]);
        assert_eq!(begun, "0@3");
        assert_eq!(darc.arrive_all([1]), "2@1");
        assert_eq!(darc.ticks(2 * STUCK_NS), "1@2");
    }

    #[test]
    fn both_bounds_and_all_turns_count() {
        let mut darc = rehearsal(Policy::darc(), 2, false);
        assert_eq!(darc.arrive_all([1, 1]), "0@1");
        let now_ns = darc.now_ns;
        let next = darc.yields_after(now_ns + STUCK_NS / 2, 1, STUCK_NS / 2);
        assert_eq!(next, "0@1");
        assert_eq!(darc.ticks(STUCK_NS), "", "it began at 2");
        assert_eq!(darc.ticks(now_ns + STUCK_NS), "1@0");
        let means = StuckAfter::new(STUCK_NS, 20);
        assert_eq!(means.service_ns(10_000.0), 200_000);
        assert_eq!(means.service_ns(0.0), STUCK_NS);
    }
}
