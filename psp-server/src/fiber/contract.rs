//! What the author of a handler promises for preemption by signals.

#![allow(unsafe_code)]

use crate::handler::Handler;

/// A handler that may be interrupted between any two instructions, for other requests of the same
/// thread to run meanwhile.
///
/// # Safety
/// Between its first and its last instruction [`Handler::handle`] leaves nothing half done that another
/// request on the same thread could find, except within [`no_preempt`](super::no_preempt). That is more than the
/// compiler checks: `Send` and `Sync` say nothing of two requests on *one* thread. In particular,
/// outside of [`no_preempt`](super::no_preempt) the handler and all that it calls
///
/// - allocate only from an allocator that is not preempted, such as [`PreemptSafeAlloc`](super::PreemptSafeAlloc);
/// - hold no lock, for a request that waits for it on the same thread waits for ever, or passes if the
///   lock is reentrant (as that of `println!`);
/// - hold no borrow of a `RefCell`, and no value taken out of a `Cell`, in a thread-local variable;
/// - initialise no thread-local variable lazily, and none with a destructor;
/// - call no C function that keeps state (`strtok`, `localtime`, `getaddrinfo`, stdio, `dlopen`);
/// - use neither `setjmp` nor fibers of their own, and leave the thread's `fs` and `gs` base alone.
///
/// `docs/preemption.md` says which of these are unsound and which are deadlocks or panics.
pub unsafe trait SignalPreemptible: Handler {}
