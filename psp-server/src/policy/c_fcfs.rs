//! c-FCFS: one queue in order of arrival, served by any idle worker.

use super::queues::Queues;
use super::workers::{WorkerRange, WorkerSet, worker_count};
use super::{Action, Event, Scheduler, SchedulerSetup, TypeStatus};

/// The one queue.
const LANE: usize = 0;

/// See the [module](self).
pub(super) struct CFcfs {
    queues: Queues,
    workers: WorkerSet,
    all: WorkerRange,
}

impl CFcfs {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let workers = worker_count(setup.workers);
        Self {
            queues: Queues::new(setup, 1),
            workers: WorkerSet::new(workers),
            all: WorkerRange::new(0, workers),
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
            Event::Completed { worker, .. } => self.workers.release(worker),
            Event::Tick => {}
        }
    }

    fn poll(&mut self, _now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.pop_refused() {
            return Some(refused);
        }
        if self.queues.is_empty() {
            return None;
        }
        let worker = self.workers.take(self.all)?;
        let waiting = self.queues.pop(LANE)?;
        Some(waiting.run_on(worker))
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}
