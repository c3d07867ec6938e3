//! What a request on a polled port costs, stage by stage: the net thread's parts and the workers', driven in
//! rounds on one thread. The cycles of each stage are counted.
//!
//! ```text
//!   net thread   rx ─► headers ─► classify ─► enqueue ─► dispatch ─► send        receive ─► complete
//!                                                                     │             ▲
//!   workers                                                           └► take ─► handle ─► report ─► tx
//! ```
//!
//! A burst comes in as a whole, and then every worker has a request in each round. The thread has both ends
//! of the rings, so that no cache line moves between cores: in a server whose workers have threads of their own,
//! `send`, `take` and `receive` cost more.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use psp_policy::{Action, RequestId, WorkerId};
use psp_protocols::Framing;

use super::stopwatch::{STAGES, Stage, Stages, Stopwatch};
use crate::classifier::Classifier;
use crate::guarded_framing::GuardedFraming;
use crate::handler::Handler;
use crate::peer::Peer;
use crate::runtime::channel::doorbell::Doorbell;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::channel::task_port::TaskPort;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::host::clock::Clock;
use crate::runtime::net::intake::Intake;
use crate::runtime::task::Task;
use crate::runtime::worker::executor::{Executor, Sending};
use crate::runtime::worker_link::{WorkerLink, channel, wake_parked};
use crate::server::Server;
use crate::shared::Receiver;
use crate::transport::datagram::{Datagram, DatagramPool};
use crate::transport::endpoint::{Endpoint, Outlet};
use crate::transport::request_key::{DatagramIndex, Names, RequestKey};

/// Both ends of a worker's rings, and the worker.
struct Worker<F: Framing, H: Handler<F::Head>> {
    link: WorkerLink<Task<H::Connection, F::Head>>,
    port: TaskPort<Task<H::Connection, F::Head>>,
    executor: Executor<F, H>,
    /// The task to run, and then the task that was run.
    task: Option<Task<H::Connection, F::Head>>,
}

/// A request on its way to a worker.
type Decided<C, D> = (WorkerId, RequestId, Box<Datagram<C, D>>);

/// Puts at least `requests` requests of the server's port through the stages of a net worker and a worker, in
/// place of serving them, and counts the cycles of each stage; `None` without a port.
#[must_use]
pub fn measure_stages<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>>(
    server: Server<F, K, H>,
    requests: u64,
) -> Option<Stages> {
    let Server {
        framing,
        classifier,
        handler,
        shared,
        mut ports,
        packet_port,
        datagrams,
        ..
    } = server;
    let (framing, handler) = (Arc::new(GuardedFraming::new(framing)), Arc::new(handler));
    let waker = ports.pop()?.waker;
    let port = packet_port?;
    let state = handler.connect(Peer::Ip(port.address()));
    let (mut polled, transmitters) = port.serve();
    let mut packets = polled.pop()?;
    let outlet = Outlet::Port(transmitters);
    let endpoint = Arc::new(Endpoint { outlet, state });
    let policy = shared.policy.policy();
    let scheduler = shared.scheduler(&policy);
    let starts = (0..shared.workers).map(|_| Arc::new(TurnStart::new()));
    let mut dispatcher = Dispatcher::new(classifier, scheduler, Receiver::new(shared.clone(), 0), starts.collect());
    let clock = Clock::new();
    let receiver = Receiver::new(shared.clone(), 0);
    let net = receiver.net();
    let mut pool = DatagramPool::new(Names::default(), 0, 0, datagrams);
    let doorbell = Arc::new(Doorbell::new(waker));
    let mut workers: Vec<Worker<F, H>> = (0..shared.workers as u32)
        .map(|number| {
            let (mut link, port) = channel(doorbell.clone());
            link.attach(std::thread::current());
            let executor = Executor::new(
                Rc::new(Cell::new(WorkerId(number))),
                handler.clone(),
                framing.clone(),
                shared.clone(),
                clock.clone(),
                Sending::WithTheTurn,
                Rc::default(),
            );
            Worker {
                link,
                port,
                executor: executor.expect("the handler makes a state for each worker"),
                task: None,
            }
        })
        .collect();
    let mut watch = Stopwatch::new();
    let started = (watch.tsc.raw(), std::time::Instant::now());
    let mut indices = Vec::with_capacity(datagrams);
    let mut round = Vec::with_capacity(shared.workers);
    let mut done = 0;
    while done < requests {
        let done_before = done;
        watch.start_burst();
        packets.poll(&net.packets);
        watch.lap(Stage::Rx);
        packets.read(usize::MAX, &net.packets, |packet| {
            let held = pool.hold(&endpoint, packet);
            indices.extend(held.map(|datagram| datagram.index));
        });
        watch.lap(Stage::Headers);
        let now_ns = clock.now_ns();
        let mut intake = Intake { framing: &*framing, dispatcher: &mut dispatcher, net, now_ns };
        for &index in &indices {
            if let Some(datagram) = pool.held(index) {
                intake.classify(datagram);
            }
        }
        watch.lap(Stage::Classify);
        for index in indices.drain(..) {
            if let Some(datagram) = pool.held(index) {
                intake.enqueue(datagram);
            }
        }
        watch.lap(Stage::Enqueue);
        loop {
            decide(&mut dispatcher, &mut pool, now_ns, &mut round);
            watch.lap(Stage::Dispatch);
            if round.is_empty() {
                break;
            }
            done += run_round(&mut workers, &mut round, &clock, &mut watch);
            for (number, worker) in (0..).zip(&mut workers) {
                let Some(Task::Datagram(datagram)) = worker.task.take() else {
                    continue;
                };
                let samples = datagram.sample.as_slice();
                dispatcher.completed(now_ns, WorkerId(number), samples);
                pool.give(datagram);
            }
            watch.lap(Stage::Complete);
        }
        packets.flush(&net.packets);
        watch.lap(Stage::Tx);
        watch.end_burst(done - done_before);
    }
    let cycles = (watch.tsc.raw() - started.0) as f64;
    let medians = STAGES.into_iter().zip(watch.medians());
    Some(Stages {
        requests: done,
        cycles: medians.map(|((name, side), cycles)| (name, side, cycles)).collect(),
        cycles_per_second: cycles / started.1.elapsed().as_secs_f64(),
    })
}

/// The datagram that the scheduler names. A port has no connections.
fn index_of(request: RequestId) -> DatagramIndex {
    match Names::default().request(request) {
        RequestKey::Datagram(index) => index,
        RequestKey::Connection(_) => unreachable!("requests of a port are datagrams"),
    }
}

/// Takes the scheduler's decisions of this moment.
fn decide<K, C, D: Default>(
    dispatcher: &mut Dispatcher<K>,
    pool: &mut DatagramPool<C, D>,
    now_ns: u64,
    round: &mut Vec<Decided<C, D>>,
) {
    while let Some(action) = dispatcher.poll(now_ns) {
        match action {
            Action::Run { worker, request, .. } => {
                let datagram = pool.take(index_of(request));
                round.extend(datagram.map(|datagram| (worker, request, datagram)));
            }
            Action::Reject { request, .. } => pool.discard(index_of(request)),
            Action::Preempt { .. } => {}
        }
    }
}

/// Sends each request to its worker, runs the requests, and receives them back. Returns their number.
fn run_round<F: Framing, H: Handler<F::Head>>(
    workers: &mut [Worker<F, H>],
    round: &mut Vec<Decided<H::Connection, F::Head>>,
    clock: &Clock,
    watch: &mut Stopwatch,
) -> u64 {
    let count = round.len() as u64;
    for (worker, request, datagram) in round.drain(..) {
        let task = Task::Datagram(datagram);
        let link = &mut workers[worker.index()].link;
        // A worker has one request at a time, and the ring has room for it.
        let _ = link.send(Message::Run { request, task });
    }
    wake_parked(workers.iter().map(|worker| &worker.link));
    watch.lap(Stage::Send);
    for worker in &mut *workers {
        if let Some(Message::Run { task, .. }) = worker.port.receive() {
            worker.task = Some(task);
        }
    }
    watch.lap(Stage::Take);
    for worker in &mut *workers {
        if let Some(task) = &mut worker.task {
            worker.executor.run(task, clock.now_ns());
        }
    }
    watch.lap(Stage::Handle);
    for worker in &mut *workers {
        if let Some(task) = worker.task.take() {
            worker.port.report(Report::Completed(task));
        }
    }
    watch.lap(Stage::Report);
    for worker in &mut *workers {
        if let Some(Report::Completed(task)) = worker.link.receive() {
            worker.task = Some(task);
        }
    }
    watch.lap(Stage::Receive);
    count
}
