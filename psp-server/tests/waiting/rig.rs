//! A server whose requests wait as their lines say.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use psp_server::protocols::Sink;
use psp_server::{
    Config, DrainReport, Policy, PreemptPolicy, Reply, Request, RequestType, Server, ServerHandle,
    SpawnedServer, Topology, TypeSpec, checkpoint, no_preempt, sleep, task, wait,
};

use crate::common::{Client, Lines};

/// The wakers of requests that wait at the gate, and whether it is open.
#[derive(Default)]
pub(crate) struct WaitingGate(std::sync::Mutex<(bool, Vec<Waker>)>);

impl WaitingGate {
    pub(crate) fn open(&self) {
        let wakers = {
            let mut gate = self.0.lock().unwrap();
            gate.0 = true;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes all without opening.
    pub(crate) fn disturb(&self) {
        let wakers = self.0.lock().unwrap().1.clone();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn is_open(&self) -> bool {
        self.0.lock().unwrap().0
    }

    async fn pass(&self) {
        std::future::poll_fn(|context| {
            let mut gate = self.0.lock().unwrap();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1.push(context.waker().clone());
            Poll::Pending
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
pub(crate) struct WaitingServer {
    pub(crate) address: SocketAddr,
    pub(crate) udp: SocketAddr,
    pub(crate) handle: ServerHandle,
    pub(crate) gate: Arc<WaitingGate>,
    /// Requests that have begun to wait.
    pub(crate) begun: Arc<AtomicUsize>,
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
    let gate = Arc::new(WaitingGate::default());
    let begun = Arc::new(AtomicUsize::new(0));
    let (at, count) = (gate.clone(), begun.clone());
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .udp("127.0.0.1:0")
        .framing(Lines)
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
        .handler(move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            let line = std::str::from_utf8(request.payload).unwrap().trim_end();
            let mut words = line.split(' ');
            let word = words.next().unwrap();
            let number = words.next().and_then(|number| number.parse().ok());
            let number: u64 = number.unwrap_or(0);
            let time = Duration::from_millis(number);
            if !word.starts_with("short") {
                count.fetch_add(1, Ordering::SeqCst);
            }
            let mut passed = true;
            match word {
                "nap" => sleep(time),
                "nap-held" => no_preempt(|| sleep(time)),
                "gate" => wait(at.pass()),
                "deep" => {
                    use_stack();
                    wait(at.pass());
                }
                "limit" => passed = wait(task::timeout(time, at.pass())).is_ok(),
                "fail" => {
                    sleep(time);
                    panic!("the test asked for it");
                }
                "spawn" => wait(woken_by_a_thread(time)),
                "short-open" => at.open(),
                "yield-until" => {
                    while !at.is_open() {
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
        })
        .build()
        .unwrap()
        .spawn()
        .unwrap();
    WaitingServer {
        address: server.local_addrs()[0],
        udp: server.local_addrs()[1],
        handle: server.handle().clone(),
        gate,
        begun,
        server: Some(server),
    }
}

/// What `deep` uses.
pub(crate) const DEEP_BYTES: usize = 32 * 1024;

#[inline(never)]
fn use_stack() {
    std::hint::black_box(&mut [1_u8; DEEP_BYTES]);
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
            std::thread::spawn(move || {
                std::thread::sleep(time);
                woken.store(1, Ordering::Release);
                waker.wake_by_ref();
                std::thread::yield_now();
                waker.wake();
            });
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
        self.handle.shut_down();
        self.server.take().unwrap().join().unwrap()
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
        (
            Policy::darc(),
            config(dedicated, PreemptPolicy::Cooperative),
        ),
        (Policy::c_fcfs(), config(dedicated, PreemptPolicy::None)),
        (quick.clone(), config(dedicated, PreemptPolicy::Cooperative)),
    ];
    if cfg!(target_os = "linux") {
        let team = config(dedicated, PreemptPolicy::KernelThread);
        servers.push((quick, team.clone()));
        servers.push((Policy::c_fcfs(), team));
    }
    servers
}

/// Names a server in messages.
pub(crate) fn named((policy, config): &(Policy, Config)) -> String {
    format!("{policy:?} {} {}", config.topology, config.preempt)
}
