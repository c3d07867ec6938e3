//! Starts the threads of a server, and ends them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use psp_arbiter::ThreadId;
use psp_policy::{PreemptPolicy, WorkerId};
use psp_protocols::Framing;

use super::channel::doorbell::Doorbell;
use super::channel::turn_start::TurnStart;
use super::dispatch::dispatcher::Dispatcher;
use super::drain_report::DrainReport;
use super::host::clock::Clock;
use super::host::cores::Cores;
use super::host::scheduling::{can_lower_preempted, sharpen_timers, shorten_slice};
use super::host::spin::Spin;
use super::net::commons::Commons;
use super::net::net_worker::{NetWorker, Parts};
use super::net::port::PortParts;
use super::net::topology::{Dedicated, Inline};
use super::net::workers::Workers;
use super::receivers;
use super::start::{Launch, Port};
use super::team::Team;
use super::worker::contexts::{ContextPreempter, ContextTask, serve_on_contexts};
use super::worker::inline::InlineWorker;
use super::worker::notices::{Notices, death_error, start_error};
use super::worker::setup::WorkerSetup;
use super::worker::threads::{TeamSetup, TracedTurns};
use super::worker_link::{WorkerLink, channel};
use crate::classifier::Classifier;
use crate::config::Topology;
use crate::error::{RunError, WorkerFault};
use crate::fiber::{Timers, WakeList};
use crate::handler::Handler;
use crate::shared::{Receiver, Shared};
use crate::shutdown::Shutdown;

/// How long workers may take to end once the net worker is done.
const JOIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs a server on this thread and its workers' threads until its shutdown is triggered. Calls `on_ready` when all
/// workers are ready, before the first request.
pub(crate) fn launch<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(
    launch: Launch<F, K, H>,
    shutdown: &Shutdown,
    on_ready: impl FnOnce(),
) -> Result<DrainReport, RunError> {
    let notices = Notices::new();
    let mut threads = Threads::default();
    let served = match launch.shared.topology {
        Topology::Distributed => receivers::serve(launch, shutdown, &notices, &mut threads.handles, on_ready),
        _ => serve(launch, shutdown, &notices, &mut threads, on_ready),
    };
    threads.join();
    let abandoned = served?;
    notices.death().map_or(Ok(DrainReport { abandoned }), Err)
}

/// The same. The workers' threads may still run when it returns, but were told to stop.
fn serve<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(
    mut launch: Launch<F, K, H>,
    shutdown: &Shutdown,
    notices: &Notices,
    threads: &mut Threads,
    on_ready: impl FnOnce(),
) -> Result<usize, RunError> {
    let port = launch.ports.pop().expect("a server has a net thread");
    let net_thread = NetThread::new(&launch, &port);
    let (shared, cores) = (launch.shared.clone(), launch.cores.clone());
    let starts: Vec<_> = { 0..shared.executors() }.map(|_| Arc::new(TurnStart::new())).collect();
    let (mut own, mut links) = (None, Vec::with_capacity(starts.len()));
    for (worker, start) in (0..).map(WorkerId).zip(&starts) {
        let setup = net_thread.setup(&launch, notices, worker);
        match net_thread.own == Some(worker) {
            true => own = Some(net_thread.own_worker(setup, start.clone())?),
            false => links.push(net_thread.start_worker(setup, start.clone(), threads)?),
        }
    }
    net_thread.apply_scheduling(&shared, &cores);
    let net = net_thread.net_worker(launch, port, starts, Some(cores));
    let net = net.map_err(RunError::Events)?;
    let mut workers = net_thread.workers(links, &shared);
    let ready = notices.wait_until_ready(shared.workers, shutdown)?;
    if ready.len() == shared.workers {
        let this = (!net_thread.inline).then(ThreadId::current);
        { workers.ask_for_cores(&net, this, &ready) }.map_err(RunError::Events)?;
    }
    on_ready();
    net_thread.serve(net, own, workers, shutdown)
}

/// The thread that receives for all workers, and what they have of it.
pub(super) struct NetThread {
    clock: Clock,
    pub(super) doorbell: Arc<Doorbell>,
    pub(super) wakes: Arc<WakeList>,
    timers: Arc<Timers>,
    inline: bool,
    /// The worker that it is, if it is one: worker 0, or another one behind all, for control requests.
    pub(super) own: Option<WorkerId>,
    /// How the other workers are preempted. Nothing preempts what the net thread runs, and nothing is preempted beside
    /// it as worker 0.
    preempt: PreemptPolicy,
    /// Preempted requests step back on their cores.
    lowers: bool,
    /// All threads, this one included.
    threads: usize,
    background: bool,
    pub(super) spin: Spin,
}

impl NetThread {
    pub(super) fn new<F: Framing, K, H: Handler<F::Head>>(launch: &Launch<F, K, H>, port: &Port) -> Self {
        let Launch { shared, cores, .. } = launch;
        let clock = Clock::new();
        let traced_by = clock.clone();
        shared.trace.run_by(move || traced_by.now_ns());
        let doorbell = Arc::new(Doorbell::new(port.waker.clone()));
        for deferrals in &shared.deferrals {
            deferrals.run(doorbell.clone(), launch.datagrams);
        }
        let inline = shared.topology == Topology::Inline;
        let threads = shared.workers + usize::from(!inline);
        let spin_longest = Duration::from_micros(shared.config.spin_us);
        let preempt = match inline {
            true => PreemptPolicy::None,
            false => shared.config.preempt,
        };
        let behind_all = (shared.executors() > shared.workers).then_some(shared.workers);
        Self {
            clock,
            wakes: Arc::new(WakeList::new(doorbell.clone())),
            timers: Arc::new(Timers::new(doorbell.clone())),
            doorbell,
            own: match inline {
                true => Some(WorkerId(0)),
                false => behind_all.map(|index| WorkerId(index as u32)),
            },
            lowers: preempt == PreemptPolicy::KernelThread && can_lower_preempted(),
            preempt,
            spin: Spin::new(cores, threads, inline, spin_longest),
            background: inline || threads > cores.count,
            inline,
            threads,
        }
    }

    pub(super) fn setup<F: Framing, K, H: Handler<F::Head>>(
        &self,
        launch: &Launch<F, K, H>,
        notices: &Notices,
        worker: WorkerId,
    ) -> WorkerSetup<F, H> {
        WorkerSetup {
            worker,
            notifier: notices.notifier(worker),
            handler: launch.handler.clone(),
            framing: launch.framing.clone(),
            shared: launch.shared.clone(),
            clock: self.clock.clone(),
            wakes: self.wakes.clone(),
            timers: self.timers.clone(),
            spin: self.spin.turn,
            cores: launch.cores.clone(),
            core_index: worker.index() + usize::from(!self.inline),
            threads: self.threads,
            background: self.background,
        }
    }

    /// The worker that this thread is.
    pub(super) fn own_worker<F: Framing, H: Handler<F::Head>>(
        &self,
        setup: WorkerSetup<F, H>,
        start: Arc<TurnStart>,
    ) -> Result<InlineWorker<F, H>, RunError> {
        let (worker, notifier) = (setup.worker, setup.notifier.clone());
        // Nothing asks: the net thread cannot preempt itself.
        let preempter = Arc::new(ContextPreempter::new(PreemptPolicy::None));
        let own = InlineWorker::new(setup, start, preempter);
        let own = own.map_err(|fault| start_error(worker, fault))?;
        if self.inline {
            notifier.ready();
        }
        Ok(own)
    }

    /// Starts a worker with a thread of its own, or with a team of them.
    fn start_worker<F: Framing, H: Handler<F::Head>>(
        &self,
        setup: WorkerSetup<F, H>,
        start: Arc<TurnStart>,
        threads: &mut Threads,
    ) -> Result<WorkerLink<ContextTask<F, H>>, RunError> {
        let (mut link, port) = channel(self.doorbell.clone());
        if self.preempt == PreemptPolicy::KernelThread {
            let contexts = setup.shared.config.contexts();
            let team = Team::new(contexts, self.lowers, self.clock.clone(), start);
            let listener = TracedTurns { shared: setup.shared.clone(), worker: setup.worker };
            let team = Arc::new(team.heard_by(Box::new(listener)));
            link.attach_team(team.clone());
            TeamSetup::new(setup, team.clone(), port).start_thread()?;
            threads.teams.push(team);
            return Ok(link);
        }
        let preempter = Arc::new(ContextPreempter::new(self.preempt));
        link.attach_preempter(Box::new(preempter.clone()));
        let life = move |setup: &WorkerSetup<F, H>| {
            setup.apply_scheduling();
            serve_on_contexts(setup.clone(), port, start, &preempter)
        };
        let handle = setup.spawn(format!("psp-worker-{}", setup.worker.0), life)?;
        link.attach(handle.thread().clone());
        threads.handles.push(handle);
        Ok(link)
    }

    /// Tells the kernel how the calling thread, which is this one, shares its core. Threads that it starts later would
    /// do the same.
    fn apply_scheduling(&self, shared: &Shared, cores: &Cores) {
        if self.background {
            shorten_slice(shared.config.net_slice_us);
        } else {
            cores.pin(0, self.threads);
        }
        sharpen_timers();
    }

    pub(super) fn workers<F: Framing, H: Handler<F::Head>>(
        &self,
        links: Vec<WorkerLink<ContextTask<F, H>>>,
        shared: &Shared,
    ) -> Workers<F, H> {
        Workers::new(WorkerId(u32::from(self.inline)), links, shared)
    }

    /// Its scheduler may have studies done on these cores.
    pub(super) fn net_worker<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(
        &self,
        mut launch: Launch<F, K, H>,
        port: Port,
        starts: Vec<Arc<TurnStart>>,
        studies_on: Option<Cores>,
    ) -> io::Result<NetWorker<F, K, H>> {
        let (bells, config) = (std::slice::from_ref(&self.doorbell), &launch.shared.config);
        let commons = Arc::new(Commons::new(bells, launch.datagram_addrs, config));
        let (shared, executors) = (Receiver::new(launch.shared, 0), starts.len());
        let dispatcher = Dispatcher::new(launch.classifier, launch.scheduler, shared.clone(), starts);
        let port = PortParts {
            poll: port.poll,
            doorbell: self.doorbell.clone(),
            listeners: port.listeners,
            endpoints: launch.endpoints.pop().unwrap_or_default(),
            polled: launch.polled.pop(),
            handler: launch.handler,
            framing: launch.framing,
            shared,
            commons,
            datagrams: launch.datagrams,
        };
        NetWorker::new(Parts {
            port,
            executors,
            dispatcher: dispatcher.with_studies(studies_on),
            clock: self.clock.clone(),
            wakes: self.wakes.clone(),
            timers: self.timers.clone(),
            spin: self.spin,
        })
    }

    /// Serves on the calling thread, which is this one, until the shutdown is triggered. Returns the number of
    /// connections that were given up.
    pub(super) fn serve<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(
        &self,
        net: NetWorker<F, K, H>,
        own: Option<InlineWorker<F, H>>,
        workers: Workers<F, H>,
        shutdown: &Shutdown,
    ) -> Result<usize, RunError> {
        let id = self.own.unwrap_or(WorkerId(0));
        let thread = own.as_ref().map(InlineWorker::thread);
        let serve = || match own {
            Some(own) if self.inline => Inline { net, own, workers }.serve(shutdown),
            own => Dedicated { net, own, workers }.serve(shutdown),
        };
        let served = catch_unwind(AssertUnwindSafe(|| match thread {
            None => serve(),
            Some(thread) => { thread.occupy(serve) }.map_err(|fault| start_error(id, fault))?,
        }));
        served.unwrap_or_else(|payload| match payload.downcast::<WorkerFault>() {
            // The net thread is that worker.
            Ok(fault) => Err(death_error(id, *fault)),
            Err(payload) => resume_unwind(payload),
        })
    }
}

/// The threads of all workers.
#[derive(Default)]
struct Threads {
    handles: Vec<JoinHandle<()>>,
    teams: Vec<Arc<Team>>,
}

impl Threads {
    /// Waits for the threads. A worker that is stuck in a handler is left behind.
    fn join(mut self) {
        let teams = self.teams.iter().flat_map(|team| team.take_threads());
        self.handles.extend(teams);
        let deadline = Instant::now() + JOIN_TIMEOUT;
        for handle in self.handles {
            while !handle.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
