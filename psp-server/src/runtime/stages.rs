//! What a request on a port costs, stage by stage: the net thread's parts and the workers', driven in
//! rounds on one thread with the cycles of each noted.
//!
//! ```text
//!   net thread   rx ─► headers ─► classify ─► enqueue ─► dispatch ─► send        receive ─► complete
//!                                                                     │             ▲
//!   workers                                                           └► take ─► handle ─► report ─► tx
//! ```
//!
//! A burst comes in as a whole, and then every worker has a request in each round. The thread has both ends
//! of the rings, so that no cache line moves between cores: where workers have threads of their own, `send`,
//! `take` and `receive` cost more.

use std::rc::Rc;
use std::sync::Arc;

use mio::Waker;
use psp_protocols::Framing;
use quanta::Clock as Tsc;

use super::channel::{Doorbell, Message, Report, TaskPort, WorkerLink, channel, settle};
use super::clock::Clock;
use super::dispatcher::Dispatcher;
use super::executor::{Executor, Sending};
use super::intake::{self, DATAGRAM_FIRST};
use super::shared::Shared;
use super::task::Task;
use super::turn_start::TurnStart;
use crate::classifier::Classifier;
use crate::handler::Handler;
use crate::policy::{Action, RequestId, Scheduler, WorkerId};
use crate::transport::Packets;
use crate::transport::datagram::{Datagram, DatagramPool};

/// The stages; as a number, the place in [`STAGES`].
#[derive(Debug, Clone, Copy)]
enum Stage {
    Rx,
    Headers,
    Classify,
    Enqueue,
    Dispatch,
    Send,
    Receive,
    Complete,
    Take,
    Handle,
    Report,
    Tx,
}

/// Names, and whose stages they are.
const STAGES: [(&str, Side); 12] = [
    ("rx", Side::NetThread),
    ("headers", Side::NetThread),
    ("classify", Side::NetThread),
    ("enqueue", Side::NetThread),
    ("dispatch", Side::NetThread),
    ("send", Side::NetThread),
    ("receive", Side::NetThread),
    ("complete", Side::NetThread),
    ("take", Side::Worker),
    ("handle", Side::Worker),
    ("report", Side::Worker),
    ("tx", Side::Worker),
];

/// Which thread does it, where workers have threads of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that has the dispatcher.
    NetThread,
    /// A worker's.
    Worker,
}

/// Parts of a cycle that are told apart.
const SCALE: u64 = 100;

/// Cycles of the processor's time stamp.
#[derive(Debug, Clone, PartialEq)]
pub struct Stages {
    /// Requests that went through all stages.
    pub requests: u64,
    /// Each stage and its cycles for one request: the median of all bursts, for the kernel may take the
    /// core away within any.
    pub cycles: Vec<(&'static str, Side, f64)>,
    /// Cycles in a second.
    pub cycles_per_second: f64,
}

/// Takes the time between stages.
struct Stopwatch {
    tsc: Tsc,
    last: u64,
    /// What a reading takes itself.
    reading: u64,
    /// Of the present burst.
    cycles: [u64; STAGES.len()],
    /// Of each burst before, for one request.
    bursts: [Vec<u64>; STAGES.len()],
}

impl Stopwatch {
    fn new() -> Self {
        let tsc = Tsc::new();
        let mut last = tsc.raw();
        let readings = (0..1000).map(|_| {
            let before = std::mem::replace(&mut last, tsc.raw());
            last - before
        });
        Self {
            reading: readings.min().unwrap_or(0),
            last,
            cycles: [0; STAGES.len()],
            bursts: Default::default(),
            tsc,
        }
    }

    fn start_burst(&mut self) {
        self.cycles = [0; STAGES.len()];
        self.last = self.tsc.raw();
    }

    /// What was done since the last call was of this stage.
    fn lap(&mut self, stage: Stage) {
        let now = self.tsc.raw();
        self.cycles[stage as usize] += (now - self.last).saturating_sub(self.reading);
        self.last = now;
    }

    /// The burst had so many requests.
    fn end_burst(&mut self, requests: u64) {
        for (stage, cycles) in self.bursts.iter_mut().zip(self.cycles) {
            stage.extend((cycles * SCALE).checked_div(requests));
        }
    }

    fn medians(&mut self) -> [f64; STAGES.len()] {
        self.bursts.each_mut().map(|bursts| {
            bursts.sort_unstable();
            let median = bursts.get(bursts.len() / 2);
            median.map_or(0.0, |median| *median as f64 / SCALE as f64)
        })
    }
}

/// What a server was built of.
pub(crate) struct Bench<F, K, H: Handler> {
    pub(crate) packets: Packets<H::Connection>,
    pub(crate) classifier: K,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) framing: Arc<F>,
    pub(crate) handler: Arc<H>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) datagrams: usize,
}

/// Both ends of a worker's rings, and the worker.
struct Worker<F, H: Handler> {
    link: WorkerLink<Task<H::Connection>>,
    port: TaskPort<Task<H::Connection>>,
    executor: Executor<F, H>,
    /// What it is to run, and then what it has run.
    task: Option<Task<H::Connection>>,
}

/// A request on its way to a worker.
type Decided<C> = (WorkerId, RequestId, Box<Datagram<C>>);

/// Puts at least `requests` requests of the port through all stages.
pub(crate) fn measure<F: Framing, K: Classifier, H: Handler>(
    bench: Bench<F, K, H>,
    requests: u64,
) -> Stages {
    let Bench {
        mut packets,
        classifier,
        scheduler,
        framing,
        handler,
        shared,
        waker,
        datagrams,
    } = bench;
    let starts = (0..shared.workers).map(|_| Arc::new(TurnStart::new()));
    let mut dispatcher = Dispatcher::new(classifier, scheduler, shared.clone(), starts.collect());
    let clock = Clock::new();
    let net = &shared.telemetry.net.0;
    let mut pool = DatagramPool::new(0, 0, datagrams);
    let doorbell = Arc::new(Doorbell::new(waker));
    let mut workers: Vec<Worker<F, H>> = (0..shared.workers as u32)
        .map(|number| {
            let (mut link, port) = channel(doorbell.clone());
            link.attach(std::thread::current());
            let executor = Executor::new(
                WorkerId(number),
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
                executor,
                task: None,
            }
        })
        .collect();
    let mut watch = Stopwatch::new();
    let started = (watch.tsc.raw(), std::time::Instant::now());
    let mut slots = Vec::with_capacity(datagrams);
    let mut round = Vec::with_capacity(shared.workers);
    let mut done = 0;
    while done < requests {
        let done_before = done;
        watch.start_burst();
        packets.poll(&net.packets);
        watch.lap(Stage::Rx);
        packets.read(usize::MAX, &net.packets, |packet, endpoint| {
            let held = pool.hold(endpoint, packet);
            slots.extend(held.map(|datagram| datagram.slot));
        });
        watch.lap(Stage::Headers);
        let now_ns = clock.now_ns();
        for &slot in &slots {
            if let Some(datagram) = pool.held(slot) {
                intake::classify((&*framing, &dispatcher), datagram, net, now_ns);
            }
        }
        watch.lap(Stage::Classify);
        for slot in slots.drain(..) {
            if let Some(datagram) = pool.held(slot) {
                intake::enqueue(&mut dispatcher, datagram);
            }
        }
        watch.lap(Stage::Enqueue);
        loop {
            decide(&mut dispatcher, &mut pool, now_ns, &mut round);
            watch.lap(Stage::Dispatch);
            if round.is_empty() {
                break;
            }
            done += run_round(&mut workers, &mut round, &mut watch);
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
    Stages {
        requests: done,
        cycles: medians
            .map(|((name, side), cycles)| (name, side, cycles))
            .collect(),
        cycles_per_second: cycles / started.1.elapsed().as_secs_f64(),
    }
}

/// Takes what the scheduler has workers run now.
fn decide<K: Classifier, C>(
    dispatcher: &mut Dispatcher<K>,
    pool: &mut DatagramPool<C>,
    now_ns: u64,
    round: &mut Vec<Decided<C>>,
) {
    while let Some(action) = dispatcher.poll(now_ns) {
        match action {
            Action::Run {
                worker, request, ..
            } => {
                let datagram = pool.take(request.0 - DATAGRAM_FIRST);
                round.extend(datagram.map(|datagram| (worker, request, datagram)));
            }
            Action::Reject { request, .. } => pool.discard(request.0 - DATAGRAM_FIRST),
            Action::Preempt { .. } => {}
        }
    }
}

/// Sends each request to its worker, has them run, and gets them back. Returns their number.
fn run_round<F: Framing, H: Handler>(
    workers: &mut [Worker<F, H>],
    round: &mut Vec<Decided<H::Connection>>,
    watch: &mut Stopwatch,
) -> u64 {
    let count = round.len() as u64;
    for (worker, request, datagram) in round.drain(..) {
        let task = Task::Datagram(datagram);
        let link = &mut workers[worker.index()].link;
        // A worker has one request at a time, and the ring has room for it.
        let _ = link.send(Message::Run { request, task });
    }
    settle(workers.iter().map(|worker| &worker.link));
    watch.lap(Stage::Send);
    for worker in &mut *workers {
        if let Some(Message::Run { task, .. }) = worker.port.receive() {
            worker.task = Some(task);
        }
    }
    watch.lap(Stage::Take);
    for worker in &mut *workers {
        if let Some(task) = &mut worker.task {
            worker.executor.run(task);
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
