//! A worker's contexts: stacks with a message loop each, of which one runs.
//!
//! ```text
//!              ┌──────────── running: serves messages, runs handlers on its own stack
//!      resume  │  pause
//!   ┌──────────▼──┐   Yielded(r)      suspended under r, in the middle of a handler
//!   │ pool: root  ├─► StepAside(r)    idle, in its message loop; the context of r runs
//!   │ of a thread │   AddSpare        goes on at once; there is another idle context, if possible
//!   └─────────────┘   Stop            the end
//! ```
//!
//! The pool makes a context when it is first needed: the first to run anything, and another when a request begins
//! that can be preempted and no context is idle to take over. A request that is never preempted switches nothing,
//! for the loop runs on the context; a preemption costs two switches.
//!
//! A context never leaves its kernel thread: compilers keep addresses of thread-local variables
//! across calls, so that a frame which moved would use another thread's. A suspended context is never
//! dropped either, since that would unwind a handler which expects to go on: the handler runs to its end, or
//! the context is leaked when the worker stops.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use psp_policy::RequestId;

use super::thread_state::{self, StackBounds};

/// Why a context stops for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Its request gave way. The pool resumes the context under this name.
    Yielded(RequestId),
    /// The context has no request; the context of this request shall go on.
    StepAside(RequestId),
    /// The context needs another one to be idle.
    AddSpare,
    /// The worker stops.
    Stop,
}

/// Why a context goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The context is the one that runs.
    Serve,
    /// The context shall return. Only idle contexts are told so.
    Finish,
}

type Context = Coroutine<Wake, Pause, (), DefaultStack>;

/// What is known of the context that runs on this thread.
struct Running {
    yielder: Cell<*const Yielder<Wake, Pause>>,
    /// The pool may make another context.
    may_grow: Cell<bool>,
}

thread_local! {
    static RUNNING: Running = const { Running {
        yielder: Cell::new(ptr::null()),
        may_grow: Cell::new(false),
    } };
}

/// See the [module](self).
pub(crate) struct ContextPool<M> {
    /// Dropped only once they have returned.
    contexts: Vec<ManuallyDrop<Context>>,
    idle: Vec<usize>,
    suspended: Vec<(RequestId, usize)>,
    contexts_max: usize,
    stack_bytes: usize,
    make_body: M,
    /// A context could not be made, and the log says so.
    is_short: bool,
}

impl<M: FnMut() -> io::Result<B>, B: FnOnce() + 'static> ContextPool<M> {
    /// A pool of up to `contexts_max` contexts with a stack of `stack_bytes` each. `make_body` makes the code that
    /// runs on one, if it can: a message loop, which calls [`pause`] and returns when that answers [`Wake::Finish`].
    pub(crate) fn new(contexts_max: usize, stack_bytes: usize, make_body: M) -> Self {
        Self {
            contexts: Vec::new(),
            idle: Vec::new(),
            suspended: Vec::new(),
            contexts_max,
            stack_bytes,
            make_body,
            is_short: false,
        }
    }

    /// Runs contexts on this thread until one pauses with [`Pause::Stop`]. Contexts that are suspended then are
    /// leaked.
    ///
    /// # Errors
    /// When there is no memory for the first context's stack, or no code to run on it.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut current = self.add()?;
        loop {
            thread_state::set_spare(self.idle.len());
            match self.resume(current, Wake::Serve) {
                Some(Pause::Yielded(request)) => {
                    self.suspended.push((request, current));
                    let spare = self.idle.pop();
                    current = spare.expect("a request gives way only to a spare context");
                }
                Some(Pause::StepAside(request)) => {
                    let suspended = self.suspended.iter().position(|&(name, _)| name == request);
                    let at = suspended.expect("only a request that yielded here is resumed here");
                    self.idle.push(current);
                    (_, current) = self.suspended.swap_remove(at);
                }
                Some(Pause::AddSpare) => self.add_spare(),
                Some(Pause::Stop) => break,
                None => unreachable!("a context returns only when it is told to finish"),
            }
        }
        self.idle.push(current);
        self.finish();
        Ok(())
    }

    /// Makes a context. Returns its index.
    fn add(&mut self) -> io::Result<usize> {
        let stack = DefaultStack::new(self.stack_bytes)?;
        let base = stack.base().get();
        let bounds = StackBounds {
            guard: stack.limit().get(),
            limit: base - self.stack_bytes,
            base,
        };
        let body = (self.make_body)()?;
        let context = Coroutine::with_stack(stack, move |yielder, wake| {
            thread_state::set_stack(bounds);
            RUNNING.with(|running| running.yielder.set(yielder));
            if wake == Wake::Serve {
                body();
            }
        });
        self.contexts.push(ManuallyDrop::new(context));
        Ok(self.contexts.len() - 1)
    }

    /// Makes an idle context. If that fails, requests run on, and the next one tries again.
    fn add_spare(&mut self) {
        match self.add() {
            Ok(index) => self.idle.push(index),
            Err(error) if !self.is_short => {
                self.is_short = true;
                tracing::warn!(%error, contexts = self.contexts.len(), "cannot make another context");
            }
            Err(_) => {}
        }
    }

    /// Lets idle contexts return, so that what they own is dropped.
    fn finish(&mut self) {
        while let Some(index) = self.idle.pop() {
            if self.contexts[index].started() {
                let pause = self.resume(index, Wake::Finish);
                assert_eq!(pause, None, "a context that was told to finish goes on");
            }
            // SAFETY: the index is taken out of `idle` here and nowhere else, and nothing uses `contexts`
            // afterwards. The context has returned or never began: nothing on its stack is skipped.
            unsafe { ManuallyDrop::drop(&mut self.contexts[index]) };
        }
    }

    /// `None` when the context returned.
    fn resume(&mut self, index: usize, wake: Wake) -> Option<Pause> {
        let may_grow = self.contexts.len() < self.contexts_max;
        RUNNING.with(|running| running.may_grow.set(may_grow));
        let result = self.contexts[index].resume(wake);
        RUNNING.with(|running| running.yielder.set(ptr::null()));
        thread_state::set_stack(StackBounds::default());
        match result {
            CoroutineResult::Yield(pause) => Some(pause),
            CoroutineResult::Return(()) => None,
        }
    }
}

/// Has the pool make another context, if none is idle and it may. To be called outside of handlers, on a context,
/// before a request begins that can be preempted.
#[inline]
pub(crate) fn ensure_spare() {
    if thread_state::spare() == 0 && RUNNING.with(|running| running.may_grow.get()) {
        let wake = pause(Pause::AddSpare);
        debug_assert_eq!(wake, Wake::Serve, "the context runs, it is not idle");
    }
}

/// Stops the context that the caller runs on, until the pool resumes it.
///
/// # Panics
/// Outside of a context.
pub(crate) fn pause(pause: Pause) -> Wake {
    let yielder = RUNNING.with(|running| running.yielder.get());
    assert!(!yielder.is_null(), "only contexts pause");
    let stack = thread_state::stack();
    // SAFETY: `yielder` lives on the stack of the context that runs: a context puts it there when it
    // starts and after each pause, and `resume` takes it away when the context stops.
    let wake = unsafe { (*yielder).suspend(pause) };
    RUNNING.with(|running| running.yielder.set(yielder));
    thread_state::set_stack(stack);
    wake
}
