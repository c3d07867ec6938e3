//! Figures of what a tail costs: the settings of the estimator against core seconds and latency, over a load that rises
//! and falls.

use psp_policy::elastic::ElasticSettings;

use crate::chart::{Axis, Panel};
use crate::experiment::{TailGoal, workers_needed};
use crate::simulator::{ElasticPlan, Outcome, SimError, SimPlan, TimelineBucket, simulate};
use crate::workload::Workload;

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::ramp::Ramp;
use super::sweep::System;

/// What counts as near the most workers' tail.
const GOAL: TailGoal = TailGoal { quantile: 0.99, factor: 1.5 };
/// The share of the time in which the tail is no worse than what is drawn.
const SHARE: f64 = 0.9;
/// Requests of the ramp for each of those with which one rate's need is found.
const REQUESTS_PER_NEEDED: u64 = 10;
const NEEDED_MIN: u64 = 2_000;
/// Requests of the ramp whose service times are short enough to find the need at the lowest rate in little time.
const NEEDED_SHORT: u64 = 1_000_000;

/// The most workers, always.
const ALL: &str = "all workers";

/// One panel for each system.
#[derive(Debug, Clone, Copy)]
pub(super) struct TradeOff {
    /// The load; its lines are not drawn.
    pub(super) ramp: Ramp,
    pub(super) systems: &'static [System],
    pub(super) lines: &'static [Line],
    /// Ends of the axis of core seconds, in multiples of the need.
    pub(super) cost: (f64, f64),
    /// End of the axis of latencies.
    pub(super) tail_most: f64,
}

/// The estimator with several values of one setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) settings: fn(f64) -> ElasticSettings,
    pub(super) values: &'static [f64],
}

impl TradeOff {
    pub(super) fn series(&self) -> Vec<String> {
        let lines = self.lines.iter().map(|line| {
            let values: Vec<String> = line.values.iter().map(f64::to_string).collect();
            format!("{}: {}", line.name, values.join(", "))
        });
        lines.chain([ALL.to_owned()]).collect()
    }

    pub(super) fn panels(&self) -> Vec<Panel> {
        let panel = |system: &System| Panel {
            title: system.name.to_owned(),
            x: Axis::linear("Core seconds / needed", self.cost.0, self.cost.1),
            y: Axis::log("p99 / p99 of the most", 1.0, self.tail_most),
            lines: vec![Vec::new(); self.lines.len() + 1],
            target: Some((GOAL.factor, format!("goal {}", GOAL.factor))),
            stretches: Vec::new(),
            steps: false,
        };
        self.systems.iter().map(panel).collect()
    }

    /// What is simulated, in words for the footer.
    pub(super) fn words(&self, scale: &Scale) -> String {
        format!(
            "{}. The worst type's p99 of each {} s, which it keeps for {} % of the time",
            self.ramp.words(scale),
            self.ramp.step_ns() as f64 / 1e9,
            SHARE * 100.0
        )
    }

    /// One job for each system: what it needs, and each setting.
    pub(super) fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let workload = self.ramp.workload(scale);
        let lines = self.lines;
        let job = |(panel, system): (usize, &System)| {
            let workers = self.ramp.workers;
            let plan = SimPlan {
                timeline_ns: Some(self.ramp.step_ns()),
                ..self.ramp.plan(&workload, system, workers, 1.0, scale)?
            };
            let constant = self.constant_rates(system, scale)?;
            let step_s = self.ramp.step_ns() as f64 / 1e9;
            let settings = lines.iter().map(|line| line.values.len() as u64);
            let steps = plan.requests * (1 + settings.sum::<u64>());
            Ok(Job::new(steps, move |progress| {
                let mut done = 0;
                let mut run = |plan: &SimPlan| -> Result<Outcome, SimError> {
                    let outcome = simulate(plan, &mut |arrivals| progress(done + arrivals))?;
                    done += plan.requests;
                    Ok(outcome)
                };
                let most = run(&plan)?;
                let duration_s = most.duration_ns as f64 / 1e9;
                // The last requests arrive before the last step is over.
                let passed_s = |step: usize| (duration_s - step as f64 * step_s).clamp(0.0, step_s);
                let mut needed_s = 0.0;
                for (up, plan) in constant.iter().enumerate() {
                    let down = 2 * constant.len() - 1 - up;
                    needed_s += workers_needed(plan, &GOAL)? as f64 * (passed_s(up) + passed_s(down));
                }
                let mut points = vec![Point {
                    panel,
                    series: lines.len(),
                    at: (core_seconds(&most) / needed_s, 1.0),
                }];
                for (series, line) in lines.iter().enumerate() {
                    for &value in line.values {
                        let outcome = run(&SimPlan {
                            elastic: Some(ElasticPlan { workers_min: 1, settings: (line.settings)(value) }),
                            ..plan.clone()
                        })?;
                        if outcome.interrupted {
                            return Ok(points);
                        }
                        points.push(Point {
                            panel,
                            series,
                            at: (core_seconds(&outcome) / needed_s, tail(&outcome, &most)),
                        });
                    }
                }
                Ok(points)
            }))
        };
        self.systems.iter().enumerate().map(job).collect()
    }

    /// The loads of the way up, each by itself. Those of the way down are the same.
    ///
    /// How many workers a rate needs does not depend on the unit of time.
    fn constant_rates(&self, system: &System, scale: &Scale) -> Result<Vec<SimPlan>, FigureError> {
        let requests = NEEDED_SHORT;
        let flat = Workload {
            phases: Vec::new(),
            ..self.ramp.workload(&Scale { requests, ..*scale })
        };
        let requests = (scale.requests / REQUESTS_PER_NEEDED).max(NEEDED_MIN);
        let scale = Scale { requests, ..*scale };
        let plan = |load| system.plan(&flat, self.ramp.workers, load, None, &scale);
        self.ramp.loads_up().map(plan).collect()
    }
}

fn core_seconds(outcome: &Outcome) -> f64 {
    outcome.workers_mean * outcome.duration_ns as f64 / 1e9
}

/// How many times the p99 of `most` the worst type has, in all steps but a few.
fn tail(outcome: &Outcome, most: &Outcome) -> f64 {
    let worst = |(step, most): (&TimelineBucket, &TimelineBucket)| {
        let types = step.types.iter().zip(&most.types);
        let ratios = types
            .filter(|(_, most)| most.latency_ns_p99 > 0)
            .map(|(ty, most)| ty.latency_ns_p99 as f64 / most.latency_ns_p99 as f64);
        ratios.fold(0.0, f64::max)
    };
    let mut steps: Vec<f64> = outcome.timeline.iter().zip(&most.timeline).map(worst).collect();
    steps.sort_by(f64::total_cmp);
    let index = (steps.len() as f64 * SHARE) as usize;
    steps.get(index).copied().unwrap_or_default()
}
