//! Figures of a workload that changes: latencies and reserved workers over time.

use serde::Deserialize;

use crate::chart::{Axis, Panel, grouped};
use crate::simulator::SimPlan;
use crate::workload::{Phase, PhaseLength, Workload};

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::kind::Kind;
use super::system::{self, System};

/// Requests of a figure with which phases are as long as the definition says; with fewer they are shorter.
const REQUESTS: u64 = 1_000_000;
/// Points in the longest phase.
const BUCKETS: u64 = 25;

/// A workload that changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phases {
    workers: usize,
    /// In every phase.
    load: f64,
    /// Each phase has a duration.
    workload: Workload,
    systems: Vec<System>,
    /// Ends of the axis of latencies, in microseconds.
    latency_us: (f64, f64),
}

impl Phases {
    /// The workload with its phases as long as so many requests make them.
    fn workload(&self, scale: &Scale) -> Result<Workload, FigureError> {
        let mut workload = self.workload.clone();
        for phase in &mut workload.phases {
            let PhaseLength::Time { duration_ns } = &mut phase.length else {
                return Err(FigureError::invalid("each phase needs its `duration_ms`".to_owned()));
            };
            let whole = u128::from(*duration_ns) * u128::from(scale.requests.max(BUCKETS)) / u128::from(REQUESTS);
            *duration_ns = u64::try_from(whole).unwrap_or(u64::MAX).max(1);
        }
        if workload.phases.is_empty() {
            return Err(FigureError::invalid("the workload has no phases".to_owned()));
        }
        Ok(workload)
    }

    /// A phase in words, one line for each type.
    fn describe(phase: &Phase) -> String {
        let words = phase.types.iter().map(|ty| {
            let (percent, service_us) = (grouped(ty.share * 100.0), ty.service_ns as f64 / 1e3);
            format!("{}: {percent} %, {service_us} us", ty.name)
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

fn duration_ns(phase: &Phase) -> u64 {
    match phase.length {
        PhaseLength::Time { duration_ns } => duration_ns,
        PhaseLength::Requests(_) | PhaseLength::Open => 0,
    }
}

fn longest_ns(workload: &Workload) -> u64 {
    workload.phases.iter().map(duration_ns).max().unwrap_or_default()
}

impl Kind for Phases {
    /// A line for each system and type.
    fn series(&self) -> Vec<String> {
        let types = &self.workload.types;
        let lines = |system: &System| types.iter().map(|ty| format!("{} {}", system.name, ty.name)).collect::<Vec<_>>();
        self.systems.iter().flat_map(lines).collect()
    }

    fn panels(&self, scale: &Scale) -> Result<Vec<Panel>, FigureError> {
        let workload = self.workload(scale)?;
        let mut end_ns = 0;
        let mut stretches = Vec::new();
        for phase in &workload.phases {
            stretches.push((end_ns as f64 / 1e6, Self::describe(phase)));
            end_ns += duration_ns(phase);
        }
        let unnamed = stretches.iter().map(|(begin, _)| (*begin, String::new())).collect();
        let x = Axis::linear("Time of arrival (ms)", 0.0, end_ns as f64 / 1e6);
        let panel =
            |title: &str, y: Axis, stretches| Panel { stretches, steps: true, ..Panel::new(title, x.clone(), y) };
        let (from, to) = self.latency_us;
        let reserved = Axis::linear("Reserved workers", 0.0, self.workers as f64);
        Ok(vec![
            panel("Latency of each type", Axis::log("p99.9 latency (us)", from, to), stretches),
            panel("Workers reserved for each type", reserved, unnamed),
        ])
    }

    fn columns(&self, _: usize) -> usize {
        1
    }

    fn conditions(&self, scale: &Scale) -> Vec<String> {
        let longest_ns = self.workload(scale).as_ref().map(longest_ns).unwrap_or_default();
        let longest_ms = longest_ns as f64 / 1e6;
        let bucket_ms = grouped(longest_ms / BUCKETS as f64);
        let (longest_ms, seed) = (grouped(longest_ms), scale.seed);
        let extent = format!("{longest_ms} ms a phase, percentiles of {bucket_ms} ms each, seed {seed}");
        system::conditions(self.workers, &self.systems.iter().collect::<Vec<_>>(), &extent)
    }

    /// One simulation for each system, with as many requests as arrive in all phases.
    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let workload = self.workload(scale)?;
        let arrivals = workload.phases.iter().map(|phase| {
            let meanwhile = Workload::of_types("phase", phase.types.clone());
            duration_ns(phase) as f64 / 1e9 * meanwhile.rate_rps(self.load, self.workers)
        });
        let whole = Scale { requests: arrivals.sum::<f64>().round() as u64, ..*scale };
        let job = |(index, system): (usize, &System)| {
            let plan = SimPlan {
                warmup: 0,
                timeline_ns: Some((longest_ns(&workload) / BUCKETS).max(1)),
                ..system.plan(&workload, self.workers.into(), self.load, &[], &whole)?
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
