//! Starts and ends the threads of a server whose workers receive for themselves.
//!
//! ```text
//!   worker 0   port: epoll, listeners ─► connections ─► queue ─► handler ─► replies
//!   worker 1   port: epoll, listeners ─► connections ─► queue ─► handler ─► replies
//!      ...       ▲
//!   kernel: SO_REUSEPORT: a connection stays in the port that accepted it
//!   sockets without that: whoever is woken accepts, and passes connections to the ports in turn
//! ```
//!
//! The calling thread sleeps until the shutdown, or [takes care](Supervisor) of the workers, so that no request can
//! hold it. Each worker is a net worker with one worker, itself. They share settings, the handler and the budget of
//! memory. Before a long request a worker [leaves its port](super::net) to another. Under `d-fcfs` they share nothing
//! on the way of a short one. Under all other policies they are a [worker group](super::distributed): they run each
//! other's requests. If the policy preempts requests, the group has a [timer core](super::distributed), a thread beside
//! its workers.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Waker};
use psp_policy::{PreemptPolicy, RequestType, TypeTable, WorkerId};
use psp_protocols::Framing;

use super::channel::doorbell::Doorbell;
use super::channel::turn_start::TurnStart;
use super::dispatch::dispatcher::Dispatcher;
use super::dispatch::places::Places;
use super::distributed::{
    Joined, Moving, Offers, Peers, Roster, Rules, Succession, Supervisor, TurnBell, Watched,
    events_of,
};
use super::host::clock::Clock;
use super::host::scheduling::{
    Background, Demotion, can_be_raised, can_lower_preempted, sharpen_timers, shorten_slice,
};
use super::host::spin::Spin;
use super::net::commons::Commons;
use super::net::net_worker::{NetWorker, Parts};
use super::net::port::PortParts;
use super::net::workers::Link;
use super::net::{Polled, PortLeases, WAKER};
use super::request_threads::RequestThreads;
use super::start::{Launch, Port};
use super::worker::contexts::{ContextPreempter, ContextTask};
use super::worker::inline::{InlineThread, InlineWorker};
use super::worker::notices::Notices;
use super::worker::setup::WorkerSetup;
use super::worker::thread_runner::ThreadRunner;
use crate::admission;
use crate::classifier::Classifier;
use crate::error::{RunError, WorkerFault};
use crate::fiber::{Bell, Timers, WakeList, WakeLists};
use crate::handler::Handler;
use crate::shared::{Receiver, Shared};
use crate::shutdown::Shutdown;
use crate::transport::endpoint::Endpoint;
use crate::transport::request_key::PortNumber;

/// How long workers may take to return after the drain timeout.
const LATE: Duration = Duration::from_millis(200);

/// The classifier of all workers.
struct Common<K>(Arc<K>);

impl<K: Classifier<T>, T> Classifier<T> for Common<K> {
    fn classify(&self, request: &[u8], head: &T) -> RequestType {
        self.0.classify(request, head)
    }

    fn types(&self) -> TypeTable {
        self.0.types()
    }
}

/// A worker before it has a thread.
struct Start<F: Framing, K, H: Handler<F::Head>> {
    port: Port,
    polled: Option<Polled<H::Connection>>,
    doorbell: Arc<Doorbell>,
    setup: WorkerSetup<F, H>,
    classifier: Arc<K>,
    receiver: Receiver,
    commons: Arc<Commons<H::Connection, F::Head>>,
    endpoints: Vec<Arc<Endpoint<H::Connection>>>,
    /// Datagrams that may wait or be in flight.
    datagrams: usize,
    place: Place<ContextTask<F, H>>,
    /// When its turns begin.
    turns: Arc<TurnStart>,
    preempter: Arc<ContextPreempter>,
    /// Where requests move from worker to worker.
    thread_runner: Option<Arc<ThreadRunner<F, H>>>,
    leases: Arc<PortLeases<F, H>>,
    demotion: Option<Demotion>,
    spin: Spin,
}

/// The place of a worker among others whose requests it may run.
struct Place<T> {
    roster: Arc<Roster>,
    succession: Arc<Succession>,
    moving: Option<Arc<Moving>>,
    offers: Arc<Offers<T>>,
    bell: Arc<TurnBell>,
}

/// A worker on its thread.
type Worker<F, K, H> = (NetWorker<F, Common<K>, H>, InlineThread<F, H>);

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Start<F, K, H> {
    /// The worker, on the calling thread.
    fn start(self) -> Result<Worker<F, K, H>, WorkerFault> {
        let Self {
            port,
            polled,
            doorbell,
            setup,
            classifier,
            receiver,
            commons,
            endpoints,
            datagrams,
            place,
            turns,
            preempter,
            thread_runner,
            leases,
            demotion,
            spin,
        } = self;
        if setup.background {
            shorten_slice(receiver.config.net_slice_us);
        } else {
            setup.cores.pin(setup.core_index, setup.threads);
        }
        sharpen_timers();
        let inline = InlineWorker::new(setup.clone(), turns.clone(), preempter)?;
        let inline = inline.with_thread_runner(thread_runner);
        let thread = inline.thread();
        let classifier = Common(classifier);
        let Place {
            roster,
            succession,
            moving,
            offers,
            bell,
        } = place;
        let (peers, joined) = Peers::new(setup.worker, roster, succession, moving, offers, bell);
        let Joined { policy, member, .. } = joined;
        let has_group = member.is_some();
        let scheduler = Joined::scheduler(&receiver, &policy, member);
        let mut dispatcher = Dispatcher::new(classifier, scheduler, receiver.clone(), vec![turns]);
        if has_group {
            dispatcher = dispatcher.offering(peers.places().clone());
        }
        let port = PortParts {
            poll: port.poll,
            doorbell,
            listeners: port.listeners,
            endpoints,
            polled,
            handler: setup.handler,
            framing: setup.framing,
            shared: receiver.clone(),
            commons,
            datagrams,
        };
        let net_worker = NetWorker::new(Parts {
            port,
            leases: Some(leases),
            links: vec![Link::Inline(inline)],
            dispatcher,
            peers: Some(peers),
            demotion,
            shared: receiver,
            clock: setup.clock,
            wakes: setup.wakes,
            timers: setup.timers,
            spin,
        })
        .map_err(|error| WorkerFault::State(error.into()))?;
        Ok((net_worker, thread))
    }
}

/// Runs all workers until the shutdown is triggered. Returns the number of connections that were given up. Threads of
/// workers may still run when it returns, but were told to stop.
pub(super) fn serve<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(
    launch: Launch<F, K, H>,
    shutdown: &Shutdown,
    notices: &Notices,
    threads: &mut Vec<JoinHandle<()>>,
    on_ready: impl FnOnce(),
) -> Result<usize, RunError> {
    let Launch {
        ports,
        endpoints,
        datagram_addrs,
        polled,
        classifier,
        handler,
        framing,
        shared,
        cores,
        datagrams,
        ..
    } = launch;
    let mut polled = polled.into_iter();
    let count = shared.workers;
    let spin_longest = Duration::from_micros(shared.config.spin_us);
    let spin = Spin::new(&cores, count, false, spin_longest);
    let (clock, classifier) = (Clock::new(), Arc::new(classifier));
    let traced_by = clock.clone();
    shared.trace.run_by(move || traced_by.now_ns());
    // Without a core to spare, other programs want those of the workers.
    let background = !cores.spare_for(count);
    let doorbell = |port: &Port| Arc::new(Doorbell::new(port.waker.clone()));
    let doorbells: Vec<_> = ports.iter().map(doorbell).collect();
    let bells = doorbells.iter().map(|bell| bell.clone() as Arc<dyn Bell>);
    let moves = admission::moves(&shared.config, shared.topology);
    let moving = moves.then(|| {
        let threads = count * (shared.config.contexts() - 1);
        Arc::new(Moving::new(threads, shared.clone()))
    });
    let rules = Rules::new(shared.clone(), Arc::new(Roster::new(bells)), moving.clone());
    let rules = rules.map_err(RunError::Events)?;
    let preempt = rules.preempt();
    let starts: Vec<_> = (0..count).map(|_| Arc::new(TurnStart::new())).collect();
    let turn_bells = (0..).map(WorkerId).zip(&doorbells);
    let turn_bells = turn_bells.map(|(worker, bell)| TurnBell::new(worker, bell.clone()));
    let turn_bells: Vec<_> = turn_bells.map(Arc::new).collect();
    let commons = Arc::new(Commons::new(&turn_bells, datagram_addrs, &shared.config));
    let wakes = turn_bells.iter().map(|bell| WakeList::new(bell.clone()));
    let wakes: Arc<[_]> = wakes.map(Arc::new).collect();
    let timers = turn_bells.iter().map(|bell| Timers::new(bell.clone()));
    let timers: Box<[_]> = timers.map(Arc::new).collect();
    let thread_runner = moving.clone().map(|moving| {
        let threads = count * (shared.config.contexts() - 1);
        let cores = (!background).then(|| cores.pinned(count)).flatten();
        let lowers = can_lower_preempted();
        let request_threads =
            RequestThreads::new(threads, starts.clone(), lowers, cores, clock.clone());
        let wakes = WakeLists::OfWorkers(wakes.clone());
        let thread_runner = ThreadRunner::new(request_threads, moving, wakes, timers.clone());
        Arc::new(thread_runner)
    });
    let request_threads = StopRequestThreads(thread_runner.clone());
    let places = || Arc::new(Places::shared(&shared.types, &shared.config));
    let offers = Arc::new(Offers::new((0..count).map(|_| places())));
    let mut watched = Vec::with_capacity(count);
    let leases = PortLeases::new(doorbells.clone());
    let leases = Arc::new(match preempt {
        PreemptPolicy::None => leases,
        _ => {
            let succession = rules.succession.clone();
            leases.alerting(move || succession.no_worker_reads())
        }
    });
    let long = Background::new(
        shared.config.background_nice,
        shared.config.background_slice_us,
    );
    let long = match background && can_be_raised() {
        true => long,
        false => long.without_nice(),
    };
    if background && long.nice.is_none() && shared.config.background_nice > 0 {
        tracing::warn!(
            "without CAP_SYS_NICE or an RLIMIT_NICE for their nice value, workers that run long requests keep their \
             weight beside those that run short ones"
        );
    }
    let mut endpoints = endpoints.into_iter();
    let mut start = |index: usize, port: Port| -> io::Result<Start<F, K, H>> {
        let worker = WorkerId(u32::try_from(index).expect("workers are counted in u32"));
        let doorbell = doorbells[index].clone();
        let receiver = Receiver::new(shared.clone(), index);
        receiver
            .deferrals()
            .run(turn_bells[index].clone(), datagrams);
        let polled = polled.next();
        let setup = WorkerSetup {
            worker,
            notifier: notices.notifier(worker),
            handler: handler.clone(),
            framing: framing.clone(),
            shared: shared.clone(),
            clock: clock.clone(),
            wakes: wakes[index].clone(),
            timers: timers[index].clone(),
            spin: spin.turn,
            cores: cores.clone(),
            core_index: index,
            threads: count,
            background,
        };
        let turns = starts[index].clone();
        let preempter = Arc::new(ContextPreempter::new(preempt));
        let demotion = background.then(|| Demotion::new(long));
        if preempt != PreemptPolicy::None {
            watched.push(Watched {
                events: events_of(&port.poll)?,
                is_polled: polled.is_some(),
                preempter: match &thread_runner {
                    None => Box::new(preempter.clone()),
                    Some(thread_runner) => Box::new(thread_runner.preempter(worker)),
                },
                is_served_elsewhere: Box::new({
                    let leases = leases.clone();
                    move || leases.is_served_elsewhere(PortNumber::new(index))
                }),
                given_up: demotion.as_ref().map(Demotion::given_up),
                is_left: Box::new({
                    let leases = leases.clone();
                    move || leases.is_free(PortNumber::new(index))
                }),
                start: turns.clone(),
                receiver: receiver.clone(),
            });
        }
        Ok(Start {
            port,
            polled,
            doorbell,
            setup,
            classifier: classifier.clone(),
            receiver,
            commons: commons.clone(),
            endpoints: endpoints.next().unwrap_or_default(),
            datagrams,
            place: Place {
                roster: rules.roster.clone(),
                succession: rules.succession.clone(),
                moving: rules.moving.clone(),
                offers: offers.clone(),
                bell: turn_bells[index].clone(),
            },
            turns,
            preempter,
            thread_runner: thread_runner.clone(),
            leases: leases.clone(),
            demotion,
            spin,
        })
    };
    let poll = Poll::new().map_err(RunError::Events)?;
    let waker = Waker::new(poll.registry(), WAKER).map_err(RunError::Events)?;
    let waker = Arc::new(waker);
    let of_workers: Vec<Arc<Waker>> = ports.iter().map(|port| port.waker.clone()).collect();
    let wakers: Vec<Arc<Waker>> = of_workers.iter().chain([&waker]).cloned().collect();
    shutdown.attach(wakers.clone());
    shared.shutdown.attach(wakers);
    shared.policy.attach(waker);
    let _stops_all = Stop(shared.clone());
    let (answer, answers) = mpsc::channel();
    let mut gates = Vec::with_capacity(count);
    for (index, port) in ports.into_iter().enumerate() {
        let (gate, opened) = mpsc::channel::<()>();
        gates.push(gate);
        let start = start(index, port).map_err(RunError::Events)?;
        let (answer, shutdown) = (answer.clone(), shutdown.clone());
        let setup = start.setup.clone();
        let life = move |setup: &WorkerSetup<F, H>| {
            let (net_worker, thread) = start.start()?;
            setup.notifier.ready();
            if opened.recv().is_ok() {
                let served = thread.occupy(|| net_worker.serve(&shutdown))?;
                if served.is_err() {
                    setup.shared.shutdown.trigger();
                }
                // Nothing receives answers that come too late.
                let _ = answer.send((index, served));
            }
            Ok(())
        };
        threads.push(setup.spawn(format!("psp-worker-{index}"), life)?);
    }
    drop(answer);
    notices.wait_until_ready(count, shutdown)?;
    // A timer core may poll where a core is left over for it.
    let spin = Spin::new(&cores, count + 1, false, spin_longest).idle;
    let mut supervisor = Supervisor::new(rules, watched, of_workers, clock, spin)?;
    on_ready();
    for gate in &gates {
        // A worker that died has said so.
        let _ = gate.send(());
    }
    wait_for_shutdown(poll, &[shutdown, &shared.shutdown], || supervisor.turn())
        .map_err(RunError::Events)?;
    let drain_timeout = Duration::from_millis(shared.config.drain_timeout_ms);
    let deadline = Instant::now() + drain_timeout.saturating_add(LATE);
    let mut abandoned = 0;
    let mut serving: Vec<usize> = (0..count).collect();
    while !serving.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        match answers.recv_timeout(supervisor.turn().map_or(left, |next| next.min(left))) {
            Ok((index, served)) => {
                abandoned += served?;
                serving.retain(|&other| other != index);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => break,
        }
    }
    threads.extend(supervisor.end());
    threads.extend(request_threads.stop());
    // Workers that are stuck in a request, or have died.
    let open = |index| {
        Receiver::new(shared.clone(), index)
            .net()
            .connections_open
            .get()
    };
    let left = serving.into_iter().map(open);
    Ok(abandoned + left.sum::<u64>() as usize)
}

/// Sleeps until one of these is triggered, each of which wakes `poll`, and calls `turn` whenever that wants to be
/// called.
fn wait_for_shutdown(
    mut poll: Poll,
    shutdowns: &[&Shutdown],
    mut turn: impl FnMut() -> Option<Duration>,
) -> io::Result<()> {
    let mut events = Events::with_capacity(1);
    while !shutdowns.iter().any(|shutdown| shutdown.is_triggered()) {
        match poll.poll(&mut events, turn()) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Stops the threads that carry requests in the end, whatever its reason.
struct StopRequestThreads<F: Framing, H: Handler<F::Head>>(Option<Arc<ThreadRunner<F, H>>>);

impl<F: Framing, H: Handler<F::Head>> StopRequestThreads<F, H> {
    /// Returns the handles of all that were started. Those whose requests wait for another turn are left behind.
    fn stop(&self) -> Vec<JoinHandle<()>> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, |thread_runner| thread_runner.stop())
    }
}

impl<F: Framing, H: Handler<F::Head>> Drop for StopRequestThreads<F, H> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Stops all workers in the end, whatever its reason.
struct Stop(Arc<Shared>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.shutdown.trigger();
    }
}
