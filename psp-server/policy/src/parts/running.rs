//! The request that runs on each worker.

use std::sync::Arc;

use crate::backlog::{Backlog, RequestState};
use crate::event::{Action, HandOff, WorkerId};
use crate::parts::waiting::Waiting;
use crate::request_type::RequestType;
use crate::setup::SchedulerSetup;

/// One stay of a request on a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) waiting: Waiting,
    pub(crate) started_ns: u64,
    /// Whether the driver was asked to stop it.
    pub(crate) preempted: bool,
    /// Whether its type yields.
    pub(crate) yields: bool,
}

impl Turn {
    /// How long the request has run by now, this turn and the earlier ones.
    pub(crate) const fn attained_ns(&self, now_ns: u64) -> u64 {
        self.waiting.served_ns + now_ns.saturating_sub(self.started_ns)
    }
}

/// What runs on each worker.
#[derive(Debug)]
pub(crate) struct Running {
    turns: Vec<Option<Turn>>,
    /// Per type slot: whether such requests yield.
    yields: Arc<[bool]>,
    /// How many workers are present.
    present: usize,
    /// How many of those the driver was asked to stop.
    stopping: usize,
    /// Whether a request that yielded resumes where it ran.
    stays: bool,
}

impl Running {
    /// Idle workers.
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let slots = 0..=setup.types.len();
        Self {
            turns: vec![None; setup.workers],
            yields: slots.map(|slot| setup.types.yields(slot)).collect(),
            present: setup.workers,
            stopping: 0,
            stays: !setup.contexts.preempted_migrate,
        }
    }

    /// Workers `0..present` are present, and no others.
    pub(crate) fn set_present(&mut self, present: usize) {
        self.present = present;
        let turns = self.turns[..present].iter().flatten();
        self.stopping = turns.filter(|turn| turn.preempted).count();
    }

    /// Whether requests of a type yield.
    #[inline]
    fn yields(&self, request_type: RequestType) -> bool {
        let unknown = self.yields.len() - 1;
        let slot = request_type.index().unwrap_or(unknown).min(unknown);
        self.yields[slot]
    }

    /// Records that `waiting` runs on `worker`. Returns the action.
    ///
    /// # Panics
    ///
    /// When the worker is busy, or there is none of that number.
    #[inline]
    pub(crate) fn start(&mut self, now_ns: u64, worker: WorkerId, waiting: Waiting, hand_off: HandOff) -> Action {
        let yields = self.yields(waiting.request_type);
        let turn = &mut self.turns[worker.index()];
        assert!(turn.is_none(), "worker {} runs something", worker.0);
        *turn = Some(Turn { waiting, started_ns: now_ns, preempted: false, yields });
        Action::Run {
            worker,
            request: waiting.request,
            request_type: waiting.request_type,
            hand_off,
        }
    }

    /// Records that `worker` is idle. Returns the turn that ended.
    ///
    /// # Panics
    ///
    /// When nothing ran there: the driver reported nonsense, and to go on would give one worker
    /// two requests.
    #[inline]
    pub(crate) fn finish(&mut self, worker: WorkerId) -> Turn {
        let turn = self.turns.get_mut(worker.index()).and_then(Option::take);
        let Some(turn) = turn else {
            panic!("worker {} completed without having run anything", worker.0);
        };
        self.stopping -= usize::from(turn.preempted && worker.index() < self.present);
        turn
    }

    /// Records that `worker` is idle. Returns its request, which waits again or is blocked.
    ///
    /// # Panics
    ///
    /// As [`Running::finish`].
    pub(crate) fn give_up(&mut self, worker: WorkerId, served_ns: u64) -> Waiting {
        let mut waiting = self.finish(worker).waiting;
        waiting.served_ns = waiting.served_ns.saturating_add(served_ns);
        waiting.home = self.stays.then_some(worker);
        waiting
    }

    /// Records that the request on `worker` shall stop after `quantum_ns` of its turn. Returns the
    /// action; `None` if nothing runs there, it was asked before, or its type never yields.
    pub(crate) fn preempt(&mut self, worker: WorkerId, quantum_ns: u64) -> Option<Action> {
        let turn = self.turns[worker.index()].as_mut()?;
        if !turn.yields || std::mem::replace(&mut turn.preempted, true) {
            return None;
        }
        self.stopping += usize::from(worker.index() < self.present);
        Some(Action::Preempt { worker, quantum_ns })
    }

    /// Takes over what runs in `backlog`. Nothing ran here yet.
    pub(crate) fn fill(&mut self, backlog: &Backlog) {
        for (sequence, request) in (0..).zip(&backlog.requests) {
            let RequestState::Running { worker, started_ns, preempted } = request.state else {
                continue;
            };
            self.turns[worker.index()] = Some(Turn {
                waiting: Waiting::of(request, sequence, None),
                started_ns,
                preempted,
                yields: self.yields(request.request_type),
            });
            self.stopping += usize::from(preempted && worker.index() < self.present);
        }
    }

    /// What runs on `worker`.
    pub(crate) fn on(&self, worker: WorkerId) -> Option<&Turn> {
        self.turns.get(worker.index())?.as_ref()
    }

    /// Whether `worker` runs something.
    pub(crate) fn is_busy(&self, worker: WorkerId) -> bool {
        self.on(worker).is_some()
    }

    /// How many workers that are present were asked to stop and have not done so.
    pub(crate) const fn stopping(&self) -> usize {
        self.stopping
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.turns.len()
    }

    /// All busy workers and their turns.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (WorkerId, &Turn)> {
        (0..)
            .map(WorkerId)
            .zip(&self.turns)
            .filter_map(|(worker, turn)| Some((worker, turn.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preempt::PreemptPolicy;
    use crate::rehearsal::setup;
    use crate::request_type::{TypeSpec, TypeTable};

    fn idle(workers: usize) -> Running {
        Running::new(&setup(workers, &TypeTable::new()))
    }

    #[test]
    fn what_does_not_yield_is_not_asked() {
        let types = [TypeSpec::new("LONG").preempt(PreemptPolicy::None)];
        let types: TypeTable = types.into_iter().collect();
        let mut running = Running::new(&setup(2, &types));
        for (worker, request_type) in [RequestType::new(0), RequestType::UNKNOWN].into_iter().enumerate() {
            let waiting = Waiting { request_type, ..Waiting::example() };
            running.start(0, WorkerId(worker as u32), waiting, HandOff::Own);
        }
        assert_eq!(running.preempt(WorkerId(0), 9), None);
        assert!(running.preempt(WorkerId(1), 9).is_some());
        assert_eq!(running.stopping(), 1);
    }

    #[test]
    fn a_turn_adds_to_what_was_served_before() {
        let mut running = idle(2);
        let worker = WorkerId(1);
        running.start(100, worker, Waiting::example(), HandOff::Own);
        assert_eq!(running.on(worker).unwrap().attained_ns(130), 30);
        let quantum_ns = 9;
        let asked = Some(Action::Preempt { worker, quantum_ns });
        assert_eq!(running.preempt(worker, quantum_ns), asked);
        assert_eq!(running.preempt(worker, 9), None, "once is enough");
        assert_eq!(running.preempt(WorkerId(0), 9), None, "nothing runs there");
        let waiting = running.give_up(worker, 31);
        assert!(!running.is_busy(worker));
        running.start(200, worker, waiting, HandOff::Dispatched);
        assert_eq!(running.finish(worker).attained_ns(205), 36);
    }

    /// Worker 1 goes and comes back.
    #[test]
    fn absent_workers_are_no_help_when_they_stop() {
        let mut running = idle(2);
        let workers = [0, 1].map(WorkerId);
        for worker in workers {
            running.start(0, worker, Waiting::example(), HandOff::Own);
        }
        running.set_present(1);
        assert!(running.preempt(workers[1], 9).is_some());
        assert_eq!(running.stopping(), 0);
        assert!(running.preempt(workers[0], 9).is_some());
        assert_eq!(running.stopping(), 1);
        running.set_present(2);
        assert_eq!(running.stopping(), 2);
        running.set_present(1);
        running.finish(workers[1]);
        assert_eq!(running.stopping(), 1);
        running.finish(workers[0]);
        assert_eq!(running.stopping(), 0);

        let state = |worker| RequestState::Running { worker, started_ns: 0, preempted: true };
        let requests = workers.map(|worker| Waiting::example().in_state(state(worker)));
        running.fill(&Backlog { requests: requests.into(), ..Backlog::default() });
        assert_eq!((running.turns().count(), running.stopping()), (2, 1));
    }

    #[test]
    #[should_panic(expected = "worker 0 runs something")]
    fn a_busy_worker_gets_nothing_more() {
        let mut running = idle(1);
        for now_ns in 0..2 {
            running.start(now_ns, WorkerId(0), Waiting::example(), HandOff::Own);
        }
    }

    #[test]
    #[should_panic(expected = "worker 2 completed without having run anything")]
    fn workers_that_are_not_there_cannot_complete() {
        idle(2).finish(WorkerId(2));
    }
}
