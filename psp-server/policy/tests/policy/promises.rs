//! What each policy of this crate promises beyond what all policies do, as a table.

use psp_policy::conformance::{AllowedWorkers, Idling, Order, Preempts, Promises, Quantum};
use psp_policy::{HandOff, Jbsq, Jsq, Mq, Policy, Preemption, Requeue, SchedulerSetup, Sq};

/// Policies that run every request to its end, on a worker that a dispatcher chooses from all.
fn central() -> Promises {
    Promises { order: Order::Arrival, ..Promises::default() }
}

/// Those among them that go by the lengths of types.
fn by_length() -> Promises {
    Promises { own_thread_spared: true, ..central() }
}

/// Policies whose workers have queues of their own, and preempt for the requests in them.
fn own_queues() -> Promises {
    Promises {
        order: Order::ArrivalAtWorker,
        idling: Idling::BesideQueues { queued_max: usize::MAX },
        own_thread_first: false,
        preempts: Preempts::ForOthers,
        hand_offs: &[HandOff::Dispatched, HandOff::Own],
        ..central()
    }
}

/// What a policy of this crate promises under this setup.
pub(crate) fn promises_of(policy: &Policy, setup: &SchedulerSetup<'_>) -> Promises {
    let preemption = setup.preemption;
    let preemptive = preemption.is_some();
    let spares = |setting: Option<bool>| setting.unwrap_or(preemptive && !setup.contexts.migrates);
    match policy {
        Policy::DFcfs(_) => Promises {
            stays: true,
            preempts: Preempts::Never,
            hand_offs: &[HandOff::Own],
            ..own_queues()
        },
        Policy::CFcfs(_) | Policy::Custom(_) => central(),
        Policy::Wrr(_) => Promises { order: Order::ArrivalInType, ..central() },
        Policy::Stealing(_) => Promises {
            order: Order::ArrivalAtWorker,
            own_thread_first: false,
            hand_offs: &[HandOff::Own, HandOff::Stolen],
            ..central()
        },
        Policy::FixedPriority(_) | Policy::Sjf(_) => Promises { order: Order::ShortestGroup, ..by_length() },
        Policy::StaticPartition(_) => Promises {
            relieves: true,
            order: Order::ArrivalInPartition,
            workers: AllowedWorkers::Partition,
            ..by_length()
        },
        Policy::Edf(_) => Promises { order: Order::Deadline, ..by_length() },
        Policy::Drr(_) => Promises { order: Order::ArrivalInType, ..by_length() },
        Policy::Cscq(_) => Promises {
            relieves: true,
            order: Order::ArrivalInHalf,
            workers: AllowedWorkers::AnyWithLimit,
            ..by_length()
        },
        Policy::Sq(settings) => Promises {
            preempts: Preempts::OneForEachWaiting,
            quantum: if settings.requeue == Requeue::Tail && !spares(settings.spare_finishing) {
                Quantum::ForAnyWaiting { quantum_ns: settings.quantum_us.ns(Sq::OWN_QUANTUM_US, None) }
            } else {
                Quantum::None
            },
            ..central()
        },
        Policy::Mq(settings) => Promises {
            order: Order::ArrivalInType,
            preempts: Preempts::OneForEachWaiting,
            quantum: if settings.spare_chosen || spares(settings.spare_finishing) {
                Quantum::None
            } else {
                Quantum::ForAnyWaiting { quantum_ns: settings.quantum_us.ns(Mq::OWN_QUANTUM_US, None) }
            },
            ..by_length()
        },
        Policy::Jbsq(settings) => Promises {
            idling: Idling::BesideQueues { queued_max: settings.k - 1 },
            quantum: if settings.k == 1 {
                Quantum::ForAnyWaiting {
                    quantum_ns: settings.quantum_us.ns(Jbsq::OWN_QUANTUM_US, None),
                }
            } else {
                Quantum::ForOwnQueue {
                    quantum_ns: settings.quantum_us.ns(Jbsq::OWN_QUANTUM_US, None),
                    queued_max: settings.k - 1,
                }
            },
            ..own_queues()
        },
        Policy::Jsq(settings) => Promises {
            stays: true,
            quantum: Quantum::ForOwnQueue {
                quantum_ns: settings.quantum_us.ns(Jsq::OWN_QUANTUM_US, None),
                queued_max: usize::MAX,
            },
            ..own_queues()
        },
        Policy::Synergy(settings) => Promises {
            preempts: if settings.conditional_preemption {
                Preempts::ForOthers
            } else {
                Preempts::AfterQuantum
            },
            hand_offs: &[HandOff::Own, HandOff::Stolen],
            ..own_queues()
        },
        Policy::DarcDistributed(settings) => {
            let lends = preemptive && settings.lends;
            let reservation = AllowedWorkers::Reservation(settings.darc.clone());
            Promises {
                relieves: !lends,
                order: Order::ArrivalInTypeAtWorker,
                workers: if lends {
                    AllowedWorkers::All
                } else {
                    reservation.clone()
                },
                idling: if lends {
                    Idling::UnlessLent(reservation)
                } else {
                    Idling::Never
                },
                own_thread_first: false,
                preempts: if lends {
                    Preempts::ForShorterOrAged { aged_ns: u64::MAX }
                } else {
                    Preempts::Never
                },
                hand_offs: &[HandOff::Own, HandOff::HandedOver, HandOff::Stolen],
                ..by_length()
            }
        }
        Policy::DarcStatic(settings) => Promises {
            relieves: true,
            order: Order::ShortestGroup,
            workers: AllowedWorkers::AllButReserved { reserved: settings.reserved },
            ..by_length()
        },
        Policy::DarcLending(settings) if !preemptive => promises_of(&settings.darc.clone().into(), setup),
        Policy::DarcLending(settings) => Promises {
            idling: Idling::UnlessLent(AllowedWorkers::Reservation(settings.darc.clone())),
            own_thread_first: false,
            order: Order::ArrivalInType,
            preempts: Preempts::ForShorterOrAged { aged_ns: aged_ns(preemption) },
            ..by_length()
        },
        Policy::Darc(settings) => Promises {
            relieves: true,
            order: Order::ShortestGroup,
            workers: AllowedWorkers::Reservation(settings.clone()),
            ..by_length()
        },
        Policy::Portfolio(_) => Promises {
            order: Order::None,
            idling: Idling::Freely,
            own_thread_first: false,
            preempts: Preempts::Freely,
            ..central()
        },
        other => unreachable!("{other:?} promises nothing"),
    }
}

/// The least service time from which `darc-lending` may preempt a request for others of its group.
fn aged_ns(preemption: Option<Preemption>) -> u64 {
    let cost_ns = preemption.map_or(0, |preemption| preemption.cost_ns);
    (cost_ns * 3).max(1_000)
}
