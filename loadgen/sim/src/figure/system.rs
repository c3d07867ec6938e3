//! The systems that a figure compares: policies with settings and costs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use psp_policy::elastic::{ElasticSettings, Workers};
use serde::{Deserialize, Deserializer};

use crate::experiment::{Assignment, SettingError, SimSettings};
use crate::simulator::{Costs, ElasticPlan, SimPlan, SimPolicy};
use crate::text;
use crate::workload::Workload;

use super::costs::NamedCosts;
use super::error::FigureError;
use super::job::Scale;

/// The systems of the papers.
static ROWS: LazyLock<BTreeMap<String, Row>> =
    LazyLock::new(|| toml::from_str(include_str!("../../figures/systems.toml")).expect("the rows are right"));

/// One of the compared systems, with options as in `psp-loadgen sim`.
#[derive(Debug, Clone)]
pub(super) struct System {
    /// Its name in the figure.
    pub(super) name: String,
    pub(super) policy: SimPolicy,
    /// Those of the figure, unless it has its own.
    pub(super) costs: Option<Costs>,
    /// Further settings as `key=value`.
    pub(super) set: Vec<String>,
}

/// A system as files spell it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// That of the system that it is like, unless set.
    name: Option<String>,
    /// A system of the papers with what this one does not set.
    like: Option<String>,
    policy: Option<SimPolicy>,
    costs: Option<NamedCosts>,
    set: Option<Vec<String>>,
}

/// A text names a system of the papers, or a policy in any case of its letters.
impl<'de> Deserialize<'de> for System {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::named_or_spelled(deserializer, "a system", Self::named, Self::spelled)
    }
}

impl System {
    fn named(name: &str) -> Result<Self, FigureError> {
        if let Some(row) = ROWS.get(name) {
            return Self::spelled(Row { name: Some(name.to_owned()), ..row.clone() });
        }
        let policy = name.to_lowercase().parse().map_err(|_| {
            let known: Vec<&str> = ROWS.keys().map(String::as_str).chain(SimPolicy::names()).collect();
            FigureError::invalid(format!("no system is called `{name}`; there are {}", known.join(", ")))
        })?;
        Ok(Self { name: name.to_owned(), policy, costs: None, set: Vec::new() })
    }

    fn spelled(row: Row) -> Result<Self, FigureError> {
        let like = row.like.as_deref().map(Self::named).transpose()?;
        let (policy, like_costs, set) = like.map_or((None, None, Vec::new()), |like| {
            let Self { policy, costs, set, .. } = like;
            (Some(policy), costs, set)
        });
        let policy = row.policy.or(policy);
        let policy = policy.ok_or_else(|| FigureError::invalid("a system needs a `policy`".to_owned()))?;
        let name = row.name.or(row.like).unwrap_or_else(|| policy.to_string());
        let costs = row.costs.map(|costs| costs.0).or(like_costs);
        let system = Self { name, policy, costs, set: row.set.unwrap_or(set) };
        system.settings(&[])?;
        Ok(system)
    }

    /// The settings of the server, and the policy with its own.
    fn settings(&self, more: &[String]) -> Result<(SimSettings, SimPolicy), SettingError> {
        let mut policies = [self.policy.clone()];
        let mut settings = SimSettings {
            costs: self.costs.unwrap_or_default(),
            ..SimSettings::default()
        };
        let assignments = self.set.iter().chain(more).map(|text| text.parse());
        let assignments: Vec<Assignment> = assignments.collect::<Result<_, _>>()?;
        settings.assign(&mut policies, &assignments)?;
        let [policy] = policies;
        Ok((settings, policy))
    }

    pub(super) fn plan(
        &self,
        workload: &Workload,
        workers: Workers,
        load: f64,
        more: &[String],
        scale: &Scale,
    ) -> Result<SimPlan, FigureError> {
        let (settings, policy) = self.settings(more)?;
        let mut plan = SimPlan {
            seed: scale.seed,
            elastic: workers.is_elastic().then(|| ElasticPlan {
                workers_min: workers.min,
                settings: ElasticSettings::default(),
            }),
            ..SimPlan::new(workload.clone(), policy, workers.max, load).requests(scale.requests)
        };
        settings.apply(&mut plan);
        plan.validate()?;
        Ok(plan)
    }

    /// What each costs that is not free, as `key=value`.
    fn paid(&self) -> Vec<String> {
        let [costs, free] = [self.costs.unwrap_or_default(), Costs::FREE].map(toml::Table::try_from);
        let (costs, free) = (costs.unwrap_or_default(), free.unwrap_or_default());
        let paid = costs.iter().filter(|(key, value)| free.get(*key) != Some(*value));
        paid.map(|(key, value)| format!("{key}={value}")).collect()
    }
}

/// The conditions of simulations, for the footer.
///
/// Policies, settings and costs: first what all systems pay, then each system whose name does not say the same.
pub(super) fn conditions(workers: usize, systems: &[&System], extent: &str) -> Vec<String> {
    let conditions = format!("Simulated with psp's policies: {workers} workers, Poisson arrivals, {extent}.");
    let costs: Vec<Vec<String>> = systems.iter().map(|system| system.paid()).collect();
    let of_all = |cost: &&String| costs.iter().all(|costs| costs.contains(cost));
    let shared: Vec<&String> = costs.iter().take(1).flatten().filter(of_all).collect();
    let words: Vec<&str> = shared.iter().map(|cost| cost.as_str()).collect();
    let first = format!("All, where they have the stage: {}", words.join(" "));
    let own = systems.iter().zip(&costs).filter_map(|(system, costs)| {
        let costs = costs.iter().filter(|cost| !shared.contains(cost));
        let settings: String = costs.chain(&system.set).map(|pair| format!(" {pair}")).collect();
        let is_plain = settings.is_empty() && system.name.to_lowercase() == system.policy.name();
        (!is_plain).then(|| format!("{}: {}{settings}", system.name, system.policy))
    });
    let first = (!shared.is_empty()).then_some(first);
    std::iter::once(conditions).chain(first).chain(own).collect()
}
