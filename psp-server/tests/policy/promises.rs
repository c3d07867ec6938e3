//! What each policy promises beyond what all of them do, as a table.

use psp_server::Policy;
use psp_server::policy::{Darc, HandOff, Scheduler};

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Promises {
    pub(crate) order: Order,
    pub(crate) places: Places,
    /// No worker idles while someone waits that may use it.
    pub(crate) conserves_work: bool,
    /// A request that may use the driver's own thread does so whenever that is idle.
    pub(crate) own_thread_first: bool,
    pub(crate) preempts: Preempts,
    /// How requests may reach their workers.
    pub(crate) hand_offs: &'static [HandOff],
}

/// Which of those that wait starts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The one that arrived first.
    Arrival,
    /// Of each group, the one that arrived first.
    ArrivalInGroup,
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
    /// Those of the group's reservation, and with stealing those of longer groups.
    Reservation(Darc),
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
}

/// Policies that run every request to its end on a worker that the dispatcher chose from all.
const CENTRAL: Promises = Promises {
    order: Order::Arrival,
    places: Places::All,
    conserves_work: true,
    own_thread_first: true,
    preempts: Preempts::Never,
    hand_offs: &[HandOff::Dispatched],
};

impl Promises {
    pub(crate) fn of(policy: &Policy) -> Self {
        match policy {
            Policy::DFcfs => Self {
                order: Order::Unseen,
                conserves_work: false,
                own_thread_first: false,
                hand_offs: &[HandOff::Own],
                ..CENTRAL
            },
            Policy::CFcfs => CENTRAL,
            Policy::FixedPriority => Self {
                order: Order::ArrivalInGroup,
                ..CENTRAL
            },
            Policy::DarcStatic(settings) => Self {
                order: Order::ArrivalInGroup,
                places: Places::AllButReserved {
                    reserved: settings.reserved,
                },
                ..CENTRAL
            },
            Policy::Darc(settings) => Self {
                order: Order::ArrivalInGroup,
                places: Places::Reservation(settings.clone()),
                ..CENTRAL
            },
        }
    }
}

/// What can be asked of a scheduler from outside.
pub(crate) struct Seen<'a> {
    pub(crate) scheduler: &'a dyn Scheduler,
    pub(crate) workers: usize,
    /// Number of registered types.
    pub(crate) types: usize,
}

impl Seen<'_> {
    fn group(&self, slot: usize) -> Option<usize> {
        self.scheduler.type_status(slot).group
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
        }
    }
}

impl Order {
    /// Whether, of two types, whoever arrived first starts first.
    pub(crate) fn is_shared(self, seen: &Seen<'_>, a: usize, b: usize) -> bool {
        match self {
            Self::Arrival => true,
            Self::ArrivalInGroup => a == b || seen.group(a) == seen.group(b),
            Self::Unseen => false,
        }
    }
}

impl Places {
    /// Whether a request of the type at `slot` may run on `worker`.
    pub(crate) fn allow(&self, seen: &Seen<'_>, slot: usize, worker: usize) -> bool {
        match self {
            Self::All => true,
            Self::AllButReserved { reserved } => {
                worker >= *reserved
                    || seen.group(slot) == Some(0)
                    || (0..seen.types).all(|slot| seen.group(slot).is_none())
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
