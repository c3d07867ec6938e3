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
    /// How many of them are present.
    pub(crate) present: u32,
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
            present: worker_count(setup.workers),
            queues: Queues::new(setup, Lanes::own_and(setup.workers, 0)),
            running: Running::new(setup),
            ready: ReadyWorkers::new(setup.workers),
            random: SmallRng::seed_from_u64(setup.seed),
        }
    }

    /// The worker whose queue a request joins.
    fn draw(&mut self) -> WorkerId {
        WorkerId(self.random.random_range(0..self.present))
    }

    /// A request may have joined the queue of `worker`, which could run something before or not.
    fn joined(&mut self, worker: WorkerId, could_run: bool) {
        if !could_run && !self.running.is_busy(worker) {
            self.ready.add_if_able(&self.queues, worker, HandOff::Own);
        }
    }

    /// Workers come or go. The queues of those that go join others, request by request.
    fn set_present(&mut self, present: usize) {
        self.present = worker_count(present);
        self.queues.set_present(present);
        self.running.set_present(present);
        for from in present..self.workers as usize {
            while self.queues.front(from).is_some() {
                let worker = self.draw();
                let could_run = self.queues.can_run_own(worker);
                self.queues.move_first_in_order(from, worker.index());
                self.joined(worker, could_run);
            }
        }
        self.ready.keep_able(&self.queues);
    }
}

impl DFcfs {
    /// A request that was blocked goes to the head of the queue of the worker where it ran, or of another if
    /// that is absent.
    fn resume(&mut self, now_ns: u64, request: RequestId) {
        let home = self.queues.blocked_request(request).home;
        let worker = if self.queues.keeps(home) {
            home
        } else {
            self.draw()
        };
        let could_run = self.queues.can_run_own(worker);
        let waiting = self.queues.unblock(now_ns, request);
        self.queues.put_back_first(worker.index(), waiting);
        self.joined(worker, could_run);
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
                let worker = self.draw();
                let lane = worker.index();
                let could_run = self.queues.can_run_own(worker);
                self.queues
                    .push(lane, now_ns, request, request_type, deadline_ns);
                self.joined(worker, could_run);
            }
            Event::Completed { worker, .. } => {
                self.running.finish(worker);
                self.ready.add_if_able(&self.queues, worker, HandOff::Own);
            }
            Event::Yielded { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                if self.queues.keeps(worker) {
                    self.queues.put_back_first(worker.index(), waiting);
                    self.ready.add_if_able(&self.queues, worker, HandOff::Own);
                } else {
                    let other = self.draw();
                    let could_run = self.queues.can_run_own(other);
                    self.queues.put_back_first(other.index(), waiting);
                    self.joined(other, could_run);
                }
            }
            Event::Blocked { worker, served_ns } => {
                let waiting = self.running.give_up(worker, served_ns);
                self.queues.block(now_ns, worker, waiting);
                self.ready.add_if_able(&self.queues, worker, HandOff::Own);
            }
            Event::Unblocked { request } => self.resume(now_ns, request),
            Event::Workers { present } => self.set_present(present),
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
        let (random, present) = (&mut self.random, self.present);
        self.queues.fill(&backlog, |waiting| match waiting.home {
            Some(home) => home.index(),
            None => random.random_range(0..present) as usize,
        });
        self.running.fill(&backlog);
        for worker in (0..self.workers).map(WorkerId) {
            if !self.running.is_busy(worker) {
                self.ready.add_if_able(&self.queues, worker, HandOff::Own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, requests};

    #[test]
    fn queues_of_workers_that_go_join_others_in_order_of_arrival() {
        for policy in [Policy::d_fcfs(), Policy::stealing(), Policy::synergy()] {
            let mut policy = Rehearsal::with_one_type(policy, 4);
            let mut ran = requests(&policy.arrive_all([0; 40]));
            ran.extend(requests(&policy.has_workers(1)));
            ran.sort_unstable();
            let busy = ran.len();
            let order = policy.drain(1_000);
            assert!(order.is_sorted(), "{order:?}");
            assert_eq!(busy + order.len(), 40);
        }
    }
}
