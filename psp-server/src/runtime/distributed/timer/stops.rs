//! Which turns are asked to yield, and when.
//!
//! ```text
//!   board ──► Watch: the quantum is over, and somebody waits ──► stop: has the turn had it? ──► asked ──► late
//! ```
//!
//! The board shows when a worker decided to begin a turn. The turn is asked when it has had its quantum since it
//! [began](TurnStart), as under a dispatcher: else a turn that begins late would be asked before it has done anything.

use psp_policy::WorkerId;
use psp_policy::distributed::{Expired, Watch};

use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::distributed::worker_group::WorkerGroup;

/// What is known of the turns of workers beside the board.
pub(super) trait Turns {
    /// Whether a worker has something to read, or a request that was woken.
    fn has_unread(&self, worker: WorkerId) -> bool;
    /// When a timer of a request is due that waits for this worker.
    fn due_ns(&self, worker: WorkerId) -> Option<u64>;
    /// Whether a worker has left its port, and there is something to read that no worker reads.
    fn has_left_unread(&self, worker: WorkerId) -> bool;
    /// When its turn began.
    fn start(&self, worker: WorkerId) -> &TurnStart;
    /// Asks its request to yield, unless that turn is over.
    fn ask(&self, worker: WorkerId, turn: u64);
    /// A request of the type at `slot` has not yielded for so long.
    fn is_late(&mut self, now_ns: u64, worker: WorkerId, slot: usize, for_ns: u64, has_begun: bool);
}

/// A turn that is to yield.
#[derive(Debug, Clone, Copy)]
struct Stop {
    turn: u64,
    quantum_ns: u64,
    decided_ns: u64,
    /// When to check again whether the turn has had its quantum. `None` once it was asked.
    look_ns: Option<u64>,
    is_late: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Stops {
    watch: Watch,
    workers: Box<[Option<Stop>]>,
    /// How long a request may take to yield. `None`: for ever.
    warn_after_ns: Option<u64>,
}

impl Stops {
    /// `warn_ms` is how long a request may take to yield, 0 for ever.
    pub(super) fn new(group: &WorkerGroup, warn_ms: u64) -> Self {
        let workers = group.workers().count();
        Self {
            watch: Watch::new(workers, group.ways),
            workers: vec![None; workers].into(),
            warn_after_ns: (warn_ms > 0).then(|| warn_ms.saturating_mul(1_000_000)),
        }
    }

    /// Whether `worker` will yield as soon as a request waits for it, and none did at the last look.
    pub(super) fn is_spared(&self, worker: WorkerId) -> bool {
        self.watch.is_spared(worker)
    }

    /// Asks all turns that are due, and returns when to look again. If somebody begins to wait for a worker that is
    /// [spared](Self::is_spared), the time for the next look has come at once.
    pub(super) fn look(&mut self, now_ns: u64, group: &WorkerGroup, turns: &mut impl Turns) -> Option<u64> {
        let has_quantum = |worker: &WorkerId| group.line(*worker).quantum().is_some();
        // Those who left it do not yield to it.
        let left_unread = group.workers().any(|worker| has_quantum(&worker)) && { group.workers() }
            .any(|worker| !has_quantum(&worker) && turns.has_left_unread(worker));
        let mut due_ns: Option<u64> = None;
        for worker in group.workers() {
            if !has_quantum(&worker) {
                self.watch.set_unread(worker, false);
                continue;
            }
            let own_ns = turns.due_ns(worker);
            let is_due = own_ns.is_some_and(|own_ns| own_ns <= now_ns);
            let unread = left_unread || is_due || turns.has_unread(worker);
            self.watch.set_unread(worker, unread);
            let later_ns = own_ns.filter(|_| !is_due);
            due_ns = due_ns.into_iter().chain(later_ns).min();
        }
        while let Some(expired) = self.watch.expired(now_ns, &group.board) {
            let Expired { worker, turn, quantum_ns } = expired;
            self.workers[worker.index()] = Some(Stop {
                turn,
                quantum_ns,
                decided_ns: now_ns,
                look_ns: Some(now_ns),
                is_late: false,
            });
        }
        for worker in group.workers() {
            self.follow(now_ns, worker, group, turns);
        }
        let stops = self.workers.iter().flatten();
        let next_ns = stops.filter_map(|stop| self.next_of(stop)).min();
        let watch_ns = self.watch.next_ns(now_ns, &group.board);
        { next_ns.into_iter() }.chain(watch_ns).chain(due_ns).min()
    }

    /// Asks a turn when it is due, and notes when it is late.
    fn follow(&mut self, now_ns: u64, worker: WorkerId, group: &WorkerGroup, turns: &mut impl Turns) {
        let kept = &mut self.workers[worker.index()];
        let line = group.line(worker);
        let Some(stop) = kept.as_mut().filter(|stop| stop.turn == line.turn()) else {
            *kept = None;
            return;
        };
        if stop.look_ns.is_some_and(|look_ns| look_ns <= now_ns) {
            let start = turns.start(worker);
            let left_ns = start.left_ns(stop.turn, stop.quantum_ns, stop.decided_ns, now_ns);
            stop.look_ns = (left_ns > 0).then(|| now_ns.saturating_add(left_ns));
            if left_ns == 0 {
                turns.ask(worker, stop.turn);
            }
        }
        let for_ns = now_ns.saturating_sub(stop.decided_ns);
        let is_late = self.warn_after_ns.is_some_and(|after_ns| for_ns >= after_ns);
        if is_late
            && !std::mem::replace(&mut stop.is_late, true)
            && let Some(runs) = line.runs()
        {
            turns.is_late(now_ns, worker, runs.slot, for_ns, stop.look_ns.is_none());
        }
    }

    fn next_of(&self, stop: &Stop) -> Option<u64> {
        let warn_ns = self.warn_after_ns.filter(|_| !stop.is_late);
        let warn_ns = warn_ns.map(|after_ns| stop.decided_ns.saturating_add(after_ns));
        stop.look_ns.into_iter().chain(warn_ns).min()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;

    use psp_policy::distributed::{LaneSet, Quantum, Queue, Runs};
    use psp_policy::{Policy, SchedulerSetup, TypeTable};

    use super::*;
    use crate::runtime::distributed::roster::Roster;

    const WORKERS: usize = 2;
    const MS: u64 = 1_000_000;
    const FIRST: WorkerId = WorkerId(0);
    const SECOND: WorkerId = WorkerId(1);

    /// Workers whose turns are what a test says.
    struct Scene {
        group: WorkerGroup,
        stops: Stops,
        seen: Seen,
    }

    #[derive(Default)]
    struct Seen {
        unread: [bool; WORKERS],
        left_unread: [bool; WORKERS],
        due_ns: [Option<u64>; WORKERS],
        starts: Vec<TurnStart>,
        asked: RefCell<Vec<(WorkerId, u64)>>,
        /// Workers, and whether their turns had begun.
        late: Vec<(WorkerId, bool)>,
    }

    impl Turns for Seen {
        fn has_unread(&self, worker: WorkerId) -> bool {
            self.unread[worker.index()]
        }

        fn due_ns(&self, worker: WorkerId) -> Option<u64> {
            self.due_ns[worker.index()]
        }

        fn has_left_unread(&self, worker: WorkerId) -> bool {
            self.left_unread[worker.index()]
        }

        fn start(&self, worker: WorkerId) -> &TurnStart {
            &self.starts[worker.index()]
        }

        fn ask(&self, worker: WorkerId, turn: u64) {
            self.asked.borrow_mut().push((worker, turn));
        }

        fn is_late(&mut self, _: u64, worker: WorkerId, _: usize, _: u64, has_begun: bool) {
            self.late.push((worker, has_begun));
        }
    }

    impl Scene {
        fn new() -> Self {
            let types = TypeTable::new();
            let setup = SchedulerSetup::new(WORKERS, &types);
            let group = WorkerGroup::new(&Policy::synergy(), &setup, Roster::silent(WORKERS));
            let (group, _) = group.expect("it needs no dispatcher");
            Self {
                stops: Stops::new(&group, 5),
                group,
                seen: Seen {
                    starts: (0..WORKERS).map(|_| TurnStart::new()).collect(),
                    ..Seen::default()
                },
            }
        }

        /// A turn with this quantum, if that is above 0. The worker begins it `late_ns` after it decided to.
        fn begin(&self, now_ns: u64, worker: WorkerId, quantum_ns: u64, late_ns: u64) -> u64 {
            let line = self.group.line(worker);
            let (slot, long) = (0, true);
            line.begin(now_ns, 0, Runs { slot, long });
            let quantum = (quantum_ns > 0).then_some(Quantum { ns: quantum_ns, yields_to: LaneSet::ALL });
            line.set_quantum(now_ns, quantum);
            self.seen.starts[worker.index()].announce(line.turn(), now_ns + late_ns);
            line.turn()
        }

        fn waits(&self, worker: WorkerId, requests: u64) {
            let behind = match requests {
                0 => LaneSet::NONE,
                _ => LaneSet::of(0),
            };
            self.group.line(worker).set_queue(Queue {
                queued: requests,
                waiting: behind,
                behind,
                ..Queue::default()
            });
        }

        /// What is asked at `now_ns`, and when to look again.
        fn look(&mut self, now_ns: u64) -> (Vec<(WorkerId, u64)>, Option<u64>) {
            let next_ns = self.stops.look(now_ns, &self.group, &mut self.seen);
            (self.seen.asked.take(), next_ns)
        }
    }

    #[test]
    fn a_turn_is_asked_when_its_quantum_is_over_and_somebody_waits() {
        let mut scene = Scene::new();
        let turn = scene.begin(100, FIRST, 1_000, 0);
        scene.begin(200, SECOND, 0, 0);
        assert_eq!(scene.look(1_100), (vec![], None), "no request waits");
        assert!(scene.stops.is_spared(FIRST) && !scene.stops.is_spared(SECOND));
        for worker in [FIRST, SECOND] {
            scene.waits(worker, 1);
        }
        assert_eq!(scene.look(1_500), (vec![], Some(2_100)), "the next quantum");
        assert_eq!(scene.look(2_099), (vec![], Some(2_100)));
        let warn_ns = 2_100 + 5 * MS;
        let asked = vec![(FIRST, turn)];
        assert_eq!(scene.look(2_100), (asked, Some(warn_ns)), "no other");
        assert_eq!(scene.look(3_100), (vec![], Some(warn_ns)), "once");
        scene.group.line(FIRST).end(3_200);
        assert_eq!(scene.look(4_000), (vec![], None));
    }

    #[test]
    fn what_a_worker_has_not_read_waits_for_it() {
        let mut scene = Scene::new();
        scene.begin(0, FIRST, 1_000, 0);
        assert_eq!(scene.look(1_000), (vec![], None));
        scene.seen.unread[0] = true;
        assert_eq!(scene.look(1_300), (vec![], Some(2_000)));
        scene.seen.unread[0] = false;
        assert_eq!(scene.look(2_000), (vec![], None), "another has read it");
        scene.seen.unread[0] = true;
        assert_eq!(scene.look(2_500), (vec![], Some(3_000)));
        assert_eq!(scene.look(3_000).0, [(FIRST, 1)]);
    }

    #[test]
    fn a_request_whose_timer_is_due_waits_for_its_worker() {
        let mut scene = Scene::new();
        let turn = scene.begin(0, FIRST, 1_000, 0);
        scene.begin(0, SECOND, 0, 0);
        scene.seen.due_ns = [Some(1_700), Some(1_100)];
        assert_eq!(scene.look(1_000), (vec![], Some(1_700)));
        assert_eq!(scene.look(1_700), (vec![], Some(2_000)));
        assert_eq!(scene.look(2_000).0, [(FIRST, turn)]);
    }

    #[test]
    fn what_no_worker_reads_waits_for_those_who_yield() {
        let mut scene = Scene::new();
        let lent = scene.begin(0, FIRST, 1_000, 0);
        let own = scene.begin(0, SECOND, 0, 0);
        assert_eq!(scene.look(1_000), (vec![], None));
        scene.seen.left_unread[1] = true;
        assert_eq!(scene.look(1_500), (vec![], Some(2_000)));
        assert_eq!(scene.look(2_000).0, [(FIRST, lent)], "and not {own}");
        for worker in [FIRST, SECOND] {
            scene.group.line(worker).end(2_100);
            scene.begin(3_000, worker, 1_000, 0);
        }
        let (asked, _) = scene.look(4_000);
        assert_eq!(asked, [], "the second would yield by itself");
    }

    #[test]
    fn a_quantum_runs_from_when_the_turn_began() {
        let mut scene = Scene::new();
        scene.waits(FIRST, 1);
        let turn = scene.begin(0, FIRST, 1_000, 600);
        assert_eq!(scene.look(1_000), (vec![], Some(1_600)));
        assert_eq!(scene.look(1_600).0, [(FIRST, turn)]);
    }

    #[test]
    fn a_turn_that_is_over_is_not_asked_and_the_next_one_has_its_own_quantum() {
        let mut scene = Scene::new();
        scene.waits(FIRST, 1);
        scene.begin(0, FIRST, 1_000, 600);
        assert_eq!(scene.look(1_000), (vec![], Some(1_600)));
        scene.group.line(FIRST).end(1_200);
        let next = scene.begin(1_300, FIRST, 1_000, 0);
        assert_eq!(scene.look(1_600), (vec![], Some(2_300)));
        assert_eq!(scene.look(2_300).0, [(FIRST, next)]);
        scene.group.line(FIRST).end(2_400);
        scene.begin(2_500, FIRST, 0, 0);
        assert_eq!(scene.look(MS), (vec![], None), "it has no quantum");
    }

    #[test]
    fn a_request_that_does_not_yield_is_late_once() {
        let mut scene = Scene::new();
        scene.waits(FIRST, 1);
        scene.begin(0, FIRST, 1_000, 0);
        assert_eq!(scene.look(2_000).1, Some(2_000 + 5 * MS));
        for late_ns in [1, 2, 3] {
            assert_eq!(scene.look(2_000 + 5 * MS + late_ns).1, None);
        }
        assert_eq!(scene.seen.late, [(FIRST, true)]);
    }

    #[test]
    fn several_turns_are_asked_at_once() {
        let mut scene = Scene::new();
        for worker in [FIRST, SECOND] {
            scene.waits(worker, 1);
            scene.begin(0, worker, 1_000, 0);
        }
        assert_eq!(scene.look(1_000).0, [(FIRST, 1), (SECOND, 1)]);
    }
}
