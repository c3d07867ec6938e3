//! Quanta: how long a request may keep its worker while others wait.
//!
//! A quantum begins with every `Run`. Its end has no effect unless a request waits ("preempt only
//! when someone waits", Shinjuku 3.4). A worker whose quantum is over is *expired*: it runs on, and is
//! preempted as soon as a request waits, the longest expired worker first.
//!
//! ```text
//!   start           end, none waits          a request waits         idle
//!     ├── within its quantum ──┼───── expired ─────┼───── stopping ────┤
//! ```
//!
//! A request of a type that does not yield has no quantum.
//!
//! A policy may leave requests alone that are about to finish ([`finishing`](super::finishing)). Their
//! workers are *finishing* until they should be idle, and expired again after that. A finishing worker
//! counts as coming for a request that waits, as a stopping worker does.
//!
//! With one queue for all workers, or typed queues, a worker counts if it could run a request that
//! waits: one that is suspended there or, if it has a context left, one that any worker may run. With
//! a queue per worker, the policy [spares](Quanta::spare) the workers for which no request waits:
//!
//! ```text
//!   on_event  Completed, Yielded,
//!             Blocked              quanta.stop(worker)
//!             Arrived, Unblocked
//!             in its queue         quanta.expose(worker)
//!   poll      after Run            quanta.start(now_ns, worker, running), then spare(worker) where its queue is empty
//!             nothing to run       quanta.preempt_for(queues, ..) or preempt_next(..)
//!   deadline_ns                    quanta.deadline_for(queues) or next_ns()
//! ```

use crate::event::{Action, WorkerId};
use crate::parts::queues::Queues;
use crate::parts::running::Running;
use crate::parts::worker_times::WorkerTimes;
use crate::setup::SchedulerSetup;

/// The state of a worker's quantum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// Runs a request with a quantum that ends, or ended, at this time.
    Until(u64),
    /// As `Until`, but the request should finish before, and is left alone.
    Finishing(u64),
    /// Was asked to stop and has not done so.
    Stopping,
}

impl State {
    const fn is_stopping(self) -> bool {
        matches!(self, Self::Stopping)
    }

    const fn is_finishing(self) -> bool {
        matches!(self, Self::Finishing(_))
    }
}

/// See the [module](self). Nothing ends where requests cannot be preempted.
#[derive(Debug)]
pub(crate) struct Quanta {
    quantum_ns: u64,
    preemptive: bool,
    states: Vec<State>,
    /// Per worker: how long the quantum of its turn is.
    lengths_ns: Vec<u64>,
    /// Ends of the quanta of workers that are not spared. An expired worker keeps its own here,
    /// so the longest expired is the earliest.
    ends: WorkerTimes,
    stopping: usize,
    finishing: usize,
}

impl Quanta {
    /// Idle workers, and quanta of `quantum_ns`. Without [`SchedulerSetup::preemption`], or a
    /// second context to run anything else in, no quantum ever ends. Memory is set aside here, and nowhere else.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, quantum_ns: u64) -> Self {
        Self {
            quantum_ns,
            preemptive: setup.useful_preemption().is_some(),
            states: vec![State::Idle; setup.workers],
            lengths_ns: vec![quantum_ns; setup.workers],
            ends: WorkerTimes::new(setup.workers),
            stopping: 0,
            finishing: 0,
        }
    }

    /// The state before.
    fn set(&mut self, worker: WorkerId, state: State) -> State {
        let count = |state, of: fn(State) -> bool| usize::from(of(state));
        let before = std::mem::replace(&mut self.states[worker.index()], state);
        self.stopping += count(state, State::is_stopping);
        self.stopping -= count(before, State::is_stopping);
        self.finishing += count(state, State::is_finishing);
        self.finishing -= count(before, State::is_finishing);
        before
    }

    /// The request on `worker` gets a new quantum, if its type yields. A request that was asked to
    /// stop keeps stopping.
    pub(crate) fn start(&mut self, now_ns: u64, worker: WorkerId, running: &Running) {
        self.start_for(now_ns, worker, running, self.quantum_ns);
    }

    /// As [`Quanta::start`], with a quantum of the policy's own choice.
    pub(crate) fn start_for(&mut self, now_ns: u64, worker: WorkerId, running: &Running, quantum_ns: u64) {
        let yields = running.on(worker).is_some_and(|turn| turn.yields);
        if self.preemptive && yields && self.states[worker.index()] != State::Stopping {
            let end_ns = now_ns.saturating_add(quantum_ns);
            self.set(worker, State::Until(end_ns));
            self.lengths_ns[worker.index()] = quantum_ns;
            self.ends.set(worker, end_ns);
        }
    }

    /// `worker` is idle: its request completed, yielded or is blocked.
    pub(crate) fn stop(&mut self, worker: WorkerId) {
        self.set(worker, State::Idle);
        self.ends.clear(worker);
    }

    /// No request waits for `worker`: it is not preempted until [`Quanta::expose`] or the next
    /// [`Quanta::start`]. Its quantum goes on.
    pub(crate) fn spare(&mut self, worker: WorkerId) {
        self.ends.clear(worker);
    }

    /// A request waits for `worker` again. If its quantum ended meanwhile, it has been expired since.
    pub(crate) fn expose(&mut self, worker: WorkerId) {
        if let State::Until(end_ns) | State::Finishing(end_ns) = self.states[worker.index()] {
            self.ends.set(worker, end_ns);
        }
    }

    /// The longest expired worker that could run a request of `queues` if it stopped. `finishes_ns`
    /// says until when a worker is left alone because it is about to finish; later than `now_ns`.
    pub(crate) fn expired_for(
        &mut self,
        queues: &Queues,
        now_ns: u64,
        finishes_ns: impl Fn(WorkerId) -> Option<u64>,
    ) -> Option<WorkerId> {
        loop {
            let (end_ns, worker) = self.earliest_for(queues)?;
            if end_ns > now_ns {
                return None;
            }
            let Some(finishes_ns) = finishes_ns(worker) else {
                return Some(worker);
            };
            self.set(worker, State::Finishing(finishes_ns));
            self.ends.set(worker, finishes_ns);
        }
    }

    /// Asks the request on `worker` to stop. `None` if it was asked before, nothing runs there, or
    /// requests cannot be preempted.
    pub(crate) fn preempt(&mut self, worker: WorkerId, running: &mut Running) -> Option<Action> {
        if !self.preemptive {
            return None;
        }
        let action = running.preempt(worker, self.lengths_ns[worker.index()])?;
        self.set(worker, State::Stopping);
        self.ends.clear(worker);
        Some(action)
    }

    /// Asks the worker that is expired longest to stop.
    pub(crate) fn preempt_next(&mut self, now_ns: u64, running: &mut Running) -> Option<Action> {
        let (end_ns, worker) = self.ends.earliest()?;
        (end_ns <= now_ns).then(|| self.preempt(worker, running))?
    }

    /// As [`Quanta::preempt_next`], for requests in `queues` that find no idle worker. For each request
    /// that any worker may run, one worker stops; workers that are stopping already count. Workers
    /// with suspended requests stop, too.
    pub(crate) fn preempt_for(&mut self, queues: &Queues, now_ns: u64, running: &mut Running) -> Option<Action> {
        let worker = self.expired_for(queues, now_ns, |_| None)?;
        self.preempt(worker, running)
    }

    /// The earliest end of a quantum whose worker could run a request of `queues`.
    fn earliest_for(&self, queues: &Queues) -> Option<(u64, WorkerId)> {
        if !queues.any_bound() && queues.all_present() {
            if queues.len() <= self.stopping {
                return None;
            }
            if queues.len() > self.stopping + self.finishing {
                return self.ends.earliest();
            }
        }
        let workers = || (0..).map(WorkerId).zip(self.states.iter().copied());
        let coming = |is: fn(State) -> bool| {
            let free = |worker| queues.is_present(worker) && queues.suspended(worker) == 0;
            workers().filter(|&(worker, state)| is(state) && free(worker)).count()
        };
        let left = queues.unbound().saturating_sub(coming(State::is_stopping));
        let wanted = left > coming(State::is_finishing);
        workers()
            .filter(|&(worker, state)| {
                let wanted = wanted || (left > 0 && state.is_finishing());
                queues.suspended(worker) > 0 || (wanted && queues.has_another_context(worker))
            })
            .filter_map(|(worker, _)| Some((self.ends.get(worker)?, worker)))
            .min()
    }

    /// When the next quantum ends of a worker that is not spared.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.ends.earliest_ns()
    }

    /// For [`Scheduler::deadline_ns`](crate::Scheduler::deadline_ns): when the next quantum ends
    /// that makes a difference to what waits in `queues`.
    pub(crate) fn deadline_for(&self, queues: &Queues) -> Option<u64> {
        self.earliest_for(queues).map(|(end_ns, _)| end_ns)
    }

    /// For [`Handover::take_over`](crate::Handover::take_over): running requests get new quanta, except
    /// those that were asked to stop already.
    pub(crate) fn take_over(&mut self, now_ns: u64, running: &Running) {
        for (worker, turn) in running.turns() {
            if turn.preempted {
                self.set(worker, State::Stopping);
            } else {
                self.start(now_ns, worker, running);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{HandOff, RequestId};
    use crate::parts::waiting::Waiting;
    use crate::preempt::PreemptPolicy;
    use crate::rehearsal::setup;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};
    use crate::setup::{Contexts, Preemption};

    const QUANTUM_NS: u64 = 10;

    fn quanta(workers: usize, preemption: Option<Preemption>) -> Quanta {
        let types = TypeTable::new();
        Quanta::new(&setup(workers, &types).preemption(preemption), QUANTUM_NS)
    }

    /// So many requests that any worker may take up.
    fn waiting(requests: u32) -> Queues {
        let types = TypeTable::new();
        let mut queues = Queues::typed(&setup(8, &types));
        for id in 0..requests {
            queues.push(0, 0, RequestId(id), RequestType::UNKNOWN, None);
        }
        queues
    }

    fn idle(workers: usize) -> Running {
        Running::new(&setup(workers, &TypeTable::new()))
    }

    fn preemptive(workers: usize) -> (Quanta, Running) {
        let quanta = quanta(workers, Some(Preemption::new(0)));
        (quanta, idle(workers))
    }

    fn run(quanta: &mut Quanta, running: &mut Running, now_ns: u64, worker: u32) {
        let worker = WorkerId(worker);
        running.start(now_ns, worker, Waiting::example(), HandOff::Dispatched);
        quanta.start(now_ns, worker, running);
    }

    const fn preempt(worker: u32) -> Option<Action> {
        Some(Action::Preempt { worker: WorkerId(worker), quantum_ns: QUANTUM_NS })
    }

    #[test]
    fn the_longest_expired_stops_first_and_one_for_each_that_waits() {
        let (mut quanta, mut running) = preemptive(3);
        for (now_ns, worker) in [(0, 2), (1, 0), (2, 1)] {
            run(&mut quanta, &mut running, now_ns, worker);
        }
        assert_eq!(quanta.deadline_for(&waiting(0)), None, "no request waits");
        assert_eq!(quanta.deadline_for(&waiting(1)), Some(10));
        assert_eq!(quanta.preempt_for(&waiting(1), 9, &mut running), None);
        assert_eq!(quanta.preempt_for(&waiting(0), 11, &mut running), None);
        assert_eq!(quanta.preempt_for(&waiting(1), 11, &mut running), preempt(2));
        assert_eq!(quanta.preempt_for(&waiting(1), 11, &mut running), None);
        assert_eq!(quanta.deadline_for(&waiting(1)), None, "worker 2 comes for it");
        assert_eq!(quanta.preempt_for(&waiting(2), 11, &mut running), preempt(0));
        assert_eq!(quanta.preempt_for(&waiting(3), 11, &mut running), None);
        assert_eq!(quanta.deadline_for(&waiting(3)), Some(12));
        running.give_up(WorkerId(2), 11);
        quanta.stop(WorkerId(2));
        assert_eq!(quanta.deadline_for(&waiting(2)), Some(12));
    }

    #[test]
    fn completion_ends_a_quantum() {
        let (mut quanta, mut running) = preemptive(1);
        run(&mut quanta, &mut running, 0, 0);
        running.finish(WorkerId(0));
        quanta.stop(WorkerId(0));
        assert_eq!(quanta.next_ns(), None);
        run(&mut quanta, &mut running, 5, 0);
        assert_eq!(quanta.next_ns(), Some(15));
    }

    #[test]
    fn a_spared_worker_is_not_preempted_and_is_expired_when_exposed() {
        let (mut quanta, mut running) = preemptive(2);
        run(&mut quanta, &mut running, 0, 0);
        run(&mut quanta, &mut running, 1, 1);
        quanta.spare(WorkerId(0));
        assert_eq!(quanta.next_ns(), Some(11));
        assert_eq!(quanta.preempt_next(50, &mut running), preempt(1));
        assert_eq!(quanta.preempt_next(50, &mut running), None);
        quanta.expose(WorkerId(0));
        quanta.expose(WorkerId(1));
        assert_eq!(quanta.preempt_next(50, &mut running), preempt(0));
        assert_eq!(quanta.preempt_next(50, &mut running), None, "each once");
    }

    #[test]
    fn a_longer_quantum_is_one_workers_own() {
        let (mut quanta, mut running) = preemptive(2);
        run(&mut quanta, &mut running, 0, 0);
        run(&mut quanta, &mut running, 0, 1);
        quanta.start_for(0, WorkerId(0), &running, 100);
        assert_eq!(quanta.expired_for(&waiting(1), 50, |_| None), Some(WorkerId(1)));
        quanta.spare(WorkerId(1));
        assert_eq!(quanta.expired_for(&waiting(1), 99, |_| None), None);
        assert_eq!(quanta.next_ns(), Some(100));
    }

    #[test]
    fn a_finishing_worker_counts_for_one_request_and_others_stop_for_the_rest() {
        let (mut quanta, mut running) = preemptive(3);
        for (now_ns, worker) in [(0, 2), (1, 0), (2, 1)] {
            run(&mut quanta, &mut running, now_ns, worker);
        }
        let ends_ns = |worker| (worker == WorkerId(2)).then_some(14);
        assert_eq!(quanta.expired_for(&waiting(1), 12, ends_ns), None);
        assert_eq!(quanta.deadline_for(&waiting(1)), Some(14));
        assert_eq!(quanta.expired_for(&waiting(2), 12, ends_ns), Some(WorkerId(0)));
        quanta.preempt(WorkerId(0), &mut running);
        assert_eq!(quanta.expired_for(&waiting(2), 12, ends_ns), None);
        assert_eq!(quanta.deadline_for(&waiting(1)), None, "worker 0 comes");
        assert_eq!(quanta.deadline_for(&waiting(2)), Some(14));
        assert_eq!(quanta.expired_for(&waiting(2), 14, |_| None), Some(WorkerId(2)), "it did not finish");
        running.finish(WorkerId(2));
        quanta.stop(WorkerId(2));
        assert_eq!(quanta.deadline_for(&waiting(2)), Some(12));
    }

    #[test]
    fn where_something_is_suspended_the_finishing_are_waited_for_too() {
        let types = TypeTable::new();
        let setup = SchedulerSetup {
            preemption: Some(Preemption::new(0)),
            contexts: Contexts::at_home(3),
            ..setup(3, &types)
        };
        let (mut quanta, mut running) = (Quanta::new(&setup, QUANTUM_NS), Running::new(&setup));
        let mut queues = Queues::typed(&setup);
        for worker in 0..3 {
            run(&mut quanta, &mut running, u64::from(worker), worker);
        }
        queues.put_back_last(0, running.give_up(WorkerId(0), 1));
        quanta.stop(WorkerId(0));
        run(&mut quanta, &mut running, 3, 0);
        queues.push(0, 0, RequestId(9), RequestType::UNKNOWN, None);
        let ends_ns = |worker| (worker == WorkerId(1)).then_some(20);
        assert_eq!(
            quanta.expired_for(&queues, 12, ends_ns),
            None,
            "worker 1 comes for the one that never ran, and worker 0 is within its quantum"
        );
        assert_eq!(quanta.deadline_for(&queues), Some(13), "worker 0 has another");
        assert_eq!(quanta.expired_for(&queues, 13, ends_ns), Some(WorkerId(0)));
    }

    #[test]
    fn what_is_taken_over_has_a_new_quantum_unless_it_is_stopping() {
        let (mut before, mut running) = preemptive(2);
        run(&mut before, &mut running, 0, 0);
        run(&mut before, &mut running, 0, 1);
        assert_eq!(before.preempt(WorkerId(0), &mut running), preempt(0));
        let (mut after, _) = preemptive(2);
        after.take_over(500, &running);
        assert_eq!(after.next_ns(), Some(510));
        assert_eq!(after.deadline_for(&waiting(1)), None, "worker 0 is stopping");
        assert_eq!(after.preempt_for(&waiting(2), 510, &mut running), preempt(1));
        for worker in [0, 1] {
            running.give_up(WorkerId(worker), 1);
            after.stop(WorkerId(worker));
        }
        run(&mut after, &mut running, 600, 0);
        assert_eq!(after.deadline_for(&waiting(1)), Some(610));
    }

    #[test]
    fn what_does_not_yield_has_no_quantum_and_others_stop_in_its_place() {
        let types = [TypeSpec::new("LONG").preempt(PreemptPolicy::None)];
        let types: TypeTable = types.into_iter().collect();
        let setup = SchedulerSetup { preemption: Some(Preemption::new(0)), ..setup(2, &types) };
        let (mut quanta, mut running) = (Quanta::new(&setup, QUANTUM_NS), Running::new(&setup));
        let long = Waiting { request_type: RequestType::new(0), ..Waiting::example() };
        running.start(0, WorkerId(0), long, HandOff::Dispatched);
        quanta.start(0, WorkerId(0), &running);
        assert_eq!(quanta.deadline_for(&waiting(1)), None);
        quanta.expose(WorkerId(0));
        assert_eq!(quanta.next_ns(), None);
        run(&mut quanta, &mut running, 5, 1);
        assert_eq!(quanta.deadline_for(&waiting(1)), Some(15));
        assert_eq!(quanta.preempt_for(&waiting(2), 15, &mut running), preempt(1));
        assert_eq!(quanta.preempt_for(&waiting(2), 99, &mut running), None);
    }

    #[test]
    fn nothing_ends_where_requests_cannot_be_preempted() {
        let (mut quanta, mut running) = (quanta(1, None), idle(1));
        run(&mut quanta, &mut running, 0, 0);
        quanta.expose(WorkerId(0));
        assert_eq!(quanta.deadline_for(&waiting(9)), None);
        assert_eq!(quanta.preempt_for(&waiting(9), u64::MAX, &mut running), None);
        assert_eq!(quanta.preempt(WorkerId(0), &mut running), None);
    }
}
