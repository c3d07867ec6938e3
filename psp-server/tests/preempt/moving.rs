//! Requests that are preempted on one worker and go on at another, on their own threads: `kernel-thread` where workers
//! receive for themselves.

#![cfg(target_os = "linux")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use psp_server::policy::Synergy;
use psp_server::protocols::Sink;
use psp_server::{
    Config, Handler, Policy, PreemptPolicy, Reply, Request, RequestType, ServerHandle, SpawnedServer, Topology,
    TypeSpec, feedback, sleep,
};

use crate::common::{Client, OfLines, Spawned, lines, until, without_state};
use crate::rig::{Setup, start_with, yields_at_checkpoints_only};

/// Enough connections for each worker to have some.
const CLIENTS: usize = 32;

thread_local! {
    /// Which request has the thread.
    static OWNER: Cell<u64> = const { Cell::new(0) };
}

/// `stay` spins until the gate is open and says where it began, `wait` spins and sleeps in turns, and both say whether
/// their thread and its variables stayed theirs. All other requests answer at once.
#[derive(Default)]
struct Carried {
    is_open: AtomicBool,
    begun: AtomicU64,
}

impl Carried {
    /// Runs `body` as the owner of the thread.
    fn own(&self, body: impl FnOnce()) -> bool {
        let me = 1 + self.begun.fetch_add(1, Ordering::SeqCst);
        let thread = std::thread::current().id();
        let before = OWNER.replace(me);
        body();
        before == 0 && OWNER.replace(0) == me && std::thread::current().id() == thread
    }
}

/// The same for the server and the test.
#[derive(Clone, Default)]
struct Shared(Arc<Carried>);

impl Handler for Shared {
    without_state!();

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let line = std::str::from_utf8(request.payload).unwrap().trim_end();
        let is_same = match line {
            "stay" => self.0.own(|| {
                feedback::long();
                while !self.0.is_open.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }),
            "wait" => self.0.own(|| {
                for _ in 0..5 {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_micros(300) {
                        std::hint::spin_loop();
                    }
                    sleep(Duration::from_micros(200));
                }
            }),
            _ => true,
        };
        reply.put(if is_same { b"same " } else { b"another " });
        reply.put(line.as_bytes());
        if line == "stay" {
            reply.put(format!(" {}", request.worker.0).as_bytes());
        }
        reply.put(b"\n");
    }
}

struct CarriedServer {
    carried: Shared,
    handle: ServerHandle,
    server: SpawnedServer,
}

impl CarriedServer {
    fn start(workers: usize, policy: impl Into<Policy>) -> Self {
        let carried = Shared::default();
        let ms = Duration::from_millis;
        let types = [TypeSpec::new("short").service_time(ms(1)), TypeSpec::new("long").service_time(ms(100))];
        let server = lines()
            .types(types)
            .classifier(|line: &[u8]| RequestType::new(u32::from(!line.starts_with(b"short"))))
            .policy(policy)
            .config(
                Config::default()
                    .workers(workers)
                    .topology(Topology::Distributed)
                    .preempt(PreemptPolicy::KernelThread)
                    .background_nice(0),
            )
            .handler(carried.clone())
            .spawned();
        Self { carried, handle: server.handle().clone(), server }
    }

    fn connect(&self) -> Client {
        self.server.connect()
    }

    /// Per worker: how often a request yielded there.
    fn preempted(&self) -> Vec<u64> {
        let workers = self.handle.snapshot().workers;
        let honoured = workers.iter().map(|it| it.turns.preemptions_honoured);
        honoured.collect()
    }

    /// Per worker.
    fn completions(&self) -> [u64; 2] {
        let workers = self.handle.snapshot().workers;
        [0, 1].map(|worker| workers[worker].completions)
    }

    fn stop(self) {
        assert_eq!(self.server.stop().abandoned, 0);
    }
}

/// Three long requests share two workers, and each goes on wherever a worker is free. Workers count what ends there.
#[test]
fn a_preempted_request_goes_on_at_another_worker_with_its_thread() {
    const LONGS: u64 = 3;
    let server = CarriedServer::start(2, Policy::synergy());
    let mut longs: Vec<Client> = (0..LONGS).map(|_| server.connect()).collect();
    let mut shorts: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    let carried = &server.carried.0;
    until("one has ended elsewhere than it began", || {
        let begun = carried.begun.load(Ordering::SeqCst) + LONGS;
        carried.is_open.store(false, Ordering::SeqCst);
        for long in &mut longs {
            long.send("stay\n");
        }
        // One that was preempted at once goes on when short ones have preempted another.
        until("all have begun", || {
            for short in &mut shorts {
                short.send("short\n");
            }
            for short in &mut shorts {
                assert_eq!(short.line(), "same short");
            }
            carried.begun.load(Ordering::SeqCst) == begun
        });
        let before = server.completions();
        carried.is_open.store(true, Ordering::SeqCst);
        let mut began_at = [0; 2];
        for long in &mut longs {
            let line = long.line();
            let worker = line.strip_prefix("same stay ").expect(&line);
            began_at[worker.parse::<usize>().unwrap()] += 1;
        }
        let mut ended_at = server.completions();
        (0..2).for_each(|worker| ended_at[worker] -= before[worker]);
        assert_eq!(ended_at.iter().sum::<u64>(), LONGS, "each once");
        ended_at != began_at
    });
    server.stop();
}

/// Under a policy whose preempted requests wait in their workers' queues, idle workers steal them from there.
#[test]
fn requests_that_wait_and_are_preempted_keep_their_threads() {
    const LONGS: usize = 12;
    let often = Synergy::default().adaptive_quantum(false).quantum_us(100.0);
    for policy in [
        often.clone(),
        often.clone().wait_queue(false).steal_threshold(0),
        often.conditional_preemption(false),
    ] {
        let server = CarriedServer::start(3, policy);
        let mut longs: Vec<Client> = (0..LONGS).map(|_| server.connect()).collect();
        let mut shorts: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        for round in 0..10 {
            for long in &mut longs {
                long.send("wait\n");
            }
            for _ in 0..3 {
                for short in &mut shorts {
                    short.send("short\n");
                }
                for short in &mut shorts {
                    assert_eq!(short.line(), "same short", "round {round}");
                }
            }
            for long in &mut longs {
                assert_eq!(long.line(), "same wait", "round {round}");
            }
        }
        assert!(server.preempted().iter().sum::<u64>() > 0);
        let snapshot = server.handle.snapshot();
        let blocked: u64 = snapshot.types.iter().map(|it| it.waits.blocked).sum();
        assert_eq!(blocked, 0, "all have ended");
        server.stop();
    }
}

fn moving(config: Config) -> Config {
    config.preempt(PreemptPolicy::KernelThread)
}

fn setup(long: TypeSpec) -> Setup {
    let ms = Duration::from_millis;
    Setup {
        // Long ones take turns, so that each begins.
        policy: Synergy::default().wait_queue(false).into(),
        topology: Topology::Distributed,
        short: TypeSpec::new("short").service_time(ms(1)),
        long: long.service_time(ms(100)),
    }
}

#[test]
fn a_type_that_is_cooperative_yields_at_checkpoints_only() {
    let long = TypeSpec::new("long").preempt(PreemptPolicy::Cooperative);
    let server = start_with(moving(Config::default()), setup(long));
    yields_at_checkpoints_only(server, |_| std::thread::sleep(Duration::from_millis(20)));
}

#[test]
fn a_request_that_finds_no_thread_runs_to_its_end() {
    let config = moving(Config::default()).contexts_per_worker(3);
    let server = start_with(config, setup(TypeSpec::new("long")));
    let mut longs = [0, 1, 2].map(|gate| server.begin(&format!("spin {gate}")));
    let preempted = server.preempted();
    let exhausted = || server.handle.snapshot().workers[0].contexts_exhausted;
    assert_eq!(exhausted(), 1, "two have threads");
    let mut short = server.connect();
    short.send("short 0\n");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(server.preempted(), preempted);
    server.gates.open(2);
    assert_eq!(longs[2].line(), "ok spin 2");
    assert_eq!(short.line(), "ok short 0");
    // One of them runs, and the other waits for its end.
    for gate in [0, 1] {
        server.gates.open(gate);
    }
    for gate in [0, 1] {
        assert_eq!(longs[gate].line(), format!("ok spin {gate}"));
    }
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn a_request_that_panics_after_a_preemption_fails_alone() {
    let server = start_with(moving(Config::default()), setup(TypeSpec::new("long")));
    let mut failing = server.begin("fail 0");
    let mut short = server.connect();
    assert_eq!(short.ask("short 1"), "ok short 1");
    server.gates.open(0);
    assert!(failing.line().contains("fail"));
    assert_eq!(short.ask("short 2"), "ok short 2");
    assert_eq!(server.handle.snapshot().workers[0].panics, 1);
    assert_eq!(server.stop().abandoned, 0);
}

/// Some are suspended, and some have a worker. Their threads end when the gates open behind the test.
#[test]
fn a_server_that_stops_gives_up_requests_that_do_not_end() {
    const LONGS: usize = 5;
    let config = moving(Config::default()).workers(2).drain_timeout_ms(50);
    let server = start_with(config, setup(TypeSpec::new("long")));
    let _longs: Vec<_> = (0..LONGS).map(|gate| server.begin(&format!("spin {gate}"))).collect();
    let gates = server.gates.clone();
    assert_eq!(server.stop().abandoned, LONGS);
    (0..LONGS).for_each(|gate| gates.open(gate));
}
