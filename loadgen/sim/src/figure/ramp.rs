//! Figures of a load that rises and falls, under workers that come and go and under fixed numbers of workers.

use psp_policy::elastic::Workers;
use serde::Deserialize;

use crate::chart::{Axis, Panel, grouped};
use crate::simulator::SimPlan;
use crate::workload::{Phase, PhaseLength, Workload};

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::kind::Kind;
use super::system::{self, System};

/// Parts of the way up, and of the way down, in which the load is the same.
const STEPS: u64 = 20;
/// Points for each of them.
const BUCKETS: u64 = 2;

/// A load that rises from `load.0` to `load.1` and falls again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ramp {
    /// The most workers. The load is the share of their time.
    pub(super) workers: usize,
    load: (f64, f64),
    /// Length of all, in seconds. Requests are as long as it takes to have the figure's number of them.
    seconds: u64,
    /// Its service times in relation to that of the first type.
    workload: Workload,
    #[serde(default)]
    lines: Vec<Line>,
    /// Ends of the axis of latencies, in multiples of the service time.
    #[serde(default)]
    latency: (f64, f64),
}

/// A system with workers from `workers.0` to `workers.1`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    system: System,
    workers: (usize, usize),
    /// Settings of the estimator: those of `psp-loadgen sim` that begin with `elastic-`, without this.
    #[serde(default)]
    elastic: Vec<String>,
}

/// Settings of the estimator as those of a simulation.
pub(super) fn elastic(settings: &[String]) -> Vec<String> {
    settings.iter().map(|setting| format!("elastic-{setting}")).collect()
}

impl Ramp {
    /// How much is simulated, in words for the footer.
    pub(super) fn extent(&self, scale: &Scale) -> String {
        let (low, high) = self.load;
        let [low, high] = [low, high].map(|load| grouped(load * 100.0));
        let service_us = grouped((self.service_ns(scale) / 1e3).round());
        let (name, seconds, seed) = (&self.workload.types[0].name, self.seconds, scale.seed);
        format!("load from {low} to {high} % and back in {seconds} s, {name} requests of {service_us} us, seed {seed}")
    }

    /// Service times in relation to that of the first type.
    fn times(&self) -> impl Iterator<Item = f64> {
        let types = &self.workload.types;
        types.iter().map(|ty| ty.service_ns as f64 / types[0].service_ns as f64)
    }

    /// Service time of the first type, with which the requests of the figure fill its time.
    fn service_ns(&self, scale: &Scale) -> f64 {
        let types = self.workload.types.iter();
        let mean: f64 = types.zip(self.times()).map(|(ty, times)| ty.share * times).sum();
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
        workers: Workers,
        load: f64,
        elastic_settings: &[String],
        scale: &Scale,
    ) -> Result<SimPlan, FigureError> {
        Ok(SimPlan {
            // Slightly fewer than arrive in all the time, which chance would make longer.
            requests: scale.requests - scale.requests / 50,
            warmup: 0,
            ..system.plan(workload, workers, load, &elastic(elastic_settings), scale)?
        })
    }

    /// The loads of the way up, in the order of time.
    pub(super) fn loads_up(&self) -> impl DoubleEndedIterator<Item = f64> + Clone + use<> {
        let (low, high) = self.load;
        (0..STEPS).map(move |step| low + (high - low) * step as f64 / (STEPS - 1) as f64)
    }

    pub(super) fn workload(&self, scale: &Scale) -> Workload {
        let service_ns = self.service_ns(scale);
        let mut types = self.workload.types.clone();
        for (ty, times) in types.iter_mut().zip(self.times()) {
            ty.service_ns = ((service_ns * times) as u64).max(1);
        }
        let loads = self.loads_up().chain(self.loads_up().rev());
        let phases = loads.map(|load| Phase {
            length: PhaseLength::Time { duration_ns: self.step_ns() },
            load,
            types: types.clone(),
        });
        Workload {
            phases: phases.collect(),
            ..Workload::of_types("ramp", types)
        }
    }
}

impl Kind for Ramp {
    fn series(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.system.name.clone()).collect()
    }

    fn panels(&self, _: &Scale) -> Result<Vec<Panel>, FigureError> {
        let x = Axis::linear("Time of arrival (s)", 0.0, self.seconds as f64);
        let panel = |title: &str, y: Axis| Panel { steps: true, ..Panel::new(title, x.clone(), y) };
        let (from, to) = self.latency;
        let core_seconds = self.workers as f64 * self.seconds as f64;
        let tail = format!("p99.9 of {} / service time", self.workload.types[0].name);
        Ok(vec![
            panel("Workers", Axis::linear("Workers present", 0.0, self.workers as f64 + 1.0)),
            panel("Latency", Axis::log(tail, from, to)),
            panel("Cost", Axis::linear("Core seconds so far", 0.0, core_seconds)),
        ])
    }

    fn conditions(&self, scale: &Scale) -> Vec<String> {
        let systems: Vec<&System> = self.lines.iter().map(|line| &line.system).collect();
        system::conditions(self.workers, &systems, &self.extent(scale))
    }

    /// One simulation for each line.
    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let workload = self.workload(scale);
        let service_ns = self.service_ns(scale);
        let job = |(series, line): (usize, &Line)| {
            let (min, max) = line.workers;
            // All lines have the same arrivals.
            let load = self.workers as f64 / max as f64;
            let plan = SimPlan {
                timeline_ns: Some(self.step_ns() / BUCKETS),
                ..self.plan(&workload, &line.system, (min..=max).into(), load, &line.elastic, scale)?
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
