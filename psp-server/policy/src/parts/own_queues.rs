//! The common half of policies whose dispatcher gives each request to one worker, which serves its
//! own queue: the dispatcher's queue, a queue per worker, the running requests, and quanta.
//!
//! ```text
//!   arrivals ──► dispatcher's queue ──┬──► queue of worker 0 ──► runs there
//!                                     └──► queue of worker 1 ──► runs there
//! ```
//!
//! A request that is sent to an idle worker is [`HandOff::Dispatched`]; a request that its worker finds
//! in its queue is [`HandOff::Own`]. The policy says when a request goes to which worker, and where it
//! waits after it was preempted or blocked.

use crate::backlog::Backlog;
use crate::event::{Action, HandOff, RequestId, WorkerId};
use crate::parts::handover::backlog;
use crate::parts::quanta::Quanta;
use crate::parts::queues::Queues;
use crate::parts::ready::ReadyWorkers;
use crate::parts::running::Running;
use crate::parts::suspended::Lanes;
use crate::parts::waiting::Waiting;
use crate::parts::workers::worker_count;
use crate::setup::SchedulerSetup;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct OwnQueues {
    /// The lanes of the workers, by their numbers, and the dispatcher's last.
    pub(crate) queues: Queues,
    pub(crate) running: Running,
    pub(crate) quanta: Quanta,
    workers: u32,
    ready: ReadyWorkers,
}

impl OwnQueues {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, quantum_ns: u64) -> Self {
        Self {
            queues: Queues::new(setup, Lanes::own_and(setup.workers, 1)),
            running: Running::new(setup),
            quanta: Quanta::new(setup, quantum_ns),
            workers: worker_count(setup.workers),
            ready: ReadyWorkers::new(setup.workers),
        }
    }

    /// All workers, present or absent.
    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.workers).map(WorkerId)
    }

    /// Workers come or go. What waits in the queues of those that go is the dispatcher's again, in its place by
    /// arrival.
    pub(crate) fn set_present(&mut self, present: usize) {
        self.queues.set_present(present);
        self.running.set_present(present);
        let dispatcher = self.dispatcher();
        for worker in (worker_count(present)..self.workers).map(WorkerId) {
            let own = worker.index();
            while self.queues.front(own).is_some() {
                self.queues.move_first_in_order(own, dispatcher);
            }
            if !self.queues.waits_behind(worker) {
                self.quanta.spare(worker);
            }
        }
        self.ready.keep_able(&self.queues);
    }

    /// The dispatcher's lane.
    pub(crate) const fn dispatcher(&self) -> usize {
        self.workers as usize
    }

    /// The next request that the dispatcher may send to any worker.
    pub(crate) fn next_to_send(&self) -> Option<&Waiting> {
        self.queues.front(self.dispatcher())
    }

    /// How many requests `worker` has: those in its queue, and the running one. Blocked requests need no
    /// worker, and do not count.
    pub(crate) fn unfinished(&self, worker: WorkerId) -> usize {
        let lane = worker.index();
        self.queues.lane_len(lane) + self.queues.lane_len_at(lane, worker) + usize::from(self.running.is_busy(worker))
    }

    /// Sends the dispatcher's next request to `worker`.
    pub(crate) fn send(&mut self, worker: WorkerId) {
        self.enqueue(worker, Queues::move_first);
    }

    /// Sends `worker` the dispatcher's next request that is suspended there.
    pub(crate) fn send_home(&mut self, worker: WorkerId) {
        self.enqueue(worker, |queues, from, to| {
            queues.move_first_at(worker, from, to);
        });
    }

    fn enqueue(&mut self, worker: WorkerId, movement: impl Fn(&mut Queues, usize, usize)) {
        let could_run = self.queues.can_run_own(worker);
        movement(&mut self.queues, self.workers as usize, worker.index());
        self.joined(worker, could_run, HandOff::Dispatched);
    }

    /// A request joined the queue of `worker`, which found something in it before if it `could_run`.
    fn joined(&mut self, worker: WorkerId, could_run: bool, hand_off: HandOff) {
        if self.running.is_busy(worker) {
            if self.queues.waits_behind(worker) {
                self.quanta.expose(worker);
            }
        } else if !could_run {
            self.ready.add_if_able(&self.queues, worker, hand_off);
        }
    }

    /// A request that was blocked waits at the head of the queue of the worker where it ran. Returns
    /// that worker, and the request.
    pub(crate) fn resume(&mut self, now_ns: u64, request: RequestId) -> (WorkerId, Waiting) {
        let worker = self.queues.blocked_request(request).home;
        let could_run = self.queues.can_run_own(worker);
        let waiting = self.queues.unblock(now_ns, request);
        self.queues.put_back_first(worker.index(), waiting);
        self.joined(worker, could_run, HandOff::Own);
        (worker, waiting)
    }

    /// Ends the turn on `worker`, which goes on with its own queue. Returns the request.
    pub(crate) fn finish(&mut self, worker: WorkerId) -> Waiting {
        let finished = self.running.finish(worker).waiting;
        self.released(worker);
        finished
    }

    /// The request on `worker` waits again, at the end of `lane`.
    pub(crate) fn give_up(&mut self, worker: WorkerId, served_ns: u64, lane: usize) {
        let waiting = self.running.give_up(worker, served_ns);
        self.queues.put_back_last(lane, waiting);
        self.released(worker);
    }

    /// The request on `worker` is blocked. Returns it.
    pub(crate) fn block(&mut self, now_ns: u64, worker: WorkerId, served_ns: u64) -> Waiting {
        let blocked = self.running.give_up(worker, served_ns);
        self.queues.block(now_ns, worker, blocked);
        self.released(worker);
        blocked
    }

    fn released(&mut self, worker: WorkerId) {
        self.quanta.stop(worker);
        self.ready.add_if_able(&self.queues, worker, HandOff::Own);
    }

    /// Runs the next request that a ready worker has. Its quantum has no effect until another request
    /// waits behind it.
    pub(crate) fn run_next(&mut self, now_ns: u64) -> Option<Action> {
        let (worker, hand_off) = self.ready.pop()?;
        let waiting = self.queues.pop_for(worker.index(), worker)?;
        let action = self.running.start(now_ns, worker, waiting, hand_off);
        self.quanta.start(now_ns, worker, &self.running);
        if !self.queues.waits_behind(worker) {
            self.quanta.spare(worker);
        }
        Some(action)
    }

    /// Asks the longest expired worker to stop whose queue has another request.
    pub(crate) fn preempt_next(&mut self, now_ns: u64) -> Option<Action> {
        self.quanta.preempt_next(now_ns, &mut self.running)
    }

    /// For [`Handover::hand_over`](crate::Handover::hand_over).
    pub(crate) fn hand_over(&mut self) -> Backlog {
        backlog(&self.queues, &self.running)
    }

    /// For [`Handover::take_over`](crate::Handover::take_over): requests that run go on, and the
    /// dispatcher sends all others again.
    pub(crate) fn take_over(&mut self, now_ns: u64, backlog: &Backlog) {
        let dispatcher = self.dispatcher();
        self.queues.fill(backlog, |_| dispatcher);
        self.running.fill(backlog);
        self.quanta.take_over(now_ns, &self.running);
        for worker in self.workers() {
            self.quanta.spare(worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;
    use crate::rehearsal::{ONE, Rehearsal};
    use crate::request_type::TypeSpec;

    #[test]
    fn what_cannot_be_preempted_runs_to_its_end() {
        for policy in [Policy::jbsq(), Policy::jsq()] {
            let types = [TypeSpec::new("ONE")];
            let mut policy = Rehearsal::with_preemption(policy, 1, types, None);
            assert_eq!(policy.arrives(0, 0, ONE), "0@0");
            assert_eq!(policy.arrives(0, 1, ONE), "");
            assert_eq!(policy.ticks(50_000), "");
            assert_eq!(policy.deadline_ns(), None);
            assert_eq!(policy.yields(60_000, 0), "1@0", "the handler yielded");
            assert_eq!(policy.completes(70_000, 0), "0@0");
        }
    }
}
