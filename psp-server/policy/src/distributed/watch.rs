//! The timer core of workers that are threads: finds by the board alone which worker to preempt, and when (Synergy
//! II-B, algorithm 3).
//!
//! Its thread looks whenever a quantum ends that matters, and whenever the first request begins to wait for a worker.
//! It preempts nothing that is not on the board then. A worker whose turn has another number than before runs something
//! else. The adapter's timer decides the same by the events.
//!
//! What a worker has not read yet is not on the board. The thread [says](Watch::set_unread) whether there is any: it
//! may be a request of any type, so the worker yields to it.

use crate::distributed::board::{Board, Line, Quantum};
use crate::distributed::local::Ways;
use crate::distributed::word::Word;
use crate::event::WorkerId;

/// A quantum of a turn.
#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    turn: u64,
    since_ns: u64,
    /// When the quantum began that is running now.
    begun_ns: u64,
    /// The worker was asked to stop in this turn.
    asked: bool,
    /// No request waited for the worker in this turn when it was seen last.
    spared: bool,
    /// The worker has something to read.
    unread: bool,
}

impl Watched {
    /// What a line shows, seen at `now_ns`. Returns the quantum, if it can end.
    fn see<C: Word>(&mut self, now_ns: u64, line: &Line<C>, ways: &Ways) -> Option<Quantum> {
        let (turn, since_ns) = (line.turn(), line.since_ns());
        if (self.turn, self.since_ns) != (turn, since_ns) {
            let asked = self.asked && self.turn == turn;
            *self = Self {
                turn,
                since_ns,
                begun_ns: since_ns,
                asked,
                spared: false,
                unread: self.unread,
            };
        }
        let quantum = line.quantum().filter(|_| !self.asked)?;
        if !ways.conditional {
            return Some(quantum);
        }
        let waits = line.queue().behind.and(quantum.yields_to);
        let is_spared = waits.is_empty() && !self.unread;
        let was_spared = std::mem::replace(&mut self.spared, is_spared);
        if ways.renewed && (is_spared || was_spared) {
            let past_ns = now_ns.saturating_sub(since_ns);
            self.begun_ns = since_ns + past_ns - past_ns % quantum.ns;
        }
        (!is_spared).then_some(quantum)
    }
}

/// A turn that is to yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// Whose.
    pub worker: WorkerId,
    /// Its number, as on the [line](Line::turn) of the worker.
    pub turn: u64,
    /// The length of the quantum that is over, in nanoseconds.
    pub quantum_ns: u64,
}

/// The timer core of workers that are threads: which worker to preempt, and when (Synergy II-B, algorithm 3).
#[derive(Debug)]
pub struct Watch {
    ways: Ways,
    workers: Box<[Watched]>,
}

impl Watch {
    /// Watches so many workers.
    #[must_use]
    pub fn new(workers: usize, ways: Ways) -> Self {
        Self { ways, workers: vec![Watched::default(); workers].into() }
    }

    /// Whether `worker` has something to read, as far as its driver can tell.
    pub fn set_unread(&mut self, worker: WorkerId, unread: bool) {
        self.workers[worker.index()].unread = unread;
    }

    /// Whether `worker` is in a turn that will be preempted when a request begins to wait for it, and none did when it
    /// was seen last.
    #[must_use]
    pub fn is_spared(&self, worker: WorkerId) -> bool {
        let watched = &self.workers[worker.index()];
        watched.spared && !watched.asked
    }

    /// The turn whose quantum ended first, of those that yield to what waits for their workers. It counts as asked to
    /// stop until its worker begins another.
    pub fn expired<C: Word>(&mut self, now_ns: u64, board: &Board<C>) -> Option<Expired> {
        let (end_ns, worker, quantum_ns) = self.earliest(now_ns, board)?;
        if end_ns > now_ns {
            return None;
        }
        let watched = &mut self.workers[worker.index()];
        watched.asked = true;
        Some(Expired { worker, turn: watched.turn, quantum_ns })
    }

    /// When the next quantum ends of a worker for which others wait.
    pub fn next_ns<C: Word>(&mut self, now_ns: u64, board: &Board<C>) -> Option<u64> {
        self.earliest(now_ns, board).map(|(end_ns, ..)| end_ns)
    }

    fn earliest<C: Word>(&mut self, now_ns: u64, board: &Board<C>) -> Option<(u64, WorkerId, u64)> {
        let ways = &self.ways;
        let workers = (0..).map(WorkerId).zip(self.workers.iter_mut());
        let ends = workers.filter_map(|(worker, watched)| {
            let quantum = watched.see(now_ns, board.line(worker), ways)?;
            let end_ns = watched.begun_ns.saturating_add(quantum.ns);
            Some((end_ns, worker, quantum.ns))
        });
        ends.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::{LaneSet, Live, Queue, Runs};

    const WORKER: WorkerId = WorkerId(0);

    fn expired(turn: u64) -> Option<Expired> {
        Some(Expired { worker: WORKER, turn, quantum_ns: 10 })
    }

    fn long(board: &Board<Live>, now_ns: u64) {
        let line = board.line(WORKER);
        let (slot, long) = (1, true);
        line.begin(now_ns, 0, Runs { slot, long });
        let (ns, yields_to) = (10, LaneSet::of(0));
        line.set_quantum(now_ns, Some(Quantum { ns, yields_to }));
    }

    fn waits(board: &Board<Live>, lane: usize) {
        board
            .line(WORKER)
            .set_queue(Queue { queued: 1, behind: LaneSet::of(lane), ..Queue::default() });
    }

    #[test]
    fn a_worker_is_preempted_at_the_end_of_a_quantum_for_those_it_yields_to() {
        let board = Board::<Live>::new(1);
        let mut watch = Watch::new(1, Ways::default());
        assert_eq!(watch.expired(99, &board), None, "idle");
        long(&board, 100);
        assert_eq!(watch.next_ns(125, &board), None, "none waits");
        waits(&board, 1);
        assert_eq!(watch.next_ns(126, &board), None, "its equals do not count");
        waits(&board, 0);
        assert_eq!(watch.next_ns(127, &board), Some(130), "renewed twice");
        assert_eq!(watch.expired(129, &board), None);
        assert_eq!(watch.expired(130, &board), expired(1));
        assert_eq!(watch.expired(150, &board), None, "once in a turn");
        board.line(WORKER).end(151);
        long(&board, 151);
        assert_eq!(watch.expired(161, &board), expired(3));
    }

    #[test]
    fn quanta_that_are_not_renewed_stay_over() {
        let board = Board::<Live>::new(1);
        let ways = Ways { renewed: false, ..Ways::default() };
        let mut watch = Watch::new(1, ways);
        long(&board, 100);
        assert_eq!(watch.expired(125, &board), None);
        waits(&board, 0);
        assert_eq!(watch.expired(126, &board), expired(1));
    }

    #[test]
    fn what_is_unread_counts_as_a_request_that_waits() {
        let board = Board::<Live>::new(1);
        let mut watch = Watch::new(1, Ways::default());
        long(&board, 100);
        assert_eq!(watch.next_ns(103, &board), None);
        assert!(watch.is_spared(WORKER));
        watch.set_unread(WORKER, true);
        assert_eq!(watch.next_ns(124, &board), Some(130), "renewed twice");
        assert!(!watch.is_spared(WORKER));
        watch.set_unread(WORKER, false);
        assert_eq!(watch.expired(130, &board), None, "another has read it");
        watch.set_unread(WORKER, true);
        assert_eq!(watch.next_ns(131, &board), Some(140));
        assert_eq!(watch.expired(141, &board), expired(1));
        assert!(!watch.is_spared(WORKER), "it was asked");
    }

    #[test]
    fn a_turn_that_is_seen_late_for_the_first_time_has_had_its_quantum() {
        let board = Board::<Live>::new(1);
        let mut watch = Watch::new(1, Ways::default());
        long(&board, 100);
        waits(&board, 0);
        assert_eq!(watch.expired(113, &board), expired(1));
    }
}
