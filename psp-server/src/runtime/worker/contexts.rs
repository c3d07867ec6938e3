//! A worker whose tasks give way to each other.
//!
//! ```text
//!   port ── Run ────► the context that runs: Executor::run ── done ──► Completed
//!                          │ asked to give way
//!                          └─► Yielded, suspended; a spare context takes over the loop
//!        ── Resume ─► the context that runs steps aside; the suspended one goes on
//! ```
//!
//! Everything here runs outside of handlers, where nothing preempts: the contexts of a worker share
//! its port without a lock.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use psp_protocols::Framing;

use crate::error::RunError;
use crate::fiber::{self, AlternateStack, ContextPool, GiveWay, Pause, PreemptFlag, Target, Wake};
use crate::handler::Handler;
use crate::policy::{RequestId, WorkerId};
use crate::preempt::PreemptPolicy;
use crate::runtime::channel::{Message, Preempter, Report, TaskPort};
use crate::runtime::clock::Clock;
use crate::runtime::executor::Executor;
use crate::runtime::shared::Shared;
use crate::runtime::task::Task;
use crate::runtime::turn_start::TurnStart;

/// What all contexts of a worker have in common.
pub(crate) struct Desk<C> {
    worker: WorkerId,
    port: RefCell<TaskPort<Task<C>>>,
    spin: Duration,
    clock: Clock,
    shared: Arc<Shared>,
    /// The request of this turn.
    request: Cell<RequestId>,
    /// When this turn began.
    start: Arc<TurnStart>,
    /// Time that the request of this turn was away, in nanoseconds. Its executor takes it off.
    away_ns: Rc<Cell<u64>>,
}

impl<C> Desk<C> {
    pub(crate) fn new(
        worker: WorkerId,
        port: TaskPort<Task<C>>,
        spin: Duration,
        clock: Clock,
        shared: Arc<Shared>,
        start: Arc<TurnStart>,
        away_ns: Rc<Cell<u64>>,
    ) -> Self {
        Self {
            worker,
            port: RefCell::new(port),
            spin,
            clock,
            shared,
            request: Cell::new(RequestId(0)),
            start,
            away_ns,
        }
    }

    fn run<F: Framing, H: Handler<Connection = C>>(
        &self,
        executor: &mut Executor<F, H>,
        request: RequestId,
        mut task: Task<C>,
    ) {
        fiber::begin_turn();
        self.request.set(request);
        self.away_ns.set(0);
        self.start.announce(fiber::turn(), self.clock.now_ns());
        executor.run(&mut task);
        if fiber::is_asked() {
            let counters = &self.shared.telemetry.workers[self.worker.index()];
            counters.preemptions_missed.add(1);
            counters
                .contexts_exhausted
                .add(u64::from(fiber::spare() == 0));
        }
        self.port.borrow_mut().report(Report::Completed(task));
    }
}

impl<C> GiveWay for Desk<C> {
    fn give_way(&self) {
        let request = self.request.get();
        let away_ns = self.away_ns.get();
        let left_ns = self.clock.now_ns();
        self.port.borrow_mut().report(Report::Yielded {
            served_ns: left_ns - self.start.began_ns(),
        });
        let wake = fiber::pause(Pause::Yielded(request));
        debug_assert_eq!(
            wake,
            Wake::Serve,
            "what is suspended is never told to finish"
        );
        let now_ns = self.clock.now_ns();
        self.request.set(request);
        self.away_ns.set(away_ns + now_ns.saturating_sub(left_ns));
        self.start.announce(fiber::turn(), now_ns);
    }

    fn describe(&self, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        self.shared.describe(self.worker, slot, out)
    }
}

/// Reaches what runs on a worker: by the flag, and by a signal where requests do not look at it.
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

/// Makes a thread one that can be signalled, while it serves.
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

/// Serves tasks on contexts until it is told to stop, with an executor each.
///
/// # Errors
/// When there is no memory for their stacks.
pub(crate) fn serve_on_contexts<F: Framing, H: Handler>(
    desk: &Rc<Desk<H::Connection>>,
    preempter: &ContextPreempter,
    mut executor: impl FnMut() -> Executor<F, H>,
) -> Result<(), RunError> {
    let config = &desk.shared.config;
    let pool = ContextPool::new(config.contexts_per_worker, config.stack_bytes, || {
        let (desk, executor) = (desk.clone(), executor());
        move || message_loop(&desk, executor)
    });
    let pool = pool.map_err(RunError::Stacks)?;
    fiber::report_overflows();
    let _alternate = AlternateStack::install().map_err(RunError::Stacks)?;
    fiber::occupy(&preempter.flag, &**desk, || {
        let _signalled = Signalled::new(preempter.target.as_ref());
        pool.run();
    });
    Ok(())
}

/// What each context does.
fn message_loop<F: Framing, H: Handler>(desk: &Desk<H::Connection>, mut executor: Executor<F, H>) {
    loop {
        let message = desk.port.borrow_mut().next(desk.spin);
        let pause = match message {
            Message::Run { request, task } => {
                desk.run(&mut executor, request, task);
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
