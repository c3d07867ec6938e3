//! The scheduler core: events in, actions out, time is an argument.
//!
//! Nothing here reads a clock, starts a thread, or touches a socket.
//! The live dispatcher, the simulator and the tests drive the same objects.
//!
//! ```text
//!   Arrived ────┐                                   ┌──► Run { worker, request }
//!   Completed ──┤    Scheduler::on_event(now, ..)   │    Scheduler::poll(now)
//!   Yielded ────┼──► typed queues, profile, workers ┼──► Preempt { worker }
//!   Tick ───────┘    Scheduler::deadline_ns()       └──► Reject { request }
//! ```
//!
//! A policy is a small file that makes one decision; what it decides over is shared: `queues`
//! (bounded per type, in as many lanes as the policy wants; over `lists`), `homes` (what is suspended
//! on workers that alone can go on with it), `workers` (the idle ones, most recently active first),
//! `eligible` (what those can take up), `running` (what runs where), `quanta` (for how long while others wait,
//! by [`WorkerTimes`]), `finishing` (who is left alone beyond that), `profile` (windows of measurements, estimates over windows), `dispersion`
//! (how far service times lie apart), `grouped` (typed queues, with or without groups of types by
//! length), and `plan` (who of these may run where).
//! Policies with a dispatcher and a queue per worker share `own_queues`.
//! `docs/policies.md` says what each policy does and why.
//!
//! Memory is set aside at construction. Two things grow on demand: queues whose capacities add up
//! to more than 65 536 requests, and the list of refusals of a driver that reports more than 1024
//! refused arrivals between two rounds of polling.

mod c_fcfs;
mod config;
mod cscq;
mod d_fcfs;
mod darc;
mod dispersion;
mod drr;
mod edf;
mod eligible;
mod finishing;
mod fixed_priority;
mod grouped;
mod homes;
mod jbsq;
mod jsq;
mod lending;
mod lists;
mod mq;
mod own_queues;
mod plan;
mod profile;
mod quanta;
mod queues;
#[cfg(test)]
mod rehearsal;
mod running;
mod settings;
mod sjf;
mod spelling;
mod sq;
mod static_partition;
mod stealing;
mod synergy;
mod worker_times;
mod workers;

pub use config::{Policy, PolicyError};
pub use settings::{
    Cscq, Darc, DarcLending, DarcStatic, Drr, Edf, Jbsq, Jsq, JsqTies, Mq, Requeue, Sq,
    StaticPartition, Synergy,
};
pub use worker_times::WorkerTimes;

use queues::Queues;
use running::Running;

use crate::request_type::{RequestType, TypeTable};

/// Number of a worker, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

impl WorkerId {
    /// Its place in per-worker arrays.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The driver's name for a request. The scheduler hands it back and never looks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u32);

/// What a worker measured: `count` requests of one type took `service_ns` in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Their type.
    pub request_type: RequestType,
    /// How many.
    pub count: u32,
    /// Their service times added up, in nanoseconds; without the time that they waited between
    /// turns.
    pub service_ns: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A request arrived. It may stand for a run of `count` pipelined requests that travel
    /// together; the run is queued, counted against the queue's capacity and dispatched as one.
    Arrived {
        /// The driver's name for it.
        request: RequestId,
        /// Its type; for a run, that of its first request.
        request_type: RequestType,
    },
    /// `worker` finished what it was running and is idle.
    Completed {
        /// The worker.
        worker: WorkerId,
        /// What it measured, one entry for each type in the run. A request that was preempted is
        /// in it with its whole service time, over all its turns. Empty where nothing shall be
        /// learned from it.
        samples: &'a [Sample],
    },
    /// The request on `worker` stopped before its end, and the worker is idle: after an
    /// [`Action::Preempt`], or because the handler gave way. It waits again, with its first time
    /// of arrival, and will be run again under the same name. Policies put it back in order of
    /// arrival among its kind; those whose requests take turns put it behind them, which each says
    /// in its settings or documentation.
    Yielded {
        /// The worker.
        worker: WorkerId,
        /// For how long it ran this time, in nanoseconds.
        served_ns: u64,
    },
    /// Time passed. The driver sends it about every millisecond when nothing else happens, so
    /// that profiling windows can close by time.
    Tick,
}

/// What the driver shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Run `request` on `worker`, which is idle.
    Run {
        /// Where.
        worker: WorkerId,
        /// What.
        request: RequestId,
        /// Its type.
        request_type: RequestType,
        /// How it gets there.
        hand_off: HandOff,
    },
    /// Stop what runs on `worker` and report [`Event::Yielded`], or [`Event::Completed`] if it is
    /// done before. The worker counts as busy until then. Said at most once for each
    /// [`Action::Run`], and only where [`SchedulerSetup::preemption`] allows it.
    Preempt {
        /// Where.
        worker: WorkerId,
        /// The time that its turn was promised, in nanoseconds; 0 where nothing was. Policies count
        /// from [`Action::Run`]. A driver that knows when the turn really began stops it no
        /// earlier than this after that.
        quantum_ns: u64,
    },
    /// Refuse `request`: its typed queue is full.
    Reject {
        /// What.
        request: RequestId,
        /// Its type.
        request_type: RequestType,
    },
}

/// How a request gets to its worker, which is where policies differ in cost. A live driver sends
/// all of them; a simulator charges for each what it would cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandOff {
    /// A dispatcher decided, and sends it to a worker that waits for it.
    Dispatched,
    /// The worker takes it from a queue of its own.
    Own,
    /// The worker takes it from another worker's queue.
    Stolen,
}

/// What a preemption costs and allows.
///
/// A live server suspends a preempted request on a stack of its worker, and goes on with it there
/// and nowhere else: that worker is the request's *home*. The simulators of the papers let every
/// worker go on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    /// Time from the decision to the freed worker, in nanoseconds.
    pub cost_ns: u64,
    /// Whether any worker may go on with a preempted request. Otherwise its home alone may; a
    /// request that never ran may begin anywhere in either case.
    pub migrates: bool,
    /// Requests that a worker can hold which have begun and not ended: the one that it runs and
    /// those that are suspended there, at least 1. Where none is left the worker begins no other
    /// request, and what it runs is preempted only for one that is suspended there. Of no account
    /// where requests migrate.
    pub contexts: usize,
}

impl Preemption {
    /// Any worker may go on with a preempted request.
    #[must_use]
    pub const fn migrating(cost_ns: u64) -> Self {
        Self {
            cost_ns,
            migrates: true,
            contexts: usize::MAX,
        }
    }

    /// Whether a worker can run anything else beside what it suspended.
    pub(crate) const fn frees_workers(self) -> bool {
        self.migrates || self.contexts > 1
    }

    /// A preempted request goes on at the worker that it began on, each of which can hold
    /// `contexts` requests, the one that it runs included.
    #[must_use]
    pub const fn at_home(cost_ns: u64, contexts: usize) -> Self {
        Self {
            cost_ns,
            migrates: false,
            contexts,
        }
    }
}

/// Everything that waits and runs, on its way from one scheduler to another; see
/// [`Scheduler::hand_over`].
#[derive(Debug)]
pub struct Backlog {
    queues: Queues,
    running: Running,
}

impl Backlog {
    /// Takes what waits and runs, and leaves nothing.
    fn take(queues: &mut Queues, running: &mut Running) -> Self {
        Self {
            queues: queues.take(),
            running: running.take(),
        }
    }
}

/// What a scheduler says about one type; see [`Scheduler::type_status`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TypeStatus {
    /// Requests (or runs) that wait.
    pub queued: usize,
    /// Workers reserved for the type's group; 0 before the first reservation and for policies
    /// without any. A group that found none left has the spillway workers here, which it shares.
    pub workers_reserved: usize,
    /// First of the reserved workers, when there are any.
    pub worker_first: Option<WorkerId>,
    /// Number of the type's group, by ascending service time. `None` for `UNKNOWN`, for types of
    /// unknown length, and for policies without groups.
    pub group: Option<usize>,
    /// Profiled mean service time in nanoseconds; 0 while unknown.
    pub service_ns_mean: f64,
    /// Profiled share of all requests, 0 to 1.
    pub share: f64,
    /// Times one of its requests ran on a worker reserved for a longer group.
    pub steals: u64,
    /// Times one of its requests was refused because the queue was full.
    pub rejections: u64,
}

/// A scheduling policy at work: one state machine for all its workers.
///
/// The driver reports events, then polls until `None`. It may run one action's request to its end
/// (on a worker that is its own thread) before it polls for the next.
pub trait Scheduler: Send {
    /// Takes note of an event. `now_ns` never goes backwards.
    fn on_event(&mut self, now_ns: u64, event: Event<'_>);

    /// The next thing to do, `None` when every request that can run has been handed out.
    fn poll(&mut self, now_ns: u64) -> Option<Action>;

    /// When the scheduler wants an event at the latest, in nanoseconds: the end of the earliest
    /// quantum, say. The driver sends a [`Event::Tick`] then, if nothing else happens, and polls.
    fn deadline_ns(&self) -> Option<u64> {
        None
    }

    /// Gives away everything that waits and runs, to go on under another policy. The scheduler is
    /// of no use afterwards.
    fn hand_over(&mut self) -> Backlog;

    /// Takes over what another scheduler with the same [`SchedulerSetup`] had. Called before any
    /// event; the driver polls afterwards. What ran goes on running.
    fn take_over(&mut self, now_ns: u64, backlog: Backlog);

    /// Whether two types may travel in one run: they are the same, or share queueing and workers
    /// and are of similar length. Policies that do not tell lengths apart answer for equal types
    /// only, so that a long request never delays a short one within its run. The answer may
    /// change whenever an event is reported.
    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        first == next
    }

    /// What is known of the type at `slot` of the [`TypeTable`] (`UNKNOWN` comes last).
    fn type_status(&self, slot: usize) -> TypeStatus;

    /// How often reservations were computed.
    fn reservation_updates(&self) -> u64 {
        0
    }
}

/// What a scheduler is built for.
#[derive(Debug, Clone)]
pub struct SchedulerSetup<'a> {
    /// Number of workers, at least 1.
    pub workers: usize,
    /// The registered types and their hints.
    pub types: &'a TypeTable,
    /// Requests that may wait per type where the type does not say.
    pub queue_capacity: usize,
    /// Worker 0 is the driver's own thread: it costs no hop, so a type that may use it does so
    /// whenever it is idle.
    pub inline: bool,
    /// How requests can be preempted; `None` where they cannot. Policies that would preempt run
    /// requests to their end then.
    pub preemption: Option<Preemption>,
    /// Seed of the policies that draw lots.
    pub seed: u64,
}
