//! What a policy can promise beyond what all policies do.

use super::seen::Seen;
use crate::event::HandOff;
use crate::settings::Darc;

/// What a policy promises beyond what all policies do. The default is c-FCFS without its order.
#[derive(Debug, Clone)]
pub struct Promises {
    /// Which of the requests that wait starts first.
    pub order: Order,
    /// Which workers each type may use.
    pub workers: AllowedWorkers,
    /// When a worker idles although a request waits that may use it.
    pub idling: Idling,
    /// A request that yielded resumes on the worker where it ran.
    pub stays: bool,
    /// A request that may use the driver's own thread does so whenever that is idle.
    pub own_thread_first: bool,
    /// No request begins on the driver's own thread whose length the policy does not know, if there are other
    /// workers and types. The length is known of types whose status has a mean service time.
    pub own_thread_spared: bool,
    /// A group of types that may use stuck workers alone gets another; see
    /// [`Scheduler::relief`](crate::Scheduler::relief).
    pub relieves: bool,
    /// When requests are preempted.
    pub preempts: Preempts,
    /// For how long a request keeps its worker while others wait.
    pub quantum: Quantum,
    /// How requests may reach their workers.
    pub hand_offs: &'static [HandOff],
    /// The status of each type counts the requests that wait and those that were refused.
    pub telemetry: bool,
}

impl Default for Promises {
    fn default() -> Self {
        Self {
            order: Order::None,
            workers: AllowedWorkers::All,
            idling: Idling::Never,
            stays: false,
            own_thread_first: true,
            own_thread_spared: false,
            relieves: false,
            preempts: Preempts::Never,
            quantum: Quantum::None,
            hand_offs: &[HandOff::Dispatched],
            telemetry: true,
        }
    }
}

/// Which of the requests that wait, and that may use the same worker, starts first. It holds among
/// requests that never ran; if the policy never preempts, among all. Whatever is promised, a request
/// that was blocked starts before requests of its type that arrived later and never ran: of those on its home
/// worker, where requests resume at home; of all, where they migrate and the policy has no queues of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// None is promised.
    None,
    /// The request that arrived first.
    Arrival,
    /// Of each type, the request that arrived first.
    ArrivalInType,
    /// Of requests that have deadlines of their own and never ran, the earliest deadline; of requests of
    /// each type without a deadline, the first arrival.
    Deadline,
    /// Of the shortest group that may use the worker, the request that arrived first. Before all groups, once
    /// the length of any type is known, the untried types: those without a hint of which no request was
    /// measured and none runs.
    ShortestGroup,
    /// Of the shortest group, and of all other groups together, the request that arrived first.
    ArrivalInHalf,
    /// Of each partition, the request that arrived first.
    ArrivalInPartition,
    /// The requests that begin on one worker do so in order of arrival. A request that the worker
    /// steals starts the order anew. Requests that waited when workers came or went may have moved, and are left
    /// out.
    ArrivalAtWorker,
    /// The same of each type. A new reservation moves requests, and starts the order anew.
    ArrivalInTypeAtWorker,
}

/// Which workers a type may use.
#[derive(Debug, Clone)]
pub enum AllowedWorkers {
    /// All of them.
    All,
    /// The first `reserved` are the shortest group's. All are everybody's while no length is known.
    AllButReserved {
        /// Number of reserved workers.
        reserved: usize,
    },
    /// Those of the group's reservation. The last partition is that of `UNKNOWN`, too.
    Partition,
    /// Any, but all groups other than the shortest use no more at a time than are left to them.
    AnyWithLimit,
    /// Those of the group's reservation by DARC and, with stealing, those of longer groups.
    Reservation(Darc),
}

/// When a worker idles although a request waits that may use it.
#[derive(Debug, Clone)]
pub enum Idling {
    /// Never: the policy is work-conserving.
    Never,
    /// When no request waits that never ran and may use the worker by these rules. Whether other
    /// requests borrow it is open.
    UnlessLent(AllowedWorkers),
    /// Whenever it likes, as long as something runs.
    Freely,
    /// When the requests wait in the queues of busy workers.
    BesideQueues {
        /// Most requests in the queue of one worker.
        queued_max: usize,
    },
}

/// When requests are preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preempts {
    /// Never: requests run to their end.
    Never,
    /// Whenever it likes.
    Freely,
    /// No more workers are stopping at a time than requests wait.
    OneForEachWaiting,
    /// Some request waits that can use the worker.
    ForOthers,
    /// The quantum is over that the action names. Whether another request waits does not matter.
    AfterQuantum,
    /// A request of a shorter group waits, or the preempted request has run for this long.
    ForShorterOrAged {
        /// Service time in nanoseconds, over all turns.
        aged_ns: u64,
    },
}

/// For how long a request keeps its worker while others wait, where it can be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantum {
    /// No limit is promised.
    None,
    /// At most this long while more requests wait than workers are stopping.
    ForAnyWaiting {
        /// The quantum in nanoseconds.
        quantum_ns: u64,
    },
    /// At most this long while requests wait in the queue of that very worker.
    ForOwnQueue {
        /// The quantum in nanoseconds.
        quantum_ns: u64,
        /// Most requests in the queue of one worker.
        queued_max: usize,
    },
}

/// What the place of a waiting request may depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Slot of its type.
    pub(super) slot: usize,
    /// Ids ascend in order of arrival.
    pub(super) id: u32,
    pub(super) deadline_ns: Option<u64>,
    /// It ran before, and yielded.
    pub(super) resumes: bool,
}

impl Order {
    /// Whether request `one` goes before `other`. Both wait, and may use the same worker.
    pub(super) fn is_before(self, seen: &Seen<'_>, one: Place, other: Place) -> bool {
        let (a, b) = (one.slot, other.slot);
        let arrived_before = one.id < other.id;
        let rank = |slot| {
            let by_group = || seen.group(slot).map_or(usize::MAX, |group| group + 1);
            if seen.is_untried(slot) { 0 } else { by_group() }
        };
        match self {
            Self::Arrival => arrived_before,
            Self::ArrivalInType => a == b && arrived_before,
            Self::ArrivalInHalf => seen.is_short(a) == seen.is_short(b) && arrived_before,
            Self::ArrivalInPartition => seen.partition(a) == seen.partition(b) && arrived_before,
            Self::Deadline => match (one.deadline_ns, other.deadline_ns) {
                (Some(due_ns), Some(other_ns)) => {
                    let is_due_before = (due_ns, one.id) < (other_ns, other.id);
                    is_due_before && !one.resumes && !other.resumes
                }
                (None, None) => a == b && arrived_before,
                _ => false,
            },
            Self::ShortestGroup => (rank(a), one.id) < (rank(b), other.id),
            Self::None | Self::ArrivalAtWorker | Self::ArrivalInTypeAtWorker => false,
        }
    }

    /// Whether requests wait in queues of the workers.
    pub(super) const fn is_at_workers(self) -> bool {
        matches!(self, Self::ArrivalAtWorker | Self::ArrivalInTypeAtWorker)
    }

    /// Of requests of which types at one worker it is the order: of those with the same number.
    pub(super) const fn class_at_worker(self, slot: usize) -> usize {
        match self {
            Self::ArrivalInTypeAtWorker => slot,
            _ => 0,
        }
    }
}

impl AllowedWorkers {
    /// As [`AllowedWorkers::allow`], for a request that is suspended on its worker. It can run
    /// nowhere else, whichever group has the worker now, and whether it is present or not.
    pub(super) fn allow_at_home(&self, seen: &Seen<'_>, slot: usize) -> bool {
        !matches!(self, Self::AnyWithLimit) || Self::is_within_limit(seen, slot)
    }

    /// Whether requests of two types may use the same workers.
    pub(super) fn are_alike(&self, seen: &Seen<'_>, one: usize, other: usize) -> bool {
        match self {
            Self::Partition => seen.partition(one) == seen.partition(other),
            Self::AnyWithLimit => seen.is_short(one) == seen.is_short(other),
            Self::All | Self::AllButReserved { .. } | Self::Reservation(_) => seen.group(one) == seen.group(other),
        }
    }

    /// Whether fewer requests of other groups than the shortest run than may.
    fn is_within_limit(seen: &Seen<'_>, slot: usize) -> bool {
        let longs = seen.running.iter().filter(|&&slot| !seen.is_short(slot));
        let longs_max = seen.workers - seen.reserved_for_short();
        let limited = seen.workers > 1 && seen.knows_lengths();
        !limited || seen.is_short(slot) || longs.count() < longs_max
    }

    /// Whether a request of the type at `slot` may run on `worker`. None may on an absent one.
    pub(super) fn allow(&self, seen: &Seen<'_>, slot: usize, worker: usize) -> bool {
        match self {
            _ if worker >= seen.workers => false,
            Self::All => true,
            Self::AllButReserved { reserved } => {
                worker >= (*reserved).min(seen.workers - 1) || seen.is_short(slot) || !seen.knows_lengths()
            }
            Self::Partition => seen.partition(slot).contains(&worker),
            Self::AnyWithLimit => Self::is_within_limit(seen, slot),
            Self::Reservation(_) if seen.scheduler.reservation_updates() == 0 => true,
            Self::Reservation(settings) => {
                let status = seen.scheduler.type_status(slot);
                let Some(first) = status.worker_first else {
                    return worker >= seen.workers.saturating_sub(settings.spillway);
                };
                let end = first.index() + status.workers_reserved;
                let further = if settings.stealing { end } else { seen.reserved_end() };
                let own_thread = worker == 0 && status.on_own_thread;
                own_thread || (first.index()..end).contains(&worker) || worker >= further
            }
        }
    }
}
