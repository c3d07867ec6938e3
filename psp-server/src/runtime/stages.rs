//! What a request on a port costs, stage by stage: the net worker's parts and a worker's, driven in bursts
//! on one thread with the cycles of each noted.
//!
//! ```text
//!   rx ─► headers ─► classify ─► enqueue ─► dispatch ─► channel ─► handle ─► tx
//! ```
//!
//! One thread has both ends of the rings, so that no cache line moves between cores: where workers have
//! threads of their own, `channel` costs more.

use std::rc::Rc;
use std::sync::Arc;

use mio::Waker;
use psp_protocols::Framing;
use quanta::Clock as Tsc;

use super::channel::{Doorbell, Message, Report, channel};
use super::clock::Clock;
use super::dispatcher::Dispatcher;
use super::executor::{Executor, Sending};
use super::shared::Shared;
use super::task::Task;
use super::turn_start::TurnStart;
use crate::classifier::Classifier;
use crate::handler::Handler;
use crate::policy::{Action, RequestId, Scheduler, WorkerId};
use crate::transport::datagram::DatagramPool;
use crate::transport::{Packet, Packets};

/// The stages in the order in which a request meets them.
const STAGES: [&str; 8] = [
    "rx", "headers", "classify", "enqueue", "dispatch", "channel", "handle", "tx",
];

/// Parts of a cycle that are told apart.
const SCALE: u64 = 100;

/// Cycles of the processor's time stamp.
#[derive(Debug, Clone, PartialEq)]
pub struct Stages {
    /// Requests that went through all stages.
    pub requests: u64,
    /// Each stage and its cycles for one request: the median of all bursts, for the kernel may take the
    /// core away within any.
    pub cycles: Vec<(&'static str, f64)>,
    /// Cycles in a second.
    pub cycles_per_second: f64,
}

/// Takes the time between stages.
struct Stopwatch {
    tsc: Tsc,
    last: u64,
    /// Of the present burst.
    cycles: [u64; STAGES.len()],
    /// Of each burst before, for one request.
    bursts: [Vec<u64>; STAGES.len()],
}

impl Stopwatch {
    fn new() -> Self {
        let tsc = Tsc::new();
        Self {
            last: tsc.raw(),
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
    fn lap(&mut self, stage: usize) {
        let now = self.tsc.raw();
        self.cycles[stage] += now - self.last;
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
    let (mut link, mut port) = channel(Arc::new(Doorbell::new(waker)));
    let mut executor = Executor::new(
        WorkerId(0),
        handler,
        framing.clone(),
        shared.clone(),
        clock.clone(),
        Sending::WithTheTurn,
        Rc::default(),
    );
    let mut watch = Stopwatch::new();
    let started = (watch.tsc.raw(), std::time::Instant::now());
    let mut burst: Vec<Packet> = Vec::with_capacity(datagrams);
    let mut admitted = Vec::with_capacity(datagrams);
    let mut done = 0;
    while done < requests {
        let done_before = done;
        watch.start_burst();
        packets.poll(&net.packets);
        watch.lap(0);
        packets.read(&net.packets, |packet, _| burst.push(packet));
        watch.lap(1);
        for packet in burst.drain(..) {
            let Some(datagram) = pool.hold(packets.endpoint(), packet) else {
                continue;
            };
            let request = datagram.request(framing.envelope()).unwrap_or_default();
            let mut cursor = F::Cursor::default();
            // The bench's requests are well formed.
            let _ = framing.next_frame(&mut cursor, request);
            datagram.request_type = dispatcher.classify(request);
            dispatcher.count_arrival(datagram.request_type);
            admitted.push((datagram.slot, datagram.request_type));
        }
        watch.lap(2);
        let now_ns = clock.now_ns();
        for (slot, request_type) in admitted.drain(..) {
            dispatcher.arrived(now_ns, RequestId(slot), request_type);
        }
        watch.lap(3);
        while let Some(action) = dispatcher.poll(now_ns) {
            let (worker, request) = match action {
                Action::Run {
                    worker, request, ..
                } => (worker, request),
                Action::Reject { request, .. } => {
                    pool.discard(request.0);
                    continue;
                }
                Action::Preempt { .. } => continue,
            };
            let Some(datagram) = pool.take(request.0) else {
                continue;
            };
            watch.lap(4);
            let task = Task::Datagram(datagram);
            let _ = link.send(Message::Run { request, task });
            let Some(Message::Run { mut task, .. }) = port.receive() else {
                break;
            };
            watch.lap(5);
            executor.run(&mut task);
            watch.lap(6);
            port.report(Report::Completed(task));
            let Some(Report::Completed(Task::Datagram(datagram))) = link.receive() else {
                break;
            };
            watch.lap(5);
            dispatcher.completed(now_ns, worker, datagram.sample.as_slice());
            pool.give(datagram);
            done += 1;
            watch.lap(4);
        }
        watch.lap(4);
        packets.flush(&net.packets);
        watch.lap(7);
        watch.end_burst(done - done_before);
    }
    let cycles = (watch.tsc.raw() - started.0) as f64;
    Stages {
        requests: done,
        cycles: STAGES.into_iter().zip(watch.medians()).collect(),
        cycles_per_second: cycles / started.1.elapsed().as_secs_f64(),
    }
}
