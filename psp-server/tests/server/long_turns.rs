//! What workers that receive for themselves do beside a long request: step back on a shared core, and let others drive
//! their connections, also if the request becomes long only while it runs.

use std::collections::HashSet;
use std::fs;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{available_parallelism, sleep as block};
use std::time::{Duration, Instant};

use psp_server::protocols::Sink;
use psp_server::sync::Semaphore;
use psp_server::task::yield_now;
use psp_server::{
    Config, Policy, Reply, Request, RequestType, SpawnedServer, Topology, WorkerId, checkpoint, feedback, no_preempt,
    wait,
};
use rustix::process::{getpriority_process, setpriority_process};

use crate::common::{Client, OfLines, PATIENCE, policies_of_workers, start_by_prefix, until};

/// Enough connections for every worker to have some.
const CLIENTS: usize = 64;
/// Longer than until every worker has read what all have measured.
const MEASURED: Duration = Duration::from_millis(30);

/// A request is long whose thread blocks for this time.
const LONG: Duration = Duration::from_millis(1);

fn distributed(workers: usize) -> Config {
    let config = Config::default().workers(workers);
    config.topology(Topology::Distributed)
}

fn clients(server: &SpawnedServer) -> Vec<Client> {
    (0..CLIENTS).map(|_| server.connect()).collect()
}

/// Has all workers measure that requests of the type `short` are.
fn measure_short(server: &SpawnedServer, clients: &mut [Client]) {
    until("short requests are short on average", || {
        for client in &mut *clients {
            assert_eq!(client.ask("short"), "short");
        }
        let short = &server.handle().snapshot().types[0];
        short.service_ns_total < short.completions * 20_000
    });
    block(MEASURED);
    for client in clients {
        assert_eq!(client.ask("short"), "short");
    }
}

/// How the calling thread stands: its scheduling class and its nice value.
fn standing() -> String {
    no_preempt(|| {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
        // The first is empty, the second is field 3 of proc_pid_stat(5).
        format!("class {} nice {}", fields[41 - 2], fields[19 - 2])
    })
}

/// Whether a thread may lower its nice value again.
fn can_be_raised() -> bool {
    let attempt = || {
        let own = getpriority_process(None)?;
        setpriority_process(None, own + 1)?;
        setpriority_process(None, own)
    };
    std::thread::spawn(attempt).join().unwrap().is_ok()
}

/// On as many workers as there are cores, none of which has one to itself for sure.
#[test]
fn a_worker_steps_back_for_long_requests_alone() {
    if !can_be_raised() {
        return psp_skip::skip("no right to raise a priority again (CAP_SYS_NICE)");
    }
    let own = std::thread::spawn(standing).join().unwrap();
    let workers = available_parallelism().map_or(2, NonZero::get);
    for policy in policies_of_workers() {
        // Elsewhere requests gather at some workers.
        let expected_workers = if policy == Policy::d_fcfs() { workers } else { 1 };
        let handle = |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            if request.request_type == RequestType::new(1) {
                block(LONG);
            }
            let WorkerId(worker) = request.worker;
            no_preempt(|| reply.put(format!("{worker} {}\n", standing()).as_bytes()));
        };
        let config = distributed(workers).background_nice(19);
        let server = start_by_prefix(policy, config, Box::new(handle));
        let mut clients = clients(&server);
        let mut ask = |request: &str, expected: &dyn Fn(&str) -> bool| {
            let mut found = HashSet::new();
            let mut turns = (0..CLIENTS).cycle();
            // A long request may take long where others want the cores.
            until("workers stand as they should", || {
                let reply = clients[turns.next().unwrap()].ask(request);
                let (worker, standing) = reply.split_once(' ').unwrap();
                if expected(standing) {
                    found.insert(worker.to_owned());
                }
                found.len() >= expected_workers
            });
        };
        // No worker steps back for the first request, as nothing was measured.
        let is_back = |standing: &str| standing.ends_with(" nice 19");
        ask("long", &is_back);
        ask("short", &|standing| standing == own);
        ask("long", &is_back);
        ask("short", &|standing| standing == own);
    }
}

/// Where a request runs until the test lets it go.
#[derive(Default)]
struct Hold {
    runs: AtomicBool,
    is_over: AtomicBool,
}

impl Hold {
    /// Runs `step` again and again.
    fn run(&self, mut step: impl FnMut()) {
        self.runs.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + PATIENCE;
        while !self.is_over.load(Ordering::SeqCst) && Instant::now() < deadline {
            step();
        }
    }
}

fn nap() {
    block(Duration::from_micros(20));
}

/// A request of the type `short` that is none holds up no other connection, whatever its worker learns that by.
#[test]
fn a_request_that_turns_out_to_be_long_holds_up_no_other_connection() {
    let hows = ["passes checkpoints", "says so", "says so early", "says so and waits"];
    let policies = policies_of_workers().into_iter();
    for (policy, how) in policies.flat_map(|policy| hows.map(|how| (policy.clone(), how))) {
        let (hold, permits) = (Arc::new(Hold::default()), Arc::new(Semaphore::new(1)));
        let at = (hold.clone(), permits.clone());
        let handle = move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            let (hold, permits) = &at;
            match request.payload.trim_ascii_end() {
                b"short passes checkpoints" => hold.run(|| {
                    checkpoint();
                    nap();
                }),
                b"short says so" => {
                    feedback::long();
                    feedback::long();
                    hold.run(nap);
                }
                b"short says so early" => {
                    no_preempt(feedback::long);
                    checkpoint();
                    hold.run(nap);
                }
                b"short says so and waits" => {
                    feedback::long();
                    wait(yield_now());
                    wait(permits.acquire()).forget();
                    hold.run(nap);
                }
                _ => {}
            }
            reply.put(request.payload);
        };
        let config = distributed(2);
        let server = start_by_prefix(policy.clone(), config, Box::new(handle));
        let mut clients = clients(&server);
        measure_short(&server, &mut clients);
        let (long, others) = clients.split_first_mut().unwrap();
        let request = format!("short {how}");
        long.send(&format!("{request}\n"));
        until("it runs", || hold.runs.load(Ordering::SeqCst));
        for _ in 0..3 {
            for client in &mut *others {
                assert_eq!(client.ask("short"), "short", "{policy} beside one that {how}");
            }
        }
        let completed = server.handle().snapshot().types[0].completions;
        hold.is_over.store(true, Ordering::SeqCst);
        assert_eq!(long.line(), request);
        assert_eq!(long.ask("short"), "short");
        until("it was the last but one", || {
            server.handle().snapshot().types[0].completions == completed + 2
        });
    }
}

/// The worker that drives the port of another runs a request of the type `short` that is none and does not say so. The
/// other one cannot have its port back, and answers what has been read.
#[test]
fn an_owner_whose_port_is_held_up_runs_what_waits() {
    let holds = Arc::new([(); 3].map(|()| Hold::default()));
    let at = holds.clone();
    let handle = move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
        match request.payload.trim_ascii_end() {
            b"long" => at[0].run(nap),
            b"short first" => at[1].run(nap),
            b"short second" => at[2].run(nap),
            _ => {}
        }
        reply.put(request.payload);
    };
    let server = start_by_prefix(Policy::stealing(), distributed(2), Box::new(handle));
    let mut clients = clients(&server);
    measure_short(&server, &mut clients);
    // So that their mean stays short.
    for client in &mut clients {
        client.send(&"short\n".repeat(100));
    }
    for client in &mut clients {
        (0..100).for_each(|_| assert_eq!(client.line(), "short"));
    }
    let mut holders: Vec<(&Hold, Client)> =
        { holds.iter() }.map(|hold| (hold, clients.pop().expect("a client"))).collect();
    let [(long, long_client), (first, first_client), (second, second_client)] = &mut holders[..] else {
        unreachable!("three holds");
    };
    let runs = |hold: &Hold| until("it runs", || hold.runs.load(Ordering::SeqCst));
    let end = |hold: &Hold| hold.is_over.store(true, Ordering::SeqCst);
    long_client.send("long\n");
    runs(long);
    first_client.send("short first\n");
    runs(first);
    second_client.send("short second\n");
    for client in &mut clients {
        client.send("short\n");
    }
    end(first);
    runs(second);
    end(long);
    assert_eq!(long_client.line(), "long");
    for client in &mut clients {
        assert_eq!(client.line(), "short");
    }
    end(second);
    assert_eq!(first_client.line(), "short first");
    assert_eq!(second_client.line(), "short second");
    for client in &mut clients {
        assert_eq!(client.ask("short"), "short");
    }
}

/// Nothing is known to come of it there.
#[test]
fn a_handler_may_say_that_its_request_is_long_in_every_topology() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let handle = |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            feedback::long();
            checkpoint();
            reply.put(request.payload);
        };
        let config = Config::default().workers(2).topology(topology);
        let server = start_by_prefix(Policy::darc(), config, Box::new(handle));
        for mut client in clients(&server) {
            assert_eq!(client.ask("short"), "short");
        }
    }
    feedback::long();
}
