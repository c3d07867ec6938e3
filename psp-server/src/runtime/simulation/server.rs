//! The simulated server: the real net worker, dispatcher and executors, put together as for a live server, but for the
//! threads.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use mio::{Poll, Waker};
use psp_policy::WorkerId;
use psp_policy::admission::{Admission, AdmissionSettings};

use super::client::Counts;
use super::faults::{Fault, Losing};
use super::handler::SimHandler;
use super::ledger::{Ledger, with_ledger};
use super::plan::Plan;
use super::protocol::{SimClassifier, SimFraming};
use super::worker::{SimTask, Worker};
use super::world::{self, Outside};
use crate::error::RunError;
use crate::guarded_framing::GuardedFraming;
use crate::reply::Deferrals;
use crate::request_types::executors;
use crate::runtime::channel::doorbell::Doorbell;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::host::cores::Cores;
use crate::runtime::host::spin::Spin;
use crate::runtime::launch::NetThread;
use crate::runtime::net::{ALARM, Tokens, WAKER};
use crate::runtime::start::{Launch, Port};
use crate::runtime::worker::executor::Sending;
use crate::runtime::worker::notices::{Notices, start_error};
use crate::runtime::worker::setup::WorkerSetup;
use crate::runtime::worker_link::{WorkerLink, channel};
use crate::shared::{Gate, PolicyMailbox, Shared};
use crate::shutdown::Shutdown;
use crate::simulated;
use crate::simulated::ListenerEnd;
use crate::simulated::random::Random;
use crate::transport::listening::Listening;
use crate::transport::owed::owed_max;
use crate::transport::socket::ListenerSocket;

/// When the time of a simulated system begins.
const BEGIN_NS: u64 = 1_000_000_000;

/// What a simulation found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) counts: Counts,
    /// Virtual time.
    pub(super) passed_ns: u64,
    pub(super) failure: Option<String>,
}

/// Simulates a plan from the start of the server to the end of its clients.
pub(super) fn simulate(plan: Plan) -> Outcome {
    let mut random = Random::new(plan.seed ^ 0x00DE_FE44);
    with_ledger(|ledger| {
        *ledger = Ledger::new();
        ledger.later_ns_max = plan.later_ns_max + 1;
        ledger.in_order = plan.in_order;
        ledger.fault = plan.fault;
        ledger.losses = plan.net_losses;
        ledger.random = Some(Random::new(random.next()));
    });
    let system = simulated::begin(BEGIN_NS, ALARM, plan.network, world::happen);
    let served = serve(&plan);
    let (is_faulty, dies) = (plan.fault != Fault::None, plan.dies_at.is_some());
    let unfinished = match served {
        Ok(unfinished) => unfinished,
        // The simulation has stopped it.
        Err(RunError::Events(_)) => 0,
        Err(_) if dies => 0,
        Err(error) => {
            with_ledger(|ledger| ledger.fail(format!("the server ended: {error}")));
            0
        }
    };
    let counts = world::finish();
    if unfinished > 0 && !is_faulty && plan.drain_at.is_none() && !dies {
        with_ledger(|ledger| ledger.fail(format!("{unfinished} connections were given up")));
    }
    let failure = with_ledger(|ledger| {
        // They belong to a server that is gone.
        ledger.later.clear();
        ledger.failure.take()
    });
    let passed_ns = simulated::now_ns() - BEGIN_NS;
    drop(system);
    Outcome { counts, passed_ns, failure }
}

/// Puts the server together and lets it serve until it has drained. Returns the number of connections that were given
/// up.
fn serve(plan: &Plan) -> Result<usize, RunError> {
    let shared = Arc::new(shared(plan));
    let poll = Poll::new().map_err(RunError::Events)?;
    let waker = Waker::new(poll.registry(), WAKER).map_err(RunError::Events)?;
    let listener = ListenerEnd::new().map_err(RunError::Events)?;
    simulated::with_network(|network| network.listen(Tokens::new(1, 0).listener(0)));
    let port = Port {
        poll,
        waker: Arc::new(waker),
        listeners: vec![Listening {
            socket: Arc::new(ListenerSocket::Simulated(listener)),
            is_shared: false,
            tls: None,
        }],
    };
    let scheduler = shared.scheduler(&shared.policy.policy());
    let launch = Launch {
        ports: Vec::new(),
        endpoints: Vec::new(),
        datagram_addrs: Vec::new(),
        polled: Vec::new(),
        classifier: SimClassifier,
        scheduler: match plan.fault {
            Fault::LosesRequest => Box::new(Losing::new(scheduler)),
            _ => scheduler,
        },
        handler: Arc::new(SimHandler { types: plan.types.len() as u32 }),
        framing: Arc::new(GuardedFraming::new(SimFraming { in_order: plan.in_order })),
        shared: shared.clone(),
        cores: Cores::discover().unpinned(),
        datagrams: 0,
    };
    let mut net_thread = NetThread::new(&launch, &port);
    net_thread.spin = Spin { idle: Duration::ZERO, turn: Duration::ZERO };
    let (notices, shutdown) = (Notices::new(), Shutdown::new());
    let (mut own, mut links, mut workers, mut starts) = (None, Vec::new(), Vec::new(), Vec::new());
    let executors = executors(&plan.types, plan.topology, plan.workers);
    for id in (0..).map(WorkerId).take(executors) {
        let start = Arc::new(TurnStart::new());
        starts.push(start.clone());
        let setup = net_thread.setup(&launch, &notices, id);
        if net_thread.own == Some(id) {
            own = Some(net_thread.own_worker(setup, start)?);
        } else {
            let (link, worker) = worker(setup, start, &net_thread.doorbell, plan)?;
            workers.push(worker);
            links.push(link);
        }
    }
    let net = net_thread.net_worker(launch, port, starts, None);
    let net = net.map_err(RunError::Events)?;
    let outside = Outside {
        workers,
        wakes: net_thread.wakes.clone(),
        shared: shared.clone(),
        places: net.places().clone(),
        shutdown: shutdown.clone(),
    };
    if plan.fault == Fault::LeaksBudget {
        shared.buffers.try_take(1);
    }
    world::install(plan.clone(), outside);
    let links = net_thread.workers(links, &shared);
    let served = net_thread.serve(net, own, links, &shutdown);
    if let Err(RunError::WorkerDied { .. }) = served {
        world::note_death();
    }
    served
}

/// A worker without a thread.
fn worker(
    setup: WorkerSetup<SimFraming, SimHandler>,
    start: Arc<TurnStart>,
    doorbell: &Arc<Doorbell>,
    plan: &Plan,
) -> Result<(WorkerLink<SimTask>, Worker), RunError> {
    let (mut link, port) = channel(doorbell.clone());
    let away_ns = Rc::<Cell<u64>>::default();
    let executor = setup.executor(Sending::AtOnce, away_ns.clone());
    let executor = executor.map_err(|fault| start_error(setup.worker, fault))?;
    let worker = Worker::new(setup.worker, port, executor, start, away_ns, plan.habits);
    link.attach_preempter(worker.preempter());
    Ok((link, worker))
}

/// The state that the server's threads would share.
fn shared(plan: &Plan) -> Shared {
    let mut shared = Shared::example(plan.config.clone(), plan.types.clone(), plan.workers);
    shared.topology = plan.topology;
    shared.workers_min = plan.workers_min;
    shared.policy = PolicyMailbox::new(plan.first_policy(&shared));
    shared.gate = plan.has_admission().then(|| {
        let admission = Admission::new(plan.workers_min, &plan.types, AdmissionSettings::default());
        Gate::new(Box::new(admission), plan.workers_min, plan.types.len() + 1, false)
    });
    let owed = owed_max(plan.in_order);
    shared.deferrals = vec![Arc::new(Deferrals::new(shared.buffers.clone(), owed))];
    shared.connections_max = AtomicUsize::new(plan.config.connections_max);
    shared
}
