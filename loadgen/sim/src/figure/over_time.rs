//! Figures of a server over time, through steps of load and stalls: what it does in time.

use serde::Deserialize;

use crate::chart::{Axis, Panel, grouped};
use crate::simulator::{SimPlan, TimelineBucket, TimelinePoint};
use crate::workload::{Clients, Phase, PhaseLength, Workload};

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::kind::Kind;
use super::system::{self, System};

/// Points of a line.
const BUCKETS: u64 = 60;

/// A server over time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverTime {
    workers: usize,
    workload: Workload,
    /// Those of the workload, unless set.
    clients: Option<Clients>,
    /// Loads, and for how many milliseconds each lasts.
    steps: Vec<(f64, f64)>,
    systems: Vec<System>,
}

impl OverTime {
    fn whole_ms(&self) -> f64 {
        self.steps.iter().map(|(_, ms)| ms).sum()
    }

    /// The workload in steps, and how many requests arrive in them.
    fn workload(&self) -> Result<(Workload, u64), FigureError> {
        let is_step = |(load, ms): &(f64, f64)| *load > 0.0 && (0.001..=1e6).contains(ms);
        if self.steps.is_empty() || !self.steps.iter().all(is_step) {
            return Err(FigureError::invalid("`steps` are loads above 0, each for up to 1000 s".to_owned()));
        }
        let phase = |(load, ms): &(f64, f64)| Phase {
            length: PhaseLength::Time { duration_ns: (ms * 1e6) as u64 },
            load: *load,
            types: self.workload.types.clone(),
        };
        let arrivals = |(load, ms): &(f64, f64)| self.workload.rate_rps(*load, self.workers) * ms / 1e3;
        let requests = self.steps.iter().map(arrivals).sum::<f64>();
        let mut workload = self.workload.clone();
        workload.phases = self.steps.iter().map(phase).collect();
        workload.clients = self.clients.clone().unwrap_or(workload.clients);
        Ok((workload, requests as u64))
    }
}

/// Of the requests that were answered, the part in time, in percent.
fn in_time(bucket: &TimelineBucket) -> Option<f64> {
    let sum = |of: fn(&TimelinePoint) -> u64| bucket.types.iter().map(of).sum::<u64>();
    let [completed, in_time] = [sum(|ty| ty.completed), sum(|ty| ty.in_time)];
    (completed > 0).then(|| in_time as f64 * 100.0 / completed as f64)
}

impl Kind for OverTime {
    fn series(&self) -> Vec<String> {
        self.systems.iter().map(|system| system.name.clone()).collect()
    }

    fn panels(&self, _: &Scale) -> Result<Vec<Panel>, FigureError> {
        let x = Axis::linear("Time of arrival (ms)", 0.0, self.whole_ms());
        let mut begins_ms = 0.0;
        let stretches = self.steps.iter().map(|(load, ms)| {
            let begin_ms = begins_ms;
            begins_ms += ms;
            (begin_ms, format!("load {load}"))
        });
        let stretches: Vec<(f64, String)> = stretches.collect();
        let panel = |title: &str, y: Axis| Panel {
            stretches: stretches.clone(),
            steps: true,
            ..Panel::new(title, x.clone(), y)
        };
        Ok(vec![
            panel("Goodput", Axis::linear("Goodput (% of the workers' time)", 0.0, 100.0)),
            panel("Answers in time", Axis::linear("Answers in time (% of answers)", 0.0, 100.0)),
        ])
    }

    fn columns(&self, _: usize) -> usize {
        1
    }

    fn conditions(&self, scale: &Scale) -> Vec<String> {
        let bucket_ms = grouped(self.whole_ms() / BUCKETS as f64);
        let extent = format!("points of {bucket_ms} ms, seed {}", scale.seed);
        system::conditions(self.workers, &self.systems.iter().collect::<Vec<_>>(), &extent)
    }

    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let (workload, requests) = self.workload()?;
        let scale = Scale { requests: requests.max(1), ..*scale };
        let job = |(series, system): (usize, &System)| {
            let plan = SimPlan {
                warmup: 0,
                timeline_ns: Some((self.whole_ms() * 1e6) as u64 / BUCKETS),
                ..system.plan(&workload, self.workers.into(), 1.0, &[], &scale)?
            };
            Ok(Job::of_plan(plan, move |outcome| {
                let mut points = Vec::new();
                // The last bucket is cut off where arrivals end.
                for bucket in outcome.timeline.iter().take(BUCKETS as usize - 1) {
                    let at_ms = bucket.start_ns as f64 / 1e6;
                    let values = [Some(bucket.goodput() * 100.0), in_time(bucket)];
                    let drawn = values.into_iter().enumerate();
                    points
                        .extend(drawn.filter_map(|(panel, value)| Some(Point { panel, series, at: (at_ms, value?) })));
                }
                points
            }))
        };
        self.systems.iter().enumerate().map(job).collect()
    }
}
