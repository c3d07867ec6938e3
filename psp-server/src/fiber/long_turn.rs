//! Turns that become long while they last, on a worker that would have done something before them, had it known, or
//! whose thread others need.
//!
//! ```text
//!   worker: watch ──► handler ── checkpoint ──────┐           ┌─► nothing, or what comes before a long turn: goes on
//!                       └── feedback::long() ─────┴─► look ───┴─► pauses: the thread does other things first
//! ```
//!
//! The flag by which turns are asked to yield names a turn that is watched from its beginning, so that a checkpoint of
//! a turn that is not costs what it always does. Whoever asks that turn to yield is heard all the same.
//!
//! Like the [state](super::thread_state) of the thread, these are thread-local variables with a constant initial value
//! and no destructor.

use std::cell::Cell;

use psp_policy::RequestType;

thread_local! {
    /// `None` where nothing is to be done any more, or at all.
    static WATCH: Cell<Option<&'static dyn TurnWatch>> = const { Cell::new(None) };
    /// The handler that runs has said that its request is long.
    static SAID: Cell<bool> = const { Cell::new(false) };
    /// The type of the request that runs, by its handler.
    static TYPE: Cell<Option<RequestType>> = const { Cell::new(None) };
}

/// What comes of a look at a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// The request goes on, and there will be another look.
    GoesOn,
    /// The request goes on, and there is nothing more to look for.
    Settled,
    /// The request gives the thread back for a while, if requests of its type yield.
    Pauses,
}

/// What a worker does when the turn becomes long that it runs.
pub(crate) trait TurnWatch {
    /// Looks at the turn. `has_said_long` says that its handler called it long. Called at checkpoints on the stack of
    /// the request, outside of [`no_preempt`](super::no_preempt): it holds no lock.
    fn look(&self, has_said_long: bool) -> Looked;
}

/// Runs `body`, a turn on this thread, under a watch. Only what its handler says is heard, unless the flag
/// [names](super::watch_turn) the turn, too.
#[allow(unsafe_code)]
#[inline]
pub(crate) fn watched<T>(watch: &dyn TurnWatch, body: impl FnOnce() -> T) -> T {
    /// Forgets the watch before it is gone.
    struct Watched;

    impl Drop for Watched {
        #[inline]
        fn drop(&mut self) {
            WATCH.set(None);
        }
    }

    // SAFETY: only this thread uses the reference, within `body`, and `Watched` takes it away when that returns or
    // unwinds.
    let watch = unsafe { std::mem::transmute::<&dyn TurnWatch, &'static dyn TurnWatch>(watch) };
    WATCH.set(Some(watch));
    let _watched = Watched;
    body()
}

/// Whether the turn is watched.
pub(super) fn is_watched() -> bool {
    WATCH.get().is_some()
}

/// Looks at the turn that is watched. To be called outside of [`no_preempt`](super::no_preempt).
pub(super) fn look() -> Looked {
    let looked = WATCH.get().map(|watch| watch.look(SAID.get()));
    if looked == Some(Looked::Settled) {
        WATCH.set(None);
    }
    looked.unwrap_or(Looked::GoesOn)
}

/// A handler begins.
#[inline]
pub(super) fn begin() {
    SAID.set(false);
    TYPE.set(None);
}

/// The handler that runs says that its request is long.
pub(super) fn say() {
    SAID.set(true);
}

/// See [`feedback::of_type`](crate::feedback::of_type).
pub(crate) fn say_type(request_type: RequestType) {
    TYPE.set(Some(request_type));
}

/// The type that the handler has named which runs, or ran last.
#[inline]
pub(crate) fn said_type() -> Option<RequestType> {
    TYPE.get()
}

/// What the handler of a request has said of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sayings {
    is_long: bool,
    request_type: Option<RequestType>,
}

/// What the handler that runs has said.
pub(super) fn keep() -> Sayings {
    Sayings { is_long: SAID.get(), request_type: TYPE.get() }
}

/// A request goes on whose handler has said this.
pub(super) fn restore(said: Sayings) {
    SAID.set(said.is_long);
    TYPE.set(said.request_type);
}

/// Whether the handler that runs has said that its request is long.
pub(super) fn has_said() -> bool {
    SAID.get()
}
