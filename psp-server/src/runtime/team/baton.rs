//! Which of a worker's threads is the worker: one word, moved by compare-and-exchange.
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
//! `leave` and `preempt` race for the same word, so a request that completes at the instant at which
//! it is preempted either is complete or has yielded, never both. Whoever moves the baton wakes the
//! thread that gets it. A request to give way that comes before its turn began is kept in `wanted`
//! and found by `enter`; two fences order "want, look at the word" against "enter, look at what is
//! wanted". Checked by loom, see the tests.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Threads that one team may have: bits of the mask of idle ones.
pub(crate) const SEATS_MAX: usize = 64;

/// Index of a thread in its team.
pub(crate) type Seat = usize;

/// The thread that has the baton at first.
pub(super) const FIRST: Seat = 0;

/// What the holder of the baton does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Messages, bookkeeping, or a request that gives way only by itself.
    Serving = 0,
    /// Runs a request that may be preempted anywhere.
    Preemptible = 1,
    /// Has not yet seen that the turn was taken from `from`.
    Taken = 2,
    /// Nobody will run again.
    Stopped = 3,
}

const PHASES: [Phase; 4] = [
    Phase::Serving,
    Phase::Preemptible,
    Phase::Taken,
    Phase::Stopped,
];

const TURN_SHIFT: u32 = 14;
const SEAT_MASK: u64 = SEATS_MAX as u64 - 1;

/// The baton's word, unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// Number of the turn, modulo 2^50.
    pub(super) turn: u64,
    /// Who held the baton before, where it was taken.
    pub(super) from: Seat,
    /// Who holds it.
    pub(super) holder: Seat,
    pub(super) phase: Phase,
}

impl State {
    const fn pack(self) -> u64 {
        self.turn << TURN_SHIFT
            | (self.from as u64) << 8
            | (self.holder as u64) << 2
            | self.phase as u64
    }

    fn unpack(word: u64) -> Self {
        Self {
            turn: word >> TURN_SHIFT,
            from: (word >> 8 & SEAT_MASK) as Seat,
            holder: (word >> 2 & SEAT_MASK) as Seat,
            phase: PHASES[(word & 3) as usize],
        }
    }
}

/// What came of a request to give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// The baton went to an idle thread, which has to be woken.
    Moved { from: Seat, to: Seat },
    /// That turn is over, has not begun, or is not to be interrupted.
    Stays,
    /// Nobody is idle.
    NobodyIdle,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Baton {
    word: AtomicU64,
    /// The last turn that was asked to give way.
    wanted: AtomicU64,
    /// Threads that wait for work, as a mask.
    idle: AtomicU64,
}

impl Baton {
    /// Held by the first thread. The others report by [`rest`](Self::rest).
    pub(super) fn new() -> Self {
        let first = State {
            turn: 0,
            from: FIRST,
            holder: FIRST,
            phase: Phase::Serving,
        };
        Self {
            word: AtomicU64::new(first.pack()),
            wanted: AtomicU64::new(0),
            idle: AtomicU64::new(0),
        }
    }

    /// Who has it.
    pub(super) fn state(&self) -> State {
        State::unpack(self.word.load(Ordering::Acquire))
    }

    /// Who has it, as seen after what the caller published before: the holder will look for it, or is
    /// named here.
    pub(super) fn holder_to_wake(&self) -> Seat {
        fence(Ordering::SeqCst);
        self.state().holder
    }

    /// Counts the holder's next turn. Only the holder may call this and what follows, up to `resume`.
    pub(super) fn begin(&self, seat: Seat) {
        let turn = self.state().turn + 1;
        self.set(seat, turn, Phase::Serving);
    }

    /// From here on the holder may lose the baton at any time. `true` when that was asked for before:
    /// then the caller asks again, by [`preempt`](Self::preempt).
    pub(super) fn enter(&self, seat: Seat) -> bool {
        let turn = self.state().turn;
        self.set(seat, turn, Phase::Preemptible);
        fence(Ordering::SeqCst);
        self.wanted.load(Ordering::Relaxed) == turn
    }

    /// Ends what `enter` began. `false` when the baton is with another thread.
    pub(super) fn leave(&self, seat: Seat) -> bool {
        let state = self.state();
        if state.holder != seat || state.phase != Phase::Preemptible {
            return false;
        }
        let phase = Phase::Serving;
        self.exchange(state, State { phase, ..state })
    }

    /// Confirms that the caller has got the baton that was taken from another thread.
    pub(super) fn take_over(&self, seat: Seat) {
        let turn = self.state().turn;
        self.set(seat, turn, Phase::Serving);
        // Orders this against messages that were sent to the former holder.
        fence(Ordering::SeqCst);
    }

    /// Gives the next turn to a thread that was preempted, or that gave way itself. `true` when that
    /// turn was asked to give way already.
    pub(super) fn resume(&self, to: Seat, phase: Phase) -> bool {
        let turn = self.state().turn + 1;
        self.set(to, turn, phase);
        fence(Ordering::SeqCst);
        phase == Phase::Preemptible && self.wanted.load(Ordering::Relaxed) == turn
    }

    /// Ends it all. Everybody has to be woken.
    pub(super) fn stop(&self, seat: Seat) {
        let turn = self.state().turn;
        self.set(seat, turn, Phase::Stopped);
        fence(Ordering::SeqCst);
    }

    /// The caller waits for work, and may get the baton from now on.
    pub(super) fn rest(&self, seat: Seat) {
        self.idle.fetch_or(1 << seat, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Threads that wait for work, as a mask.
    pub(super) fn idle(&self) -> u64 {
        self.idle.load(Ordering::Acquire)
    }

    /// Whether the turn that runs was asked to give way. Cheap: two loads of one line.
    pub(super) fn is_wanted(&self) -> bool {
        let turn = self.word.load(Ordering::Relaxed) >> TURN_SHIFT;
        self.wanted.load(Ordering::Relaxed) == turn
    }

    /// Takes the baton from a holder that may be preempted, in this turn only. A turn that has not
    /// begun will find that it is wanted. Any thread may call this, the holder too.
    pub(super) fn preempt(&self, turn: u64) -> Move {
        // A thread that is late must not undo what is wanted of a later turn.
        self.wanted.fetch_max(turn, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let state = self.state();
        if state.turn != turn || state.phase != Phase::Preemptible {
            return Move::Stays;
        }
        self.give_to_idle(state)
    }

    /// Gives the baton away, in whatever phase, if the caller holds it and its turn is wanted.
    pub(super) fn give_way(&self, seat: Seat) -> Move {
        let state = self.state();
        if state.holder != seat || self.wanted.load(Ordering::Relaxed) != state.turn {
            return Move::Stays;
        }
        self.give_to_idle(state)
    }

    fn give_to_idle(&self, state: State) -> Move {
        let Some(to) = self.claim_idle() else {
            self.forget(state.turn);
            return Move::NobodyIdle;
        };
        let taken = State {
            from: state.holder,
            holder: to,
            phase: Phase::Taken,
            ..state
        };
        if self.exchange(state, taken) {
            Move::Moved {
                from: state.holder,
                to,
            }
        } else {
            self.rest(to);
            Move::Stays
        }
    }

    /// A turn is asked once: what cannot be done then is left undone.
    fn forget(&self, turn: u64) {
        let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        // Another turn that is wanted by now stays so.
        let _ = self.wanted.compare_exchange(turn, 0, order, failure);
    }

    /// The lowest of the idle, so that few threads do all the work and stay warm.
    fn claim_idle(&self) -> Option<Seat> {
        loop {
            let idle = self.idle.load(Ordering::Relaxed);
            if idle == 0 {
                return None;
            }
            let lowest = idle & idle.wrapping_neg();
            if self.idle.fetch_and(!lowest, Ordering::AcqRel) & lowest != 0 {
                return Some(lowest.trailing_zeros() as Seat);
            }
        }
    }

    fn set(&self, holder: Seat, turn: u64, phase: Phase) {
        let state = State {
            turn,
            from: holder,
            holder,
            phase,
        };
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
            from in 0..SEATS_MAX,
            holder in 0..SEATS_MAX,
            phase in 0..PHASES.len(),
        ) {
            let phase = PHASES[phase];
            let state = State { turn, from, holder, phase };
            prop_assert_eq!(State::unpack(state.pack()), state);
        }
    }

    #[test]
    fn a_turn_is_preempted_once_and_only_while_it_may_be() {
        let baton = Baton::new();
        baton.rest(3);
        baton.begin(0);
        assert_eq!(baton.preempt(1), Move::Stays, "it has not entered");
        assert!(baton.enter(0), "but finds that it is wanted");
        assert_eq!(baton.preempt(1), Move::Moved { from: 0, to: 3 });
        assert_eq!(baton.preempt(1), Move::Stays, "it was taken already");
        assert!(!baton.leave(0));
        baton.take_over(3);
        assert!(!baton.resume(0, Phase::Preemptible));
        assert!(baton.leave(0));
        baton.begin(0);
        assert!(!baton.enter(0));
        assert_eq!(baton.preempt(2), Move::Stays, "that turn is over");
        assert!(baton.leave(0));
    }

    #[test]
    fn a_turn_that_cannot_be_taken_is_asked_once() {
        let baton = Baton::new();
        baton.begin(0);
        assert!(!baton.enter(0));
        assert_eq!(baton.preempt(1), Move::NobodyIdle);
        assert!(!baton.is_wanted());
        assert_eq!(baton.give_way(0), Move::Stays);
        assert!(baton.leave(0));
    }

    #[test]
    fn only_the_holder_gives_way() {
        let baton = Baton::new();
        baton.rest(1);
        baton.rest(2);
        baton.begin(0);
        assert_eq!(baton.preempt(1), Move::Stays);
        assert!(baton.is_wanted());
        assert_eq!(baton.give_way(1), Move::Stays);
        assert_eq!(baton.give_way(0), Move::Moved { from: 0, to: 1 });
        assert_eq!(baton.give_way(0), Move::Stays);
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
            let baton = Arc::new(Baton::new());
            let ends = Arc::new(Ends::default());
            baton.rest(1);
            let runner = {
                let (baton, ends) = (baton.clone(), ends.clone());
                thread::spawn(move || {
                    baton.begin(0);
                    let mut moved = Move::Stays;
                    if baton.enter(0) {
                        moved = baton.preempt(1);
                    }
                    if baton.leave(0) {
                        ends.completed.fetch_add(1, Ordering::Relaxed);
                    }
                    moved
                })
            };
            let by_dispatcher = baton.preempt(1);
            let by_runner = runner.join().unwrap();
            let moved = Move::Moved { from: 0, to: 1 };
            let moves = [by_dispatcher, by_runner];
            let moves = moves.iter().filter(|&&made| made == moved).count();
            let state = baton.state();
            if state.phase == Phase::Taken {
                assert_eq!((state.holder, state.turn), (1, 1));
                ends.yielded.fetch_add(1, Ordering::Relaxed);
            }
            let completed = ends.completed.load(Ordering::Relaxed);
            let yielded = ends.yielded.load(Ordering::Relaxed);
            assert_eq!(completed + yielded, 1);
            assert_eq!(
                moves, yielded,
                "whoever moves the baton wakes its taker, once"
            );
        });
    }

    /// A turn that is resumed is found by the dispatcher, or finds itself that it was asked for.
    #[test]
    fn no_wish_is_lost_at_a_resumption() {
        loom::model(|| {
            let baton = Arc::new(Baton::new());
            baton.begin(0);
            assert!(!baton.enter(0));
            baton.rest(1);
            assert_eq!(baton.preempt(1), Move::Moved { from: 0, to: 1 });
            let looper = {
                let baton = baton.clone();
                thread::spawn(move || {
                    baton.take_over(1);
                    let wanted = baton.resume(0, Phase::Preemptible);
                    baton.rest(1);
                    if wanted {
                        baton.preempt(2)
                    } else {
                        Move::Stays
                    }
                })
            };
            // Nobody is idle at a moment when this comes early; then it is left undone.
            let by_dispatcher = baton.preempt(2);
            let by_looper = looper.join().unwrap();
            let moved = Move::Moved { from: 0, to: 1 };
            let moves = [by_dispatcher, by_looper];
            let state = baton.state();
            if moves.contains(&moved) {
                // The dispatcher may find nobody a moment before the looper, now idle, is found.
                assert_ne!(by_dispatcher, by_looper, "it moves once");
                assert_eq!((state.phase, state.holder), (Phase::Taken, 1));
            } else {
                assert!(moves.contains(&Move::NobodyIdle), "{moves:?}");
                assert_eq!((state.phase, state.holder), (Phase::Preemptible, 0));
                assert!(baton.leave(0));
            }
        });
    }

    /// A message is seen by the thread that takes the baton, or that thread is named to be woken.
    #[test]
    fn no_message_waits_for_a_thread_that_nobody_wakes() {
        loom::model(|| {
            let baton = Arc::new(Baton::new());
            let message = Arc::new(AtomicUsize::new(0));
            baton.begin(0);
            assert!(!baton.enter(0));
            baton.rest(1);
            let taker = {
                let (baton, message) = (baton.clone(), message.clone());
                thread::spawn(move || {
                    if baton.state().holder != 1 {
                        return None;
                    }
                    baton.take_over(1);
                    Some(message.load(Ordering::Acquire) == 1)
                })
            };
            let giver = {
                let baton = baton.clone();
                thread::spawn(move || baton.preempt(1))
            };
            message.store(1, Ordering::Release);
            let woken = baton.holder_to_wake();
            assert_eq!(giver.join().unwrap(), Move::Moved { from: 0, to: 1 });
            // Without a look at the baton it has not slept on it yet.
            if taker.join().unwrap() == Some(false) {
                assert_eq!(woken, 1);
            }
        });
    }
}
