//! Figures of a workload that changes: latencies and reserved workers over time.

use crate::chart::{Axis, Panel, grouped};
use crate::simulator::SimPlan;
use crate::workload::{Distribution, Phase, PhaseLength, Workload, WorkloadType};

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::sweep::System;

/// Requests of a figure for each microsecond of a phase of this one.
const REQUESTS_PER_US: u64 = 1;
/// Points in a phase.
const BUCKETS: u64 = 25;

/// A workload of two types that changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phases {
    pub(super) workers: usize,
    /// In every phase.
    pub(super) load: f64,
    /// Names of the types.
    pub(super) types: [&'static str; 2],
    pub(super) phases: &'static [PhaseOf],
    pub(super) systems: &'static [System],
    /// Ends of the axis of latencies, in microseconds.
    pub(super) latency_us: (f64, f64),
}

/// A part of the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhaseOf {
    /// Share and service time in microseconds, of both types.
    pub(super) types: [(f64, f64); 2],
    /// Its length, as a part of a full phase: fast requests are many.
    pub(super) part: f64,
}

impl Phases {
    /// A line for each system and type.
    pub(super) fn series(&self) -> Vec<String> {
        let lines = |system: &System| self.types.map(|ty| format!("{} {ty}", system.name));
        self.systems.iter().flat_map(lines).collect()
    }

    pub(super) fn panels(&self, scale: &Scale) -> Vec<Panel> {
        let ends_ms: Vec<f64> = self.ends_ns(scale).map(|end_ns| end_ns as f64 / 1e6).collect();
        let begins_ms = std::iter::once(0.0).chain(ends_ms.iter().copied());
        let stretches: Vec<(f64, String)> =
            begins_ms.zip(self.phases).map(|(begin, phase)| (begin, self.describe(phase))).collect();
        let last = ends_ms.last().copied().unwrap_or_default();
        let panel = |title: &str, y: Axis, stretches| Panel {
            title: title.to_owned(),
            x: Axis::linear("Time of arrival (ms)", 0.0, last),
            y,
            lines: vec![Vec::new(); self.series().len()],
            target: None,
            stretches,
            steps: true,
        };
        let (from, to) = self.latency_us;
        let blank = |(begin, _): &(f64, String)| (*begin, String::new());
        let unnamed = stretches.iter().map(blank).collect();
        vec![
            panel("Latency of each type", Axis::log("p99.9 latency (us)", from, to), stretches),
            panel(
                "Workers reserved for each type",
                Axis::linear("Reserved workers", 0.0, self.workers as f64),
                unnamed,
            ),
        ]
    }

    /// How much is simulated, in words for the footer.
    pub(super) fn words(&self, scale: &Scale) -> String {
        let full_ms = Self::full_ns(scale) as f64 / 1e6;
        let bucket_ms = grouped(full_ms / BUCKETS as f64);
        let (full_ms, seed) = (grouped(full_ms), scale.seed);
        format!("{full_ms} ms a phase, percentiles of {bucket_ms} ms each, seed {seed}")
    }

    /// A phase in words, one line for each type.
    fn describe(&self, phase: &PhaseOf) -> String {
        let words = |(name, (share, service_us)): (&&str, &(f64, f64))| {
            let percent = grouped(share * 100.0);
            format!("{name}: {percent} %, {service_us} us")
        };
        let lines: Vec<String> = self.types.iter().zip(&phase.types).map(words).collect();
        lines.join("\n")
    }

    fn full_ns(scale: &Scale) -> u64 {
        (scale.requests / REQUESTS_PER_US).max(BUCKETS) * 1_000
    }

    fn ends_ns(&self, scale: &Scale) -> impl Iterator<Item = u64> {
        let full_ns = Self::full_ns(scale) as f64;
        self.phases.iter().scan(0, move |end_ns, phase| {
            *end_ns += (phase.part * full_ns) as u64;
            Some(*end_ns)
        })
    }

    fn workload(&self, scale: &Scale) -> Workload {
        let types = |phase: &PhaseOf| -> Vec<WorkloadType> {
            let of = |(name, (share, service_us)): (&&str, &(f64, f64))| WorkloadType {
                name: (*name).to_owned(),
                share: *share,
                service_ns: (service_us * 1e3) as u64,
                distribution: Distribution::Fixed,
                wait_ns: 0,
                slo_ns: None,
                weight: None,
            };
            self.types.iter().zip(&phase.types).map(of).collect()
        };
        let mut begin_ns = 0;
        let phases = self.phases.iter().zip(self.ends_ns(scale));
        let phases: Vec<Phase> = phases
            .map(|(phase, end_ns)| Phase {
                length: PhaseLength::Time {
                    duration_ns: end_ns - std::mem::replace(&mut begin_ns, end_ns),
                },
                load: 1.0,
                types: types(phase),
            })
            .collect();
        Workload {
            phases,
            ..Workload::of_types("phases", self.phases.first().map(types).unwrap_or_default())
        }
    }

    /// One simulation for each system, with as many requests as arrive in all phases.
    pub(super) fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let workload = self.workload(scale);
        let mut begin_ns = 0;
        let arrivals: f64 = workload
            .phases
            .iter()
            .zip(self.ends_ns(scale))
            .map(|(phase, end_ns)| {
                let seconds = (end_ns - std::mem::replace(&mut begin_ns, end_ns)) as f64 / 1e9;
                let meanwhile = Workload::of_types("phase", phase.types.clone());
                seconds * meanwhile.rate_rps(self.load, self.workers)
            })
            .sum();
        let whole = Scale { requests: arrivals.round() as u64, ..*scale };
        let job = |(index, system): (usize, &System)| {
            let plan = SimPlan {
                warmup: 0,
                timeline_ns: Some(Self::full_ns(scale) / BUCKETS),
                ..system.plan(&workload, self.workers, self.load, None, &whole)?
            };
            Ok(Job::of_plan(plan, move |outcome| {
                let mut points = Vec::new();
                for bucket in &outcome.timeline {
                    let at_ms = bucket.start_ns as f64 / 1e6;
                    for (ty, point) in bucket.types.iter().enumerate() {
                        let series = index * bucket.types.len() + ty;
                        let values = [point.latency_ns_p999 as f64 / 1e3, point.workers_reserved as f64];
                        let drawn = values.into_iter().enumerate().filter(|(_, y)| *y > 0.0);
                        points.extend(drawn.map(|(panel, y)| Point { panel, series, at: (at_ms, y) }));
                    }
                }
                points
            }))
        };
        self.systems.iter().enumerate().map(job).collect()
    }
}
