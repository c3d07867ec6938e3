//! Which of a worker's threads is active: one word, moved by compare-and-exchange.
//!
//! ```text
//!            begin             enter                    preempt
//!   Serving ──────► Serving ─────────► Preemptible ───────────────► Taken, by an idle thread
//!   (turn n)        (turn n+1) ◄─────── (turn n+1)                     │ take_over
//!      ▲                         leave                                 ▼
//!      └──────────────────────────────────────────────────────────── Serving, that thread
//!
//!   resume: Serving, the loop's thread ──► Preemptible or Serving (turn n+1), the preempted thread
//! ```
//!
//! `leave` and `preempt` race for the same word. So a request that completes at the instant of its preemption
//! either has completed or has yielded, never both. The thread that makes another thread active wakes it.
//!
//! A request to yield may come before its turn has begun. It is kept in `wanted`, and `enter` finds it there.
//! Two fences order "want, look at the word" against "enter, look at `wanted`". Checked by loom, see the tests.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::thread::yield_now;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::thread::yield_now;

use crate::limits::TEAM_THREADS_MAX;

/// Index of a thread in its team, below [`TEAM_THREADS_MAX`].
pub(crate) type TeamThread = usize;

/// The thread that is active at first.
pub(crate) const FIRST: TeamThread = 0;

/// What the active thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reads messages, keeps books, or runs a request that yields only by itself.
    Serving = 0,
    /// Runs a request that may be preempted anywhere.
    Preemptible = 1,
    /// Has not yet noticed that it took the worker over from `from`.
    Taken = 2,
    /// No thread will run again.
    Stopped = 3,
}

const PHASES: [Phase; 4] = [Phase::Serving, Phase::Preemptible, Phase::Taken, Phase::Stopped];

const TURN_SHIFT: u32 = 14;
/// Turns are counted modulo this and one.
pub(crate) const TURN_MASK: u64 = u64::MAX >> TURN_SHIFT;
const THREAD_MASK: u64 = TEAM_THREADS_MAX as u64 - 1;

/// The word, unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// Number of the turn, modulo 2^50.
    pub(crate) turn: u64,
    /// The thread that was active before, in the phase `Taken`.
    pub(crate) from: TeamThread,
    /// The active thread.
    pub(crate) thread: TeamThread,
    pub(crate) phase: Phase,
}

impl State {
    const fn pack(self) -> u64 {
        self.turn << TURN_SHIFT | (self.from as u64) << 8 | (self.thread as u64) << 2 | self.phase as u64
    }

    /// As `state`, when `to` has taken over.
    const fn taken(state: Self, to: TeamThread) -> Self {
        Self { from: state.thread, thread: to, phase: Phase::Taken, ..state }
    }

    fn unpack(word: u64) -> Self {
        Self {
            turn: word >> TURN_SHIFT,
            from: (word >> 8 & THREAD_MASK) as TeamThread,
            thread: (word >> 2 & THREAD_MASK) as TeamThread,
            phase: PHASES[(word & 3) as usize],
        }
    }
}

/// The result of a request to yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    /// An idle thread became active, and has to be woken.
    Moved { from: TeamThread, to: TeamThread },
    /// That turn is over, has not begun, or may not be interrupted.
    Stays,
    /// No thread is idle.
    NobodyIdle,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ActiveThread {
    word: AtomicU64,
    /// The latest turn that was asked to yield.
    wanted: AtomicU64,
    /// The latest turn for which no thread was idle.
    undone: AtomicU64,
    /// Threads that wait for work, as a mask.
    idle: AtomicU64,
}

impl ActiveThread {
    /// The first thread is active. The others announce themselves by [`rest`](Self::rest).
    pub(crate) fn new() -> Self {
        let first = State { turn: 0, from: FIRST, thread: FIRST, phase: Phase::Serving };
        Self {
            word: AtomicU64::new(first.pack()),
            wanted: AtomicU64::new(0),
            undone: AtomicU64::new(0),
            idle: AtomicU64::new(0),
        }
    }

    /// The word, unpacked.
    pub(crate) fn state(&self) -> State {
        State::unpack(self.word.load(Ordering::Acquire))
    }

    /// The active thread, as seen after the caller published a message: either that thread will look for the
    /// message, or it is named here and the caller wakes it.
    pub(crate) fn thread_to_wake(&self) -> TeamThread {
        fence(Ordering::SeqCst);
        self.state().thread
    }

    /// Counts the next turn. Only the active thread may call this and the functions below, up to `resume`.
    pub(crate) fn begin(&self, thread: TeamThread) {
        let turn = self.state().turn + 1;
        self.set(thread, turn, Phase::Serving);
    }

    /// From here on the active thread may be preempted at any time. `true` if the turn was asked to yield
    /// before: then the caller asks again, by [`preempt`](Self::preempt).
    pub(crate) fn enter(&self, thread: TeamThread) -> bool {
        let turn = self.state().turn;
        self.set(thread, turn, Phase::Preemptible);
        fence(Ordering::SeqCst);
        self.wanted.load(Ordering::Relaxed) == turn
    }

    /// Ends what `enter` began. `false` if another thread is active.
    pub(crate) fn leave(&self, thread: TeamThread) -> bool {
        self.leave_state(thread, self.state())
    }

    /// The same of the turn with this number, and of no other: what is active by this index may be another thread by
    /// now.
    pub(crate) fn leave_turn(&self, thread: TeamThread, turn: u64) -> bool {
        let state = self.state();
        state.turn == turn & TURN_MASK && self.leave_state(thread, state)
    }

    fn leave_state(&self, thread: TeamThread, state: State) -> bool {
        if state.thread != thread || state.phase != Phase::Preemptible {
            return false;
        }
        let phase = Phase::Serving;
        self.exchange(state, State { phase, ..state })
    }

    /// Confirms that the caller, having taken over from another thread, is active.
    pub(crate) fn take_over(&self, thread: TeamThread) {
        let turn = self.state().turn;
        self.set(thread, turn, Phase::Serving);
        // Orders this against messages that were sent to the former active thread.
        fence(Ordering::SeqCst);
    }

    /// Gives the next turn to a thread that was preempted, or that yielded itself. `true` if that
    /// turn was asked to yield already.
    pub(crate) fn resume(&self, to: TeamThread, phase: Phase) -> bool {
        self.resume_as(to, self.state().turn + 1, phase)
    }

    /// The same where others number the turns: each has a higher number than those before.
    pub(crate) fn resume_as(&self, to: TeamThread, turn: u64, phase: Phase) -> bool {
        self.set(to, turn, phase);
        fence(Ordering::SeqCst);
        phase == Phase::Preemptible && self.wanted.load(Ordering::Relaxed) == turn
    }

    /// Stops the team. All threads have to be woken.
    pub(crate) fn stop(&self, thread: TeamThread) {
        let turn = self.state().turn;
        self.set(thread, turn, Phase::Stopped);
        fence(Ordering::SeqCst);
    }

    /// The caller waits for work, or is about to, and may become active from now on.
    pub(crate) fn rest(&self, thread: TeamThread) {
        self.idle.fetch_or(1 << thread, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Threads that wait for work, as a mask.
    pub(crate) fn idle(&self) -> u64 {
        self.idle.load(Ordering::Acquire)
    }

    /// Whether the running turn was asked to yield. Cheap: two loads of one cache line.
    pub(crate) fn is_wanted(&self) -> bool {
        let turn = self.word.load(Ordering::Relaxed) >> TURN_SHIFT;
        self.wanted.load(Ordering::Relaxed) == turn
    }

    /// Whether no thread was idle when the running turn was asked to yield.
    pub(crate) fn is_undone(&self) -> bool {
        let turn = self.word.load(Ordering::Relaxed) >> TURN_SHIFT;
        self.undone.load(Ordering::Relaxed) == turn
    }

    /// Makes an idle thread active if the active one may be preempted, in this turn only. A turn that has not
    /// begun will find that it is wanted. Any thread may call this, the active one too.
    pub(crate) fn preempt(&self, turn: u64) -> Move {
        loop {
            // A late caller must not undo a request to a later turn.
            self.wanted.fetch_max(turn, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let state = self.state();
            if state.turn != turn || state.phase != Phase::Preemptible {
                return Move::Stays;
            }
            if let Some(moved) = self.give_to_idle(state) {
                return moved;
            }
            // The turn has left and entered again meanwhile, say. It may have found no idle thread then, for this
            // caller had claimed the last one: so the caller asks again. Each round needs such a change.
        }
    }

    /// As [`preempt`](Self::preempt) where one thread alone may take over, which is always there: if it is not idle,
    /// another caller is about to make it active, or to let go of it. Returns whether this caller made it active.
    pub(crate) fn take_away(&self, turn: u64) -> bool {
        loop {
            self.wanted.fetch_max(turn, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let state = self.state();
            if state.turn != turn & TURN_MASK || state.phase != Phase::Preemptible {
                return false;
            }
            let Some(to) = self.claim_idle() else {
                yield_now();
                continue;
            };
            if self.exchange(state, State::taken(state, to)) {
                return true;
            }
            self.rest(to);
        }
    }

    /// Makes an idle thread active, in whatever phase, if the caller is active and its turn is wanted.
    pub(crate) fn yield_now(&self, thread: TeamThread) -> Move {
        let state = self.state();
        if state.thread != thread || self.wanted.load(Ordering::Relaxed) != state.turn {
            return Move::Stays;
        }
        self.give_to_idle(state).unwrap_or(Move::Stays)
    }

    /// Makes an idle thread active. Only the active thread may call this, while it is not preemptible.
    pub(crate) fn hand_over(&self, thread: TeamThread) -> Move {
        let state = self.state();
        debug_assert_eq!((state.thread, state.phase), (thread, Phase::Serving));
        self.give_to_idle(state).unwrap_or(Move::Stays)
    }

    /// `None` if the word has changed meanwhile.
    fn give_to_idle(&self, state: State) -> Option<Move> {
        let Some(to) = self.claim_idle() else {
            self.undone.store(state.turn, Ordering::Relaxed);
            self.forget(state.turn);
            return Some(Move::NobodyIdle);
        };
        if self.exchange(state, State::taken(state, to)) {
            Some(Move::Moved { from: state.thread, to })
        } else {
            self.rest(to);
            None
        }
    }

    /// A turn is asked once: if no thread is idle then, it runs on.
    fn forget(&self, turn: u64) {
        let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        // A request to another turn stays.
        let _ = self.wanted.compare_exchange(turn, 0, order, failure);
    }

    /// Claims the idle thread of the lowest index, so that few threads do all the work and stay warm.
    fn claim_idle(&self) -> Option<TeamThread> {
        loop {
            let idle = self.idle.load(Ordering::Relaxed);
            if idle == 0 {
                return None;
            }
            let lowest = idle & idle.wrapping_neg();
            if self.idle.fetch_and(!lowest, Ordering::AcqRel) & lowest != 0 {
                return Some(lowest.trailing_zeros() as TeamThread);
            }
        }
    }

    fn set(&self, thread: TeamThread, turn: u64, phase: Phase) {
        let state = State { turn, from: thread, thread, phase };
        self.word.store(state.pack(), Ordering::Release);
    }

    fn exchange(&self, from: State, to: State) -> bool {
        self.word
            .compare_exchange(from.pack(), to.pack(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_state_survives_the_word(
            turn in 0_u64..1 << 50,
            from in 0..TEAM_THREADS_MAX,
            thread in 0..TEAM_THREADS_MAX,
            phase in 0..PHASES.len(),
        ) {
            let phase = PHASES[phase];
            let state = State { turn, from, thread, phase };
            prop_assert_eq!(State::unpack(state.pack()), state);
        }
    }

    #[test]
    fn a_turn_is_preempted_once_and_only_while_it_may_be() {
        let active = ActiveThread::new();
        active.rest(3);
        active.begin(0);
        assert_eq!(active.preempt(1), Move::Stays, "it has not entered");
        assert!(active.enter(0), "but finds that it is wanted");
        assert_eq!(active.preempt(1), Move::Moved { from: 0, to: 3 });
        assert_eq!(active.preempt(1), Move::Stays, "it was taken already");
        assert!(!active.leave(0));
        active.take_over(3);
        assert!(!active.resume(0, Phase::Preemptible));
        assert!(active.leave(0));
        active.begin(0);
        assert!(!active.enter(0));
        assert_eq!(active.preempt(2), Move::Stays, "that turn is over");
        assert!(active.leave(0));
    }

    #[test]
    fn a_turn_that_cannot_be_taken_is_asked_once() {
        let active = ActiveThread::new();
        active.begin(0);
        assert!(!active.enter(0));
        assert_eq!(active.preempt(1), Move::NobodyIdle);
        assert!(!active.is_wanted());
        assert_eq!(active.yield_now(0), Move::Stays);
        assert!(active.leave(0));
    }

    #[test]
    fn only_the_active_thread_yields() {
        let active = ActiveThread::new();
        active.rest(1);
        active.rest(2);
        active.begin(0);
        assert_eq!(active.preempt(1), Move::Stays);
        assert!(active.is_wanted());
        assert_eq!(active.yield_now(1), Move::Stays);
        assert_eq!(active.yield_now(0), Move::Moved { from: 0, to: 1 });
        assert_eq!(active.yield_now(0), Move::Stays);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    use super::*;

    /// What happens to the request of one turn.
    #[derive(Default)]
    struct Ends {
        completed: AtomicUsize,
        yielded: AtomicUsize,
    }

    /// The request completes, or yields to the idle thread, which is woken: never both, never neither.
    #[test]
    fn a_request_completes_or_yields() {
        loom::model(|| {
            let active = Arc::new(ActiveThread::new());
            let ends = Arc::new(Ends::default());
            active.rest(1);
            let runner = {
                let (active, ends) = (active.clone(), ends.clone());
                thread::spawn(move || {
                    active.begin(0);
                    let mut moved = Move::Stays;
                    if active.enter(0) {
                        moved = active.preempt(1);
                    }
                    if active.leave(0) {
                        ends.completed.fetch_add(1, Ordering::Relaxed);
                    }
                    moved
                })
            };
            let by_dispatcher = active.preempt(1);
            let by_runner = runner.join().unwrap();
            let moved = Move::Moved { from: 0, to: 1 };
            let moves = [by_dispatcher, by_runner];
            let moves = moves.iter().filter(|&&made| made == moved).count();
            let state = active.state();
            if state.phase == Phase::Taken {
                assert_eq!((state.thread, state.turn), (1, 1));
                ends.yielded.fetch_add(1, Ordering::Relaxed);
            }
            let completed = ends.completed.load(Ordering::Relaxed);
            let yielded = ends.yielded.load(Ordering::Relaxed);
            assert_eq!(completed + yielded, 1);
            assert_eq!(moves, yielded, "the thread that moves it wakes its successor, once");
        });
    }

    /// A request that closes and opens again, as around `no_preempt`, yields to the only idle thread: whichever
    /// side claims that thread, the turn is taken once.
    #[test]
    fn no_request_to_yield_is_lost_at_a_reopening() {
        loom::model(|| {
            let active = Arc::new(ActiveThread::new());
            active.rest(1);
            active.begin(0);
            assert!(!active.enter(0));
            let runner = {
                let active = active.clone();
                thread::spawn(move || {
                    if active.leave(0) && active.enter(0) {
                        active.preempt(1)
                    } else {
                        Move::Stays
                    }
                })
            };
            let by_dispatcher = active.preempt(1);
            let by_runner = runner.join().unwrap();
            let moved = Move::Moved { from: 0, to: 1 };
            assert!([by_dispatcher, by_runner].contains(&moved));
            assert_ne!(by_dispatcher, by_runner, "it moves once");
            assert_eq!(active.state().phase, Phase::Taken);
        });
    }

    /// The dispatcher finds a resumed turn, or the resumed turn finds that it was asked to yield.
    #[test]
    fn no_request_to_yield_is_lost_at_a_resumption() {
        loom::model(|| {
            let active = Arc::new(ActiveThread::new());
            active.begin(0);
            assert!(!active.enter(0));
            active.rest(1);
            assert_eq!(active.preempt(1), Move::Moved { from: 0, to: 1 });
            let looper = {
                let active = active.clone();
                thread::spawn(move || {
                    active.take_over(1);
                    active.rest(1);
                    let wanted = active.resume(0, Phase::Preemptible);
                    if wanted { active.preempt(2) } else { Move::Stays }
                })
            };
            let by_dispatcher = active.preempt(2);
            let by_looper = looper.join().unwrap();
            let moved = Move::Moved { from: 0, to: 1 };
            let moves = [by_dispatcher, by_looper];
            let state = active.state();
            assert!(moves.contains(&moved), "{moves:?}");
            assert_ne!(by_dispatcher, by_looper, "it moves once");
            assert_eq!((state.phase, state.thread), (Phase::Taken, 1));
        });
    }

    /// The thread that takes over sees a message, or the sender finds that thread and wakes it.
    #[test]
    fn no_message_waits_for_a_thread_that_is_not_woken() {
        loom::model(|| {
            let active = Arc::new(ActiveThread::new());
            let message = Arc::new(AtomicUsize::new(0));
            active.begin(0);
            assert!(!active.enter(0));
            active.rest(1);
            let taker = {
                let (active, message) = (active.clone(), message.clone());
                thread::spawn(move || {
                    if active.state().thread != 1 {
                        return None;
                    }
                    active.take_over(1);
                    Some(message.load(Ordering::Acquire) == 1)
                })
            };
            let yielder = {
                let active = active.clone();
                thread::spawn(move || active.preempt(1))
            };
            message.store(1, Ordering::Release);
            let woken = active.thread_to_wake();
            assert_eq!(yielder.join().unwrap(), Move::Moved { from: 0, to: 1 });
            // A thread that was not active when it looked has not slept on the message.
            if taker.join().unwrap() == Some(false) {
                assert_eq!(woken, 1);
            }
        });
    }
}
