//! The common half of policies whose dispatcher gives each request to one worker, which serves a
//! queue of its own: the dispatcher's queue, a queue per worker, what runs, and quanta.
//!
//! ```text
//!   arrivals ──► dispatcher's queue ──┬──► queue of worker 0 ──► runs there
//!                                     └──► queue of worker 1 ──► runs there
//! ```
//!
//! A request sent to a worker that waits for it is [`HandOff::Dispatched`]; one that its worker
//! finds in its queue is [`HandOff::Own`]. When a request goes to which worker, and where it waits
//! after it was preempted, is for the policy to say.

use std::collections::VecDeque;

use super::homes::Lanes;
use super::quanta::Quanta;
use super::queues::{Queues, Waiting};
use super::running::Running;
use super::workers::worker_count;
use super::{Action, Backlog, HandOff, SchedulerSetup, WorkerId};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct OwnQueues {
    /// The lanes of the workers, by their numbers, and the dispatcher's last.
    pub(super) queues: Queues,
    pub(super) running: Running,
    pub(super) quanta: Quanta,
    workers: u32,
    /// Idle workers whose queue is not empty, each once, and how its first request gets there.
    ready: VecDeque<(WorkerId, HandOff)>,
}

impl OwnQueues {
    pub(super) fn new(setup: &SchedulerSetup<'_>, quantum_ns: u64) -> Self {
        Self {
            queues: Queues::new(setup, Lanes::own_and(setup.workers, 1)),
            running: Running::new(setup),
            quanta: Quanta::new(setup, quantum_ns),
            workers: worker_count(setup.workers),
            ready: VecDeque::with_capacity(setup.workers),
        }
    }

    /// All workers.
    pub(super) fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.workers).map(WorkerId)
    }

    /// The dispatcher's lane.
    pub(super) const fn dispatcher(&self) -> usize {
        self.workers as usize
    }

    /// The request that the dispatcher has to send next, of those that it may send anywhere.
    pub(super) fn next_to_send(&self) -> Option<&Waiting> {
        self.queues.front(self.dispatcher())
    }

    /// Whether `worker`, which is idle, finds something in its queue.
    pub(super) fn can_run(&self, worker: WorkerId) -> bool {
        self.queues.next_for(worker.index(), worker).is_some()
    }

    /// How many requests are with `worker`: those in its queue, and what it runs.
    pub(super) fn unfinished(&self, worker: WorkerId) -> usize {
        let lane = worker.index();
        self.queues.lane_len(lane)
            + self.queues.lane_len_at(lane, worker)
            + usize::from(self.running.is_busy(worker))
    }

    /// Sends the dispatcher's next request to `worker`.
    pub(super) fn send(&mut self, worker: WorkerId) {
        self.enqueue(worker, Queues::move_first);
    }

    /// Sends `worker` the dispatcher's next request that is suspended there.
    pub(super) fn send_home(&mut self, worker: WorkerId) {
        self.enqueue(worker, |queues, from, to| {
            queues.move_first_at(worker, from, to);
        });
    }

    fn enqueue(&mut self, worker: WorkerId, movement: impl Fn(&mut Queues, usize, usize)) {
        let could_run = self.can_run(worker);
        movement(&mut self.queues, self.workers as usize, worker.index());
        if self.running.is_busy(worker) {
            if self.is_waited_for(worker) {
                self.quanta.expose(worker);
            }
        } else if !could_run && self.can_run(worker) {
            self.ready.push_back((worker, HandOff::Dispatched));
        }
    }

    /// Whether `worker` can run another from its queue if it suspends what it runs.
    fn is_waited_for(&self, worker: WorkerId) -> bool {
        self.queues.next_behind(worker.index(), worker).is_some()
    }

    /// What ran on `worker`, which is idle now and goes on with its own queue.
    pub(super) fn finish(&mut self, worker: WorkerId) -> Waiting {
        let finished = self.running.finish(worker).waiting;
        self.released(worker);
        finished
    }

    /// What ran on `worker` waits again, at the end of `lane`.
    pub(super) fn give_up(&mut self, worker: WorkerId, served_ns: u64, lane: usize) {
        let waiting = self.running.give_up(worker, served_ns);
        self.queues.put_back_last(lane, waiting);
        self.released(worker);
    }

    fn released(&mut self, worker: WorkerId) {
        self.quanta.stop(worker);
        if self.can_run(worker) {
            self.ready.push_back((worker, HandOff::Own));
        }
    }

    /// The next request that its worker can run. Where none is behind it, its quantum does not
    /// matter until one is.
    pub(super) fn run_next(&mut self, now_ns: u64) -> Option<Action> {
        let (worker, hand_off) = self.ready.pop_front()?;
        let waiting = self.queues.pop_for(worker.index(), worker)?;
        let action = self.running.start(now_ns, worker, waiting, hand_off);
        self.quanta.start(now_ns, worker, &self.running);
        if !self.is_waited_for(worker) {
            self.quanta.spare(worker);
        }
        Some(action)
    }

    /// Asks the worker to stop that is longest beyond its quantum, of those with others in their
    /// queues.
    pub(super) fn preempt_next(&mut self, now_ns: u64) -> Option<Action> {
        self.quanta.preempt_next(now_ns, &mut self.running)
    }

    /// For [`Scheduler::hand_over`](super::Scheduler::hand_over).
    pub(super) fn hand_over(&mut self) -> Backlog {
        Backlog::take(&mut self.queues, &mut self.running)
    }

    /// For [`Scheduler::take_over`](super::Scheduler::take_over): what ran goes on, and everything
    /// else is for the dispatcher to send again.
    pub(super) fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        let dispatcher = self.dispatcher();
        let lanes = Lanes::own_and(self.workers as usize, 1);
        self.queues = backlog.queues.into_lanes(lanes, |_| dispatcher);
        self.running = backlog.running;
        self.quanta.take_over(now_ns, &self.running);
        for worker in self.workers() {
            self.quanta.spare(worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Policy;
    use super::super::rehearsal::{ONE, Rehearsal};
    use crate::request_type::TypeSpec;

    #[test]
    fn what_cannot_be_preempted_runs_to_its_end() {
        for policy in [Policy::from(Policy::jbsq()), Policy::jsq().into()] {
            let types = [TypeSpec::new("ONE")];
            let mut policy = Rehearsal::with_preemption(policy, 1, types, None);
            assert_eq!(policy.arrives(0, 0, ONE), "0@0");
            assert_eq!(policy.arrives(0, 1, ONE), "");
            assert_eq!(policy.ticks(50_000), "");
            assert_eq!(policy.deadline_ns(), None);
            assert_eq!(policy.yields(60_000, 0), "1@0", "the handler gave way");
            assert_eq!(policy.completes(70_000, 0), "0@0");
        }
    }
}
