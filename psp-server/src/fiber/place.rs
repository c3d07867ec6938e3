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
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use super::flag::PreemptFlag;
use crate::preempt::PreemptPolicy;

/// Outside of a handler.
const OUTSIDE: u32 = 1;

/// Outside of a handler there is no request.
const NO_SLOT: usize = usize::MAX;

thread_local! {
    static PLACE: Place = const { Place {
        flag: Cell::new(None),
        giver: Cell::new(None),
        turn: AtomicU64::new(0),
        depth: AtomicU32::new(OUTSIDE),
        by_signal: AtomicBool::new(false),
        pending: AtomicBool::new(false),
        by_kernel: Cell::new(false),
        spare: AtomicUsize::new(0),
        slot: AtomicUsize::new(NO_SLOT),
        stack_guard: AtomicUsize::new(0),
        stack_limit: AtomicUsize::new(0),
        stack_base: AtomicUsize::new(0),
    } };
}

/// Takes the worker away from what runs on it.
pub(crate) trait GiveWay {
    /// Called on the stack of a request that was asked to give way. Lets others have the worker,
    /// and returns when this request's next turn has begun.
    fn give_way(&self);

    /// Names the worker, and the type in `slot` if that is one. Called by a signal's handler: it does
    /// not allocate, lock or panic.
    fn describe(&self, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result;

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
    /// `None` on threads that are no workers.
    flag: Cell<Option<&'static PreemptFlag>>,
    giver: Cell<Option<&'static dyn GiveWay>>,
    /// Number of the turn that began last.
    turn: AtomicU64,
    /// How many reasons there are not to preempt: being outside of a handler, and each `no_preempt`.
    depth: AtomicU32,
    /// Whether the request may be preempted between checkpoints.
    by_signal: AtomicBool,
    /// A signal came at a depth above 0: the place gives way when that is left.
    pending: AtomicBool,
    /// Whether the giver is to be told where the request may be preempted.
    by_kernel: Cell<bool>,
    /// Contexts that could take over.
    spare: AtomicUsize,
    /// Slot of the type of the request that runs.
    slot: AtomicUsize,
    /// The stack of the context that runs; all 0 where none does.
    stack_guard: AtomicUsize,
    stack_limit: AtomicUsize,
    stack_base: AtomicUsize,
}

/// The part of the address space that a context's stack has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StackBounds {
    /// Where the guard begins, which is below its lowest address.
    pub(super) guard: usize,
    /// Its lowest address.
    pub(super) limit: usize,
    /// The address above its highest.
    pub(super) base: usize,
}

impl Place {
    #[inline]
    fn is_asked(&self) -> bool {
        let flag = self.flag.get();
        flag.is_some_and(|flag| flag.names(self.turn.load(Ordering::Relaxed)))
    }

    fn enter(&self) {
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// The depth afterwards.
    fn leave_depth(&self) -> u32 {
        compiler_fence(Ordering::SeqCst);
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        depth
    }

    /// The giver, where it is to be told of this.
    fn told(&self) -> Option<&'static dyn GiveWay> {
        self.giver.get().filter(|_| self.by_kernel.get())
    }

    /// Does what a signal asked since `enter`.
    #[inline]
    fn leave(&self) {
        let depth = self.leave_depth();
        if depth == 0 && self.pending.load(Ordering::Relaxed) && self.is_asked() {
            self.give_way();
        }
    }

    /// Leaves at the beginning of a turn. Whether it was asked to give way before, by a signal that could
    /// do nothing then.
    #[inline]
    fn leave_for_turn(&self) -> bool {
        self.pending.store(false, Ordering::Relaxed);
        self.leave_depth();
        self.by_signal.load(Ordering::Relaxed) && self.is_asked()
    }

    /// Whether what runs may be made to give way now.
    fn is_open(&self) -> bool {
        self.depth.load(Ordering::Relaxed) == 0
            && self.spare.load(Ordering::Relaxed) > 0
            && !std::thread::panicking()
    }

    #[cold]
    #[inline(never)]
    fn give_way(&self) {
        while self.is_open() {
            self.enter();
            // A signal may have been faster, and this be another turn by now.
            if self.is_asked() {
                self.give_way_entered();
            }
            if !self.leave_for_turn() {
                return;
            }
        }
    }

    fn give_way_entered(&self) {
        let by_signal = self.by_signal.load(Ordering::Relaxed);
        let slot = self.slot.load(Ordering::Relaxed);
        if let Some(giver) = self.giver.get() {
            giver.give_way();
        }
        self.by_signal.store(by_signal, Ordering::Relaxed);
        self.slot.store(slot, Ordering::Relaxed);
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
            if let Some(giver) = self.0 {
                giver.open();
            }
            PLACE.with(Place::leave);
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
                place.spare.store(0, Ordering::Relaxed);
                place.flag.set(None);
                place.giver.set(None);
            });
        }
    }

    // SAFETY: nothing reads the place but this thread, in this function or below it, and `Occupied`
    // empties it before it returns or unwinds. A reference kept beyond that, or a
    // suspended context resumed after it, would break this; contexts are leaked instead.
    let (flag, giver) = unsafe {
        (
            std::mem::transmute::<&PreemptFlag, &'static PreemptFlag>(flag),
            std::mem::transmute::<&dyn GiveWay, &'static dyn GiveWay>(giver),
        )
    };
    PLACE.with(|place| {
        place.turn.store(0, Ordering::Relaxed);
        place.flag.set(Some(flag));
        place.giver.set(Some(giver));
    });
    let _occupied = Occupied;
    body()
}

/// Runs `body`, the handler's call for a request of the type in `slot`, so that it can be preempted in
/// this way.
#[inline]
pub(crate) fn preemptible<T>(slot: usize, preempt: PreemptPolicy, body: impl FnOnce() -> T) -> T {
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
                place.slot.store(NO_SLOT, Ordering::Relaxed);
            });
        }
    }

    PLACE.with(|place| {
        let by_signal = preempt == PreemptPolicy::Signal;
        place.slot.store(slot, Ordering::Relaxed);
        place.by_signal.store(by_signal, Ordering::Relaxed);
        place.by_kernel.set(preempt == PreemptPolicy::KernelThread);
        if place.leave_for_turn() {
            place.give_way();
        }
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

/// Number of the turn that began last.
pub(crate) fn turn() -> u64 {
    PLACE.with(|place| place.turn.load(Ordering::Relaxed))
}

/// Whether what runs in this turn was asked to give way.
pub(crate) fn is_asked() -> bool {
    PLACE.with(Place::is_asked)
}

/// Whether the next [`checkpoint`] gives way.
pub(crate) fn shall_give_way() -> bool {
    PLACE.with(|place| place.is_asked() && place.is_open())
}

/// How many contexts could take over.
pub(crate) fn spare() -> usize {
    PLACE.with(|place| place.spare.load(Ordering::Relaxed))
}

/// Says how many contexts could take over; without one nothing gives way.
pub(crate) fn set_spare(contexts: usize) {
    PLACE.with(|place| place.spare.store(contexts, Ordering::Relaxed));
}

/// Says which stack is in use from now on.
pub(super) fn set_stack(bounds: StackBounds) {
    PLACE.with(|place| {
        place.stack_guard.store(bounds.guard, Ordering::Relaxed);
        place.stack_limit.store(bounds.limit, Ordering::Relaxed);
        place.stack_base.store(bounds.base, Ordering::Relaxed);
    });
}

/// The stack of the context that runs.
pub(super) fn stack() -> StackBounds {
    PLACE.with(|place| StackBounds {
        guard: place.stack_guard.load(Ordering::Relaxed),
        limit: place.stack_limit.load(Ordering::Relaxed),
        base: place.stack_base.load(Ordering::Relaxed),
    })
}

/// Names what runs on this thread; see [`GiveWay::describe`].
pub(super) fn describe(out: &mut dyn fmt::Write) -> fmt::Result {
    PLACE.with(|place| match place.giver.get() {
        Some(giver) => giver.describe(place.slot.load(Ordering::Relaxed), out),
        None => Ok(()),
    })
}

/// Called by a signal's handler: whether the code that it interrupted, with its stack pointer at
/// `rsp`, shall give way. The place is entered then, for [`give_way_interrupted`].
///
/// Async-signal-safe: it reads thread-local variables that have a constant initial value, and so does
/// `std::thread::panicking`.
pub(super) fn interrupt(rsp: usize, room_bytes: usize) -> bool {
    PLACE.with(|place| {
        let limit = place.stack_limit.load(Ordering::Relaxed);
        let base = place.stack_base.load(Ordering::Relaxed);
        if !place.is_asked() || !place.by_signal.load(Ordering::Relaxed) {
            return false;
        }
        let shall = place.is_open() && rsp < base && rsp >= limit + room_bytes;
        if shall {
            place.enter();
        } else {
            place.pending.store(true, Ordering::Relaxed);
        }
        shall
    })
}

/// Gives way after [`interrupt`] said so.
pub(super) fn give_way_interrupted() {
    PLACE.with(|place| {
        place.give_way_entered();
        if place.leave_for_turn() {
            place.give_way();
        }
    });
}
