//! Ready-made parts of a policy of your own.

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, HandOff, WorkerId};
use crate::parts::eligible;
use crate::parts::handover::backlog;
use crate::parts::queues::Queues;
use crate::parts::running::Running;
use crate::parts::workers::{WorkerSet, worker_count};
use crate::request_type::RequestType;
use crate::scheduler::TypeStatus;
use crate::setup::SchedulerSetup;

/// A bounded queue per type, the idle workers, and the requests that run or are blocked: everything that a policy
/// needs beside its decision, which type runs next.
///
/// A [`Scheduler`](crate::Scheduler) passes it every event, polls
/// [`next_refused`](Self::next_refused) first, and then [`run`](Self::run)s one of the types that
/// [can run](Self::can_run). It is the scheduler's [`Handover`], too. Types are given by their
/// slots, as in [`TypeTable::slot`](crate::TypeTable::slot).
#[derive(Debug)]
pub struct TypedQueues {
    queues: Queues,
    running: Running,
    idle: WorkerSet,
    slots: usize,
}

impl TypedQueues {
    /// Empty queues with the capacities of `setup`, and idle workers.
    ///
    /// # Panics
    ///
    /// When there are no workers, or 2^32 and more.
    #[must_use]
    pub fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            queues: Queues::typed(setup),
            running: Running::new(setup),
            idle: WorkerSet::new(worker_count(setup.workers), setup.inline),
            slots: setup.types.len() + 1,
        }
    }

    /// Records an event. A request that yielded goes back to the head of its queue, as does one that was
    /// blocked and is no longer.
    ///
    /// # Panics
    ///
    /// When a worker completes, yields or is blocked that ran nothing, or a request is unblocked that
    /// was not blocked.
    pub fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived { request, request_type, deadline_ns } => {
                let slot = self.queues.slot(request_type);
                self.queues.push(slot, now_ns, request, request_type, deadline_ns);
            }
            Event::Completed { worker, .. } => {
                self.running.finish(worker);
                self.idle.release(worker);
            }
            Event::Yielded { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                let slot = self.queues.slot(waiting.request_type);
                self.queues.put_back_first(slot, waiting);
                self.idle.release(worker);
            }
            Event::Blocked { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.block(now_ns, worker, waiting);
                self.idle.release(worker);
            }
            Event::Unblocked { request } => {
                let waiting = self.queues.unblock(now_ns, request);
                let slot = self.queues.slot(waiting.request_type);
                self.queues.put_back_first(slot, waiting);
            }
            Event::Workers { present } => {
                self.queues.set_present(present);
                self.running.set_present(present);
                self.idle.set_present(worker_count(present));
            }
            Event::Tick => {}
        }
    }

    /// The refusal of the next request that found its queue full.
    pub fn next_refused(&mut self) -> Option<Action> {
        self.queues.pop_refused()
    }

    /// Number of type slots, `UNKNOWN` included, which is the last.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// Number of requests that wait in the queue of a type.
    #[must_use]
    pub fn queued(&self, slot: usize) -> usize {
        self.queues.queued(slot)
    }

    /// Whether an idle worker can run the next request of a type.
    #[must_use]
    pub fn can_run(&self, slot: usize) -> bool {
        self.arrived_ns(slot).is_some()
    }

    /// When the next request of a type arrived, in nanoseconds; `None` if no idle worker can run
    /// any.
    #[must_use]
    pub fn arrived_ns(&self, slot: usize) -> Option<u64> {
        let next = eligible::next_of(&self.queues, &self.idle, self.idle.present(), slot);
        next.map(|waiting| waiting.arrived_ns)
    }

    /// Runs the next request of a type on an idle worker: its home worker if it ran before, else
    /// the most recently active one, or worker 0 where that is the driver's own thread. `None` if
    /// the type [cannot run](Self::can_run).
    pub fn run(&mut self, now_ns: u64, slot: usize) -> Option<Action> {
        let present = self.idle.present();
        let (worker, waiting) = eligible::take_next(&mut self.queues, &mut self.idle, present, slot)?;
        let hand_off = HandOff::Dispatched;
        Some(self.running.start(now_ns, worker, waiting, hand_off))
    }

    /// The requests that run: worker, type, and start of the turn in nanoseconds.
    pub fn running(&self) -> impl Iterator<Item = (WorkerId, RequestType, u64)> {
        let turns = self.running.turns();
        turns.map(|(worker, turn)| (worker, turn.waiting.request_type, turn.started_ns))
    }

    /// The slot of the type that runs on `worker`.
    pub(crate) fn slot_on(&self, worker: WorkerId) -> Option<usize> {
        let turn = self.running.on(worker)?;
        Some(self.queues.slot(turn.waiting.request_type))
    }

    /// Asks the request on `worker` to stop, no earlier than `quantum_ns` after it began this turn.
    /// `None` if nothing runs there, it was asked before, or its type never yields.
    ///
    /// Only for a scheduler whose [`SchedulerSetup::preemption`] is not `None`.
    pub fn preempt(&mut self, worker: WorkerId, quantum_ns: u64) -> Option<Action> {
        self.running.preempt(worker, quantum_ns)
    }

    /// For [`Scheduler::type_status`](crate::Scheduler::type_status): how many requests of a type
    /// wait and were refused.
    #[must_use]
    pub fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}

impl Handover for TypedQueues {
    fn hand_over(&mut self) -> Backlog {
        backlog(&self.queues, &self.running)
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        self.queues.fill_typed(&backlog);
        self.running.fill(&backlog);
        self.idle.take_running(&self.running);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RequestId;
    use crate::rehearsal::setup;
    use crate::request_type::{TypeSpec, TypeTable};

    const SHORT: RequestType = RequestType::new(0);
    const LONG: RequestType = RequestType::new(1);

    #[test]
    fn requests_wait_by_type_run_and_are_asked_to_stop_once() {
        let types: TypeTable = [TypeSpec::new("SHORT").queue_capacity(1), TypeSpec::new("LONG")].into_iter().collect();
        let mut queues = TypedQueues::new(&setup(2, &types));
        for (request, request_type) in [(0, SHORT), (1, SHORT), (2, LONG)] {
            let request = RequestId(request);
            queues.on_event(0, Event::Arrived { request, request_type, deadline_ns: None });
        }
        let refused = Action::Reject { request: RequestId(1), request_type: SHORT };
        assert_eq!([queues.next_refused(), queues.next_refused()], [Some(refused), None]);
        assert_eq!(
            [0, 1, 2].map(|slot| (queues.queued(slot), queues.can_run(slot))),
            [(1, true), (1, true), (0, false)]
        );
        let runs = [0, 1].map(|slot| queues.run(5, slot).is_some());
        assert_eq!((runs, queues.run(5, 0)), ([true, true], None));
        let workers = [0, 1].map(WorkerId);
        let running: Vec<_> = queues.running().collect();
        assert_eq!(running, [(workers[0], SHORT, 5), (workers[1], LONG, 5)]);
        assert_eq!(workers.map(|worker| queues.slot_on(worker)), [Some(0), Some(1)]);
        let stops = Action::Preempt { worker: workers[1], quantum_ns: 9 };
        assert_eq!([queues.preempt(workers[1], 9), queues.preempt(workers[1], 9)], [Some(stops), None]);
    }
}
