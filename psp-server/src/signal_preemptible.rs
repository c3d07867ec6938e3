//! What the author of a handler promises for preemption by signals.

#![allow(unsafe_code)]

/// A [`Handler`](crate::Handler) that may be interrupted between any two instructions, so that other requests
/// of the same thread run meanwhile.
///
/// # Safety
/// Between its first and its last instruction [`Handler::handle`](crate::Handler::handle) leaves nothing half done
/// that another request on the same thread could find, except within [`no_preempt`](crate::no_preempt). That is more
/// than the compiler checks: `Send` and `Sync` say nothing about two requests on *one* thread. In particular, outside
/// of [`no_preempt`](crate::no_preempt) the handler and all code that it calls
///
/// - allocate only from an allocator that is not preempted, such as
///   [`PreemptSafeAlloc`](crate::preempt::PreemptSafeAlloc);
/// - hold no lock. Another request on the same thread that waits for the lock waits for ever, or enters if the
///   lock is reentrant (as that of `println!`);
/// - hold no borrow of a `RefCell`, and no value taken out of a `Cell`, in a thread-local variable;
/// - initialise no thread-local variable lazily, and none with a destructor;
/// - call no C function that keeps state (`strtok`, `localtime`, `getaddrinfo`, stdio, `dlopen`);
/// - use neither `setjmp` nor fibers of their own, and leave the thread's `fs` and `gs` base alone;
/// - change the thread's signal mask only for a time, and then restore the former mask as a whole (`SIG_SETMASK`).
///   A request is not preempted meanwhile.
///
/// A handler of another signal (`SIGPROF` of a profiler, say) is not preempted either, unless it was installed with
/// `SA_NODEFER`: then it has to run on an alternate stack (`SA_ONSTACK`).
///
/// `docs/preemption.md` says which of these are unsound and which are deadlocks or panics.
pub unsafe trait SignalPreemptible {}
