//! Handlers that do all kinds of work, preempted as often as the machine can, have the same results as alone.

#![allow(unsafe_code)]

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use psp_server::policy::Synergy;
use psp_server::{
    Config, Handler, Policy, PreemptPolicy, Reply, Request, RequestType, Shutdown, SignalPreemptible, Topology,
    TypeSpec, checkpoint, protocols::Sink,
};

use crate::common::{Client, lines, without_state};
use crate::rig::MECHANISMS;
use crate::work::{KINDS, Kind, Pause, disturb, silence_panics};

/// Preemptions of a run, short, for continuous integration, and long.
const FEW: u64 = 3_000;
const SOME: u64 = 20_000;
const MANY: u64 = 1_000_000;
/// How often a run reports its progress, and how long it may make none.
const INTERVAL: Duration = Duration::from_secs(1);
const STALLED: Duration = Duration::from_secs(60);
/// Results of each kind that are compared.
const SEEDS: u64 = 9;
/// Connections that ask for work, and connections that disturb it.
const WORKING: usize = 6;
const DISTURBING: usize = 2;
/// Requests that a connection sends at once.
const PIPELINED: usize = 4;

/// `KIND SEED` answers the result of that work, one of [`KINDS`] or `disturb`.
struct Work {
    pause: Pause,
}

impl Handler for Work {
    without_state!();

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let line = std::str::from_utf8(request.payload).unwrap().trim_end();
        let (name, seed) = line.split_once(' ').unwrap();
        let number = seed.parse().unwrap();
        let result = match KINDS.iter().find(|(kind, _)| *kind == name) {
            Some((_, work)) => work(number, self.pause),
            None => disturb(number),
        };
        reply.put(format!("{name} {seed} {result:x}\n").as_bytes());
    }
}

// SAFETY: the work leaves nothing half done that other requests of its thread could find, except within
// `no_preempt`. The test's allocator is a `PreemptSafeAlloc`. The thread-local variables need no initialisation
// and are borrowed within `no_preempt` (`LIST` has a destructor, which its first use registers there).
unsafe impl SignalPreemptible for Work {}

/// Requests for work of each kind, and their replies as computed without preemption.
fn expected(kinds: &[Kind]) -> Vec<(String, String)> {
    let requests = (0..SEEDS).flat_map(|seed| kinds.iter().map(move |kind| (kind, seed)));
    let replies = requests.map(|((name, work), seed)| {
        let request = format!("{name} {seed}");
        let reply = format!("{request} {:x}", work(seed, || {}));
        (request, reply)
    });
    replies.collect()
}

/// A client: sends batches of requests over and over, and checks their replies.
fn talk(mut client: Client, expected: &[(String, String)], first: usize, enough: &AtomicBool) {
    let mut exchanges = expected.iter().cycle().skip(first);
    while !enough.load(Ordering::Relaxed) {
        let batch: [_; PIPELINED] = std::array::from_fn(|_| exchanges.next().unwrap());
        client.send(&batch.map(|(request, _)| format!("{request}\n")).concat());
        for (_, reply) in batch {
            assert_eq!(client.line(), *reply);
        }
    }
}

/// How many preemptions there were, and when the last was seen.
struct Progress {
    preempt: PreemptPolicy,
    preemptions: u64,
    last: (u64, Instant),
    said: (u64, Instant),
}

impl Progress {
    fn new(preempt: PreemptPolicy, preemptions: u64) -> Self {
        let none = (0, Instant::now());
        Self { preempt, preemptions, last: none, said: none }
    }

    /// Returns whether there were enough. Reports progress on stderr now and then, past the harness, which
    /// holds back the tests' output until they end.
    fn is_enough(&mut self, preempted: u64) -> bool {
        let now = Instant::now();
        if preempted > self.last.0 {
            self.last = (preempted, now);
        }
        let stalled = now - self.last.1;
        assert!(stalled < STALLED, "no preemption since {preempted}");
        let (before, since) = self.said;
        if now - since >= INTERVAL {
            let per_second = (preempted - before) as f64 / (now - since).as_secs_f64();
            let (preempt, of) = (self.preempt, self.preemptions);
            let _ = writeln!(std::io::stderr(), "{preempt}: {preempted} of {of} preemptions, {per_second:.0} a second");
            self.said = (preempted, now);
        }
        preempted >= self.preemptions
    }
}

/// Lets the scope of a failed run end.
struct StopOnFailure<'a>(&'a Shutdown);

impl Drop for StopOnFailure<'_> {
    fn drop(&mut self) {
        self.0.trigger();
    }
}

/// A server of one worker, so that all requests meet on it.
fn run(preempt: PreemptPolicy, preemptions: u64) {
    let policy = Policy::sq().quantum_us(1.0);
    run_under(policy, Topology::Dedicated, 1, preempt, preemptions);
}

/// Workers that receive for themselves, and hand each other requests.
fn run_distributed(preempt: PreemptPolicy, preemptions: u64) {
    let longer = Synergy::default().long_factor(1.0);
    let in_turn = longer.clone().wait_queue(false);
    for policy in [Policy::jsq().quantum_us(1.0), longer.into(), in_turn.into()] {
        run_under(policy, Topology::Distributed, 2, preempt, preemptions);
    }
}

fn run_under(policy: Policy, topology: Topology, workers: usize, preempt: PreemptPolicy, preemptions: u64) {
    silence_panics();
    let pause: Pause = match preempt {
        PreemptPolicy::Cooperative => checkpoint,
        _ => || {},
    };
    let server = lines()
        .types([TypeSpec::new("disturbs"), TypeSpec::new("works")])
        .classifier(|line: &[u8]| RequestType::new(u32::from(!line.starts_with(b"disturb"))))
        .policy(policy)
        .config(Config::default().workers(workers).topology(topology).preempt(preempt).background_nice(0))
        .handler(Work { pause })
        .signal_preemption()
        .build()
        .unwrap();
    let address = server.local_addrs()[0];
    let handle = server.handle();
    let expected = [expected(&KINDS), expected(&[("disturb", |seed, _| disturb(seed))])];
    let shutdown = Shutdown::new();
    let enough = AtomicBool::new(false);
    let preempted = || {
        let workers = handle.snapshot().workers;
        let honoured = workers.iter().map(|it| it.turns.preemptions_honoured);
        honoured.sum::<u64>()
    };
    std::thread::scope(|scope| {
        let until = shutdown.clone();
        let serving = scope.spawn(move || server.run_until(&until).unwrap());
        let _stop = StopOnFailure(&shutdown);
        let clients: Vec<_> = (0..WORKING + DISTURBING)
            .map(|connection| {
                let (expected, enough) = (&expected, &enough);
                scope.spawn(move || {
                    let client = Client::new(TcpStream::connect(address).unwrap());
                    let expected = &expected[usize::from(connection >= WORKING)];
                    talk(client, expected, connection, enough);
                })
            })
            .collect();
        let mut progress = Progress::new(preempt, preemptions);
        while !progress.is_enough(preempted()) && !clients.iter().any(ScopedJoinHandle::is_finished) {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        enough.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
        shutdown.trigger();
        assert_eq!(serving.join().unwrap().abandoned, 0);
    });
    assert!(preempted() >= preemptions);
    let workers = handle.snapshot().workers;
    assert!(workers.iter().all(|worker| worker.panics == 0));
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
#[cfg_attr(not(target_os = "linux"), ignore)]
fn preemption_by_kernel_threads_changes_no_result() {
    run(PreemptPolicy::KernelThread, FEW);
}

#[test]
fn a_timer_core_that_asks_at_checkpoints_changes_no_result() {
    run_distributed(PreemptPolicy::Cooperative, FEW);
}

#[test]
#[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), ignore)]
fn a_timer_core_that_sends_signals_changes_no_result() {
    run_distributed(PreemptPolicy::Signal, FEW);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore)]
fn moving_from_worker_to_worker_changes_no_result() {
    run_distributed(PreemptPolicy::KernelThread, FEW);
}

#[test]
#[ignore = "takes a minute"]
fn twenty_thousand_preemptions_change_no_result() {
    for &preempt in MECHANISMS {
        run(preempt, SOME);
    }
}

#[test]
#[ignore = "takes minutes, and hours if other programs want the cores"]
fn a_million_preemptions_by_kernel_threads_change_no_result() {
    run(PreemptPolicy::KernelThread, MANY);
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
