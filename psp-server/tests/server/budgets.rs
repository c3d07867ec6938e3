//! Requests that have a thread with sockets for too long: they give it back at their checkpoints, whatever the policy.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use psp_server::protocols::Sink;
use psp_server::{Config, Policy, PreemptPolicy, Reply, Request, Topology, checkpoint};

use crate::common::{AnyHandler, Client, OfLines, PATIENCE, policies_of_workers, start_by_prefix, until};

/// What endless requests and the test know of each other.
#[derive(Default)]
struct Loops {
    running: AtomicU64,
    rounds: AtomicU64,
    is_over: AtomicBool,
}

impl Loops {
    fn run(&self) {
        self.running.fetch_add(1, Ordering::SeqCst);
        let deadline = Instant::now() + PATIENCE;
        while !self.is_over.load(Ordering::SeqCst) && Instant::now() < deadline {
            self.rounds.fetch_add(1, Ordering::Relaxed);
            checkpoint();
        }
    }
}

fn echo(request: &Request<'_, ()>, reply: &mut Reply<'_>) {
    reply.put(request.payload);
}

/// The lines `endless` run until the test says so.
fn looping(loops: &Arc<Loops>) -> AnyHandler {
    let loops = loops.clone();
    Box::new(move |request, reply| {
        if request.payload.ends_with(b"endless\n") {
            loops.run();
        }
        echo(&request, reply);
    })
}

/// Runs `count` endless requests of the type of `line`, whose requests were short before, and others.
fn others_are_served(policy: Policy, config: Config, count: u64, line: &str) {
    let topology = config.topology;
    let shape = format!("{policy}, {topology} workers {:?}, {line}", config.workers);
    let loops = Arc::new(Loops::default());
    // Its requests may yield before they have had their budget.
    let preempts = policy.can_preempt();
    let server = start_by_prefix(policy, config, looping(&loops));
    let mut witness = server.connect();
    for _ in 0..200 {
        assert_eq!(witness.ask("short"), "short");
    }
    let mut endless: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    for client in &mut endless {
        client.send(&format!("{line}\n"));
    }
    until("all of them run", || {
        assert_eq!(witness.ask("short"), "short", "{shape}");
        loops.running.load(Ordering::SeqCst) == count
    });
    let rounds = || loops.rounds.load(Ordering::Relaxed);
    for _ in 0..8 {
        let before = rounds();
        assert_eq!(witness.ask("short"), "short", "{shape}");
        assert_eq!(server.connect().ask("long"), "long", "{shape}");
        until("they go on", || rounds() > before);
    }
    let turns = |at: usize| server.handle().snapshot().types[at].turns;
    let (short, long) = (turns(0), turns(1));
    if line.starts_with("long") || topology == Topology::Dedicated {
        let yielded = [short, long].map(|turns| turns.preemptions_honoured + turns.pauses);
        assert!(yielded.iter().sum::<u64>() > 0, "{shape}");
    } else {
        assert!(short.pauses > 0 || preempts, "{shape}");
        assert_eq!(long.pauses, 0, "{shape}: none is longer than its budget");
    }
    loops.is_over.store(true, Ordering::SeqCst);
    for client in &mut endless {
        assert_eq!(client.line(), line, "{shape}");
    }
    assert_eq!(server.stop().abandoned, 0, "{shape}");
}

#[test]
fn others_are_served_beside_endless_requests_on_the_net_thread() {
    let inline = |workers| Config::default().workers(workers).topology(Topology::Inline);
    for policy in to_completion(1) {
        others_are_served(policy, inline(1), 2, "endless");
    }
    // Under other policies some requests wait for the other worker.
    for policy in [Policy::c_fcfs(), Policy::darc(), Policy::sjf()] {
        others_are_served(policy, inline(2), 3, "endless");
    }
}

/// The policies that run requests to their ends, on so many workers.
fn to_completion(workers: usize) -> impl Iterator<Item = Policy> {
    let names = Policy::names_to_completion().into_iter();
    let policies = names.map(|name| name.parse::<Policy>().unwrap());
    policies.filter(move |policy| policy.validate(workers).is_ok())
}

/// One more than there are workers, or all on one worker.
#[test]
fn others_are_served_beside_endless_requests_on_all_workers() {
    for workers in [1, 2] {
        for policy in to_completion(workers) {
            let config = Config::default().workers(workers).topology(Topology::Dedicated);
            let config = config.stuck_after_ms(20).stuck_after_means(0);
            others_are_served(policy, config, workers as u64 + 1, "endless");
        }
    }
    for policy in to_completion(2) {
        let config = Config::default().workers(2_usize).topology(Topology::Inline);
        let config = config.stuck_after_ms(20).stuck_after_means(0);
        others_are_served(policy, config, 2, "long endless");
    }
}

/// A request of a type that is known to be long begins when the one before it has ended.
#[test]
fn long_requests_alone_run_one_after_the_other() {
    const LONG: Duration = Duration::from_millis(5);
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = events.clone();
    let handle = move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
        let name = String::from_utf8(request.payload.trim_ascii_end().to_vec()).unwrap();
        seen.lock().unwrap().push(format!("{name} begins"));
        let started = Instant::now();
        while started.elapsed() < LONG {
            checkpoint();
        }
        seen.lock().unwrap().push(format!("{name} ends"));
        echo(&request, reply);
    };
    let config = Config::default().workers(1).topology(Topology::Inline);
    let server = start_by_prefix(Policy::c_fcfs(), config, Box::new(handle));
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    assert_eq!(clients[0].ask("long first"), "long first");
    events.lock().unwrap().clear();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&format!("long {number}\n"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.line(), format!("long {number}"));
    }
    let events = events.lock().unwrap();
    for pair in events.chunks(2) {
        let name = pair[0].strip_suffix(" begins").unwrap();
        assert_eq!(pair[1], format!("{name} ends"), "{events:?}");
    }
    let pauses = server.handle().snapshot().types[1].turns.pauses;
    assert!(pauses >= 8, "each had its thread for longer than a budget");
}

/// Neither does a request of a type that never yields pause, nor any request without a budget.
#[test]
fn requests_that_do_not_yield_do_not_pause() {
    let never = |config: Config| config.preempt(PreemptPolicy::None);
    let for_ever = |config: Config| config.net_budget_us(0);
    let settings: [fn(Config) -> Config; 2] = [never, for_ever];
    for set in settings {
        let handle = |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(5) {
                checkpoint();
            }
            echo(&request, reply);
        };
        let config = set(Config::default()).workers(1);
        let server = start_by_prefix(Policy::c_fcfs(), config.topology(Topology::Inline), Box::new(handle));
        let mut clients = [server.connect(), server.connect()];
        clients.iter_mut().for_each(|client| client.send("short\n"));
        for client in &mut clients {
            assert_eq!(client.line(), "short");
        }
        assert_eq!(server.handle().snapshot().types[0].turns.pauses, 0);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn others_are_served_beside_endless_requests_on_all_workers_that_receive() {
    for policy in policies_of_workers() {
        // It has endless requests yield itself.
        if policy == Policy::synergy() {
            continue;
        }
        for workers in [1, 2] {
            let config = Config::default().workers(workers);
            let config = config.topology(Topology::Distributed);
            others_are_served(policy.clone(), config.clone(), workers as u64, "endless");
            // Ports belong to their workers for good.
            let stays = config.long_us(0);
            others_are_served(policy.clone(), stays, workers as u64, "endless");
        }
    }
}
