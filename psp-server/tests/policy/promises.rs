//! What each policy promises beyond what all of them do, as a table.

use std::ops::Range;

use psp_server::Policy;
use psp_server::policy::{Darc, HandOff, Requeue, Scheduler};

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Promises {
    pub(crate) order: Order,
    pub(crate) places: Places,
    pub(crate) idling: Idling,
    /// Whoever gave way goes on where it ran.
    pub(crate) stays: bool,
    /// A request that may use the driver's own thread does so whenever that is idle.
    pub(crate) own_thread_first: bool,
    pub(crate) preempts: Preempts,
    pub(crate) quantum: Quantum,
    /// How requests may reach their workers.
    pub(crate) hand_offs: &'static [HandOff],
}

/// Which of those that wait starts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The one that arrived first.
    Arrival,
    /// Of each type, the one that arrived first.
    ArrivalInType,
    /// Of the shortest group that may use the worker, the one that arrived first.
    ShortestGroup,
    /// Of the shortest group, and of all others, the one that arrived first.
    ArrivalInHalf,
    /// Of each partition, the one that arrived first.
    ArrivalInPartition,
    /// The one that arrived first in one worker's queue, which cannot be seen from outside.
    Unseen,
}

/// Which workers a type may use.
#[derive(Debug, Clone)]
pub(crate) enum Places {
    /// All of them.
    All,
    /// The first `reserved` are the shortest group's. Everybody's, while no length is known.
    AllButReserved { reserved: usize },
    /// Those of the group's reservation. The last partition is that of `UNKNOWN`, too.
    Partition,
    /// Any, but all groups other than the shortest no more than so many at a time.
    ShorterOnly,
    /// Those of the group's reservation, and with stealing those of longer groups.
    Reservation(Darc),
}

/// When a worker idles while someone waits that may use it.
#[derive(Debug, Clone)]
pub(crate) enum Idling {
    /// It does not: work is conserved.
    Never,
    /// When nobody waits that never ran and may use it by these rules; others borrow it, or not.
    UnlessLent(Places),
    /// When those wait in the queues of busy workers, each of which has so many at most.
    BesideQueues { queued_max: usize },
}

/// When what runs is stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preempts {
    /// Requests run to their end.
    Never,
    /// No more workers are stopping at a time than requests wait.
    OneForEachWaiting,
    /// Somebody waits.
    ForSomeone,
    /// A quantum is over, or somebody may come.
    Whenever,
}

/// For how many nanoseconds at most a request keeps its worker while others wait, where it can be
/// preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantum {
    /// It is not said.
    Endless,
    /// More wait than workers are stopping.
    ForAll(u64),
    /// Some wait in the queue of that very worker.
    ForThoseBehind(u64),
}

/// Policies that run every request to its end on a worker that the dispatcher chose from all.
const CENTRAL: Promises = Promises {
    order: Order::Arrival,
    places: Places::All,
    idling: Idling::Never,
    stays: false,
    own_thread_first: true,
    preempts: Preempts::Never,
    quantum: Quantum::Endless,
    hand_offs: &[HandOff::Dispatched],
};

/// Policies whose workers have queues, and preempt for those behind.
const OWN_QUEUES: Promises = Promises {
    order: Order::Unseen,
    idling: Idling::BesideQueues {
        queued_max: usize::MAX,
    },
    own_thread_first: false,
    preempts: Preempts::ForSomeone,
    hand_offs: &[HandOff::Dispatched, HandOff::Own],
    ..CENTRAL
};

impl Promises {
    pub(crate) fn of(policy: &Policy, preemptive: bool) -> Self {
        match policy {
            Policy::DFcfs => Self {
                stays: true,
                preempts: Preempts::Never,
                hand_offs: &[HandOff::Own],
                ..OWN_QUEUES
            },
            Policy::CFcfs => CENTRAL,
            Policy::Stealing => Self {
                order: Order::Unseen,
                own_thread_first: false,
                hand_offs: &[HandOff::Own, HandOff::Stolen],
                ..CENTRAL
            },
            Policy::FixedPriority | Policy::Sjf => Self {
                order: Order::ShortestGroup,
                ..CENTRAL
            },
            Policy::StaticPartition(_) => Self {
                order: Order::ArrivalInPartition,
                places: Places::Partition,
                ..CENTRAL
            },
            Policy::Edf(_) | Policy::Drr(_) => Self {
                order: Order::ArrivalInType,
                ..CENTRAL
            },
            Policy::Cscq(_) => Self {
                order: Order::ArrivalInHalf,
                places: Places::ShorterOnly,
                ..CENTRAL
            },
            Policy::Sq(settings) => Self {
                preempts: Preempts::OneForEachWaiting,
                quantum: if settings.requeue == Requeue::Tail {
                    Quantum::ForAll(nanoseconds(settings.quantum_us))
                } else {
                    Quantum::Endless
                },
                ..CENTRAL
            },
            Policy::Mq(settings) => Self {
                order: Order::ArrivalInType,
                preempts: Preempts::OneForEachWaiting,
                quantum: if settings.spare_chosen {
                    Quantum::Endless
                } else {
                    Quantum::ForAll(nanoseconds(settings.quantum_us))
                },
                ..CENTRAL
            },
            Policy::Jbsq(settings) => Self {
                idling: Idling::BesideQueues {
                    queued_max: settings.k - 1,
                },
                quantum: if settings.k == 1 {
                    Quantum::ForAll(nanoseconds(settings.quantum_us))
                } else {
                    Quantum::ForThoseBehind(nanoseconds(settings.quantum_us))
                },
                ..OWN_QUEUES
            },
            Policy::Jsq(settings) => Self {
                stays: true,
                quantum: Quantum::ForThoseBehind(nanoseconds(settings.quantum_us)),
                ..OWN_QUEUES
            },
            Policy::Synergy(settings) => Self {
                preempts: if settings.conditional_preemption {
                    Preempts::ForSomeone
                } else {
                    Preempts::Whenever
                },
                hand_offs: &[HandOff::Own, HandOff::Stolen],
                ..OWN_QUEUES
            },
            Policy::DarcStatic(settings) => Self {
                order: Order::ShortestGroup,
                places: Places::AllButReserved {
                    reserved: settings.reserved,
                },
                ..CENTRAL
            },
            Policy::DarcLending(settings) if !preemptive => {
                Self::of(&settings.darc.clone().into(), preemptive)
            }
            Policy::DarcLending(settings) => Self {
                idling: Idling::UnlessLent(Places::Reservation(settings.darc.clone())),
                own_thread_first: false,
                order: Order::ArrivalInType,
                preempts: Preempts::Whenever,
                ..CENTRAL
            },
            Policy::Darc(settings) => Self {
                order: Order::ShortestGroup,
                places: Places::Reservation(settings.clone()),
                ..CENTRAL
            },
        }
    }
}

fn nanoseconds(micros: f64) -> u64 {
    (micros * 1_000.0).round() as u64
}

/// What can be asked of a scheduler from outside.
pub(crate) struct Seen<'a> {
    pub(crate) scheduler: &'a dyn Scheduler,
    pub(crate) workers: usize,
    /// Number of registered types.
    pub(crate) types: usize,
    /// The type slot of each request that runs.
    pub(crate) running: Vec<usize>,
}

impl Seen<'_> {
    fn group(&self, slot: usize) -> Option<usize> {
        self.scheduler.type_status(slot).group
    }

    /// Whether it is of the shortest group.
    fn is_short(&self, slot: usize) -> bool {
        self.group(slot) == Some(0)
    }

    /// Whether the length of any type is known.
    fn knows_lengths(&self) -> bool {
        (0..self.types).any(|slot| self.group(slot).is_some())
    }

    /// Number of workers that the shortest group can count on.
    fn reserved_for_short(&self) -> usize {
        (0..self.types)
            .find(|&slot| self.is_short(slot))
            .map_or(0, |slot| self.scheduler.type_status(slot).workers_reserved)
    }

    /// The workers that were reserved for a type. Before that, all of them are everybody's; after
    /// that, the last are those of types for which there are none.
    fn partition(&self, slot: usize) -> Range<usize> {
        let partition = |slot| {
            let status = self.scheduler.type_status(slot);
            let first = status.worker_first?.index();
            Some(first..first + status.workers_reserved)
        };
        let last = || {
            (0..self.types)
                .filter_map(partition)
                .max_by_key(|last| last.end)
        };
        partition(slot).or_else(last).unwrap_or(0..self.workers)
    }

    /// First worker that is reserved for no group.
    fn reserved_end(&self) -> usize {
        (0..self.types)
            .filter_map(|slot| {
                let status = self.scheduler.type_status(slot);
                Some(status.worker_first?.index() + status.workers_reserved)
            })
            .max()
            .unwrap_or(0)
    }
}

impl Preempts {
    /// Whether a worker may be asked to stop when so many are stopping already, and so many
    /// requests wait.
    pub(crate) const fn allow(self, stopping: usize, waiting: usize) -> bool {
        match self {
            Self::Never => false,
            Self::OneForEachWaiting => stopping < waiting,
            Self::ForSomeone => waiting > 0,
            Self::Whenever => true,
        }
    }
}

impl Order {
    /// Whether one of two that wait, and may use the same worker, goes before the other. They are
    /// type slots and numbers, which ascend in order of arrival.
    pub(crate) fn is_before(self, seen: &Seen<'_>, one: (usize, u32), other: (usize, u32)) -> bool {
        let ((a, _), (b, _)) = (one, other);
        let arrived_before = one.1 < other.1;
        let unknown_last = |slot| seen.group(slot).unwrap_or(usize::MAX);
        match self {
            Self::Arrival => arrived_before,
            Self::ArrivalInType => a == b && arrived_before,
            Self::ArrivalInHalf => seen.is_short(a) == seen.is_short(b) && arrived_before,
            Self::ArrivalInPartition => seen.partition(a) == seen.partition(b) && arrived_before,
            Self::ShortestGroup => (unknown_last(a), one.1) < (unknown_last(b), other.1),
            Self::Unseen => false,
        }
    }
}

impl Places {
    /// As [`Places::allow`], of a request that is suspended on `worker`: it has no other place,
    /// whoever may use that now.
    pub(crate) fn allow_at_home(&self, seen: &Seen<'_>, slot: usize, worker: usize) -> bool {
        !matches!(self, Self::ShorterOnly) || self.allow(seen, slot, worker)
    }

    /// Whether a request of the type at `slot` may run on `worker`.
    pub(crate) fn allow(&self, seen: &Seen<'_>, slot: usize, worker: usize) -> bool {
        match self {
            Self::All => true,
            Self::AllButReserved { reserved } => {
                worker >= *reserved || seen.is_short(slot) || !seen.knows_lengths()
            }
            Self::Partition => seen.partition(slot).contains(&worker),
            Self::ShorterOnly => {
                let longs = seen.running.iter().filter(|&&slot| !seen.is_short(slot));
                let longs_max = seen.workers - seen.reserved_for_short();
                seen.is_short(slot) || longs.count() < longs_max
            }
            Self::Reservation(_) if seen.scheduler.reservation_updates() == 0 => true,
            Self::Reservation(settings) => {
                let status = seen.scheduler.type_status(slot);
                let Some(first) = status.worker_first else {
                    return worker >= seen.workers - settings.spillway;
                };
                let end = first.index() + status.workers_reserved;
                let further = if settings.stealing {
                    end
                } else {
                    seen.reserved_end()
                };
                (first.index()..end).contains(&worker) || worker >= further
            }
        }
    }
}
