//! The live dispatcher under a dilated workload: 14 sleeping workers on any number of cores.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use psp_loadgen::clients;
use psp_loadgen::report::Report;
use psp_loadgen::schedule::{LiveWorkload, OfferedLoad, RunPlan, Waiting};
use psp_loadgen::wire::Target;
use psp_server::{Policy, Topology};
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

const WORKERS: usize = 14;
/// A short request sleeps for 1 ms, a long one for 100 ms.
const DILATION: u32 = 1_000;
const LOAD: f64 = 0.85;

/// Runs High Bimodal against a server of its own.
fn measure(policy: Policy) -> Report {
    let server = startup::build(Config {
        port: 0,
        mode: Mode::Sleep,
        hints: true,
        dilate: DILATION,
        policy,
        server: psp_server::Config::default().workers(WORKERS).topology(Topology::Dedicated),
        ..Config::default()
    });
    let server = server.unwrap().spawn().unwrap();
    let target: Target = format!("psp://{}", server.local_addrs()[0]).parse().unwrap();
    let workload = LiveWorkload::named_or_file("high-bimodal").unwrap();
    let offered = OfferedLoad::Workers { load: LOAD, workers: WORKERS };
    let types = workload.type_plans(target.protocol, offered, DILATION).unwrap();
    let plan = RunPlan {
        seed: 7,
        warmup: Duration::from_millis(500),
        duration: Duration::from_secs(5),
        timeout: Duration::from_secs(20),
        outstanding_max: 10_000,
        dilation: DILATION,
        waiting: Waiting::SleepThenSpin(Duration::ZERO),
        ..RunPlan::new(target, types)
    };
    let result = clients::run(&plan, &Arc::default(), &mut ()).unwrap();
    server.shut_down();
    server.join().unwrap();
    Report::new(&plan, &result)
}

#[test]
fn short_requests_are_far_faster_under_darc_than_under_c_fcfs() {
    let measured = [Policy::c_fcfs(), Policy::darc()].map(|policy| thread::spawn(|| measure(policy)));
    let [c_fcfs, darc] = measured.map(|it| it.join().unwrap());
    for report in [&c_fcfs, &darc] {
        assert_eq!(report.overall.completed, report.overall.scheduled, "{report}");
        assert!(report.overall.completed > 500, "{report}");
    }
    // Not the p99: occasional stalls of the machine of 50 ms determine the p99.
    let short_p90 = |report: &Report| report.types[0].summary.latency_us.unwrap().p90;
    let ratio = short_p90(&c_fcfs) / short_p90(&darc);
    assert!(ratio > 3.0, "ratio {ratio}\n{c_fcfs}\n{darc}");
}
