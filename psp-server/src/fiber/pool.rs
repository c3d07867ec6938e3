//! A worker's contexts: stacks with a message loop each, of which one runs.
//!
//! ```text
//!              ┌──────────── running: serves messages, runs handlers on its own stack
//!      resume  │  pause
//!   ┌──────────▼──┐   Suspended(r)    suspended under r, in the middle of a handler
//!   │ pool: root  ├─► StepAside(r)    idle, in its message loop; the context of r runs
//!   │ of a thread │   AddSpare        goes on at once; there is another idle context, if possible
//!   └─────────────┘   Leave           the thread goes on with its own code; the context stays the one that runs
//!                     Stop            the end
//! ```
//!
//! The pool makes a context when it is first needed: the first to run anything, and another when no context is idle
//! to take over from a request that can be preempted, or that waits. A request that is neither preempted nor waits
//! switches nothing, for the loop runs on the context; a preemption or a wait costs two switches.
//!
//! Contexts that are no longer needed are kept. Of those that lie idle below some others, the stacks' memory is given
//! back.
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
use hashbrown::HashMap;
use psp_policy::RequestId;

#[cfg(psp_tsan)]
use super::thread_sanitizer::Fiber;
use super::thread_state::{self, StackBounds};

/// Why a context stops for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Its request yielded, or waits. The pool resumes the context under this name.
    Suspended(RequestId),
    /// The context has no request; the context of this request shall go on.
    StepAside(RequestId),
    /// The context needs another one to be idle.
    AddSpare,
    /// The thread has other things to do.
    Leave,
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

/// Idle contexts above which one keeps the memory of its stack: they are needed first.
const KEPT: usize = 32;
/// The frames of a paused context below the address that it notes: those that switch stacks.
const FRAMES_BYTES_MAX: usize = 4096;

type Context = Coroutine<Wake, Pause, (), DefaultStack>;

/// What is known of the context that runs on this thread.
struct Running {
    yielder: Cell<*const Yielder<Wake, Pause>>,
    /// An address in the frame in which the context paused last.
    paused_at: Cell<usize>,
    /// The pool may make another context.
    may_grow: Cell<bool>,
}

thread_local! {
    static RUNNING: Running = const { Running {
        yielder: Cell::new(ptr::null()),
        paused_at: Cell::new(0),
        may_grow: Cell::new(false),
    } };
}

/// A context without a request.
#[derive(Debug, Clone, Copy)]
struct Idle {
    context: usize,
    unused: Unused,
}

/// The addresses of the part of an idle context's stack that it does not use.
#[derive(Debug, Clone, Copy, Default)]
struct Unused {
    from: usize,
    to: usize,
}

impl Unused {
    /// Gives the memory back to the system. The pages are zero when they are used again.
    fn give_back(self) {
        let page_bytes = rustix::param::page_size();
        let from = self.from.next_multiple_of(page_bytes);
        let to = self.to / page_bytes * page_bytes;
        if from < to {
            // SAFETY: the pages are those of a stack, between its lowest address and the frames of the context, which
            // is not running. Nothing refers to memory below a stack pointer.
            let given = unsafe {
                let pages = ptr::with_exposed_provenance_mut(from);
                rustix::mm::madvise(pages, to - from, rustix::mm::Advice::LinuxDontNeed)
            };
            if let Err(error) = given {
                tracing::debug!(%error, "cannot give back the memory of a stack");
            }
        }
    }
}

/// See the [module](self).
pub(crate) struct ContextPool<M> {
    /// Dropped only once they have returned.
    contexts: Vec<ManuallyDrop<Context>>,
    #[cfg(psp_tsan)]
    fibers: Vec<Fiber>,
    /// The lowest address of the stack of each.
    limits: Vec<usize>,
    /// The context that runs, or will run next.
    current: Option<usize>,
    idle: Vec<Idle>,
    /// How many of the first in `idle` have given their stacks' memory back.
    trimmed: usize,
    suspended: HashMap<RequestId, usize>,
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
            #[cfg(psp_tsan)]
            fibers: Vec::new(),
            limits: Vec::new(),
            current: None,
            idle: Vec::new(),
            trimmed: 0,
            suspended: HashMap::default(),
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
    pub(crate) fn run(self) -> io::Result<()> {
        self.prepared()?.serve();
        Ok(())
    }

    /// With the first context. It is made before there are requests: one that has begun never finds no stack.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn prepared(mut self) -> io::Result<Self> {
        self.current = Some(self.add()?);
        Ok(self)
    }

    /// Runs contexts on this thread until one pauses with [`Pause::Leave`] or [`Pause::Stop`].
    ///
    /// # Panics
    /// If the pool is not [prepared](Self::prepared).
    pub(crate) fn serve(&mut self) {
        let mut current = self.current.take().expect("the first context is made");
        loop {
            thread_state::set_spare(self.idle.len());
            let pause = self.resume(current, Wake::Serve);
            match pause.expect("a context returns only when it is told to finish") {
                Pause::Suspended(request) => {
                    self.suspended.insert(request, current);
                    let spare = self.idle.pop();
                    current = spare.expect("a request gives its worker only to a spare context").context;
                    self.trimmed = self.trimmed.min(self.idle.len());
                }
                Pause::StepAside(request) => {
                    self.rest(current);
                    let suspended = self.suspended.remove(&request);
                    current = suspended.expect("only a request that was suspended here is resumed here");
                }
                Pause::AddSpare => self.add_spare(),
                Pause::Leave | Pause::Stop => break,
            }
        }
        self.current = Some(current);
        thread_state::set_spare(0);
    }

    /// The context that ran last is idle. Of many that are idle, those that were not needed for the longest give
    /// their memory back.
    fn rest(&mut self, context: usize) {
        let paused_at = RUNNING.with(|running| running.paused_at.get());
        let unused = Unused {
            from: self.limits[context],
            to: paused_at.saturating_sub(FRAMES_BYTES_MAX),
        };
        self.idle.push(Idle { context, unused });
        if self.idle.len() > self.trimmed + KEPT {
            self.idle[self.trimmed].unused.give_back();
            self.trimmed += 1;
        }
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
            #[cfg(psp_tsan)]
            Fiber::leave();
        });
        #[cfg(psp_tsan)]
        self.fibers.push(Fiber::new());
        self.contexts.push(ManuallyDrop::new(context));
        self.limits.push(bounds.limit);
        Ok(self.contexts.len() - 1)
    }

    /// Makes an idle context. If that fails, requests run on, and the next one tries again.
    fn add_spare(&mut self) {
        match self.add() {
            Ok(context) => self.idle.push(Idle { context, unused: Unused::default() }),
            Err(error) if !self.is_short => {
                self.is_short = true;
                tracing::warn!(%error, contexts = self.contexts.len(), "cannot make another context");
            }
            Err(_) => {}
        }
    }
}

impl<M> ContextPool<M> {
    /// Lets a context that has no request return, so that what it owns is dropped.
    fn finish(&mut self, context: usize) {
        if self.contexts[context].started() {
            let pause = self.resume(context, Wake::Finish);
            assert_eq!(pause, None, "a context that was told to finish goes on");
        }
        // SAFETY: `drop` takes the index out of `current` or `idle`, where it was once, and nothing uses `contexts`
        // afterwards. The context has returned or never began: nothing on its stack is skipped.
        unsafe { ManuallyDrop::drop(&mut self.contexts[context]) };
    }

    /// `None` when the context returned.
    fn resume(&mut self, index: usize, wake: Wake) -> Option<Pause> {
        let may_grow = self.contexts.len() < self.contexts_max;
        RUNNING.with(|running| running.may_grow.set(may_grow));
        #[cfg(psp_tsan)]
        self.fibers[index].enter();
        let result = self.contexts[index].resume(wake);
        RUNNING.with(|running| running.yielder.set(ptr::null()));
        thread_state::set_stack(StackBounds::default());
        match result {
            CoroutineResult::Yield(pause) => Some(pause),
            CoroutineResult::Return(()) => None,
        }
    }
}

/// Contexts without a request return. Those that are suspended are leaked, and all are when the thread panics.
impl<M> Drop for ContextPool<M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Some(current) = self.current.take() {
            self.finish(current);
        }
        while let Some(idle) = self.idle.pop() {
            self.finish(idle.context);
        }
    }
}

/// Has the pool make another context, if none is idle and it may. To be called on a context where nothing preempts,
/// before a request begins that can be preempted, or that waits. Returns whether a context is idle.
#[inline]
pub(crate) fn ensure_spare() -> bool {
    if thread_state::spare() == 0 && RUNNING.with(|running| running.may_grow.get()) {
        let wake = pause(Pause::AddSpare);
        debug_assert_eq!(wake, Wake::Serve, "the context runs, it is not idle");
    }
    thread_state::spare() > 0
}

/// Stops the context that the caller runs on, until the pool resumes it.
///
/// # Panics
/// Outside of a context.
pub(crate) fn pause(pause: Pause) -> Wake {
    let yielder = RUNNING.with(|running| running.yielder.get());
    assert!(!yielder.is_null(), "only contexts pause");
    let stack = thread_state::stack();
    RUNNING.with(|running| {
        running.paused_at.set(ptr::from_ref(&stack).expose_provenance());
    });
    #[cfg(psp_tsan)]
    Fiber::leave();
    // SAFETY: `yielder` lives on the stack of the context that runs: a context puts it there when it
    // starts and after each pause, and `resume` takes it away when the context stops.
    let wake = unsafe { (*yielder).suspend(pause) };
    RUNNING.with(|running| running.yielder.set(yielder));
    thread_state::set_stack(stack);
    wake
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::rc::Rc;
    use std::time::Instant;

    use super::*;

    const STACK_BYTES: usize = 64 * 1024;

    /// A pool whose contexts leave after each step, which they count.
    fn leaving(counted: &Rc<Cell<u64>>) -> ContextPool<impl FnMut() -> io::Result<Box<dyn FnOnce()>>> {
        let counted = counted.clone();
        ContextPool::new(2, STACK_BYTES, move || {
            let counted = counted.clone();
            let body: Box<dyn FnOnce()> = Box::new(move || {
                loop {
                    counted.set(counted.get() + 1);
                    if pause(Pause::Leave) == Wake::Finish {
                        return;
                    }
                }
            });
            Ok(body)
        })
        .prepared()
        .unwrap()
    }

    #[test]
    fn a_context_that_leaves_goes_on_when_the_thread_serves_again() {
        let counted = Rc::new(Cell::new(0));
        let mut pool = leaving(&counted);
        (0..5).for_each(|_| pool.serve());
        assert_eq!(counted.get(), 5);
        drop(pool);
        assert_eq!(Rc::strong_count(&counted), 1, "the context has returned");
    }

    #[test]
    #[ignore = "prints figures"]
    fn what_a_turn_on_a_context_costs() {
        const TURNS: u32 = 10_000_000;
        let counted = Rc::new(Cell::new(0));
        let mut pool = leaving(&counted);
        let started = Instant::now();
        (0..TURNS).for_each(|_| pool.serve());
        println!("{:?} there and back", started.elapsed() / TURNS);
    }

    /// Contexts that were needed once, and lie below those that are needed again, give their memory back.
    #[test]
    fn idle_contexts_keep_their_frames_only() {
        const CONTEXTS: u32 = KEPT as u32 + 8;
        let used = Rc::new(Cell::new(0_u32));
        let given = used.clone();
        let mut pool = ContextPool::new(CONTEXTS as usize + 1, STACK_BYTES, move || {
            let used = given.clone();
            Ok(move || {
                // The first contexts suspend, one after the other, and the last resumes them all.
                let mut scratch = [1_u8; 16 * 1024];
                std::hint::black_box(&mut scratch);
                let number = used.get();
                used.set(number + 1);
                let mut next = match number < CONTEXTS {
                    true => {
                        ensure_spare();
                        Pause::Suspended(RequestId(number))
                    }
                    false => Pause::StepAside(RequestId(0)),
                };
                while pause(next) == Wake::Serve {
                    let resumed = used.get() - CONTEXTS;
                    used.set(used.get() + 1);
                    next = match resumed < CONTEXTS {
                        true => Pause::StepAside(RequestId(resumed)),
                        false => Pause::Stop,
                    };
                }
            })
        })
        .prepared()
        .unwrap();
        pool.serve();
        assert_eq!(pool.contexts.len() as u32, CONTEXTS + 1);
        assert_eq!(pool.idle.len() as u32, CONTEXTS);
        assert_eq!(pool.trimmed, pool.idle.len() - KEPT);
        for idle in &pool.idle[..pool.trimmed] {
            assert!(idle.unused.to - idle.unused.from > STACK_BYTES / 2);
        }
    }
}
