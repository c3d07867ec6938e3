//! The worker that the net thread itself is: worker 0, or each of those that receive for themselves.
//!
//! ```text
//!   net thread's own stack                     context
//!     run, resume ── message, switch ───────►  Executor::run ─► done, or waits: report
//!                 ◄─ switch, report ─────────  (a spare context, if the request waits)
//! ```
//!
//! The net thread runs no request on its own stack, so that a request which waits, or yields, leaves it free to
//! receive others.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use psp_policy::RequestId;
use psp_protocols::Framing;

use super::contexts::{ContextLoop, ContextPreempter, ContextTask, Contexts, Port, Signalled, contexts};
use super::executor::Sending;
use super::setup::WorkerSetup;
use super::thread_runner::{ThreadRunner, ThreadTurn};
use crate::error::WorkerFault;
use crate::fiber::{self, AlternateStack, TurnWatch};
use crate::handler::Handler;
use crate::request_types::control_begun_max;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::request_threads::RequestThreadNumber;

/// The port of the net thread to itself: one message, and its report.
pub(super) struct InlinePort<T> {
    message: Cell<Option<Message<T>>>,
    report: Cell<Option<Report<T>>>,
}

impl<T> Port<T> for InlinePort<T> {
    fn next(&self) -> Option<Message<T>> {
        self.message.take()
    }

    fn report(&self, report: Report<T>) {
        self.report.set(Some(report));
    }
}

type InlineLoop<F, H> = ContextLoop<F, H, InlinePort<ContextTask<F, H>>>;

/// A turn on the net thread.
pub(crate) struct EndedTurn<T> {
    pub(crate) report: Report<T>,
    /// When the turn ended, in nanoseconds of the runtime's clock.
    pub(crate) ended_ns: u64,
    /// It was asked to yield.
    pub(crate) was_asked: bool,
    /// The worker did not hold the request before.
    pub(crate) is_new_here: bool,
    /// When the turn began on the thread of the request, if it was there.
    pub(crate) thread_began_ns: Option<u64>,
}

/// See the [module](self).
pub(crate) struct InlineWorker<F: Framing, H: Handler<F::Head>> {
    contexts: Contexts,
    context_loop: Rc<InlineLoop<F, H>>,
    preempter: Arc<ContextPreempter>,
    /// Where requests move from worker to worker.
    thread_runner: Option<Arc<ThreadRunner<F, H>>>,
}

impl<F: Framing, H: Handler<F::Head>> InlineWorker<F, H> {
    /// A worker on the calling thread. Other threads may ask its requests to yield by `preempter`.
    ///
    /// # Errors
    /// When the handler cannot make the worker's state, or there is no memory for the first stack.
    pub(crate) fn new(
        setup: WorkerSetup<F, H>,
        start: Arc<TurnStart>,
        preempter: Arc<ContextPreempter>,
    ) -> Result<Self, WorkerFault> {
        let port = InlinePort { message: Cell::default(), report: Cell::default() };
        let context_loop = ContextLoop::new(setup, port, Sending::WithTheTurn, start);
        let first = context_loop.executor()?;
        let shared = &context_loop.setup().shared;
        let for_control = match shared.types.has_control() {
            true => control_begun_max(&shared.config),
            false => 0,
        };
        let contexts_max = shared.config.contexts() + for_control;
        let contexts = contexts(&context_loop, contexts_max, first, None);
        Ok(Self {
            contexts: contexts.prepared().map_err(WorkerFault::Stacks)?,
            context_loop,
            preempter,
            thread_runner: None,
        })
    }

    /// As this, where requests with a quantum run on request threads.
    pub(crate) fn with_thread_runner(self, thread_runner: Option<Arc<ThreadRunner<F, H>>>) -> Self {
        Self { thread_runner, ..self }
    }

    /// The part that [`InlineThread`] needs.
    pub(crate) fn thread(&self) -> InlineThread<F, H> {
        InlineThread {
            context_loop: self.context_loop.clone(),
            preempter: self.preempter.clone(),
        }
    }

    /// Runs a task until its turn ends, or has the next turn of a task that blocked or yielded.
    #[inline]
    pub(crate) fn run(&mut self, request: RequestId, task: Option<ContextTask<F, H>>) -> EndedTurn<ContextTask<F, H>> {
        let port = &self.context_loop.port;
        let is_new_here = task.is_some();
        port.message.set(Some(match task {
            Some(task) => Message::Run { request, task },
            None => Message::Resume(request),
        }));
        self.contexts.serve();
        let report = port.report.take();
        let report = report.expect("a context that leaves has reported");
        EndedTurn {
            report,
            ended_ns: self.context_loop.ended_ns.get(),
            was_asked: fiber::is_asked(),
            is_new_here,
            thread_began_ns: None,
        }
    }

    /// Runs a turn of a request on its own thread, or on this one if it begins and there is no such thread.
    /// `watch` hears if the turn becomes long, unless it is under a watch already.
    pub(crate) fn run_on_thread(
        &mut self,
        request: RequestId,
        number: RequestThreadNumber,
        task: Option<ContextTask<F, H>>,
        watch: Option<&dyn TurnWatch>,
    ) -> EndedTurn<ContextTask<F, H>> {
        let turn = ThreadTurn { number, request, task, turn: fiber::turn() + 1 };
        let ended = match &self.thread_runner {
            Some(thread_runner) => thread_runner.run(self.context_loop.setup(), turn, watch),
            None => Err(turn),
        };
        match ended {
            Ok(lent) => {
                fiber::begin_turn();
                EndedTurn {
                    report: lent.report,
                    ended_ns: lent.ended_ns,
                    was_asked: lent.was_asked,
                    is_new_here: lent.is_new_here,
                    thread_began_ns: Some(self.context_loop.start().began_ns()),
                }
            }
            Err(ThreadTurn { task, .. }) => self.run(request, task),
        }
    }
}

/// The net thread while it is a worker.
pub(crate) struct InlineThread<F: Framing, H: Handler<F::Head>> {
    context_loop: Rc<InlineLoop<F, H>>,
    preempter: Arc<ContextPreempter>,
}

impl<F: Framing, H: Handler<F::Head>> InlineThread<F, H> {
    /// Runs `body`, the net thread's whole life, in which it runs tasks.
    ///
    /// # Errors
    /// When there is no memory for the stack of the thread's signals.
    pub(crate) fn occupy<T>(self, body: impl FnOnce() -> T) -> Result<T, WorkerFault> {
        let Self { context_loop, preempter } = self;
        let _alternate = AlternateStack::install().map_err(WorkerFault::Stacks)?;
        let _signalled = Signalled::new(&preempter);
        Ok(context_loop.occupy(&preempter.flag, body))
    }
}
