//! The common half of all policies with typed queues: the queues, the workers, the [`Profile`] of the
//! types, and a [`Plan`] of the workers that each group may use. A policy that serves groups of types makes
//! the plan. A policy that chooses among types leaves the plan as it is, and says which type is next.
//!
//! A type of unknown length is in the last group, and would wait there while longer types of known length
//! keep all its workers busy. So where groups are served by length, an *untried* type goes before all groups,
//! on the workers that the last group may use: a registered type without a hint, of which no request was
//! measured and none runs or is blocked. One request is enough to measure it; the others wait their turn.
//!
//! A group whose workers all run [stuck](crate::parts::stuck) requests comes last, on a worker of another group.

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, HandOff, WorkerId};
use crate::parts::aged::{AgedLanes, AgedOf};
use crate::parts::eligible;
use crate::parts::handover::backlog;
use crate::parts::own_thread::{OWN_THREAD, OwnThread};
use crate::parts::plan::{Aging, Group, Plan};
use crate::parts::profile::{Learned, Profile};
use crate::parts::queues::Queues;
use crate::parts::running::{Running, Turn};
use crate::parts::stuck::{OnePlace, Outlook, Scene, StuckRule};
use crate::parts::suspended::Lanes;
use crate::parts::waiting::Waiting;
use crate::parts::workers::{WorkerRange, WorkerSet, worker_count};
use crate::request_type::RequestType;
use crate::scheduler::{Relief, TypeStatus};
use crate::settings::Darc;
use crate::setup::SchedulerSetup;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Grouped {
    pub(crate) queues: Queues,
    pub(crate) running: Running,
    pub(crate) workers: WorkerSet,
    pub(crate) plan: Plan,
    pub(crate) profile: Profile,
    own_thread: OwnThread,
    stuck: StuckRule,
    /// Per type slot.
    steals: Vec<u64>,
    /// Where requests wait that ran for long and were preempted, if these wait apart.
    aged: Option<AgedLanes>,
}

/// A request on its way to a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dispatch {
    pub(crate) action: Action,
    pub(crate) slot: usize,
    /// How long it waited.
    pub(crate) delay_ns: u64,
}

/// A request that may run next.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    sequence: u64,
    lane: usize,
    worker: WorkerId,
    /// It is suspended there.
    suspended: bool,
    /// The worker is reserved for a longer group.
    steals: bool,
    /// How long it has waited.
    delay_ns: u64,
}

impl Candidate {
    fn new(waiting: &Waiting, lane: usize, worker: WorkerId, group: &Group, delay_ns: u64) -> Self {
        Self {
            sequence: waiting.sequence,
            lane,
            worker,
            suspended: waiting.home.is_some(),
            steals: group.steals(worker),
            delay_ns,
        }
    }
}

/// What a look for relief has found.
#[derive(Debug, Default)]
struct Looked {
    candidate: Option<Candidate>,
    /// When to look again.
    deadline_ns: Option<u64>,
}

impl Looked {
    /// It is worth another look at this time.
    fn again_at(&mut self, look_ns: Option<u64>) {
        self.deadline_ns = self.deadline_ns.into_iter().chain(look_ns).min();
    }
}

/// The candidate that arrived first.
#[inline]
fn earlier(one: Option<Candidate>, other: Option<Candidate>) -> Option<Candidate> {
    let candidates = one.into_iter().chain(other);
    candidates.min_by_key(|candidate| candidate.sequence)
}

/// How many requests of the type at `slot` run or are blocked.
fn begun_of(running: &Running, queues: &Queues, slot: usize) -> usize {
    let types = running.turns().map(|(_, turn)| turn.waiting.request_type);
    let running = types.filter(|&running| queues.slot(running) == slot);
    running.count() + queues.blocked(slot)
}

impl Grouped {
    /// Typed queues that all workers share until the plan is made. The windows of the profile are those of
    /// `settings`.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &Darc) -> Self {
        let slots = setup.types.len() + 1;
        let workers = worker_count(setup.workers);
        Self {
            queues: Queues::typed(setup),
            running: Running::new(setup),
            workers: WorkerSet::new(workers, setup.inline),
            plan: Plan::shared(setup.types, workers),
            profile: Profile::new(setup, settings),
            own_thread: OwnThread::new(setup),
            stuck: StuckRule::new(setup),
            steals: vec![0; slots],
            aged: None,
        }
    }

    /// As [`Grouped::new`], with more lanes for each type, where requests wait that ran for long
    /// and were preempted; see [`Aging`](super::plan::Aging).
    pub(crate) fn with_aging(setup: &SchedulerSetup<'_>, settings: &Darc) -> Self {
        let slots = setup.types.len() + 1;
        Self {
            queues: Queues::new(setup, Lanes::shared(AgedLanes::lanes(slots))),
            aged: Some(AgedLanes::new(slots)),
            ..Self::new(setup, settings)
        }
    }

    /// Queues arrivals, releases workers and records what they measured. Returns the turn that ended.
    #[inline]
    pub(crate) fn record(&mut self, now_ns: u64, event: Event<'_>) -> Option<Turn> {
        match event {
            Event::Arrived { request, request_type, deadline_ns } => {
                let slot = self.queues.slot(request_type);
                self.queues.push(slot, now_ns, request, request_type, deadline_ns);
                None
            }
            Event::Completed { worker, samples, .. } => {
                let turn = self.running.finish(worker);
                self.workers.release(worker);
                for sample in samples {
                    let slot = self.queues.slot(sample.request_type);
                    self.profile.record(slot, sample);
                }
                Some(turn)
            }
            Event::Yielded { worker, served_ns } => {
                let turn = self.running.on(worker).copied();
                let waiting = self.running.give_up(worker, served_ns);
                self.put_back(waiting);
                self.workers.release(worker);
                turn
            }
            Event::Blocked { worker, served_ns } => {
                let turn = self.running.on(worker).copied();
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.block(now_ns, worker, waiting);
                self.workers.release(worker);
                turn
            }
            Event::Unblocked { request } => {
                let waiting = self.queues.unblock(now_ns, request);
                let slot = self.queues.slot(waiting.request_type);
                self.queues.put_back_first(slot, waiting);
                None
            }
            Event::Workers { present } => {
                self.set_present(present);
                None
            }
            Event::Tick => None,
        }
    }

    /// Workers come or go. A policy that made a plan makes another.
    fn set_present(&mut self, present: usize) {
        let workers = worker_count(present);
        self.queues.set_present(present);
        self.running.set_present(present);
        self.workers.set_present(workers);
        self.own_thread.set_workers(workers);
        self.plan.set_workers(workers);
    }

    /// Closes the profile's window, or looks into it, if that is due. Every policy does so after each event.
    #[inline]
    pub(crate) fn close_window_if_due(&mut self, now_ns: u64) -> Option<Learned> {
        let Self { queues, running, profile, .. } = self;
        profile.close_window_if_due(now_ns, |slot| (queues.queued(slot) + begun_of(running, queues, slot)) as u64)
    }

    /// Queues a preempted request: first of its type, or last of the aged.
    fn put_back(&mut self, waiting: Waiting) {
        let slot = self.queues.slot(waiting.request_type);
        let aging = self.plan.aging_of(slot);
        let level = aging.and_then(|aging| aging.level(waiting.served_ns));
        match self.aged.as_mut().zip(level) {
            Some((aged, level)) => self.queues.put_back_last(aged.put(level, slot), waiting),
            None => self.queues.put_back_first(slot, waiting),
        }
    }

    /// Whether something waits and some worker is idle.
    #[inline]
    pub(crate) fn can_dispatch(&self) -> bool {
        let any_suspended = || self.queues.any_suspended() && !self.workers.all_busy();
        !self.queues.is_empty() && (self.workers.idle() > 0 || any_suspended())
    }

    /// Whether two types are the same, or in one group and thus of similar length.
    pub(crate) fn same_group(&self, first: RequestType, next: RequestType) -> bool {
        let group = |request_type| self.plan.group_of(self.queues.slot(request_type));
        first == next || group(first).is_some_and(|first| group(next) == Some(first))
    }

    /// The first request of the shortest group that has one and may use an idle worker
    /// (Perséphone, algorithm 1). Within a group, the request that arrived first. Before all groups, the first
    /// request of the untried types.
    #[inline]
    pub(crate) fn dispatch(&mut self, now_ns: u64) -> Option<Dispatch> {
        if let Some(untried) = self.untried_candidate(now_ns) {
            return Some(self.start(now_ns, &untried));
        }
        let next = |members: &[usize]| self.next_of(self.oldest_of(members)?);
        let urgent = self.can_dispatch().then(|| self.urgent(now_ns, next)).flatten();
        let candidate = match urgent {
            None => self.first_candidate(now_ns, Plan::groups),
            Some(number) => self.first_candidate(now_ns, |plan| {
                let first = plan.groups().nth(number);
                first.into_iter().chain(plan.groups())
            }),
        };
        let candidate = candidate.or_else(|| {
            let looked = self.look_for_relief(now_ns, Plan::groups);
            self.note_relief(looked)
        });
        Some(self.start(now_ns, &candidate?))
    }

    /// The first request of the untried types that an idle worker can run, if the length of any type is known.
    #[inline]
    fn untried_candidate(&self, now_ns: u64) -> Option<Candidate> {
        if !self.profile.any_unknown() || !self.plan.has_groups() || !self.can_dispatch() {
            return None;
        }
        let (rest, members) = self.plan.rest();
        if !self.any_waits(members) {
            return None;
        }
        let untried = members.iter().copied().filter(|&slot| {
            self.waits(slot) && self.profile.is_untried(slot) && begun_of(&self.running, &self.queues, slot) == 0
        });
        let fits = |worker, waited_ns| rest.may_use(worker, waited_ns);
        self.candidate(now_ns, rest, untried, fits)
    }

    /// The group whose first request has the least of its allowance left, if that is less than the
    /// shortest waiting group's. `first` gives the first request of some types. A request with nothing
    /// left has missed its SLO and waits its turn: if it went first, all others would miss theirs.
    #[inline]
    pub(crate) fn urgent<'a>(&'a self, now_ns: u64, first: impl Fn(&[usize]) -> Option<&'a Waiting>) -> Option<usize> {
        let mut least_ns = None;
        let mut urgent = None;
        for (number, (group, members)) in self.plan.groups().enumerate() {
            group.allowance_ns?;
            let Some(first) = first(members) else {
                continue;
            };
            let left_ns = group.left_ns(first.waited_ns(now_ns));
            match (least_ns, left_ns) {
                (None, _) => least_ns = Some(left_ns.unwrap_or(0)),
                (Some(least), Some(left)) if left < least => {
                    least_ns = Some(left);
                    urgent = Some(number);
                }
                _ => {}
            }
        }
        urgent
    }

    /// The request that arrived first among those of a partition that has an idle worker.
    pub(crate) fn dispatch_within_partition(&mut self, now_ns: u64) -> Option<Dispatch> {
        let candidate = self.first_candidate(now_ns, Plan::partitions);
        let candidate = candidate.or_else(|| {
            let looked = self.look_for_relief(now_ns, Plan::partitions);
            self.note_relief(looked)
        });
        Some(self.start(now_ns, &candidate?))
    }

    /// The first request of a group whose workers are all stuck, on an idle worker of other groups, if the group has no
    /// other request on such a worker; and when to look again. To be asked when no group can use an idle worker.
    fn look_for_relief<'a, I>(&'a self, now_ns: u64, groups: impl Fn(&'a Plan) -> I) -> Looked
    where
        I: Iterator<Item = (&'a Group, &'a [usize])>,
    {
        let mut looked = Looked::default();
        let Some(scene) = self.scene(now_ns).filter(|_| self.can_dispatch()) else {
            return looked;
        };
        for (group, members) in groups(&self.plan) {
            let mine = |worker| group.may_use(worker, u64::MAX);
            self.look_for(&mut looked, &scene, group, members, scene.among(mine), mine);
            if looked.candidate.is_some() {
                break;
            }
        }
        looked
    }

    /// The same for the types `members` of a group, which are cut off if all `workers` are stuck, on a worker that is
    /// not among `mine`.
    fn look_for(
        &self,
        looked: &mut Looked,
        scene: &Scene<'_, OnePlace<'_>>,
        group: &Group,
        members: &[usize],
        workers: impl Iterator<Item = WorkerId>,
        mine: impl Fn(WorkerId) -> bool + Copy,
    ) {
        let Some(lane) = self.queues.oldest(members.iter().copied()) else {
            return;
        };
        let outlook = scene.outlook(workers);
        if let Outlook::Open(look_ns) = outlook
            && look_ns.is_none_or(|look_ns| self.stuck.looks_by(scene.now_ns, look_ns))
        {
            looked.again_at(look_ns.and(self.stuck.deadline_ns));
            return;
        }
        let is_away = scene.away(members, mine).next().is_some();
        let spare = scene.spare(mine).filter(|_| !is_away);
        let (Some(worker), Some(first)) = (spare, self.queues.front(lane)) else {
            return;
        };
        match outlook {
            Outlook::Open(look_ns) => looked.again_at(look_ns),
            Outlook::CutOff => {
                let delay_ns = first.waited_ns(scene.now_ns);
                let candidate = Candidate::new(first, lane, worker, group, delay_ns);
                looked.candidate = Some(candidate);
            }
        }
    }

    /// The first request of the types that are not of the shortest group, on an idle worker, if all workers that run
    /// such requests are stuck and `has_limit` says that no more may run them. Sets the time to look again.
    pub(crate) fn relieve_longer(&mut self, now_ns: u64, has_limit: bool) -> Option<Action> {
        let mut looked = Looked::default();
        let scene = self.scene(now_ns).filter(|_| has_limit && self.can_dispatch());
        let longer = self.plan.longer();
        if let (Some(scene), Some((group, members))) = (scene, longer) {
            let mine = |worker| scene.runs(members, worker);
            let workers = self.running.turns().map(|(worker, _)| worker).filter(|&worker| mine(worker));
            self.look_for(&mut looked, &scene, group, members, workers, mine);
        }
        let candidate = self.note_relief(looked)?;
        Some(self.start(now_ns, &candidate).action)
    }

    /// As [`Grouped::relief`], of the types that are not of the shortest group, if `workers_max` workers may run them.
    pub(crate) fn relief_of_longer(&self, now_ns: u64, workers_max: usize) -> Relief {
        let scene = self.scene(now_ns).zip(self.plan.longer());
        scene.map_or(Relief::NotNeeded, |(scene, (_, members))| scene.relief_of_any(members, workers_max))
    }

    /// Notes what a look for relief has found. Returns the request that is relieved.
    fn note_relief(&mut self, looked: Looked) -> Option<Candidate> {
        self.stuck.deadline_ns = looked.deadline_ns;
        let candidate = looked.candidate?;
        self.stuck.relieved[candidate.lane] += 1;
        Some(candidate)
    }

    /// When to look for relief again.
    pub(crate) const fn deadline_ns(&self) -> Option<u64> {
        self.stuck.deadline_ns
    }

    /// What is left to the type at `slot`, whose workers are those of its group.
    pub(crate) fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        self.relief_by(now_ns, slot, Plan::groups)
    }

    /// As [`Grouped::relief`], where a type's workers are those of its partition.
    pub(crate) fn relief_within_partition(&self, now_ns: u64, slot: usize) -> Relief {
        self.relief_by(now_ns, slot, Plan::partitions)
    }

    fn relief_by<'a, I>(&'a self, now_ns: u64, slot: usize, groups: impl Fn(&'a Plan) -> I) -> Relief
    where
        I: Iterator<Item = (&'a Group, &'a [usize])>,
    {
        let mut groups = groups(&self.plan);
        let own = groups.find(|(_, members)| members.contains(&slot));
        let scene = self.scene(now_ns).zip(own);
        scene.map_or(Relief::NotNeeded, |(scene, (group, members))| {
            scene.relief(members, |worker| group.may_use(worker, u64::MAX))
        })
    }

    /// The workers and what runs there.
    #[inline]
    fn scene(&self, now_ns: u64) -> Option<Scene<'_, OnePlace<'_>>> {
        let Self { running, queues, profile, workers, .. } = self;
        let turns = OnePlace { running, queues };
        self.stuck.scene(now_ns, turns, profile, workers.present())
    }

    /// The oldest request of the first group that has one and may use an idle worker. If there is none,
    /// a request that is suspended on an idle worker which its group may not use: it began there under
    /// another policy or plan, and can run nowhere else.
    #[inline]
    fn first_candidate<'a, I>(&'a self, now_ns: u64, groups: impl Fn(&'a Plan) -> I) -> Option<Candidate>
    where
        I: Iterator<Item = (&'a Group, &'a [usize])>,
    {
        if !self.can_dispatch() {
            return None;
        }
        // A loop and no `find_map`, through which candidates would be copied.
        for (group, members) in groups(&self.plan) {
            if !self.any_waits(members) {
                continue;
            }
            let fits = |worker, waited_ns| group.may_use(worker, waited_ns);
            let lanes = members.iter().copied();
            let candidate = self.candidate(now_ns, group, lanes, fits);
            if candidate.is_some() {
                return candidate;
            }
        }
        let anywhere = || {
            groups(&self.plan)
                .find_map(|(group, members)| self.candidate(now_ns, group, members.iter().copied(), |_, _| true))
        };
        self.queues.any_suspended().then(anywhere)?
    }

    /// The first request of a group's types that an idle worker can run, and that worker. A suspended
    /// request needs a worker that `fits`.
    #[inline]
    fn candidate(
        &self,
        now_ns: u64,
        group: &Group,
        lanes: impl Iterator<Item = usize> + Clone,
        fits: impl Fn(WorkerId, u64) -> bool,
    ) -> Option<Candidate> {
        if !self.any_aged() && !self.queues.any_suspended() {
            return self.new_candidate(now_ns, group, lanes);
        }
        let new = self.queues.oldest(lanes.clone());
        let first = self.new_candidate(now_ns, group, lanes.clone());
        let suspended = self.suspended_candidate(now_ns, group, lanes.clone(), &fits);
        let first = earlier(first, suspended);
        if first.is_some() || (new.is_some() && !self.queues.any_suspended()) {
            return first;
        }
        self.aged_candidate(now_ns, group, lanes, fits)
    }

    /// The aged request of a group's types that may resume on an idle worker: one of the lowest level. While no more
    /// workers are idle than should be, only one that is late.
    fn aged_candidate(
        &self,
        now_ns: u64,
        group: &Group,
        lanes: impl Iterator<Item = usize> + Clone,
        fits: impl Fn(WorkerId, u64) -> bool,
    ) -> Option<Candidate> {
        let aged = self.aged.as_ref()?;
        let held_back = group.aging.filter(|&aging| self.holds_back(aging));
        let may_resume = |first: Option<&Waiting>| {
            held_back.is_none_or(|aging| first.is_some_and(|first| aging.late_at_ns(first) <= now_ns))
        };
        let levels = aged.levels(lanes.clone());
        levels.iter().find_map(|level| {
            let lanes = lanes.clone().map(|slot| aged.lane(level, slot));
            let first = self.new_candidate(now_ns, group, lanes.clone());
            let first = first.filter(|first| may_resume(self.queues.front(first.lane)));
            let fits_at = |worker, waited_ns| {
                let at = self.queues.first_at(lanes.clone(), worker);
                fits(worker, waited_ns) && may_resume(at.map(|(_, first)| first))
            };
            let suspended = self.suspended_candidate(now_ns, group, lanes.clone(), fits_at);
            earlier(first, suspended)
        })
    }

    /// Workers that are idle or asked to stop.
    #[inline]
    pub(crate) fn coming(&self) -> usize {
        self.workers.idle() + self.running.stopping()
    }

    /// Whether too few workers are idle, or will be, for an aged request to resume before it is late.
    fn holds_back(&self, aging: Aging) -> bool {
        self.coming() <= aging.spare
    }

    /// The request that arrived first, of those in `lanes` that never ran and find an idle worker.
    #[inline]
    fn new_candidate(
        &self,
        now_ns: u64,
        group: &Group,
        lanes: impl Iterator<Item = usize> + Clone,
    ) -> Option<Candidate> {
        if !self.own_thread.is_spared() {
            return self.first_of_lanes(now_ns, group, lanes, true);
        }
        let of_length = |known| {
            let lanes = lanes.clone().filter(move |&lane| self.knows_length(lane) == known);
            self.first_of_lanes(now_ns, group, lanes, known)
        };
        earlier(of_length(true), of_length(false))
    }

    /// The first request of `lanes` that any worker of its group may take up. All are of known length, or none
    /// is.
    #[inline]
    fn first_of_lanes(
        &self,
        now_ns: u64,
        group: &Group,
        lanes: impl Iterator<Item = usize>,
        known_length: bool,
    ) -> Option<Candidate> {
        let lane = self.queues.oldest(lanes)?;
        let first = self.queues.front(lane)?;
        let delay_ns = first.waited_ns(now_ns);
        let Self { queues, workers, .. } = self;
        let open = self.own_thread.open_to(known_length);
        let idle = |range: WorkerRange| eligible::worker_for_new(queues, workers, range.within(open));
        let borrows = delay_ns >= group.borrow_after_ns;
        let lent = || eligible::worker_to_lend(queues, workers, group.borrowed.within(open));
        let own_thread = group.on_own_thread.then(|| idle(OWN_THREAD)).flatten();
        let own = own_thread.or_else(|| idle(group.own));
        let worker = own.or_else(|| idle(group.further)).or_else(|| borrows.then(lent)?)?;
        Some(Candidate::new(first, lane, worker, group, delay_ns))
    }

    /// Whether the length of the type is known whose requests wait in `lane`.
    fn knows_length(&self, lane: usize) -> bool {
        let slot = self.aged.as_ref().map(|aged| aged.slot(lane));
        self.profile.knows_length(slot.unwrap_or(lane))
    }

    /// The workers on which requests of the type at `slot` may begin, whatever the plan.
    #[inline]
    pub(crate) fn open_to(&self, slot: usize) -> WorkerRange {
        self.own_thread.open_to(self.knows_length(slot))
    }

    /// The request that arrived first, of those suspended on idle workers that fit.
    #[inline]
    fn suspended_candidate(
        &self,
        now_ns: u64,
        group: &Group,
        lanes: impl Iterator<Item = usize> + Clone,
        fits: impl Fn(WorkerId, u64) -> bool,
    ) -> Option<Candidate> {
        if !self.queues.any_suspended() {
            return None;
        }
        let first_at = |worker| {
            let (lane, first) = self.queues.first_at(lanes.clone(), worker)?;
            let delay_ns = first.waited_ns(now_ns);
            fits(worker, delay_ns).then(|| Candidate::new(first, lane, worker, group, delay_ns))
        };
        let candidates = self.workers.workers().filter_map(first_at);
        candidates.min_by_key(|candidate| candidate.sequence)
    }

    #[inline]
    fn start(&mut self, now_ns: u64, candidate: &Candidate) -> Dispatch {
        let &Candidate { lane, worker, suspended, steals, delay_ns, sequence: _ } = candidate;
        self.workers.remove(worker);
        if let Some(aged) = &mut self.aged {
            aged.take(lane);
        }
        let waiting = if suspended {
            self.queues.pop_at(lane, worker)
        } else {
            self.queues.pop(lane)
        };
        let waiting = waiting.expect("it waited there");
        let slot = self.queues.slot(waiting.request_type);
        self.steals[slot] += u64::from(steals);
        Dispatch {
            action: self.running.start(now_ns, worker, waiting, HandOff::Dispatched),
            slot,
            delay_ns,
        }
    }

    /// The next request of the type at `slot` that some idle worker can take up.
    pub(crate) fn next_of(&self, slot: usize) -> Option<&Waiting> {
        eligible::next_of(&self.queues, &self.workers, self.open_to(slot), slot)
    }

    /// The type among `slots` whose [next](Self::next_of) request arrived first.
    pub(crate) fn oldest_of(&self, slots: &[usize]) -> Option<usize> {
        let next = |&slot: &usize| Some((self.next_of(slot)?.sequence, slot));
        slots.iter().filter_map(next).min().map(|(_, slot)| slot)
    }

    /// Whether any aged request waits.
    #[inline]
    pub(crate) fn any_aged(&self) -> bool {
        self.aged.as_ref().is_some_and(AgedLanes::any)
    }

    /// The aged requests of a group's types `members`, if any waits. To be asked once for all workers.
    pub(crate) fn aged_of<'a>(&'a self, aging: Aging, members: &'a [usize]) -> Option<AgedOf<'a>> {
        let lanes = self.aged.as_ref()?;
        let levels = lanes.levels(members.iter().copied());
        if levels.is_empty() {
            return None;
        }
        let coming = self.coming();
        let lanes_of = |level| members.iter().map(move |&slot| lanes.lane(level, slot));
        let unbound = levels.iter().flat_map(lanes_of);
        let unbound: usize = unbound.map(|lane| self.queues.lane_len(lane)).sum();
        let any_left = unbound > coming.saturating_sub(aging.spare);
        let first_of = |level| {
            let lane = self.queues.oldest(lanes_of(level))?;
            Some((level, self.queues.front(lane)?))
        };
        let anywhere = any_left.then(|| levels.iter().find_map(first_of));
        Some(AgedOf { aging, members, levels, coming, anywhere: anywhere.flatten() })
    }

    /// The first request of these that could run on `worker` if that were idle, its level, and from when it may resume:
    /// now, unless too few workers are idle. One that any worker may run counts only if the worker has a context for
    /// another request.
    pub(crate) fn first_aged<'a>(&'a self, aged: &AgedOf<'a>, worker: WorkerId) -> Option<(usize, &'a Waiting, u64)> {
        let lanes = self.aged.as_ref()?;
        let anywhere = aged.anywhere.filter(|_| self.queues.has_another_context(worker));
        let before = anywhere.map_or(usize::MAX, |(level, _)| level);
        let first_at = |level| {
            let lanes = aged.members.iter().map(|&slot| lanes.lane(level, slot));
            let (_, waiting) = self.queues.first_at(lanes, worker)?;
            Some((level, waiting))
        };
        let at = (self.queues.suspended(worker) > 0).then(|| {
            let levels = aged.levels.iter();
            levels.take_while(|&level| level <= before).find_map(first_at)
        });
        let (level, first) = at.flatten().or(anywhere)?;
        let comes = aged.coming + usize::from(self.running.is_busy(worker));
        let from_ns = if comes <= aged.aging.spare {
            aged.aging.late_at_ns(first)
        } else {
            0
        };
        Some((level, first, from_ns))
    }

    /// Whether any request of the type at `slot` waits.
    pub(crate) fn waits(&self, slot: usize) -> bool {
        self.queues.queued(slot) > 0
    }

    /// Whether any request of the types `members` waits. A server has many types and few of them wait at a time, so
    /// this is asked before their queues are looked through.
    #[inline]
    fn any_waits(&self, members: &[usize]) -> bool {
        members.iter().any(|&slot| self.waits(slot))
    }

    /// The next request of the type at `slot`, on an idle worker; the worker, too.
    pub(crate) fn dispatch_type(&mut self, now_ns: u64, slot: usize) -> Option<(WorkerId, Action)> {
        let open = self.open_to(slot);
        let (worker, waiting) = eligible::take_next(&mut self.queues, &mut self.workers, open, slot)?;
        let action = self.running.start(now_ns, worker, waiting, HandOff::Dispatched);
        Some((worker, action))
    }

    /// What is known of the type at `slot`.
    pub(crate) fn type_status(&self, slot: usize) -> TypeStatus {
        let Self { profile, .. } = self;
        let (workers_reserved, worker_first) = self.plan.reservation(slot);
        TypeStatus {
            workers_reserved,
            worker_first,
            on_own_thread: self.plan.is_on_own_thread(slot),
            group: self.plan.group_of(slot),
            service_ns_mean: profile.mean_ns(slot).unwrap_or(0.0),
            share: profile.share(slot),
            steals: self.steals[slot],
            relieved: self.stuck.relieved[slot],
            ..self.queues.type_status(slot)
        }
    }
}

impl Handover for Grouped {
    fn hand_over(&mut self) -> Backlog {
        backlog(&self.queues, &self.running)
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        self.queues.fill_typed(&backlog);
        self.running.fill(&backlog);
        self.workers.take_running(&self.running);
    }
}
