//! Handlers that do all kinds of work, preempted as often as the machine can, have the results that
//! they have alone.

#![allow(unsafe_code)]

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use psp_server::{
    Config, Handler, Policy, PreemptPolicy, Reply, Request, RequestType, Server, Shutdown,
    SignalPreemptible, Topology, TypeSpec, WorkerId, checkpoint, protocols::Sink,
};

use crate::common::{Client, Lines};
use crate::work::{KINDS, Pause};

/// Preemptions of the short run.
const FEW: u64 = 20_000;
const MANY: u64 = 1_000_000;
/// How long a run may take that makes no progress.
const STALLED: Duration = Duration::from_secs(60);
/// Connections that ask for work, and others that disturb it.
const WORKING: usize = 6;
const DISTURBING: usize = 2;

/// `KIND SEED` answers the result of that work; its kinds are those of [`KINDS`].
struct Work {
    pause: Pause,
}

impl Handler for Work {
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) {}

    fn connect(&self, _peer: std::net::SocketAddr) {}

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let line = std::str::from_utf8(request.payload).unwrap().trim_end();
        let (kind, seed) = line.split_once(' ').unwrap();
        let (_, work) = KINDS.iter().find(|(name, _)| *name == kind).unwrap();
        // What disturbs is one of the kinds, cut short by its type: it does not pause.
        let pause = if request.request_type == RequestType::new(1) {
            self.pause
        } else {
            || {}
        };
        let result = work(seed.parse().unwrap(), pause);
        reply.put(format!("{kind} {seed} {result:x}\n").as_bytes());
    }
}

// SAFETY: its work leaves nothing half done that others of its thread could find, except within
// `no_preempt`; the test's allocator is a `PreemptSafeAlloc`; its thread-local variables need no
// initialisation and are borrowed within `no_preempt` (`LIST` has a destructor, which its first use
// registers there).
unsafe impl SignalPreemptible for Work {}

/// A server of one worker, so that all requests meet on it.
fn run(preempt: PreemptPolicy, preemptions: u64) {
    let pause: Pause = match preempt {
        PreemptPolicy::Cooperative => checkpoint,
        _ => || {},
    };
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .framing(Lines)
        .types([TypeSpec::new("disturbs"), TypeSpec::new("works")])
        .classifier(|line: &[u8]| RequestType::new(u32::from(!line.starts_with(b"unwind"))))
        .policy(Policy::sq().quantum_us(1.0))
        .config(Config {
            workers: Some(1),
            topology: Topology::Dedicated,
            preempt,
            ..Config::default()
        })
        .handler(Work { pause })
        .signal_preemption()
        .build()
        .unwrap();
    let address = server.local_addrs()[0];
    let handle = server.handle();
    let shutdown = Shutdown::new();
    let enough = AtomicBool::new(false);
    let preempted = || handle.snapshot().workers[0].preempted;
    std::thread::scope(|scope| {
        let until = shutdown.clone();
        let serving = scope.spawn(move || server.run_until(&until).unwrap());
        let ask = |connection: usize, disturbs: bool| {
            let mut client = Client::new(TcpStream::connect(address).unwrap());
            let mut seed = connection as u64;
            while !enough.load(Ordering::Relaxed) {
                seed += (WORKING + DISTURBING) as u64;
                let (kind, work) = if disturbs {
                    KINDS[4]
                } else {
                    KINDS[seed as usize % KINDS.len()]
                };
                let expected = format!("{kind} {seed} {:x}", work(seed, || {}));
                assert_eq!(client.ask(&format!("{kind} {seed}")), expected, "{preempt}");
            }
        };
        let clients: Vec<_> = (0..WORKING + DISTURBING)
            .map(|connection| scope.spawn(move || ask(connection, connection >= WORKING)))
            .collect();
        let mut last = (preempted(), Instant::now());
        while last.0 < preemptions && !clients.iter().any(|client| client.is_finished()) {
            std::thread::yield_now();
            let now = preempted();
            if now > last.0 {
                last = (now, Instant::now());
            }
            assert!(last.1.elapsed() < STALLED, "no preemption since {}", last.0);
        }
        enough.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
        shutdown.trigger();
        assert_eq!(serving.join().unwrap().abandoned, 0);
    });
    let worker = &handle.snapshot().workers[0];
    assert!(worker.preempted >= preemptions);
    assert_eq!(worker.panics, 0);
}

#[test]
fn cooperative_preemption_changes_no_result() {
    run(PreemptPolicy::Cooperative, FEW);
}

#[test]
#[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), ignore)]
fn preemption_by_signals_changes_no_result() {
    run(PreemptPolicy::Signal, FEW);
}

#[test]
#[ignore = "takes minutes"]
fn a_million_cooperative_preemptions_change_no_result() {
    run(PreemptPolicy::Cooperative, MANY);
}

#[test]
#[ignore = "takes minutes"]
fn a_million_preemptions_by_signals_change_no_result() {
    run(PreemptPolicy::Signal, MANY);
}
