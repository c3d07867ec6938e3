//! Servers that are asked for more than they can do, and refuse the rest: admission, by the SLOs of types.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Client, OfLines, Spawned, UdpClient, classifier, handler, lines};
use psp_server::protocols::Sink as _;
use psp_server::{AdmissionMode, Config, Policy, RequestType, SpawnedServer, Topology, TypeSpec};

/// Workers of each server.
const WORKERS: usize = 2;
/// What a request of each type takes: `short` and `long`.
const SERVICE_MS: [u64; 2] = [2, 20];
/// What its answer may take.
const SLO_MS: [u64; 2] = [60, 400];

/// The lines that were executed.
type Executed = Arc<Mutex<Vec<String>>>;

fn type_of(line: &[u8]) -> usize {
    usize::from(line.starts_with(b"long"))
}

/// A server whose requests sleep for as long as their type takes.
fn start(policy: Policy, topology: Topology, admission: AdmissionMode) -> (SpawnedServer, Executed) {
    let executed = Executed::default();
    let log = executed.clone();
    let types = ["short", "long"].into_iter().enumerate().map(|(at, name)| {
        let [service, slo] = [SERVICE_MS[at], SLO_MS[at]].map(Duration::from_millis);
        TypeSpec::new(name).service_time(service).slo(slo)
    });
    let server = lines()
        .udp("127.0.0.1:0")
        .types(types)
        .classifier(classifier(|line| RequestType::new(type_of(line) as u32)))
        .handler(handler(move |request, reply| {
            let line = String::from_utf8_lossy(request.payload).trim_end().to_owned();
            thread::sleep(Duration::from_millis(SERVICE_MS[type_of(line.as_bytes())]));
            reply.put(format!("ok {line}\n").as_bytes());
            log.lock().unwrap().push(line);
        }))
        .policy(policy)
        .config(Config::default().workers(WORKERS).topology(topology).admission(admission))
        .spawned();
    (server, executed)
}

/// Servers in each topology.
fn shapes() -> [(Policy, Topology); 5] {
    [
        (Policy::darc(), Topology::Inline),
        (Policy::c_fcfs(), Topology::Dedicated),
        (Policy::darc(), Topology::Dedicated),
        (Policy::d_fcfs(), Topology::Distributed),
        (Policy::stealing(), Topology::Distributed),
    ]
}

#[test]
fn pipelined_requests_are_answered_in_order_and_those_refused_are_never_run() {
    const CLIENTS: usize = 20;
    const EACH: usize = 40;
    for (policy, topology) in shapes() {
        let (server, executed) = start(policy, topology, AdmissionMode::On);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let pipeline: String = (0..EACH).map(|at| format!("long {number}.{at}\n")).collect();
            client.send(&pipeline);
        }
        let (mut answered, mut refused) = (HashSet::new(), 0);
        for (number, client) in clients.iter_mut().enumerate() {
            for at in 0..EACH {
                let (line, reply) = (format!("long {number}.{at}"), client.line());
                match reply == format!("ok {line}") {
                    true => assert!(answered.insert(line)),
                    false => {
                        assert!(reply == format!("!overloaded long {line}") || reply == format!("!expired {line}"));
                        refused += 1;
                    }
                }
            }
            // The connection goes on, and so do those of others.
            assert_eq!(client.ask("short").split(' ').next_back(), Some("short"));
        }
        let executed: HashSet<String> = executed.lock().unwrap().iter().cloned().collect();
        let long: HashSet<String> = executed.into_iter().filter(|line| line.starts_with("long")).collect();
        assert_eq!(long, answered);
        if topology != Topology::Distributed {
            assert!(refused > 0, "{CLIENTS} clients ask for more than {WORKERS} workers can do");
        }
        let long = server.handle().snapshot().types[1].clone();
        assert_eq!((long.rejections + long.expired, long.completions), (refused, answered.len() as u64));
        server.stop();
    }
}

/// What came of a load of three times what the workers can do, by type.
#[derive(Debug, Default)]
struct Outcome {
    sent: [u64; 2],
    in_time: [u64; 2],
}

impl Outcome {
    /// Service of the answers in time.
    fn good_ms(&self) -> u64 {
        self.in_time.iter().zip(SERVICE_MS).map(|(count, ms)| count * ms).sum()
    }
}

/// Sends requests of both types for a while, half of the work each.
fn overload(server: &SpawnedServer) -> Outcome {
    const FOR: Duration = Duration::from_secs(3);
    let udp = *server.local_addrs().last().unwrap();
    let clients = [0, 1].map(|_| UdpClient::new(udp));
    let mut outcome = Outcome::default();
    let began = Instant::now();
    let mut sent_at: [Vec<Instant>; 2] = Default::default();
    while began.elapsed() < FOR {
        for (ty, name) in ["short", "long"].into_iter().enumerate() {
            let work_ms = began.elapsed().as_millis() as u64 * 3 * WORKERS as u64 / 2;
            while (sent_at[ty].len() as u64) < work_ms / SERVICE_MS[ty] {
                clients[ty].send(&format!("{name} {}", sent_at[ty].len()));
                sent_at[ty].push(Instant::now());
            }
            while clients[ty].has_line() {
                let line = clients[ty].line();
                let number: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
                let took = sent_at[ty][number].elapsed();
                outcome.in_time[ty] += u64::from(took.as_millis() as u64 <= SLO_MS[ty]);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    outcome.sent = [0, 1].map(|ty| sent_at[ty].len() as u64);
    outcome
}

#[test]
fn under_overload_more_is_answered_in_time_than_without_admission() {
    for (policy, topology) in [(Policy::darc(), Topology::Inline), (Policy::c_fcfs(), Topology::Dedicated)] {
        let [without, with] = [AdmissionMode::Off, AdmissionMode::Auto].map(|mode| {
            let (server, _) = start(policy.clone(), topology, mode);
            let outcome = overload(&server);
            server.stop();
            outcome
        });
        eprintln!("{} {topology}: {without:?} {with:?}", policy.name());
        assert!(with.good_ms() > 2 * without.good_ms(), "{without:?} {with:?}");
        let short = |outcome: &Outcome| outcome.in_time[0] as f64 / outcome.sent[0] as f64;
        assert!(short(&with) > 0.15, "a fair part is a third: {with:?}");
    }
}
