//! What a kernel thread knows of the request that runs on it: whether the request may yield, and to what.
//!
//! ```text
//!   message loop ──► preemptible ─► Handler::handle ─► no_preempt ─► … ─► back
//!   depth   1            0                0                1                1
//!                                         ▲
//!                          checkpoint() and signals act at 0 only
//! ```
//!
//! A request that is never preempted runs at depth 1. It may [wait](super::wait) all the same, at the depth at which
//! its handler began.
//!
//! With preemption by the kernel, `preemptible` and `no_preempt` tell the [`Yielder`], which cannot look at the
//! depth.
//!
//! The state is a thread-local variable with a constant initial value and no destructor, so that a signal
//! handler may read it at any time. It is made of atomics because such a handler interrupts the thread that
//! writes it. No other thread reads it.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use psp_policy::PreemptPolicy;

use super::cpu_clock;
use super::flag::PreemptFlag;
use super::long_turn::{self, Looked, TurnWatch};
use super::peer;

/// Outside of a handler.
const OUTSIDE: u32 = 1;

/// The depth of a handler where none runs.
const NO_HANDLER: u32 = u32::MAX;

/// Outside of a handler there is no request.
pub(crate) const NO_SLOT: usize = usize::MAX;

thread_local! {
    static THREAD_STATE: ThreadState = const { ThreadState {
        flag: Cell::new(None),
        yielder: Cell::new(None),
        turn: AtomicU64::new(0),
        depth: AtomicU32::new(OUTSIDE),
        handler_depth: Cell::new(NO_HANDLER),
        by_signal: AtomicBool::new(false),
        signal_mask: AtomicU64::new(0),
        pending: AtomicBool::new(false),
        by_kernel: Cell::new(false),
        spare: AtomicUsize::new(0),
        slot: AtomicUsize::new(NO_SLOT),
        stack_guard: AtomicUsize::new(0),
        stack_limit: AtomicUsize::new(0),
        stack_base: AtomicUsize::new(0),
    } };
}

/// Takes the worker away from the request that runs on it.
pub(crate) trait Yielder {
    /// Called on the stack of a request that was asked to yield. Lets other requests have the worker, and
    /// returns when this request's next turn has begun.
    fn yield_now(&self);

    /// Called on the stack of a request that was asked to yield where nothing could take over from it. Makes what
    /// can, if there may be more.
    fn make_spare(&self) {}

    /// Called as that on the stack of a request that has had the thread for too long. Lets the thread do what else it
    /// has to, and returns when this request's next turn has begun, or at once if nothing could have the thread.
    fn pause(&self) {}

    /// Names the worker and, if `slot` is the slot of a type, that type. A signal's handler calls this: it does
    /// not allocate, lock or panic.
    fn describe(&self, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result;

    /// From here on another thread may become the worker at any instruction.
    fn open(&self) {}

    /// Ends what `open` began. Returns when the request has the worker, again or still.
    fn close(&self) {}

    /// Ends what `open` began if the request still has the worker, and returns whether it has. Never waits: the
    /// request may hold locks.
    fn try_close(&self) -> bool {
        false
    }
}

/// See the [module](self).
struct ThreadState {
    /// `None` on threads that are not workers.
    flag: Cell<Option<&'static PreemptFlag>>,
    yielder: Cell<Option<&'static dyn Yielder>>,
    /// Number of the turn that began last.
    turn: AtomicU64,
    /// How many reasons there are not to preempt: being outside of a handler, and each `no_preempt`.
    depth: AtomicU32,
    /// The depth at which the handler of the request began.
    handler_depth: Cell<u32>,
    /// Whether the request may be preempted between checkpoints.
    by_signal: AtomicBool,
    /// The signals that the thread blocks while it runs no signal's handler, as the kernel's 64 bits.
    signal_mask: AtomicU64,
    /// A signal came at a depth above 0: the request yields when it returns to depth 0.
    pending: AtomicBool,
    /// Whether the yielder has to be told where the request may be preempted.
    by_kernel: Cell<bool>,
    /// Contexts that could take over.
    spare: AtomicUsize,
    /// Slot of the type of the request that runs.
    slot: AtomicUsize,
    /// The stack of the context that runs; all 0 if none runs.
    stack_guard: AtomicUsize,
    stack_limit: AtomicUsize,
    stack_base: AtomicUsize,
}

/// The addresses of a context's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StackBounds {
    /// Where the guard begins, below the stack's lowest address.
    pub(super) guard: usize,
    /// The stack's lowest address.
    pub(super) limit: usize,
    /// The address above the stack's highest.
    pub(super) base: usize,
}

impl ThreadState {
    /// Whether the turn was asked to yield, or is watched.
    #[inline]
    fn is_named(&self) -> bool {
        let flag = self.flag.get();
        flag.is_some_and(|flag| flag.names(self.turn.load(Ordering::Relaxed)))
    }

    /// Whether the turn was asked to yield.
    #[inline]
    fn is_asked(&self) -> bool {
        let flag = self.flag.get();
        flag.is_some_and(|flag| flag.asks(self.turn.load(Ordering::Relaxed)))
    }

    fn enter(&self) {
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    fn leave_depth(&self) {
        compiler_fence(Ordering::SeqCst);
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// The yielder, if it has to be told.
    fn told(&self) -> Option<&'static dyn Yielder> {
        self.yielder.get().filter(|_| self.by_kernel.get())
    }

    /// Yields if a signal asked for it since `enter`.
    #[inline]
    fn leave(&self) {
        self.leave_depth();
        self.act_on_pending();
    }

    /// Leaves at the beginning of a turn. Returns whether the turn was asked to yield before, by a signal
    /// that had no effect then.
    #[inline]
    fn leave_for_turn(&self) -> bool {
        self.pending.store(false, Ordering::Relaxed);
        self.leave_depth();
        self.by_signal.load(Ordering::Relaxed) && self.is_asked()
    }

    /// Whether the running request may yield now.
    fn is_open(&self) -> bool {
        self.depth.load(Ordering::Relaxed) == 0 && self.spare.load(Ordering::Relaxed) > 0 && !std::thread::panicking()
    }

    #[cold]
    #[inline(never)]
    fn yield_now(&self) {
        if long_turn::is_watched() {
            self.look_at_turn();
        }
        let (depth, spare) = (&self.depth, &self.spare);
        if self.is_asked() && depth.load(Ordering::Relaxed) == 0 && spare.load(Ordering::Relaxed) == 0 {
            self.enter();
            self.without_request(Yielder::make_spare);
            self.leave_depth();
        }
        while self.is_asked() && self.is_open() {
            self.enter();
            // A signal may have been faster: this may be another turn by now.
            if self.is_asked() {
                self.yield_entered();
            }
            if !self.leave_for_turn() {
                return;
            }
        }
    }

    /// Whether the code that calls it is the handler's, outside of [`no_preempt`] and of polls.
    fn is_in_handler(&self) -> bool {
        self.depth.load(Ordering::Relaxed) == self.handler_depth.get()
    }

    /// A checkpoint of a turn that may be watched. A signal that comes while the worker does what it does for a long
    /// turn is [pending](Self::act_on_pending) afterwards.
    fn look_at_turn(&self) {
        if !self.is_in_handler() || std::thread::panicking() {
            return;
        }
        let yields = self.depth.load(Ordering::Relaxed) == 0;
        self.enter();
        match long_turn::look() {
            Looked::GoesOn => {}
            Looked::Settled => {
                let flag = self.flag.get();
                flag.inspect(|flag| flag.unwatch(self.turn.load(Ordering::Relaxed)));
            }
            Looked::Pauses if yields => self.without_request(Yielder::pause),
            Looked::Pauses => {}
        }
        self.leave_depth();
    }

    /// Yields if a signal asked for it that came when the request could not.
    #[inline]
    fn act_on_pending(&self) {
        if self.depth.load(Ordering::Relaxed) == 0 && self.pending.load(Ordering::Relaxed) && self.is_asked() {
            self.yield_now();
        }
    }

    fn yield_entered(&self) {
        self.without_request(Yielder::yield_now);
    }

    /// Runs `body` with the thread as it is outside of a handler. To be called where nothing preempts.
    fn without_request(&self, body: impl FnOnce(&'static dyn Yielder)) {
        let kept = self.keep();
        if let Some(yielder) = self.yielder.get() {
            body(yielder);
        }
        self.restore(&kept);
    }

    /// Keeps what belongs to the request that runs, and leaves the thread as it is outside of a handler.
    fn keep(&self) -> Kept {
        let kept = Kept {
            depth: self.depth.load(Ordering::Relaxed),
            handler_depth: self.handler_depth.get(),
            by_signal: self.by_signal.load(Ordering::Relaxed),
            slot: self.slot.load(Ordering::Relaxed),
            peer: peer::keep(),
            timers: cpu_clock::keep(),
            said: long_turn::keep(),
        };
        self.depth.store(OUTSIDE, Ordering::Relaxed);
        kept
    }

    fn restore(&self, kept: &Kept) {
        self.depth.store(kept.depth, Ordering::Relaxed);
        self.handler_depth.set(kept.handler_depth);
        self.by_signal.store(kept.by_signal, Ordering::Relaxed);
        self.slot.store(kept.slot, Ordering::Relaxed);
        peer::restore(&kept.peer);
        cpu_clock::restore(&kept.timers);
        long_turn::restore(kept.said);
    }
}

/// What belongs to a request that does not run, while others may.
#[derive(Debug)]
pub(super) struct Kept {
    depth: u32,
    handler_depth: u32,
    by_signal: bool,
    slot: usize,
    peer: peer::Kept,
    timers: cpu_clock::Kept,
    said: long_turn::Sayings,
}

impl Kept {
    /// Of the request that runs. From here on it is not preempted.
    pub(super) fn take() -> Self {
        THREAD_STATE.with(|state| {
            state.enter();
            state.keep()
        })
    }

    /// The request goes on. Yields at once if it was asked to.
    pub(super) fn restore(&self) {
        THREAD_STATE.with(|state| {
            state.restore(self);
            if state.leave_for_turn() {
                state.yield_now();
            }
            if long_turn::has_said() {
                state.look_at_turn();
                state.act_on_pending();
            }
        });
    }
}

/// Whether the code that calls it may give its worker away: the handler of a request, outside of
/// [`no_preempt`] and of polls.
pub(super) fn may_wait() -> bool {
    THREAD_STATE.with(ThreadState::is_in_handler) && !std::thread::panicking()
}

/// Lets another request have the worker, if the server asked for that. Handlers of long requests
/// call it every microsecond or so, and hold no lock that another request might want.
///
/// If the server has not asked, a call costs two loads and a comparison. Still, a call per element keeps the
/// compiler from vectorising a loop, so call it once for some 64 elements. It does nothing on
/// threads that are not workers, within [`no_preempt`], while the thread panics, and if the worker
/// has no [context](crate::Config::contexts_per_worker) left.
///
/// # Other requests run on the same thread meanwhile
///
/// With the mechanisms `Cooperative` and `Signal` a checkpoint returns on the thread on which it was called, after
/// other requests of the same worker may have run there. They see the thread's thread-local variables as this
/// request left them, and this request sees them as the others did:
///
/// - A value that is put into a thread-local variable for the duration of a call (a task's scope, the current
///   dispatcher of a logger) is in force for the other requests, too.
/// - A `RefCell` in a thread-local variable that is borrowed across a checkpoint is found borrowed: the other
///   request panics.
/// - A `tracing` span that is entered across a checkpoint takes in the events of other requests. They may leave
///   their spans in another order than that of a stack.
///
/// Requests are not resumed in the reverse order of their suspension: request A may suspend, B run and suspend, and
/// A end before B goes on. So save and restore pairs of two requests need not nest. End such scopes before a
/// checkpoint, or wrap the scope in [`no_preempt`]. With `KernelThread` each request has a thread, and with it
/// thread-local variables, to itself until it ends.
#[inline]
pub fn checkpoint() {
    THREAD_STATE.with(|state| {
        if state.is_named() {
            state.yield_now();
        }
    });
}

/// Runs `body` without preemption: Shinjuku's `call_safe`. A request that is preempted by signals
/// wraps it around locks, and around everything that other requests of the same worker
/// would find half done. Calls may be nested. A request that was asked to yield meanwhile
/// does so at the end of the outermost call.
///
/// In requests that yield at checkpoints, the checkpoints that `body` calls do nothing.
#[inline]
pub fn no_preempt<T>(body: impl FnOnce() -> T) -> T {
    /// Leaves when `body` returns or panics, and opens again what was closed.
    struct LeaveOnDrop(Option<&'static dyn Yielder>);

    impl Drop for LeaveOnDrop {
        #[inline]
        fn drop(&mut self) {
            if let Some(yielder) = self.0 {
                yielder.open();
            }
            THREAD_STATE.with(ThreadState::leave);
        }
    }

    let closed = THREAD_STATE.with(|state| {
        state.enter();
        state.told().filter(|yielder| yielder.try_close())
    });
    let _leaves = LeaveOnDrop(closed);
    body()
}

/// Runs `body`, a worker's whole life, on this thread. `flag` says when to yield, `yielder` how.
#[allow(unsafe_code)]
pub(crate) fn occupy<T>(flag: &PreemptFlag, yielder: &dyn Yielder, body: impl FnOnce() -> T) -> T {
    /// Empties the state before the objects that it points to are gone.
    struct Occupied;

    impl Drop for Occupied {
        fn drop(&mut self) {
            THREAD_STATE.with(|state| {
                state.spare.store(0, Ordering::Relaxed);
                state.flag.set(None);
                state.yielder.set(None);
            });
        }
    }

    // SAFETY: only this thread reads the state, in this function or below it, and `Occupied` empties it before
    // the function returns or unwinds. A reference kept beyond that, or a suspended context resumed after it,
    // would break this; contexts are leaked instead.
    let (flag, yielder) = unsafe {
        (
            std::mem::transmute::<&PreemptFlag, &'static PreemptFlag>(flag),
            std::mem::transmute::<&dyn Yielder, &'static dyn Yielder>(yielder),
        )
    };
    THREAD_STATE.with(|state| {
        state.turn.store(0, Ordering::Relaxed);
        state.flag.set(Some(flag));
        state.yielder.set(Some(yielder));
    });
    let _occupied = Occupied;
    body()
}

/// Runs `body`, the call of the handler for a request of the type in `slot`, so that it may wait, and the mechanism
/// `preempt` can preempt it.
#[inline]
pub(crate) fn in_handler<T>(slot: usize, preempt: PreemptPolicy, body: impl FnOnce() -> T) -> T {
    /// Notes the handler's end when `body` returns or panics.
    struct Handling;

    impl Drop for Handling {
        #[inline]
        fn drop(&mut self) {
            THREAD_STATE.with(|state| {
                state.handler_depth.set(NO_HANDLER);
                state.slot.store(NO_SLOT, Ordering::Relaxed);
            });
        }
    }

    let depth = match preempt {
        PreemptPolicy::None => OUTSIDE,
        _ => OUTSIDE - 1,
    };
    THREAD_STATE.with(|state| {
        state.slot.store(slot, Ordering::Relaxed);
        state.handler_depth.set(depth);
    });
    long_turn::begin();
    let _handling = Handling;
    match preempt {
        PreemptPolicy::None => body(),
        preempt => preemptible(preempt, body),
    }
}

/// Runs `body` so that the mechanism `preempt` can preempt it.
#[inline]
fn preemptible<T>(preempt: PreemptPolicy, body: impl FnOnce() -> T) -> T {
    /// Closes again when `body` returns or panics.
    struct Open;

    impl Drop for Open {
        #[inline]
        fn drop(&mut self) {
            THREAD_STATE.with(|state| {
                if let Some(yielder) = state.told() {
                    yielder.close();
                    state.by_kernel.set(false);
                }
                state.enter();
            });
        }
    }

    THREAD_STATE.with(|state| {
        let by_signal = preempt == PreemptPolicy::Signal;
        state.by_signal.store(by_signal, Ordering::Relaxed);
        state.by_kernel.set(preempt == PreemptPolicy::KernelThread);
        if state.leave_for_turn() {
            state.yield_now();
        }
        if let Some(yielder) = state.told() {
            yielder.open();
        }
    });
    let _open = Open;
    body()
}

/// The turn of this number begins or goes on.
pub(crate) fn set_turn(turn: u64) {
    THREAD_STATE.with(|state| state.turn.store(turn, Ordering::Relaxed));
}

/// The next turn begins.
pub(crate) fn begin_turn() {
    THREAD_STATE.with(|state| {
        let turn = state.turn.load(Ordering::Relaxed);
        state.turn.store(turn + 1, Ordering::Relaxed);
    });
}

/// Number of the turn that began last.
pub(crate) fn turn() -> u64 {
    THREAD_STATE.with(|state| state.turn.load(Ordering::Relaxed))
}

/// Whether the request of this turn was asked to yield to others.
pub(crate) fn is_asked() -> bool {
    THREAD_STATE.with(ThreadState::is_asked)
}

/// Runs `body`, the next turn on this thread, under a watch.
#[inline]
pub(crate) fn watch_turn<T>(watch: &dyn TurnWatch, body: impl FnOnce() -> T) -> T {
    THREAD_STATE.with(|state| {
        if let Some(flag) = state.flag.get() {
            flag.watch(state.turn.load(Ordering::Relaxed) + 1);
        }
    });
    long_turn::watched(watch, body)
}

/// See [`feedback::long`](crate::feedback::long).
pub(crate) fn say_long() {
    long_turn::say();
    THREAD_STATE.with(|state| {
        state.look_at_turn();
        state.act_on_pending();
    });
}

/// How many contexts could take over.
pub(crate) fn spare() -> usize {
    THREAD_STATE.with(|state| state.spare.load(Ordering::Relaxed))
}

/// Sets how many contexts could take over. Without one no request yields.
pub(crate) fn set_spare(contexts: usize) {
    THREAD_STATE.with(|state| state.spare.store(contexts, Ordering::Relaxed));
}

/// Sets the stack that is in use from now on.
pub(super) fn set_stack(bounds: StackBounds) {
    THREAD_STATE.with(|state| {
        state.stack_guard.store(bounds.guard, Ordering::Relaxed);
        state.stack_limit.store(bounds.limit, Ordering::Relaxed);
        state.stack_base.store(bounds.base, Ordering::Relaxed);
    });
}

/// The stack of the context that runs.
pub(super) fn stack() -> StackBounds {
    THREAD_STATE.with(|state| StackBounds {
        guard: state.stack_guard.load(Ordering::Relaxed),
        limit: state.stack_limit.load(Ordering::Relaxed),
        base: state.stack_base.load(Ordering::Relaxed),
    })
}

/// Names the request that runs on this thread; see [`Yielder::describe`].
pub(super) fn describe(out: &mut dyn fmt::Write) -> fmt::Result {
    THREAD_STATE.with(|state| match state.yielder.get() {
        Some(yielder) => yielder.describe(state.slot.load(Ordering::Relaxed), out),
        None => Ok(()),
    })
}

/// Sets the signals that the calling thread blocks while it runs no signal's handler, as the kernel's 64 bits.
pub(super) fn set_signal_mask(mask: u64) {
    THREAD_STATE.with(|state| state.signal_mask.store(mask, Ordering::Relaxed));
}

/// What a preempting signal does to the code that it interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// Nothing: the signal is late, or the end of `no_preempt` looks at the flag again.
    None,
    /// The code yields now.
    Yield,
    /// Another signal's handler runs, which may not be suspended. The signal comes again when that returns.
    AfterHandler,
}

/// Called by the handler of the preempting signal. The signal interrupted code with its stack pointer at `rsp` and
/// the signals of `mask` blocked. With [`Interruption::Yield`] the state is entered, for
/// [`yield_interrupted`].
///
/// While another signal's handler runs, the kernel blocks that signal, so that `mask` is not the thread's own.
///
/// Async-signal-safe: it reads thread-local variables that have a constant initial value, and so does
/// `std::thread::panicking`.
pub(super) fn interrupt(rsp: usize, room_bytes: usize, mask: u64) -> Interruption {
    THREAD_STATE.with(|state| {
        let limit = state.stack_limit.load(Ordering::Relaxed);
        let base = state.stack_base.load(Ordering::Relaxed);
        if !state.is_asked() || !state.by_signal.load(Ordering::Relaxed) {
            return Interruption::None;
        }
        let is_open = state.is_open();
        if is_open && mask != state.signal_mask.load(Ordering::Relaxed) {
            return Interruption::AfterHandler;
        }
        if is_open && rsp < base && rsp >= limit + room_bytes {
            state.enter();
            return Interruption::Yield;
        }
        state.pending.store(true, Ordering::Relaxed);
        Interruption::None
    })
}

/// Yields after [`Interruption::Yield`].
pub(super) fn yield_interrupted() {
    THREAD_STATE.with(|state| {
        state.yield_entered();
        if state.leave_for_turn() {
            state.yield_now();
        }
    });
}
