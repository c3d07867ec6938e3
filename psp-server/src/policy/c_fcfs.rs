//! c-FCFS: one queue in order of arrival, served by any idle worker.

use super::eligible;
use super::homes::Lanes;
use super::queues::Queues;
use super::running::Running;
use super::workers::{WorkerSet, worker_count};
use super::{Action, Backlog, Event, HandOff, Scheduler, SchedulerSetup, TypeStatus};

/// The one queue.
pub(super) const LANE: usize = 0;

/// See the [module](self).
pub(super) struct CFcfs {
    pub(super) queues: Queues,
    pub(super) running: Running,
    pub(super) workers: WorkerSet,
}

impl CFcfs {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            queues: Queues::new(setup, Lanes::shared(1)),
            running: Running::new(setup),
            workers: WorkerSet::new(worker_count(setup.workers), setup.inline),
        }
    }
}

impl Scheduler for CFcfs {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived {
                request,
                request_type,
            } => {
                self.queues.push(LANE, now_ns, request, request_type);
            }
            Event::Completed { worker, .. } => {
                self.running.finish(worker);
                self.workers.release(worker);
            }
            Event::Yielded { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.put_back_first(LANE, waiting);
                self.workers.release(worker);
            }
            Event::Tick => {}
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.pop_refused() {
            return Some(refused);
        }
        let (worker, waiting) = eligible::take_next(&mut self.queues, &mut self.workers, LANE)?;
        Some(
            self.running
                .start(now_ns, worker, waiting, HandOff::Dispatched),
        )
    }

    fn hand_over(&mut self) -> Backlog {
        Backlog::take(&mut self.queues, &mut self.running)
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        self.queues = backlog.queues.into_lanes(Lanes::shared(1), |_| LANE);
        self.workers = WorkerSet::beside(&backlog.running, self.workers.is_inline());
        self.running = backlog.running;
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}
