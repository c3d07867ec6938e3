//! A worker's contexts: stacks with a message loop each, of which one runs.
//!
//! ```text
//!              ┌──────────── running: serves messages, runs handlers on its own stack
//!      resume  │  pause
//!   ┌──────────▼──┐   Yielded(r)      suspended under r, in the middle of a handler
//!   │ pool: root  ├─► StepAside(r)    idle, in its message loop; the one of r runs
//!   │ of a thread │   Stop            the end
//!   └─────────────┘
//! ```
//!
//! All are made before the first request. A request that is never preempted switches nothing, for
//! the loop runs on the context; a preemption costs two switches.
//!
//! A context never leaves its kernel thread: compilers keep addresses of thread-local variables
//! across calls, so that a frame which moved would use another thread's. What is suspended is never
//! dropped either, since that would unwind a handler which expects to go on: it runs to its end, or
//! is leaked when the worker stops.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::place::{self, StackBounds};
use crate::policy::RequestId;

/// Why a context stops for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Its request gave way, and will be asked for under this name.
    Yielded(RequestId),
    /// It has no request; the one of this name shall go on.
    StepAside(RequestId),
    /// The worker stops.
    Stop,
}

/// Why a context goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// It is the one that runs.
    Serve,
    /// It shall return. Said to idle contexts only.
    Finish,
}

type Context = Coroutine<Wake, Pause, (), DefaultStack>;

/// What is known of the context that runs on this thread.
struct Running {
    yielder: Cell<*const Yielder<Wake, Pause>>,
}

thread_local! {
    static RUNNING: Running = const { Running { yielder: Cell::new(ptr::null()) } };
}

/// See the [module](self).
pub(crate) struct ContextPool {
    /// Never dropped but where they are done.
    contexts: Vec<ManuallyDrop<Context>>,
    idle: Vec<usize>,
    suspended: Vec<(RequestId, usize)>,
}

impl ContextPool {
    /// Makes `contexts` stacks of `stack_bytes` each. `body` makes what runs on one: a message loop,
    /// which calls [`pause`] and returns when that answers [`Wake::Finish`].
    pub(crate) fn new<B: FnOnce() + 'static>(
        contexts: usize,
        stack_bytes: usize,
        mut body: impl FnMut() -> B,
    ) -> io::Result<Self> {
        let mut pool = Self {
            contexts: Vec::with_capacity(contexts),
            idle: (0..contexts).rev().collect(),
            suspended: Vec::with_capacity(contexts),
        };
        for _ in 0..contexts {
            let stack = DefaultStack::new(stack_bytes)?;
            let base = stack.base().get();
            let bounds = StackBounds {
                guard: stack.limit().get(),
                limit: base - stack_bytes,
                base,
            };
            let body = body();
            let context = Coroutine::with_stack(stack, move |yielder, wake| {
                place::set_stack(bounds);
                RUNNING.with(|running| running.yielder.set(yielder));
                if wake == Wake::Serve {
                    body();
                }
            });
            pool.contexts.push(ManuallyDrop::new(context));
        }
        Ok(pool)
    }

    /// Runs contexts on this thread until one says [`Pause::Stop`]. What is suspended then is leaked.
    pub(crate) fn run(mut self) {
        let mut current = self.idle.pop().expect("at least one context");
        loop {
            place::set_spare(self.idle.len());
            match self.resume(current, Wake::Serve) {
                Some(Pause::Yielded(request)) => {
                    self.suspended.push((request, current));
                    current = self.idle.pop().expect("a context gives way to a spare one");
                }
                Some(Pause::StepAside(request)) => {
                    let suspended = self.suspended.iter().position(|&(name, _)| name == request);
                    let at = suspended.expect("only what yielded here is resumed here");
                    self.idle.push(current);
                    (_, current) = self.suspended.swap_remove(at);
                }
                Some(Pause::Stop) => break,
                None => unreachable!("a context returns when it is told to finish"),
            }
        }
        self.idle.push(current);
        self.finish();
    }

    /// Lets idle contexts return, so that what they own is dropped.
    fn finish(&mut self) {
        while let Some(index) = self.idle.pop() {
            if self.contexts[index].started() {
                let pause = self.resume(index, Wake::Finish);
                assert_eq!(pause, None, "a context that was told to finish goes on");
            }
            // SAFETY: it is taken out of `idle` here and nowhere else, and nothing uses `contexts`
            // afterwards. It has returned or never began: nothing on its stack is skipped.
            unsafe { ManuallyDrop::drop(&mut self.contexts[index]) };
        }
    }

    /// `None` when the context returned.
    fn resume(&mut self, index: usize, wake: Wake) -> Option<Pause> {
        let result = self.contexts[index].resume(wake);
        RUNNING.with(|running| running.yielder.set(ptr::null()));
        place::set_stack(StackBounds::default());
        match result {
            CoroutineResult::Yield(pause) => Some(pause),
            CoroutineResult::Return(()) => None,
        }
    }
}

/// Stops the context that the caller runs on, until the pool resumes it.
///
/// # Panics
/// Outside of a context.
pub(crate) fn pause(pause: Pause) -> Wake {
    let yielder = RUNNING.with(|running| running.yielder.get());
    assert!(!yielder.is_null(), "only contexts pause");
    let stack = place::stack();
    // SAFETY: `yielder` lives on the stack of the context that runs: a context puts it there when it
    // starts and after each pause, and `resume` takes it away when the context stops.
    let wake = unsafe { (*yielder).suspend(pause) };
    RUNNING.with(|running| running.yielder.set(yielder));
    place::set_stack(stack);
    wake
}
