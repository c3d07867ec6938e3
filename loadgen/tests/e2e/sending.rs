//! Requests and their times: runs against scripted servers.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use psp_loadgen::report::{Mode, Report};
use psp_loadgen::schedule::{
    ClosedLoop, LiveWorkload, OfferedLoad, Pacing, RequestPlan, RunPlan, ServicePlan, ThreadClass, Trace, TraceFormat,
    TracePace, TraceTypes, TypePlan,
};
use psp_loadgen::wire::Protocol;
use psp_protocols::psp_header::Kind;
use psp_sim::keys::{KeyDistribution, KeyFormat, Keyspace, Sizes};
use psp_sim::workload::Distribution;

use crate::runs::{assert_every_arrival_ends_once, command, plan, run, synthetic, target};
use crate::scripted::{Answer, psp_server, resp_server, watched_resp_server};

const OK: &[u8] = b"+OK\r\n";

fn closed(outstanding: usize, per_type: bool, think_ms: u64) -> Pacing {
    Pacing::Closed(ClosedLoop {
        outstanding,
        per_type,
        think: Duration::from_millis(think_ms),
    })
}

fn fast(text: &str, rate_rps: f64) -> TypePlan {
    command(text, rate_rps, ThreadClass::Fast)
}

#[test]
fn a_closed_loop_keeps_its_number_of_requests_outstanding() {
    const CLIENTS: usize = 4;
    // The server replies only after all requests have arrived.
    let all_are_here = Barrier::new(CLIENTS);
    let counters = Arc::new([const { AtomicU64::new(0) }; 3]);
    let inside = Arc::clone(&counters);
    let addr = resp_server(move |_| {
        let [seen, current, most] = &*inside;
        let outstanding = current.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(outstanding, Ordering::SeqCst);
        if seen.fetch_add(1, Ordering::SeqCst) < CLIENTS as u64 {
            all_are_here.wait();
        }
        current.fetch_sub(1, Ordering::SeqCst);
        Answer::Reply(OK)
    });
    let mut plan = plan(target("redis", addr), vec![fast("GET", 3.0), command("SET", 1.0, ThreadClass::Slow)]);
    plan.pacing = closed(CLIENTS, false, 0);
    let result = run(&plan);
    let [get, set] = &result.records[..] else {
        panic!("two records");
    };
    for record in [get, set] {
        assert_every_arrival_ends_once(record);
        assert_eq!(record.completed, record.scheduled);
        assert_eq!(record.queued, 0);
    }
    assert_eq!(counters[2].load(Ordering::SeqCst), CLIENTS as u64);
    let share = get.completed as f64 / (get.completed + set.completed) as f64;
    assert!((share / 0.75 - 1.0).abs() < 0.2, "{share}");
}

#[test]
fn a_closed_loop_hides_a_stall_and_says_that_it_is_closed() {
    const STALL: Duration = Duration::from_millis(400);
    let requests = AtomicU64::new(0);
    let stalled = Mutex::new(());
    let addr = resp_server(move |_| {
        let _guard = stalled.lock().unwrap();
        if requests.fetch_add(1, Ordering::Relaxed) == 100 {
            thread::sleep(STALL);
        }
        Answer::Reply(OK)
    });
    let mut plan = plan(target("redis", addr), vec![fast("GET", 1.0)]);
    plan.pacing = closed(3, true, 1);
    let result = run(&plan);
    let record = &result.records[0];
    assert_every_arrival_ends_once(record);
    // An open loop would count every request that was due meanwhile.
    let slow = record.latency_ns.count_between(STALL.as_nanos() as u64 / 2, u64::MAX >> 1);
    assert!((1..=3).contains(&slow), "{slow} of {}", record.completed);

    let report = Report::new(&plan, &result);
    assert_eq!((report.mode, report.overall.rate_kept), (Mode::Closed, None));
    assert_eq!(report.closed_loop.as_ref().unwrap().outstanding, 3);
    assert!(report.warnings[0].starts_with("closed loop:"));
    let text = report.to_string();
    assert!(text.starts_with("mode: closed. 3 requests"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["mode"], "closed");
}

#[test]
fn clients_think_and_those_of_a_type_are_its_own() {
    let addr = resp_server(|_| Answer::Reply(OK));
    let mut plan = plan(target("redis", addr), vec![fast("GET", 1.0), command("SET", 1.0, ThreadClass::Slow)]);
    plan.pacing = closed(2, true, 50);
    let result = run(&plan);
    for record in &result.records {
        assert_every_arrival_ends_once(record);
        // 500 ms in steps of at least 50 for each of two clients.
        assert!((2..=20).contains(&record.completed), "{}", record.completed);
    }
}

#[test]
fn clients_go_on_after_timeouts() {
    let addr = resp_server(|_| Answer::Silence);
    let mut plan = plan(target("redis", addr), vec![fast("GET", 1.0)]);
    plan.pacing = closed(2, false, 0);
    plan.duration = Duration::from_secs(1);
    plan.timeout = Duration::from_millis(100);
    let record = &run(&plan).records[0];
    assert_every_arrival_ends_once(record);
    assert_eq!(record.timeouts, record.scheduled);
    assert!(record.scheduled > 2, "{}", record.scheduled);
}

#[test]
fn each_of_many_clients_has_a_datagram_in_flight() {
    const CLIENTS: usize = 3_000;
    let addr = psp_server(|_| None);
    let mut plan = plan(target("psp", addr), vec![synthetic("a", 0, 1_000)]);
    plan.pacing = closed(CLIENTS, false, 0);
    plan.duration = Duration::from_secs(1);
    plan.timeout = Duration::from_millis(1_100);
    let record = &run(&plan).records[0];
    assert_every_arrival_ends_once(record);
    assert_eq!((record.timeouts, record.dropped), (CLIENTS as u64, 0));
}

#[test]
fn recorded_arrivals_are_sent_as_they_were() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // Of 400 lines, one in four is a SET and 100 have no type.
    let lines = (0..400).map(|line| {
        let name = ["GET", "SET", "GET", ""][line % 4];
        format!("{:.4} {name}\n", 1e9 + line as f64 * 0.002)
    });
    std::fs::write(file.path(), lines.collect::<String>()).unwrap();
    let addr = resp_server(|_| Answer::Reply(OK));
    let types = vec![fast("GET", 1.0), command("SET", 0.0, ThreadClass::Slow)];
    let named = types.iter().map(|ty| (ty.name.clone(), ty.rate_rps));
    let named = TraceTypes::Named(named.collect());
    let pace = TracePace::Recorded { speed: 2.0 };
    let trace = Trace::open(file.path(), TraceFormat::Own, pace, named).unwrap();
    let mut plan = plan(target("redis", addr), types);
    plan.duration = Duration::from_nanos(trace.length_ns().unwrap() + 1);
    plan.pacing = Pacing::Trace(trace);
    let result = run(&plan);
    let counts: Vec<_> = result.records.iter().map(|it| it.completed).collect();
    assert_eq!(counts, [300, 100]);
    let report = Report::new(&plan, &result);
    assert_eq!(report.mode, Mode::Open);
    assert!((report.duration_s / 0.399 - 1.0).abs() < 1e-3);
    assert!((report.overall.offered_rps / (400.0 / 0.399) - 1.0).abs() < 1e-3);
    assert_eq!(report.trace.unwrap().speed, Some(2.0));
}

#[test]
fn phases_change_rates_of_commands() {
    let live = workload_file(
        "rate_rps = 400
        arrivals = 'uniform'
        [[type]]
        name = 'GET'
        share = 1
        command = 'GET {key}'
        [[phase]]
        duration_ms = 250
        [[phase]]
        load = 3",
    );
    let addr = resp_server(|_| Answer::Reply(OK));
    let offered = OfferedLoad::Rate(live.rate_rps().unwrap());
    let types = live.type_plans(Protocol::Redis, offered, 1).unwrap();
    let mut plan = plan(target("redis", addr), types);
    plan.arrivals = live.arrivals();
    plan.warmup = Duration::from_millis(100);
    let result = run(&plan);
    let record = &result.records[0];
    assert_every_arrival_ends_once(record);
    // A quarter of a second at 400 and one at 1200.
    assert!((399..=401).contains(&record.scheduled), "{}", record.scheduled);
    let offered_rps = Report::new(&plan, &result).overall.offered_rps;
    assert!((offered_rps - 800.0).abs() < 1e-6, "{offered_rps}");
}

fn workload_file(text: &str) -> LiveWorkload {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    LiveWorkload::named_or_file(file.path().to_str().unwrap()).unwrap()
}

#[test]
fn keys_and_values_are_as_told() {
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let counted = Arc::clone(&seen);
    let addr = resp_server(move |frame| {
        let text = String::from_utf8_lossy(frame).into_owned();
        let words: Vec<&str> = text.split("\r\n").collect();
        let (key, value) = (words[4].to_owned(), words[6].len());
        assert!((20..=30).contains(&value), "{value}");
        *counted.lock().unwrap().entry(key).or_insert(0) += 1;
        Answer::Reply(OK)
    });
    let mut plan = plan(target("redis", addr), vec![fast("SET", 400.0)]);
    let format = KeyFormat { prefix: "user".to_owned(), sizes: Sizes::fixed(7) };
    let values = "20-30".parse().unwrap();
    plan.keyspace = Keyspace::with(50, format, KeyDistribution::Sequential, values).unwrap();
    assert_eq!(run(&plan).records[0].completed, 200);
    let expected = (0..50).map(|key| (format!("user{key:03}"), 4)).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}

fn exponential(mean_ns: u32) -> TypePlan {
    let service = ServicePlan { mean_ns, distribution: Distribution::Exponential, wait_ns: 0 };
    TypePlan {
        request: RequestPlan::Synthetic { request_type: 0, service },
        rate_rps: 1_600.0,
        ..synthetic("exponential", 0, mean_ns)
    }
}

#[test]
fn service_times_are_drawn_for_each_request_by_the_seed() {
    let asked = || {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let inside = Arc::clone(&asked);
        let addr = psp_server(move |header| {
            inside.lock().unwrap().push(header.run_time_ns);
            Some(Kind::Reply)
        });
        let plan = plan(target("psp", addr), vec![exponential(10_000)]);
        let result = run(&plan);
        let record = &result.records[0];
        assert_every_arrival_ends_once(record);
        assert_eq!(record.slowdown.len(), record.completed);
        let mut asked = asked.lock().unwrap().clone();
        asked.sort_unstable();
        // The shortest request was no faster than the fastest, and is divided by its own time.
        let slowdown = Report::new(&plan, &result).types[0].summary.slowdown;
        let at_least = record.latency_ns.min() as f64 / f64::from(asked[0]);
        assert!(slowdown.unwrap().max >= at_least * 0.99, "{at_least}");
        asked
    };
    let first = asked();
    assert_eq!(first.len(), 800);
    let mean = first.iter().map(|it| f64::from(*it)).sum::<f64>() / 800.0;
    assert!((mean / 1e4 - 1.0).abs() < 0.15, "{mean}");
    let median = f64::from(first[400]);
    assert!((median / 6_931.0 - 1.0).abs() < 0.2, "{median}");
    assert_eq!(asked(), first);
}

#[test]
fn connections_are_opened_evenly_over_the_ramp() {
    let opened = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&opened);
    let on_connect = move || inside.lock().unwrap().push(Instant::now());
    let addr = watched_resp_server(|_| Answer::Reply(OK), on_connect);
    let mut plan = plan(target("redis", addr), vec![fast("GET", 200.0)]);
    plan.ramp = Duration::from_millis(400);
    let result = run(&plan);
    let record = &result.records[0];
    assert_eq!((record.completed, record.reconnects), (100, 0));
    let opened = opened.lock().unwrap();
    assert_eq!(opened.len(), 4);
    for (index, at) in (0..).zip(&*opened) {
        let since_first = at.duration_since(opened[0]);
        // The first connection opens before the run starts.
        assert!(since_first >= Duration::from_millis(90) * index, "{since_first:?}");
    }
    let warnings = Report::new(&plan, &result).warnings;
    let reaches = |warning: &String| warning.contains("reaches into the measured part");
    assert!(warnings.iter().any(reaches), "{warnings:?}");
}

#[test]
fn a_server_that_hangs_up_is_left_in_peace_for_longer_and_longer() {
    let connects = Arc::new(AtomicU64::new(0));
    let inside = Arc::clone(&connects);
    let on_connect = move || {
        inside.fetch_add(1, Ordering::Relaxed);
    };
    let addr = watched_resp_server(|_| Answer::Close, on_connect);
    let mut plan = plan(target("redis", addr), vec![fast("GET", 400.0)]);
    plan.timeout = Duration::from_millis(600);
    let result = run(&plan);
    let record = &result.records[0];
    assert_every_arrival_ends_once(record);
    assert_eq!((record.scheduled, record.completed), (200, 0));
    assert!(record.timeouts > 0, "some found no connection");
    let kinds: Vec<_> = record.errors.iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["CONNECTION"]);
    // Pauses of 100, 200, 400 ms and so on, in a run of little more than a second.
    let connects = connects.load(Ordering::Relaxed);
    assert!((5..=32).contains(&connects), "{connects}");
    assert!(record.reconnects > 0 && record.reconnects <= connects);
    assert!(record.held_back > 0, "the generator kept them waiting");
    let text = Report::new(&plan, &result).to_string();
    assert!(text.contains("connections opened again"), "{text}");
    assert!(text.contains("let connections rest"), "{text}");
}

fn rate_kept(plan: &RunPlan) -> (bool, Vec<String>) {
    let report = Report::new(plan, &run(plan));
    let summary = &report.types[0].summary;
    assert_eq!(report.overall.rate_kept, summary.rate_kept);
    (summary.rate_kept.unwrap(), report.warnings)
}

#[test]
fn an_offered_rate_that_was_not_kept_is_said_so() {
    let not_kept = "the offered rate was not kept";
    let is_said = |warnings: &[String]| warnings.iter().any(|it| it.contains(not_kept));
    // Ten per second.
    let addr = resp_server(|_| Answer::Reply(OK));
    let slow = plan(target("redis", addr), vec![fast("GET", 10.0)]);
    let (kept, warnings) = rate_kept(&slow);
    assert!(kept && !is_said(&warnings), "{warnings:?}");
    // Four connections of 20 requests per second each.
    let addr = resp_server(|_| {
        thread::sleep(Duration::from_millis(50));
        Answer::Reply(OK)
    });
    let waiting = plan(target("redis", addr), vec![fast("GET", 200.0)]);
    let (kept, warnings) = rate_kept(&waiting);
    assert!(!kept && is_said(&warnings), "{warnings:?}");
    // More than any machine can send.
    let addr = psp_server(|_| Some(Kind::Reply));
    let mut much = synthetic("much", 0, 1_000);
    much.rate_rps = 1e8;
    let mut beyond = plan(target("psp", addr), vec![much]);
    beyond.duration = Duration::from_millis(10);
    beyond.outstanding_max = 1_000;
    beyond.timeout = Duration::from_secs(1);
    let (kept, warnings) = rate_kept(&beyond);
    assert!(!kept && is_said(&warnings), "{warnings:?}");
}

#[test]
fn the_program_runs_a_workload_file() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let text = "[[type]]\nname='PING'\nrate_rps=100\ncommand='PING'\n[[phase]]\nload=2";
    std::fs::write(file.path(), text).unwrap();
    let addr = resp_server(|_| Answer::Reply(OK));
    let program = |pacing: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_psp-loadgen"))
            .args(["run", "--target", &format!("redis://{addr}"), "--workload"])
            .arg(file.path())
            .args(["--warmup", "0", "--duration", "0.5", "--output", "json"])
            .args(pacing)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        serde_json::from_slice::<Report>(&output.stdout).unwrap()
    };
    let open = program(&["--arrivals", "uniform"]);
    assert_eq!(open.types[0].name, "PING");
    assert_eq!(open.overall.completed, 100);
    assert!((open.overall.offered_rps - 200.0).abs() < 1e-9);
}
