//! The simulator's commands, from arguments to output.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Enough requests for percentiles that differ, and few enough for a debug build.
const SHORT: &str = "--requests 20000";

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-loadgen"));
    command.args(line.split_whitespace());
    command
}

fn run(line: &str) -> Output {
    command(line).output().unwrap()
}

/// The output of a successful call.
fn stdout(line: &str) -> String {
    let output = run(line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    assert_eq!(errors, "", "a bar is for terminals");
    String::from_utf8(output.stdout).unwrap()
}

fn json(line: &str) -> Value {
    serde_json::from_str(&stdout(&format!("{line} --output json"))).unwrap()
}

/// The message of a refused call.
fn refusal(line: &str) -> String {
    let output = run(line);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert_eq!(output.stdout, b"");
    String::from_utf8(output.stderr).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn assert_quantiles(value: &Value) {
    assert_eq!(keys(value), ["max", "p50", "p99", "p999"]);
    let ascending = ["p50", "p99", "p999", "max"].map(|key| value[key].as_f64().unwrap());
    assert!(ascending.is_sorted() && ascending[0] > 0.0, "{value}");
}

/// The fields of a point.
const POINT: [&str; 15] = [
    "completed",
    "dropped",
    "goodput",
    "load",
    "offered_rps",
    "overall",
    "policy",
    "refused",
    "rejected",
    "reserved_idle_cores",
    "retried",
    "types",
    "utilization",
    "workers",
    "workload",
];

#[test]
fn every_point_has_the_documented_fields() {
    let report = json(&format!(
        "sim --workload high-bimodal --policy c-fcfs,darc --workers 4 --load 0.3,0.6 {SHORT}"
    ));
    assert_eq!(report["schema"], "psp-sim/1");
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["settings"]["preempt-ns"], 0);
    assert_eq!(report["policies"][1]["name"], "darc");
    let points = report["points"].as_array().unwrap();
    let order: Vec<_> = points
        .iter()
        .map(|point| (point["policy"].as_str().unwrap(), point["load"].as_f64().unwrap()))
        .collect();
    assert_eq!(order, [("c-fcfs", 0.3), ("c-fcfs", 0.6), ("darc", 0.3), ("darc", 0.6)]);
    for point in points {
        assert_eq!(keys(point), POINT);
        assert_eq!(point["workload"], "high-bimodal");
        assert_eq!(point["workers"], 4);
        assert_eq!(point["completed"], 20_000);
        assert_eq!(point["rejected"], 0);
        let load = point["load"].as_f64().unwrap();
        // 50.5 us on average.
        let rate_rps = load * 4.0 / 50.5e-6;
        let offered_rps = point["offered_rps"].as_f64().unwrap();
        assert!((offered_rps / rate_rps - 1.0).abs() < 1e-6, "{offered_rps}");
        let utilization = point["utilization"].as_f64().unwrap();
        assert!((utilization / load - 1.0).abs() < 0.05, "{utilization}");
        assert_eq!(keys(&point["overall"]), ["slowdown"]);
        assert_quantiles(&point["overall"]["slowdown"]);
        let types = point["types"].as_array().unwrap();
        let names: Vec<_> = types.iter().map(|ty| &ty["name"]).collect();
        assert_eq!(names, ["short", "long"]);
        let completed: u64 = types.iter().map(|ty| ty["completed"].as_u64().unwrap()).sum();
        assert_eq!(completed, 20_000);
        for (ty, service_us) in types.iter().zip([1.0, 100.0]) {
            let expected = ["completed", "dropped", "goodput", "latency_us", "name", "refused", "rejected", "slowdown"];
            assert_eq!(keys(ty), expected);
            assert_eq!(ty["rejected"], 0);
            assert_quantiles(&ty["latency_us"]);
            assert_quantiles(&ty["slowdown"]);
            let slowdown = ty["slowdown"]["p99"].as_f64().unwrap();
            let latency_us = ty["latency_us"]["p99"].as_f64().unwrap();
            assert!((latency_us / service_us / slowdown - 1.0).abs() < 0.01);
        }
    }
}

#[test]
fn csv_has_a_line_for_each_point_and_type() {
    let csv = stdout(&format!(
        "sim --workload tpcc --policy d-fcfs,darc --workers 14 --load 0.5,0.8 --output csv {SHORT}"
    ));
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let index = |head: &str| lines[0].iter().position(|cell| *cell == head).unwrap();
    assert_eq!(lines.len(), 1 + 2 * 2 * 5);
    let (policy, ty) = (index("policy"), index("type"));
    assert_eq!((lines[1][policy], lines[1][ty]), ("d-fcfs", "Payment"));
    assert_eq!((lines[20][policy], lines[20][ty]), ("darc", "StockLevel"));
    for line in &lines[1..] {
        assert_eq!(line.len(), lines[0].len());
        for head in ["load", "offered_rps", "overall_slowdown_p999", "latency_us_max"] {
            assert!(line[index(head)].parse::<f64>().unwrap() > 0.0, "{head}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let line = "sim --workload extreme-bimodal --policy all --workers 4 --load 0.5,0.7 \
                --output json --requests 2000";
    let first = stdout(&format!("{line} --seed 7 --threads 1"));
    assert_eq!(first, stdout(&format!("{line} --seed 7 --threads 4")));
    assert_ne!(first, stdout(&format!("{line} --seed 8")));
}

#[test]
fn every_policy_runs_every_named_workload() {
    let report = json("sim --workload all --policy all --workers 4 --load 0.5 --requests 500");
    let points = report["points"].as_array().unwrap();
    let distinct = |key: &str| {
        let mut names: Vec<_> = points.iter().map(|point| point[key].to_string()).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    };
    assert_eq!(distinct("policy") * distinct("workload"), points.len());
    assert!(distinct("policy") >= 7 && distinct("workload") >= 11);
    for point in points {
        let ends = point["completed"].as_u64().unwrap() + point["rejected"].as_u64().unwrap();
        assert_eq!(ends, 500, "{point}");
    }
}

#[test]
fn a_workload_from_a_file_has_its_types_and_quotes_in_csv() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let file = "
        [[type]]
        name = 'GET, hot'
        share = 0.9
        service_us = 2.0
        [[type]]
        name = 'SCAN'
        share = 0.1
        service_us = 50.0
        distribution = 'exponential'
    ";
    fs::write(&path, file).unwrap();
    let path = path.to_str().unwrap();
    let line = format!("sim --workload {path} --policy c-fcfs --workers 2 --load 0.5 {SHORT}");
    let report = json(&line);
    assert_eq!(report["points"][0]["workload"], "mine");
    assert_eq!(report["points"][0]["types"][0]["name"], "GET, hot");
    assert!(stdout(&format!("{line} --output csv")).contains(",\"GET, hot\","));
}

#[test]
fn settings_change_what_they_name() {
    let line = format!("sim --workload high-bimodal --policy darc --workers 14 --load 0.5 {SHORT}");
    let plain = json(&line);
    let p50 = |report: &Value| report["points"][0]["types"][0]["latency_us"]["p50"].as_f64();
    let slow = json(&format!("{line} --set dispatch-ns=400 --set channel-ns=300"));
    assert!(p50(&slow).unwrap() >= p50(&plain).unwrap() + 0.7);
    assert_eq!(slow["settings"]["dispatch-ns"], 400);
    let set = json(&format!(
        "{line} --set darc.delta=3 --set spillway=2 --set classifier=random --set hints=false"
    ));
    assert_eq!(set["policies"][0]["delta"], 3.0);
    assert_eq!(set["policies"][0]["spillway"], 2);
    assert_eq!(set["settings"]["classifier"], "random");
    assert_eq!(set["settings"]["hints"], false);
    assert_ne!(set["points"], plain["points"]);
    let bounded = json(&format!("{line} --set queue-capacity=1 --load 1.5"));
    assert!(bounded["points"][1]["rejected"].as_u64().unwrap() > 0);
}

#[test]
fn admission_keeps_answers_in_time_beyond_capacity() {
    let line = format!("sim --workload high-bimodal --policy darc --workers 14 --load 2 {SHORT}");
    let line = format!("{line} --set queue-capacity=1024 --slo-slowdown 10");
    let (without, with) = (json(&line), json(&format!("{line} --admission slo")));
    let goodput = |report: &Value| report["points"][0]["goodput"].as_f64().unwrap();
    assert!(goodput(&with) > 0.85 && goodput(&without) < goodput(&with) / 2.0);
    assert_eq!(
        (&with["settings"]["admission"], &without["settings"]["admission"]),
        (&"slo".into(), &"none".into())
    );
    let point = &with["points"][0];
    let types = point["types"].as_array().unwrap();
    let sum = |key: &str| types.iter().map(|ty| ty[key].as_f64().unwrap()).sum::<f64>();
    assert!((sum("goodput") - goodput(&with)).abs() < 1e-9);
    assert!(sum("refused") > 0.0 && point["refused"].as_f64() == Some(sum("refused")));
    let clients = json(&format!("{line} --timeout-slowdown 10 --deadlines --retries 2 --step 1.5 --step-ms 1"));
    let point = &clients["points"][0];
    assert!(point["retried"].as_u64() > Some(0) && point["dropped"].as_u64() > Some(0));
}

#[test]
fn servers_behind_a_load_balancer_share_the_load() {
    let line = format!("sim --workload high-bimodal --policy c-fcfs --workers 4 --load 0.7 {SHORT}");
    let rack = format!("{line} --servers 4 --spread jsq --feedback-delay-us 2.5");
    let (one, four) = (json(&line), json(&rack));
    let settings = &four["settings"];
    assert_eq!(
        (&settings["servers"], &settings["spread"], &settings["feedback-delay-ns"]),
        (&4.into(), &"jsq".into(), &2_500.into())
    );
    let rate_rps = |report: &Value| report["points"][0]["offered_rps"].as_f64().unwrap();
    assert!((rate_rps(&four) / rate_rps(&one) - 4.0).abs() < 1e-6);
    assert_eq!(four["points"][0]["completed"], 20_000);
    assert!(stdout(&rack).contains("4 servers by jsq, seen 2.5 us late"));
    let set = format!("{line} --set servers=4 --set spread=jsq --set feedback-delay-ns=2500");
    assert_eq!(json(&set), four);
    let capacity = line.replace("sim", "capacity").replace("--load 0.7", "--tolerance 0.1");
    let found = json(&format!("{capacity} --servers 2"));
    assert_eq!(found["settings"]["spread"], "two-choices");
}

#[test]
fn what_is_misspelt_or_out_of_range_is_named_beside_what_is_allowed() {
    let line = "sim --workload tpcc --policy darc --workers 14 --load 0.5";
    for (line, reasons) in [
        (line.replace("tpcc", "tpc-x"), &["`tpc-x`", "high-bimodal", "tpcc"][..]),
        (line.replace("darc", "dark"), &["`dark`", "c-fcfs", "darc"]),
        (line.replace("0.5", "none"), &["'none'", "above 0"]),
        (line.replace("0.5", "-1"), &["-1"]),
        (line.replace("14", "0"), &["'0'", "from 1"]),
        (line.replace("14", "100000000"), &["workers is 100000000", "from 1 to"]),
        (format!("{line} --servers 0"), &["'0'", "from 1"]),
        (format!("{line} --servers 5000"), &["servers is 5000", "from 1 to"]),
        (format!("{line} --spread best"), &["'best'", "two-choices"]),
        (format!("{line} --requests 0"), &["'0'", "1.."]),
        (format!("{line} --set preempt=700"), &["`preempt`", "preempt-ns=0", "darc.delta=2"]),
        (format!("{line} --set sq.delta=3"), &["`sq.delta`", "darc.delta=2"]),
        (format!("{line} --set preempt-ns"), &["`preempt-ns`", "key=value"]),
        (format!("{line} --set preempt-ns=soon"), &["preempt-ns", "soon", "u64"]),
        (format!("{line} --set darc.delta=0.5"), &["delta is 0.5", "at least 1"]),
        (format!("{line} --set name=sjf"), &["`name`", "darc.delta=2"]),
        (format!("{line} --output xml"), &["'xml'", "text, json, csv"]),
    ] {
        let refusal = refusal(&line);
        for reason in reasons {
            assert!(refusal.contains(reason), "{line} gave {refusal}");
        }
    }
}

#[test]
fn help_lists_every_name_and_setting() {
    for command in ["sim", "capacity"] {
        let help = stdout(&format!("{command} --help"));
        for word in ["extreme-bimodal", "c-fcfs", "srpt", "preempt-ns=0", "darc.delta=2", "Examples"] {
            assert!(help.contains(word), "{word} is not in {help}");
        }
    }
}

#[test]
fn capacity_is_at_the_top_for_one_policy_and_in_results_for_each() {
    let line = "capacity --workload high-bimodal --workers 14 --slo-slowdown 10 --requests 20000";
    let one = json(&format!("{line} --policy darc"));
    assert_eq!(one["schema"], "psp-capacity/1");
    assert_eq!(one["slo"]["scope"], "per-type");
    let load = one["capacity_load"].as_f64().unwrap();
    assert!((0.0..1.0).contains(&load));
    let rps = one["capacity_rps"].as_f64().unwrap();
    assert!((rps / (load * 14.0 / 50.5e-6) - 1.0).abs() < 1e-6, "{rps}");
    assert_eq!(one["results"][0]["capacity_load"], one["capacity_load"]);
    let miss = &one["results"][0]["miss"];
    assert!(miss["slowdown"].as_f64().unwrap() > 10.0, "{miss}");
    let gap = miss["load"].as_f64().unwrap() - load;
    assert!(gap > 0.0 && gap <= 0.005, "{gap}");

    let two = json(&format!("{line} --policy c-fcfs,darc --tolerance 0.05"));
    assert_eq!((&two["capacity_load"], &two["capacity_rps"]), (&Value::Null, &Value::Null));
    let loads: Vec<_> = [0, 1].map(|index| two["results"][index]["capacity_load"].as_f64().unwrap()).to_vec();
    assert!(loads[0] < loads[1], "{loads:?}");
}

#[test]
fn capacities_in_csv_are_those_in_json() {
    let line = "capacity --workload tpcc,fixed --policy c-fcfs,darc --workers 4 --tolerance 0.1 \
                --requests 2000";
    let mut lines = vec!["policy,workload,workers,capacity_load,capacity_rps".to_owned()];
    for result in json(line)["results"].as_array().unwrap() {
        let cells = ["policy", "workload", "workers", "capacity_load", "capacity_rps"];
        let cells = cells.map(|key| result[key].to_string().replace('"', ""));
        lines.push(cells.join(","));
    }
    let csv = stdout(&format!("{line} --output csv"));
    let unpointed = |line: &str| line.replace(".0,", ",").trim_end_matches(".0").to_owned();
    let lines: Vec<_> = lines.iter().map(|line| unpointed(line)).collect();
    assert_eq!(csv.lines().map(unpointed).collect::<Vec<_>>(), lines);
    assert_eq!(lines.len(), 5);
}

#[test]
fn the_list_names_figures_that_are_elsewhere_too() {
    let list = stdout("figure --list");
    let names: Vec<&str> = list.lines().filter_map(|row| row.split(' ').next()).collect();
    for name in ["persephone-1", "shinjuku-8", "shinjuku-7c", "arachne-11"] {
        assert!(names.contains(&name), "{list}");
    }
}

#[test]
fn a_file_defines_a_figure_as_psps_are_defined() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    let text = "[[figure]]\nname = 'mine'\ntitle = 'Two policies'\n[figure.sweep]\nworkers = 4\nworkload = 'tpcc'
        systems = ['DARC', 'Shinjuku']\npanels = [{ title = 'All', y = [1, 1e3], slo = 10 }]\n";
    fs::write(&path, text).unwrap();
    let line = format!("figure {} --requests 500 --out {}/mine.svg", path.display(), dir.path().display());
    stdout(&line);
    let drawn = fs::read_to_string(dir.path().join("mine.svg")).unwrap();
    assert!(drawn.contains("Two policies") && drawn.contains("Shinjuku: mq"), "{drawn}");

    fs::write(&path, text.replace("slo = 10", "slo = 10, colour = 3")).unwrap();
    let refused = run(&line);
    assert_eq!(refused.status.code(), Some(2));
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("mine.toml:8: unknown field `colour`"), "{errors}");
}

#[test]
fn simulations_become_a_page_and_a_figures_numbers_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let server = format!("--workload high-bimodal --policy c-fcfs,darc --workers 4 {SHORT}");
    let found = [
        ("sim", json(&format!("sim {server} --load 0.4,0.6"))),
        ("capacity", json(&format!("capacity {server} --slo-slowdown 20"))),
    ];
    for (name, found) in found {
        fs::write(dir.path().join(name), found.to_string()).unwrap();
    }
    let dir = dir.path().display();
    stdout(&format!("report {dir}/sim {dir}/capacity --out {dir}/page.html"));
    let page = fs::read_to_string(format!("{dir}/page.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 1);
    assert!(page.contains("id=\"simulated-1\"") && page.contains("<polyline"));
    for text in ["<h2>Simulation</h2>", "<h2>Capacity</h2>", "slowdown p99.9", "seed 1"] {
        assert!(page.contains(text), "{text}");
    }

    stdout(&format!("figure shinjuku-4 --quick --out {dir}/figure.svg --data {dir}/figure.csv"));
    let refused = run(&format!("report {dir}/figure.csv --out {dir}/page.html"));
    assert_eq!(refused.status.code(), Some(1));
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("no JSON report of psp-loadgen"), "{errors}");
}

#[test]
fn a_looser_objective_is_kept_at_a_higher_load_and_a_rejection_misses_it() {
    let line = "capacity --workload high-bimodal --policy c-fcfs --workers 8 --requests 20000";
    let load = |more: &str| json(&format!("{line} {more}"))["capacity_load"].as_f64().unwrap();
    let plain = load("--slo-slowdown 10");
    assert_eq!(plain, load("--per-type --percentile 99.9"));
    assert!(load("--slo-slowdown 100") > plain);
    assert!(load("--percentile 90") > plain);
    assert!(load("--overall") >= plain);
    assert!(load("--slo-slowdown 1000000000 --set queue-capacity=1") < 0.9);
    assert!(load("--slo-slowdown 1000000000") > 0.99);
}

#[test]
fn an_interrupted_command_prints_the_points_that_are_done() {
    const POINTS: usize = 5_000;
    let loads: Vec<_> = (1..=POINTS).map(|point| format!("0.{point:04}")).collect();
    let child = command("sim --workload tpcc --policy darc --workers 14 --requests 10000 --threads 1")
        .args(["--output", "json", "--load", &loads.join(",")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Some points are done by then, and the program handles signals.
    wait_until(|| cpu_ticks(&child) >= 50);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    let done = report["points"].as_array().unwrap();
    assert!(!done.is_empty() && done.len() < POINTS, "{}", done.len());
    for (index, point) in done.iter().enumerate() {
        assert_eq!(point["completed"], 10_000);
        let load = point["load"].as_f64().unwrap();
        assert!((load - (index + 1) as f64 / 1e4).abs() < 1e-9, "{index}: {load}");
    }
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = format!("interrupted; {} of {POINTS} points are done", done.len());
    assert!(message.contains(&expected), "{message}");
}

#[test]
fn a_trace_of_one_simulation_is_a_file_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let trace = format!("--trace {}", path.display());
    let one = format!("sim --workload high-bimodal --policy mq --workers 4 --load 0.8 {SHORT}");
    stdout(&format!("{one} {trace} --trace-ms 2 --trace-from-ms 5"));
    let text = fs::read_to_string(&path).unwrap();
    let checked = psp_trace::check(&text).unwrap();
    assert!(checked.workers == 4 && checked.replied > 10 && checked.gave_way > 0, "{checked}");
    assert!(text.contains("\"length_us\":2000.000") && text.contains("\"policy\":\"mq"), "{text}");
    let several = format!("sim --workload high-bimodal --policy mq,darc --workers 4 --load 0.8 {SHORT}");
    assert!(refusal(&format!("{several} {trace}")).contains("one policy"));
    assert!(refusal(&format!("{one} --trace-ms 2")).contains("--trace"));
    assert!(refusal(&format!("{one} {trace} --trace-ms 0")).contains("from 0.001"));
    let late = run(&format!("{one} {trace} --trace-from-ms 1000000"));
    assert_eq!(late.status.code(), Some(0), "it is empty");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(psp_trace::check(&text).unwrap().requests, 0);
}

fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "it did not happen");
        std::thread::yield_now();
    }
}

/// Processor time that a process has used, in the kernel's ticks of 10 ms.
fn cpu_ticks(child: &Child) -> u64 {
    let path = Path::new("/proc").join(child.id().to_string()).join("stat");
    let stat = fs::read_to_string(path).unwrap();
    // The name, in parentheses, may have spaces; user time is the 12th field after it.
    let fields = stat.rsplit(')').next().unwrap();
    let user = fields.split_whitespace().nth(11).unwrap();
    user.parse().unwrap()
}

/// A tournament of few and short searches.
const TOURNAMENT: &str = "tournament --mixes 6 --workers 2,4 --slo-slowdown 10 --preempt-us 2 --home at-home \
    --seeds 1 --rivals c-fcfs,sq,darc --requests 2000 --tolerance 0.1";

#[test]
fn a_tournament_goes_on_where_it_was_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("tournament.jsonl");
    let run = |options: &str| {
        let output = run(&format!("{TOURNAMENT} {options} --journal {}", journal.display()));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        (String::from_utf8(output.stdout).unwrap(), errors)
    };
    let (_, first) = run("--cells 2");
    assert!(first.starts_with("2 cells, "), "{first}");
    let lines = || fs::read_to_string(&journal).unwrap().lines().count();
    let after_two = lines();
    let (whole, _) = run("");
    // The champion, c-FCFS, three quanta of SQ and two groupings of DARC, in six cells.
    assert_eq!((after_two, lines()), (2 * 7, 6 * 7));
    let (again, errors) = run("--threads 1");
    assert_eq!(again, whole);
    assert!(errors.contains("0 of 42 searches to do"), "{errors}");
    let (renewed, errors) = run("--renew");
    assert_eq!(renewed, whole);
    assert!(errors.contains("6 of 42 searches to do"), "{errors}");
    let (dry, _) = run("--dry-run --seeds 1,2");
    assert_eq!(dry, "");
}

#[test]
fn a_tournament_draws_its_ratios_and_tells_each_policy() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("ratios.svg");
    let report = json(&format!(
        "{TOURNAMENT} --champion darc-lending --cells 3 --set patience=0.5 --svg {}",
        svg.display()
    ));
    assert_eq!(report["schema"], "psp-tournament/2");
    assert_eq!(report["champion"], "darc-lending patience=0.5");
    let scores = report["scores"].as_array().unwrap();
    assert_eq!((scores.len(), &report["missing"]), (3, &Value::from(0)));
    for score in scores {
        let loads = score["loads"].as_array().unwrap();
        let names = loads.iter().map(|load| load["policy"].as_str().unwrap());
        let names: Vec<_> = names.map(|name| name.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["darc-lending", "c-fcfs", "sq", "darc"]);
        assert_eq!(score["mix"].as_u64().unwrap() % 2, 1, "they are held out");
    }
    assert!(fs::read_to_string(&svg).unwrap().contains("</svg>"));
}

#[test]
fn a_tournament_refuses_what_it_cannot_do() {
    assert!(refusal("tournament --champion ps").contains("ps"));
    assert!(refusal("tournament --set nonsense=1").contains("nonsense"));
    assert!(refusal("tournament --renew").contains("--journal"));
}

#[test]
fn a_calibration_prints_settings_that_simulations_take() {
    let line = format!("calibrate --workload high-bimodal --workers 4 --load 0.8 {SHORT}");
    let report = json(&line);
    assert_eq!(report["schema"], "psp-calibration/1");
    assert_eq!(report["policies"][0]["name"], "sq");
    let [calibration] = &report["results"].as_array().unwrap()[..] else {
        panic!("one result: {report}");
    };
    let types = calibration["types"].as_array().unwrap();
    assert_eq!(types[1]["name"], "long");
    let slo_us = [0, 1].map(|index| types[index]["slo_us"].as_f64().unwrap());
    assert!(slo_us[0] >= 0.999 && slo_us[0] < 2.0, "{slo_us:?}");
    assert!(slo_us[1] > 100.0, "alone, long requests wait: {slo_us:?}");

    let text = stdout(&line);
    let option = text.lines().find(|line| line.starts_with("--slo-us "));
    let option = option.unwrap();
    let table = format!("[[types]]\nname = \"long\"\nslo-us = {:?}\n", slo_us[1]);
    assert!(text.contains(&table), "{text}");
    let simulated = json(&format!(
        "sim --workload high-bimodal --policy mq --workers 4 --load 0.8 {option} {SHORT}"
    ));
    assert_eq!(simulated["types"][0]["name"], "short");
    assert_eq!(simulated["types"][0]["slo_us"].as_f64(), Some(slo_us[0]));
    let rows = stdout(&format!("{line} --output csv"));
    assert_eq!(rows.lines().count(), 3);
}

#[test]
fn hints_of_types_reach_the_policies() {
    let p999_us = |policy: &str, hints: &str| {
        let line = format!("sim --workload high-bimodal --policy {policy} --workers 4 --load 0.8 {hints} {SHORT}");
        let report = json(&line);
        [0, 1].map(|index| {
            let latency = &report["points"][0]["types"][index]["latency_us"]["p999"];
            latency.as_f64().unwrap()
        })
    };
    let plain = p999_us("wrr", "");
    assert_eq!(plain, p999_us("wrr", "--weight short=1"));
    let heavy = p999_us("wrr", "--weight short=50,long=1");
    assert!(heavy[0] < plain[0], "{heavy:?} {plain:?}");
    let strict = p999_us("mq", "--slo-us short=0.1,long=100000");
    let loose = p999_us("mq", "--slo-us short=100000 --slo-us long=0.1");
    assert!(strict[0] < loose[0] && strict[1] > loose[1], "{strict:?} {loose:?}");

    let line = "sim --workload high-bimodal --policy wrr --workers 4 --load 0.8";
    for (option, reason) in [
        ("--weight medium=3", "no workload has a type `medium`"),
        ("--weight short=0", "a whole number from 1"),
        ("--weight short", "a type and a number"),
        ("--slo-us short=0", "from 0.001 to a day"),
    ] {
        let refused = refusal(&format!("{line} {option}"));
        assert!(refused.contains(reason), "{option}: {refused}");
    }
}

#[test]
fn costs_of_a_mechanism_are_settings() {
    let report = json(&format!(
        "sim --workload high-bimodal --policy mq --workers 4 --load 0.3 --costs signal \
         --set switch-ns=5 {SHORT}"
    ));
    let settings = &report["settings"];
    assert_eq!(settings["send-ns"], 11_300);
    assert_eq!(settings["switch-ns"], 5);
    let refused = refusal("capacity --workload fixed --policy sq --workers 1 --costs magic");
    assert!(refused.contains("kernel-thread"), "{refused}");
}

#[test]
fn tables_of_small_simulations() {
    insta::assert_snapshot!(
        "tournament",
        stdout(
            "tournament --champion darc --rivals c-fcfs,edf,sq --mixes 6 --workers 2,4 --slo-slowdown 10,50 \
             --preempt-us 2 --home at-home --seeds 1 --requests 2000 --tolerance 0.1"
        )
    );
    insta::assert_snapshot!(
        "sim",
        stdout(
            "sim --workload tpcc --policy c-fcfs,fixed-priority,darc --workers 14 \
             --load 0.5,0.85 --requests 20000"
        )
    );
    insta::assert_snapshot!(
        "capacity",
        stdout(
            "capacity --workload high-bimodal,tpcc --policy d-fcfs,c-fcfs,darc,srpt --workers 14 \
             --slo-slowdown 10 --tolerance 0.02 --requests 20000"
        )
    );
    insta::assert_snapshot!(
        "capacity_markdown",
        stdout(
            "capacity --workload extreme-bimodal,exponential --policy d-fcfs,c-fcfs,darc --workers 8 \
             --overall --slo-slowdown 20 --tolerance 0.02 --requests 20000 --output markdown"
        )
    );
}
