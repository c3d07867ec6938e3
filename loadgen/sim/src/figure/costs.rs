//! What scheduling costs in the figures that papers measured: the rows of `figures/costs.toml`.
//!
//! Figures whose papers simulate policies without costs have [`Costs::FREE`].

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

use crate::simulator::Costs;
use crate::text;

static ROWS: LazyLock<BTreeMap<String, toml::Table>> =
    LazyLock::new(|| toml::from_str(include_str!("../../figures/costs.toml")).expect("the rows are right"));

/// Costs that a file gives by the name of a row, or spells: all of them, or what differs from the row that is `like`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NamedCosts(pub(super) Costs);

impl<'de> Deserialize<'de> for NamedCosts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::named_or_spelled(deserializer, "costs", named, spelled).map(Self)
    }
}

fn named(name: &str) -> Result<Costs, String> {
    let row = ROWS.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = ROWS.keys().map(String::as_str).collect();
        format!("no costs are called `{name}`; there are {}", known.join(", "))
    })?;
    spelled(row)
}

fn spelled(mut row: toml::Table) -> Result<Costs, String> {
    let mut costs = match row.remove("like") {
        None => toml::Table::new(),
        Some(like) => {
            let name = like.as_str().ok_or("`like` is the name of costs")?;
            toml::Table::try_from(named(name)?).map_err(|error| error.to_string())?
        }
    };
    costs.extend(row);
    costs.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::all;
    use super::super::job::Scale;
    use super::*;
    use crate::simulator::{SimPlan, SimPolicy};
    use crate::workload::Workload;

    /// What every request costs, whatever the system.
    const fn stages(costs: &Costs) -> [u64; 5] {
        let by_dispatcher_ns = costs.classify_ns + costs.dispatch_ns;
        let [channel_ns, steal_ns] = [costs.channel_ns, costs.steal_ns];
        [by_dispatcher_ns, channel_ns, steal_ns, costs.hand_over_ns, costs.network_ns]
    }

    #[test]
    fn every_row_has_each_stage() {
        let stages = toml::Table::try_from(Costs::FREE).unwrap();
        for (name, row) in ROWS.iter() {
            let like = row.get("like").map(|like| &ROWS[like.as_str().unwrap()]);
            let has = |stage: &String| row.contains_key(stage) || like.is_some_and(|like| like.contains_key(stage));
            let missing: Vec<&String> = stages.keys().filter(|stage| !has(stage)).collect();
            assert!(missing.is_empty(), "{name} lacks {missing:?}");
            named(name).unwrap();
        }
    }

    #[test]
    fn every_system_of_a_figure_pays_each_stage_of_its_design() {
        let mut compared = 0;
        for figure in all() {
            let Some(sweep) = &figure.sweep else {
                continue;
            };
            let workload = Workload::named("high-bimodal").unwrap();
            let scale = Scale { requests: 1, seed: 1 };
            let systems = sweep.systems();
            let plans = systems.iter().map(|system| system.plan(&workload, 14.into(), 0.5, &[], &scale).unwrap());
            let plans: Vec<SimPlan> = plans.collect();
            if plans.iter().all(|plan| stages(&plan.costs) == [0; 5]) {
                continue;
            }
            compared += 1;
            for (system, plan) in systems.iter().zip(&plans) {
                let subject = format!("{}: {}", figure.name, system.name);
                let costs = plan.costs;
                assert_eq!(stages(&costs), stages(&plans[0].costs), "{subject}");
                let SimPolicy::Live(policy) = &plan.policy else {
                    panic!("{subject} is an ideal, which pays nothing");
                };
                let (by_worker, interrupts) = (policy.name() == "jsq", policy.can_preempt());
                if plan.preemption && interrupts {
                    assert!(by_worker || costs.send_ns > 0, "{subject}");
                    let at_worker = [costs.propagation_ns, costs.preempt_ns, costs.switch_ns];
                    assert!(!at_worker.contains(&0), "{subject}: {at_worker:?}");
                }
            }
        }
        assert!(compared >= 19, "{compared}");
    }
}
