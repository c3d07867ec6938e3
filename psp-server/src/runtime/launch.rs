//! Starts the threads of a server, and ends them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use psp_policy::{PreemptPolicy, WorkerId};
use psp_protocols::Framing;

use super::channel::doorbell::Doorbell;
use super::channel::turn_start::TurnStart;
use super::dispatch::dispatcher::Dispatcher;
use super::drain_report::DrainReport;
use super::host::clock::Clock;
use super::host::scheduling::{can_lower_preempted, sharpen_timers, shorten_slice};
use super::host::spin::Spin;
use super::net::commons::Commons;
use super::net::net_worker::{NetWorker, Parts};
use super::net::port::PortParts;
use super::net::workers::Link;
use super::receivers;
use super::start::{Launch, Port};
use super::team::Team;
use super::worker::contexts::{ContextPreempter, serve_on_contexts};
use super::worker::inline::InlineWorker;
use super::worker::notices::{Notices, death_error, start_error};
use super::worker::setup::WorkerSetup;
use super::worker::threads::{TeamSetup, TracedTurns};
use super::worker_link::channel;
use crate::classifier::Classifier;
use crate::config::Topology;
use crate::error::{RunError, WorkerFault};
use crate::fiber::{Timers, WakeList};
use crate::handler::Handler;
use crate::shared::Receiver;
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
        Topology::Distributed => {
            receivers::serve(launch, shutdown, &notices, &mut threads.handles, on_ready)
        }
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
    let clock = Clock::new();
    let traced_by = clock.clone();
    launch.shared.trace.run_by(move || traced_by.now_ns());
    let Port {
        poll,
        waker,
        listeners,
    } = launch.ports.pop().expect("a server has a net thread");
    let endpoints = launch.endpoints.pop().unwrap_or_default();
    let doorbell = Arc::new(Doorbell::new(waker));
    let wakes = Arc::new(WakeList::new(doorbell.clone()));
    for deferrals in &launch.shared.deferrals {
        deferrals.run(doorbell.clone(), launch.datagrams);
    }
    let timers = Arc::new(Timers::new(doorbell.clone()));
    let Launch { shared, cores, .. } = &launch;
    let inline = shared.topology == Topology::Inline;
    let count = shared.workers + usize::from(!inline);
    let spin_longest = Duration::from_micros(shared.config.spin_us);
    let spin = Spin::new(cores, count, inline, spin_longest);
    let background = inline || count > cores.count;

    // The net thread is worker 0, or another one behind all, for control requests. Nothing preempts what it runs, and
    // nothing is preempted beside worker 0.
    let own = match inline {
        true => Some(0),
        false => (shared.executors() > shared.workers).then_some(shared.workers),
    };
    let preempt = match inline {
        true => PreemptPolicy::None,
        false => shared.config.preempt,
    };
    let lowers = preempt == PreemptPolicy::KernelThread && can_lower_preempted();
    let mut links = Vec::with_capacity(shared.executors());
    let mut starts = Vec::with_capacity(shared.executors());
    let mut own_thread = None;
    for index in 0..shared.executors() {
        let worker = WorkerId(u32::try_from(index).expect("workers are counted in u32"));
        let start = Arc::new(TurnStart::new());
        starts.push(start.clone());
        let setup = WorkerSetup {
            worker,
            notifier: notices.notifier(worker),
            handler: launch.handler.clone(),
            framing: launch.framing.clone(),
            shared: shared.clone(),
            clock: clock.clone(),
            wakes: wakes.clone(),
            timers: timers.clone(),
            spin: spin.turn,
            cores: cores.clone(),
            core_index: if inline { index } else { index + 1 },
            threads: count,
            background,
        };
        if own == Some(index) {
            let notifier = setup.notifier.clone();
            // Nothing asks: the net thread cannot preempt itself.
            let preempter = Arc::new(ContextPreempter::new(PreemptPolicy::None));
            let own = InlineWorker::new(setup, start, preempter);
            let own = own.map_err(|fault| start_error(worker, fault))?;
            if inline {
                notifier.ready();
            }
            own_thread = Some((worker, own.thread()));
            links.push(Link::Inline(own));
            continue;
        }
        let (mut link, port) = channel(doorbell.clone());
        match preempt {
            PreemptPolicy::KernelThread => {
                let contexts = setup.shared.config.contexts();
                let team = Team::new(contexts, lowers, setup.clock.clone(), start);
                let listener = TracedTurns {
                    shared: shared.clone(),
                    worker,
                };
                let team = Arc::new(team.heard_by(Box::new(listener)));
                link.attach_team(team.clone());
                TeamSetup::new(setup, team.clone(), port).start_thread()?;
                threads.teams.push(team);
            }
            preempt => {
                let preempter = Arc::new(ContextPreempter::new(preempt));
                link.attach_preempter(Box::new(preempter.clone()));
                let life = move |setup: &WorkerSetup<F, H>| {
                    setup.apply_scheduling();
                    serve_on_contexts(setup.clone(), port, start, &preempter)
                };
                let handle = setup.spawn(format!("psp-worker-{index}"), life)?;
                link.attach(handle.thread().clone());
                threads.handles.push(handle);
            }
        }
        links.push(Link::Thread(link));
    }
    if background {
        shorten_slice(shared.config.net_slice_us);
    } else {
        cores.pin(0, count);
    }
    sharpen_timers();
    let Launch {
        datagram_addrs,
        mut polled,
        classifier,
        scheduler,
        handler,
        framing,
        shared,
        datagrams,
        cores,
        ..
    } = launch;
    let workers = shared.workers;
    let commons = Commons::new(
        std::slice::from_ref(&doorbell),
        datagram_addrs,
        &shared.config,
    );
    let shared = Receiver::new(shared, 0);
    let dispatcher =
        Dispatcher::new(classifier, scheduler, shared.clone(), starts).with_studies(cores);
    let port = PortParts {
        poll,
        doorbell,
        listeners,
        endpoints,
        polled: polled.pop(),
        handler,
        framing,
        shared: shared.clone(),
        commons: Arc::new(commons),
        datagrams,
    };
    let mut net_worker = NetWorker::new(Parts {
        port,
        leases: None,
        links,
        dispatcher,
        peers: None,
        demotion: None,
        shared,
        clock,
        wakes,
        timers,
        spin,
    })
    .map_err(RunError::Events)?;
    let ready = notices.wait_until_ready(workers, shutdown)?;
    if ready.len() == workers {
        net_worker.ask_for_cores(&ready).map_err(RunError::Events)?;
    }
    on_ready();
    let own = own_thread
        .as_ref()
        .map_or(WorkerId(0), |&(worker, _)| worker);
    let served = catch_unwind(AssertUnwindSafe(|| match own_thread {
        None => net_worker.serve(shutdown),
        Some((_, thread)) => {
            let served = thread.occupy(|| net_worker.serve(shutdown));
            served.map_err(|fault| start_error(own, fault))?
        }
    }));
    served.unwrap_or_else(|payload| match payload.downcast::<WorkerFault>() {
        // The net thread is that worker.
        Ok(fault) => Err(death_error(own, *fault)),
        Err(payload) => resume_unwind(payload),
    })
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
