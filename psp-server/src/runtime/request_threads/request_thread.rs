//! One request thread, and where it has a turn.
//!
//! ```text
//!   worker 1:        its word: the thread, turn 8 ── then ──► the thread's word: worker 1, turn 8 ── wakes the thread
//!   request thread:  reads its word ── leaves that turn, or has lost it ── sleeps until its word is another
//! ```
//!
//! The worker's word changes before the thread's. So a request thread that reads its new word finds its turn there,
//! unless it has lost that again; and one that read the old word finds that this has changed before it sleeps. Checked
//! by loom.

use std::sync::{Mutex, OnceLock};

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use psp_policy::WorkerId;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fiber::PreemptFlag;
use crate::runtime::host::cores::Movable;
use crate::runtime::team::active_thread::TURN_MASK;
use crate::runtime::team::member::Member;

const WORKER_SHIFT: u32 = TURN_MASK.count_ones();
/// No request thread had a turn there.
const NOWHERE: u64 = u64::MAX;

/// Whose turn a request thread has, or had last. No two turns of a worker have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkerTurn {
    pub(super) worker: WorkerId,
    pub(super) turn: u64,
}

impl WorkerTurn {
    pub(super) const fn new(worker: WorkerId, turn: u64) -> Self {
        let turn = turn & TURN_MASK;
        Self { worker, turn }
    }

    const fn pack(self) -> u64 {
        (self.worker.0 as u64) << WORKER_SHIFT | self.turn
    }

    const fn unpack(word: u64) -> Self {
        Self::new(WorkerId((word >> WORKER_SHIFT) as u32), word)
    }
}

/// The word that says whose turn a request thread has.
#[derive(Debug)]
pub(super) struct WorkerTurnWord(AtomicU64);

impl WorkerTurnWord {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(NOWHERE))
    }

    pub(super) fn get(&self) -> WorkerTurn {
        WorkerTurn::unpack(self.0.load(Ordering::Acquire))
    }

    /// The worker's word names the request thread by now.
    pub(super) fn set(&self, at: WorkerTurn) {
        self.0.store(at.pack(), Ordering::Release);
    }
}

/// Whether a request thread can take requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It has no thread.
    Unborn,
    /// Its thread makes its state.
    Starting,
    /// It can.
    Ready,
    /// Its thread could not make its state.
    Failed,
}

const READINESSES: [Readiness; 4] = [Readiness::Unborn, Readiness::Starting, Readiness::Ready, Readiness::Failed];

/// See the [module](self).
#[derive(Debug)]
pub(super) struct RequestThread<T> {
    pub(super) member: Member,
    worker_turn: WorkerTurnWord,
    readiness: AtomicU64,
    /// A request that it is to begin.
    pub(super) inbox: Mutex<Option<T>>,
    /// Counts its turns at all workers.
    own_turn: AtomicU64,
    /// Asks requests that yield at checkpoints only, by the number of the own turn.
    pub(super) flag: PreemptFlag,
    thread: OnceLock<Movable>,
    /// The core that it was moved to, and one; 0 before the first time.
    core: AtomicU64,
    /// The handler of the request says that it is long.
    said_long: AtomicBool,
    /// A worker counts the request among those that it holds.
    is_held: AtomicBool,
}

impl<T> RequestThread<T> {
    pub(super) fn new() -> Self {
        Self {
            member: Member::default(),
            worker_turn: WorkerTurnWord::new(),
            readiness: AtomicU64::new(Readiness::Unborn as u64),
            inbox: Mutex::default(),
            own_turn: AtomicU64::new(0),
            flag: PreemptFlag::new(),
            thread: OnceLock::new(),
            core: AtomicU64::new(0),
            said_long: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
        }
    }

    /// Makes the calling thread this request thread. `lowers` says whether its standing may be lowered.
    pub(super) fn enlist(&self, lowers: bool) {
        self.member.enlist(lowers);
        let _ = self.thread.set(Movable::this_thread());
    }

    pub(super) fn readiness(&self) -> Readiness {
        READINESSES[self.readiness.load(Ordering::Acquire) as usize]
    }

    pub(super) fn set_readiness(&self, readiness: Readiness) {
        self.readiness.store(readiness as u64, Ordering::Release);
    }

    /// Where it has a turn, or had the last.
    pub(super) fn worker_turn(&self) -> WorkerTurn {
        self.worker_turn.get()
    }

    /// It has a turn there. The worker's word says so already.
    pub(super) fn set_worker_turn(&self, at: WorkerTurn) {
        self.worker_turn.set(at);
    }

    /// Number of its own turn. For who has the turn.
    pub(super) fn own_turn(&self) -> u64 {
        self.own_turn.load(Ordering::Relaxed)
    }

    /// The next turn begins. For the worker that lends it.
    pub(super) fn begin_turn(&self) -> u64 {
        let turn = self.own_turn() + 1;
        self.own_turn.store(turn, Ordering::Relaxed);
        turn
    }

    /// Has the thread run on this core from now on. Costs nothing if it does already.
    pub(super) fn move_to(&self, core: usize) {
        let known = core as u64 + 1;
        if let Some(thread) = self.thread.get()
            && self.core.load(Ordering::Relaxed) != known
        {
            thread.move_to(core);
            self.core.store(known, Ordering::Relaxed);
        }
    }

    /// The handler says that its request is long, or has not begun.
    pub(super) fn set_said_long(&self, has_said: bool) {
        self.said_long.store(has_said, Ordering::Release);
    }

    pub(super) fn has_said_long(&self) -> bool {
        self.said_long.load(Ordering::Acquire)
    }

    /// A worker holds the request from now on, or does not. Returns whether one did.
    pub(super) fn set_held(&self, is_held: bool) -> bool {
        self.is_held.swap(is_held, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_survives_its_word() {
        let word = WorkerTurnWord::new();
        let nowhere = word.get();
        for (worker, turn) in [(0, 0), (0, 1), (7, TURN_MASK), (16_382, TURN_MASK - 1)] {
            let at = WorkerTurn::new(WorkerId(worker), turn);
            word.set(at);
            assert_eq!((word.get(), at.turn), (at, turn));
            assert_ne!(at, nowhere);
        }
    }
}
