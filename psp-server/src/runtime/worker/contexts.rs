//! A worker of one thread, whose tasks yield to each other, and wait.
//!
//! ```text
//!   port ── Run ────► the context that runs: Executor::run ── done ──► Completed
//!                          │ asked to yield, or waits
//!                          └─► Yielded or Blocked, suspended; a spare context takes over the loop
//!        ── Resume ─► the context that runs steps aside; the suspended one goes on
//! ```
//!
//! A worker begins with one context, on which its loop runs. As long as no task is preempted or waits, it switches
//! nothing and makes no other.
//!
//! Everything here runs outside of handlers, where nothing preempts: the contexts of a worker share
//! its port without a lock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use psp_policy::{PreemptPolicy, RequestId, RequestType, WorkerId};
use psp_protocols::Framing;

use super::executor::{Executor, Sending};
use super::notices::Notifier;
use super::setup::WorkerSetup;
use crate::error::WorkerFault;
use crate::fiber::{
    self, AlternateStack, ContextPool, Helpers, Pause, PreemptFlag, Surroundings, Target, Timers, Waiters, Waiting,
    Wake, WakeLists, Yielder,
};
use crate::handler::Handler;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::channel::preempter::Preempter;
use crate::runtime::channel::task_port::TaskPort;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::task::Task;
use crate::trace::{Trace, Turn};

/// A task of a server with this framing and handler.
pub(in crate::runtime) type ContextTask<F, H> =
    Task<<H as Handler<<F as Framing>::Head>>::Connection, <F as Framing>::Head>;

/// The way between the loop of a worker and the net thread.
pub(super) trait Port<T> {
    /// The next message. `None` if the thread has other things to do until there is one.
    fn next(&self) -> Option<Message<T>>;

    /// Ends a turn.
    fn report(&self, report: Report<T>);
}

/// The port of a worker with a thread of its own.
struct ThreadPort<T> {
    port: RefCell<TaskPort<T>>,
    spin: Duration,
}

impl<T> Port<T> for ThreadPort<T> {
    fn next(&self) -> Option<Message<T>> {
        Some(self.port.borrow_mut().next(self.spin))
    }

    fn report(&self, report: Report<T>) {
        self.port.borrow_mut().report(report);
    }
}

/// The state that the loop of a worker has in common with all its contexts.
pub(super) struct ContextLoop<F: Framing, H: Handler<F::Head>, P> {
    setup: WorkerSetup<F, H>,
    pub(super) port: P,
    sending: Sending,
    waiters: Waiters,
    /// The request of this turn.
    request: Cell<RequestId>,
    /// Its type, if it is known.
    request_type: Cell<Option<RequestType>>,
    /// When this turn began.
    start: Arc<TurnStart>,
    /// Time that the request of this turn spent between turns, in nanoseconds. Its executor takes it off.
    away_ns: Rc<Cell<u64>>,
    /// When the last turn ended.
    pub(super) ended_ns: Cell<u64>,
}

impl<F: Framing, H: Handler<F::Head>, P: Port<ContextTask<F, H>>> ContextLoop<F, H, P> {
    pub(super) fn new(setup: WorkerSetup<F, H>, port: P, sending: Sending, start: Arc<TurnStart>) -> Rc<Self> {
        Rc::new(Self {
            waiters: Waiters::new(WakeLists::One(setup.wakes.clone())),
            setup,
            port,
            sending,
            request: Cell::new(RequestId(0)),
            request_type: Cell::default(),
            start,
            away_ns: Rc::default(),
            ended_ns: Cell::new(0),
        })
    }

    pub(super) const fn setup(&self) -> &WorkerSetup<F, H> {
        &self.setup
    }

    pub(super) const fn start(&self) -> &Arc<TurnStart> {
        &self.start
    }

    /// The turn that runs, for the trace.
    #[inline]
    fn turn(&self) -> Turn {
        Turn {
            worker: self.setup.worker,
            request: self.request.get(),
            slot: self.setup.shared.slot_of(self.request_type.get()),
        }
    }

    /// Runs `body`, in which the calling thread serves tasks.
    pub(super) fn occupy<T>(&self, flag: &PreemptFlag, body: impl FnOnce() -> T) -> T {
        fiber::occupy(flag, self, || fiber::let_wait(self, body))
    }

    pub(super) fn executor(&self) -> Result<Executor<F, H>, WorkerFault> {
        self.setup.executor(self.sending, self.away_ns.clone())
    }

    fn run(&self, executor: &mut Executor<F, H>, request: RequestId, mut task: ContextTask<F, H>) {
        fiber::begin_turn();
        self.request.set(request);
        self.request_type.set(task.request_type());
        self.away_ns.set(0);
        let now_ns = self.setup.clock.now_ns();
        self.start.announce(fiber::turn(), now_ns);
        let trace = &self.setup.shared.trace;
        trace.begun(now_ns, self.turn(), task.requests());
        let ended_ns = executor.run(&mut task, now_ns);
        self.ended_ns.set(ended_ns);
        trace.completed(ended_ns, self.turn(), task.replies());
        if fiber::is_asked() {
            let telemetry = &self.setup.shared.telemetry;
            let counters = &telemetry.workers[self.setup.worker.index()];
            counters.preemptions_missed.add(1);
            counters.contexts_exhausted.add(u64::from(fiber::spare() == 0));
        }
        self.port.report(Report::Completed(task));
    }

    /// The code of each context.
    fn serve(&self, mut executor: Executor<F, H>) {
        loop {
            let pause = match self.port.next() {
                Some(Message::Run { request, task }) => {
                    if self.setup.shared.can_preempt() {
                        fiber::ensure_spare();
                    }
                    self.run(&mut executor, request, task);
                    continue;
                }
                Some(Message::Resume(request)) => {
                    fiber::begin_turn();
                    Pause::StepAside(request)
                }
                Some(Message::Stop) => Pause::Stop,
                None => Pause::Leave,
            };
            if fiber::pause(pause) == Wake::Finish {
                return;
            }
        }
    }

    /// Ends the turn of the request that runs here, and returns when its next one has begun.
    fn suspend(&self, record: impl FnOnce(&Trace, u64, Turn), report: impl FnOnce(u64) -> Report<ContextTask<F, H>>) {
        let (clock, trace) = (&self.setup.clock, &self.setup.shared.trace);
        let (request, request_type) = (self.request.get(), self.request_type.get());
        let away_ns = self.away_ns.get();
        let left_ns = clock.now_ns();
        // The thread may have moved between two cores whose clocks differ.
        let served_ns = left_ns.saturating_sub(self.start.began_ns());
        self.ended_ns.set(left_ns);
        record(trace, left_ns, self.turn());
        self.port.report(report(served_ns));
        let wake = fiber::pause(Pause::Suspended(request));
        debug_assert_eq!(wake, Wake::Serve, "a suspended context is never told to finish");
        let now_ns = clock.now_ns();
        self.request.set(request);
        self.request_type.set(request_type);
        self.away_ns.set(away_ns + now_ns.saturating_sub(left_ns));
        self.start.announce(fiber::turn(), now_ns);
        trace.begun(now_ns, self.turn(), 0);
    }
}

impl<F: Framing, H: Handler<F::Head>, P: Port<ContextTask<F, H>>> Yielder for ContextLoop<F, H, P> {
    fn yield_now(&self) {
        self.suspend(Trace::yielded, |served_ns| Report::Yielded { served_ns });
    }

    fn make_spare(&self) {
        fiber::ensure_spare();
    }

    fn pause(&self) {
        if fiber::ensure_spare() {
            self.suspend(Trace::blocked, |served_ns| Report::Paused { served_ns });
        }
    }

    fn describe(&self, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        self.setup.shared.describe(self.setup.worker, slot, out)
    }
}

impl<F: Framing, H: Handler<F::Head>, P: Port<ContextTask<F, H>>> Waiting for ContextLoop<F, H, P> {
    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn timers(&self) -> &Arc<Timers> {
        &self.setup.timers
    }

    fn surroundings(&self) -> Option<&Surroundings> {
        self.setup.shared.surroundings()
    }

    fn can_block(&self) -> bool {
        fiber::ensure_spare()
    }

    fn block(&self, block: &dyn Fn(RequestId, WorkerId) -> bool, _meanwhile: &mut dyn FnMut()) {
        if block(self.request.get(), self.setup.worker) {
            self.suspend(Trace::blocked, |served_ns| Report::Blocked { served_ns });
        }
    }

    fn helpers(&self) -> Option<&Arc<Helpers>> {
        Some(&self.setup.shared.helpers)
    }
}

/// Asks the request that runs on a worker to yield: by the flag, and by a signal to requests that do not look
/// at the flag.
pub(crate) struct ContextPreempter {
    pub(super) flag: PreemptFlag,
    target: Option<Target>,
}

impl ContextPreempter {
    pub(crate) fn new(preempt: PreemptPolicy) -> Self {
        Self {
            flag: PreemptFlag::new(),
            target: (preempt == PreemptPolicy::Signal).then(Target::default),
        }
    }
}

impl Preempter for Arc<ContextPreempter> {
    fn preempt(&self, turn: u64) {
        self.flag.ask(turn);
        if let Some(target) = &self.target {
            target.signal();
        }
    }
}

/// Lets the calling thread be signalled, while it serves.
pub(super) struct Signalled<'a>(Option<&'a Target>);

impl<'a> Signalled<'a> {
    pub(super) fn new(preempter: &'a ContextPreempter) -> Self {
        let target = preempter.target.as_ref();
        if let Some(target) = target {
            fiber::prepare_thread();
            target.register();
        }
        Self(target)
    }
}

impl Drop for Signalled<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.0 {
            target.retire();
        }
    }
}

type Body = Box<dyn FnOnce()>;

/// Up to `contexts_max` contexts of a worker, each with an executor; that of the first was made before. The first
/// context tells `notifier` that it runs.
pub(super) type Contexts = ContextPool<Box<dyn FnMut() -> io::Result<Body>>>;

pub(super) fn contexts<F, H, P>(
    context_loop: &Rc<ContextLoop<F, H, P>>,
    contexts_max: usize,
    first: Executor<F, H>,
    notifier: Option<Notifier>,
) -> Contexts
where
    F: Framing,
    H: Handler<F::Head>,
    P: Port<ContextTask<F, H>> + 'static,
{
    let context_loop = context_loop.clone();
    let stack_bytes = context_loop.setup.shared.config.stack_bytes;
    let (mut first, mut untold) = (Some(first), notifier);
    let make_body = move || {
        let executor = match first.take() {
            Some(executor) => executor,
            None => context_loop.executor().map_err(io::Error::other)?,
        };
        let (context_loop, untold) = (context_loop.clone(), untold.take());
        Ok::<Body, _>(Box::new(move || {
            untold.inspect(Notifier::ready);
            context_loop.serve(executor);
        }))
    };
    fiber::report_overflows();
    ContextPool::new(contexts_max, stack_bytes, Box::new(make_body))
}

/// Serves tasks on the calling thread until the worker is told to stop. Each context has an executor. The worker is
/// ready when it has a stack.
///
/// # Errors
/// When there is no memory for the first stack, or the handler cannot make the worker's state.
pub(crate) fn serve_on_contexts<F: Framing, H: Handler<F::Head>>(
    setup: WorkerSetup<F, H>,
    port: TaskPort<ContextTask<F, H>>,
    start: Arc<TurnStart>,
    preempter: &ContextPreempter,
) -> Result<(), WorkerFault> {
    let port = ThreadPort { port: RefCell::new(port), spin: setup.spin };
    let context_loop = ContextLoop::new(setup, port, Sending::AtOnce, start);
    let first = context_loop.executor()?;
    context_loop.occupy(&preempter.flag, || {
        let _alternate = AlternateStack::install().map_err(WorkerFault::Stacks)?;
        let _signalled = Signalled::new(preempter);
        let notifier = context_loop.setup.notifier.clone();
        let contexts_max = context_loop.setup.shared.config.contexts();
        let contexts = contexts(&context_loop, contexts_max, first, Some(notifier));
        contexts.run().map_err(WorkerFault::Stacks)
    })
}
