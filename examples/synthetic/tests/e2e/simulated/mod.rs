//! Live servers beside the simulator: the same requests at the same times, under the same policies.
//!
//! Workers sleep for the service time of a request, so that 14 workers and several servers share any number of
//! cores. Service times are dilated, to make the machine's noise small: by the client, and by the server's
//! `stretch` where the header is too narrow. Both comparisons leave out requests, live and simulated, during which
//! the machine stalled. The short one looks at percentiles with enough requests beyond them, and allows for the lag
//! of the machine. The long one looks at p99.9, and dilates so much that a stall of a millisecond does not matter.
//!
//! Workers that receive for themselves have sockets of their own, and a timer core that preempts by signals: a signal
//! ends the sleep of a worker at once. Of each request, client and simulation know which worker receives it.
//!
//! ```text
//!   SimPlan ──► requests ──► client ──► psp-synthetic ──► latency of each ──┐
//!      │                                 witnesses ──► stalls ─────────────► slowdowns
//!      └──────► simulate ───────────────────────────────► latency of each ──┘
//! ```

pub(crate) mod client;
mod compared;
mod distributed;
mod figures;
mod measure;
mod point;
mod sockets;

use std::fmt::Write as _;

use psp_server::{Policy, PreemptPolicy, Topology};

use compared::{Compared, DIFFERENCE_MAX, QUANTILES, at, table};
use measure::measure;
use point::Point;

/// Most measurements of a point. A point that differs is measured again, because stalls of the machine pass.
const ATTEMPTS: usize = 2;
/// The same for the short comparison.
const SHORT_ATTEMPTS: usize = 4;

/// The four policies; quanta are 5 us times `factor`.
fn policies(factor: u32) -> [Policy; 4] {
    let quantum_us = 5.0 * f64::from(factor);
    [
        Policy::c_fcfs(),
        Policy::darc(),
        Policy::mq().quantum_us(quantum_us),
        Policy::darc_lending(),
    ]
}

fn points(loads: &[f64], workload: &'static str, dilation: u32, stretch: u32, measured_s: f64) -> Vec<Point> {
    let loads = loads.iter();
    loads
        .flat_map(|&load| policies(dilation * stretch).map(|policy| (load, policy)))
        .map(|(load, policy)| Point {
            workload,
            dilation,
            stretch,
            load,
            measured_s,
            policy,
            topology: Topology::Dedicated,
            queue_capacity: 8192,
            flows: None,
            sockets_move: false,
            preempt: PreemptPolicy::Cooperative,
            seed: 11,
        })
        .collect()
}

/// MQ and lending keep short requests fast where c-FCFS does not.
fn assert_protection(found: &[Compared<'_>], quantile: f64) {
    if let Err(message) = check_protection(found, quantile) {
        panic!("{message}");
    }
}

fn check_protection(found: &[Compared<'_>], quantile: f64) -> Result<(), String> {
    let short_at_80 = |workload: &str, name: &str| {
        let wanted = |it: &&Compared<'_>| {
            let point = it.point;
            (point.workload, point.load, point.policy.name()) == (workload, 0.8, name)
        };
        at(quantile, &found.iter().find(wanted).unwrap().all[0])
    };
    let mut workloads: Vec<_> = found.iter().map(|it| it.point.workload).collect();
    workloads.dedup();
    for workload in workloads {
        for policy in ["mq", "darc-lending"] {
            let ratio = short_at_80(workload, "c-fcfs") / short_at_80(workload, policy);
            if ratio <= 2.0 {
                let table = table(found, quantile);
                return Err(format!("{workload} {policy} {ratio}\n{table}"));
            }
        }
    }
    Ok(())
}

/// Measured again where other programs kept the workers from their turns.
#[test]
fn live_preemption_keeps_short_requests_fast_where_c_fcfs_does_not() {
    let points = points(&[0.8], "high-bimodal", 4000, 1, 12.0);
    let mut failures = String::new();
    for _ in 0..SHORT_ATTEMPTS {
        let (found, _) = measure(points.iter());
        // The p99.9 of so few requests would be the slowest request.
        match check_protection(&found, 0.99) {
            Ok(()) => return,
            Err(message) => failures += &message,
        }
    }
    panic!("in {SHORT_ATTEMPTS} runs:\n{failures}");
}

/// The short comparison. Points that differ are measured again.
fn assert_alike(all: &[Point]) {
    let mut points: Vec<_> = all.iter().collect();
    let mut found = String::new();
    let mut are_enough = true;
    for _ in 0..SHORT_ATTEMPTS {
        let (slowdowns, lag_ns) = measure(points.iter().copied());
        for quantile in QUANTILES {
            found += &table(&slowdowns, quantile);
        }
        are_enough = slowdowns.iter().all(Compared::are_enough);
        points.clear();
        for it in slowdowns {
            let differing = it.differing(lag_ns);
            if !differing.is_empty() || !it.are_enough() {
                points.push(it.point);
            }
            for text in differing {
                writeln!(found, "{}: {text}", it.point.policy).unwrap();
            }
        }
        if points.is_empty() {
            return;
        }
    }
    if !are_enough {
        return psp_harness::skip("the machine stalls during most requests");
    }
    panic!("in {SHORT_ATTEMPTS} runs:\n{found}");
}

#[test]
fn percentiles_of_live_servers_are_those_of_the_simulator() {
    assert_alike(&points(&[0.8], "tpcc", 3000, 1, 12.0));
}

/// Points that differ are measured again.
#[test]
#[ignore = "takes ten to twenty minutes on a machine without other load"]
fn live_servers_do_what_the_simulator_says() {
    const QUANTILE: f64 = 0.999;
    let loads = [0.5, 0.8];
    let points = [
        points(&loads, "high-bimodal", 20_000, 1, 600.0),
        points(&loads, "extreme-bimodal", 8_000, 10, 600.0),
    ]
    .concat();
    let (mut found, _) = measure(points.iter());
    table(&found, QUANTILE);
    assert_protection(&found, QUANTILE);
    let differs = |it: &Compared<'_>| it.difference(QUANTILE) > DIFFERENCE_MAX || !it.are_enough();
    for _ in 1..ATTEMPTS {
        let differ: Vec<_> = (0..found.len()).filter(|&at| differs(&found[at])).collect();
        let (again, _) = measure(differ.iter().map(|&at| found[at].point));
        for (at, again) in differ.into_iter().zip(again) {
            found[at] = again;
        }
    }
    let table = table(&found, QUANTILE);
    assert!(!found.iter().any(differs), "{table}");
}
