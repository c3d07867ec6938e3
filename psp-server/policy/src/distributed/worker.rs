//! The decisions of one worker, by what it knows itself and what all show.

use crate::distributed::board::{Board, Line, Quantum};
use crate::distributed::knowledge::Knowledge;
use crate::distributed::lanes::LaneSet;
use crate::distributed::random::Random;
use crate::distributed::word::Word;
use crate::event::{Sample, WorkerId};

/// What a worker finds for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mine {
    /// Lanes of its own queue with requests that it could begin.
    pub begins: LaneSet,
    /// Lanes of its own queue with requests that it alone can resume.
    pub resumes: LaneSet,
    /// It has a context to begin a request.
    pub has_context: bool,
    /// If it begins one and suspends that, it has a context for another.
    pub has_another_context: bool,
    /// The wait queue has a request for it.
    pub wait_queue: bool,
}

impl Mine {
    /// Lanes of its own queue with requests for it.
    #[must_use]
    pub const fn own(&self) -> LaneSet {
        self.begins.or(self.resumes)
    }
}

/// What a worker decides by.
#[derive(Debug)]
pub struct Look<'a, C> {
    /// The worker.
    pub me: WorkerId,
    /// What it finds for itself.
    pub mine: Mine,
    /// Whether requests have stayed in the wait queue for too long.
    pub congested: bool,
    /// What the others show.
    pub board: &'a Board<C>,
    /// What feedback has published.
    pub knowledge: &'a Knowledge<C>,
    /// Where chance comes from.
    pub random: &'a mut Random,
}

impl<C: Word> Look<'_, C> {
    /// The worker's own line.
    pub fn line(&self) -> &Line<C> {
        self.board.line(self.me)
    }
}

/// What an idle worker does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It takes the first request of these lanes of its own queue.
    Own(LaneSet),
    /// It takes the first request of the wait queue that it can.
    Resume,
    /// It takes requests from another worker's queue, runs the first and keeps the others.
    Steal {
        /// Whose.
        victim: WorkerId,
        /// From which lanes; with several, the requests that arrived first.
        lanes: LaneSet,
        /// How many at most; at least 1.
        requests: usize,
    },
    /// It stays idle.
    Nothing,
}

/// Where a request waits that was preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// In its worker's own queue, by its time of arrival.
    Head,
    /// At the end of its worker's own queue.
    Tail,
    /// At the end of the wait queue, from which any worker takes it that can.
    WaitQueue,
}

/// The decisions of one worker. It keeps what the worker alone knows, reads no clock, allocates nothing after it
/// was made, and never waits.
///
/// The driver, which owns queues and requests, carries the decisions out:
///
/// ```text
///   a request was received    place      it joins the own queue of that worker
///   the worker is idle        next       it takes a request from where that says
///   a turn begins             quantum    the timer core preempts it then, if others wait for it
///   a request was preempted   requeue    it waits there
///   a request has ended       measured
/// ```
pub trait WorkerPolicy<C: Word>: Send {
    /// The worker whose queue a request of the type at `slot` joins which this worker received. `None` is the worker to
    /// which it came: this one, or another one for which this one has read it.
    fn place(&mut self, look: &mut Look<'_, C>, slot: usize) -> Option<WorkerId> {
        let _ = (look, slot);
        None
    }

    /// What this worker does next, which is idle.
    fn next(&mut self, look: &mut Look<'_, C>) -> Next;

    /// Whether this worker, when it is idle, may find requests that wait elsewhere. If not, no worker needs to wake
    /// it for those.
    fn looks_elsewhere(&self) -> bool {
        true
    }

    /// The quantum of a request of the type at `slot` that begins here, or goes on; `None` if it runs to its end.
    fn quantum(&self, look: &Look<'_, C>, slot: usize) -> Option<Quantum> {
        let _ = (look, slot);
        None
    }

    /// Where a request waits that stopped here before its end.
    fn requeue(&self) -> Requeue {
        Requeue::Head
    }

    /// This worker measured requests of the type at `slot`.
    fn measured(&mut self, knowledge: &Knowledge<C>, slot: usize, sample: &Sample) {
        let _ = (knowledge, slot, sample);
    }
}
