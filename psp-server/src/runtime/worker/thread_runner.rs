//! Workers that receive for themselves, and whose requests the kernel makes yield: those with a quantum run on
//! [request threads](crate::runtime::request_threads).
//!
//! ```text
//!   worker ── lends its turn ──► request thread: Executor::run ── done ──► Completed
//!                                  │ preempted: Yielded
//!                                  └── another worker lends it a turn ──► goes on
//! ```
//!
//! A request thread is started when a request with a quantum begins and no other is idle. It has a `Handler::Worker` of
//! its own, as each thread of a team has.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use psp_policy::{RequestId, WorkerId};
use psp_protocols::Framing;

use super::contexts::ContextTask;
use super::executor::Sending;
use super::setup::WorkerSetup;
use crate::error::WorkerFault;
use crate::fiber::{self, Helpers, Looked, Surroundings, Timers, TurnWatch, Waiters, Waiting, WakeLists, Yielder};
use crate::handler::Handler;
use crate::runtime::channel::message::Report;
use crate::runtime::distributed::Moving;
use crate::runtime::request_threads::{
    Lent, LentTurn, Readiness, RequestThreadNumber, RequestThreadPreempter, RequestThreads,
};
use crate::shared::Shared;

/// How long a request waits for a thread to run it.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// What all workers of a server have together whose requests move.
pub(crate) struct ThreadRunner<F: Framing, H: Handler<F::Head>> {
    request_threads: Arc<RequestThreads<ContextTask<F, H>>>,
    moving: Arc<Moving>,
    /// Of each worker.
    wakes: WakeLists,
    timers: Box<[Arc<Timers>]>,
    /// A request thread could not make its state, or the system had no thread. The log says so.
    is_short: AtomicBool,
}

/// A request that has to run, or to go on.
pub(crate) struct ThreadTurn<T> {
    pub(crate) number: RequestThreadNumber,
    pub(crate) request: RequestId,
    /// `None` if it has begun.
    pub(crate) task: Option<T>,
    /// The number of the turn, as the board shows it.
    pub(crate) turn: u64,
}

type TurnOf<F, H> = ThreadTurn<ContextTask<F, H>>;
type LentOf<F, H> = Lent<ContextTask<F, H>>;

impl<F: Framing, H: Handler<F::Head>> ThreadRunner<F, H> {
    /// Workers with these lists and timers.
    pub(crate) fn new(
        request_threads: RequestThreads<ContextTask<F, H>>,
        moving: Arc<Moving>,
        wakes: WakeLists,
        timers: Box<[Arc<Timers>]>,
    ) -> Self {
        Self {
            request_threads: Arc::new(request_threads),
            moving,
            wakes,
            timers,
            is_short: AtomicBool::new(false),
        }
    }

    /// Asks the requests of a worker to yield.
    pub(crate) fn preempter(&self, worker: WorkerId) -> RequestThreadPreempter<ContextTask<F, H>> {
        RequestThreadPreempter::new(self.request_threads.clone(), worker)
    }

    /// Has the threads end that have no request, and returns the handles of all.
    pub(crate) fn stop(&self) -> Vec<JoinHandle<()>> {
        self.request_threads.stop()
    }

    /// Runs a turn of a request on its thread, for the worker of `setup`, which is the calling thread. Gives the
    /// request back if it has not begun and there is no thread for it.
    pub(super) fn run(
        self: &Arc<Self>,
        setup: &WorkerSetup<F, H>,
        turn: TurnOf<F, H>,
        watch: Option<&dyn TurnWatch>,
    ) -> Result<LentOf<F, H>, TurnOf<F, H>> {
        if turn.task.is_some() && !self.is_ready(setup, turn.number) {
            self.moving.give_up(turn.request);
            return Err(turn);
        }
        let ThreadTurn { number, request, task, turn } = turn;
        let turn = LentTurn {
            worker: setup.worker,
            core_index: setup.core_index,
            turn,
            request_thread: number,
            request,
            task,
        };
        let lent = self.request_threads.lend(turn, watch);
        if lent.was_asked && matches!(lent.report, Report::Completed(_)) {
            let counters = &setup.shared.telemetry.workers[setup.worker.index()];
            counters.preemptions_missed.add(1);
        }
        Ok(lent)
    }

    /// Whether a request thread can take a request. Starts its thread, if it has none.
    fn is_ready(self: &Arc<Self>, setup: &WorkerSetup<F, H>, number: RequestThreadNumber) -> bool {
        match self.request_threads.readiness(number) {
            Readiness::Ready => true,
            Readiness::Failed => false,
            Readiness::Unborn | Readiness::Starting => self.start(setup, number),
        }
    }

    #[cold]
    fn start(self: &Arc<Self>, setup: &WorkerSetup<F, H>, number: RequestThreadNumber) -> bool {
        self.request_threads.set_readiness(number, Readiness::Starting);
        let this = self.clone();
        let thread = setup.spawn(format!("psp-request-{number}"), move |setup| {
            setup.apply_request_thread_scheduling();
            if let Err(error) = this.serve(number, setup) {
                this.fail(number, &error);
            }
            Ok(())
        });
        match thread {
            Ok(thread) => self.request_threads.add_thread(thread),
            Err(error) => self.fail(number, &error),
        }
        let deadline = Instant::now() + START_TIMEOUT;
        while self.request_threads.readiness(number) == Readiness::Starting && Instant::now() < deadline {
            std::thread::yield_now();
        }
        self.request_threads.readiness(number) == Readiness::Ready
    }

    fn fail(&self, number: RequestThreadNumber, error: &dyn fmt::Display) {
        self.request_threads.set_readiness(number, Readiness::Failed);
        if !self.is_short.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "no more threads for requests: others cannot be preempted");
        }
    }

    /// The life of a request thread. Its state is made for the worker of `setup`.
    ///
    /// # Errors
    /// When the handler cannot make that state.
    fn serve(&self, number: RequestThreadNumber, setup: &WorkerSetup<F, H>) -> Result<(), WorkerFault> {
        let away_ns = Rc::<Cell<u64>>::default();
        let worker = Rc::new(Cell::new(setup.worker));
        // The worker's own thread sends the reply, as it does for requests that it runs itself.
        let sending = Sending::WithTheTurn;
        let mut executor = setup.executor_of(worker.clone(), sending, away_ns.clone())?;
        let member = ThreadWorker {
            request_threads: &self.request_threads,
            number,
            worker,
            shared: &setup.shared,
            waiters: Waiters::new(self.wakes.clone()),
            timers: &self.timers,
            away_ns,
        };
        let serve = || {
            fiber::set_spare(usize::MAX);
            self.request_threads.serve(number, |task| {
                member.has_turn();
                fiber::watched(&member, || executor.run(task, setup.clock.now_ns()));
            });
        };
        let flag = self.request_threads.flag(number);
        fiber::occupy(flag, &member, || fiber::let_wait(&member, serve));
        Ok(())
    }
}

/// What a request thread is for the request that it runs.
struct ThreadWorker<'a, T> {
    request_threads: &'a RequestThreads<T>,
    number: RequestThreadNumber,
    /// Whose turn it has, or had last.
    worker: Rc<Cell<WorkerId>>,
    shared: &'a Shared,
    waiters: Waiters,
    /// Of each worker.
    timers: &'a [Arc<Timers>],
    away_ns: Rc<Cell<u64>>,
}

impl<T> ThreadWorker<'_, T> {
    /// The request has a worker, maybe another one.
    fn has_turn(&self) {
        fiber::set_turn(self.request_threads.own_turn(self.number));
        self.away_ns.set(self.request_threads.away_ns(self.number));
        self.worker.set(self.request_threads.worker(self.number));
    }
}

impl<T> Yielder for ThreadWorker<'_, T> {
    fn yield_now(&self) {
        self.request_threads.yield_now(self.number);
        self.has_turn();
    }

    fn describe(&self, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        self.shared.describe(self.worker.get(), slot, out)
    }

    fn open(&self) {
        self.request_threads.open(self.number);
    }

    fn close(&self) {
        self.request_threads.close(self.number);
        self.has_turn();
    }

    fn try_close(&self) -> bool {
        self.request_threads.try_close(self.number)
    }
}

impl<T> TurnWatch for ThreadWorker<'_, T> {
    /// The worker's own thread sees how long the turn lasts.
    fn look(&self, has_said_long: bool) -> Looked {
        if !has_said_long {
            return Looked::GoesOn;
        }
        self.request_threads.say_long(self.number);
        Looked::Settled
    }
}

impl<T> Waiting for ThreadWorker<'_, T> {
    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn timers(&self) -> &Arc<Timers> {
        &self.timers[self.request_threads.worker(self.number).index()]
    }

    fn surroundings(&self) -> Option<&Surroundings> {
        self.shared.surroundings()
    }

    /// The worker's own thread goes on.
    fn can_block(&self) -> bool {
        true
    }

    fn block(&self, block: &dyn Fn(RequestId, WorkerId) -> bool, meanwhile: &mut dyn FnMut()) {
        self.request_threads.closed(self.number, || {
            let (request, worker) =
                (self.request_threads.request(self.number), self.request_threads.worker(self.number));
            if block(request, worker) {
                self.request_threads.block(self.number, meanwhile);
            }
            self.has_turn();
        });
    }

    fn helpers(&self) -> Option<&Arc<Helpers>> {
        None
    }
}
