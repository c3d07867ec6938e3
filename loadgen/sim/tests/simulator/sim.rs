//! The simulator beyond queueing: costs, phases, classifiers, changes of policy.

use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_sim::simulator::{
    ClassifierModel, Costs, Outcome, PolicySwitch, SimError, SimPlan, SimPolicy, requests, simulate,
};
use psp_sim::workload::{ArrivalProcess, Workload};

fn plan(workload: &str, policy: impl Into<SimPolicy>, workers: usize, load: f64) -> SimPlan {
    let workload = Workload::named_or_file(workload).unwrap();
    SimPlan::new(workload, policy, workers, load).requests(50_000)
}

fn run(plan: &SimPlan) -> Outcome {
    simulate(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Requests of 1 us, so far apart that no two overlap.
fn lonely(policy: Policy, costs: Costs) -> SimPlan {
    let mut plan = plan("fixed", policy, 4, 0.01).requests(1_000);
    plan.workload.arrivals = ArrivalProcess::Uniform;
    plan.costs = costs;
    plan
}

fn latency_ns(plan: &SimPlan) -> (u64, u64) {
    let latency_ns = &run(plan).types[0].latency_ns;
    (latency_ns.min(), latency_ns.max())
}

#[test]
fn the_same_plan_has_the_same_outcome_and_another_seed_another() {
    for name in SimPolicy::names() {
        let policy: SimPolicy = name.parse().unwrap();
        let mut plan = plan("high-bimodal", policy, 4, 0.7).requests(20_000);
        let outcome = run(&plan);
        assert_eq!(run(&plan), outcome, "{name}");
        plan.seed += 1;
        assert_ne!(run(&plan), outcome, "{name}");
    }
}

#[test]
fn all_policies_see_the_same_requests() {
    let of_policy = |name: &str| {
        let policy: SimPolicy = name.parse().unwrap();
        let outcome = run(&plan("tpcc", policy, 4, 0.7));
        let types = outcome.types.iter();
        let counts: Vec<u64> = types.map(|ty| ty.completed + ty.rejected).collect();
        (outcome.duration_ns, counts)
    };
    let c_fcfs = of_policy("c-fcfs");
    for name in SimPolicy::names() {
        assert_eq!(of_policy(name), c_fcfs, "{name}");
    }
}

#[test]
fn a_dispatcher_delays_what_it_classifies_and_dispatches() {
    let costs = Costs {
        classify_ns: 100,
        dispatch_ns: 30,
        channel_ns: 7,
        ..Costs::default()
    };
    assert_eq!(latency_ns(&lonely(Policy::c_fcfs(), Costs::default())), (1_000, 1_000));
    assert_eq!(latency_ns(&lonely(Policy::c_fcfs(), costs)), (1_137, 1_137));
    // Workers that classify requests themselves pay no dispatcher.
    assert_eq!(latency_ns(&lonely(Policy::d_fcfs(), costs)), (1_100, 1_100));
}

#[test]
fn the_network_is_part_of_latencies_and_nobodys_time() {
    let costs = Costs { network_ns: 9_000, ..Costs::FREE };
    for policy in [Policy::c_fcfs(), Policy::d_fcfs()] {
        let plan = lonely(policy, costs);
        let outcome = run(&plan);
        assert_eq!(outcome.types[0].latency_ns.min(), 10_000);
        let slowdown = outcome.overall.at(0.5);
        assert!((slowdown - 10.0).abs() < 0.01, "{slowdown}");
        assert_eq!(outcome.overhead, 0.0);
    }
}

/// A timer core asks one worker after the other, and so preempts less where that takes long.
#[test]
fn a_timer_core_is_a_bottleneck_too() {
    let preemptions = |send_ns| {
        let mut plan = plan("high-bimodal", Policy::synergy(), 14, 0.9);
        plan.preemption = true;
        plan.costs.send_ns = send_ns;
        run(&plan).preemptions
    };
    let [free, slow] = [0, 5_000].map(preemptions);
    assert!(slow * 5 < free * 4, "{slow} of {free}");
}

#[test]
fn one_dispatcher_is_a_bottleneck_that_two_are_not() {
    let mut plan = plan("fixed", Policy::c_fcfs(), 8, 0.75);
    plan.queue_capacity = 1_000;
    plan.costs.classify_ns = 100;
    plan.costs.dispatch_ns = 100;
    // 6 requests per microsecond arrive; a dispatcher can do 5.
    let share_rejected = |plan: &SimPlan| run(plan).rejected as f64 / plan.requests as f64;
    let rejected = share_rejected(&plan);
    assert!((0.1..0.2).contains(&rejected), "{rejected}");
    plan.costs.dispatchers = 2;
    assert_eq!(share_rejected(&plan), 0.0);
}

#[test]
fn a_busy_worker_waits_for_the_channel_both_ways() {
    // One worker that is never idle: each request takes two ways, its dispatch and its service.
    let mut plan = plan("fixed", Policy::c_fcfs(), 1, 2.0);
    plan.queue_capacity = 100;
    plan.costs.channel_ns = 150;
    plan.costs.dispatch_ns = 200;
    let outcome = run(&plan);
    let per_request_ns = outcome.duration_ns as f64 / outcome.completed as f64;
    assert!((per_request_ns / 1_500.0 - 1.0).abs() < 0.01, "{per_request_ns}");
    assert!((outcome.utilization - 1.0 / 1.5).abs() < 0.01);
    assert!((outcome.overhead - 0.5 / 1.5).abs() < 0.01);
}

/// Without stealing a worker serves what it receives. With it the others help.
#[test]
fn requests_of_a_flow_have_one_receiver() {
    let with_flows = |policy, flows| {
        let mut plan = plan("fixed", policy, 14, 0.3);
        plan.flows = Some(flows);
        plan
    };
    let few = with_flows(Policy::d_fcfs(), 8);
    let mut received_ns = [0; 14];
    for request in requests(&few).unwrap().iter().skip(few.warmup as usize) {
        received_ns[request.receiver.unwrap().index()] += request.service_ns;
    }
    let outcome = run(&few);
    let served = outcome.worker_utilization.iter().zip(received_ns);
    for (utilization, received_ns) in served {
        let share = received_ns as f64 / outcome.duration_ns as f64;
        // A worker that gets more than it can serve does not keep up.
        assert!((utilization - share.min(1.0)).abs() < 0.01, "{utilization} {share}");
    }
    let idle = |outcome: &Outcome| {
        let workers = outcome.worker_utilization.iter();
        workers.filter(|utilization| **utilization == 0.0).count()
    };
    assert!(idle(&outcome) >= 6, "{outcome:?}");
    assert_eq!(idle(&run(&with_flows(Policy::d_fcfs(), 512))), 0);
    assert_eq!(idle(&run(&with_flows(Policy::stealing(), 8))), 0);
    let dispatched = requests(&with_flows(Policy::c_fcfs(), 8)).unwrap();
    assert!(dispatched.iter().all(|request| request.receiver.is_none()));
}

#[test]
fn overload_is_rejected_and_counted() {
    for name in SimPolicy::names() {
        let policy: SimPolicy = name.parse().unwrap();
        let mut plan = plan("high-bimodal", policy, 4, 3.0);
        plan.queue_capacity = 100;
        let outcome = run(&plan);
        assert_eq!(outcome.completed + outcome.rejected, outcome.arrived, "{name}");
        assert_eq!(outcome.arrived, plan.requests, "{name}");
        assert!(outcome.rejected > plan.requests / 10, "{name}");
        // Short requests need a hundredth of the workers that are reserved for them.
        let open = (plan.workers - outcome.types[0].workers_reserved) as f64 / plan.workers as f64;
        let utilization = outcome.utilization;
        assert!(utilization > 0.9 * open, "{name}: {utilization} of {open}");
    }
}

/// The policy of that name. The studies of the portfolio are short.
fn with_short_studies(name: &str) -> Policy {
    match name.parse().unwrap() {
        Policy::Portfolio(settings) => settings.trial_requests(256).into(),
        policy => policy,
    }
}

#[test]
fn a_change_of_policy_loses_nothing() {
    let names: Vec<&str> = SimPolicy::names().filter(|name| !["ps", "srpt"].contains(name)).collect();
    for first in &names {
        for next in &names {
            let policy = with_short_studies(first);
            let mut plan = plan("high-bimodal", policy, 4, 0.9).requests(4_000);
            plan.preemption = true;
            plan.costs.channel_ns = 50;
            plan.switch = Some(PolicySwitch { at_request: 2_000, policy: with_short_studies(next) });
            for (migrates, contexts) in [(true, None), (false, None), (false, Some(3))] {
                plan.migrates = migrates;
                plan.contexts = contexts;
                let outcome = run(&plan);
                assert_eq!(outcome.completed, 4_000, "from {first} to {next}");
            }
        }
    }
}

#[test]
fn a_change_of_policy_changes_what_follows() {
    let mut plan = plan("high-bimodal", Policy::d_fcfs(), 14, 0.7);
    let short = |plan: &SimPlan| run(plan).types[0].slowdown.at(0.99);
    let before = short(&plan);
    plan.switch = Some(PolicySwitch { at_request: 0, policy: Policy::darc() });
    plan.hints = true;
    assert!(short(&plan) < before / 10.0);
    plan.policy = SimPolicy::Ps;
    let error = simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error, SimError::Switch(Box::new(SimPolicy::Ps)));
}

#[test]
fn hints_reserve_workers_from_the_start() {
    let mut plan = plan("tpcc", Policy::darc(), 14, 0.5).requests(20);
    plan.warmup = 0;
    let reserved = |plan: &SimPlan| -> Vec<usize> {
        let types = run(plan).types;
        types.iter().map(|ty| ty.workers_reserved).collect()
    };
    assert_eq!(reserved(&plan), [0; 5]);
    plan.hints = true;
    // Perséphone 5.4.3.
    assert_eq!(reserved(&plan), [2, 2, 6, 6, 6]);
}

#[test]
fn a_random_classifier_makes_types_alike() {
    let mut plan = plan("high-bimodal", Policy::darc(), 14, 0.6).requests(200_000);
    // Longer than the first profiling window.
    plan.warmup = 100_000;
    let short = |plan: &SimPlan| run(plan).types[0].slowdown.at(0.999);
    let exact = short(&plan);
    plan.classifier = ClassifierModel::Random;
    let random = short(&plan);
    plan.policy = Policy::c_fcfs().into();
    let c_fcfs = short(&plan);
    assert!(random > 3.0 * exact, "{random} {exact}");
    assert!((0.5..2.0).contains(&(random / c_fcfs)), "{random} {c_fcfs}");
}

const CHANGING: &str = "
    [[type]]
    name = 'A'
    share = 0.5
    service_us = 1
    [[type]]
    name = 'B'
    share = 0.5
    service_us = 9
    [[phase]]
    duration_ms = 4
    [[phase]]
    requests = 5000
    load = 0.5
    [[phase.type]]
    name = 'A'
    share = 1
    [[phase.type]]
    name = 'B'
    share = 0
    [[phase]]";

#[test]
fn phases_change_rates_and_shares_and_the_timeline_shows_them() {
    let workload = Workload::from_toml("changing", CHANGING).unwrap();
    let mut plan = SimPlan::new(workload, Policy::darc(), 10, 0.5).requests(20_000);
    // One request per microsecond, then 2.5, then one again; the second phase takes 2 ms.
    plan.timeline_ns = Some(1_000_000);
    let outcome = run(&plan);
    let completed: Vec<[f64; 2]> = outcome
        .timeline
        .iter()
        .map(|bucket| [0, 1].map(|slot| bucket.types[slot].completed as f64 / 1e3))
        .collect();
    for (bucket, expected) in [(1, [0.5, 0.5]), (4, [2.5, 0.0]), (8, [0.5, 0.5])] {
        let close = |(measured, expected): (f64, f64)| (measured - expected).abs() < 0.2;
        let pairs = completed[bucket].into_iter().zip(expected);
        assert!(pairs.clone().all(close), "{bucket}: {:?}", completed[bucket]);
        let utilization = outcome.timeline[bucket].utilization;
        let offered = if bucket == 4 { 0.25 } else { 0.5 };
        assert!((utilization - offered).abs() < 0.1, "{utilization}");
    }
    let total: u64 = outcome.timeline.iter().flat_map(|bucket| &bucket.types).map(|ty| ty.completed).sum();
    assert_eq!(total, outcome.completed);
    let starts = outcome.timeline.iter().map(|bucket| bucket.start_ns / 1_000_000);
    assert!(starts.eq(0..outcome.timeline.len() as u64));
}

#[test]
fn bursts_lengthen_the_tail() {
    let mut plan = plan("exponential", Policy::c_fcfs(), 4, 0.5);
    let tail = |plan: &SimPlan| run(plan).types[0].latency_ns.value_at_quantile(0.99);
    let poisson = tail(&plan);
    plan.workload.arrivals = ArrivalProcess::Bursty(Default::default());
    assert!(tail(&plan) > 2 * poisson);
}

#[test]
fn the_caller_can_end_it_and_gets_what_is_done() {
    let mut plan = plan("exponential", Policy::c_fcfs(), 4, 0.5).requests(1_000_000);
    plan.warmup = 0;
    let mut told = Vec::new();
    let outcome = simulate(&plan, &mut |arrived| {
        told.push(arrived);
        if arrived < 200_000 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })
    .unwrap();
    assert!(outcome.interrupted && told.is_sorted());
    assert_eq!(outcome.completed, outcome.arrived);
    assert_eq!(Some(&outcome.arrived), told.last());
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    type Change = fn(&mut SimPlan);
    let changes: [(&str, Change); 13] = [
        ("at least one worker", |plan| plan.workers = 0),
        ("workers is 5000", |plan| plan.workers = 5_000),
        ("load is 0", |plan| plan.load = 0.0),
        ("load is NaN", |plan| plan.load = f64::NAN),
        ("requests is 0", |plan| plan.requests = 0),
        ("warm-up is", |plan| plan.warmup = u64::MAX),
        ("the simulated time", |plan| plan.load = 1e-9),
        ("dispatchers is 0", |plan| plan.costs.dispatchers = 0),
        ("servers is 0", |plan| plan.cluster.servers = 0),
        ("servers is 1000", |plan| plan.cluster.servers = 1_000),
        ("the delay of feedback", |plan| {
            plan.cluster.feedback_delay_ns = u64::MAX;
        }),
        ("the longest cost", |plan| plan.costs.steal_ns = u64::MAX),
        ("number of buckets", |plan| plan.timeline_ns = Some(1)),
    ];
    for (reason, change) in changes {
        let mut plan = plan("tpcc", Policy::c_fcfs(), 4, 0.5).requests(1_000_000);
        change(&mut plan);
        let error = plan.validate().unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
}

/// What conserves work idles no worker while requests wait, and DARC idles what it reserves.
#[test]
fn idle_cores_are_those_that_might_not_run_what_waits() {
    let idle = |policy| {
        let mut plan = plan("high-bimodal", policy, 14, 0.98);
        plan.hints = true;
        run(&plan).reserved_idle_cores
    };
    assert_eq!(idle(Policy::c_fcfs()), 0.0);
    let reserved = idle(Policy::darc());
    assert!((0.7..0.9).contains(&reserved), "{reserved}");
    assert!(idle(Policy::d_fcfs()) > 0.1);
}
