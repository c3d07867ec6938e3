//! Figures that simulate several systems at a series of loads, or of values of a setting.

use crate::chart::{Axis, Panel, grouped};
use crate::experiment::{Assignment, SimSettings};
use crate::simulator::{Costs, Outcome, SimPlan, SimPolicy};
use crate::workload::Workload;

use super::error::FigureError;
use super::job::{Job, Point, Scale};

/// Systems side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep {
    /// Workers of every system; the most, in a sweep across these.
    pub(super) workers: usize,
    /// The horizontal axis.
    pub(super) across: Across,
    /// The panels.
    pub(super) panels: &'static [PanelOf],
    /// The compared systems.
    pub(super) systems: &'static [System],
    /// Requests of a point, in multiples of the usual number.
    pub(super) effort: u64,
}

/// The horizontal axis of a [`Sweep`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Across {
    /// The offered load, as a share of the workers' capacity.
    Load(Unit, &'static [f64]),
    /// The number of workers, at one load.
    Workers(f64, &'static [usize]),
    /// A setting, at one load.
    Setting {
        /// The policy that has the setting. Systems with another policy give a level line.
        policy: &'static str,
        /// Its name.
        key: &'static str,
        /// Its name on the axis.
        label: &'static str,
        /// Its last value; the first is 0.
        last: u32,
    },
}

/// The unit of a load.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    /// Percent of the workers' capacity.
    Percent,
    /// Thousands of requests per second.
    Krps,
    /// Millions of requests per second.
    Mrps,
}

/// One panel of a [`Sweep`].
#[derive(Debug, Clone, Copy)]
pub(super) struct PanelOf {
    /// Title of the panel.
    pub(super) title: &'static str,
    /// The workload, by name.
    pub(super) workload: &'static str,
    /// The load, in a sweep across a setting.
    pub(super) load: Option<f64>,
    /// The quantity on the vertical axis.
    pub(super) quantity: Quantity,
    /// The percentile of it.
    pub(super) percentile: f64,
    /// Ends of the vertical axis, which is logarithmic.
    pub(super) range: (f64, f64),
    /// A line across at this value: the objective.
    pub(super) slo: Option<f64>,
}

impl PanelOf {
    /// The slowdown of the worst type by load, beside an objective of 10.
    pub(super) const fn worst_type(title: &'static str, workload: &'static str) -> Self {
        Self {
            title,
            workload,
            load: None,
            quantity: Quantity::Slowdown(Of::WorstType),
            percentile: TAIL,
            range: (1.0, 1000.0),
            slo: Some(10.0),
        }
    }
}

/// The usual percentile of figures.
pub(super) const TAIL: f64 = 99.9;

/// Loads with a finer grid where policies reach their limits on Extreme Bimodal.
pub(super) const LOADS_FINE: &[f64] = &[
    0.1, 0.2, 0.3, 0.35, 0.4, 0.425, 0.45, 0.475, 0.5, 0.55, 0.6, 0.65, 0.675, 0.7, 0.725, 0.75, 0.8, 0.85, 0.9, 0.925,
    0.95, 0.96, 0.97, 0.98, 0.99,
];

/// Loads with a finer grid near saturation.
pub(super) const LOADS: &[f64] =
    &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99];

/// The quantity on the vertical axis.
#[derive(Debug, Clone, Copy)]
pub(super) enum Quantity {
    /// Time from arrival to completion over the request's own service time.
    Slowdown(Of),
    /// Time from arrival to completion, in microseconds.
    Latency(Of),
    /// Preemptions for each request. It has no percentile.
    Preemptions,
    /// Workers that idle though requests wait. It has no percentile.
    IdleCores,
    /// Millions of completed requests per second. It has no percentile.
    Throughput,
}

/// Of which requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    /// All of them together.
    All,
    /// Requests of one type, by its index.
    Type(usize),
    /// The type with the largest value.
    WorstType,
}

/// One of the compared systems, with options as in `psp-loadgen sim`.
#[derive(Debug, Clone, Copy)]
pub(super) struct System {
    /// Its name in the figure.
    pub(super) name: &'static str,
    /// Its policy.
    pub(super) policy: &'static str,
    /// A row of [the table](super::costs).
    pub(super) costs: Costs,
    /// Further settings as `key=value`.
    pub(super) set: &'static [&'static str],
}

impl Sweep {
    /// Systems by load.
    pub(super) const fn by_load(
        workers: usize,
        unit: Unit,
        panels: &'static [PanelOf],
        systems: &'static [System],
    ) -> Self {
        Self {
            workers,
            across: Across::Load(unit, LOADS),
            panels,
            systems,
            effort: 1,
        }
    }

    /// The panels without lines.
    pub(super) fn panels(&self) -> Result<Vec<Panel>, FigureError> {
        let empty = |panel: &PanelOf| {
            let workload = Workload::named(panel.workload)?;
            Ok(Panel {
                title: panel.title.to_owned(),
                x: self.across.axis(&workload, self.workers),
                y: Axis::log(panel.y_label(), panel.range.0, panel.range.1),
                lines: vec![Vec::new(); self.systems.len()],
                target: panel.slo.map(|slo| (slo, format!("SLO {slo}"))),
                stretches: Vec::new(),
                steps: false,
            })
        };
        self.panels.iter().map(empty).collect()
    }

    pub(super) fn series(&self) -> Vec<String> {
        self.systems.iter().map(|system| system.name.to_owned()).collect()
    }

    fn scale(&self, scale: &Scale) -> Scale {
        Scale { requests: scale.requests * self.effort, ..*scale }
    }

    /// How much is simulated, in words for the footer.
    pub(super) fn words(&self, scale: &Scale) -> String {
        let Scale { requests, seed } = self.scale(scale);
        let requests = grouped(requests as f64);
        format!("{requests} requests a point after a tenth of that as warm-up, seed {seed}")
    }

    /// A simulation for each workload, system and stop on the horizontal axis.
    pub(super) fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        let scale = &self.scale(scale);
        let mut cases: Vec<Case> = self.panels.iter().map(PanelOf::case).collect();
        cases.dedup();
        let mut jobs = Vec::new();
        for case in cases {
            let workload = Workload::named(case.0)?;
            for (series, system) in self.systems.iter().enumerate() {
                for stop in self.across.stops(system, case, &workload, self.workers) {
                    let more = stop.assignment.as_deref();
                    let plan = system.plan(&workload, stop.workers, stop.load, more, scale)?;
                    jobs.push(self.job(case, series, stop, plan));
                }
            }
        }
        Ok(jobs)
    }

    fn job(&self, case: Case, series: usize, stop: Stop, plan: SimPlan) -> Job {
        let panels: Vec<(usize, PanelOf)> = self
            .panels
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, panel)| panel.case() == case)
            .collect();
        Job::of_plan(plan, move |outcome| {
            let mut points = Vec::new();
            for (index, panel) in &panels {
                let value = panel.quantity.of(outcome, panel.percentile);
                let xs = stop.shown_at.iter().filter(|_| value > 0.0);
                points.extend(xs.map(|&x| Point { panel: *index, series, at: (x, value) }));
            }
            points
        })
    }
}

/// A stop on the horizontal axis.
#[derive(Debug, Clone)]
struct Stop {
    workers: usize,
    load: f64,
    /// `key=value`, in a sweep across a setting.
    assignment: Option<String>,
    /// Where its values are drawn: at one x, or at every x as a level line.
    shown_at: Vec<f64>,
}

impl Across {
    fn axis(&self, workload: &Workload, workers: usize) -> Axis {
        match self {
            Self::Load(unit, loads) => {
                let last = loads.iter().copied().fold(0.0, f64::max);
                Axis::linear(unit.label(), 0.0, unit.of(last, workload, workers))
            }
            Self::Workers(..) => Axis::linear("Workers", 0.0, workers as f64),
            Self::Setting { label, last, .. } => Axis::linear(*label, 0.0, f64::from(*last)),
        }
    }

    fn stops(&self, system: &System, (_, load): Case, workload: &Workload, workers: usize) -> Vec<Stop> {
        match *self {
            Self::Load(unit, loads) => {
                let stop = |load: &f64| Stop {
                    workers,
                    load: *load,
                    assignment: None,
                    shown_at: vec![unit.of(*load, workload, workers)],
                };
                loads.iter().map(stop).collect()
            }
            Self::Workers(load, counts) => {
                let stop = |&workers: &usize| Stop {
                    workers,
                    load,
                    assignment: None,
                    shown_at: vec![workers as f64],
                };
                counts.iter().map(stop).collect()
            }
            Self::Setting { policy, key, last, .. } => {
                let load = load.unwrap_or(1.0);
                let stop = |value: u32| Stop {
                    workers,
                    load,
                    assignment: Some(format!("{key}={value}")),
                    shown_at: vec![f64::from(value)],
                };
                if system.policy == policy {
                    return (0..=last).map(stop).collect();
                }
                vec![Stop {
                    workers,
                    load,
                    assignment: None,
                    shown_at: (0..=last).map(f64::from).collect(),
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

/// A workload and, in a sweep across a setting, the load. Panels of one case share simulations.
type Case = (&'static str, Option<f64>);

impl PanelOf {
    const fn case(&self) -> Case {
        (self.workload, self.load)
    }

    fn y_label(&self) -> String {
        let quantity = match self.quantity {
            Quantity::Slowdown(_) => "slowdown",
            Quantity::Latency(_) => "latency (us)",
            Quantity::Preemptions => return "Preemptions per request".to_owned(),
            Quantity::IdleCores => return "Cores that idle while requests wait".to_owned(),
            Quantity::Throughput => return "Million requests/s".to_owned(),
        };
        format!("p{} {quantity}", self.percentile)
    }
}

impl Quantity {
    /// 0 when no such request completed.
    fn of(self, outcome: &Outcome, percentile: f64) -> f64 {
        let quantile = percentile / 100.0;
        let types = &outcome.types;
        let latency_us = |index: usize| {
            let latency_ns = &types[index].latency_ns;
            latency_ns.value_at_quantile(quantile) as f64 / 1e3
        };
        match self {
            Self::Slowdown(Of::All) => outcome.overall.at(quantile),
            Self::Slowdown(Of::Type(index)) => types[index].slowdown.at(quantile),
            Self::Slowdown(Of::WorstType) => outcome.worst_slowdown(quantile),
            Self::Latency(Of::All) => {
                let mut all = types[0].latency_ns.clone();
                for ty in &types[1..] {
                    // Histograms of one simulation have the same bounds.
                    all += &ty.latency_ns;
                }
                all.value_at_quantile(quantile) as f64 / 1e3
            }
            Self::Latency(Of::Type(index)) => latency_us(index),
            Self::Preemptions => outcome.preemptions as f64 / outcome.arrived as f64,
            Self::IdleCores => outcome.reserved_idle_cores,
            Self::Throughput => outcome.completed as f64 * 1e3 / outcome.duration_ns as f64,
            Self::Latency(Of::WorstType) => (0..types.len()).map(latency_us).fold(0.0, f64::max),
        }
    }
}

impl System {
    /// A policy with nothing set, under which nothing costs anything.
    pub(super) const fn plain(name: &'static str, policy: &'static str) -> Self {
        Self { name, policy, costs: Costs::FREE, set: &[] }
    }

    /// With these costs.
    pub(super) const fn paying(self, costs: Costs) -> Self {
        Self { costs, ..self }
    }

    /// With these settings.
    pub(super) const fn set(self, set: &'static [&'static str]) -> Self {
        Self { set, ..self }
    }

    /// What each costs that is not free, as `key=value`.
    fn costs(&self) -> Vec<String> {
        let [costs, free] = [self.costs, Costs::FREE].map(toml::Table::try_from);
        let (costs, free) = (costs.unwrap_or_default(), free.unwrap_or_default());
        let paid = costs.iter().filter(|(key, value)| free.get(*key) != Some(*value));
        paid.map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Policies, settings and costs: first what all systems pay, then each whose name does not say the same.
    pub(super) fn settings(systems: &[Self]) -> Vec<String> {
        let costs: Vec<Vec<String>> = systems.iter().map(Self::costs).collect();
        let of_all = |cost: &&String| costs.iter().all(|costs| costs.contains(cost));
        let shared: Vec<&String> = costs.iter().take(1).flatten().filter(of_all).collect();
        let words: Vec<&str> = shared.iter().map(|cost| cost.as_str()).collect();
        let first = format!("All, where they have the stage: {}", words.join(" "));
        let own = systems.iter().zip(&costs).filter_map(|(system, costs)| {
            let costs = costs.iter().filter(|cost| !shared.contains(cost));
            let pairs = costs.map(String::as_str).chain(system.set.iter().copied());
            let settings: String = pairs.map(|pair| format!(" {pair}")).collect();
            let is_plain = settings.is_empty() && system.name.to_lowercase() == system.policy;
            (!is_plain).then(|| format!("{}: {}{settings}", system.name, system.policy))
        });
        let first = (!shared.is_empty()).then_some(first);
        first.into_iter().chain(own).collect()
    }

    pub(super) fn plan(
        &self,
        workload: &Workload,
        workers: usize,
        load: f64,
        more: Option<&str>,
        scale: &Scale,
    ) -> Result<SimPlan, FigureError> {
        let mut policies = [self.policy.parse::<SimPolicy>()?];
        let mut settings = SimSettings { costs: self.costs, ..SimSettings::default() };
        let keys = self.set.iter().copied().chain(more);
        let assignments: Vec<Assignment> = keys.map(str::parse).collect::<Result<_, _>>()?;
        settings.assign(&mut policies, &assignments)?;
        let [policy] = policies;
        let mut plan = SimPlan {
            seed: scale.seed,
            ..SimPlan::new(workload.clone(), policy, workers, load).requests(scale.requests)
        };
        settings.apply(&mut plan);
        Ok(plan)
    }
}
