//! d-FCFS: one queue per worker, arrivals spread by lot, as receive-side scaling does. A worker
//! never takes from another's queue.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::queues::Queues;
use super::workers::worker_count;
use super::{Action, Event, Scheduler, SchedulerSetup, TypeStatus, WorkerId};

/// See the [module](self).
pub(super) struct DFcfs {
    workers: u32,
    /// One lane per worker.
    queues: Queues,
    busy: Vec<bool>,
    /// Idle workers whose queue is not empty, each once.
    ready: VecDeque<WorkerId>,
    lots: SmallRng,
}

impl DFcfs {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            workers: worker_count(setup.workers),
            queues: Queues::new(setup, setup.workers),
            busy: vec![false; setup.workers],
            ready: VecDeque::with_capacity(setup.workers),
            lots: SmallRng::seed_from_u64(setup.seed),
        }
    }
}

impl Scheduler for DFcfs {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived {
                request,
                request_type,
            } => {
                let worker = WorkerId(self.lots.random_range(0..self.workers));
                let lane = worker.index();
                let was_empty = self.queues.front(lane).is_none();
                let waits = self.queues.push(lane, now_ns, request, request_type);
                if waits && was_empty && !self.busy[lane] {
                    self.ready.push_back(worker);
                }
            }
            Event::Completed { worker, .. } => {
                let lane = worker.index();
                assert!(
                    self.busy[lane],
                    "worker {lane} completed without having run anything"
                );
                self.busy[lane] = false;
                if self.queues.front(lane).is_some() {
                    self.ready.push_back(worker);
                }
            }
            Event::Tick => {}
        }
    }

    fn poll(&mut self, _now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.pop_refused() {
            return Some(refused);
        }
        let worker = self.ready.pop_front()?;
        let waiting = self.queues.pop(worker.index())?;
        self.busy[worker.index()] = true;
        Some(waiting.run_on(worker))
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}
