//! Starting the threads, and ending them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Poll, Waker};
use psp_protocols::Framing;

use super::channel::{Doorbell, TaskPort, WorkerLink, channel};
use super::clock::Clock;
use super::cores::Cores;
use super::dispatcher::Dispatcher;
use super::executor::{Executor, Sending};
use super::net_worker::{Link, NetWorker, Parts};
use super::scheduling::{can_be_raised, sharpen_timers, shorten_slice};
use super::shared::Shared;
use super::spin::Spin;
use super::task::Task;
use super::team::Team;
use super::turn_start::TurnStart;
use super::worker::{
    ContextPreempter, Desk, Post, serve_on_contexts, serve_on_threads, serve_to_completion,
};
use crate::classifier::Classifier;
use crate::config::Topology;
use crate::error::RunError;
use crate::handler::Handler;
use crate::policy::{Scheduler, WorkerId};
use crate::preempt::PreemptPolicy;
use crate::server::DrainReport;
use crate::shutdown::Shutdown;
use crate::transport::Packets;
use crate::transport::datagram::Endpoint;

/// How long workers may take to end once the net worker is done.
const JOIN_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the threads of a team may take to be ready before requests are served without them.
const ASSEMBLY_TIMEOUT: Duration = Duration::from_secs(1);

/// Everything a server's threads start with.
pub(crate) struct Launch<F, K, H: Handler> {
    pub(crate) poll: Poll,
    pub(crate) waker: Arc<Waker>,
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) endpoints: Vec<Arc<Endpoint<H::Connection>>>,
    pub(crate) packets: Option<Packets<H::Connection>>,
    pub(crate) classifier: K,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) handler: Arc<H>,
    pub(crate) framing: Arc<F>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) cores: Cores,
    /// Datagrams of sockets, and of the port, that may be in flight or waiting.
    pub(crate) datagrams: usize,
}

/// Runs a server on this thread and its workers' until its shutdown is triggered.
pub(crate) fn launch<F: Framing, K: Classifier, H: Handler>(
    launch: Launch<F, K, H>,
    shutdown: &Shutdown,
) -> Result<DrainReport, RunError> {
    let Launch {
        poll,
        waker,
        listeners,
        endpoints,
        packets,
        classifier,
        scheduler,
        ..
    } = launch;
    let Launch {
        handler,
        framing,
        shared,
        cores,
        datagrams,
        ..
    } = launch;
    let clock = Clock::new();
    let doorbell = Arc::new(Doorbell::new(waker));
    let inline = shared.topology == Topology::Inline;
    let threads = shared.workers + usize::from(!inline);
    let spin_longest = Duration::from_micros(shared.config.spin_us);
    let spin = Spin::new(&cores, threads, inline, spin_longest);
    let background = inline || threads > cores.count;

    let lowers = shared.config.preempt == PreemptPolicy::KernelThread && can_be_raised();
    if shared.config.preempt == PreemptPolicy::KernelThread && !lowers {
        tracing::warn!(
            "without CAP_SYS_NICE or an RLIMIT_NICE for their nice value, preempted requests share \
             their core with what preempts them"
        );
    }
    let mut links = Vec::with_capacity(shared.workers);
    let mut starts = Vec::with_capacity(shared.workers);
    let mut handles = Vec::new();
    for index in 0..shared.workers {
        let worker = WorkerId(u32::try_from(index).expect("workers are counted in u32"));
        let (handler, framing, shared) = (handler.clone(), framing.clone(), shared.clone());
        let clock = clock.clone();
        let start = Arc::new(TurnStart::new());
        starts.push(start.clone());
        if inline && index == 0 {
            links.push(Link::Inline(Executor::new(
                worker,
                handler,
                framing,
                shared,
                clock,
                Sending::WithTheTurn,
                Rc::default(),
            )));
            continue;
        }
        let (mut link, port) = channel(doorbell.clone());
        let post = Post {
            worker,
            handler,
            framing,
            shared,
            clock,
            spin: spin.turn,
            cores: cores.clone(),
            place: if inline { index } else { index + 1 },
            threads,
            background,
        };
        if post.shared.config.preempt == PreemptPolicy::KernelThread {
            handles.extend(start_team(&post, lowers, &mut link, port, start)?);
            links.push(Link::Thread(link));
            continue;
        }
        let preempter = Arc::new(ContextPreempter::new(post.shared.config.preempt));
        link.attach_preempter(Box::new(preempter.clone()));
        let body = move || {
            post.settle();
            stop_on_fault(&post.shared, worker, || {
                let away_ns = Rc::<Cell<u64>>::default();
                let executor = || post.executor(away_ns.clone());
                if post.shared.config.preempt == PreemptPolicy::None {
                    serve_to_completion(executor(), port, post.spin);
                    return Ok(());
                }
                let (clock, shared) = (post.clock.clone(), post.shared.clone());
                let away_ns = away_ns.clone();
                let desk = Desk::new(worker, port, post.spin, clock, shared, start, away_ns);
                let desk = Rc::new(desk);
                serve_on_contexts(&desk, &preempter, executor)
            });
        };
        let handle = spawn(format!("psp-worker-{index}"), body)?;
        link.attach(handle.thread().clone());
        handles.push(handle);
        links.push(Link::Thread(link));
    }
    if background {
        shorten_slice(shared.config.net_slice_us);
    } else {
        cores.pin(0, threads);
    }
    sharpen_timers();
    let dispatcher = Dispatcher::new(classifier, scheduler, shared.clone(), starts);
    let net_worker = NetWorker::new(Parts {
        poll,
        doorbell,
        listeners,
        endpoints,
        packets,
        links,
        dispatcher,
        handler,
        framing,
        shared,
        clock,
        datagrams,
        spin,
    })?;
    let abandoned = net_worker.serve(shutdown)?;
    join(handles);
    Ok(DrainReport { abandoned })
}

/// Starts a worker of several threads.
fn start_team<F: Framing, H: Handler>(
    post: &Post<F, H>,
    lowers: bool,
    link: &mut WorkerLink<Task<H::Connection>>,
    port: TaskPort<Task<H::Connection>>,
    start: Arc<TurnStart>,
) -> Result<Vec<JoinHandle<()>>, RunError> {
    let config = &post.shared.config;
    let team = Arc::new(Team::new(
        config.contexts_per_worker,
        lowers,
        post.clock.clone(),
        start,
    ));
    let port = Arc::new(Mutex::new(port));
    link.attach_team(team.clone());
    let seats = 0..config.contexts_per_worker;
    let enlist = |seat| {
        let (post, team, port) = (post.clone(), team.clone(), port.clone());
        let name = format!("psp-worker-{}.{seat}", post.worker.index());
        spawn(name, move || {
            post.settle_in_team();
            stop_on_fault(&post.shared, post.worker, || {
                serve_on_threads(&post, &team, seat, &port);
                Ok(())
            });
        })
    };
    let handles = seats.map(enlist).collect::<Result<_, _>>()?;
    let deadline = Instant::now() + ASSEMBLY_TIMEOUT;
    while !team.is_complete() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    Ok(handles)
}

/// Runs a worker's life. What it was lent is lost with it: a server that stops is better than one
/// that answers some.
fn stop_on_fault(shared: &Shared, worker: WorkerId, life: impl FnOnce() -> Result<(), RunError>) {
    let fault = match catch_unwind(AssertUnwindSafe(life)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "panicked outside the handler".to_owned(),
    };
    tracing::error!(worker = worker.index(), fault, "a worker died; stopping");
    shared.shutdown.trigger();
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, RunError> {
    std::thread::Builder::new()
        .name(name.clone())
        .spawn(body)
        .map_err(|source| RunError::Thread { name, source })
}

/// Waits for the workers; one that is stuck in a handler is left behind.
fn join(handles: Vec<JoinHandle<()>>) {
    let deadline = Instant::now() + JOIN_TIMEOUT;
    for handle in handles {
        while !handle.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
