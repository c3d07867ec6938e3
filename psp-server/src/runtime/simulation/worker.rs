//! A worker without a thread: its end of the rings is the real one, and so is its executor. Its turns end when the
//! simulation says so.
//!
//! ```text
//!   net worker ── Run, Resume ──► begins after a moment ─┬─ had its time ──► executor runs it ──► Completed
//!      (real ring)                                       ├─ asked to yield, or waits ──► Yielded, Blocked
//!                                                        └─ held until Resume
//! ```
//!
//! What the requests of a task take is known when its first turn begins: values may have grown since they were read.
//! One that never ends has its time when it is killed.
//!
//! The requests of a turn that is interrupted run at its end all at once: what is simulated is when turns begin and
//! end, and what the net worker is told.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use psp_policy::{RequestId, WorkerId};

use super::handler::SimHandler;
use super::ledger::{Ledger, with_ledger};
use super::protocol::{Head, Kind, SimFraming};
use crate::error::WorkerFault;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::channel::preempter::Preempter;
use crate::runtime::channel::task_port::TaskPort;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::task::Task;
use crate::runtime::worker::executor::{Executor, RUN_NS_MAX};
use crate::runtime::worker::notices::fault_of;
use crate::simulated;
use crate::simulated::random::Random;

pub(super) type SimTask = Task<(), Head>;

/// What sending the rest of a long reply takes.
const SENDING_NS: u64 = 1_000;
/// What a request takes that is not killed.
const ENDLESS_NS: u64 = 1_000_000_000_000;
/// A request that blocks does so within this time.
const BLOCKS_NS_MAX: u64 = 5_000_000;

/// How the turns of a worker go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// The longest time until a worker begins what it was sent.
    pub(super) begin_ns_max: u64,
    /// The longest time until a request that was asked to yield does so.
    pub(super) yield_ns_max: u64,
    /// One turn in so many is blocked in between; 0 for none.
    pub(super) blocked: u64,
    /// The longest time until such a request is woken.
    pub(super) wake_ns_max: u64,
    /// Other programs have the core: before one turn in so many and in one, for as long as this; 0 for none.
    pub(super) losses: u64,
    pub(super) loss_ns_max: u64,
    /// Requests that a worker can hold beside the one that runs.
    pub(super) held_max: usize,
}

impl Habits {
    /// How long a worker waits for its core.
    pub(super) fn loss_ns(&self, random: &mut Random) -> u64 {
        match random.once_in(self.losses) {
            true => random.below(self.loss_ns_max + 1),
            false => 0,
        }
    }
}

/// See the [module](self).
pub(super) struct Worker {
    id: WorkerId,
    port: TaskPort<SimTask>,
    executor: Executor<SimFraming, SimHandler>,
    start: Arc<TurnStart>,
    away_ns: Rc<Cell<u64>>,
    /// The turn that was asked to yield.
    asked: Arc<AtomicU64>,
    /// Number of the turn that was sent last.
    turn: u64,
    running: Option<Turn>,
    held: Vec<(RequestId, WorkerRequest)>,
    habits: Habits,
    is_dead: bool,
}

struct Turn {
    request: RequestId,
    held: WorkerRequest,
    has_begun: bool,
    began_ns: u64,
    /// When the worker has its core.
    computes_ns: u64,
    /// When something about it happens next.
    next_ns: u64,
    ends: Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Done,
    Yielded,
    Blocked,
}

/// A request that a worker has.
struct WorkerRequest {
    task: SimTask,
    /// When its first turn began.
    first_ns: u64,
    served_ns: u64,
    left_ns: u64,
    /// What its requests take.
    service_ns: u64,
    /// How large values were when its first turn began.
    size: u64,
    /// The first of its requests that has no end, if it has begun.
    endless: Option<Head>,
}

impl WorkerRequest {
    fn new(task: SimTask) -> Self {
        Self {
            task,
            first_ns: 0,
            served_ns: 0,
            left_ns: 0,
            service_ns: 0,
            size: 1,
            endless: None,
        }
    }

    /// The first turn begins.
    fn begin(&mut self, now_ns: u64) {
        self.first_ns = now_ns;
        with_ledger(|ledger| {
            self.size = ledger.size;
            self.service_ns = self.requests_ns(ledger);
            if let Some(head) = &self.endless {
                ledger.begin_endless(head);
            }
        });
        self.left_ns = self.service_ns;
    }

    /// What the requests take. It ends with the first that has no end.
    fn requests_ns(&mut self, ledger: &Ledger) -> u64 {
        let Task::Stream(stream) = &self.task else {
            return SENDING_NS;
        };
        let mut sum_ns = SENDING_NS;
        for frame in &stream.run.frames {
            let head = &frame.head;
            if head.kind == Kind::Endless && ledger.has_client(head) {
                self.endless = Some(*head);
                return sum_ns + ENDLESS_NS;
            }
            sum_ns += ledger.service_ns(head);
            if sum_ns > RUN_NS_MAX {
                break;
            }
        }
        sum_ns
    }

    /// Whether it is to end, as its endless request was killed.
    fn is_killed(&self) -> bool {
        let is_killed = |head: &Head| !with_ledger(|ledger| ledger.runs_on(head));
        self.endless.as_ref().is_some_and(is_killed)
    }
}

/// Something that has to happen later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// The worker goes on.
    Step { at_ns: u64 },
    /// A request is woken.
    Wake { at_ns: u64, request: RequestId },
    /// The worker has died.
    Death,
}

/// Notes which turn is asked to yield.
struct Asks(Arc<AtomicU64>);

impl Preempter for Asks {
    fn preempt(&self, turn: u64) {
        self.0.store(turn, Ordering::Relaxed);
        simulated::due(0);
    }
}

impl Worker {
    pub(super) fn new(
        id: WorkerId,
        port: TaskPort<SimTask>,
        executor: Executor<SimFraming, SimHandler>,
        start: Arc<TurnStart>,
        away_ns: Rc<Cell<u64>>,
        habits: Habits,
    ) -> Self {
        Self {
            id,
            port,
            executor,
            start,
            away_ns,
            asked: Arc::default(),
            turn: 0,
            running: None,
            held: Vec::new(),
            habits,
            is_dead: false,
        }
    }

    pub(super) fn id(&self) -> WorkerId {
        self.id
    }

    pub(super) fn preempter(&self) -> Box<dyn Preempter> {
        Box::new(Asks(self.asked.clone()))
    }

    /// Whether it has no request.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_none() && self.held.is_empty()
    }

    /// Looks at what it was sent, and whether it was asked to yield.
    pub(super) fn look(&mut self, now_ns: u64, random: &mut Random, follows: &mut dyn FnMut(Follows)) {
        match &mut self.running {
            Some(turn) if turn.has_begun && turn.held.is_killed() => {
                let in_ns = random.below(self.habits.yield_ns_max + 1);
                let at_ns = now_ns.max(turn.computes_ns) + in_ns;
                if at_ns < turn.next_ns {
                    (turn.ends, turn.next_ns) = (Ends::Done, at_ns);
                    follows(Follows::Step { at_ns });
                }
            }
            None if !self.is_dead => {
                let Some(message) = self.port.receive() else {
                    return;
                };
                self.take(message, now_ns, random, follows);
            }
            Some(turn)
                if turn.has_begun && turn.ends == Ends::Done && self.asked.load(Ordering::Relaxed) == self.turn =>
            {
                let in_ns = random.below(self.habits.yield_ns_max + 1);
                let at_ns = now_ns.max(turn.computes_ns) + in_ns;
                if at_ns < turn.next_ns {
                    turn.ends = Ends::Yielded;
                    turn.next_ns = at_ns;
                    follows(Follows::Step { at_ns });
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, message: Message<SimTask>, now_ns: u64, random: &mut Random, follows: &mut dyn FnMut(Follows)) {
        let (request, held) = match message {
            Message::Run { request, task } => (request, WorkerRequest::new(task)),
            Message::Resume(request) => {
                let at = self.held.iter().position(|(held, _)| *held == request);
                let at = at.expect("a worker is asked to resume what it holds");
                self.held.swap_remove(at)
            }
            Message::Stop => return,
        };
        self.turn += 1;
        let in_ns = random.below(self.habits.begin_ns_max + 1);
        let at_ns = now_ns + in_ns + self.habits.loss_ns(random);
        self.running = Some(Turn {
            request,
            held,
            has_begun: false,
            began_ns: at_ns,
            computes_ns: at_ns,
            next_ns: at_ns,
            ends: Ends::Done,
        });
        follows(Follows::Step { at_ns });
    }

    /// What was to happen at `now_ns` happens, unless it was put off or came before.
    pub(super) fn step(&mut self, now_ns: u64, random: &mut Random, follows: &mut dyn FnMut(Follows)) {
        let Some(turn) = &mut self.running else {
            return;
        };
        if turn.next_ns > now_ns {
            return;
        }
        if !turn.has_begun {
            turn.has_begun = true;
            turn.began_ns = now_ns;
            if turn.held.served_ns == 0 {
                turn.held.begin(now_ns);
            }
            self.start.announce(self.turn, now_ns);
            turn.computes_ns = now_ns + self.habits.loss_ns(random);
            let left_ns = match turn.held.is_killed() {
                true => 1,
                false => turn.held.left_ns,
            };
            turn.next_ns = turn.computes_ns + left_ns;
            let may_block = self.held.len() < self.habits.held_max;
            if may_block && left_ns > 1 && random.once_in(self.habits.blocked) {
                turn.ends = Ends::Blocked;
                turn.next_ns = turn.computes_ns + random.below(left_ns.min(BLOCKS_NS_MAX));
            }
            follows(Follows::Step { at_ns: turn.next_ns });
            return;
        }
        let Some(mut turn) = self.running.take() else {
            return;
        };
        let served_ns = now_ns.saturating_sub(turn.began_ns);
        let computed_ns = now_ns.saturating_sub(turn.computes_ns);
        turn.held.left_ns = turn.held.left_ns.saturating_sub(computed_ns);
        if turn.ends == Ends::Done {
            return self.complete(turn.held, now_ns, follows);
        }
        turn.held.served_ns += served_ns.max(1);
        let request = turn.request;
        self.held.push((request, turn.held));
        if turn.ends == Ends::Yielded {
            return self.port.report(Report::Yielded { served_ns });
        }
        // A wake may come before the report.
        let in_ns = random.below(self.habits.wake_ns_max + 1);
        follows(Follows::Wake { at_ns: now_ns + in_ns, request });
        self.port.report(Report::Blocked { served_ns });
    }

    /// Runs the requests at the end of their last turn, and sends them back.
    fn complete(&mut self, held: WorkerRequest, now_ns: u64, follows: &mut dyn FnMut(Follows)) {
        let mut task = held.task;
        let mut taken_ns = held.service_ns;
        let size = with_ledger(|ledger| {
            if held.endless.is_some() {
                taken_ns -= held.left_ns;
                ledger.endless_ns = taken_ns.saturating_sub(held.service_ns - ENDLESS_NS);
            }
            std::mem::replace(&mut ledger.size, held.size)
        });
        let start_ns = now_ns.saturating_sub(taken_ns).max(held.first_ns);
        self.away_ns.set(start_ns.saturating_sub(held.first_ns));
        let executor = &mut self.executor;
        let run = || {
            executor.run(&mut task, start_ns);
        };
        let (ran, _) = simulated::at_own_time(start_ns, || catch_unwind(AssertUnwindSafe(run)));
        with_ledger(|ledger| {
            ledger.size = size;
            if let Some(head) = &held.endless {
                // Its client may be gone.
                ledger.end_endless(head);
            }
        });
        match ran {
            Ok(()) => self.port.report(Report::Completed(task)),
            Err(payload) => {
                // Its thread would end, and the server with it: the task is lost.
                let fault = fault_of(payload);
                debug_assert!(matches!(fault, WorkerFault::State(_)), "{fault}");
                self.is_dead = true;
                follows(Follows::Death);
            }
        }
    }
}
