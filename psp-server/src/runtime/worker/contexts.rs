//! A worker of one thread, whose tasks give way to each other.
//!
//! ```text
//!   port ── Run ────► the context that runs: Executor::run ── done ──► Completed
//!                          │ asked to give way
//!                          └─► Yielded, suspended; a spare context takes over the loop
//!        ── Resume ─► the context that runs steps aside; the suspended one goes on
//! ```
//!
//! Under a policy that runs every request to its end the worker has no contexts: it runs tasks on the thread's
//! own stack. It changes to contexts with the first task under a policy that can preempt.
//!
//! Everything here runs outside of handlers, where nothing preempts: the contexts of a worker share
//! its port without a lock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::{fmt, io};

use psp_policy::{PreemptPolicy, RequestId};
use psp_protocols::Framing;

use super::executor::Executor;
use super::notices::Notifier;
use super::setup::WorkerSetup;
use crate::error::WorkerFault;
use crate::fiber::{self, AlternateStack, ContextPool, GiveWay, Pause, PreemptFlag, Target, Wake};
use crate::handler::Handler;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::channel::preempter::Preempter;
use crate::runtime::channel::task_port::TaskPort;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::task::Task;

/// A task of a server with this framing and handler.
type ContextTask<F, H> =
    Task<<H as Handler<<F as Framing>::Head>>::Connection, <F as Framing>::Head>;

/// The state that the loop of a worker has in common with all its contexts.
struct ContextLoop<F: Framing, H: Handler<F::Head>> {
    setup: WorkerSetup<F, H>,
    port: RefCell<TaskPort<ContextTask<F, H>>>,
    /// A message that was read and is still to be carried out.
    unread: Cell<Option<Message<ContextTask<F, H>>>>,
    /// The request of this turn.
    request: Cell<RequestId>,
    /// When this turn began.
    start: Arc<TurnStart>,
    /// Time that the request of this turn spent between turns, in nanoseconds. Its executor takes it off.
    away_ns: Rc<Cell<u64>>,
}

impl<F: Framing, H: Handler<F::Head>> ContextLoop<F, H> {
    fn next(&self) -> Message<ContextTask<F, H>> {
        let unread = self.unread.take();
        unread.unwrap_or_else(|| self.port.borrow_mut().next(self.setup.spin))
    }

    fn executor(&self) -> Result<Executor<F, H>, WorkerFault> {
        self.setup.executor(self.away_ns.clone())
    }

    fn run(&self, executor: &mut Executor<F, H>, request: RequestId, mut task: ContextTask<F, H>) {
        fiber::begin_turn();
        self.request.set(request);
        self.away_ns.set(0);
        self.start
            .announce(fiber::turn(), self.setup.clock.now_ns());
        executor.run(&mut task);
        if fiber::is_asked() {
            let telemetry = &self.setup.shared.telemetry;
            let counters = &telemetry.workers[self.setup.worker.index()];
            counters.preemptions_missed.add(1);
            counters
                .contexts_exhausted
                .add(u64::from(fiber::spare() == 0));
        }
        self.port.borrow_mut().report(Report::Completed(task));
    }

    /// Runs tasks to their end, on the thread's own stack, until the policy can preempt. Returns `false` if the
    /// worker has to stop.
    fn serve_to_completion(&self, executor: &mut Executor<F, H>) -> bool {
        loop {
            match self.next() {
                Message::Stop => return false,
                message if self.setup.shared.can_preempt() => {
                    self.unread.set(Some(message));
                    return true;
                }
                Message::Run { request, task } => self.run(executor, request, task),
                Message::Resume(request) => {
                    unreachable!("request {} never yielded", request.0)
                }
            }
        }
    }

    /// The code of each context.
    fn serve_on_context(&self, mut executor: Executor<F, H>) {
        loop {
            let pause = match self.next() {
                Message::Run { request, task } => {
                    if self.setup.shared.can_preempt() {
                        fiber::ensure_spare();
                    }
                    self.run(&mut executor, request, task);
                    continue;
                }
                Message::Resume(request) => {
                    fiber::begin_turn();
                    Pause::StepAside(request)
                }
                Message::Stop => Pause::Stop,
            };
            if fiber::pause(pause) == Wake::Finish {
                return;
            }
        }
    }
}

impl<F: Framing, H: Handler<F::Head>> GiveWay for ContextLoop<F, H> {
    fn give_way(&self) {
        let clock = &self.setup.clock;
        let request = self.request.get();
        let away_ns = self.away_ns.get();
        let left_ns = clock.now_ns();
        // The thread may have moved between two cores whose clocks differ.
        let served_ns = left_ns.saturating_sub(self.start.began_ns());
        self.port.borrow_mut().report(Report::Yielded { served_ns });
        let wake = fiber::pause(Pause::Yielded(request));
        debug_assert_eq!(
            wake,
            Wake::Serve,
            "a suspended context is never told to finish"
        );
        let now_ns = clock.now_ns();
        self.request.set(request);
        self.away_ns.set(away_ns + now_ns.saturating_sub(left_ns));
        self.start.announce(fiber::turn(), now_ns);
    }

    fn describe(&self, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        self.setup.shared.describe(self.setup.worker, slot, out)
    }
}

/// Asks the request that runs on a worker to give way: by the flag, and by a signal to requests that do not look
/// at the flag.
pub(crate) struct ContextPreempter {
    flag: PreemptFlag,
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
struct Signalled<'a>(Option<&'a Target>);

impl<'a> Signalled<'a> {
    fn new(target: Option<&'a Target>) -> Self {
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

/// Serves tasks on the calling thread until the worker is told to stop. Each context has an executor. The worker is
/// ready when it has the stacks that the first policy needs.
///
/// # Errors
/// When there is no memory for the first stacks, or the handler cannot make the worker's state.
pub(crate) fn serve_on_contexts<F: Framing, H: Handler<F::Head>>(
    setup: WorkerSetup<F, H>,
    port: TaskPort<ContextTask<F, H>>,
    start: Arc<TurnStart>,
    preempter: &ContextPreempter,
) -> Result<(), WorkerFault> {
    let context_loop = Rc::new(ContextLoop {
        setup,
        port: RefCell::new(port),
        unread: Cell::new(None),
        request: Cell::new(RequestId(0)),
        start,
        away_ns: Rc::default(),
    });
    let mut first = Some(context_loop.executor()?);
    fiber::occupy(&preempter.flag, &*context_loop, || {
        let WorkerSetup {
            shared, notifier, ..
        } = &context_loop.setup;
        let mut untold = Some(notifier.clone());
        if !shared.can_preempt() {
            untold.take().inspect(Notifier::ready);
            let executor = first.as_mut().expect("not taken yet");
            if !context_loop.serve_to_completion(executor) {
                return Ok(());
            }
        }
        let config = &shared.config;
        let pool = ContextPool::new(config.contexts_per_worker, config.stack_bytes, || {
            let executor = match first.take() {
                Some(executor) => executor,
                None => context_loop.executor().map_err(io::Error::other)?,
            };
            let context_loop = context_loop.clone();
            let untold = untold.take();
            Ok(move || {
                untold.inspect(Notifier::ready);
                context_loop.serve_on_context(executor);
            })
        });
        fiber::report_overflows();
        let _alternate = AlternateStack::install().map_err(WorkerFault::Stacks)?;
        let _signalled = Signalled::new(preempter.target.as_ref());
        pool.run().map_err(WorkerFault::Stacks)
    })
}
