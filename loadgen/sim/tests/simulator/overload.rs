//! Overload with and without admission.

use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_policy::admission::AdmissionSettings;
use psp_sim::experiment::{Scope, Slo, Tolerance, capacity};
use psp_sim::parallel;
use psp_sim::simulator::{Outcome, SimPlan, Stall, TimelineBucket, TypeOutcome, simulate};
use psp_sim::tournament::mix;
use psp_sim::workload::{Clients, Phase, PhaseLength, Workload};

const WORKERS: usize = 14;

/// The SLO, in service times.
const SLOWDOWN: f64 = 10.0;

/// A server as live ones are, under one of the policies that users pick.
fn plan(workload: &Workload, policy: &str, load: f64, requests: u64) -> SimPlan {
    let policy: Policy = policy.parse().unwrap();
    let mut plan = SimPlan::new(workload.clone(), policy, WORKERS, load).requests(requests);
    plan.preemption = true;
    plan.hints = true;
    plan.queue_capacity = 1024;
    plan
}

fn named(workload: &str, policy: &str, load: f64, requests: u64) -> SimPlan {
    plan(&Workload::named(workload).unwrap(), policy, load, requests)
}

fn admitting(plan: &SimPlan) -> SimPlan {
    SimPlan { overload: plan.overload.admitting(), ..plan.clone() }
}

fn run(plan: &SimPlan) -> Outcome {
    simulate(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The load that the policy sustains at the SLO.
fn sustained(plan: &SimPlan, tolerance: f64) -> f64 {
    let slo = Slo { slowdown: SLOWDOWN, percentile: 99.9, scope: Scope::PerType };
    let tolerance = Tolerance::Absolute(tolerance);
    capacity(plan, &slo, tolerance, &mut |_| ControlFlow::Continue(())).unwrap().load
}

/// The parts of all workers' time that types have if they share fairly: each what it asks for or an equal part.
fn fair_parts(workload: &Workload, load: f64) -> Vec<f64> {
    let mean_ns = workload.service_ns_mean();
    let asked = workload.types.iter().map(|ty| load * ty.share * ty.service_ns as f64 / mean_ns);
    let asked: Vec<f64> = asked.collect();
    let taken = |level: f64| asked.iter().map(|asked| asked.min(level)).sum::<f64>();
    let level = (0..=10_000).map(|step| f64::from(step) / 1e4).take_while(|level| taken(*level) <= 1.0);
    let level = level.last().unwrap_or(0.0);
    asked.iter().map(|asked| asked.min(level)).collect()
}

/// Of the type that has the least of its fair part of what the policy sustains: how much of it.
fn least_of_fair_part(plan: &SimPlan, outcome: &Outcome, sustained: f64) -> f64 {
    let fair = fair_parts(&plan.workload, plan.load);
    let of_fair = outcome.types.iter().zip(fair).map(|(ty, fair)| ty.goodput / (fair * sustained.min(1.0)));
    of_fair.fold(f64::INFINITY, f64::min)
}

fn of_type(ty: &TypeOutcome) -> String {
    let refused = ty.refused.iter().sum::<u64>();
    let offered = (ty.completed + ty.dropped + ty.rejected + refused) as f64;
    let (in_time, slowdown) = (ty.in_time as f64 / offered, ty.slowdown.at(0.99));
    format!(
        "{} {:.3} ({in_time:.2} in time, p99 {slowdown:.1}, refused {:?}, dropped {})",
        ty.name, ty.goodput, ty.refused, ty.dropped
    )
}

#[test]
fn what_is_answered_in_time_stays_near_what_the_policy_sustains() {
    let cells = ["c-fcfs", "darc", "sq"].map(|policy| ("high-bimodal", policy));
    let results = parallel::map(&cells, parallel::cores(), |(workload, policy)| {
        let base = named(workload, policy, 1.0, 30_000);
        let sustained = sustained(&base, 0.04);
        [1.2, 3.0].map(|load| {
            let plan = SimPlan { load, ..base.clone() };
            let with = run(&admitting(&plan));
            (
                policy.to_owned(),
                load,
                with.goodput / sustained,
                least_of_fair_part(&plan, &with, 0.9),
                run(&plan).goodput / sustained,
            )
        })
    });
    for (policy, load, with, least, without) in results.into_iter().flatten() {
        let about = format!("{policy} at {load}: {with:.2} with, least type {least:.2}, {without:.2} without");
        assert!(with > 0.95 && least > 0.9 && without < 0.1, "{about}");
    }
}

/// Each workload, policy and load of the page on overload.
#[test]
#[ignore = "minutes"]
fn study() {
    let from_env = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let requests = from_env("REQS", "100000").parse().unwrap();
    let workloads = from_env(
        "W",
        "high-bimodal,extreme-bimodal,tpcc,rocksdb,zippydb,trimodal,leveldb,fixed,exponential,lognormal",
    );
    let mixes: u32 = from_env("MIXES", "40").parse().unwrap();
    let policies = from_env("P", "c-fcfs,darc,sq");
    let mut cells = Vec::new();
    let named = workloads
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| Workload::named(name).unwrap());
    for workload in named.chain((0..mixes).map(mix)) {
        cells.extend(policies.split(',').map(|policy| (workload.clone(), policy.to_owned())));
    }
    let found = parallel::map(&cells, parallel::cores(), |(workload, policy)| {
        let base = plan(workload, policy, 1.0, requests);
        let sustained = sustained(&base, 0.02);
        let mut lines = format!("{} {policy}: sustains {sustained:.2}\n", workload.name);
        let mut ratios = Vec::new();
        for load in [0.8, 1.2, 2.0, 3.0] {
            let plan = SimPlan { load, ..base.clone() };
            let (without, with) = (run(&plan), run(&admitting(&plan)));
            let least = least_of_fair_part(&plan, &with, with.goodput);
            let types: Vec<String> = with.types.iter().map(of_type).collect();
            let (without, with, used) = (without.goodput, with.goodput, with.utilization);
            lines += &format!(
                "  {load}: without {without:.3} with {with:.3} used {used:.3} least {least:.2} | {}\n",
                types.join(" | ")
            );
            if load > 1.0 {
                ratios.push((with / sustained.max(0.01), least, format!("{} {policy} {load}", workload.name)));
            }
        }
        println!("{lines}");
        ratios
    });
    let mut ratios: Vec<_> = found.into_iter().flatten().collect();
    ratios.sort_by(|one, other| one.1.total_cmp(&other.1));
    println!("least parts: {:.2?}", &ratios[..ratios.len().min(20)]);
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    println!(
        "ratios: median {:.2}, worst {:.2?}",
        ratios[ratios.len() / 2].0,
        &ratios[..ratios.len().min(20)]
    );
}

/// A workload whose load is this for so many milliseconds each.
fn in_phases(workload: &str, loads: &[(f64, f64)]) -> Workload {
    let mut workload = Workload::named(workload).unwrap();
    let phase = |(load, ms): &(f64, f64)| Phase {
        length: PhaseLength::Time { duration_ns: (ms * 1e6) as u64 },
        load: *load,
        types: workload.types.clone(),
    };
    workload.phases = loads.iter().map(phase).collect();
    workload
}

/// Requests that arrive in so many milliseconds at load 1.
fn arrivals(workload: &Workload, load_ms: f64) -> u64 {
    (workload.rate_rps(1.0, WORKERS) * load_ms / 1e3) as u64
}

fn in_time(bucket: &TimelineBucket) -> f64 {
    let ended = bucket.types.iter().map(|ty| ty.completed).sum::<u64>();
    bucket.types.iter().map(|ty| ty.in_time).sum::<u64>() as f64 / ended.max(1) as f64
}

#[test]
fn after_a_step_of_load_answers_are_soon_in_time_again() {
    for policy in ["c-fcfs", "darc", "sq"] {
        let workload = in_phases("high-bimodal", &[(0.8, 60.0), (1.4, 60.0), (0.8, 60.0)]);
        let requests = arrivals(&workload, 180.0);
        let mut plan = plan(&workload, policy, 1.0, requests);
        plan.timeline_ns = Some(10_000_000);
        let with = run(&admitting(&plan));
        let share: Vec<f64> = with.timeline.iter().map(in_time).collect();
        // 20 ms after each change of the load.
        let settled = [&share[..6], &share[8..12], &share[14..17]].concat();
        assert!(settled.iter().all(|share| *share >= 0.99), "{policy}: {share:.3?}");
    }
}

#[test]
fn a_storm_of_retries_ends_by_itself_only_with_admission() {
    let mut workload = Workload::named("high-bimodal").unwrap();
    workload.clients = Clients { timeout_slowdown: SLOWDOWN, retries: 3, ..Clients::default() };
    let mut plan = plan(&workload, "darc", 0.85, arrivals(&workload, 0.85 * 400.0));
    plan.timeline_ns = Some(20_000_000);
    plan.overload.stall = Some(Stall { from_ns: 60_000_000, length_ns: 100_000_000 });
    let goodput = |plan: &SimPlan| run(plan).timeline.iter().map(TimelineBucket::goodput).collect::<Vec<f64>>();
    let (without, with) = (goodput(&plan), goodput(&admitting(&plan)));
    assert!(without[1] > 0.8 && with[1] > 0.8, "before it");
    assert!(without[12..19].iter().all(|goodput| *goodput < 0.2), "{without:.2?}");
    assert!(with[9..19].iter().all(|goodput| *goodput > 0.75), "{with:.2?}");
}

#[test]
fn urgent_requests_are_in_time_whatever_others_ask_for() {
    for policy in ["c-fcfs", "darc", "sq"] {
        let mut workload = Workload::named("exponential").unwrap();
        let mut shares = vec![0.0; 8];
        (shares[0], shares[7]) = (0.5, 3.0);
        workload.clients.priorities = shares;
        workload.types[0].slo_ns = Some(10_000);
        let plan = plan(&workload, policy, 3.5, 100_000);
        let with = run(&admitting(&plan));
        let urgent = &with.priorities[0];
        let late = 1.0 - urgent.goodput / (urgent.completed as f64 * 1e3 / (with.duration_ns as f64 * 14.0));
        assert!(urgent.unserved < urgent.completed / 1_000, "{policy}: {} unserved", urgent.unserved);
        assert!(urgent.goodput > 0.49 && late.abs() < 0.05, "{policy}: {}", urgent.goodput);
        assert!(with.goodput > 0.9, "{policy}: {}", with.goodput);
    }
}

#[test]
fn a_greedy_tenant_takes_what_the_others_leave() {
    for policy in ["c-fcfs", "darc"] {
        let mut workload = Workload::named("exponential").unwrap();
        workload.clients.tenants = vec![0.1; 9];
        let alone = run(&admitting(&plan(&workload, policy, 0.9, 100_000)));
        workload.clients.tenants.push(1.0);
        let both = run(&admitting(&plan(&workload, policy, 1.9, 200_000)));
        let p99 = |outcome: &Outcome| {
            let tenants = outcome.tenants[..9].iter().map(|tenant| tenant.slowdown.at(0.99));
            tenants.fold(0.0, f64::max)
        };
        let served = both.tenants[..9].iter().map(|tenant| tenant.unserved as f64 / tenant.completed as f64);
        let unserved = served.fold(0.0, f64::max);
        assert!(unserved < 0.05, "{policy}: {unserved} of the others, {:?}", both.types[0].refused);
        assert!(p99(&both) <= 1.5 * p99(&alone), "{policy}: {} {}", p99(&both), p99(&alone));
        assert!(both.utilization > 0.95, "{policy}: {}", both.utilization);
    }
}

#[test]
fn a_request_ends_in_one_way_and_memory_is_bounded() {
    let mut plan = named("tpcc", "darc", 3.0, 50_000);
    plan.overload.admission = Some(AdmissionSettings::default().slo_slowdown(SLOWDOWN).requests_max(20));
    let outcome = run(&plan);
    assert_eq!(outcome.completed + outcome.rejected + outcome.refused + outcome.dropped, 50_000);
    let out_of_room = outcome.types.iter().map(|ty| ty.refused[3]).sum::<u64>();
    assert!(out_of_room > 0 && outcome.in_system_mean <= 20.0);
}

#[test]
fn requests_are_not_begun_after_their_deadlines() {
    let mut plan = named("high-bimodal", "c-fcfs", 1.2, 20_000);
    plan.workload.clients = Clients { timeout_slowdown: 20.0, deadline: true, ..Clients::default() };
    let without = run(&plan);
    assert!(without.dropped > 1_000, "by the driver alone");
    let with = run(&admitting(&plan));
    assert!(with.goodput > without.goodput && with.refused > with.dropped);
}
