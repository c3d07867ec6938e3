//! Draws Synergy's figures 7 and 10 from live servers, and beside them what the simulator says of the same requests.

use std::fs;
use std::path::PathBuf;

use psp_server::policy::Synergy;
use psp_sim::chart::{Axis, Drawing, Panel, standalone_svg};

use super::compared::{Compared, at};
use super::distributed::{FLOWS, point, synergy};
use super::measure::measure;
use super::point::{Point, WORKERS};

/// Factors of client and server.
const DILATION: (u32, u32) = (4000, 10);
const FACTOR: u32 = DILATION.0 * DILATION.1;
const MEASURED_S: f64 = 180.0;
/// The percentile of the paper's figures.
const TAIL: f64 = 0.999;
/// The slowdown of the paper's numbers.
const SLO: f64 = 50.0;

/// Where figures are written, unless `PSP_FIGURES` says another folder.
const FIGURES: &str = "../../docs/figures";

/// One line of figure 7.
struct Part {
    name: &'static str,
    loads: &'static [f64],
    policy: Synergy,
}

/// From one part of Synergy to all, with a quantum of 5 us at first, as the paper adds them. Loads end where queues grow.
fn parts() -> [Part; 5] {
    const HIGH: &[f64] = &[0.3, 0.6, 0.8, 0.9, 0.95];
    let rss_ci = synergy(FACTOR)
        .adaptive_quantum(false)
        .conditional_preemption(false)
        .wait_queue(false)
        .stealing(false);
    let ws = rss_ci.clone().stealing(true);
    let wq = ws.clone().wait_queue(true);
    let cp = wq.clone().conditional_preemption(true);
    let qa = cp.clone().adaptive_quantum(true);
    let part = |name, loads, policy| Part {
        name,
        loads,
        policy,
    };
    [
        part("rss-ci", &[0.1, 0.2, 0.3, 0.4], rss_ci),
        part("+ws", &[0.3, 0.6, 0.7, 0.8, 0.86], ws),
        part("+wq", HIGH, wq),
        part("+cp", HIGH, cp),
        part("+qa", HIGH, qa),
    ]
}

/// Flows of figure 10, and its loads.
const FLOWS_OF_10: [usize; 2] = [8, FLOWS];
const LOADS_OF_10: [f64; 5] = [0.1, 0.3, 0.5, 0.65, 0.8];

/// Slowdowns of all requests at the tail, live or simulated.
fn slowdown(of_types: &[Vec<f64>]) -> f64 {
    let mut all = of_types.concat();
    all.sort_unstable_by(f64::total_cmp);
    at(TAIL, &all)
}

/// The latency at the tail, in microseconds before dilation. All requests of a type take equally long.
fn latency_us(point: &Point, of_types: &[Vec<f64>]) -> f64 {
    let types = point.plan().workload.types;
    let latencies = types.iter().zip(of_types).flat_map(|(ty, slowdowns)| {
        let service_us = ty.service_ns as f64 / 1e3 / f64::from(FACTOR);
        slowdowns.iter().map(move |slowdown| slowdown * service_us)
    });
    let mut all: Vec<f64> = latencies.collect();
    all.sort_unstable_by(f64::total_cmp);
    at(TAIL, &all)
}

/// Preemptions for each request, live and simulated.
fn preemptions(it: &Compared<'_>) -> [f64; 2] {
    let plan = it.point.plan();
    let requests = (plan.requests + plan.warmup) as f64;
    let types = it.counters.types.iter();
    let live: u64 = types.map(|ty| ty.turns.preemptions_honoured).sum();
    [
        live as f64 / requests,
        it.outcome.preemptions as f64 / requests,
    ]
}

/// Share of its time that each worker served, in percent, live and simulated.
fn utilization(it: &Compared<'_>) -> [Vec<f64>; 2] {
    let workers = it.counters.workers.iter();
    let live = workers.map(|worker| worker.service_ns_total as f64 / it.lasted.as_nanos() as f64);
    let simulated = it.outcome.worker_utilization.iter().copied();
    [
        live.map(|share| share * 100.0).collect(),
        simulated.map(|share| share * 100.0).collect(),
    ]
}

/// The load in thousand requests per second, before dilation.
fn krps(point: &Point) -> f64 {
    point.plan().offered_rps() * f64::from(FACTOR) / 1e3
}

fn panel(title: String, last_krps: f64, y: Axis, lines: usize, slo: bool) -> Panel {
    Panel {
        title,
        x: Axis::linear("Offered load (thousand requests/s)", 0.0, last_krps),
        y,
        lines: vec![Vec::new(); lines],
        target: slo.then(|| (SLO, format!("SLO {SLO}"))),
        stretches: Vec::new(),
        steps: false,
    }
}

fn conditions() -> String {
    format!(
        "{WORKERS} workers that sleep, of psp-synthetic with topology distributed; times dilated {FACTOR} times and shown \
         undilated; {MEASURED_S} s of arrivals a point after a tenth of that; requests beside a measured stall of the \
         machine are left out on both sides. Simulated: the same requests, preempted ones resume at home."
    )
}

fn write(drawing: &Drawing) {
    let folder = std::env::var_os("PSP_FIGURES").map_or_else(|| FIGURES.into(), PathBuf::from);
    let path = folder.join(drawing.name).with_extension("svg");
    fs::write(&path, standalone_svg(drawing)).unwrap();
    println!("{}:\n{}", path.display(), drawing.csv_rows());
}

const SIDES: [&str; 2] = ["live", "simulated"];

fn figure_7(parts: &[Part], found: &[Vec<Compared<'_>>]) -> Drawing {
    let last = found
        .iter()
        .flatten()
        .map(|it| krps(it.point))
        .fold(0.0, f64::max);
    let mut panels: Vec<Panel> = Vec::new();
    for (side, name) in SIDES.into_iter().enumerate() {
        let quantities: [(&str, Axis, bool); 3] = [
            ("Slowdown", Axis::log("p99.9 slowdown", 1.0, 1e3), true),
            ("Latency", Axis::log("p99.9 latency (us)", 1e2, 1e5), false),
            (
                "Preemptions",
                Axis::log("Preemptions per request", 1e-3, 1e1),
                false,
            ),
        ];
        for (index, (title, y, slo)) in quantities.into_iter().enumerate() {
            let mut panel = panel(format!("{title}, {name}"), last, y, parts.len(), slo);
            for (line, points) in panel.lines.iter_mut().zip(found) {
                for it in points {
                    let of_types = [&it.live, &it.simulated][side];
                    let value = match index {
                        0 => slowdown(of_types),
                        1 => latency_us(it.point, of_types),
                        _ => preemptions(it)[side],
                    };
                    if value > 0.0 {
                        line.push((krps(it.point), value));
                    }
                }
            }
            panels.push(panel);
        }
    }
    for (series, part) in parts.iter().enumerate() {
        let reach = |panel: usize| panels[panel].reach(series, SLO);
        let (live, simulated) = (reach(0), reach(3));
        println!(
            "{}: slowdown <= {SLO} up to {live:?} live, {simulated:?} simulated",
            part.name
        );
    }
    Drawing {
        name: "synergy-7-live",
        title: "Synergy figure 7, live: its components, ZippyDB".to_owned(),
        series: parts.iter().map(|part| part.name.to_owned()).collect(),
        panels,
        columns: 3,
        footer: vec![conditions()],
    }
}

fn figure_10(found: &[Vec<Compared<'_>>]) -> Drawing {
    let last = found
        .iter()
        .flatten()
        .map(|it| krps(it.point))
        .fold(0.0, f64::max);
    let flows = |which: &str| FLOWS_OF_10.map(|flows| format!("{flows} flows{which}"));
    let series = [
        flows(""),
        flows(", busiest worker"),
        flows(", idlest worker"),
    ]
    .concat();
    let mut panels = Vec::new();
    for (side, name) in SIDES.into_iter().enumerate() {
        let y = Axis::log("p99.9 slowdown", 1.0, 1e3);
        let mut slowdowns = panel(format!("Slowdown, {name}"), last, y, series.len(), true);
        let y = Axis::linear("Time spent on service (%)", 0.0, 100.0);
        let mut busy = panel(format!("Workers, {name}"), last, y, series.len(), false);
        for (index, points) in found.iter().enumerate() {
            for it in points {
                let x = krps(it.point);
                slowdowns.lines[index].push((x, slowdown([&it.live, &it.simulated][side])));
                let shares = &utilization(it)[side];
                let mean = shares.iter().sum::<f64>() / shares.len() as f64;
                let most = shares.iter().copied().fold(0.0, f64::max);
                let least = shares.iter().copied().fold(100.0, f64::min);
                for (which, share) in [mean, most, least].into_iter().enumerate() {
                    busy.lines[index + which * FLOWS_OF_10.len()].push((x, share));
                }
            }
        }
        panels.extend([slowdowns, busy]);
    }
    Drawing {
        name: "synergy-10-live",
        title: "Synergy figure 10, live: 8 flows and 512, High".to_owned(),
        series,
        panels,
        columns: 2,
        footer: vec![conditions()],
    }
}

#[test]
#[ignore = "takes five minutes and more, until queues are empty, and writes figures"]
fn synergy_live() {
    let parts = parts();
    let of_part = |part: &Part| -> Vec<Point> {
        let of_load = |&load: &f64| {
            let mut point = point("zippydb", DILATION, load, MEASURED_S, part.policy.clone());
            if !part.policy.stealing {
                // A worker takes nothing from another's socket, either.
                point.long_us = 0;
            }
            point
        };
        part.loads.iter().map(of_load).collect()
    };
    let of_flows = |flows: &usize| -> Vec<Point> {
        let of_load = |&load: &f64| Point {
            flows: Some(*flows),
            ..point("high-bimodal", DILATION, load, MEASURED_S, synergy(FACTOR))
        };
        LOADS_OF_10.iter().map(of_load).collect()
    };
    let points: Vec<Vec<Point>> = { parts.iter().map(of_part) }
        .chain(FLOWS_OF_10.iter().map(of_flows))
        .collect();
    let (found, lag_ns) = measure(points.iter().flatten());
    println!("threads woke up {:.2} ms late in the mean", lag_ns / 1e6);
    let mut found = found.into_iter();
    let lines = points
        .iter()
        .map(|points| found.by_ref().take(points.len()).collect());
    let lines: Vec<Vec<Compared<'_>>> = lines.collect();
    let (of_7, of_10) = lines.split_at(parts.len());
    write(&figure_7(&parts, of_7));
    write(&figure_10(of_10));
}
