//! The trait of admission, and what drivers and it say to each other.

use crate::event::RequestId;
use crate::request_type::RequestType;

/// Levels of priority: 0 is the most urgent, as the urgency of RFC 9218 counts.
pub const PRIORITIES: u8 = 8;

/// The priority of requests that name none: RFC 9218's default urgency.
pub const PRIORITY_DEFAULT: u8 = 3;

/// A request at the door: classified, and in no queue yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arrival {
    /// The driver's name for it, which the scheduler gets as well.
    pub request: RequestId,
    /// Its type.
    pub request_type: RequestType,
    /// Requests of a run that travels as one; 1 for a single one.
    pub count: u32,
    /// 0 to 7; see [`PRIORITIES`]. Higher numbers count as 7.
    pub priority: u8,
    /// Who sent it; 0 for nobody in particular, who is never over a share.
    pub tenant: u32,
    /// When it came, in nanoseconds. Its SLO counts from then.
    pub arrived_ns: u64,
    /// When its sender stops to wait, in nanoseconds; `None` if it does not say.
    pub deadline_ns: Option<u64>,
    /// Whether it must begin in order of arrival, because it shares a connection with others. While such a request
    /// waits, its type is first come, first served.
    pub ordered: bool,
}

impl Arrival {
    /// A single request that arrives now, with the default priority, no tenant, no deadline, and in any order.
    #[must_use]
    pub const fn new(request: RequestId, request_type: RequestType, arrived_ns: u64) -> Self {
        Self {
            request,
            request_type,
            count: 1,
            priority: PRIORITY_DEFAULT,
            tenant: 0,
            arrived_ns,
            deadline_ns: None,
            ordered: false,
        }
    }

    crate::setters! {
        count: u32,
        priority: u8,
        tenant: u32,
        deadline_ns: Option<u64>,
        ordered: bool,
    }
}

/// What admission calls a request that it let in. The driver keeps it with the request, and moves it with the request
/// when [`Turn`] has two requests change places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// The answer at arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The driver reports the request to the scheduler.
    Admit(Ticket),
    /// The driver refuses it. The scheduler never hears of it, and nothing of it runs.
    Refuse(Refusal),
}

/// Why a request is refused, and when to come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// After this time another attempt may have better luck, in nanoseconds; at least 1.
    pub retry_after_ns: u64,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is not expected to end before its deadline, or within the SLO of its type.
    Infeasible,
    /// The requests of its type, of its priority and above, take all that the type is entitled to.
    OverTarget,
    /// Its tenant takes more than its share, and there is nothing left beyond the shares.
    OverShare,
    /// The table of requests is full.
    OutOfRoom,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Infeasible, Self::OverTarget, Self::OverShare, Self::OutOfRoom];

    /// A word for telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Infeasible => "infeasible",
            Self::OverTarget => "over-target",
            Self::OverShare => "over-share",
            Self::OutOfRoom => "out-of-room",
        }
    }
}

/// The answer at the head of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// Whether a request runs. Otherwise it is too late for it: the driver answers its sender, and reports
    /// [`Event::Completed`](crate::Event::Completed) with `dropped` to the scheduler. The request's ticket is void.
    pub runs: bool,
    /// If it is not the request whose turn came, the driver first has both change places: this request gets the name
    /// of the one whose turn came, and that one waits under this name, in this one's place in the queue. Both have the
    /// same type, so the scheduler notices nothing.
    pub instead: Option<RequestId>,
}

impl Turn {
    /// The request whose turn came runs.
    pub const RUN: Self = Self { runs: true, instead: None };

    /// The answer with these fields.
    #[must_use]
    pub const fn new(runs: bool, instead: Option<RequestId>) -> Self {
        Self { runs, instead }
    }
}

/// What admission says about one type; see [`Admit::status`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AdmissionStatus {
    /// Requests admitted so far.
    pub admitted: u64,
    /// Requests refused so far, in the order of [`Reason::ALL`].
    pub refused: [u64; 4],
    /// Requests that were let in, and dropped when their turn came too late.
    pub dropped: u64,
    /// Requests that are let in and have not ended; blocked ones do not count.
    pub in_system: u64,
    /// As many may be.
    pub in_system_max: f64,
    /// Workers' worth of service that the type may have: its fair part, and what others leave of theirs.
    pub workers_fair: f64,
    /// Workers' worth of service that its arrivals ask for, refused ones included.
    pub workers_offered: f64,
    /// Mean service time in nanoseconds, measured, or as hinted; 0 while unknown.
    pub service_ns_mean: f64,
    /// The SLO in nanoseconds; 0 for none.
    pub slo_ns: f64,
    /// Whether the SLO is shorter than two mean service times, and therefore counts as two.
    pub slo_infeasible: bool,
    /// How far expected waits were from real ones lately, on average, in nanoseconds; of the priority where they were
    /// furthest.
    pub expectation_error_ns: f64,
    /// Whether requests have waited for longer than the target for an interval, so that the newest goes first.
    pub under_pressure: bool,
}

/// Admission: what is let in, and what still runs when its turn comes.
///
/// It stands between the classifier and the scheduler. The driver tells both of the same events in the same order;
/// neither knows of the other:
///
/// ```text
///              arrive                       begin: run, or drop          end
///   classifier ──────► Scheduler: Arrived ──► Run ─────────────────────► Completed
///       │                                     │ ▲
///       └► refused, with a reason        block└─┘unblock
/// ```
///
/// Time never goes backwards. Nothing is allocated after construction.
pub trait Admit: Send {
    /// A request is classified. If it is admitted, the driver reports
    /// [`Event::Arrived`](crate::Event::Arrived) to the scheduler.
    fn arrive(&mut self, now_ns: u64, arrival: &Arrival) -> Verdict;

    /// The scheduler runs an admitted request for the first time: an
    /// [`Action::Run`](crate::Action::Run) for a request that never ran.
    fn begin(&mut self, now_ns: u64, ticket: Ticket) -> Turn;

    /// The request ended after `served_ns` of service over all its turns. Of a run, `done` requests were served: the
    /// others come again.
    fn end(&mut self, now_ns: u64, ticket: Ticket, served_ns: u64, done: u32);

    /// An admitted request is gone without having run: the scheduler rejected it, its sender left, or it turned out
    /// after its turn began to be of another type, and comes again.
    fn cancel(&mut self, now_ns: u64, ticket: Ticket);

    /// A running request waits for something outside of the scheduler, and needs no worker.
    fn block(&mut self, now_ns: u64, ticket: Ticket) {
        let _ = (now_ns, ticket);
    }

    /// A blocked request waits for a worker again.
    fn unblock(&mut self, now_ns: u64, ticket: Ticket) {
        let _ = (now_ns, ticket);
    }

    /// So many workers are present from now on.
    fn workers(&mut self, now_ns: u64, present: usize) {
        let _ = (now_ns, present);
    }

    /// Telemetry of the type at `slot` of the [`TypeTable`](crate::TypeTable); `UNKNOWN` comes last.
    fn status(&self, slot: usize) -> AdmissionStatus {
        let _ = slot;
        AdmissionStatus::default()
    }
}
