//! A worker whose tasks the kernel makes yield to each other.
//!
//! ```text
//!   port ── Run ────► the active thread: Executor::run ── done ──► Completed
//!                          │ preempted
//!                          └─► a thread that was idle: Yielded, takes over the loop
//!        ── Resume ─► the active thread makes the suspended request's thread active, and is idle
//! ```
//!
//! [`Team`] has the threads; this is what each of them does. The worker starts with one thread. The active thread
//! starts another when a request begins that can be preempted, or waits, and no thread is idle to take over.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use psp_policy::{RequestId, WorkerId};
use psp_protocols::Framing;

use super::executor::Sending;
use super::setup::WorkerSetup;
use crate::error::{RunError, WorkerFault};
use crate::fiber::{self, Helpers, Surroundings, Timers, Waiters, Waiting, WakeLists, Yielder};
use crate::handler::Handler;
use crate::runtime::channel::task_port::TaskPort;
use crate::runtime::task::Task;
use crate::runtime::team::{FIRST, Team, TeamThread, TurnListener};
use crate::shared::Shared;
use crate::telemetry::WorkerCounters;
use crate::trace::Turn;

/// Threads that a worker keeps idle: one to take over, and one more, because a thread that lost its turn at the
/// instant at which it yielded may hold one back for a moment.
const SPARE_THREADS: usize = 2;
/// How long a request waits for a thread that could take over from it.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// A thread as a member of its team, and the time that its request spent between turns.
struct TeamWorker<'a> {
    team: &'a Team,
    thread: TeamThread,
    worker: WorkerId,
    shared: &'a Shared,
    waiters: Waiters,
    timers: &'a Arc<Timers>,
    /// Starts a thread that can take over, if there may be another.
    start_spare: &'a dyn Fn(),
    away_ns: Rc<Cell<u64>>,
}

impl TeamWorker<'_> {
    /// The request has the worker, maybe again.
    fn has_turn(&self) {
        fiber::set_turn(self.team.turn());
        self.away_ns.set(self.team.away_ns(self.thread));
    }
}

impl Yielder for TeamWorker<'_> {
    fn yield_now(&self) {
        self.team.yield_now(self.thread);
        self.has_turn();
    }

    fn describe(&self, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        self.shared.describe(self.worker, slot, out)
    }

    fn open(&self) {
        self.team.open(self.thread);
    }

    fn close(&self) {
        self.team.close(self.thread);
        self.has_turn();
    }

    fn try_close(&self) -> bool {
        self.team.try_close(self.thread)
    }
}

impl Waiting for TeamWorker<'_> {
    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn timers(&self) -> &Arc<Timers> {
        self.timers
    }

    fn surroundings(&self) -> Option<&Surroundings> {
        self.shared.surroundings()
    }

    fn can_block(&self) -> bool {
        self.team.closed(self.thread, || {
            if !self.team.has_successor() {
                (self.start_spare)();
            }
            self.has_turn();
            self.team.has_successor()
        })
    }

    fn block(&self, block: &dyn Fn(RequestId, WorkerId) -> bool, meanwhile: &mut dyn FnMut()) {
        self.team.closed(self.thread, || {
            if block(self.team.request(self.thread), self.worker) {
                self.team.block(self.thread, meanwhile);
            }
            self.has_turn();
        });
    }

    fn helpers(&self) -> Option<&Arc<Helpers>> {
        None
    }
}

/// Records the turns of a team's requests after the first.
#[derive(Debug)]
pub(crate) struct TracedTurns {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: WorkerId,
}

impl TurnListener for TracedTurns {
    fn ended(&self, now_ns: u64, request: RequestId, slot: usize, is_blocked: bool) {
        let turn = Turn { worker: self.worker, request, slot };
        match is_blocked {
            true => self.shared.trace.blocked(now_ns, turn),
            false => self.shared.trace.yielded(now_ns, turn),
        }
    }

    fn resumed(&self, now_ns: u64, request: RequestId, slot: usize) {
        let turn = Turn { worker: self.worker, request, slot };
        self.shared.trace.begun(now_ns, turn, 0);
    }
}

/// What the threads of a team start with.
pub(crate) struct TeamSetup<F: Framing, H: Handler<F::Head>> {
    setup: WorkerSetup<F, H>,
    team: Arc<Team>,
    port: Mutex<TaskPort<Task<H::Connection, F::Head>>>,
    /// A further thread of the team could not make its state. The log says so.
    is_short: AtomicBool,
}

impl<F: Framing, H: Handler<F::Head>> TeamSetup<F, H> {
    pub(crate) fn new(
        setup: WorkerSetup<F, H>,
        team: Arc<Team>,
        port: TaskPort<Task<H::Connection, F::Head>>,
    ) -> Arc<Self> {
        let port = Mutex::new(port);
        Arc::new(Self { setup, team, port, is_short: AtomicBool::new(false) })
    }

    /// Starts the team's next thread, if it may have another.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn start_thread(self: &Arc<Self>) -> Result<(), RunError> {
        let Some(thread) = self.team.next_thread() else {
            return Ok(());
        };
        let this = self.clone();
        let name = format!("psp-worker-{}.{thread}", self.setup.worker.index());
        let handle = self.setup.spawn(name, move |setup| {
            setup.apply_team_scheduling();
            match this.serve(thread) {
                Err(error) if thread != FIRST => this.give_up_spares(&error),
                served => return served,
            }
            Ok(())
        })?;
        self.team.add_thread(handle);
        Ok(())
    }

    /// Serves tasks as one thread of the team until the team is told to stop.
    ///
    /// # Errors
    /// When the handler cannot make the thread's state.
    fn serve(self: &Arc<Self>, thread: TeamThread) -> Result<(), WorkerFault> {
        let Self { setup, team, port, .. } = &**self;
        let away_ns = Rc::<Cell<u64>>::default();
        let mut executor = setup.executor(Sending::AtOnce, away_ns.clone())?;
        if thread == FIRST {
            setup.notifier.ready();
        }
        let member = TeamWorker {
            team,
            thread,
            worker: setup.worker,
            shared: &setup.shared,
            waiters: Waiters::new(WakeLists::One(setup.wakes.clone())),
            timers: &setup.timers,
            start_spare: &|| self.start_spare(),
            away_ns,
        };
        let counters = &setup.shared.telemetry.workers[setup.worker.index()];
        let serve = || {
            fiber::set_spare(usize::MAX);
            team.serve(thread, port, setup.spin, |task| {
                if setup.shared.can_preempt() && team.idle() < SPARE_THREADS {
                    self.start_spare();
                }
                member.has_turn();
                let turn = Turn {
                    worker: setup.worker,
                    request: team.request(thread),
                    slot: setup.shared.slot_of(task.request_type()),
                };
                let began_ns = team.set_slot(thread, turn.slot);
                setup.shared.trace.begun(began_ns, turn, task.requests());
                let ended_ns = executor.run(task, setup.clock.now_ns());
                setup.shared.trace.completed(ended_ns, turn, task.replies());
                count_missed(team, counters);
            });
        };
        fiber::occupy(team.flag(), &member, || fiber::let_wait(&member, serve));
        Ok(())
    }

    /// The worker goes on with the threads that it has.
    fn give_up_spares(&self, error: &WorkerFault) {
        self.is_short.store(true, Ordering::Relaxed);
        let worker = self.setup.worker.index();
        tracing::warn!(worker, %error, "cannot make another thread of a worker");
    }

    /// Starts a thread that can take over, and waits for it.
    #[cold]
    fn start_spare(self: &Arc<Self>) {
        if self.team.is_full() || self.is_short.load(Ordering::Relaxed) {
            return;
        }
        // A thread that has just resumed another one may be about to be idle.
        std::thread::yield_now();
        if self.team.idle() >= SPARE_THREADS {
            return;
        }
        if let Err(error) = self.start_thread() {
            tracing::warn!(%error, "a worker's requests cannot be preempted, and wait with their worker");
            return;
        }
        let deadline = Instant::now() + START_TIMEOUT;
        let waits = || !self.team.has_successor() && !self.is_short.load(Ordering::Relaxed);
        while waits() && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
}

/// Only the active thread counts, as if the worker were one thread.
fn count_missed(team: &Team, counters: &WorkerCounters) {
    let is_undone = team.is_undone();
    counters.contexts_exhausted.add(is_undone.into());
    let is_missed = is_undone || team.is_wanted();
    counters.preemptions_missed.add(is_missed.into());
}
