//! The commands that measure live servers, from arguments to output.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use psp_protocols::psp_header::Kind;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::scripted::{Answer, psp_server, resp_server, serve_all};

const OK: &[u8] = b"+OK\r\n";

/// Timeout of everything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A short run with uniform arrivals.
const SHORT: &[&str] = &["--duration", "0.5", "--warmup", "0", "--arrivals", "uniform"];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-loadgen"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// The JSON output of a successful call.
fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--output", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn url(addr: SocketAddr) -> String {
    format!("redis://{addr}")
}

fn obliging() -> String {
    url(resp_server(|_| Answer::Reply(OK)))
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn assert_has_plots(page: &Path, ids: &[&str]) {
    let page = fs::read_to_string(page).unwrap();
    for id in ids {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert_eq!(page.matches("<svg").count(), ids.len());
    assert!(page.contains("<polyline"));
}

#[test]
fn a_run_reports_percentiles_seconds_and_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("run.hlog");
    let (target, log_name) = (obliging(), log.to_str().unwrap());
    let mix = "GET@400/s,odd=SET {key} x@100/s";
    let lines = dir.path().join("run.jsonl");
    let args = [
        "run",
        "--target",
        &target,
        "--mix",
        mix,
        "--hdr",
        log_name,
        "--json-lines",
        lines.to_str().unwrap(),
    ];
    let timing = ["--duration", "1.5", "--warmup", "0", "--arrivals", "uniform"];
    let report = json(&[&args[..], &timing].concat());
    assert_eq!(report["schema"], "psp-run/1");
    let get = &report["types"][0];
    let latency = &get["latency_us"];
    let points = ["p50", "p90", "p99", "p999", "p9999", "max"];
    assert!(points.map(|point| latency[point].as_f64().unwrap()).is_sorted());
    let timeline = get["timeline"].as_array().unwrap();
    let seconds: Vec<_> = timeline.iter().map(|point| point["second"].as_u64()).collect();
    let expected: Vec<_> = (0..timeline.len() as u64).map(Some).collect();
    assert_eq!(seconds, expected);
    let completed: u64 = timeline.iter().filter_map(|point| point["completed"].as_u64()).sum();
    assert_eq!((Some(completed), completed), (get["completed"].as_u64(), 600));
    assert!(get["latency_curve_us"].as_array().unwrap().len() > 10);

    let lines = fs::read_to_string(lines).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut lines: Vec<_> = lines.filter(|line| line["type"] == "GET").collect();
    lines.sort_by_key(|line| line["second"].as_u64());
    for (line, point) in lines.iter().zip(timeline) {
        assert!(
            point.as_object().unwrap().iter().all(|(figure, value)| line[figure] == *value),
            "{line} {point}"
        );
    }
    assert_eq!(lines.len(), timeline.len());

    let log = fs::read(log).unwrap();
    let mut tags = Vec::new();
    for entry in IntervalLogIterator::new(&log) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            tags.push(interval.tag().unwrap().as_str().to_owned());
        }
    }
    for tag in ["GET", "odd"] {
        assert!(tags.iter().filter(|other| *other == tag).count() >= 2, "{tags:?}");
    }
}

/// Witnesses need real-time priority. Without it a run that asks for them names the missing
/// capability, and goes on.
#[test]
fn calm_requests_are_told_apart_where_witnesses_may_watch() {
    let target = obliging();
    let args = ["run", "--target", &target, "--mix", "GET@400/s", "--calm"];
    let args = [&args[..], &["--duration", "0.5", "--output", "json"]].concat();
    let output = run(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    if report["stalled_share"].is_null() {
        assert!(text(&output.stderr).contains("CAP_SYS_NICE"));
        return psp_skip::skip("no right to real-time priority (CAP_SYS_NICE)");
    }
    let stalled = report["stalled_share"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&stalled), "{stalled}");
    let get = &report["types"][0];
    let (calm, completed) = (get["calm"].as_u64(), get["completed"].as_u64());
    assert!(calm <= completed, "{calm:?} of {completed:?}");
    if calm > Some(0) {
        let max = |figure: &str| get[figure]["max"].as_f64().unwrap();
        assert!(max("calm_latency_us") <= max("latency_us"));
    }
}

#[test]
fn csv_has_the_same_figures_in_lines() {
    let target = obliging();
    let args = ["run", "--target", &target, "--mix", "GET@200/s", "--output", "csv"];
    let output = run(&[&args[..], SHORT].concat());
    let lines: Vec<Vec<&str>> = text(&output.stdout).lines().map(|line| line.split(',').collect()).collect();
    let [heads, get, overall] = &lines[..] else {
        panic!("three lines: {lines:?}");
    };
    let column = |head: &str| heads.iter().position(|cell| *cell == head).unwrap();
    assert_eq!(get[column("type")], "GET");
    assert_eq!(get[column("completed")], "100");
    assert_eq!(overall[column("type")], "overall");
    assert_eq!(get[column("latency_us_p9999")], overall[column("latency_us_p9999")]);
}

#[test]
fn slowdown_is_latency_over_service_time() {
    let addr = psp_server(|_| Some(Kind::Reply));
    let target = format!("psp://{addr}");
    let args = ["run", "--target", &target, "--workload", "high-bimodal", "--rate", "200"];
    let report = json(&[&args[..], SHORT].concat());
    for ty in report["types"].as_array().unwrap() {
        let [latency, slowdown] = ["latency_us", "slowdown"].map(|field| ty[field]["p999"].as_f64().unwrap());
        let service_us = ty["service_us"].as_f64().unwrap();
        assert!((slowdown * service_us / latency - 1.0).abs() < 0.01);
    }
}

#[test]
fn conditions_decide_the_exit_code() {
    let requests = AtomicU64::new(0);
    let target = url(resp_server(move |_| match requests.fetch_add(1, Ordering::Relaxed) % 10 {
        0 => Answer::Reply(b"-BUSY no\r\n"),
        1 => Answer::Close,
        _ => Answer::Reply(OK),
    }));
    let judged = |conditions: &[&str]| {
        let mut args = vec!["run", "--target", &target, "--mix", "GET@100/s"];
        args.extend(SHORT);
        args.extend(conditions.iter().flat_map(|condition| ["--fail-if", condition]));
        let output = run(&args);
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let (code, errors) = judged(&["GET.p50 > 100s", "overall.errors > 90%"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let (code, errors) = judged(&["GET.errors > 5%", "GET.p50 > 100s", "overall.completed >= 1"]);
    assert_eq!(code, Some(3));
    let failed: Vec<_> = errors.lines().filter(|line| line.starts_with("failed: ")).collect();
    assert_eq!(failed.len(), 2, "{errors}");
    assert!(failed[0].starts_with("failed: GET.errors > 5%: GET.errors is"));
    for (condition, reason) in [("SET.p99 > 1ms", "`SET` is no type of this run"), ("GET.p99 > 1", "expected a time")] {
        let (code, errors) = judged(&[condition]);
        assert!(code == Some(2) && errors.contains(reason), "{errors}");
    }
}

#[test]
fn a_server_that_says_nothing_fails_conditions_on_its_latency() {
    let target = url(resp_server(|_| Answer::Silence));
    let args = ["run", "--target", &target, "--mix", "GET@20/s", "--timeout", "0.2"];
    let output = run(&[&args[..], SHORT, &["--fail-if", "GET.p99 > 1s"]].concat());
    // A server that answers nothing is the greater failure.
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("timeouts"));
}

#[test]
fn repeated_runs_have_confidence_intervals_and_seeds_of_their_own() {
    let target = obliging();
    let args = ["run", "--target", &target, "--mix", "GET@100/s", "--runs", "3", "--seed", "7"];
    let report = json(&[&args[..], SHORT].concat());
    assert_eq!(report["schema"], "psp-runs/1");
    let runs = report["runs"].as_array().unwrap();
    let seeds: Vec<_> = runs.iter().map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [Some(7), Some(8), Some(9)]);
    let p99s = runs.iter().map(|run| run["types"][0]["latency_us"]["p99"].as_f64().unwrap());
    let mean = p99s.sum::<f64>() / 3.0;
    let estimate = &report["estimates"][0]["latency_us"]["p99"];
    assert!((estimate["mean"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9);
    assert!(estimate["ci95"].as_f64().unwrap() > 0.0);
}

/// Answers up to 50 requests in each tenth of a second.
fn limited() -> String {
    let window = Mutex::new((Instant::now(), 0));
    url(resp_server(move |_| {
        let mut window = window.lock().unwrap();
        if window.0.elapsed() > Duration::from_millis(100) {
            *window = (Instant::now(), 0);
        }
        window.1 += 1;
        if window.1 > 50 {
            Answer::Reply(b"-BUSY too many\r\n")
        } else {
            Answer::Reply(OK)
        }
    }))
}

#[test]
fn a_sweep_finds_the_rate_at_which_errors_begin() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("sweep.html");
    let (limited, obliging) = (format!("limited={}", limited()), format!("open={}", obliging()));
    let args = [
        "sweep",
        &limited,
        &obliging,
        "--mix",
        "GET:1",
        "--slo",
        "GET.errors < 1%",
        "--from",
        "50",
        "--to",
        "3200",
        "--factor",
        "4",
        "--precision",
        "1",
        "--tries",
        "5",
        "--html",
        page.to_str().unwrap(),
    ];
    let sweep = json(&[&args[..], SHORT].concat());
    assert_eq!(sweep["schema"], "psp-sweep/1");
    let [limited, open] = &sweep["targets"].as_array().unwrap()[..] else {
        panic!("two targets");
    };
    let held = limited["held_rps"].as_f64().unwrap();
    assert!((50.0..3_200.0).contains(&held), "{held}");
    assert_eq!(open["held_rps"], 3_200.0);
    let points = limited["points"].as_array().unwrap();
    let rates: Vec<_> = points.iter().map(|point| point["rate_rps"].as_f64().unwrap()).collect();
    assert!(rates.is_sorted());
    for (point, rate) in points.iter().zip(rates) {
        assert_eq!(point["misses"].as_array().unwrap().is_empty(), rate <= held);
    }
    assert_has_plots(&page, &["latency-by-load", "percentile-curve", "timeline"]);

    let refused = run(&[
        "sweep",
        "redis://127.0.0.1:1",
        "--mix",
        "GET:1",
        "--rate",
        "5",
        "--from",
        "50",
        "--slo",
        "GET.p99 < 1s",
    ]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_target_that_holds_nothing_has_an_exit_code_of_its_own() {
    let target = obliging();
    let args = ["sweep", &target, "--mix", "GET:1", "--from", "100", "--slo", "GET.p50 < 1ns"];
    let output = run(&[&args[..], SHORT].concat());
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("not even 100 requests per second"));
}

#[test]
fn a_comparison_alternates_and_relates_to_the_first() {
    static ORDER: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let server = |name: &'static str, pause: Duration| {
        let addr = resp_server(move |_| {
            thread::sleep(pause);
            ORDER.lock().unwrap().push(name);
            Answer::Reply(OK)
        });
        format!("{name}={}", url(addr))
    };
    let quick = server("quick", Duration::ZERO);
    let slow = server("slow", Duration::from_millis(50));
    let args = ["compare", &quick, &slow, "--mix", "GET@40/s", "--runs", "2"];
    let report = json(&[&args[..], SHORT].concat());
    assert_eq!((&report["schema"], &report["rounds"]), (&"psp-compare/1".into(), &2.into()));
    let [first, second] = &report["targets"].as_array().unwrap()[..] else {
        panic!("two targets");
    };
    assert!(first["ratios"].as_array().unwrap().is_empty());
    let p50 = &second["ratios"][0]["latency"]["p50"];
    let [min, median, max] = ["min", "median", "max"].map(|field| p50[field].as_f64().unwrap());
    assert!(1.0 < min && min <= median && median <= max, "{p50}");
    let mut turns = ORDER.lock().unwrap().clone();
    turns.dedup();
    // The second target of one round is the first of the next.
    assert_eq!(turns, ["quick", "slow", "quick"]);
}

/// Not a test: a server for `--start`, for which the test program calls itself.
#[test]
#[ignore = "a server that other tests start"]
fn started_server() {
    let Ok(port) = std::env::var("PSP_TEST_PORT") else {
        return;
    };
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    fs::write(std::env::var("PSP_TEST_PORT_FILE").unwrap(), port).unwrap();
    serve_all(&listener, |_| Answer::Reply(OK), || ());
}

/// `NAME=COMMAND` that starts [`started_server`]. The server writes its port into `file`.
fn start(name: &str, file: &Path) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "{name}=env PSP_TEST_PORT={{port}} PSP_TEST_PORT_FILE='{}' '{}' --exact measure::started_server --ignored",
        file.display(),
        program.display(),
    )
}

fn port_in(file: &Path) -> u16 {
    wait_until("the server starts", || fs::read_to_string(file).is_ok_and(|port| !port.is_empty()));
    fs::read_to_string(file).unwrap().parse().unwrap()
}

fn is_served(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[test]
fn started_servers_are_measured_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["one", "two"].map(|name| dir.path().join(name));
    let page = dir.path().join("page.html");
    let starts = [start("one", &files[0]), start("two", &files[1])];
    let args = [
        "compare",
        "two",
        "--start",
        &starts[0],
        "--start",
        &starts[1],
        "--mix",
        "GET@100/s",
        "--runs",
        "1",
        "--preload",
        "--keys",
        "10",
        "--html",
        page.to_str().unwrap(),
    ];
    let report = json(&[&args[..], SHORT].concat());
    let names: Vec<_> = report["targets"].as_array().unwrap().iter().map(|target| &target["name"]).collect();
    assert_eq!(names, ["two", "one"]);
    for file in &files {
        assert!(!is_served(port_in(file)));
    }
    assert_has_plots(&page, &["percentile-curve", "timeline"]);
}

#[test]
fn no_server_outlives_the_program_however_it_ends() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::HUP, Some(130)), (Signal::KILL, None)] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("port");
        let mut program = command(&[
            "compare",
            &obliging(),
            "--start",
            &start("started", &file),
            "--mix",
            "GET@50/s",
            "--duration",
            "600",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
        let port = port_in(&file);
        assert!(is_served(port));
        kill_process(Pid::from_child(&program), signal).unwrap();
        let status = program.wait().unwrap();
        assert_eq!(status.code(), code);
        wait_until("the server ends", || !is_served(port));
    }
}

#[test]
fn a_signal_ends_a_run_with_its_report() {
    const PLAIN: &str = "exec \"$0\" \"$@\"";
    const WITHOUT_HUP: &str = "trap '' HUP; exec \"$0\" \"$@\"";
    for (script, signals) in [
        (PLAIN, &[Signal::INT][..]),
        (PLAIN, &[Signal::TERM]),
        (PLAIN, &[Signal::HUP]),
        (WITHOUT_HUP, &[Signal::HUP, Signal::INT]),
    ] {
        let requests = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&requests);
        let addr = resp_server(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            Answer::Reply(OK)
        });
        let target = format!("redis://{addr}");
        let program = Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_psp-loadgen")])
            .args(["run", "--target", &target, "--mix", "GET@100/s"])
            .args(["--warmup", "0", "--duration", "600", "--output", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        for signal in signals {
            let before = requests.load(Ordering::Relaxed);
            let more = || requests.load(Ordering::Relaxed) > before + 9;
            wait_until("requests go on", more);
            kill_process(Pid::from_child(&program), *signal).unwrap();
        }
        let output = program.wait_with_output().unwrap();
        assert!(output.status.success(), "{signals:?}: {}", output.status);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let warnings = report["warnings"].to_string();
        assert!(warnings.contains("interrupted after"), "{warnings}");
    }
}

#[test]
fn a_command_that_fails_is_explained() {
    let output = run(&[
        "sweep",
        "--start",
        "bad=no-such-server --port {port}",
        "--mix",
        "GET:1",
        "--from",
        "1",
        "--slo",
        "GET.p99 < 1s",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("bad:") && errors.contains("not found"), "{errors}");
}

#[test]
fn files_become_one_page() {
    let dir = tempfile::tempdir().unwrap();
    let target = obliging();
    let files = ["100", "200"].map(|rate| {
        let args = ["run", "--target", &target, "--mix", "GET:1", "--rate", rate];
        let report = json(&[&args[..], SHORT].concat());
        let file = dir.path().join(format!("{rate}.json"));
        fs::write(&file, report.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let page = dir.path().join("page.html");
    let out = ["--out", page.to_str().unwrap(), "--title", "Two rates"];
    let output = run(&[&["report", &files[0], &files[1]], &out[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_has_plots(&page, &["latency-by-load", "percentile-curve", "timeline"]);
    assert!(fs::read_to_string(&page).unwrap().contains("<h1>Two rates</h1>"));

    fs::write(&files[0], r#"{"schema": "other/1"}"#).unwrap();
    let output = run(&[&["report", &files[0]], &out[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("its schema is `other/1`"));
}
