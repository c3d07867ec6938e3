//! At which rate servers saturate by the cycles of their stages: one dispatcher for all workers, and workers that
//! receive for themselves.
//!
//! This is a model, and no simulation. The rate is that of the slower of the dispatcher and all workers together.

use serde::Deserialize;

use crate::chart::{Axis, Panel};

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::kind::Kind;

/// A panel for each service time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saturation {
    /// Cycles per second of the machine on which the stages were measured.
    hz: f64,
    /// Numbers of workers.
    workers: Vec<u32>,
    panels: Vec<ServiceTime>,
    lines: Vec<Stages>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceTime {
    title: String,
    service_ns: f64,
}

/// Cycles that one request costs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stages {
    /// Name of the line.
    name: String,
    /// On the dispatcher; 0 if there is none.
    #[serde(default)]
    dispatcher: f64,
    /// On the worker, stage by stage, without the service.
    worker: Vec<f64>,
}

impl Saturation {
    /// Requests per second of `workers` that serve each for so many nanoseconds.
    fn rate_rps(&self, line: &Stages, workers: u32, service_ns: f64) -> f64 {
        let per_worker = line.worker.iter().sum::<f64>() + service_ns * self.hz / 1e9;
        let of_workers = f64::from(workers) * self.hz / per_worker;
        if line.dispatcher > 0.0 {
            of_workers.min(self.hz / line.dispatcher)
        } else {
            of_workers
        }
    }
}

impl Kind for Saturation {
    fn series(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.name.clone()).collect()
    }

    fn panels(&self, _: &Scale) -> Result<Vec<Panel>, FigureError> {
        let last = self.workers.last().copied().unwrap_or_default();
        let x = Axis::linear("Workers", 0.0, f64::from(last));
        let y = Axis::log("Million requests/s", 0.1, 100.0);
        let panels = self.panels.iter();
        Ok(panels.map(|panel| Panel::new(&panel.title, x.clone(), y.clone())).collect())
    }

    fn conditions(&self, _: &Scale) -> Vec<String> {
        vec![format!(
            "Computed, not simulated: the slower of a dispatcher and all workers, by the cycles of docs/dpdk.md at \
             {} GHz; a request that is handed over crosses between cores twice.",
            self.hz / 1e9
        )]
    }

    fn jobs(&self, _: &Scale) -> Result<Vec<Job>, FigureError> {
        let mut points = Vec::new();
        for (series, line) in self.lines.iter().enumerate() {
            for (panel, ServiceTime { service_ns, .. }) in self.panels.iter().enumerate() {
                points.extend(self.workers.iter().map(|&workers| Point {
                    panel,
                    series,
                    at: (f64::from(workers), self.rate_rps(line, workers, *service_ns) / 1e6),
                }));
            }
        }
        Ok(vec![Job::new(1, move |_| Ok(points.clone()))])
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::named;
    use super::*;

    #[test]
    fn a_dispatcher_saturates_and_own_queues_do_not() {
        let saturation = named("saturation").and_then(|figure| figure.saturation.as_ref()).unwrap();
        let rate = |line: &Stages, workers| saturation.rate_rps(line, workers, 500.0);
        let [_, darc, own, handed_over] = &saturation.lines[..] else {
            panic!("four lines");
        };
        assert!(rate(darc, 2) > rate(own, 2), "two workers are the limit");
        assert!(rate(darc, 4) < rate(own, 4), "the dispatcher is");
        assert_eq!(rate(darc, 16).to_bits(), rate(darc, 64).to_bits());
        assert!(rate(own, 64) > 4.0 * rate(darc, 64));
        assert!(rate(handed_over, 64) > rate(darc, 64));
        assert_eq!(rate(own, 64).to_bits(), (16.0 * rate(own, 4)).to_bits());
    }
}
