//! d-FCFS: one queue per worker. Each request joins one at random, as receive-side scaling spreads
//! them. A worker never takes from another's queue.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::backlog::{Backlog, Handover};
use crate::event::{Action, Event, HandOff, RequestId, WorkerId};
use crate::parts::handover::backlog;
use crate::parts::queues::Queues;
use crate::parts::ready::ReadyWorkers;
use crate::parts::running::Running;
use crate::parts::suspended::Lanes;
use crate::parts::workers::worker_count;
use crate::scheduler::{Scheduler, TypeStatus};
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct DFcfs {
    pub(crate) workers: u32,
    /// One lane per worker.
    pub(crate) queues: Queues,
    pub(crate) running: Running,
    ready: ReadyWorkers,
    pub(crate) random: SmallRng,
}

impl DFcfs {
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        Self {
            workers: worker_count(setup.workers),
            queues: Queues::new(setup, Lanes::own_and(setup.workers, 0)),
            running: Running::new(setup),
            ready: ReadyWorkers::new(setup.workers),
            random: SmallRng::seed_from_u64(setup.seed),
        }
    }
}

impl DFcfs {
    /// A request that was blocked goes to the head of the queue of the worker where it ran.
    fn resume(&mut self, now_ns: u64, request: RequestId) {
        let worker = self.queues.blocked_request(request).home;
        let could_run = self.queues.can_run_own(worker);
        let waiting = self.queues.unblock(now_ns, request);
        self.queues.put_back_first(worker.index(), waiting);
        if !could_run && !self.running.is_busy(worker) {
            self.ready.add_if_able(&self.queues, worker, HandOff::Own);
        }
    }
}

impl Scheduler for DFcfs {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived {
                request,
                request_type,
                deadline_ns,
            } => {
                let worker = WorkerId(self.random.random_range(0..self.workers));
                let lane = worker.index();
                let could_run = self.queues.can_run_own(worker);
                let waits = self
                    .queues
                    .push(lane, now_ns, request, request_type, deadline_ns);
                if waits && !could_run && !self.running.is_busy(worker) {
                    self.ready.add_if_able(&self.queues, worker, HandOff::Own);
                }
            }
            Event::Completed { worker, .. } => {
                self.running.finish(worker);
                self.ready.add_if_able(&self.queues, worker, HandOff::Own);
            }
            Event::Yielded { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.put_back_first(worker.index(), waiting);
                self.ready.add_if_able(&self.queues, worker, HandOff::Own);
            }
            Event::Blocked { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.block(now_ns, worker, waiting);
                self.ready.add_if_able(&self.queues, worker, HandOff::Own);
            }
            Event::Unblocked { request } => self.resume(now_ns, request),
            Event::Tick => {}
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.pop_refused() {
            return Some(refused);
        }
        let (worker, hand_off) = self.ready.pop()?;
        let waiting = self.queues.pop_for(worker.index(), worker)?;
        Some(self.running.start(now_ns, worker, waiting, hand_off))
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.queues.type_status(slot)
    }
}

impl Handover for DFcfs {
    fn hand_over(&mut self) -> Backlog {
        backlog(&self.queues, &self.running)
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        let (random, workers) = (&mut self.random, self.workers);
        self.queues.fill(&backlog, |waiting| match waiting.home {
            Some(home) => home.index(),
            None => random.random_range(0..workers) as usize,
        });
        self.running.fill(&backlog);
        for worker in (0..workers).map(WorkerId) {
            if !self.running.is_busy(worker) {
                self.ready.add_if_able(&self.queues, worker, HandOff::Own);
            }
        }
    }
}
