//! What each policy of this crate promises beyond what all policies do, as a table.

use psp_policy::conformance::{AllowedWorkers, Idling, Order, Preempts, Promises, Quantum};
use psp_policy::{
    Darc, DarcDistributed, DarcLending, HandOff, Jbsq, Jsq, Mq, Policy, Preemption, Requeue, SchedulerSetup, Sq,
    Synergy,
};

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

/// Those whose workers have a queue of their own for each type.
fn own_typed_queues() -> Promises {
    Promises {
        order: Order::ArrivalInTypeAtWorker,
        own_thread_first: false,
        hand_offs: &[HandOff::Own, HandOff::HandedOver, HandOff::Stolen],
        ..by_length()
    }
}

/// Those that run a type on the workers reserved for it, and relieve them of stuck requests.
fn reserving(workers: AllowedWorkers, order: Order) -> Promises {
    Promises { relieves: true, order, workers, ..by_length() }
}

fn reservation(settings: &Darc) -> AllowedWorkers {
    AllowedWorkers::Reservation(settings.clone())
}

/// The quantum of a policy that preempts for any request that waits, if it always does.
const fn any_waiting_if(always: bool, quantum_ns: u64) -> Quantum {
    if always {
        Quantum::ForAnyWaiting { quantum_ns }
    } else {
        Quantum::None
    }
}

/// The quantum of a policy whose workers hold so many requests in queues of their own.
const fn in_queues_of(queued_max: usize, quantum_ns: u64) -> Quantum {
    match queued_max {
        0 => Quantum::ForAnyWaiting { quantum_ns },
        _ => Quantum::ForOwnQueue { quantum_ns, queued_max },
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
        Policy::StaticPartition(_) => reserving(AllowedWorkers::Partition, Order::ArrivalInPartition),
        Policy::Edf(_) => Promises { order: Order::Deadline, ..by_length() },
        Policy::Drr(_) => Promises { order: Order::ArrivalInType, ..by_length() },
        Policy::Cscq(_) => reserving(AllowedWorkers::AnyWithLimit, Order::ArrivalInHalf),
        Policy::Sq(settings) => Promises {
            preempts: Preempts::OneForEachWaiting,
            quantum: any_waiting_if(
                settings.requeue == Requeue::Tail && !spares(settings.spare_finishing),
                settings.quantum_us.ns(Sq::OWN_QUANTUM_US, None),
            ),
            ..central()
        },
        Policy::Mq(settings) => mq(settings, spares(settings.spare_finishing)),
        Policy::Jbsq(settings) => Promises {
            idling: Idling::BesideQueues { queued_max: settings.k - 1 },
            quantum: in_queues_of(settings.k - 1, settings.quantum_us.ns(Jbsq::OWN_QUANTUM_US, None)),
            ..own_queues()
        },
        Policy::Jsq(settings) => Promises {
            stays: true,
            quantum: in_queues_of(usize::MAX, settings.quantum_us.ns(Jsq::OWN_QUANTUM_US, None)),
            ..own_queues()
        },
        Policy::Synergy(settings) => synergy(settings),
        Policy::DarcDistributed(settings) => darc_distributed(settings, preemptive),
        Policy::DarcStatic(settings) => {
            reserving(AllowedWorkers::AllButReserved { reserved: settings.reserved }, Order::ShortestGroup)
        }
        Policy::DarcLending(settings) if !preemptive => promises_of(&settings.darc.clone().into(), setup),
        Policy::DarcLending(settings) => darc_lending(settings, preemption),
        Policy::Darc(settings) => reserving(reservation(settings), Order::ShortestGroup),
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

fn mq(settings: &Mq, spares_finishing: bool) -> Promises {
    Promises {
        order: Order::ArrivalInType,
        preempts: Preempts::OneForEachWaiting,
        quantum: any_waiting_if(
            !settings.spare_chosen && !spares_finishing,
            settings.quantum_us.ns(Mq::OWN_QUANTUM_US, None),
        ),
        ..by_length()
    }
}

fn synergy(settings: &Synergy) -> Promises {
    Promises {
        preempts: if settings.conditional_preemption {
            Preempts::ForOthers
        } else {
            Preempts::AfterQuantum
        },
        hand_offs: &[HandOff::Own, HandOff::Stolen],
        ..own_queues()
    }
}

fn darc_distributed(settings: &DarcDistributed, preemptive: bool) -> Promises {
    let reservation = reservation(&settings.darc);
    if preemptive && settings.lends {
        let preempts = Preempts::ForShorterOrAged { aged_ns: u64::MAX };
        Promises {
            idling: Idling::UnlessLent(reservation),
            preempts,
            ..own_typed_queues()
        }
    } else {
        Promises { relieves: true, workers: reservation, ..own_typed_queues() }
    }
}

fn darc_lending(settings: &DarcLending, preemption: Option<Preemption>) -> Promises {
    Promises {
        idling: Idling::UnlessLent(reservation(&settings.darc)),
        own_thread_first: false,
        order: Order::ArrivalInType,
        preempts: Preempts::ForShorterOrAged { aged_ns: aged_ns(preemption) },
        ..by_length()
    }
}
