//! Simulated servers.

use serde_json::Value;

use super::program::{assert_every_arrival_ends_once, call, type_of};

fn json(args: &[&str]) -> Value {
    let output = call(&[args, &["--output", "json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

const WORKLOAD: &[&str] = &["--workload", "high-bimodal", "--duration", "2"];

#[test]
fn a_simulated_run_has_the_report_of_a_live_one() {
    let target = "sim:darc?workers=14&preempt-ns=700&darc.delta=3";
    let load = ["--load", "0.8", "--workers", "14"];
    let report = json(&[&["run", "--target", target][..], WORKLOAD, &load].concat());
    assert_every_arrival_ends_once(&report);
    assert_eq!((&report["schema"], &report["target"]), (&"psp-run/1".into(), &target.into()));
    let simulation = &report["simulation"];
    assert_eq!(simulation["policy"]["delta"], 3.0);
    assert_eq!(simulation["settings"]["preempt-ns"], 700);
    let utilization = simulation["utilization"].as_f64().unwrap();
    assert!((utilization - 0.8).abs() < 0.02, "{utilization}");
    let short = type_of(&report, "short");
    assert!(short["slowdown"]["p99"].as_f64().unwrap() >= 1.0);
    assert_eq!(short["lag_us"], Value::Null);
    assert_eq!(report["client"]["waiting"], "virtual-time");
    // The same seed gives the same result, to the bit. Other runs have other seeds.
    let again = json(&[&["run", "--target", target][..], WORKLOAD, &load].concat());
    assert_eq!(again["overall"], report["overall"]);
    let runs = [&["run", "--target", target, "--runs", "2"][..], WORKLOAD, &load].concat();
    let runs = json(&runs);
    assert_ne!(runs["runs"][0]["overall"], runs["runs"][1]["overall"]);
}

#[test]
fn policies_are_compared_and_swept() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let page = page.to_str().unwrap();
    let targets = ["darc=sim:darc?workers=14", "fcfs=sim:c-fcfs?workers=14"];
    let rate = ["--rate", "200000", "--runs", "2", "--html", page];
    let compared = json(&[&["compare"], &targets[..], WORKLOAD, &rate].concat());
    let p999 = |index: usize| {
        let runs = &compared["targets"][index]["runs"];
        type_of(&runs[0], "short")["slowdown"]["p999"].as_f64().unwrap()
    };
    assert!(p999(0) * 2.0 < p999(1), "{} {}", p999(0), p999(1));
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"));
    let slo = ["--slo", "short.slowdown_p99_9 < 20", "--from", "50000", "--precision", "0.2"];
    let swept = json(&[&["sweep"], &targets[..], WORKLOAD, &slo].concat());
    let held = |index: usize| swept["targets"][index]["held_rps"].as_f64().unwrap();
    assert!(held(0) > held(1), "{} {}", held(0), held(1));
}

#[test]
fn what_a_simulation_cannot_do_is_refused() {
    let target = "sim:darc?workers=14";
    for (args, reason) in [
        (&["--mix", "GET@1/s"][..], "needs --workload"),
        (&["--workload", "tpcc"], "give either --rate"),
        (&["--workload", "tpcc", "--closed-loop", "5"], "--closed-loop go with live"),
        (&["--workload", "tpcc", "--rate", "5", "--dilate", "5"], "no --dilate"),
        (&["--workload", "tpcc", "--rate", "1e9"], "load is"),
        (
            &["--workload", "tpcc", "--rate", "1", "--hdr", "/dev/null"],
            "--hdr and --json-lines go with live",
        ),
    ] {
        let output = call(&[&["run", "--target", target], args].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(reason), "{args:?}: {errors}");
    }
}
