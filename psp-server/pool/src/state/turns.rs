//! What the threads do that serve workers: begin tasks, have them yield, end them.

use std::sync::Arc;

use psp_policy::{Event, RequestId, RequestType, Sample, WorkerId};

use super::parts::{Left, Next, Polled, Turn, Way, What};
use super::scheduling::State;
use crate::job::Job;
use crate::pool_thread::PoolThread;
use crate::table::{Entry, Place};
use crate::worker_threads::Answer;

impl State {
    /// The threads that serve workers.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &Arc<PoolThread>> {
        self.threads.of_workers()
    }

    /// What a thread that serves a worker does next. `None` if it waits.
    pub(crate) fn next(&mut self, now_ns: u64, worker: WorkerId, thread: &Arc<PoolThread>) -> Option<Next> {
        let Some(Turn { name, what }) = self.next[worker.index()].take() else {
            return self.is_over().then_some(Next::Over);
        };
        match what {
            What::Begins(task) => {
                self.begins(worker, task.metadata().request_type, now_ns);
                let turn = Turn { name, what: task };
                Some(Next::Begins { turn, now_ns })
            }
            What::GoesOn(to) => {
                self.threads.resumes(worker, &to);
                let is_kept = self.threads.keeps(thread);
                Some(Next::HandedOver { to, is_kept })
            }
        }
    }

    /// A worker begins a task of this type, or goes on with one.
    pub(crate) fn begins(&mut self, worker: WorkerId, request_type: RequestType, now_ns: u64) {
        self.threads.begins(worker, request_type, now_ns);
    }

    /// The task on a thread was asked to yield, and is at a checkpoint.
    pub(crate) fn yield_at_checkpoint(
        &mut self,
        now_ns: u64,
        worker: WorkerId,
        thread: &Arc<PoolThread>,
        polled: Polled,
        left: &mut Left,
    ) -> Way {
        if self.is_over {
            // What is left goes on to its end.
            thread.set_asked(false);
            return Way::Kept;
        }
        match self.threads.answer(worker, thread) {
            Answer::GivesWay => {}
            Answer::WantsSpare => return Way::NeedsSpare,
            Answer::RunsOn => return Way::Kept,
            Answer::Misses => {
                self.misses(polled.request_type);
                return Way::Kept;
            }
        }
        let served_ns = polled.served_ns(now_ns);
        let entry = self.table.at(polled.name);
        entry.served_ns += served_ns;
        entry.place = Place::Suspended(thread.clone());
        self.waiting.comes(entry.slot);
        self.threads.suspends(worker);
        self.counted(polled.request_type).yielded += 1;
        self.event(now_ns, Event::Yielded { worker, served_ns });
        self.run_what_can(left);
        self.fill(worker, left);
        Way::Given
    }

    /// A task that was asked to yield runs on.
    pub(crate) fn misses(&mut self, request_type: RequestType) {
        self.counted(request_type).yields_missed += 1;
    }

    /// Another thread serves a worker: that of the task which goes on there, or a spare one.
    pub(super) fn fill(&mut self, worker: WorkerId, left: &mut Left) {
        let next = &mut self.next[worker.index()];
        let goes_on = next.take_if(|turn| matches!(turn.what, What::GoesOn(_)));
        match goes_on.map(|turn| turn.what) {
            Some(What::GoesOn(to)) => {
                self.threads.resumes(worker, &to);
                left.rung.push(to);
            }
            _ => left.rung.extend(self.threads.fill(worker)),
        }
    }

    /// A thread has polled a task. Returns whether it serves a worker yet.
    pub(crate) fn polled(
        &mut self,
        now_ns: u64,
        worker: WorkerId,
        thread: &Arc<PoolThread>,
        polled: Polled,
        job: &Arc<Job>,
        left: &mut Left,
    ) -> bool {
        let Polled { name, .. } = polled;
        let served_ns = polled.served_ns(now_ns);
        let serves = self.threads.ends(worker, thread);
        let entry = self.table.at(name);
        entry.served_ns += served_ns;
        match (job.is_over(), serves) {
            // A pool that is given up needs no turn to say so.
            (true, _) if serves || self.is_over => self.ended(now_ns, worker, name, job),
            (true, _) => self.unblocked(now_ns, name, Place::Ended(job.clone())),
            (false, _) if self.is_over => match std::mem::replace(&mut entry.place, Place::Pending) {
                Place::Woken(task) => self.given_up(name, task, left),
                _ => left.recalled.extend(entry.waker.take()),
            },
            (false, _) => match (std::mem::replace(&mut entry.place, Place::Pending), serves) {
                (Place::Woken(task), true) => {
                    entry.place = Place::Waits(task);
                    self.waiting.comes(entry.slot);
                    self.event(now_ns, Event::Yielded { worker, served_ns });
                }
                (Place::Woken(task), false) => self.unblocked(now_ns, name, Place::Waits(task)),
                (_, true) => self.event(now_ns, Event::Blocked { worker, served_ns }),
                // To the scheduler it is blocked already.
                (_, false) => {}
            },
        }
        self.run_what_can(left);
        serves
    }

    /// A task has ended, and leaves its worker.
    pub(super) fn ended(&mut self, now_ns: u64, worker: WorkerId, name: RequestId, job: &Job) {
        let Entry { served_ns: service_ns, slot, .. } = self.table.remove(name);
        self.hand_offs.ended(slot, service_ns);
        let request_type = job.request_type;
        let sample = Sample { request_type, count: 1, service_ns };
        self.counted(request_type).ended(job, service_ns);
        let completed = Event::Completed { worker, samples: &[sample], dropped: false };
        self.event(now_ns, completed);
    }
}
