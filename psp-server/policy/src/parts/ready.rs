//! Idle workers that find something in their own queues.

use std::collections::VecDeque;

use crate::event::{HandOff, WorkerId};
use crate::parts::queues::Queues;

/// Idle workers whose own lane has a request for them, each once, and how that request gets there.
#[derive(Debug)]
pub(crate) struct ReadyWorkers {
    workers: VecDeque<(WorkerId, HandOff)>,
}

impl ReadyWorkers {
    /// Memory for so many workers, none of them ready.
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: VecDeque::with_capacity(workers) }
    }

    /// Adds a worker that is idle and was not ready, if it finds something in its own lane.
    pub(crate) fn add_if_able(&mut self, queues: &Queues, worker: WorkerId, hand_off: HandOff) {
        if queues.can_run_own(worker) {
            self.workers.push_back((worker, hand_off));
        }
    }

    /// Forgets workers that find nothing in their lanes any more.
    pub(crate) fn keep_able(&mut self, queues: &Queues) {
        self.workers.retain(|&(worker, _)| queues.can_run_own(worker));
    }

    /// Takes the worker that has been ready for longest.
    pub(crate) fn pop(&mut self) -> Option<(WorkerId, HandOff)> {
        self.workers.pop_front()
    }
}
