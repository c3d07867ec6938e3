//! Workers that receive for themselves, beside the simulator.
//!
//! Requests belong to 512 flows, as in Synergy's paper. Dilated, even the shortest one takes longer than `long-us`, so
//! a worker leaves its socket to others before each: an idle worker finds at once what came to a busy one, as in the
//! paper and in the simulator. Under d-FCFS it keeps its socket, as there. With sockets that move, psp's `d-fcfs` is
//! another policy: an idle worker takes what waits behind a long request. The long comparison prints it, too.

use psp_server::policy::Synergy;
use psp_server::{Policy, PreemptPolicy, Topology};

use super::compared::{Compared, DIFFERENCE_MAX, at, table};
use super::measure::measure;
use super::point::Point;
use super::{ATTEMPTS, SHORT_ATTEMPTS};

/// Flows of the paper's client.
pub(super) const FLOWS: usize = 512;
/// What workers without a dispatcher do, from the worst to the best for short requests.
const FROM_WORST: [&str; 3] = ["d-fcfs", "stealing", "synergy"];

/// A policy that needs no dispatcher, on workers that receive for themselves.
pub(super) fn point(
    workload: &'static str,
    (dilation, stretch): (u32, u32),
    load: f64,
    measured_s: f64,
    policy: impl Into<Policy>,
) -> Point {
    let policy = policy.into();
    Point {
        workload,
        dilation,
        stretch,
        load,
        measured_s,
        topology: Topology::Distributed,
        queue_capacity: 1024,
        flows: Some(FLOWS),
        sockets_move: policy != Policy::d_fcfs(),
        preempt: PreemptPolicy::Signal,
        seed: 11,
        policy,
    }
}

/// Synergy, whose first quantum of 5 us is dilated: a microsecond lasts for `us`.
pub(super) fn synergy(us: f64) -> Synergy {
    Synergy::default().quantum_us(5.0 * us)
}

fn policies(factor: u32) -> [Policy; 4] {
    [
        Policy::d_fcfs(),
        Policy::stealing(),
        synergy(factor.into()).into(),
        Policy::darc_distributed(),
    ]
}

/// The short comparison: of the order alone, which stalls of the machine hardly change. Measured again where they did.
#[test]
fn short_requests_wait_longest_where_workers_keep_theirs_and_least_under_synergy() {
    const QUANTILE: f64 = 0.9;
    const LOAD: f64 = 0.8;
    let points = policies(4000).map(|policy| point("high-bimodal", (4000, 1), LOAD, 10.0, policy));
    let mut failures = String::new();
    for _ in 0..SHORT_ATTEMPTS {
        let (found, _) = measure(points.iter());
        match check_order(&found, QUANTILE, LOAD) {
            Ok(_) => return,
            Err(message) => failures += &message,
        }
    }
    panic!("in {SHORT_ATTEMPTS} runs:\n{failures}");
}

/// Says how much load short requests sustain under each policy of [`FROM_WORST`], whose order it checks.
fn check_order(found: &[Compared<'_>], quantile: f64, load: f64) -> Result<String, String> {
    let short = |name: &str| {
        let wanted = |it: &&Compared<'_>| (it.point.load, it.point.policy.name()) == (load, name);
        at(quantile, &found.iter().find(wanted).unwrap().all[0])
    };
    let slowdowns = FROM_WORST.map(short);
    let text = format!("load {load}, {FROM_WORST:?}: {slowdowns:.1?}\n");
    match slowdowns.is_sorted_by(|worse, better| *worse > 1.5 * better) {
        true => Ok(text),
        false => Err(text),
    }
}

/// Each point of several seeds as one.
fn pooled<'p>(points: &[&'p Vec<Point>]) -> Vec<Compared<'p>> {
    let (found, _) = measure(points.iter().copied().flatten());
    let mut found = found.into_iter();
    let of_point = |seeds: &&Vec<Point>| {
        let first = found.next().unwrap();
        first.with(found.by_ref().take(seeds.len() - 1))
    };
    points.iter().map(of_point).collect()
}

/// Points that differ are measured again.
#[test]
#[ignore = "takes six to twelve minutes"]
fn workers_that_receive_for_themselves_do_what_the_simulator_says() {
    const QUANTILE: f64 = 0.999;
    const DILATION: (u32, u32) = (4000, 5);
    const FACTOR: u32 = DILATION.0 * DILATION.1;
    const MEASURED_S: f64 = 240.0;
    const SEEDS: u64 = 6;
    let loads = [0.5, 0.8];
    let with_seeds = |point: Point| -> Vec<Point> {
        let with_seed = |seed| Point { seed, ..point.clone() };
        (11..11 + SEEDS).map(with_seed).collect()
    };
    let of_load = |load: f64| {
        let policies = policies(FACTOR).into_iter();
        policies.map(move |policy| point("high-bimodal", DILATION, load, MEASURED_S, policy))
    };
    let points: Vec<_> = loads.into_iter().flat_map(of_load).map(with_seeds).collect();
    let moving = loads.map(|load| {
        let still = point("high-bimodal", DILATION, load, MEASURED_S, Policy::d_fcfs());
        with_seeds(Point { sockets_move: true, ..still })
    });
    let all: Vec<_> = points.iter().chain(&moving).collect();
    let mut found = pooled(&all);
    let moved = found.split_off(points.len());
    println!("d-FCFS whose sockets move, beside the simulation of sockets that do not:");
    table(&moved, QUANTILE);
    // Who steals what is chance, and makes the tail of stealing.
    let is_exact = |it: &Compared<'_>| it.point.policy != Policy::stealing();
    let differs = |it: &Compared<'_>| is_exact(it) && it.difference(QUANTILE) > DIFFERENCE_MAX || !it.are_enough();
    table(&found, QUANTILE);
    for _ in 1..ATTEMPTS {
        let differ: Vec<_> = (0..found.len()).filter(|&at| differs(&found[at])).collect();
        let again: Vec<_> = differ.iter().map(|&at| &points[at]).collect();
        for (at, again) in differ.into_iter().zip(pooled(&again)) {
            found[at] = again;
        }
    }
    let mut found_text = table(&found, QUANTILE);
    for load in loads {
        match check_order(&found, QUANTILE, load) {
            Ok(order) => found_text += &order,
            Err(order) => panic!("{found_text}{order}"),
        }
    }
    assert!(!found.iter().any(differs), "{found_text}");
}
