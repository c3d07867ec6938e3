//! Figures of a load that rises and falls, under workers that come and go and under fixed numbers of workers.

use psp_policy::elastic::ElasticSettings;

use crate::chart::{Axis, Panel, grouped};
use crate::simulator::{ElasticPlan, SimPlan};
use crate::workload::{Distribution, Phase, PhaseLength, Workload, WorkloadType};

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::sweep::System;

/// Parts of the way up, and of the way down, in which the load is the same.
const STEPS: u64 = 20;
/// Points for each of them.
const BUCKETS: u64 = 2;

/// Two types whose load rises from `load.0` to `load.1` and falls again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ramp {
    /// The most workers. The load is the share of their time.
    pub(super) workers: usize,
    pub(super) load: (f64, f64),
    /// Length of all, in seconds. Requests are as long as it takes to have the figure's number of them.
    pub(super) seconds: u64,
    /// Name, share and service time in relation to the first, of both types.
    pub(super) types: [(&'static str, f64, f64); 2],
    pub(super) lines: &'static [Line],
    /// Ends of the axis of latencies, in multiples of the service time.
    pub(super) latency: (f64, f64),
}

/// A system with workers from `workers.0` to `workers.1`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) system: System,
    pub(super) workers: (usize, usize),
    /// Whether workers come for late requests, too, or by Arachne's rule alone.
    pub(super) sees_tail: bool,
}

impl Line {
    fn settings(&self) -> ElasticSettings {
        let settings = ElasticSettings::default();
        if self.sees_tail {
            settings
        } else {
            settings.tail_factor(0.0)
        }
    }
}

impl Ramp {
    pub(super) fn series(&self) -> Vec<String> {
        let name = |line: &Line| line.system.name.to_owned();
        self.lines.iter().map(name).collect()
    }

    pub(super) fn panels(&self) -> Vec<Panel> {
        let panel = |title: &str, y: Axis| Panel {
            title: title.to_owned(),
            x: Axis::linear("Time of arrival (s)", 0.0, self.seconds as f64),
            y,
            lines: vec![Vec::new(); self.lines.len()],
            target: None,
            stretches: Vec::new(),
            steps: true,
        };
        let (from, to) = self.latency;
        let core_seconds = self.workers as f64 * self.seconds as f64;
        let tail = format!("p99.9 of {} / service time", self.types[0].0);
        vec![
            panel("Workers", Axis::linear("Workers present", 0.0, self.workers as f64 + 1.0)),
            panel("Latency", Axis::log(&tail, from, to)),
            panel("Cost", Axis::linear("Core seconds so far", 0.0, core_seconds)),
        ]
    }

    /// How much is simulated, in words for the footer.
    pub(super) fn words(&self, scale: &Scale) -> String {
        let (low, high) = self.load;
        let [low, high] = [low, high].map(|load| grouped(load * 100.0));
        let service_us = grouped((self.service_ns(scale) / 1e3).round());
        let (name, ..) = self.types[0];
        let (seconds, seed) = (self.seconds, scale.seed);
        format!("load from {low} to {high} % and back in {seconds} s, {name} requests of {service_us} us, seed {seed}")
    }

    /// Service time of the first type, with which the requests of the figure fill its time.
    fn service_ns(&self, scale: &Scale) -> f64 {
        let mean: f64 = self.types.iter().map(|(_, share, times)| share * times).sum();
        let load = (self.load.0 + self.load.1) / 2.0;
        let busy_ns = self.workers as f64 * load * self.seconds as f64 * 1e9;
        busy_ns / mean / scale.requests.max(1) as f64
    }

    /// For how long the load is the same.
    pub(super) const fn step_ns(&self) -> u64 {
        self.seconds * 1_000_000_000 / (2 * STEPS)
    }

    /// A simulation of the ramp from its first request to its last.
    pub(super) fn plan(
        &self,
        workload: &Workload,
        system: &System,
        workers: usize,
        load: f64,
        scale: &Scale,
    ) -> Result<SimPlan, FigureError> {
        Ok(SimPlan {
            // Slightly fewer than arrive in all the time, which chance would make longer.
            requests: scale.requests - scale.requests / 50,
            warmup: 0,
            ..system.plan(workload, workers, load, None, scale)?
        })
    }

    /// The loads of the way up, in the order of time.
    pub(super) fn loads_up(&self) -> impl DoubleEndedIterator<Item = f64> + Clone + use<> {
        let (low, high) = self.load;
        (0..STEPS).map(move |step| low + (high - low) * step as f64 / (STEPS - 1) as f64)
    }

    pub(super) fn workload(&self, scale: &Scale) -> Workload {
        let service_ns = self.service_ns(scale);
        let types = self.types.map(|(name, share, times)| WorkloadType {
            name: name.to_owned(),
            share,
            service_ns: ((service_ns * times) as u64).max(1),
            distribution: Distribution::Exponential,
            wait_ns: 0,
            slo_ns: None,
            weight: None,
        });
        let loads = self.loads_up().chain(self.loads_up().rev());
        let phases = loads.map(|load| Phase {
            length: PhaseLength::Time { duration_ns: self.step_ns() },
            load,
            types: types.to_vec(),
        });
        Workload {
            phases: phases.collect(),
            ..Workload::of_types("ramp", types.to_vec())
        }
    }

    /// One simulation for each line.
    pub(super) fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let workload = self.workload(scale);
        let service_ns = self.service_ns(scale);
        let job = |(series, line): (usize, &Line)| {
            let (min, max) = line.workers;
            // All lines have the same arrivals.
            let load = self.workers as f64 / max as f64;
            let plan = SimPlan {
                timeline_ns: Some(self.step_ns() / BUCKETS),
                elastic: (min < max).then(|| ElasticPlan { workers_min: min, settings: line.settings() }),
                ..self.plan(&workload, &line.system, max, load, scale)?
            };
            Ok(Job::of_plan(plan, move |outcome| {
                let mut points = Vec::new();
                let mut core_seconds = 0.0;
                let width_s = outcome.timeline.get(1).map_or(0, |bucket| bucket.start_ns) as f64 / 1e9;
                for bucket in &outcome.timeline {
                    core_seconds += bucket.workers_mean * width_s;
                    let latency_ns = bucket.types.first().map_or(0, |ty| ty.latency_ns_p999);
                    let values = [bucket.workers_mean, latency_ns as f64 / service_ns, core_seconds];
                    let drawn = values.into_iter().enumerate().filter(|(_, y)| *y > 0.0);
                    points.extend(drawn.map(|(panel, y)| Point {
                        panel,
                        series,
                        at: (bucket.start_ns as f64 / 1e9, y),
                    }));
                }
                points
            }))
        };
        self.lines.iter().enumerate().map(job).collect()
    }
}
