//! What every worker shows to the others, and to the timer core: a line of memory per worker.
//!
//! ```text
//!   worker 0   turn 7: runs a long request since 1200 ns, quantum 10 us   queue: 2 short
//!   worker 1   turn 4: idle since 900 ns                                  queue: none
//! ```
//!
//! A worker writes the first part of its line. Whoever changes a worker's queue writes the second. A reader of
//! a live board sees each word as it is or was a moment ago: what it decides by them is a guess that the
//! queues themselves confirm.

use crate::distributed::lanes::LaneSet;
use crate::distributed::word::Word;
use crate::event::WorkerId;
use crate::parts::stuck::Turns;

/// One worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line<C> {
    turn: C,
    began_ns: C,
    ran_ns: C,
    since_ns: C,
    runs: C,
    quantum_ns: C,
    yields_to: C,
    queued: C,
    held: C,
    waiting: C,
    behind: C,
    served_ns: C,
    blocked_up: C,
}

/// What a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// Slot of the request's type.
    pub slot: usize,
    /// The request is long: by its type, or because its handler said so.
    pub long: bool,
}

/// How long a request may keep its worker while others wait there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantum {
    /// Its length in nanoseconds; above 0.
    pub ns: u64,
    /// The lanes of the worker's own queue for whose requests it yields.
    pub yields_to: LaneSet,
}

/// The own queue of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queue {
    /// Requests that any worker may take.
    pub queued: u64,
    /// Requests that only this worker can resume.
    pub held: u64,
    /// Lanes with requests that any worker may take.
    pub waiting: LaneSet,
    /// Lanes in which the worker would find a request if it stopped, or finds one if it is idle.
    pub behind: LaneSet,
    /// The worker can begin nothing until a blocked request of it has ended.
    pub blocked_up: bool,
}

impl<C: Word> Line<C> {
    /// Number of the turn: odd while the worker is busy. No two turns of a worker have the same.
    pub fn turn(&self) -> u64 {
        self.turn.get()
    }

    /// Whether the worker runs a request.
    pub fn is_busy(&self) -> bool {
        self.turn.get() % 2 == 1
    }

    /// When the turn, or the quantum of it, began; or when the last turn ended.
    pub fn since_ns(&self) -> u64 {
        self.since_ns.get()
    }

    /// What the worker runs, if it is busy.
    pub fn runs(&self) -> Option<Runs> {
        let word = self.runs.get();
        self.is_busy().then_some(Runs { slot: (word >> 1) as usize, long: word & 1 == 1 })
    }

    /// The quantum of the turn, if it has one.
    pub fn quantum(&self) -> Option<Quantum> {
        let ns = self.quantum_ns.get();
        (ns > 0 && self.is_busy()).then(|| Quantum { ns, yields_to: LaneSet::from_word(self.yields_to.get()) })
    }

    /// The own queue.
    pub fn queue(&self) -> Queue {
        Queue {
            queued: self.queued.get(),
            held: self.held.get(),
            waiting: LaneSet::from_word(self.waiting.get()),
            behind: LaneSet::from_word(self.behind.get()),
            blocked_up: self.blocked_up.get() == 1,
        }
    }

    /// Requests in the own queue that any worker may take.
    pub fn queued(&self) -> u64 {
        self.queued.get()
    }

    /// Lanes with such requests.
    pub fn waiting(&self) -> LaneSet {
        LaneSet::from_word(self.waiting.get())
    }

    /// Whether the worker can begin nothing until a blocked request of it has ended.
    pub fn is_blocked_up(&self) -> bool {
        self.blocked_up.get() == 1
    }

    /// Requests that the worker has: those in its own queue, and the one that it runs.
    pub fn unfinished(&self) -> u64 {
        self.queued.get() + self.held.get() + u64::from(self.is_busy())
    }

    /// For how long the worker's unfinished requests ran in earlier turns.
    pub fn served_ns(&self) -> u64 {
        self.served_ns.get()
    }

    /// For how long the request that the worker runs has run, in this turn and in earlier ones.
    pub fn attained_ns(&self, now_ns: u64) -> u64 {
        self.ran_ns.get() + now_ns.saturating_sub(self.began_ns.get())
    }

    /// A turn begins, without a quantum. The request ran for `ran_ns` in earlier turns.
    pub fn begin(&self, now_ns: u64, ran_ns: u64, runs: Runs) {
        self.runs.set(((runs.slot as u64) << 1) | u64::from(runs.long));
        self.began_ns.set(now_ns);
        self.ran_ns.set(ran_ns);
        self.since_ns.set(now_ns);
        self.quantum_ns.set(0);
        self.turn.set(self.turn.get() + 1);
    }

    /// The turn has this quantum from now on.
    pub fn set_quantum(&self, now_ns: u64, quantum: Option<Quantum>) {
        self.since_ns.set(now_ns);
        let yields_to = quantum.map_or(0, |quantum| quantum.yields_to.word());
        self.yields_to.set(yields_to);
        self.quantum_ns.set(quantum.map_or(0, |quantum| quantum.ns));
    }

    /// The turn ends.
    pub fn end(&self, now_ns: u64) {
        self.since_ns.set(now_ns);
        self.quantum_ns.set(0);
        self.turn.set(self.turn.get() + 1);
    }

    /// The worker is idle here from now on, and has shown its turns elsewhere before: the last one had this number, or
    /// the one before it.
    pub fn settle(&self, now_ns: u64, last_turn: u64) {
        self.since_ns.set(now_ns);
        self.quantum_ns.set(0);
        self.turn.set(last_turn.next_multiple_of(2));
    }

    /// The own queue has changed.
    pub fn set_queue(&self, queue: Queue) {
        self.queued.set(queue.queued);
        self.held.set(queue.held);
        self.waiting.set(queue.waiting.word());
        self.behind.set(queue.behind.word());
        self.blocked_up.set(u64::from(queue.blocked_up));
    }

    /// The worker's unfinished requests ran for so long in earlier turns.
    pub fn set_served(&self, served_ns: u64) {
        self.served_ns.set(served_ns);
    }
}

/// The lines of all workers: what every worker shows to the others, and to the timer core.
#[derive(Debug)]
pub struct Board<C> {
    lines: Box<[Line<C>]>,
    present: C,
}

impl<C: Word> Board<C> {
    /// Idle workers with empty queues, all of them present.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let board = Self {
            lines: (0..workers).map(|_| Line::default()).collect(),
            present: C::default(),
        };
        board.set_present(workers);
        board
    }

    /// Workers `0..present` are present.
    pub fn set_present(&self, present: usize) {
        self.present.set(present as u64);
    }

    /// How many workers are present.
    pub fn present(&self) -> u32 {
        self.present.get() as u32
    }

    /// How many there are, present or absent.
    pub fn workers(&self) -> u32 {
        self.lines.len() as u32
    }

    /// The line of a worker.
    pub fn line(&self, worker: WorkerId) -> &Line<C> {
        &self.lines[worker.index()]
    }

    /// All workers but `worker`, round and round from the one behind it.
    pub fn others(&self, worker: WorkerId) -> impl Iterator<Item = WorkerId> + use<C> {
        let after = worker.0 + 1..self.workers();
        after.chain(0..worker.0).map(WorkerId)
    }
}

impl<C: Word> Turns for &Board<C> {
    fn workers(&self) -> u32 {
        Board::workers(self)
    }

    fn attained(&self, worker: WorkerId, now_ns: u64) -> Option<(usize, u64)> {
        let line = self.line(worker);
        Some((line.runs()?.slot, line.attained_ns(now_ns)))
    }

    fn begins(&self, worker: WorkerId) -> bool {
        let line = self.line(worker);
        !line.is_busy() && !line.is_blocked_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::word::Plain;

    #[test]
    fn a_line_shows_the_turn_its_quantum_and_the_queue() {
        let board = Board::<Plain>::new(3);
        let line = board.line(WorkerId(1));
        let state = |now_ns| (line.turn(), line.is_busy(), line.since_ns(), line.runs(), line.attained_ns(now_ns));
        assert_eq!((line.turn(), line.is_busy(), line.runs(), line.quantum()), (0, false, None, None));
        let runs = Runs { slot: 5, long: true };
        line.begin(100, 30, runs);
        assert_eq!(state(170), (1, true, 100, Some(runs), 100));
        assert_eq!((&board).attained(WorkerId(1), 170), Some((5, 100)));
        let quantum = Quantum { ns: 40, yields_to: LaneSet::of(2) };
        line.set_quantum(120, Some(quantum));
        assert_eq!((line.quantum(), line.since_ns(), line.attained_ns(170)), (Some(quantum), 120, 100));
        line.set_quantum(130, None);
        assert_eq!(line.quantum(), None);
        line.set_quantum(130, Some(quantum));
        line.end(150);
        assert_eq!((line.turn(), line.is_busy(), line.since_ns(), line.runs()), (2, false, 150, None));
        assert_eq!((line.quantum(), (&board).attained(WorkerId(1), 170)), (None, None));
        // The last turn may have ended, or not.
        for last in [7, 8] {
            line.set_quantum(0, Some(quantum));
            line.settle(160, last);
            assert_eq!((line.turn(), line.is_busy(), line.since_ns()), (8, false, 160));
            line.begin(170, 0, Runs { slot: 0, long: false });
            assert_eq!((line.quantum(), line.runs()), (None, Some(Runs { slot: 0, long: false })));
        }

        let queue = Queue {
            queued: 3,
            held: 2,
            waiting: LaneSet::of(0),
            behind: LaneSet::of(1),
            blocked_up: true,
        };
        line.set_queue(queue);
        line.set_served(70);
        assert_eq!((line.queue(), line.queued(), line.waiting()), (queue, 3, queue.waiting));
        assert_eq!((line.unfinished(), line.served_ns(), line.is_blocked_up()), (6, 70, true));
        line.end(180);
        assert_eq!((line.unfinished(), (&board).begins(WorkerId(1))), (5, false));
        line.set_queue(Queue::default());
        assert_eq!(
            (line.queue(), line.is_blocked_up(), (&board).begins(WorkerId(1))),
            (Queue::default(), false, true)
        );
        line.begin(190, 0, runs);
        assert!(!(&board).begins(WorkerId(1)));
    }

    #[test]
    fn others_are_all_but_one_from_the_one_behind_it_on() {
        let board = Board::<Plain>::new(4);
        let others = |worker| board.others(WorkerId(worker)).map(|other| other.0).collect::<Vec<_>>();
        assert_eq!([0, 2, 3].map(others), [[1, 2, 3], [3, 0, 1], [0, 1, 2]]);
        assert_eq!((board.workers(), Turns::workers(&&board), board.present()), (4, 4, 4));
        board.set_present(2);
        assert_eq!((board.workers(), board.present()), (4, 2));
    }
}
