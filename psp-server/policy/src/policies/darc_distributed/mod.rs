//! DARC without a dispatcher: workers reserved for groups of types, and each worker decides for itself.
//!
//! ```text
//!   feedback ── reservations ──► all workers
//!
//!   a short request arrives at a worker of long ones
//!        │ hands it over
//!        ▼
//!   ┌ reserved for short ┐   ┌ reserved for long ───────────────────┐
//!   │ worker 0           │   │ worker 1      worker 2      worker 3 │
//!   └────────────────────┘   └──────────────────────────────────────┘
//!          short requests take workers of long ones if those are idle ──►
//!        ◄── long ones borrow workers of short ones, where these can be taken back by preemption
//! ```
//!
//! - **Feedback** makes DARC's [profile](crate::parts::profile), [groups](crate::parts::plan) and
//!   [reservations](crate::parts::reservations) of all workers' measurements together, and publishes them.
//! - **Receiving.** An idle worker keeps a request that it may run. Otherwise the request goes to an idle worker of its
//!   group, else to an idle one of longer groups; of several, the one that was active last. If all are busy, it
//!   joins the shorter queue of two workers of its group: the receiver if that is one, and others by chance.
//! - **Running.** A worker takes from its own queue, the shortest group first, and within a group the request that
//!   arrived first. If that has nothing, it takes a request that it may run from another worker's queue, again the
//!   shortest group first. So no worker idles while a request waits that it may run.
//! - **Lending.** Where requests can be preempted, a worker that finds nothing else takes a request of a longer group.
//!   It is preempted for a request of its own group, or of a shorter one, that joins its queue, and not before the lent
//!   turn has lasted for as long as a preemption costs. A preempted request waits in the worker's own queue, from which
//!   a worker of its own group takes it if requests migrate.
//!
//! - **Relief.** When all workers that a group may use are [stuck](crate::parts::stuck), feedback names an idle worker
//!   of others, which takes one of its requests if it finds nothing else.
//!
//! A request that joined the queue of a busy worker before another worker became idle is found by that one.
//! `UNKNOWN` and types of unknown length have the spillway, as under DARC; an untried type goes before all others
//! there.

mod feedback;

use crate::distributed::adapter::Distributed;
use crate::distributed::knowledge::Reservation;
use crate::distributed::{LaneSet, Local, Look, Next, Plain, Quantum, Requeue, Ways, Word, WorkerPolicy};
use crate::event::WorkerId;
use crate::parts::workers::WorkerRange;
use crate::settings;
use crate::setup::SchedulerSetup;
use feedback::Reserving;

/// Shortest quantum of a lent turn, where preemption costs next to nothing.
const LENT_NS_MIN: u64 = 1_000;

/// One worker; see the [module](self).
#[derive(Debug, Clone, Copy)]
pub(crate) struct DarcWorker {
    /// Quantum of a lent turn. `None` where none is lent.
    lent_ns: Option<u64>,
}

/// What a worker may do with requests of some types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    /// It runs them.
    Own,
    /// It runs them until it is taken back.
    Borrowed,
    /// It runs one of them, because those that own them are all stuck.
    Relief,
}

impl DarcWorker {
    /// The worker of `range` that has been idle for the shortest time.
    fn idle<C: Word>(look: &Look<'_, C>, range: WorkerRange) -> Option<WorkerId> {
        let workers = (range.first..range.end).map(WorkerId);
        let idle = workers.filter(|&worker| {
            let line = look.board.line(worker);
            !line.is_busy() && !line.is_blocked_up() && line.queued() == 0
        });
        idle.max_by_key(|&worker| {
            let since_ns = look.board.line(worker).since_ns();
            (since_ns, std::cmp::Reverse(worker))
        })
    }

    /// The worker of `range` with the shorter queue, of the receiver and another one, or of two others.
    fn shorter<C: Word>(look: &mut Look<'_, C>, range: WorkerRange) -> Option<WorkerId> {
        let workers = u32::try_from(range.len()).ok().filter(|&len| len > 0)?;
        let mut draw = || WorkerId(range.first + look.random.below(workers));
        let first = if range.contains(look.me.0) { look.me } else { draw() };
        let second = draw();
        let length = |worker| {
            let line = look.board.line(worker);
            (line.is_blocked_up(), line.unfinished())
        };
        Some(if length(second) < length(first) { second } else { first })
    }

    /// Lanes of which `me` may run requests by this right.
    fn lanes<C: Word>(look: &Look<'_, C>, right: Right) -> LaneSet {
        let Look { knowledge, me, .. } = look;
        match right {
            Right::Own => knowledge.lanes(|reservation| reservation.has(*me)),
            Right::Borrowed => knowledge.lanes(|reservation| reservation.borrowed.contains(me.0)),
            Right::Relief => knowledge.relieves(*me),
        }
    }

    /// Those of `lanes` that go first.
    fn first<C: Word>(look: &Look<'_, C>, lanes: LaneSet) -> Option<(u32, LaneSet)> {
        let rank = |lane| look.knowledge.of_lane(lane).rank;
        let first = lanes.iter().map(rank).min()?;
        let lanes = lanes.iter().filter(|&lane| rank(lane) == first);
        Some((first, lanes.collect()))
    }

    /// The request of `lanes` in other workers' queues that goes first.
    fn steal<C: Word>(look: &Look<'_, C>, lanes: LaneSet) -> Option<Next> {
        let others = look.board.others(look.me);
        let found = others.filter_map(|victim| {
            let waiting = look.board.line(victim).waiting().and(lanes);
            let (rank, lanes) = Self::first(look, waiting)?;
            Some((rank, victim, lanes))
        });
        let (_, victim, lanes) = found.min_by_key(|&(rank, ..)| rank)?;
        Some(Next::Steal { victim, lanes, requests: 1 })
    }

    /// What `me` may run by this right.
    fn find<C: Word>(look: &Look<'_, C>, right: Right) -> Option<Next> {
        let lanes = Self::lanes(look, right);
        let begins = match right {
            Right::Own | Right::Relief => look.mine.has_context,
            Right::Borrowed => look.mine.has_another_context,
        };
        let new = if begins { lanes } else { LaneSet::NONE };
        let resumed = match right {
            Right::Own => look.mine.resumes.and(lanes),
            // It can run nowhere else.
            Right::Borrowed => look.mine.resumes,
            Right::Relief => LaneSet::NONE,
        };
        let own = look.mine.begins.and(new).or(resumed);
        if let Some((_, lanes)) = Self::first(look, own) {
            return Some(Next::Own(lanes));
        }
        Self::steal(look, new)
    }
}

impl<C: Word> WorkerPolicy<C> for DarcWorker {
    fn place(&mut self, look: &mut Look<'_, C>, slot: usize) -> Option<WorkerId> {
        let Reservation { own, further, .. } = look.knowledge.reservation(slot);
        let line = look.line();
        let mine = own.contains(look.me.0) || further.contains(look.me.0);
        if mine && !line.is_busy() && !line.is_blocked_up() && line.queued() == 0 {
            return Some(look.me);
        }
        let placed = Self::idle(look, own)
            .or_else(|| Self::idle(look, further))
            .or_else(|| Self::shorter(look, own))
            .or_else(|| Self::shorter(look, further));
        Some(placed.unwrap_or(look.me))
    }

    fn next(&mut self, look: &mut Look<'_, C>) -> Next {
        Self::find(look, Right::Own)
            .or_else(|| Self::find(look, Right::Borrowed))
            .or_else(|| Self::find(look, Right::Relief))
            .unwrap_or(Next::Nothing)
    }

    fn quantum(&self, look: &Look<'_, C>, slot: usize) -> Option<Quantum> {
        let lent = look.knowledge.reservation(slot);
        if lent.has(look.me) || !lent.borrowed.contains(look.me.0) {
            return None;
        }
        let is_shorter = |other: &Reservation| other.has(look.me) && other.group < lent.group;
        Some(Quantum {
            ns: self.lent_ns?,
            yields_to: look.knowledge.lanes(is_shorter),
        })
    }

    fn requeue(&self) -> Requeue {
        Requeue::Head
    }
}

/// The objects of all workers.
pub(crate) fn local<C: Word>(
    setup: &SchedulerSetup<'_>,
    settings: &settings::DarcDistributed,
) -> Local<C, DarcWorker, Reserving> {
    let preemption = setup.useful_preemption().filter(|_| settings.lends);
    let lent_ns = preemption.map(|preemption| preemption.cost_ns.max(LENT_NS_MIN));
    let feedback = |knowledge: &_| Reserving::new(setup, settings, knowledge);
    let ways = Ways { renewed: false, ..Ways::default() };
    let worker = || DarcWorker { lent_ns };
    Local::new(setup, feedback, worker).typed().with(ways)
}

/// All workers as one scheduler.
pub(crate) fn scheduler(
    setup: &SchedulerSetup<'_>,
    settings: &settings::DarcDistributed,
) -> Distributed<DarcWorker, Reserving> {
    Distributed::new(setup, local::<Plain>(setup, settings))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::HandOff;
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, requests};
    use crate::request_type::{RequestType, TypeSpec};
    use crate::scheduler::Relief;
    use crate::setup::{Preemption, StuckAfter};

    const SHORT: RequestType = RequestType::new(0);
    const LONG: RequestType = RequestType::new(1);
    /// Above nine times as long as a LONG request.
    const STUCK_NS: u64 = 1_600_000;

    fn types() -> [TypeSpec; 2] {
        let spec = |name, us, share| {
            let spec = TypeSpec::new(name).service_time(Duration::from_micros(us));
            spec.share(share)
        };
        [spec("SHORT", 1, 0.5), spec("LONG", 100, 0.5)]
    }

    /// Worker 0 is reserved for SHORT, and the others for LONG.
    fn rehearsal(workers: usize, preemption: Option<Preemption>) -> Rehearsal {
        let policy = Policy::darc_distributed();
        let rehearsal = Rehearsal::with_random(policy, workers, types(), preemption, 7);
        let reserved = [0, 1].map(|slot| rehearsal.type_status(slot).worker_first);
        assert_eq!(reserved, [Some(WorkerId(0)), Some(WorkerId(1))]);
        rehearsal
    }

    #[test]
    fn long_requests_leave_the_worker_of_short_ones_and_these_take_any() {
        let mut darc = rehearsal(3, None);
        let mut begun = [darc.arrives(0, 0, LONG), darc.arrives(0, 1, LONG)];
        begun.sort_unstable_by_key(|ran| ran.chars().next_back());
        assert!(begun[0].ends_with("@1") && begun[1].ends_with("@2"), "{begun:?}");
        assert_eq!(darc.arrives(5, 2, LONG), "", "worker 0 is not theirs");
        assert_eq!(darc.arrives(10, 3, SHORT), "3@0");
        assert_eq!(darc.arrives(20, 4, SHORT), "", "all are busy");
        let longs = [darc.completes(30, 1), darc.completes(40, 2)];
        assert!(longs.contains(&"2@1".to_owned()) || longs.contains(&"2@2".to_owned()));
        assert!(longs.contains(&"4@1".to_owned()) || longs.contains(&"4@2".to_owned()));
        assert_eq!(darc.completes(50, 0), "", "nothing is left");
    }

    #[test]
    fn requests_join_the_shorter_of_two_queues() {
        let mut darc = rehearsal(3, None);
        for id in 0..40 {
            darc.arrives(0, id, LONG);
        }
        for worker in [1, 2].repeat(19) {
            assert_ne!(darc.completes(10, worker), "", "each finds another");
        }
        let hand_offs = darc.hand_offs.iter();
        let stolen = hand_offs.filter(|&&how| how == HandOff::Stolen).count();
        assert!(stolen < 8, "{stolen}: the queues are as long as each other");
    }

    #[test]
    fn a_receiver_keeps_a_request_for_which_no_queue_is_shorter() {
        let mut how_often = [0; 2];
        for seed in 0..60 {
            let mut darc = Rehearsal::with_random(Policy::darc_distributed(), 3, types(), None, seed);
            (0..3).for_each(|id| _ = darc.arrives(0, id, LONG));
            darc.completes(10, 1);
            match darc.hand_offs[2] {
                HandOff::Own => how_often[0] += 1,
                HandOff::HandedOver => how_often[1] += 1,
                _ => {}
            }
        }
        // One of three receivers runs no long requests.
        assert!(how_often[0] > how_often[1], "{how_often:?}");
    }

    #[test]
    fn an_idle_receiver_keeps_what_it_may_run() {
        let mut kept = [0; 2];
        for seed in 0..60 {
            for (index, kept) in (0..).zip(&mut kept) {
                let mut darc = Rehearsal::with_random(Policy::darc_distributed(), 3, types(), None, seed);
                assert_ne!(darc.arrives(0, 0, RequestType::new(index)), "");
                *kept += usize::from(darc.hand_offs == [HandOff::Own]);
            }
        }
        // Any worker runs short requests, and two of three run long ones.
        assert_eq!(kept[0], 60);
        assert!((31..50).contains(&kept[1]), "{kept:?}");
    }

    #[test]
    fn what_a_worker_must_not_run_is_handed_over() {
        let mut darc = rehearsal(2, None);
        let mut next = 0;
        let mut hand_offs = Vec::new();
        while hand_offs.len() < 20 {
            assert_eq!(darc.arrives(next, next as u32, LONG), format!("{next}@1"));
            hand_offs.push(*darc.hand_offs.last().unwrap());
            darc.completes(next, 1);
            next += 1;
        }
        let count = |how| hand_offs.iter().filter(|&&hand_off| hand_off == how).count();
        assert!(count(HandOff::Own) > 3 && count(HandOff::HandedOver) > 3);
        assert_eq!(count(HandOff::Own) + count(HandOff::HandedOver), 20);
    }

    #[test]
    fn a_lent_worker_is_taken_back_for_its_own_requests_and_for_no_others() {
        let mut darc = rehearsal(2, Some(Preemption::new(700)));
        assert_eq!(darc.arrives(0, 0, LONG), "0@1");
        assert_eq!(darc.arrives(10, 1, LONG), "1@0", "lent");
        assert_eq!(darc.arrives(20, 2, LONG), "");
        assert_eq!(darc.deadline_ns(), None, "its equals do not take it back");
        assert_eq!(darc.arrives(100, 3, SHORT), "");
        assert_eq!(darc.deadline_ns(), Some(1_010), "not before it has paid");
        assert_eq!(darc.ticks(1_010), "stop 0");
        assert_eq!(darc.yields(1_700, 0), "3@0");
        let ran = darc.completes(2_700, 0);
        assert!(ran == "1@0" || ran == "2@0", "lent again: {ran}");
    }

    #[test]
    fn what_runs_on_a_lent_worker_keeps_it_if_that_becomes_its_own() {
        for waits_before in [true, false] {
            let mut darc = rehearsal(2, Some(Preemption::new(700)));
            assert_eq!(darc.arrives(0, 0, LONG), "0@1");
            assert_eq!(darc.arrives(10, 1, LONG), "1@0", "lent");
            if waits_before {
                assert_eq!(darc.arrives(100, 2, SHORT), "");
                assert_eq!(darc.deadline_ns(), Some(1_010));
            }
            assert_eq!(darc.reservation_updates(), 1);
            assert_eq!(darc.has_workers(1), "", "worker 0 is everyone's");
            assert_eq!(darc.reservation_updates(), 2);
            if !waits_before {
                assert_eq!(darc.arrives(100, 2, SHORT), "");
            }
            assert_eq!(darc.deadline_ns(), None);
            assert_eq!(darc.completes(100_000, 0), "2@0");
        }
    }

    #[test]
    fn without_lending_the_workers_of_short_requests_idle() {
        let policy = settings::DarcDistributed::default().lends(false);
        let preemption = Some(Preemption::new(700));
        let mut darc = Rehearsal::with_random(policy, 2, types(), preemption, 7);
        assert_eq!(darc.arrives(0, 0, LONG), "0@1");
        assert_eq!(darc.arrives(10, 1, LONG), "");
        assert_eq!(darc.arrives(20, 2, SHORT), "2@0");
    }

    #[test]
    fn a_type_whose_workers_are_stuck_has_one_request_at_a_time_on_another() {
        let stuck = StuckAfter::new(STUCK_NS, 9);
        let mut darc = Rehearsal::with_stuck(Policy::darc_distributed(), 3, types(), stuck, false);
        let begun = darc.arrive_all([1; 5]);
        assert_eq!(requests(&begun), [0, 1], "two workers are theirs: {begun}");
        let deadline_ns = darc.deadline_ns().expect("others wait");
        assert!(deadline_ns >= STUCK_NS);
        assert_eq!(darc.ticks(STUCK_NS - 1), "", "not yet stuck");
        assert_eq!(darc.relief(1), Relief::NotNeeded);
        let ran = darc.ticks(deadline_ns);
        assert!(ran.ends_with("@0"), "{ran}");
        assert_eq!(darc.relief(1), Relief::OtherWorker);
        assert_eq!(darc.deadline_ns(), None);
        assert_eq!(darc.arrive_all([0]), "", "all are busy");
        assert_eq!(darc.finishes(0, 100_000), "5@0", "its own group goes first");
        let ran = darc.finishes(0, 1_000);
        assert!(ran.ends_with("@0"), "{ran}");
        assert_eq!(darc.type_status(1).relieved, 2);
        let ran = darc.finishes(1, 100_000);
        assert!(ran.ends_with("@1"), "the last: {ran}");
        assert_eq!(darc.finishes(0, 100_000), "");
        assert_eq!(darc.relief(1), Relief::NotNeeded);
        assert_eq!(darc.arrive_all([1]), "", "worker 0 is theirs no longer");
        assert_eq!(darc.type_status(1).relieved, 2);
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let mut policy = rehearsal(2, None);
        assert_eq!(policy.arrives(0, 0, LONG), "0@1");
        assert_eq!(policy.arrives(1, 1, LONG), "");
        let c_fcfs = Rehearsal::with_random(Policy::c_fcfs(), 2, types(), None, 7);
        assert_eq!(policy.switches(10, c_fcfs), "1@0", "any worker is theirs");
        assert_eq!(policy.arrives(20, 2, LONG), "");
        assert_eq!(policy.switches(30, rehearsal(2, None)), "");
        assert_eq!(policy.completes(40, 0), "", "worker 0 is short requests'");
        assert_eq!(policy.completes(50, 1), "2@1");
        assert_eq!(policy.hand_offs.last(), Some(&HandOff::Own), "it waited there");
    }
}
