//! Servers that are asked for more than they can do, and refuse the rest: admission, by the SLOs of types.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{AnyHandler, Client, Gate, OfLines, Spawned, UdpClient, classifier, handler, lines, until};
use psp_server::policy::RequestId;
use psp_server::policy::admission::{Admit, Arrival, Reason, Refusal, Ticket, Turn, Verdict};
use psp_server::protocols::Sink as _;
use psp_server::{
    AdmissionMode, Classifier, Config, Policy, RequestType, SpawnedServer, Topology, TypeSpec, TypeTable, load_level,
};

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
    /// Service of the answers in time, as a part of what was asked for: a third at most.
    fn good(&self) -> f64 {
        let ms = |counts: &[u64; 2]| counts.iter().zip(SERVICE_MS).map(|(count, ms)| count * ms).sum::<u64>() as f64;
        ms(&self.in_time) / ms(&self.sent)
    }
}

/// Sends requests of both types for a while, half of the work each.
fn overload(server: &SpawnedServer) -> Outcome {
    const FOR: Duration = Duration::from_secs(2);
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
    for (policy, topology) in [
        (Policy::darc(), Topology::Inline),
        (Policy::darc(), Topology::Dedicated),
        (Policy::c_fcfs(), Topology::Dedicated),
    ] {
        let [without, with] = [AdmissionMode::Off, AdmissionMode::Auto].map(|mode| {
            let (server, _) = start(policy.clone(), topology, mode);
            let outcome = overload(&server);
            server.stop();
            outcome
        });
        assert!(with.good() > 2.0 * without.good(), "{} {topology}: {without:?} {with:?}", policy.name());
        let short = |outcome: &Outcome| outcome.in_time[0] as f64 / outcome.sent[0] as f64;
        assert!(short(&with) > 0.15, "a fair part is a third: {with:?}");
    }
}

/// Lets so many requests wait, and has the newest go first.
struct NewestFirst {
    waiting_max: usize,
    /// By ticket: the name of each, until it begins.
    waiting: Vec<Option<RequestId>>,
}

impl Admit for NewestFirst {
    fn arrive(&mut self, _now_ns: u64, arrival: &Arrival) -> Verdict {
        if self.waiting.iter().flatten().count() == self.waiting_max {
            return Verdict::Refuse(Refusal { reason: Reason::OverTarget, retry_after_ns: 1 });
        }
        self.waiting.push(Some(arrival.request));
        Verdict::Admit(Ticket(self.waiting.len() as u32 - 1))
    }

    fn begin(&mut self, _now_ns: u64, ticket: Ticket) -> Turn {
        let first = ticket.0 as usize;
        let newest = self.waiting.iter().rposition(Option::is_some).unwrap();
        let (name, instead) = (self.waiting[first], self.waiting[newest].take());
        if first == newest {
            return Turn::RUN;
        }
        // The first one waits under the name of the newest, which has the name of the first.
        self.waiting[first] = instead;
        assert!(name.is_some());
        Turn::new(true, instead)
    }

    fn end(&mut self, _now_ns: u64, _ticket: Ticket, _served_ns: u64, _done: u32) {}

    fn cancel(&mut self, _now_ns: u64, ticket: Ticket) {
        self.waiting[ticket.0 as usize] = None;
    }
}

/// Answers each line when the gate is open, and notes the order.
fn answering(gate: &Arc<Gate>, executed: &Executed) -> AnyHandler {
    let (gate, executed) = (gate.clone(), executed.clone());
    handler(move |request, reply| {
        gate.wait();
        let line = String::from_utf8_lossy(request.payload).trim_end().to_owned();
        reply.put(format!("ok {line}\n").as_bytes());
        executed.lock().unwrap().push(line);
    })
}

#[test]
fn an_admission_of_ones_own_decides_who_is_let_in_and_who_goes_first() {
    let gate = Arc::new(Gate::default());
    let executed = Executed::default();
    let server = lines()
        .admission(|workers, types| {
            assert_eq!((workers, types.len()), (1, 1));
            NewestFirst { waiting_max: 4, waiting: Vec::new() }
        })
        .handler(answering(&gate, &executed))
        .policy(Policy::c_fcfs())
        .config(Config::default().workers(1).topology(Topology::Dedicated))
        .spawned();
    let mut clients = Vec::new();
    for number in 0..7 {
        let mut client = server.connect();
        client.send(&format!("{number}\n"));
        until("it has arrived", || server.handle().snapshot().types[0].arrivals == number + 1);
        until("the first one runs", || gate.waiting.load(Ordering::SeqCst) == 1);
        clients.push(client);
    }
    let mut refused = clients.split_off(5);
    assert_eq!([refused[0].line(), refused[1].line()], ["!overloaded request 5", "!overloaded request 6"]);
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.line(), format!("ok {number}"));
    }
    assert_eq!(*executed.lock().unwrap(), ["0", "4", "3", "2", "1"]);
    let refused = server.handle().snapshot().types[0].admission.refused.clone();
    // This one has no status of its own.
    assert!(refused.iter().all(|refused| refused.requests == 0));
    server.stop();
}

/// Lines that begin with `urgent` are more urgent than others.
struct ByUrgency;

impl Classifier for ByUrgency {
    fn classify(&self, _request: &[u8], _head: &()) -> RequestType {
        RequestType::new(0)
    }

    fn priority(&self, request: &[u8], _head: &()) -> u8 {
        if request.starts_with(b"urgent") { 0 } else { 5 }
    }

    fn types(&self) -> TypeTable {
        let [service, slo] = [10, 60].map(Duration::from_secs);
        TypeTable::from_iter([TypeSpec::new("any").service_time(service).slo(slo)])
    }
}

#[test]
fn the_urgent_requests_of_a_type_are_let_in_and_go_first() {
    let gate = Arc::new(Gate::default());
    let executed = Executed::default();
    let server = lines()
        .classifier(ByUrgency)
        .handler(answering(&gate, &executed))
        .policy(Policy::c_fcfs())
        .config(Config::default().workers(1).topology(Topology::Dedicated))
        .spawned();
    let figures = || server.handle().snapshot().types[0].clone();
    let mut clients = Vec::new();
    let mut send = |line: String| {
        let mut client = server.connect();
        let before = figures().arrivals;
        client.send(&format!("{line}\n"));
        until("it has arrived", || figures().arrivals > before);
        until("the first one runs", || gate.waiting.load(Ordering::SeqCst) == 1);
        clients.push((client, line));
    };
    let low = (0..100).take_while(|number| {
        send(format!("low {number}"));
        figures().rejections == 0
    });
    let let_in = low.count();
    assert!((2..100).contains(&let_in), "{let_in}");
    send("urgent".to_owned());
    assert_eq!(figures().rejections, 1, "of low priority");
    gate.open();
    for (mut client, line) in clients {
        let refused = line == format!("low {let_in}");
        let expected = if refused {
            format!("!overloaded any {line}")
        } else {
            format!("ok {line}")
        };
        assert_eq!(client.line(), expected);
    }
    let mut order: Vec<String> = (0..let_in).map(|number| format!("low {number}")).collect();
    order.insert(1, "urgent".to_owned());
    assert_eq!(*executed.lock().unwrap(), order);
    server.stop();
}

#[test]
fn handlers_know_the_load_and_figures_tell_of_slos_that_cannot_be_held() {
    let service = Duration::from_millis(100);
    let server = lines()
        .types([TypeSpec::new("any").service_time(service).slo(service)])
        .handler(handler(|_request, reply| {
            thread::sleep(Duration::from_millis(1));
            reply.put(format!("{}\n", load_level() > 0.0).as_bytes());
        }))
        .policy(Policy::c_fcfs())
        .config(Config::default().workers(1).topology(Topology::Dedicated))
        .spawned();
    assert!(load_level() == 0.0, "no request runs on this thread");
    let is_infeasible = || server.handle().snapshot().types[0].admission.slo_infeasible;
    assert!(is_infeasible(), "one request takes longer than the SLO");
    let mut client = server.connect();
    until("there is load", || client.ask("a") == "true");
    until("the SLO is two service times, as these are measured", || {
        client.ask("a") == "true" && !is_infeasible()
    });
    server.stop();

    let (server, _) = start(Policy::c_fcfs(), Topology::Dedicated, AdmissionMode::On);
    assert!(server.handle().snapshot().types.iter().all(|ty| !ty.admission.slo_infeasible));
    server.stop();
}
