//! The simulated server: the real net worker, dispatcher and executors, put together as for a live server, but for the
//! threads.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use mio::{Poll, Waker};
use psp_policy::{Scheduler, WorkerId};

use super::client::Counts;
use super::faults::{Fault, Losing};
use super::handler::SimHandler;
use super::ledger::{Ledger, with_ledger};
use super::plan::Plan;
use super::protocol::{SimClassifier, SimFraming};
use super::worker::{SimTask, Worker};
use super::world::{self, Outside};
use crate::config::Topology;
use crate::error::{RunError, WorkerFault};
use crate::fiber::{Timers, WakeList};
use crate::reply::Deferrals;
use crate::request_types::executors;
use crate::runtime::channel::doorbell::Doorbell;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::cores::Cores;
use crate::runtime::host::spin::Spin;
use crate::runtime::net::commons::Commons;
use crate::runtime::net::net_worker::{NetWorker, Parts};
use crate::runtime::net::port::PortParts;
use crate::runtime::net::topology::{Dedicated, Inline};
use crate::runtime::net::workers::Workers;
use crate::runtime::net::{ALARM, Tokens, WAKER};
use crate::runtime::worker::contexts::ContextPreempter;
use crate::runtime::worker::executor::{Executor, Sending};
use crate::runtime::worker::inline::{InlineThread, InlineWorker};
use crate::runtime::worker::notices::Notices;
use crate::runtime::worker::setup::WorkerSetup;
use crate::runtime::worker_link::{WorkerLink, channel};
use crate::shared::{PolicyMailbox, Receiver, Shared};
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
    Outcome {
        counts,
        passed_ns,
        failure,
    }
}

/// Puts the server together and lets it serve until it has drained. Returns the number of connections that were given
/// up.
fn serve(plan: &Plan) -> Result<usize, RunError> {
    let shared = Arc::new(shared(plan));
    let poll = Poll::new().map_err(RunError::Events)?;
    let waker = Waker::new(poll.registry(), WAKER).map_err(RunError::Events)?;
    let doorbell = Arc::new(Doorbell::new(Arc::new(waker)));
    let wakes = Arc::new(WakeList::new(doorbell.clone()));
    for deferrals in &shared.deferrals {
        deferrals.run(doorbell.clone(), 0);
    }
    let timers = Arc::new(Timers::new(doorbell.clone()));
    let listener = ListenerEnd::new().map_err(RunError::Events)?;
    simulated::with_network(|network| network.listen(Tokens::new(1, 0).listener(0)));

    let framing = Arc::new(SimFraming {
        in_order: plan.in_order,
    });
    let handler = Arc::new(SimHandler {
        types: plan.types.len() as u32,
    });
    let maker = Maker {
        plan,
        shared: &shared,
        framing: &framing,
        handler: &handler,
        clock: Clock::new(),
        doorbell: &doorbell,
        wakes: &wakes,
        timers: &timers,
        notices: Notices::new(),
    };
    let (mut links, mut workers, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut own, mut own_thread) = (None, None);
    let inline = plan.topology == Topology::Inline;
    for number in 0..executors(&plan.types, plan.topology, plan.workers) {
        let (id, start) = (WorkerId(number as u32), Arc::new(TurnStart::new()));
        starts.push(start.clone());
        if (inline && number == 0) || number == plan.workers {
            let (worker, thread) = maker.inline(id, start)?;
            (own, own_thread) = (Some(worker), Some(thread));
        } else {
            let (link, worker) = maker.worker(id, start)?;
            workers.push(worker);
            links.push(link);
        }
    }
    let scheduler = shared.scheduler(&shared.policy.policy());
    let scheduler: Box<dyn Scheduler> = match plan.fault {
        Fault::LosesRequest => Box::new(Losing::new(scheduler)),
        _ => scheduler,
    };
    let receiver = Receiver::new(shared.clone(), 0);
    let executors = starts.len();
    let dispatcher = Dispatcher::new(SimClassifier, scheduler, receiver.clone(), starts);
    let commons = Commons::new(std::slice::from_ref(&doorbell), Vec::new(), &shared.config);
    let shutdown = Shutdown::new();
    let outside = Outside {
        workers,
        wakes: wakes.clone(),
        shared: shared.clone(),
        places: dispatcher.places().clone(),
        shutdown: shutdown.clone(),
    };
    let port = PortParts {
        poll,
        doorbell: doorbell.clone(),
        listeners: vec![Listening {
            socket: Arc::new(ListenerSocket::Simulated(listener)),
            is_shared: false,
            tls: None,
        }],
        endpoints: Vec::new(),
        polled: None,
        handler: handler.clone(),
        framing: framing.clone(),
        shared: receiver,
        commons: Arc::new(commons),
        datagrams: 0,
    };
    let clock = maker.clock.clone();
    let net = NetWorker::new(Parts {
        port,
        executors,
        dispatcher,
        clock,
        wakes: wakes.clone(),
        timers: timers.clone(),
        spin: Spin {
            idle: Duration::ZERO,
            turn: Duration::ZERO,
        },
    })
    .map_err(RunError::Events)?;
    if plan.fault == Fault::LeaksBudget {
        shared.buffers.try_take(1);
    }
    world::install(plan.clone(), outside);
    let workers = Workers::new(WorkerId(u32::from(inline)), links, &shared);
    let serve = || match own {
        Some(own) if inline => Inline { net, own, workers }.serve(&shutdown),
        own => Dedicated { net, own, workers }.serve(&shutdown),
    };
    let served = catch_unwind(AssertUnwindSafe(|| match own_thread {
        None => serve(),
        Some(thread) => { thread.occupy(serve) }
            .unwrap_or_else(|fault| Err(RunError::WorkerDied { worker: 0, fault })),
    }));
    served.unwrap_or_else(|payload| match payload.downcast::<WorkerFault>() {
        Ok(fault) => {
            world::note_death();
            Err(RunError::WorkerDied {
                worker: 0,
                fault: *fault,
            })
        }
        Err(payload) => resume_unwind(payload),
    })
}

/// The state that the server's threads would share.
fn shared(plan: &Plan) -> Shared {
    let mut shared = Shared::example(plan.config.clone(), plan.types.clone(), plan.workers);
    shared.topology = plan.topology;
    shared.workers_min = plan.workers_min;
    shared.policy = PolicyMailbox::new(plan.first_policy(&shared));
    let owed = owed_max(plan.in_order);
    shared.deferrals = vec![Arc::new(Deferrals::new(shared.buffers.clone(), owed))];
    shared.connections_max = AtomicUsize::new(plan.config.connections_max);
    shared
}

/// Makes workers.
struct Maker<'a> {
    plan: &'a Plan,
    shared: &'a Arc<Shared>,
    framing: &'a Arc<SimFraming>,
    handler: &'a Arc<SimHandler>,
    clock: Clock,
    doorbell: &'a Arc<Doorbell>,
    wakes: &'a Arc<WakeList>,
    timers: &'a Arc<Timers>,
    notices: Notices,
}

/// The worker that the net thread is, and the part of its thread.
type InlineParts = (
    InlineWorker<SimFraming, SimHandler>,
    InlineThread<SimFraming, SimHandler>,
);

impl Maker<'_> {
    /// The worker that the net thread is: the real one.
    fn inline(&self, worker: WorkerId, start: Arc<TurnStart>) -> Result<InlineParts, RunError> {
        let setup = WorkerSetup {
            worker,
            notifier: self.notices.notifier(worker),
            handler: self.handler.clone(),
            framing: self.framing.clone(),
            shared: self.shared.clone(),
            clock: self.clock.clone(),
            wakes: self.wakes.clone(),
            timers: self.timers.clone(),
            spin: Duration::ZERO,
            cores: Cores::discover().unpinned(),
            core_index: 0,
            threads: self.plan.workers,
            background: true,
        };
        let preempter = Arc::new(ContextPreempter::new(psp_policy::PreemptPolicy::None));
        let inline = InlineWorker::new(setup, start, preempter)
            .map_err(|fault| RunError::WorkerStart { worker: 0, fault })?;
        let thread = inline.thread();
        Ok((inline, thread))
    }

    /// A worker without a thread.
    fn worker(
        &self,
        id: WorkerId,
        start: Arc<TurnStart>,
    ) -> Result<(WorkerLink<SimTask>, Worker), RunError> {
        let (mut link, port) = channel(self.doorbell.clone());
        let away_ns = Rc::<Cell<u64>>::default();
        let executor = Executor::new(
            Rc::new(Cell::new(id)),
            self.handler.clone(),
            self.framing.clone(),
            self.shared.clone(),
            self.clock.clone(),
            Sending::AtOnce,
            away_ns.clone(),
        );
        let executor = executor.map_err(|fault| RunError::WorkerStart {
            worker: id.index(),
            fault,
        })?;
        let habits = self.plan.habits;
        let worker = Worker::new(id, port, executor, start, away_ns, habits);
        link.attach_preempter(worker.preempter());
        Ok((link, worker))
    }
}
