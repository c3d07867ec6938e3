//! What a kernel thread knows of the request that runs on it, for whoever makes it give way.
//!
//! ```text
//!   message loop ──► preemptible ─► Handler::handle ─► no_preempt ─► … ─► back
//!   depth   1            0                0                1                1
//!                                         ▲
//!                          checkpoint() and signals act at 0 only
//! ```
//!
//! Where the kernel preempts, `preemptible` and `no_preempt` tell the giver, for it cannot look at the
//! depth.
//!
//! A place is a thread-local variable with a constant initial value and no destructor: a signal
//! handler may read it at any time. It is made of atomics because such a handler interrupts the
//! thread that writes it; there is never a second thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use super::flag::PreemptFlag;
use crate::preempt::PreemptPolicy;

/// Outside of a handler.
const OUTSIDE: u32 = 1;
/// No turn has this number.
const NO_TURN: u64 = u64::MAX;

/// The flag of threads that are no workers.
static NEVER: PreemptFlag = PreemptFlag::new();

thread_local! {
    static PLACE: Place = const { Place {
        flag: Cell::new(&NEVER),
        giver: Cell::new(None),
        turn: AtomicU64::new(NO_TURN),
        depth: AtomicU32::new(OUTSIDE),
        by_signal: AtomicBool::new(false),
        by_kernel: Cell::new(false),
        spare: AtomicUsize::new(0),
    } };
}

/// Takes the worker away from what runs on it.
pub(crate) trait GiveWay {
    /// Called on the stack of a request that was asked to give way. Lets others have the worker,
    /// and returns when this request's next turn has begun.
    fn give_way(&self);

    /// From here on others may take the worker from this thread anywhere.
    fn open(&self) {}

    /// Nobody may any longer. Returns when the request has the worker, again or still.
    fn close(&self) {}

    /// Nobody may any longer, if the request still has the worker, which it returns. Never waits: the
    /// request may hold locks.
    fn try_close(&self) -> bool {
        false
    }
}

/// See the [module](self).
struct Place {
    flag: Cell<&'static PreemptFlag>,
    giver: Cell<Option<&'static dyn GiveWay>>,
    /// Number of the turn that began last.
    turn: AtomicU64,
    /// How many reasons there are not to preempt: being outside of a handler, and each `no_preempt`.
    depth: AtomicU32,
    /// Whether the request may be preempted between checkpoints.
    by_signal: AtomicBool,
    /// Whether the giver is to be told where the request may be preempted.
    by_kernel: Cell<bool>,
    /// Contexts that could take over.
    spare: AtomicUsize,
}

impl Place {
    #[inline]
    fn is_asked(&self) -> bool {
        self.flag.get().names(self.turn.load(Ordering::Relaxed))
    }

    fn enter(&self) {
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// The giver, where it is to be told of this.
    fn told(&self) -> Option<&'static dyn GiveWay> {
        self.giver.get().filter(|_| self.by_kernel.get())
    }

    /// Returns the depth outside.
    fn leave(&self) -> u32 {
        compiler_fence(Ordering::SeqCst);
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        depth
    }

    #[cold]
    #[inline(never)]
    fn give_way(&self) {
        let closed = self.depth.load(Ordering::Relaxed) > 0;
        if closed || self.spare.load(Ordering::Relaxed) == 0 || std::thread::panicking() {
            return;
        }
        self.enter();
        // A signal may have been faster, and this be another turn by now.
        if self.is_asked()
            && let Some(giver) = self.giver.get()
        {
            let by_signal = self.by_signal.load(Ordering::Relaxed);
            giver.give_way();
            self.by_signal.store(by_signal, Ordering::Relaxed);
        }
        self.leave();
    }
}

/// Lets another request have the worker, if the server asked for that. Handlers of long requests
/// call it every microsecond or so, and hold no lock that another request might want.
///
/// When nothing was asked it costs two loads and a comparison; still, a call per element keeps the
/// compiler from vectorising a loop, so call it once for some 64 elements. It does nothing on
/// threads that are no workers, within [`no_preempt`], while the thread panics, and when the worker
/// has no [context](crate::Config::contexts_per_worker) left.
#[inline]
pub fn checkpoint() {
    PLACE.with(|place| {
        if place.is_asked() {
            place.give_way();
        }
    });
}

/// Runs `body` without preemption: Shinjuku's `call_safe`. For a request that is preempted by
/// signals, that is where it must be wrapped around whatever other requests of the same worker
/// would find half done, and around locks. It may be nested. A request that was asked meanwhile
/// gives way at the end of the outermost call.
///
/// In requests that give way at checkpoints it silences the checkpoints that `body` calls.
#[inline]
pub fn no_preempt<T>(body: impl FnOnce() -> T) -> T {
    /// Leaves when `body` returns or panics, and opens again what it closed.
    struct Held(Option<&'static dyn GiveWay>);

    impl Drop for Held {
        #[inline]
        fn drop(&mut self) {
            PLACE.with(|place| {
                if let Some(giver) = self.0 {
                    giver.open();
                }
                if place.leave() == 0 && place.by_signal.load(Ordering::Relaxed) && place.is_asked()
                {
                    place.give_way();
                }
            });
        }
    }

    let closed = PLACE.with(|place| {
        place.enter();
        place.told().filter(|giver| giver.try_close())
    });
    let _held = Held(closed);
    body()
}

/// Runs `body`, a worker's whole life, on this thread: `flag` says when to give way, `giver` how.
#[allow(unsafe_code)]
pub(crate) fn occupy<T>(flag: &PreemptFlag, giver: &dyn GiveWay, body: impl FnOnce() -> T) -> T {
    /// Empties the place before what it points to is gone.
    struct Occupied;

    impl Drop for Occupied {
        fn drop(&mut self) {
            PLACE.with(|place| {
                place.turn.store(NO_TURN, Ordering::Relaxed);
                place.spare.store(0, Ordering::Relaxed);
                place.flag.set(&NEVER);
                place.giver.set(None);
            });
        }
    }

    // SAFETY: nothing reads the place but this thread, in this function or below it, and `Occupied`
    // puts the old values back before it returns or unwinds. A reference kept beyond that, or a
    // suspended context resumed after it, would break this; contexts are leaked instead.
    let (flag, giver) = unsafe {
        (
            std::mem::transmute::<&PreemptFlag, &'static PreemptFlag>(flag),
            std::mem::transmute::<&dyn GiveWay, &'static dyn GiveWay>(giver),
        )
    };
    PLACE.with(|place| {
        place.turn.store(0, Ordering::Relaxed);
        place.flag.set(flag);
        place.giver.set(Some(giver));
    });
    let _occupied = Occupied;
    body()
}

/// Runs `body`, a call of a handler, so that it can be preempted in this way.
#[inline]
pub(crate) fn preemptible<T>(preempt: PreemptPolicy, body: impl FnOnce() -> T) -> T {
    /// Closes again when `body` returns or panics.
    struct Open;

    impl Drop for Open {
        #[inline]
        fn drop(&mut self) {
            PLACE.with(|place| {
                if let Some(giver) = place.told() {
                    giver.close();
                    place.by_kernel.set(false);
                }
                place.enter();
            });
        }
    }

    PLACE.with(|place| {
        let by_signal = preempt == PreemptPolicy::Signal;
        place.by_signal.store(by_signal, Ordering::Relaxed);
        place.by_kernel.set(preempt == PreemptPolicy::KernelThread);
        place.leave();
        if let Some(giver) = place.told() {
            giver.open();
        }
    });
    let _open = Open;
    body()
}

/// The turn of this number begins, or goes on.
pub(crate) fn set_turn(turn: u64) {
    PLACE.with(|place| place.turn.store(turn, Ordering::Relaxed));
}

/// The next turn begins.
pub(crate) fn begin_turn() {
    PLACE.with(|place| {
        let turn = place.turn.load(Ordering::Relaxed);
        place.turn.store(turn + 1, Ordering::Relaxed);
    });
}

/// Whether what runs in this turn was asked to give way.
pub(crate) fn is_asked() -> bool {
    PLACE.with(Place::is_asked)
}

/// How many contexts could take over.
pub(crate) fn spare() -> usize {
    PLACE.with(|place| place.spare.load(Ordering::Relaxed))
}

/// Says how many contexts could take over; without one nothing gives way.
pub(crate) fn set_spare(contexts: usize) {
    PLACE.with(|place| place.spare.store(contexts, Ordering::Relaxed));
}
