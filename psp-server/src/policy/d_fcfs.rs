//! d-FCFS: one queue per worker, arrivals spread by lot, as receive-side scaling does. A worker
//! never takes from another's queue.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::homes::Lanes;
use super::queues::Queues;
use super::running::Running;
use super::workers::worker_count;
use super::{Action, Backlog, Event, HandOff, Scheduler, SchedulerSetup, TypeStatus, WorkerId};

/// See the [module](self).
pub(super) struct DFcfs {
    pub(super) workers: u32,
    /// One lane per worker.
    pub(super) queues: Queues,
    pub(super) running: Running,
    /// Idle workers whose queue is not empty, each once.
    ready: VecDeque<WorkerId>,
    pub(super) lots: SmallRng,
}

impl DFcfs {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            workers: worker_count(setup.workers),
            queues: Queues::new(setup, Lanes::own_and(setup.workers, 0)),
            running: Running::new(setup),
            ready: VecDeque::with_capacity(setup.workers),
            lots: SmallRng::seed_from_u64(setup.seed),
        }
    }

    /// The worker is idle, and has perhaps something to do.
    fn released(&mut self, worker: WorkerId) {
        if self.queues.next_for(worker.index(), worker).is_some() {
            self.ready.push_back(worker);
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
                let was_empty = self.queues.next_for(lane, worker).is_none();
                let waits = self.queues.push(lane, now_ns, request, request_type);
                if waits && was_empty && !self.running.is_busy(worker) {
                    self.ready.push_back(worker);
                }
            }
            Event::Completed { worker, .. } => {
                self.running.finish(worker);
                self.released(worker);
            }
            Event::Yielded { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.put_back_first(worker.index(), waiting);
                self.released(worker);
            }
            Event::Tick => {}
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.pop_refused() {
            return Some(refused);
        }
        let worker = self.ready.pop_front()?;
        let waiting = self.queues.pop_for(worker.index(), worker)?;
        Some(self.running.start(now_ns, worker, waiting, HandOff::Own))
    }

    fn hand_over(&mut self) -> Backlog {
        Backlog::take(&mut self.queues, &mut self.running)
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        let Backlog { queues, running } = backlog;
        let (lots, workers) = (&mut self.lots, self.workers);
        let lanes = Lanes::own_and(running.workers(), 0);
        self.queues = queues.into_lanes(lanes, |waiting| match waiting.home {
            Some(home) => home.index(),
            None => lots.random_range(0..workers) as usize,
        });
        self.running = running;
        self.ready.clear();
        for worker in (0..workers).map(WorkerId) {
            if !self.running.is_busy(worker) {
                self.released(worker);
            }
        }
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}
