//! For each promise, policies that break it alone.

use super::faulty::Change::{Acts, Adds, Hears, KeepsAll, Says, Setup, Shares, TakesOver, Waits};
use super::faulty::{Change, faulty};
use super::view::{View, is_blocked, preempt, run, runs};
use crate::backlog::RequestState;
use crate::conformance::{AllowedWorkers, Idling, Order, Preempts, Promise, Promises, Quantum};
use crate::event::{Action, Event, HandOff, WorkerId};
use crate::policy::Policy;
use crate::request_type::RequestType;
use crate::scheduler::TypeStatus;
use crate::settings;
use crate::setup::Contexts;

/// A type of no request.
const NO_TYPE: RequestType = RequestType::new(77);

/// What c-FCFS promises.
fn central() -> Promises {
    Promises { order: Order::Arrival, ..Promises::default() }
}

/// What policies promise that go by the lengths of types.
fn by_length(order: Order) -> Promises {
    Promises { order, own_thread_spared: true, ..Promises::default() }
}

fn reserving(settings: settings::Darc) -> Promises {
    Promises {
        workers: AllowedWorkers::Reservation(settings),
        relieves: true,
        ..by_length(Order::ShortestGroup)
    }
}

fn darc() -> Promises {
    reserving(settings::Darc::default())
}

fn without_stealing() -> settings::Darc {
    settings::Darc::default().stealing(false)
}

fn darc_lending() -> Promises {
    Promises {
        idling: Idling::UnlessLent(AllowedWorkers::Reservation(settings::Darc::default())),
        own_thread_first: false,
        preempts: Preempts::ForShorterOrAged { aged_ns: 1_000 },
        ..by_length(Order::ArrivalInType)
    }
}

/// DARC's workers without lending.
fn workers() -> Policy {
    settings::DarcDistributed::default().lends(false).into()
}

fn own_queues() -> Promises {
    Promises {
        order: Order::ArrivalInTypeAtWorker,
        own_thread_first: false,
        hand_offs: &[HandOff::Own, HandOff::HandedOver, HandOff::Stolen],
        ..darc()
    }
}

fn static_partition() -> Promises {
    Promises {
        workers: AllowedWorkers::Partition,
        relieves: true,
        ..by_length(Order::ArrivalInPartition)
    }
}

fn cscq() -> Promises {
    Promises {
        workers: AllowedWorkers::AnyWithLimit,
        relieves: true,
        ..by_length(Order::ArrivalInHalf)
    }
}

/// Every request yields when its quantum is over.
fn sq() -> Policy {
    settings::Sq::default().spare_finishing(false).into()
}

fn turns() -> Promises {
    Promises {
        preempts: Preempts::OneForEachWaiting,
        quantum: Quantum::ForAnyWaiting { quantum_ns: 5_000 },
        ..central()
    }
}

/// What policies promise whose workers have queues of their own.
fn at_workers(queued_max: usize) -> Promises {
    Promises {
        order: Order::ArrivalAtWorker,
        idling: Idling::BesideQueues { queued_max },
        own_thread_first: false,
        hand_offs: &[HandOff::Own],
        ..Promises::default()
    }
}

fn d_fcfs() -> Promises {
    Promises { stays: true, ..at_workers(usize::MAX) }
}

/// Every quantum ends with a preemption.
fn synergy() -> Policy {
    let settings = settings::Synergy::default();
    settings.conditional_preemption(false).into()
}

fn thieves() -> Promises {
    Promises {
        preempts: Preempts::AfterQuantum,
        hand_offs: &[HandOff::Own, HandOff::Stolen],
        ..at_workers(usize::MAX)
    }
}

fn jbsq() -> Promises {
    Promises {
        preempts: Preempts::ForOthers,
        quantum: Quantum::ForOwnQueue { quantum_ns: 5_000, queued_max: 1 },
        hand_offs: &[HandOff::Dispatched, HandOff::Own],
        ..at_workers(1)
    }
}

const fn refuses(action: &Action) -> bool {
    matches!(action, Action::Reject { .. })
}

fn never_preempts(_: &View, action: Action) -> Option<Action> {
    (!matches!(action, Action::Preempt { .. })).then_some(action)
}

/// Preempts whatever yields, where another request can begin.
fn preempts_all(view: &View) -> Option<Action> {
    let can_begin = |worker| view.can_begin(worker);
    view.preempts(|turn| !turn.preempted && turn.yields && can_begin(turn.worker))
}

/// The same, until one worker more stops than requests wait.
fn preempts_one_too_many(view: &View) -> Option<Action> {
    let stopping = view.turns().filter(|turn| turn.preempted).count();
    let unbound = view.unbound();
    preempts_all(view).filter(|_| unbound > 0 && stopping <= unbound)
}

/// Runs a later request of the type before one that was blocked.
pub(super) fn puts_off_blocked(view: &View, mut action: Action) -> Option<Action> {
    if let Action::Run { worker, request, request_type, .. } = &mut action
        && view.was_blocked(*request)
        && view.can_begin(*worker)
    {
        let later = view.find(|other| {
            let waits = other.state == RequestState::Waiting;
            waits && other.request > *request && other.request_type == *request_type
        });
        *request = later.map_or(*request, |later| later.request);
    }
    Some(action)
}

/// c-FCFS, to which a fault is yet to come.
fn keeps_all() -> Policy {
    faulty(Policy::c_fcfs(), KeepsAll)
}

/// A fault, a policy that has it, and what it promises.
pub(super) type Row = (&'static str, Policy, Promises);

/// c-FCFS with a fault.
fn fcfs(fault: &'static str, change: Change) -> Row {
    (fault, faulty(Policy::c_fcfs(), change), central())
}

/// The same policies without their faults.
pub(super) fn good() -> Vec<(Policy, Promises)> {
    vec![
        (Policy::c_fcfs(), central()),
        (keeps_all(), central()),
        (Policy::edf(), by_length(Order::Deadline)),
        (Policy::sjf(), by_length(Order::ShortestGroup)),
        (Policy::static_partition(), static_partition()),
        (Policy::cscq(), cscq()),
        (Policy::darc(), darc()),
        (without_stealing().into(), reserving(without_stealing())),
        (Policy::darc_lending(), darc_lending()),
        (workers(), own_queues()),
        (sq(), turns()),
        (Policy::jbsq(), jbsq()),
        (Policy::d_fcfs(), d_fcfs()),
        (synergy(), thieves()),
    ]
}

/// The policies that break a promise, each this one alone.
pub(super) fn breaking(promise: Promise) -> Vec<Row> {
    match promise {
        Promise::NothingLost => vec![(
            "begins nothing when all workers idle",
            faulty(
                Policy::c_fcfs(),
                Acts(|view, action| (refuses(&action) || !view.is_at_rest()).then_some(action)),
            ),
            Promises { idling: Idling::Freely, ..central() },
        )],
        Promise::NothingTwice => nothing_twice(),
        Promise::OneRequestPerWorker => one_request_per_worker(),
        Promise::RefusedOnlyWhenFull => refused_only_when_full(),
        Promise::HomeWorker => home_worker(),
        Promise::PresentWorkers => vec![fcfs(
            "does not hear of workers that go",
            Hears(|view, event| !matches!(event, Event::Workers { present } if *present < view.present)),
        )],
        Promise::Contexts => contexts(),
        Promise::PreemptsWhatCanStop => preempts_what_can_stop(),
        Promise::PreemptsOnce => {
            vec![("asks again", faulty(sq(), Adds(|view| view.preempts(|turn| turn.preempted))), turns())]
        }
        Promise::PreemptsAfterQuantum => preempts_after_quantum(),
        Promise::Deadline => vec![
            fcfs("wants a tick when it has just been polled", Waits(|view| Some(view.now_ns))),
            fcfs("has a deadline for ever", Waits(|_| Some(u64::MAX))),
        ],
        Promise::Runs => runs_of_types(),
        Promise::Order => order(),
        Promise::AllowedWorkers => allowed_workers(),
        Promise::WorkConserving => work_conserving(),
        Promise::Stays => vec![("c-fcfs", Policy::c_fcfs(), Promises { stays: true, ..central() })],
        Promise::OwnThreadFirst => vec![fcfs("does not know of the own thread", Setup(|setup| setup.inline(false)))],
        Promise::OwnThreadSpared => vec![(
            "does not know of the own thread",
            faulty(Policy::darc(), Setup(|setup| setup.inline(false).stuck(None))),
            Promises { own_thread_first: false, relieves: false, ..darc() },
        )],
        Promise::Relieved => relieved(),
        Promise::PreemptsForOthers => preempts_for_others(),
        Promise::Quantum => vec![
            ("does not preempt", faulty(sq(), Acts(never_preempts)), turns()),
            (
                "does not preempt for the queue of a worker",
                faulty(Policy::jbsq(), Acts(never_preempts)),
                jbsq(),
            ),
        ],
        Promise::HandOff => vec![("c-fcfs", Policy::c_fcfs(), Promises { hand_offs: &[HandOff::Own], ..central() })],
        Promise::Telemetry => telemetry(),
    }
}

fn nothing_twice() -> Vec<Row> {
    vec![
        fcfs("runs what runs", Adds(|view| view.find(runs).map(run))),
        fcfs("runs what is blocked", Adds(|view| view.find(is_blocked).map(run))),
        fcfs(
            "runs a request of another type",
            Acts(|_, mut action| {
                if let Action::Run { request_type, .. } = &mut action {
                    *request_type = NO_TYPE;
                }
                Some(action)
            }),
        ),
        fcfs(
            "refuses a request of another type",
            Acts(|_, mut action| {
                if let Action::Reject { request_type, .. } = &mut action {
                    *request_type = NO_TYPE;
                }
                Some(action)
            }),
        ),
    ]
}

fn one_request_per_worker() -> Vec<Row> {
    vec![fcfs(
        "gives all to a busy worker",
        Acts(|view, mut action| {
            if let Action::Run { worker, .. } = &mut action
                && let Some(busy) = view.turns().next()
            {
                *worker = busy.worker;
            }
            Some(action)
        }),
    )]
}

fn refused_only_when_full() -> Vec<Row> {
    vec![
        fcfs("refuses silently", Acts(|_, action| (!refuses(&action)).then_some(action))),
        fcfs(
            "refuses what it accepted",
            Acts(|_, action| match action {
                Action::Run { request, request_type, .. } => Some(Action::Reject { request, request_type }),
                other => Some(other),
            }),
        ),
    ]
}

fn home_worker() -> Vec<Row> {
    vec![fcfs(
        "resumes anywhere",
        Acts(|view, mut action| {
            if let Action::Run { worker, request, .. } = &mut action
                && view.resumes_at_home(*request)
                && let Some(other) = view.idle().find(|idle| idle != worker)
            {
                *worker = other;
            }
            Some(action)
        }),
    )]
}

fn contexts() -> Vec<Row> {
    vec![
        fcfs(
            "begins more than a worker can hold",
            Setup(|setup| match setup.contexts.migrates {
                true => setup,
                false => setup.contexts(Contexts::at_home(usize::MAX)),
            }),
        ),
        (
            "preempts where no other request can begin",
            faulty(keeps_all(), Adds(|view| view.preempts(|turn| !turn.preempted && turn.yields))),
            Promises { preempts: Preempts::Freely, ..central() },
        ),
    ]
}

fn preempts_what_can_stop() -> Vec<Row> {
    vec![
        fcfs(
            "preempts where nothing can be preempted",
            Adds(|view| {
                let turn = view.turns().next().filter(|_| !view.preemptive)?;
                Some(preempt(turn.worker))
            }),
        ),
        fcfs("preempts what never yields", Adds(|view| view.preempts(|turn| !turn.yields))),
        fcfs(
            "preempts an idle worker",
            Adds(|view| {
                let is_idle = view.preemptive && view.find(runs).is_none();
                is_idle.then_some(preempt(WorkerId(0)))
            }),
        ),
    ]
}

fn preempts_after_quantum() -> Vec<Row> {
    vec![(
        "asks a nanosecond early",
        faulty(
            sq(),
            Acts(|_, mut action| {
                if let Action::Preempt { quantum_ns, .. } = &mut action {
                    *quantum_ns += 1;
                }
                Some(action)
            }),
        ),
        turns(),
    )]
}

fn runs_of_types() -> Vec<Row> {
    vec![
        fcfs("splits a run of one type", Shares(|_, _, _| false)),
        fcfs(
            "is not symmetric",
            Shares(|view, first, next| first == next || (first < next && view.knows(next))),
        ),
        fcfs(
            "mixes registered types with others",
            Shares(|view, first, next| first == next || view.knows(first) != view.knows(next)),
        ),
        fcfs("groups what is never grouped", Says(|_, status| TypeStatus { group: Some(0), ..status })),
    ]
}

fn order() -> Vec<Row> {
    vec![
        ("edf", Policy::edf(), by_length(Order::Arrival)),
        ("edf in a type", Policy::edf(), by_length(Order::ArrivalInType)),
        ("edf in a type at a worker", Policy::edf(), by_length(Order::ArrivalInTypeAtWorker)),
        ("sjf in a half", Policy::sjf(), by_length(Order::ArrivalInHalf)),
        ("sjf in a partition", Policy::sjf(), by_length(Order::ArrivalInPartition)),
        ("c-fcfs", Policy::c_fcfs(), Promises { order: Order::Deadline, ..central() }),
        ("cscq", Policy::cscq(), Promises { order: Order::ShortestGroup, ..cscq() }),
        ("darc-distributed", workers(), Promises { order: Order::ArrivalAtWorker, ..own_queues() }),
        (
            "puts what was blocked behind what came later",
            faulty(keeps_all(), Acts(puts_off_blocked)),
            Promises::default(),
        ),
    ]
}

fn allowed_workers() -> Vec<Row> {
    vec![
        (
            "sjf",
            Policy::sjf(),
            Promises {
                workers: AllowedWorkers::AllButReserved { reserved: 1 },
                ..by_length(Order::ShortestGroup)
            },
        ),
        (
            "has a larger partition than it says",
            faulty(
                Policy::static_partition(),
                Says(|_, status| TypeStatus { workers_reserved: status.workers_reserved.min(1), ..status }),
            ),
            Promises { relieves: false, ..static_partition() },
        ),
        (
            "runs more long requests than it says",
            faulty(
                Policy::cscq(),
                Says(|_, status| TypeStatus { workers_reserved: status.workers_reserved + 1, ..status }),
            ),
            Promises { telemetry: false, ..cscq() },
        ),
        (
            "has more workers reserved than it says",
            faulty(
                without_stealing(),
                Says(|_, status| match status.worker_first {
                    Some(WorkerId(first)) if status.workers_reserved > 1 => TypeStatus {
                        worker_first: Some(WorkerId(first + 1)),
                        workers_reserved: status.workers_reserved - 1,
                        ..status
                    },
                    _ => status,
                }),
            ),
            Promises { relieves: false, ..reserving(without_stealing()) },
        ),
        (
            "relieves on the driver's own thread",
            faulty(Policy::darc(), Setup(|setup| setup.inline(false))),
            Promises { own_thread_spared: false, own_thread_first: false, ..darc() },
        ),
    ]
}

fn work_conserving() -> Vec<Row> {
    vec![
        fcfs(
            "begins nothing while anything runs",
            Acts(|view, action| {
                let starts = view.find(runs).is_none();
                (refuses(&action) || starts).then_some(action)
            }),
        ),
        ("d-fcfs", Policy::d_fcfs(), at_workers(0)),
        (
            "static-partition",
            Policy::static_partition(),
            Promises {
                idling: Idling::UnlessLent(AllowedWorkers::All),
                ..static_partition()
            },
        ),
    ]
}

fn relieved() -> Vec<Row> {
    [
        (Policy::darc(), darc()),
        (Policy::static_partition(), static_partition()),
        (Policy::cscq(), cscq()),
    ]
    .into_iter()
    .map(|(good, promises)| {
        let patient = faulty(good, Setup(|setup| setup.stuck(None)));
        ("takes nothing for stuck", patient, promises)
    })
    .collect()
}

fn preempts_for_others() -> Vec<Row> {
    let adds = |fault, added: fn(&View) -> Option<Action>, preempts| {
        let promises = Promises { preempts, ..central() };
        (fault, faulty(keeps_all(), Adds(added)), promises)
    };
    let preempts = |fault, preempts| adds(fault, preempts_all, preempts);
    let aged_ns = u64::MAX;
    vec![
        preempts("preempts", Preempts::Never),
        adds("preempts one too many", preempts_one_too_many, Preempts::OneForEachWaiting),
        preempts("preempts for none", Preempts::ForOthers),
        preempts("preempts without a quantum", Preempts::AfterQuantum),
        preempts("preempts for equals", Preempts::ForShorterOrAged { aged_ns }),
    ]
}

fn telemetry() -> Vec<Row> {
    vec![
        fcfs("says nothing", Says(|_, _| TypeStatus::default())),
        fcfs(
            "counts a request more",
            Says(|_, status| TypeStatus { queued: status.queued + 1, ..status }),
        ),
        fcfs(
            "counts a refusal more",
            Says(|_, status| TypeStatus { rejections: status.rejections + 1, ..status }),
        ),
        fcfs(
            "reserves an absent worker",
            Says(|view, status| TypeStatus {
                worker_first: view.present.try_into().ok().map(WorkerId),
                workers_reserved: 1,
                ..status
            }),
        ),
        fcfs(
            "has no finite mean",
            Says(|_, status| TypeStatus { service_ns_mean: f64::INFINITY, ..status }),
        ),
        fcfs("has a mean below zero", Says(|_, status| TypeStatus { service_ns_mean: -1.0, ..status })),
        fcfs("has a share of more than all", Says(|_, status| TypeStatus { share: 1.5, ..status })),
        fcfs(
            "forgets the refusals of the policy before",
            TakesOver(|backlog| backlog.rejections.fill(0)),
        ),
    ]
}
