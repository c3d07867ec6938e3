//! Figures that simulate several systems at a series of loads, or of values of a setting.

use serde::Deserialize;

use crate::chart::{Axis, Panel, grouped};
use crate::simulator::{Costs, Outcome, SimPlan};
use crate::workload::Workload;

use super::costs::NamedCosts;
use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::kind::Kind;
use super::system::{self, System};

/// Systems side by side.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// Workers of every system; the most, in a sweep across these.
    workers: usize,
    /// The horizontal axis.
    #[serde(default)]
    across: Across,
    /// Requests of a point, in multiples of the usual number.
    #[serde(default = "one")]
    effort: u64,
    /// The percentile of slowdowns and latencies.
    #[serde(default = "tail")]
    percentile: f64,
    /// That of panels that name none.
    workload: Option<Workload>,
    /// Those of systems that name none.
    #[serde(default)]
    costs: NamedCosts,
    /// As servers see their requests, without the way to the client.
    #[serde(default)]
    at_server: bool,
    /// Settings of all systems, before their own.
    #[serde(default)]
    set: Vec<String>,
    panels: Vec<PanelOf>,
    systems: Vec<System>,
}

const fn one() -> u64 {
    1
}

const fn tail() -> f64 {
    99.9
}

/// The horizontal axis of a [`Sweep`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Across {
    /// The offered load, as a share of the workers' capacity.
    Load {
        unit: Unit,
        #[serde(default = "loads")]
        at: Vec<f64>,
    },
    /// The number of workers, at one load.
    Workers { at: Vec<usize>, load: f64 },
    /// A setting, at one load.
    Setting {
        /// The policy that has the setting. Systems with another policy give a level line.
        policy: String,
        /// Its name.
        key: String,
        /// Its name on the axis.
        label: String,
        /// Its last value; the first is 0.
        last: u32,
    },
}

impl Default for Across {
    fn default() -> Self {
        Self::Load { unit: Unit::Percent, at: loads() }
    }
}

/// Loads with a finer grid near saturation.
fn loads() -> Vec<f64> {
    vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99]
}

/// The unit of a load.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    /// Percent of the workers' capacity.
    Percent,
    /// Thousands of requests per second.
    Krps,
    /// Millions of requests per second.
    Mrps,
}

/// One panel of a [`Sweep`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PanelOf {
    title: String,
    workload: Option<Workload>,
    /// The load, in a sweep across a setting.
    load: Option<f64>,
    #[serde(default)]
    quantity: Quantity,
    /// Of which requests.
    #[serde(default)]
    of: Of,
    /// Ends of the vertical axis, which is logarithmic unless it is one of shares.
    y: (f64, f64),
    /// A line across at this value: the objective.
    slo: Option<f64>,
}

/// The quantity on the vertical axis.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Quantity {
    /// Time from arrival to completion over the request's own service time.
    #[default]
    Slowdown,
    /// Time from arrival to completion, in microseconds.
    Latency,
    /// Preemptions for each request. It has no percentile.
    Preemptions,
    /// Workers that idle though requests wait. It has no percentile.
    IdleCores,
    /// Millions of completed requests per second. It has no percentile.
    Throughput,
    /// Share of the workers' time that went to requests which ended in time, in percent. It has no percentile.
    Goodput,
}

/// Of which requests.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(from = "String", bound = "Self: From<String>")]
enum Of<Type = String> {
    /// All of them together: `all`.
    #[default]
    All,
    /// The type with the largest value: `worst-type`.
    WorstType,
    /// The tenant with the largest value, of all but the last: `all-tenants-but-the-last`.
    Neighbours,
    /// Requests of one type.
    Type(Type),
}

impl From<String> for Of {
    fn from(name: String) -> Self {
        match name.as_str() {
            "all" => Self::All,
            "worst-type" => Self::WorstType,
            "all-tenants-but-the-last" => Self::Neighbours,
            _ => Self::Type(name),
        }
    }
}

impl Of {
    /// With the type's index.
    fn among(&self, workload: &Workload) -> Result<Of<usize>, FigureError> {
        Ok(match self {
            Self::All => Of::All,
            Self::WorstType => Of::WorstType,
            Self::Neighbours => Of::Neighbours,
            Self::Type(name) => {
                let index = workload.types.iter().position(|ty| ty.name == *name);
                Of::Type(index.ok_or_else(|| FigureError::invalid(format!("no type is called `{name}`")))?)
            }
        })
    }
}

/// A workload and, in a sweep across a setting, the load. Panels of one case share simulations.
type Case<'a> = (&'a Workload, Option<f64>);

impl Sweep {
    /// The systems with what they do not set themselves.
    pub(super) fn systems(&self) -> Vec<System> {
        let system = |system: &System| {
            let costs = system.costs.unwrap_or(self.costs.0);
            let network_ns = if self.at_server { 0 } else { costs.network_ns };
            System {
                costs: Some(Costs { network_ns, ..costs }),
                set: self.set.iter().chain(&system.set).cloned().collect(),
                ..system.clone()
            }
        };
        self.systems.iter().map(system).collect()
    }

    fn case<'a>(&'a self, panel: &'a PanelOf) -> Result<Case<'a>, FigureError> {
        let workload = panel.workload.as_ref().or(self.workload.as_ref());
        let missing = || FigureError::invalid(format!("the panel `{}` needs a workload", panel.title));
        Ok((workload.ok_or_else(missing)?, panel.load))
    }

    fn scale(&self, scale: &Scale) -> Scale {
        Scale {
            requests: scale.requests.saturating_mul(self.effort),
            ..*scale
        }
    }

    /// What draws the points of a case at one stop.
    fn job(&self, case: Case<'_>, series: usize, stop: Stop, plan: SimPlan) -> Result<Job, FigureError> {
        let mut values = Vec::new();
        for (index, panel) in self.panels.iter().enumerate() {
            if self.case(panel)? == case {
                values.push((index, panel.quantity, panel.of.among(case.0)?));
            }
        }
        let quantile = self.percentile / 100.0;
        Ok(Job::of_plan(plan, move |outcome| {
            let mut points = Vec::new();
            for (panel, quantity, of) in &values {
                let value = quantity.value(outcome, *of, quantile);
                let xs = stop.shown_at.iter().filter(|_| value > 0.0 || quantity.has_zero());
                points.extend(xs.map(|&x| Point { panel: *panel, series, at: (x, value) }));
            }
            points
        }))
    }
}

impl Kind for Sweep {
    fn series(&self) -> Vec<String> {
        self.systems.iter().map(|system| system.name.clone()).collect()
    }

    fn panels(&self, _: &Scale) -> Result<Vec<Panel>, FigureError> {
        let empty = |panel: &PanelOf| {
            let x = self.across.axis(self.case(panel)?.0, self.workers);
            let label = panel.quantity.label(self.percentile);
            Ok(Panel {
                target: panel.slo.map(|slo| (slo, format!("SLO {slo}"))),
                ..Panel::new(&panel.title, x, panel.quantity.axis(label, panel.y))
            })
        };
        self.panels.iter().map(empty).collect()
    }

    fn conditions(&self, scale: &Scale) -> Vec<String> {
        let Scale { requests, seed } = self.scale(scale);
        let requests = grouped(requests as f64);
        let extent = format!("{requests} requests a point after a tenth of that as warm-up, seed {seed}");
        let systems = self.systems();
        system::conditions(self.workers, &systems.iter().collect::<Vec<_>>(), &extent)
    }

    /// A simulation for each case, system and stop on the horizontal axis.
    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let scale = &self.scale(scale);
        let mut cases = Vec::new();
        for panel in &self.panels {
            let case = self.case(panel)?;
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        let mut jobs = Vec::new();
        for case in cases {
            for (series, system) in self.systems().iter().enumerate() {
                for stop in self.across.stops(system, case, self.workers) {
                    let plan = system.plan(case.0, stop.workers.into(), stop.load, &stop.set, scale)?;
                    jobs.push(self.job(case, series, stop, plan)?);
                }
            }
        }
        Ok(jobs)
    }
}

/// A stop on the horizontal axis.
struct Stop {
    workers: usize,
    load: f64,
    /// `key=value`, in a sweep across a setting.
    set: Vec<String>,
    /// Where its values are drawn: at one x, or at every x as a level line.
    shown_at: Vec<f64>,
}

impl Across {
    fn axis(&self, workload: &Workload, workers: usize) -> Axis {
        match self {
            Self::Load { unit, at } => {
                let last = at.iter().copied().fold(0.0, f64::max);
                Axis::linear(unit.label(), 0.0, unit.of(last, workload, workers))
            }
            Self::Workers { .. } => Axis::linear("Workers", 0.0, workers as f64),
            Self::Setting { label, last, .. } => Axis::linear(label, 0.0, f64::from(*last)),
        }
    }

    fn stops(&self, system: &System, (workload, load): Case<'_>, workers: usize) -> Vec<Stop> {
        let stop = |workers, load, x| Stop { workers, load, set: Vec::new(), shown_at: vec![x] };
        match self {
            Self::Load { unit, at } => {
                at.iter().map(|&load| stop(workers, load, unit.of(load, workload, workers))).collect()
            }
            Self::Workers { at, load } => at.iter().map(|&workers| stop(workers, *load, workers as f64)).collect(),
            Self::Setting { policy, key, last, .. } => {
                let load = load.unwrap_or(1.0);
                let stops = (0..=*last).map(|value| Stop {
                    set: vec![format!("{key}={value}")],
                    ..stop(workers, load, f64::from(value))
                });
                if system.policy.name() == policy {
                    return stops.collect();
                }
                vec![Stop {
                    shown_at: (0..=*last).map(f64::from).collect(),
                    ..stop(workers, load, 0.0)
                }]
            }
        }
    }
}

impl Unit {
    const fn label(self) -> &'static str {
        match self {
            Self::Percent => "Offered load (% of capacity)",
            Self::Krps => "Offered load (thousand requests/s)",
            Self::Mrps => "Offered load (million requests/s)",
        }
    }

    fn of(self, load: f64, workload: &Workload, workers: usize) -> f64 {
        match self {
            Self::Percent => load * 100.0,
            Self::Krps => workload.rate_rps(load, workers) / 1e3,
            Self::Mrps => workload.rate_rps(load, workers) / 1e6,
        }
    }
}

impl Quantity {
    /// Whether 0 is a value.
    const fn has_zero(self) -> bool {
        matches!(self, Self::Goodput)
    }

    fn axis(self, label: String, (from, to): (f64, f64)) -> Axis {
        if self.has_zero() {
            Axis::linear(label, from, to)
        } else {
            Axis::log(label, from, to)
        }
    }

    fn label(self, percentile: f64) -> String {
        match self {
            Self::Slowdown => format!("p{percentile} slowdown"),
            Self::Latency => format!("p{percentile} latency (us)"),
            Self::Preemptions => "Preemptions per request".to_owned(),
            Self::IdleCores => "Cores that idle while requests wait".to_owned(),
            Self::Throughput => "Million requests/s".to_owned(),
            Self::Goodput => "Goodput (% of the workers' time)".to_owned(),
        }
    }

    /// 0 when no such request completed.
    fn value(self, outcome: &Outcome, of: Of<usize>, quantile: f64) -> f64 {
        let types = &outcome.types;
        let latency_us = |index: usize| types[index].latency_ns.value_at_quantile(quantile) as f64 / 1e3;
        match (self, of) {
            (Self::Slowdown, Of::All) => outcome.overall.at(quantile),
            (Self::Slowdown, Of::Type(index)) => types[index].slowdown.at(quantile),
            (Self::Slowdown, Of::WorstType) => outcome.worst_slowdown(quantile),
            (Self::Latency, Of::All) => {
                let mut all = types[0].latency_ns.clone();
                for ty in &types[1..] {
                    // Histograms of one simulation have the same bounds.
                    all += &ty.latency_ns;
                }
                all.value_at_quantile(quantile) as f64 / 1e3
            }
            (Self::Latency, Of::Type(index)) => latency_us(index),
            (Self::Latency, Of::WorstType) => (0..types.len()).map(latency_us).fold(0.0, f64::max),
            (Self::Slowdown, Of::Neighbours) => {
                let neighbours = outcome.tenants.split_last().map_or(&[][..], |(_, neighbours)| neighbours);
                neighbours.iter().map(|tenant| tenant.slowdown.at(quantile)).fold(0.0, f64::max)
            }
            (Self::Latency, Of::Neighbours) => 0.0,
            (Self::Goodput, Of::Type(index)) => types[index].goodput * 100.0,
            (Self::Goodput, _) => outcome.goodput * 100.0,
            (Self::Preemptions, _) => outcome.preemptions as f64 / outcome.arrived as f64,
            (Self::IdleCores, _) => outcome.reserved_idle_cores,
            (Self::Throughput, _) => outcome.completed as f64 * 1e3 / outcome.duration_ns as f64,
        }
    }
}
