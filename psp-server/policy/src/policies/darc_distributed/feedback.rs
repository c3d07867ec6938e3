//! DARC's reservations as knowledge of all workers.

use crate::distributed::knowledge::{NO_GROUP, Reservation};
use crate::distributed::{Board, Feedback, InSystem, Knowledge, LANES_MAX, LaneSet, Word, lane_of};
use crate::event::{Sample, WorkerId};
use crate::parts::own_thread::OwnThread;
use crate::parts::plan::{Loan, Plan};
use crate::parts::profile::Profile;
use crate::parts::reservations::Reservations;
use crate::parts::slos::Slos;
use crate::parts::stuck::{Outlook, Scene, StuckRule};
use crate::parts::workers::{WorkerRange, worker_count};
use crate::request_type::RequestType;
use crate::scheduler::{Relief, TypeStatus};
use crate::settings;
use crate::setup::SchedulerSetup;

/// Rank of an untried type: before all groups.
const UNTRIED: u32 = 0;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Reserving {
    profile: Profile,
    plan: Plan,
    reservations: Reservations,
    own_thread: OwnThread,
    /// `None` where no worker is lent.
    loans: Option<Loans>,
    stuck: StuckRule,
    /// Workers that relieve groups, and which.
    relieving: Vec<(WorkerId, usize)>,
    /// Per type slot: requests that ran on a worker reserved for a longer group.
    steals: Vec<u64>,
    /// A type is untried no longer.
    tried: bool,
}

/// Which groups lend and borrow.
#[derive(Debug)]
struct Loans {
    cost_ns: f64,
    cost_max: f64,
    slos: Slos,
    /// Per type slot.
    yields: Vec<bool>,
    /// The first worker that is lent: worker 0 cannot be preempted if it is the driver's own thread.
    first_lent: u32,
    /// Per group, the rest last.
    groups: Vec<Loan>,
}

impl Loans {
    fn new(setup: &SchedulerSetup<'_>, settings: &settings::DarcDistributed) -> Option<Self> {
        let preemption = setup.useful_preemption().filter(|_| settings.lends)?;
        let slots = setup.types.len() + 1;
        Some(Self {
            cost_ns: preemption.cost_ns as f64,
            cost_max: settings.cost_max,
            slos: Slos::new(setup, settings.slo_slowdown),
            yields: (0..slots).map(|slot| setup.types.yields(slot)).collect(),
            first_lent: u32::from(setup.inline),
            groups: Vec::with_capacity(slots + 1),
        })
    }

    /// A group lends if a preemption costs little beside what its requests may wait. It borrows if its types
    /// yield.
    fn lend(&mut self, plan: &mut Plan, profile: &Profile) {
        self.groups.clear();
        for (_, members) in plan.groups() {
            let allowance_ns = |&slot: &usize| {
                let mean_ns = profile.mean_ns(slot)?;
                Some(self.slos.of_mean(slot, mean_ns) - mean_ns - self.cost_ns)
            };
            let allowance_ns = members.iter().filter_map(allowance_ns);
            let shortest_ns = allowance_ns.fold(f64::INFINITY, f64::min);
            let is_known = shortest_ns.is_finite();
            self.groups.push(Loan {
                lends: is_known && self.cost_ns <= self.cost_max * shortest_ns,
                borrows: members.iter().all(|&slot| self.yields[slot]),
                borrow_after_ns: 0,
                allowance_ns: 0,
                aging: None,
            });
        }
        plan.lend(self.first_lent, |number| self.groups[number]);
    }
}

impl Reserving {
    pub(crate) fn new<C: Word>(
        setup: &SchedulerSetup<'_>,
        settings: &settings::DarcDistributed,
        knowledge: &Knowledge<C>,
    ) -> Self {
        let slots = setup.types.len() + 1;
        let profile = Profile::new(setup, &settings.darc);
        let mut plan = Plan::shared(setup.types, worker_count(setup.workers));
        let of_threads = setup.clone().inline(false);
        let reservations = Reservations::new(&of_threads, &settings.darc, &mut plan, &profile);
        let mut reserving = Self {
            profile,
            plan,
            reservations,
            own_thread: OwnThread::new(setup),
            loans: Loans::new(setup, settings),
            stuck: StuckRule::new(setup),
            relieving: Vec::with_capacity(slots),
            steals: vec![0; slots],
            tried: false,
        };
        reserving.publish(knowledge);
        reserving
    }

    fn publish<C: Word>(&mut self, knowledge: &Knowledge<C>) {
        let Self { profile, plan, own_thread, loans, .. } = self;
        if let Some(loans) = loans {
            loans.lend(plan, profile);
        }
        let unknown = knowledge.slots() - 1;
        let rest = plan.len() - 1;
        for (number, (group, members)) in plan.groups().enumerate() {
            for &slot in members {
                let mean_ns = profile.mean_ns(slot);
                let open = own_thread.open_to(profile.knows_length(slot));
                let is_untried = plan.has_groups() && profile.is_untried(slot);
                let number = number as u32;
                let reservation = Reservation {
                    rank: if is_untried { UNTRIED } else { number + 1 },
                    group: if number as usize == rest { NO_GROUP } else { number },
                    own: group.own.within(open),
                    further: group.further.within(open),
                    borrowed: group.borrowed.within(open),
                };
                knowledge.set_length(slot, mean_ns, true);
                knowledge.set_reservation(slot, &reservation);
            }
        }
        // Types that share the lane of `UNKNOWN` are served as such.
        let of_unknown = knowledge.reservation(unknown);
        for slot in LANES_MAX - 1..unknown.max(LANES_MAX - 1) {
            knowledge.set_reservation(slot, &of_unknown);
        }
    }

    /// What runs, as the board shows it; `None` if no request is ever stuck.
    fn scene<'a, C: Word>(&'a self, now_ns: u64, board: &'a Board<C>) -> Option<Scene<'a, &'a Board<C>>> {
        let present = WorkerRange::new(0, board.present());
        self.stuck.scene(now_ns, board, &self.profile, present)
    }

    fn group_of(&self, request_type: RequestType) -> Option<usize> {
        let unknown = self.profile.types();
        self.plan.group_of(request_type.index().map_or(unknown, |index| index.min(unknown)))
    }
}

impl<C: Word> Feedback<C> for Reserving {
    fn record(&mut self, slot: usize, sample: &Sample) {
        self.tried |= self.profile.is_untried(slot);
        self.profile.record(slot, sample);
    }

    fn began(&mut self, slot: usize, worker: WorkerId, requests: u64, waited_ns_max: u64) {
        self.reservations.note_delay(slot, waited_ns_max);
        let groups = self.plan.groups().nth(self.plan.group_of(slot).unwrap_or(0));
        let is_grouped = self.plan.group_of(slot).is_some();
        let steals = groups.is_some_and(|(group, _)| is_grouped && group.steals(worker));
        self.steals[slot] += u64::from(steals) * requests;
        let number = self.plan.group_of(slot).unwrap_or(self.plan.len() - 1);
        let relieves = |&named: &(WorkerId, usize)| named == (worker, number);
        let is_relief = self.relieving.iter().any(relieves);
        self.stuck.relieved[slot] += u64::from(is_relief) * requests;
    }

    fn passes(&mut self, now_ns: u64, in_system: &dyn InSystem, knowledge: &Knowledge<C>) -> bool {
        let Self { profile, plan, reservations, .. } = self;
        let learned = profile.close_window_if_due(now_ns, |slot| in_system.requests(slot));
        if let Some(learned) = learned {
            reservations.learned(learned, plan, profile, |slot| in_system.waited_ns(slot));
        } else if !std::mem::take(&mut self.tried) {
            return false;
        }
        self.publish(knowledge);
        learned.is_some()
    }

    fn relieve(&mut self, now_ns: u64, board: &Board<C>, knowledge: &Knowledge<C>) -> Option<u64> {
        for (worker, _) in self.relieving.drain(..) {
            knowledge.set_relieves(worker, LaneSet::NONE);
        }
        let mut relieving = std::mem::take(&mut self.relieving);
        let scene = self.scene(now_ns, board)?;
        let unknown = knowledge.slots() - 1;
        let mut deadline_ns = None::<u64>;
        for (number, (group, members)) in self.plan.groups().enumerate() {
            let mine = |worker| group.may_use(worker, u64::MAX);
            let outlook = scene.outlook(scene.among(mine));
            if outlook == Outlook::Open(None) {
                continue;
            }
            let is_away = scene.away(members, mine).next().is_some();
            let Some(worker) = scene.spare(mine).filter(|_| !is_away) else {
                continue;
            };
            let own_lane = |&&slot: &&usize| slot < LANES_MAX - 1 || slot == unknown;
            let lanes = members.iter().filter(own_lane);
            let lanes: LaneSet = lanes.map(|&slot| lane_of(slot)).collect();
            let mut lines = (0..board.workers()).map(|worker| board.line(WorkerId(worker)));
            if lines.all(|line| line.waiting().and(lanes).is_empty()) {
                continue;
            }
            if let Outlook::Open(look_ns) = outlook {
                deadline_ns = deadline_ns.into_iter().chain(look_ns).min();
                continue;
            }
            knowledge.set_relieves(worker, knowledge.relieves(worker).or(lanes));
            relieving.push((worker, number));
        }
        self.relieving = relieving;
        deadline_ns
    }

    fn relief(&self, now_ns: u64, board: &Board<C>, slot: usize) -> Relief {
        let mut groups = self.plan.groups();
        let own = groups.find(|(_, members)| members.contains(&slot));
        let scene = self.scene(now_ns, board).zip(own);
        scene.map_or(Relief::NotNeeded, |(scene, (group, members))| {
            scene.relief(members, |worker| group.may_use(worker, u64::MAX))
        })
    }

    fn set_present(&mut self, present: u32, knowledge: &Knowledge<C>) -> bool {
        self.own_thread.set_workers(present);
        self.plan.set_workers(present);
        self.reservations.workers_changed(&mut self.plan, &self.profile);
        self.publish(knowledge);
        true
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        let (workers_reserved, worker_first) = self.plan.reservation(slot);
        TypeStatus {
            workers_reserved,
            worker_first,
            group: self.plan.group_of(slot),
            service_ns_mean: self.profile.mean_ns(slot).unwrap_or(0.0),
            share: self.profile.share(slot),
            steals: self.steals[slot],
            relieved: self.stuck.relieved[slot],
            ..TypeStatus::default()
        }
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        let group = self.group_of(first);
        first == next || group.is_some_and(|group| self.group_of(next) == Some(group))
    }

    fn reservation_updates(&self) -> u64 {
        self.reservations.updates()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::distributed::{EmptySystem, Plain, Queue, Runs};
    use crate::preempt::PreemptPolicy;
    use crate::rehearsal::{sample, setup};
    use crate::request_type::{TypeSpec, TypeTable};
    use crate::setup::{Preemption, StuckAfter};

    const NONE: WorkerRange = WorkerRange::new(0, 0);

    fn spec(us: u64, share: f64) -> TypeSpec {
        TypeSpec::new(us.to_string()).service_time(Duration::from_micros(us)).share(share)
    }

    /// Worker 0 is SHORT's, and workers 1 and 2 are those of LONG and LONGER, which are one group.
    fn types() -> [TypeSpec; 3] {
        [spec(1, 0.5), spec(100, 0.25), spec(150, 0.25)]
    }

    fn reserving(
        types: impl IntoIterator<Item = TypeSpec>,
        preemption_ns: Option<u64>,
        settings: &settings::DarcDistributed,
    ) -> (Reserving, Knowledge<Plain>) {
        let types: TypeTable = types.into_iter().collect();
        let preemption = preemption_ns.map(Preemption::new);
        let setup = SchedulerSetup { preemption, ..setup(3, &types) };
        let knowledge = Knowledge::new(types.len(), 3);
        (Reserving::new(&setup, settings, &knowledge), knowledge)
    }

    fn by_default() -> (Reserving, Knowledge<Plain>) {
        reserving(types(), None, &settings::DarcDistributed::default())
    }

    #[test]
    fn each_type_has_the_place_and_the_workers_of_its_group() {
        let (_, knowledge) = by_default();
        let places = [0, 1, 2, 3].map(|slot| knowledge.reservation(slot)).map(|of| (of.rank, of.group));
        assert_eq!(places, [(1, 0), (2, 1), (2, 1), (3, NO_GROUP)]);
        let workers = [0, 1, 2, 3].map(|slot| knowledge.reservation(slot)).map(|of| (of.own, of.further));
        let (short, long) = (WorkerRange::new(0, 1), WorkerRange::new(1, 3));
        let none = WorkerRange::new(3, 3);
        assert_eq!(workers, [(short, long), (long, none), (long, none), (NONE, WorkerRange::new(2, 3))]);
        assert_eq!(knowledge.mean_ns(2), Some(150_000.0));
    }

    #[test]
    fn without_groups_all_types_have_one_place() {
        let types = ["A", "B"].map(TypeSpec::new);
        let (_, knowledge) = reserving(types, None, &settings::DarcDistributed::default());
        assert_eq!([0, 1, 2].map(|slot| knowledge.reservation(slot).rank), [1; 3]);
    }

    #[test]
    fn types_beyond_the_last_lane_are_served_as_unknown_ones() {
        let types = (0..LANES_MAX + 2).map(|_| spec(1, 0.01));
        let (_, knowledge) = reserving(types, None, &settings::DarcDistributed::default());
        let [last_but_one, last, behind, behind_too, unknown] =
            [62, 63, 64, 65, 66].map(|slot| knowledge.reservation(slot));
        assert_eq!([last, behind, behind_too], [unknown; 3]);
        assert_ne!(last_but_one, unknown);
    }

    #[test]
    fn a_group_lends_if_a_preemption_costs_little_beside_what_its_requests_may_wait() {
        let settings = settings::DarcDistributed::default().cost_max(0.5);
        // Of its SLO, 10 us, a short request may wait for 9 without the preemption.
        for (cost_ns, lends) in [(700, true), (3_000, true), (3_001, false), (9_000, false)] {
            let (_, knowledge) = reserving(types(), Some(cost_ns), &settings);
            let borrowed = knowledge.reservation(1).borrowed;
            assert_eq!(borrowed == WorkerRange::new(0, 1), lends, "{cost_ns}: {borrowed:?}");
            assert_eq!(borrowed.len() == 0, !lends, "{cost_ns}: {borrowed:?}");
        }
        let [short, long, longer] = types();
        let types = [short, long, longer.preempt(PreemptPolicy::None)];
        let (_, knowledge) = reserving(types, Some(700), &settings);
        assert_eq!(knowledge.reservation(1).borrowed.len(), 0, "its group does not yield");
    }

    #[test]
    fn types_of_one_group_travel_in_one_run() {
        let (reserving, _) = by_default();
        let same = |first, next| {
            let types = [first, next].map(RequestType::new);
            Feedback::<Plain>::same_run(&reserving, types[0], types[1])
        };
        let with_others = [(0, 1), (1, 2), (2, 1), (1, 3), (3, 3), (3, 4), (4, u32::MAX)];
        let expected = [false, true, true, false, true, false, false];
        assert_eq!(with_others.map(|(first, next)| same(first, next)), expected);
    }

    #[test]
    fn a_request_on_a_worker_of_a_longer_group_is_stolen_or_relieved() {
        let (mut reserving, _) = by_default();
        reserving.relieving = vec![(WorkerId(0), 1), (WorkerId(2), 2)];
        let begins = [(0, 0), (0, 2), (1, 1), (1, 0), (2, 2), (3, 0), (3, 2)];
        for (slot, worker) in begins {
            for _ in 0..2 {
                Feedback::<Plain>::began(&mut reserving, slot, WorkerId(worker), 3, 0);
            }
        }
        let status = [0, 1, 2, 3].map(|slot| Feedback::<Plain>::type_status(&reserving, slot));
        assert_eq!(status.map(|of| of.steals), [6, 0, 0, 0]);
        assert_eq!(status.map(|of| of.relieved), [0, 6, 0, 6]);
    }

    /// Types at slots 62 to 64 are one group, all of whose workers are stuck. The last two share the lane of `UNKNOWN`,
    /// whose worker is stuck, too.
    #[test]
    fn a_worker_relieves_types_with_a_lane_of_their_own_and_unknown_ones() {
        let types = (0..LANES_MAX + 1).map(|slot| {
            if slot < LANES_MAX - 2 {
                spec(1, 0.01)
            } else {
                spec(100, 0.1)
            }
        });
        let types: TypeTable = types.collect();
        let setup = SchedulerSetup { stuck: Some(StuckAfter::new(1, 0)), ..setup(3, &types) };
        let knowledge = Knowledge::<Plain>::new(types.len(), 3);
        let mut reserving = Reserving::new(&setup, &settings::DarcDistributed::default(), &knowledge);
        let long = knowledge.reservation(LANES_MAX - 2).own;
        let board = Board::<Plain>::new(3);
        for worker in (long.first..long.end).map(WorkerId) {
            board.line(worker).begin(0, 0, Runs { slot: LANES_MAX - 2, long: true });
        }
        for lane in [LANES_MAX - 2, LANES_MAX - 1] {
            let waiting = LaneSet::of(lane);
            board.line(WorkerId(0)).set_queue(Queue { waiting, queued: 1, ..Queue::default() });
            assert_eq!(reserving.relieve(1_000, &board, &knowledge), None);
            assert_eq!(knowledge.relieves(WorkerId(0)), waiting, "{long:?}");
        }
    }

    #[test]
    fn the_status_of_a_type_is_what_was_learned_of_it() {
        let (reserving, _) = by_default();
        let status = [0, 2, 3].map(|slot| Feedback::<Plain>::type_status(&reserving, slot));
        let of = |group, worker_first, workers_reserved, service_ns_mean, share| TypeStatus {
            group,
            worker_first,
            workers_reserved,
            service_ns_mean,
            share,
            ..TypeStatus::default()
        };
        let [short, longer, unknown] = [
            of(Some(0), Some(WorkerId(0)), 1, 1_000.0, 0.5),
            of(Some(1), Some(WorkerId(1)), 2, 150_000.0, 0.25),
            TypeStatus::default(),
        ];
        assert_eq!(status, [short, longer, unknown]);
    }

    #[test]
    fn workers_are_reserved_anew_if_the_demand_moved_and_a_request_waited_for_many_times_as_long_as_it_takes() {
        let darc = settings::Darc::default().samples_min(2).slowdown_trigger(10.0);
        for (waited_ns, updates) in [(9_000, 1), (11_000, 2)] {
            let settings = settings::DarcDistributed::default().darc(darc.clone());
            let (mut reserving, knowledge) = reserving(types(), None, &settings);
            Feedback::<Plain>::began(&mut reserving, 0, WorkerId(0), 1, waited_ns);
            for _ in 0..2 {
                Feedback::<Plain>::record(&mut reserving, 2, &sample(RequestType::new(2), 150_000));
            }
            assert!(reserving.passes(10, &EmptySystem, &knowledge));
            assert_eq!(Feedback::<Plain>::reservation_updates(&reserving), updates, "{waited_ns}");
        }
    }

    #[test]
    fn what_changes_is_published_and_an_untried_type_goes_first_until_it_was_measured() {
        let settings = settings::DarcDistributed::default().darc(settings::Darc::default().samples_min(2));
        let (mut reserving, knowledge) = reserving(["A", "B", "NEW"].map(TypeSpec::new), None, &settings);
        assert!(!reserving.passes(0, &EmptySystem, &knowledge), "nothing was learned");
        for (slot, service_ns) in [(0, 1_000), (1, 100_000)] {
            let sample = sample(RequestType::new(slot), service_ns);
            Feedback::<Plain>::record(&mut reserving, slot as usize, &sample);
        }
        assert_eq!(Feedback::<Plain>::reservation_updates(&reserving), 0);
        assert!(reserving.passes(10, &EmptySystem, &knowledge));
        assert_eq!(Feedback::<Plain>::reservation_updates(&reserving), 1);
        let ranks = || [0, 1, 2, 3].map(|slot| knowledge.reservation(slot).rank);
        assert_eq!(ranks(), [1, 2, UNTRIED, 3]);
        assert_eq!(knowledge.mean_ns(1), Some(100_000.0));
        Feedback::<Plain>::record(&mut reserving, 2, &sample(RequestType::new(2), 1_000));
        assert_eq!(ranks(), [1, 2, UNTRIED, 3]);
        assert!(!reserving.passes(20, &EmptySystem, &knowledge), "no worker has other rights");
        assert_eq!(ranks(), [1, 2, 3, 3]);
    }
}
