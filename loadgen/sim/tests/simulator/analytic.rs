//! Compares the simulator with exact results of queueing theory. Seeds are fixed, and bounds are
//! wide enough for the noise of this number of requests.

use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_sim::simulator::{Outcome, SimPlan, SimPolicy, simulate};
use psp_sim::workload::{Distribution, Workload, WorkloadType};

const SERVICE_NS: u64 = 10_000;
const EXPONENTIAL: Distribution = Distribution::Exponential;
const LOGNORMAL: Distribution = Distribution::Lognormal { sigma: 1.0 };

fn type_of(name: &str, share: f64, service_ns: u64, distribution: Distribution) -> WorkloadType {
    WorkloadType {
        name: name.to_owned(),
        share,
        service_ns,
        distribution,
        wait_ns: 0,
        slo_ns: None,
        weight: None,
    }
}

fn one_type(distribution: Distribution) -> Workload {
    Workload::of_types("one", vec![type_of("A", 1.0, SERVICE_NS, distribution)])
}

fn bimodal() -> Workload {
    let fixed = Distribution::Fixed;
    let types = vec![type_of("short", 0.9, 5_000, fixed), type_of("long", 0.1, 55_000, fixed)];
    Workload::of_types("bimodal", types)
}

fn run(workload: Workload, policy: impl Into<SimPolicy>, workers: usize, load: f64) -> Outcome {
    let plan = SimPlan::new(workload, policy, workers, load).requests(1_500_000);
    let outcome = simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((outcome.completed, outcome.rejected), (1_500_000, 0));
    assert_close(outcome.utilization, load, "utilization");
    outcome
}

fn latency_ns_mean(outcome: &Outcome) -> f64 {
    let types = outcome.types.iter();
    let total: f64 = types.map(|ty| ty.latency_ns.mean() * ty.completed as f64).sum();
    total / outcome.completed as f64
}

/// Within 2 %.
fn assert_close(measured: f64, exact: f64, what: &str) {
    assert!((measured / exact - 1.0).abs() < 0.02, "{what}: {measured}, exactly {exact}");
}

/// Mean waiting time of M/G/1, as a multiple of the mean service time (Pollaczek and Khinchine).
/// `variation` is the squared coefficient of variation of service times.
fn pollaczek_khinchine(load: f64, variation: f64) -> f64 {
    load * (1.0 + variation) / (2.0 * (1.0 - load))
}

/// Mean waiting time of M/M/k, as a multiple of the mean service time (Erlang C).
fn erlang_c(workers: u32, load: f64) -> f64 {
    let offered = load * f64::from(workers);
    // Erlang B by its recursion, and C from B.
    let blocked = (1..=workers).fold(1.0, |blocked, worker| {
        let weight = offered * blocked;
        weight / (f64::from(worker) + weight)
    });
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    waits / (f64::from(workers) * (1.0 - load))
}

fn assert_waiting(workload: Workload, workers: usize, load: f64, exact: f64) {
    let service_ns = workload.service_ns_mean();
    let name = format!("{}, {workers} workers, load {load}", workload.name);
    let outcome = run(workload, Policy::c_fcfs(), workers, load);
    let waited = latency_ns_mean(&outcome) / service_ns - 1.0;
    assert_close(waited, exact, &name);
}

#[test]
fn the_formulas_agree_where_they_meet() {
    assert!((erlang_c(1, 0.6) - pollaczek_khinchine(0.6, 1.0)).abs() < 1e-12);
}

#[test]
fn one_worker_and_exponential_service_wait_as_in_m_m_1() {
    let exact = pollaczek_khinchine(0.6, 1.0);
    assert_waiting(one_type(EXPONENTIAL), 1, 0.6, exact);
}

/// The percentiles that reports give. Time in the system is exponential.
#[test]
fn percentiles_of_one_worker_are_those_of_m_m_1() {
    let outcome = run(one_type(EXPONENTIAL), Policy::c_fcfs(), 1, 0.6);
    let reported = outcome.types[0].latency_us().unwrap();
    let mean_us = SERVICE_NS as f64 / 1e3 / (1.0 - 0.6);
    assert_close(reported.mean, mean_us, "mean");
    for (quantile, reported_us) in
        [(0.5, reported.p50), (0.9, reported.p90), (0.99, reported.p99), (0.999, reported.p999)]
    {
        let exact = -(1.0_f64 - quantile).ln() * mean_us;
        let error = reported_us / exact - 1.0;
        assert!(error.abs() < 0.05, "{quantile}: {reported_us}, exactly {exact}");
    }
}

#[test]
fn many_workers_and_exponential_service_wait_as_erlang_says() {
    for (workers, load) in [(4, 0.7), (16, 0.8)] {
        let exact = erlang_c(workers, load);
        assert_waiting(one_type(EXPONENTIAL), workers as usize, load, exact);
    }
}

#[test]
fn one_worker_and_fixed_service_wait_as_in_m_d_1() {
    let exact = pollaczek_khinchine(0.7, 0.0);
    assert_waiting(one_type(Distribution::Fixed), 1, 0.7, exact);
}

#[test]
fn one_worker_and_any_service_wait_as_in_m_g_1() {
    let lognormal = 1_f64.exp() - 1.0;
    let exact = pollaczek_khinchine(0.6, lognormal);
    assert_waiting(one_type(LOGNORMAL), 1, 0.6, exact);
    // (0.9 * 5^2 + 0.1 * 55^2) / 10^2 - 1
    let exact = pollaczek_khinchine(0.6, 2.25);
    assert_waiting(bimodal(), 1, 0.6, exact);
}

#[test]
fn a_worker_each_is_as_many_single_workers() {
    let outcome = run(one_type(EXPONENTIAL), Policy::d_fcfs(), 8, 0.6);
    let waited = latency_ns_mean(&outcome) / SERVICE_NS as f64 - 1.0;
    assert_close(waited, pollaczek_khinchine(0.6, 1.0), "d-FCFS");
}

#[test]
fn processor_sharing_minds_the_mean_service_time_only() {
    for workload in [one_type(EXPONENTIAL), one_type(LOGNORMAL), bimodal()] {
        let (name, service_ns) = (workload.name.clone(), workload.service_ns_mean());
        let outcome = run(workload, SimPolicy::Ps, 1, 0.6);
        assert_close(latency_ns_mean(&outcome) / service_ns, 2.5, &name);
        // The slowdown is the same for requests of any length.
        for ty in &outcome.types {
            assert_close(ty.slowdown.mean(), 2.5, &ty.name);
        }
    }
}

/// Mean latency of M/M/1 under SRPT as a multiple of the mean service time (Schrage and Miller,
/// 1966), by the midpoint rule.
fn srpt_exponential(load: f64) -> f64 {
    const STEP: f64 = 1e-3;
    let (mut first, mut second, mut served, mut total) = (0.0, 0.0, 0.0, 0.0);
    for step in 0..40_000 {
        let size = (f64::from(step) + 0.5) * STEP;
        let density = (-size).exp();
        first += size * density * STEP;
        second += size * size * density * STEP;
        let left = 1.0 - load * first;
        served += STEP / left;
        // The tail of the distribution at `size` equals its density.
        let waits = load * (second + size * size * density) / (2.0 * left * left);
        total += (waits + served) * density * STEP;
    }
    total
}

#[test]
fn srpt_is_as_fast_as_theory_says_and_faster_than_others() {
    let srpt = run(one_type(EXPONENTIAL), SimPolicy::Srpt, 1, 0.7);
    let latency = latency_ns_mean(&srpt) / SERVICE_NS as f64;
    assert_close(latency, srpt_exponential(0.7), "SRPT");
    let means = [SimPolicy::Srpt, SimPolicy::Ps, SimPolicy::Live(Policy::c_fcfs())]
        .map(|policy| latency_ns_mean(&run(bimodal(), policy, 2, 0.8)));
    assert!(means.is_sorted(), "{means:?}");
}

#[test]
fn srpt_of_equal_requests_is_first_come_first_served() {
    let fixed = || one_type(Distribution::Fixed);
    let srpt = run(fixed(), SimPolicy::Srpt, 3, 0.8);
    let c_fcfs = run(fixed(), Policy::c_fcfs(), 3, 0.8);
    assert_eq!(srpt.types[0].latency_ns, c_fcfs.types[0].latency_ns);
}

/// The number in the system is measured over time, latencies request by request.
#[test]
fn littles_law_holds() {
    for policy in [
        SimPolicy::Live(Policy::c_fcfs()),
        SimPolicy::Live(Policy::darc()),
        SimPolicy::Ps,
        SimPolicy::Srpt,
    ] {
        let name = policy.to_string();
        let outcome = run(bimodal(), policy, 8, 0.75);
        let per_ns = outcome.arrived as f64 / outcome.duration_ns as f64;
        let exact = per_ns * latency_ns_mean(&outcome);
        let ratio = outcome.in_system_mean / exact;
        assert!((ratio - 1.0).abs() < 0.002, "{name}: {ratio}");
    }
}
