//! Whole runs against scripted servers.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use psp_loadgen::clients;
use psp_loadgen::clients::{Collection, CollectionKind, PreloadPlan, preload};
use psp_loadgen::report::Report;
use psp_loadgen::schedule::{ClosedLoop, Pacing, RunPlan, ThreadClass};
use psp_loadgen::wire::Endpoint;
use psp_protocols::psp_header::Kind;
use psp_sim::keys::Keyspace;

use crate::runs::{assert_every_arrival_ends_once, command, plan, run, synthetic, target};
use crate::scripted::{Answer, psp_server, resp_server};

const OK: &[u8] = b"+OK\r\n";

/// A closed loop would see one slow request for each connection. An open loop also counts the
/// requests that should have been sent during the stall.
#[test]
fn a_stall_is_seen_by_every_request_that_should_have_been_sent_meanwhile() {
    const RATE_RPS: f64 = 2_000.0;
    const STALL: Duration = Duration::from_millis(500);
    let requests = AtomicU64::new(0);
    let stalled = std::sync::Mutex::new(());
    let addr = resp_server(move |_| {
        let _guard = stalled.lock().unwrap();
        if requests.fetch_add(1, Ordering::Relaxed) == 500 {
            thread::sleep(STALL);
        }
        Answer::Reply(OK)
    });
    let mut plan = plan(target("redis", addr), vec![command("GET", RATE_RPS, ThreadClass::Fast)]);
    plan.duration = Duration::from_secs(2);
    let record = &run(&plan).records[0];
    assert_every_arrival_ends_once(record);
    assert_eq!(record.scheduled, 4_000);
    assert_eq!(record.completed, 4_000);
    assert!(record.queued > 0, "the stall outlasts all connections");
    let stall_ns = STALL.as_nanos() as f64;
    for part in [0.25, 0.5, 0.75] {
        // Arrivals are uniform, which gives the number of requests intended early enough in the
        // stall.
        let expected = RATE_RPS * STALL.as_secs_f64() * (1.0 - part);
        let slower_ns = (stall_ns * part) as u64;
        let count = record.latency_ns.count_between(slower_ns, u64::MAX >> 1);
        let ratio = count as f64 / expected;
        assert!((0.9..2.0).contains(&ratio), "{part}: {count} of {expected}");
    }
    let longest = record.latency_ns.max() as f64;
    assert!(longest >= stall_ns * 0.999, "{longest}");
    let median = record.latency_ns.value_at_quantile(0.5) as f64;
    assert!(median < stall_ns / 4.0, "{median}");
}

#[test]
fn a_silent_type_times_out_and_leaves_the_other_alone() {
    let addr = resp_server(|frame| {
        if frame.windows(4).any(|word| word == b"KEYS") {
            Answer::Silence
        } else {
            Answer::Reply(OK)
        }
    });
    let mut plan = plan(
        target("redis", addr),
        vec![command("GET", 500.0, ThreadClass::Fast), command("KEYS", 40.0, ThreadClass::Slow)],
    );
    plan.timeout = Duration::from_millis(400);
    let result = run(&plan);
    let [get, keys] = &result.records[..] else {
        panic!("two records");
    };
    assert_eq!((get.scheduled, get.completed), (250, 250));
    assert_eq!((keys.scheduled, keys.timeouts), (20, 20));
    assert!(keys.reconnects > 0);
    assert!(keys.sent < keys.scheduled, "some waited for a connection");
    let warnings = Report::new(&plan, &result).warnings;
    let flatters = |warning: &String| warning.starts_with("KEYS: 20 of 20 requests failed");
    assert!(warnings.iter().any(flatters), "{warnings:?}");
}

#[test]
fn more_than_may_be_outstanding_is_dropped() {
    let addr = resp_server(|_| Answer::Silence);
    let mut plan = plan(target("redis", addr), vec![command("GET", 200.0, ThreadClass::Fast)]);
    plan.outstanding_max = 10;
    plan.timeout = Duration::from_secs(1);
    let record = &run(&plan).records[0];
    assert_every_arrival_ends_once(record);
    assert_eq!(record.scheduled, 100);
    // The first four time out and their connections open again, perhaps in time for the others.
    assert!((4..=10).contains(&record.sent), "{}", record.sent);
    assert_eq!((record.timeouts, record.dropped), (10, 90));
}

#[test]
fn pipelining_allows_more_in_flight_on_a_connection() {
    let addr = resp_server(|_| Answer::Silence);
    let mut plan = plan(target("redis", addr), vec![command("GET", 200.0, ThreadClass::Fast)]);
    plan.pipeline = 5;
    plan.timeout = Duration::from_secs(1);
    let record = &run(&plan).records[0];
    assert_every_arrival_ends_once(record);
    assert!(record.sent >= 20, "{}", record.sent);
    assert_eq!(record.completed, 0);
}

#[test]
fn what_is_written_together_is_answered_or_lost_one_by_one() {
    let requests = AtomicU64::new(0);
    let addr = resp_server(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 100 {
        99 => Answer::Close,
        _ => Answer::Reply(b"+OK\r\n"),
    });
    let mut plan = plan(target("redis", addr), vec![command("GET", 1.0, ThreadClass::Fast)]);
    plan.types[0].connections = 2;
    plan.pipeline = 16;
    plan.pacing = Pacing::Closed(ClosedLoop { outstanding: 32, per_type: false, think: Duration::ZERO });
    let record = &run(&plan).records[0];
    assert_every_arrival_ends_once(record);
    assert!(record.reconnects > 0 && record.completed >= 99);
    let kinds: Vec<_> = record.errors.iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["CONNECTION"]);
    // A breaking connection loses only the requests in its pipeline.
    let lost = record.errors.total();
    assert!(lost <= 16 * (record.reconnects + 2), "{lost}");
}

#[test]
fn errors_are_counted_by_kind_and_have_no_latency() {
    let requests = AtomicU64::new(0);
    let addr = resp_server(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 4 {
        0 => Answer::Reply(b"-BUSY queue of GET is full\r\n"),
        1 => Answer::Reply(b"-ERR no\r\n"),
        _ => Answer::Reply(b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n"),
    });
    let plan = plan(target("redis", addr), vec![command("GET", 800.0, ThreadClass::Fast)]);
    let record = &run(&plan).records[0];
    assert_every_arrival_ends_once(record);
    assert_eq!((record.scheduled, record.completed), (400, 200));
    let mut errors: Vec<_> = record.errors.iter().collect();
    errors.sort_unstable();
    assert_eq!(errors, [("BUSY", 100), ("ERR", 100)]);
}

#[test]
fn closed_connections_are_opened_again() {
    let requests = AtomicU64::new(0);
    let addr = resp_server(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 20 {
        19 => Answer::Close,
        _ => Answer::Reply(OK),
    });
    let plan = plan(target("redis", addr), vec![command("GET", 400.0, ThreadClass::Fast)]);
    let record = &run(&plan).records[0];
    assert_every_arrival_ends_once(record);
    assert_eq!(record.errors.iter().collect::<Vec<_>>(), [("CONNECTION", 10)]);
    assert_eq!(record.completed, 190);
    assert!(record.reconnects > 0);
}

#[test]
fn warm_up_is_sent_but_not_measured() {
    let requests = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&requests);
    let addr = resp_server(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Answer::Reply(OK)
    });
    let mut plan = plan(target("redis", addr), vec![command("GET", 1_000.0, ThreadClass::Fast)]);
    plan.warmup = Duration::from_millis(300);
    let record = &run(&plan).records[0];
    assert_eq!((record.scheduled, record.completed), (500, 500));
    assert_eq!(requests.load(Ordering::Relaxed), 800);
}

#[test]
fn an_interrupted_run_accounts_for_what_is_outstanding() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = Arc::clone(&stop);
    let requests = AtomicU64::new(0);
    let addr = resp_server(move |_| {
        if requests.fetch_add(1, Ordering::Relaxed) == 2 {
            stopper.store(true, Ordering::Relaxed);
        }
        Answer::Silence
    });
    let mut plan = plan(target("redis", addr), vec![command("GET", 100.0, ThreadClass::Fast)]);
    plan.duration = Duration::from_secs(3_600);
    let result = clients::run(&plan, &stop, &mut ()).unwrap();
    let record = &result.records[0];
    assert_every_arrival_ends_once(record);
    assert!(record.unfinished >= 3);
    assert!(result.interrupted);
    assert!(result.measured < plan.duration);
}

/// A plan for a server that has several addresses, as the name of a host may have.
fn plan_for(addrs: Vec<SocketAddr>) -> RunPlan {
    let mut target = target("redis", addrs[0]);
    target.endpoint = Endpoint::Inet(addrs);
    plan(target, vec![command("GET", 200.0, ThreadClass::Fast)])
}

/// Addresses where no server listens.
fn closed_addrs() -> Vec<SocketAddr> {
    let listeners = ["[::1]:0", "127.0.0.1:0"].map(TcpListener::bind);
    let listeners = listeners.iter().flatten();
    listeners.map(|it| it.local_addr().unwrap()).collect()
}

#[test]
fn nobody_listening_is_an_error_at_the_start() {
    let addrs = closed_addrs();
    let plan = plan_for(addrs.clone());
    let error = clients::run(&plan, &Arc::default(), &mut ()).unwrap_err();
    let error = format!("{:#}", anyhow::Error::from(error));
    assert!(error.starts_with("cannot connect to redis://"), "{error}");
    for addr in addrs {
        assert!(error.contains(&format!("{addr}: Connection refused")), "{error}");
    }
}

#[test]
fn the_address_where_somebody_listens_is_found() {
    let addr = resp_server(|_| Answer::Reply(OK));
    let mut plan = plan_for([closed_addrs(), vec![addr]].concat());
    plan.ramp = Duration::from_millis(100);
    let record = &run(&plan).records[0];
    assert_eq!((record.scheduled, record.completed), (100, 100));
}

#[test]
fn datagrams_find_their_requests_and_losses_time_out() {
    let seen = AtomicU64::new(0);
    let addr = psp_server(move |header| {
        assert_eq!(header.run_time_ns, 1_000 * (u32::from(header.request_type) + 1));
        if header.request_type == 1 {
            return Some(Kind::Reply);
        }
        let is_even = seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        is_even.then_some(Kind::Error)
    });
    let types = vec![synthetic("lossy", 0, 1_000), synthetic("whole", 1, 2_000)];
    let mut plan = plan(target("psp", addr), types);
    plan.timeout = Duration::from_millis(700);
    plan.dilation = 10;
    let result = run(&plan);
    let [lossy, whole] = &result.records[..] else {
        panic!("two records");
    };
    assert_every_arrival_ends_once(lossy);
    assert_eq!((whole.scheduled, whole.completed), (200, 200));
    assert_eq!((lossy.scheduled, lossy.completed), (200, 0));
    assert_eq!((lossy.timeouts, lossy.errors.total()), (100, 100));

    let report = Report::new(&plan, &result);
    let summary = &report.types[1].summary;
    let slowdown = summary.slowdown.unwrap();
    assert!((slowdown.p50 / (summary.latency_us.unwrap().p50 / 2.0) - 1.0).abs() < 0.01);
    let undilated = summary.latency_undilated_us.unwrap();
    assert!((summary.latency_us.unwrap().p99 / undilated.p99 - 10.0).abs() < 0.01);
    assert_eq!(report.types[1].service_us, Some(0.2));
    let json = serde_json::to_string(&report).unwrap();
    let read: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(read.types[0].summary.errors, [("ERR".to_owned(), 100)].into());
    assert_eq!(read.types[0].summary.latency_us, None);
    assert_eq!(read.types[1].summary.completed, 200);
}

#[test]
fn preload_creates_every_key_and_element() {
    let seen = Arc::new([const { AtomicU64::new(0) }; 3]);
    let counters = Arc::clone(&seen);
    let addr = resp_server(move |frame| {
        let arguments: u64 = String::from_utf8_lossy(&frame[1..])
            .split('\r')
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap();
        let (counter, values) = match &frame[frame.iter().position(|byte| *byte == b'$').unwrap()..] {
            set if set.starts_with(b"$3\r\nSET") => (0, 1),
            list if list.starts_with(b"$5\r\nRPUSH") => (1, arguments - 2),
            sorted if sorted.starts_with(b"$4\r\nZADD") => (2, (arguments - 2) / 2),
            _ => return Answer::Reply(b":0\r\n"),
        };
        counters[counter].fetch_add(values, Ordering::Relaxed);
        Answer::Reply(OK)
    });
    let collection = |kind, len| Collection { kind, key: "big".to_owned(), len };
    let plan = PreloadPlan {
        target: target("redis", addr),
        keyspace: Some(Keyspace::new(1_000, 10)),
        collections: vec![collection(CollectionKind::List, 777), collection(CollectionKind::SortedSet, 401)],
    };
    let mut progress = Vec::new();
    preload(&plan, &mut |values| progress.push(values)).unwrap();
    let counts = seen.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [1_000, 777, 401]);
    assert!(progress.is_sorted());
    assert_eq!(progress.last(), Some(&plan.values()));
}
