//! A server whose requests wait as their lines say.

#![allow(unsafe_code)]

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use psp_server::protocols::{FrameError, Framing, Rejection, Sink, Step};
use psp_server::{
    Config, DeferredReply, DrainReport, Handler, Policy, PreemptPolicy, Reply, Request, RequestType, Server,
    ServerHandle, SignalPreemptible, SpawnedServer, Topology, TypeSpec, blocking, checkpoint, no_preempt, sleep, sync,
    task, wait,
};

use crate::common::{Client, Lines, OfLines, Spawned, without_state};

/// The wakers of requests that wait at the gate, and whether it is open.
#[derive(Default)]
pub(crate) struct WaitingGate(Mutex<(bool, Vec<Waker>)>);

impl WaitingGate {
    pub(crate) fn open(&self) {
        let wakers = {
            let mut gate = self.0.lock().unwrap();
            gate.0 = true;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn close(&self) {
        self.0.lock().unwrap().0 = false;
    }

    /// Wakes all without opening.
    pub(crate) fn disturb(&self) {
        let wakers = self.0.lock().unwrap().1.clone();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn is_open(&self) -> bool {
        no_preempt(|| self.0.lock().unwrap().0)
    }

    async fn pass(&self) {
        std::future::poll_fn(|context| {
            no_preempt(|| {
                let mut gate = self.0.lock().unwrap();
                if gate.0 {
                    return Poll::Ready(());
                }
                gate.1.push(context.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }
}

/// Requests, by the first word of their line; all others answer at once.
///
/// | request | it |
/// | --- | --- |
/// | `nap MS` | sleeps |
/// | `nap-held MS` | sleeps within `no_preempt` |
/// | `gate` | waits at the gate |
/// | `deep` | the same, after it has used [`DEEP_BYTES`] of its stack |
/// | `limit MS` | waits at the gate for so long |
/// | `fail MS` | sleeps, and panics then |
/// | `spawn MS` | waits for another thread, which sleeps and wakes it twice |
/// | `yield N` | yields so many times |
/// | `yield-until` | yields until the gate is open |
/// | `short-open` | opens the gate |
/// | `spin N` | passes so many checkpoints |
/// | `block MS` | blocks in the kernel |
/// | `block-gate` | blocks in the kernel until the gate is open |
/// | `block-fail MS` | blocks in the kernel, and panics there |
/// | `fan N` | joins so many tasks that sleep, and one that panics, and cancels one more |
/// | `lock MS` | has the lock for so long, and counts |
/// | `lock-gate` | has the lock until the gate is open, and counts |
/// | `lock-limit MS` | has the lock if it gets it in so long, and counts |
/// | `count N` | waits until so many have counted |
/// | `oneshot MS` | waits for what another thread sends after so long |
/// | `oneshot-drop MS` | the same, which sends nothing |
/// | `defer MS` | has another thread answer after so long |
/// | `defer-fail MS`, `defer-drop MS` | the same, which fails it, or drops it |
/// | `defer-panic MS` | the same, and panics at once |
/// | `defer-kept` | leaves its reply in `kept` |
/// | `defer-big N` | has another thread answer with so many bytes |
pub(crate) struct WaitingServer {
    pub(crate) address: SocketAddr,
    pub(crate) udp: SocketAddr,
    pub(crate) handle: ServerHandle,
    pub(crate) gate: Arc<WaitingGate>,
    /// Requests that have begun to wait.
    pub(crate) begun: Arc<AtomicUsize>,
    /// Threads that are or were blocked at the gate.
    pub(crate) at_gate: Arc<AtomicUsize>,
    /// Replies that the test completes.
    pub(crate) kept: Arc<Mutex<Vec<DeferredReply>>>,
    pub(crate) counter: Arc<Counter>,
    pub(crate) shorts: Arc<Shorts>,
    server: Option<SpawnedServer>,
}

pub(crate) fn config(topology: Topology, preempt: PreemptPolicy) -> Config {
    Config::default()
        .workers(2)
        .topology(topology)
        .preempt(preempt)
        // Other programs may run on the machine.
        .background_nice(0)
}

pub(crate) fn start(policy: impl Into<Policy>, config: Config) -> WaitingServer {
    start_framed(Lines, policy, config)
}

/// The lines of [`Lines`], whose replies need no order: each repeats its request.
pub(crate) struct NamedLines;

impl Framing for NamedLines {
    type Cursor = usize;
    type Head = ();

    fn next_frame(&self, scanned: &mut usize, input: &[u8]) -> Result<Step, FrameError> {
        Lines.next_frame(scanned, input)
    }

    fn replies_in_order(&self) -> bool {
        false
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        Lines.encode_rejection(rejection, request, out);
    }
}

/// A server whose requests are lines to this framing.
pub(crate) fn start_framed(
    framing: impl Framing<Head = ()>,
    policy: impl Into<Policy>,
    config: Config,
) -> WaitingServer {
    let handler = Waits::default();
    let (gate, begun) = (handler.gate.clone(), handler.begun.clone());
    let (at_gate, kept) = (handler.at_gate.clone(), handler.kept.clone());
    let (counter, shorts) = (handler.counter.clone(), handler.shorts.clone());
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .udp("127.0.0.1:0")
        .framing(framing)
        .types([
            TypeSpec::new("short").service_time(Duration::from_micros(5)),
            TypeSpec::new("waits").service_time(Duration::from_micros(20)),
            TypeSpec::new("spins").service_time(Duration::from_millis(5)),
        ])
        .classifier(|line: &[u8]| match line {
            line if line.starts_with(b"short") => RequestType::new(0),
            line if line.starts_with(b"spin") => RequestType::new(2),
            _ => RequestType::new(1),
        })
        .policy(policy)
        .config(config)
        .handler(handler)
        .signal_preemption()
        .spawned();
    WaitingServer {
        address: server.local_addrs()[0],
        udp: server.local_addrs()[1],
        handle: server.handle().clone(),
        gate,
        begun,
        at_gate,
        kept,
        counter,
        shorts,
        server: Some(server),
    }
}

#[derive(Default)]
struct Waits {
    gate: Arc<WaitingGate>,
    at_gate: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    kept: Arc<Mutex<Vec<DeferredReply>>>,
    counter: Arc<Counter>,
    shorts: Arc<Shorts>,
}

/// How many short requests have begun, and how many had when each request passed the gate.
#[derive(Default)]
pub(crate) struct Shorts {
    pub(crate) begun: AtomicUsize,
    pub(crate) at_passes: Mutex<Vec<usize>>,
}

/// How many requests have had the lock.
#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) count: sync::Mutex<u64>,
    changed: sync::Condvar,
}

impl Counter {
    /// Counts, with the lock for as long as `hold` takes.
    fn count(&self, mut count: sync::MutexGuard<'_, u64>, hold: impl FnOnce()) {
        let before = *count;
        hold();
        *count = before + 1;
        drop(count);
        self.changed.notify_all();
    }

    async fn reaches(&self, least: u64) {
        let count = self.count.lock().await;
        drop(self.changed.wait_while(count, |count| *count < least).await);
    }
}

// SAFETY: locks are held, and threads started, within `no_preempt`; the binary's allocator is not preempted. Nothing
// else is shared by requests of one thread.
unsafe impl SignalPreemptible for Waits {}

impl Handler for Waits {
    without_state!();

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let line = std::str::from_utf8(request.payload).unwrap().trim_end();
        let mut words = line.split(' ');
        let word = words.next().unwrap();
        let number = words.next().and_then(|number| number.parse().ok());
        let number: u64 = number.unwrap_or(0);
        let time = Duration::from_millis(number);
        let counted = match word.starts_with("short") {
            true => &self.shorts.begun,
            false => &self.begun,
        };
        counted.fetch_add(1, Ordering::SeqCst);
        if word.starts_with("defer") {
            return self.defer(word, line, number, reply);
        }
        let mut passed = true;
        match word {
            "nap" => sleep(time),
            "fan" => passed = fan(number),
            "lock" => self.counter.count(wait(self.counter.count.lock()), || sleep(time)),
            "lock-gate" => {
                let count = wait(self.counter.count.lock());
                self.counter.count(count, || wait(self.gate.pass()));
            }
            "lock-limit" => match wait(task::timeout(time, self.counter.count.lock())) {
                Ok(count) => self.counter.count(count, || {}),
                Err(_) => passed = false,
            },
            "count" => wait(self.counter.reaches(number)),
            "oneshot" => passed = wait(sent_by_a_thread(time, Some(number))) == Ok(number),
            "oneshot-drop" => passed = wait(sent_by_a_thread(time, None)).is_err(),
            "nap-held" => no_preempt(|| sleep(time)),
            "gate" => {
                wait(self.gate.pass());
                let begun = self.shorts.begun.load(Ordering::SeqCst);
                no_preempt(|| self.shorts.at_passes.lock().unwrap().push(begun));
            }
            "deep" => {
                use_stack();
                wait(self.gate.pass());
            }
            "limit" => passed = wait(task::timeout(time, self.gate.pass())).is_ok(),
            "fail" => {
                sleep(time);
                panic!("the test asked for it");
            }
            "spawn" => wait(woken_by_a_thread(time)),
            "block" => blocking(move || std::thread::sleep(time)),
            "block-gate" => {
                let (gate, at_gate) = (self.gate.clone(), self.at_gate.clone());
                blocking(move || {
                    at_gate.fetch_add(1, Ordering::SeqCst);
                    while !gate.is_open() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            "block-fail" => blocking(move || {
                std::thread::sleep(time);
                panic!("the test asked for it");
            }),
            "short-open" => no_preempt(|| self.gate.open()),
            "yield-until" => {
                while !self.gate.is_open() {
                    wait(task::yield_now());
                }
            }
            "yield" => (0..number).for_each(|_| wait(task::yield_now())),
            "spin" => (0..number).for_each(|_| {
                (0..32).for_each(|_| std::hint::spin_loop());
                checkpoint();
            }),
            _ => {}
        }
        reply.put(if passed { b"ok " } else { b"late " });
        reply.put(line.as_bytes());
        reply.put(b"\n");
    }
}

impl Waits {
    fn defer(&self, word: &str, line: &str, number: u64, reply: &mut Reply<'_>) {
        reply.put(b"discarded");
        let mut later = reply.defer();
        reply.put(b"discarded");
        later.put(b"ok ");
        let (line, word) = (format!("{line}\n"), word.to_owned());
        if word == "defer-kept" {
            later.put(line.as_bytes());
            return no_preempt(|| self.kept.lock().unwrap().push(later));
        }
        let is_big = word == "defer-big";
        let fails_itself = word == "defer-panic";
        let complete = move || {
            let time = Duration::from_millis(if is_big { 0 } else { number });
            std::thread::sleep(time);
            match word.as_str() {
                "defer-fail" => return later.fail(line.trim_end()),
                "defer-drop" => return drop(later),
                "defer-big" => (0..number / 100).for_each(|_| later.put(&[b'x'; 100])),
                _ => {}
            }
            later.put(line.as_bytes());
            later.finish();
        };
        no_preempt(|| std::thread::spawn(complete));
        assert!(!fails_itself, "the test asked for it");
    }
}

/// What `deep` uses.
pub(crate) const DEEP_BYTES: usize = 32 * 1024;

#[inline(never)]
fn use_stack() {
    std::hint::black_box(&mut [1_u8; DEEP_BYTES]);
}

/// Whether so many tasks that sleep, and one that panics, end beside one that does not.
fn fan(sleeping: u64) -> bool {
    let mut tasks = task::Tasks::new(usize::try_from(sleeping).unwrap() + 2);
    tasks.spawn(std::future::pending()).unwrap();
    tasks.spawn(fails()).unwrap();
    for ms in 1..=sleeping {
        let sleeps = async move {
            task::sleep(Duration::from_millis(ms)).await;
            task::yield_now().await;
            ms
        };
        tasks.spawn(sleeps).unwrap();
    }
    let is_full = tasks.spawn(fails()).is_err();
    let (mut sum, mut panicked) = (0, 0);
    for _ in 0..=sleeping {
        match wait(tasks.join_next()).unwrap().1 {
            Ok(ms) => sum += ms,
            Err(_) => panicked += 1,
        }
    }
    let is_joined = sum == (1..=sleeping).sum::<u64>() && panicked == 1;
    is_full && is_joined && tasks.len() == 1
}

async fn fails() -> u64 {
    panic!("the test asked for it")
}

fn sent_by_a_thread(time: Duration, value: Option<u64>) -> sync::oneshot::Receiver<u64> {
    let (sender, receiver) = sync::oneshot::channel();
    let send = move || {
        std::thread::sleep(time);
        match value {
            Some(value) => drop(sender.send(value)),
            None => drop(sender),
        }
    };
    no_preempt(|| std::thread::spawn(send));
    receiver
}

async fn woken_by_a_thread(time: Duration) {
    let woken = Arc::new(AtomicUsize::new(0));
    let mut is_started = false;
    std::future::poll_fn(|context| {
        if woken.load(Ordering::Acquire) > 0 {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut is_started, true) {
            let (waker, woken) = (context.waker().clone(), woken.clone());
            let wake = move || {
                std::thread::sleep(time);
                woken.store(1, Ordering::Release);
                waker.wake_by_ref();
                std::thread::yield_now();
                waker.wake();
            };
            no_preempt(|| std::thread::spawn(wake));
        }
        Poll::Pending
    })
    .await;
}

impl WaitingServer {
    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    pub(crate) fn stop(mut self) -> DrainReport {
        self.server.take().unwrap().stop()
    }
}

impl Drop for WaitingServer {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// The ways in which a server can run requests that wait: its policy, topology and mechanism.
pub(crate) fn servers() -> Vec<(Policy, Config)> {
    let quick = Policy::mq().quantum_us(200.0);
    let (inline, dedicated) = (Topology::Inline, Topology::Dedicated);
    let mut servers = vec![
        (Policy::darc(), config(inline, PreemptPolicy::Cooperative)),
        (Policy::c_fcfs(), config(inline, PreemptPolicy::None)),
        (Policy::darc(), config(dedicated, PreemptPolicy::Cooperative)),
        (Policy::c_fcfs(), config(dedicated, PreemptPolicy::None)),
        (quick.clone(), config(dedicated, PreemptPolicy::Cooperative)),
    ];
    if cfg!(target_os = "linux") {
        let team = config(dedicated, PreemptPolicy::KernelThread);
        servers.push((quick.clone(), team.clone()));
        servers.push((Policy::c_fcfs(), team));
        // Each request has a quantum, and with it a thread.
        let moving = config(Topology::Distributed, PreemptPolicy::KernelThread);
        servers.push((Policy::jsq().quantum_us(200.0), moving));
    }
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        servers.push((quick, config(dedicated, PreemptPolicy::Signal)));
    }
    servers
}

/// Names a server in messages.
pub(crate) fn named((policy, config): &(Policy, Config)) -> String {
    format!("{policy:?} {} {}", config.topology, config.preempt)
}
