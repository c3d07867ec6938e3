//! Figures of what a tail costs: the settings of the estimator against core seconds and latency, over a load that rises
//! and falls.

use serde::Deserialize;

use crate::chart::{Axis, Panel};
use crate::experiment::{TailGoal, workers_needed};
use crate::simulator::{Outcome, SimError, SimPlan, TimelineBucket, simulate};
use crate::workload::Workload;

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::kind::Kind;
use super::ramp::Ramp;
use super::system::{self, System};

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
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TradeOff {
    /// The load; its lines are not drawn.
    ramp: Ramp,
    systems: Vec<System>,
    lines: Vec<Line>,
    /// Ends of the axis of core seconds, in multiples of the need.
    cost: (f64, f64),
    /// End of the axis of latencies.
    tail_most: f64,
}

/// The estimator with several values of one setting.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    /// One of the settings of `psp-loadgen sim` that begin with `elastic-`, without this.
    setting: String,
    values: Vec<f64>,
    /// Others of these.
    #[serde(default)]
    elastic: Vec<String>,
}

impl TradeOff {
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
        let plan = |load| system.plan(&flat, self.ramp.workers.into(), load, &[], &scale);
        self.ramp.loads_up().map(plan).collect()
    }
}

impl Kind for TradeOff {
    fn series(&self) -> Vec<String> {
        let lines = self.lines.iter().map(|line| {
            let values: Vec<String> = line.values.iter().map(f64::to_string).collect();
            format!("{}: {}", line.name, values.join(", "))
        });
        lines.chain([ALL.to_owned()]).collect()
    }

    fn panels(&self, _: &Scale) -> Result<Vec<Panel>, FigureError> {
        let panel = |system: &System| {
            let x = Axis::linear("Core seconds / needed", self.cost.0, self.cost.1);
            let y = Axis::log("p99 / p99 of the most", 1.0, self.tail_most);
            let target = Some((GOAL.factor, format!("goal {}", GOAL.factor)));
            Panel { target, ..Panel::new(&system.name, x, y) }
        };
        Ok(self.systems.iter().map(panel).collect())
    }

    fn conditions(&self, scale: &Scale) -> Vec<String> {
        let extent = format!(
            "{}. The worst type's p99 of each {} s, which it keeps for {} % of the time",
            self.ramp.extent(scale),
            self.ramp.step_ns() as f64 / 1e9,
            SHARE * 100.0
        );
        system::conditions(self.ramp.workers, &self.systems.iter().collect::<Vec<_>>(), &extent)
    }

    /// One job for each system: what it needs, and each setting.
    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let workload = self.ramp.workload(scale);
        let most_series = self.lines.len();
        let job = |(panel, system): (usize, &System)| {
            let workers = self.ramp.workers;
            let planned = |workers_min: usize, elastic: &[String]| {
                let workers = (workers_min..=workers).into();
                let timeline_ns = Some(self.ramp.step_ns());
                let plan = self.ramp.plan(&workload, system, workers, 1.0, elastic, scale)?;
                Ok::<_, FigureError>(SimPlan { timeline_ns, ..plan })
            };
            let plan = planned(workers, &[])?;
            let mut settings = Vec::new();
            for (series, line) in self.lines.iter().enumerate() {
                for value in &line.values {
                    let own = format!("{}={value}", line.setting);
                    let elastic: Vec<String> = line.elastic.iter().cloned().chain([own]).collect();
                    settings.push((series, planned(1, &elastic)?));
                }
            }
            let constant = self.constant_rates(system, scale)?;
            let step_s = self.ramp.step_ns() as f64 / 1e9;
            let steps = plan.requests * (1 + settings.len() as u64);
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
                    series: most_series,
                    at: (core_seconds(&most) / needed_s, 1.0),
                }];
                for (series, plan) in &settings {
                    let outcome = run(plan)?;
                    if outcome.interrupted {
                        return Ok(points);
                    }
                    points.push(Point {
                        panel,
                        series: *series,
                        at: (core_seconds(&outcome) / needed_s, tail(&outcome, &most)),
                    });
                }
                Ok(points)
            }))
        };
        self.systems.iter().enumerate().map(job).collect()
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
