//! Compares reports with independent knowledge: when a server paused, and how many requests it was
//! to get.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use psp_loadgen::clients::RunResult;
use psp_loadgen::report::Report;
use psp_loadgen::schedule::{ClosedLoop, Pacing, RunPlan, ThreadClass, TypePlan};
use psp_protocols::psp_header::Kind;
use psp_sim::measure::Percentiles;
use psp_sim::workload::Schedule;

use crate::runs::{assert_every_arrival_ends_once, command, plan, run, synthetic, target};
use crate::scripted::{Answer, psp_server, resp_server};

const OK: &[u8] = b"+OK\r\n";

const PAUSE: Duration = Duration::from_millis(500);

/// Replies before the pause.
const REQUESTS_BEFORE: u64 = 250;

/// How far percentiles may differ, as a fraction of the pause.
const TOLERANCE: f64 = 0.1;

/// When a server paused, by its own clock.
#[derive(Debug, Clone, Copy)]
struct Pause {
    begin: SystemTime,
    end: SystemTime,
}

/// Replies at once, except for one pause without replies.
fn pausing_server() -> (SocketAddr, Arc<OnceLock<Pause>>) {
    let paused = Arc::new(OnceLock::new());
    let inside = Arc::clone(&paused);
    let requests = AtomicU64::new(0);
    let door = Mutex::new(());
    let addr = resp_server(move |_| {
        let _held = door.lock().unwrap();
        if requests.fetch_add(1, Ordering::Relaxed) == REQUESTS_BEFORE {
            let begin = SystemTime::now();
            thread::sleep(PAUSE);
            let end = SystemTime::now();
            inside.set(Pause { begin, end }).unwrap();
        }
        Answer::Reply(OK)
    });
    (addr, paused)
}

fn get(rate_rps: f64) -> TypePlan {
    command("GET", rate_rps, ThreadClass::Fast)
}

/// The latencies, ascending and in microseconds, of requests sent by the plan's schedule to a
/// server that replies at once except for its pause.
fn latencies_us(plan: &RunPlan, result: &RunResult, pause: Pause) -> Vec<f64> {
    let since_start_ns = |at: SystemTime| {
        let since_start = at.duration_since(result.measured_from).unwrap();
        since_start.as_nanos() as u64
    };
    let (begin_ns, end_ns) = (since_start_ns(pause.begin), since_start_ns(pause.end));
    let run_ns = plan.duration.as_nanos() as u64;
    let schedule = Schedule::new(plan.arrivals, plan.types[0].rate_rps, plan.seed, 0);
    let waited_us = |intended_ns: u64| {
        if (begin_ns..end_ns).contains(&intended_ns) {
            (end_ns - intended_ns) as f64 / 1e3
        } else {
            0.0
        }
    };
    let within = schedule.take_while(|intended_ns| *intended_ns < run_ns);
    let mut latencies: Vec<f64> = within.map(waited_us).collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}

/// The smallest value that the fraction `quantile` of all values does not exceed.
fn at(ascending: &[f64], quantile: f64) -> f64 {
    let rank = (quantile * ascending.len() as f64).ceil() as usize;
    ascending[rank.max(1) - 1]
}

fn latency_us(report: &Report) -> Percentiles {
    report.types[0].summary.latency_us.unwrap()
}

/// A quarter of the requests fall due in the pause. A request counts from its due time, whether it
/// waits on its connection or in the generator. The bounds are fractions of the pause that the
/// server measured.
#[test]
fn an_open_loop_sees_a_pause_as_those_would_who_wanted_answers_meanwhile() {
    let tolerance_us = PAUSE.as_secs_f64() * 1e6 * TOLERANCE;
    for pipeline in [1, 100] {
        let (addr, paused) = pausing_server();
        let mut plan = plan(target("redis", addr), vec![get(500.0)]);
        plan.duration = Duration::from_secs(2);
        plan.pipeline = pipeline;
        let result = run(&plan);
        assert_every_arrival_ends_once(&result.records[0]);
        let expected = latencies_us(&plan, &result, *paused.get().unwrap());
        let reported = latency_us(&Report::new(&plan, &result));
        for (name, reported, quantile) in [
            ("p50", reported.p50, 0.5),
            ("p90", reported.p90, 0.9),
            ("p99", reported.p99, 0.99),
            ("p99.9", reported.p999, 0.999),
            ("max", reported.max, 1.0),
        ] {
            let expected = at(&expected, quantile);
            assert!(
                (reported - expected).abs() <= tolerance_us,
                "{name} with a pipeline of {pipeline}: {reported} us, not {expected} us"
            );
        }
        // Otherwise the pause could have been anywhere.
        assert!(at(&expected, 0.9) > tolerance_us * 4.0);
    }
}

#[test]
fn a_closed_loop_reports_a_pause_once_for_each_client() {
    const CLIENTS: usize = 4;
    let (addr, paused) = pausing_server();
    let mut plan = plan(target("redis", addr), vec![get(1.0)]);
    plan.duration = Duration::from_secs(2);
    plan.pacing = Pacing::Closed(ClosedLoop {
        outstanding: CLIENTS,
        per_type: false,
        think: Duration::from_millis(2),
    });
    let result = run(&plan);
    assert!(paused.get().is_some());
    let record = &result.records[0];
    let slow_ns = PAUSE.as_nanos() as u64 / 2;
    let slow = record.latency_ns.count_between(slow_ns, u64::MAX >> 1);
    assert!((1..=CLIENTS as u64).contains(&slow), "{slow}");
    // The same pause is most of an open loop's 99th percentile.
    let report = Report::new(&plan, &result);
    let p99_us = latency_us(&report).p99;
    let pause_us = PAUSE.as_secs_f64() * 1e6;
    assert!(p99_us < pause_us * TOLERANCE, "{p99_us} us\n{report}");
}

/// At any rate, from a few requests per second to more than the machine can send.
#[test]
fn an_offered_rate_is_kept_within_a_percent_or_the_report_says_that_it_was_not() {
    for (rate_rps, duration_ms) in [(10.0, 2_000), (1e3, 1_000), (2e4, 1_000), (1e8, 10)] {
        let addr = resp_server(|_| Answer::Reply(OK));
        let mut plan = plan(target("redis", addr), vec![get(rate_rps)]);
        plan.duration = Duration::from_millis(duration_ms);
        plan.outstanding_max = 1_000;
        assert_kept_or_said(&plan);
    }
    let addr = psp_server(|_| Some(Kind::Reply));
    for rate_rps in [1e3, 2e4] {
        let mut ty = synthetic("echo", 0, 1_000);
        ty.rate_rps = rate_rps;
        let mut plan = plan(target("psp", addr), vec![ty]);
        plan.timeout = Duration::from_secs(2);
        assert_kept_or_said(&plan);
    }
}

fn assert_kept_or_said(plan: &RunPlan) {
    let report = Report::new(plan, &run(plan));
    let summary = &report.types[0].summary;
    let not_kept = "the offered rate was not kept";
    let is_said = report.warnings.iter().any(|it| it.contains(not_kept));
    assert_eq!(summary.rate_kept, Some(!is_said), "{report}");
    // One request more or less is chance.
    let tolerance_rps = summary.offered_rps * 0.01 + 1.0 / report.duration_s;
    let is_near = |rps: f64| (rps - summary.offered_rps).abs() <= tolerance_rps;
    assert!(is_near(summary.sent_rps) || is_said, "{report}");
    // A datagram that found the server's buffer full counts as sent.
    let is_answered = summary.failed() == 0;
    assert!(is_near(summary.achieved_rps) || is_said || !is_answered, "{report}");
    assert!(summary.offered_rps < 1e6 || is_said, "{report}");
}

/// The server takes longer for a reply than the run lasts. A reply after the end is not throughput.
#[test]
fn replies_after_the_end_are_latencies_and_no_throughput() {
    let addr = resp_server(|_| {
        thread::sleep(Duration::from_millis(600));
        Answer::Reply(OK)
    });
    let plan = plan(target("redis", addr), vec![get(8.0)]);
    let result = run(&plan);
    let summary = &Report::new(&plan, &result).overall;
    assert_eq!((summary.completed, summary.completed_within), (4, 0));
    assert_eq!((summary.sent_rps, summary.achieved_rps), (8.0, 0.0));
    assert!(summary.latency_us.unwrap().p50 > 5e5);
}

#[test]
fn only_replies_without_an_error_are_throughput() {
    let requests = AtomicU64::new(0);
    let addr = resp_server(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 10 {
        0 => Answer::Reply(b"-BUSY no\r\n"),
        1 => Answer::Silence,
        2 => Answer::Close,
        _ => Answer::Reply(OK),
    });
    let mut plan = plan(target("redis", addr), vec![get(100.0)]);
    plan.timeout = Duration::from_millis(300);
    let result = run(&plan);
    let record = &result.records[0];
    assert_every_arrival_ends_once(record);
    assert!(record.completed < record.scheduled);
    assert!((1..=record.completed).contains(&record.completed_within));
    let achieved_rps = Report::new(&plan, &result).overall.achieved_rps;
    assert!((achieved_rps - record.completed_within as f64 / 0.5).abs() < 1e-9);
}
