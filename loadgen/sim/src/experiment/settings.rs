//! Settings of a simulation by name: `preempt-ns=700`, `darc.delta=3`.
//!
//! This file names no setting. The names and types follow from the way in which settings and
//! policies are serialized.

use std::str::FromStr;

use psp_policy::elastic::ElasticSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::simulator::{AdmissionModel, ClassifierModel, Cluster, Costs, Overload, SimPlan, SimPolicy, Stall};

/// All properties of the simulated server except those of its policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SimSettings {
    /// The costs of scheduling.
    #[serde(flatten)]
    pub costs: Costs,
    /// Servers, and the load balancer in front of them.
    #[serde(flatten)]
    pub cluster: Cluster,
    /// Whether running requests can be preempted.
    pub preemption: bool,
    /// Whether any worker may resume a preempted request.
    pub migrates: bool,
    /// Requests that a worker can have begun and not finished, where requests do not migrate.
    pub contexts: Option<usize>,
    /// Requests of one type that may wait.
    pub queue_capacity: usize,
    /// How the server classifies requests.
    pub classifier: ClassifierModel,
    /// Whether the policy knows the types' service times and shares from the start.
    pub hints: bool,
    /// Flows of requests, each of which one worker receives; each request is one of its own unless set.
    pub flows: Option<usize>,
    /// What is let in.
    pub admission: AdmissionModel,
    /// The SLO of types without one, in service times.
    pub slo_slowdown: f64,
    /// For how long no request begins, in milliseconds; 0: never.
    pub stall_ms: f64,
    /// When that begins, in milliseconds after the warm-up.
    pub stall_from_ms: f64,
    /// A worker comes when so many requests run and wait for each, if workers come and go.
    pub elastic_load_factor: f64,
    /// A worker goes when the load has fallen by this part.
    pub elastic_hysteresis: f64,
    /// The load is averaged over this time, in milliseconds.
    pub elastic_interval_ms: u64,
    /// A worker comes when more than one in a hundred requests of a type take longer than the 99th percentile of its
    /// service times, times this, because they wait; 0: never for that.
    pub elastic_tail_factor: f64,
}

impl Default for SimSettings {
    fn default() -> Self {
        Self {
            costs: Costs::default(),
            cluster: Cluster::default(),
            preemption: true,
            migrates: true,
            contexts: None,
            queue_capacity: 1 << 16,
            classifier: ClassifierModel::Exact,
            hints: true,
            flows: None,
            admission: AdmissionModel::None,
            slo_slowdown: Overload::default().slo_slowdown,
            stall_ms: 0.0,
            stall_from_ms: 10.0,
            elastic_load_factor: ElasticSettings::default().load_factor,
            elastic_hysteresis: ElasticSettings::default().hysteresis,
            elastic_interval_ms: ElasticSettings::default().interval_ms,
            elastic_tail_factor: ElasticSettings::default().tail_factor,
        }
    }
}

impl SimSettings {
    /// Copies the settings into a plan.
    pub fn apply(&self, plan: &mut SimPlan) {
        plan.costs = self.costs;
        plan.cluster = self.cluster;
        plan.preemption = self.preemption;
        plan.migrates = self.migrates;
        plan.contexts = self.contexts;
        plan.queue_capacity = self.queue_capacity;
        plan.classifier = self.classifier;
        plan.hints = self.hints;
        plan.flows = self.flows;
        plan.overload = self.overload();
        if let Some(elastic) = &mut plan.elastic {
            elastic.settings = ElasticSettings::default()
                .load_factor(self.elastic_load_factor)
                .hysteresis(self.elastic_hysteresis)
                .interval_ms(self.elastic_interval_ms)
                .tail_factor(self.elastic_tail_factor);
        }
    }

    fn overload(&self) -> Overload {
        let ns = |ms: f64| (ms * 1e6) as u64;
        let overload = Overload {
            slo_slowdown: self.slo_slowdown,
            stall: (self.stall_ms > 0.0).then(|| Stall {
                from_ns: ns(self.stall_from_ms),
                length_ns: ns(self.stall_ms),
            }),
            ..Overload::default()
        };
        match self.admission {
            AdmissionModel::None => overload,
            AdmissionModel::Slo => overload.admitting(),
        }
    }

    /// Carries out `assignments` in order. A plain key sets one of these settings, or the setting
    /// of that name of every policy that has one. `darc.delta` sets DARC's.
    ///
    /// # Errors
    ///
    /// [`SettingError`] for the first assignment that fails.
    pub fn assign(&mut self, policies: &mut [SimPolicy], assignments: &[Assignment]) -> Result<(), SettingError> {
        for assignment in assignments {
            let (policy, key) = match assignment.key.split_once('.') {
                Some((policy, key)) => (Some(policy), key),
                None => (None, assignment.key.as_str()),
            };
            if policy.is_none() && self.keys().iter().any(|known| known == key) {
                *self = assignment.applied_to(self, key)?;
                continue;
            }
            let mut is_known = false;
            for candidate in policies.iter_mut() {
                let is_meant = policy.is_none_or(|policy| policy == candidate.to_string());
                if is_meant && keys(candidate).iter().any(|known| known == key) {
                    *candidate = assignment.applied_to(candidate, key)?;
                    is_known = true;
                }
            }
            if !is_known {
                return Err(SettingError::Unknown {
                    key: assignment.key.clone(),
                    known: self.describe(policies, ", "),
                });
            }
        }
        Ok(())
    }

    /// The names that can be set.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        keys(self)
    }

    /// All settings of the server and of these policies with their values: a line of `key=value`
    /// pairs for the server, then one for each policy with settings. `separator` stands between
    /// pairs.
    #[must_use]
    pub fn describe(&self, policies: &[SimPolicy], separator: &str) -> String {
        let mut lines = vec![pairs(self, "", separator)];
        for policy in policies {
            let line = pairs(policy, &format!("{policy}."), separator);
            if !line.is_empty() && !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.join("\n")
    }
}

/// One `key=value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    key: String,
    value: toml::Value,
}

/// Why a setting cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    /// There is no equals sign, or no key before it.
    #[error("`{0}` sets nothing; expected key=value, such as preempt-ns=700 or darc.delta=3")]
    NoAssignment(String),
    /// No setting has this name.
    #[error("no setting is called `{key}`; with these policies there are\n{known}")]
    Unknown {
        /// The name.
        key: String,
        /// The names that can be set and their values.
        known: String,
    },
    /// The setting cannot have this value.
    #[error("`{key}={value}`: {reason}")]
    Value {
        /// The name.
        key: String,
        /// The value.
        value: String,
        /// Why not.
        reason: String,
    },
}

impl FromStr for Assignment {
    type Err = SettingError;

    /// The value is a number, `true` or `false` as TOML writes them, and text otherwise.
    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (key, value) = text
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| SettingError::NoAssignment(text.to_owned()))?;
        let text = || toml::Value::String(value.to_owned());
        Ok(Self {
            key: key.to_owned(),
            value: value.parse().unwrap_or_else(|_| text()),
        })
    }
}

impl Assignment {
    /// `settings` with `key` set to the value.
    fn applied_to<Settings: Serialize + DeserializeOwned>(
        &self,
        settings: &Settings,
        key: &str,
    ) -> Result<Settings, SettingError> {
        let refused = |reason: String| SettingError::Value {
            key: self.key.clone(),
            value: self.value.to_string(),
            reason: reason.trim_end().to_owned(),
        };
        let mut table = toml::Table::try_from(settings).map_err(|error| refused(error.to_string()))?;
        let (outer, inner) = key.rsplit_once('.').unwrap_or(("", key));
        let mut tables = outer.split('.').filter(|name| !name.is_empty());
        let innermost = tables.try_fold(&mut table, |table, name| table.get_mut(name)?.as_table_mut());
        if let Some(innermost) = innermost {
            innermost.insert(inner.to_owned(), self.value.clone());
        }
        table.try_into().map_err(|error: toml::de::Error| refused(error.message().to_owned()))
    }
}

/// The entries of `settings` as a file has them, without the policy's name. An entry of an inner
/// table has the table's name and a dot before its own. Optional entries that are not set are
/// included.
fn entries(settings: &impl Serialize) -> Vec<(String, serde_json::Value)> {
    fn flatten(prefix: &str, value: serde_json::Value, entries: &mut Vec<(String, serde_json::Value)>) {
        let serde_json::Value::Object(table) = value else {
            entries.push((prefix.to_owned(), value));
            return;
        };
        for (key, value) in table {
            let key = if prefix.is_empty() {
                key
            } else {
                format!("{prefix}.{key}")
            };
            flatten(&key, value, entries);
        }
    }
    let mut entries = Vec::new();
    // A policy without settings is serialized as a name, not as a table.
    if let Ok(table @ serde_json::Value::Object(_)) = serde_json::to_value(settings) {
        flatten("", table, &mut entries);
    }
    entries.retain(|(key, _)| key != "name");
    entries
}

fn keys(settings: &impl Serialize) -> Vec<String> {
    entries(settings).into_iter().map(|(key, _)| key).collect()
}

fn pairs(settings: &impl Serialize, prefix: &str, separator: &str) -> String {
    let pair = |(key, value): (String, serde_json::Value)| match value {
        serde_json::Value::Null => format!("{prefix}{key}"),
        serde_json::Value::String(text) => format!("{prefix}{key}={text}"),
        value => format!("{prefix}{key}={value}"),
    };
    let pairs: Vec<_> = entries(settings).into_iter().map(pair).collect();
    pairs.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(policies: &[&str], assignments: &[&str]) -> (SimSettings, Vec<SimPolicy>, String) {
        let mut settings = SimSettings::default();
        let mut policies: Vec<SimPolicy> = policies.iter().map(|name| name.parse().unwrap()).collect();
        let assigned = assignments
            .iter()
            .map(|text| text.parse())
            .collect::<Result<Vec<Assignment>, _>>()
            .and_then(|assignments| settings.assign(&mut policies, &assignments));
        let error = assigned.err().map_or_else(String::new, |error| error.to_string());
        (settings, policies, error)
    }

    #[test]
    fn keys_of_the_server_and_of_policies_are_told_apart() {
        let (settings, policies, error) = assign(
            &["c-fcfs", "darc", "darc-static", "ps"],
            &["preempt-ns = 700", "classifier=random", "delta=3", "darc.spillway=2", "delta=4.5"],
        );
        assert_eq!(error, "");
        assert_eq!(settings.costs.preempt_ns, 700);
        assert_eq!(settings.classifier, ClassifierModel::Random);
        let setting = |index: usize, key: &str| {
            let mut entries = entries(&policies[index]).into_iter();
            entries.find(|entry| entry.0 == key).unwrap().1
        };
        assert_eq!(setting(1, "delta"), 4.5);
        assert_eq!(setting(2, "delta"), 4.5);
        assert_eq!(setting(1, "spillway"), 2);
        assert_eq!(policies[0].to_string(), "c-fcfs");
        assert_eq!(policies[3], SimPolicy::Ps);
    }

    #[test]
    fn optional_settings_can_be_set_too() {
        let (_, policies, error) = assign(&["cscq", "mq"], &["cscq.reserved=3", "spare-finishing=false"]);
        assert_eq!(error, "");
        let spelled = policies.iter().map(entries);
        let set: Vec<_> = spelled.flatten().collect();
        for (key, value) in [("reserved", 3.into()), ("spare-finishing", false.into())] {
            let expected: (String, serde_json::Value) = (key.to_owned(), value);
            assert!(set.contains(&expected), "{set:?}");
        }
    }

    #[test]
    fn every_key_accepts_what_it_is_set_to_already() {
        let policies: Vec<&str> = SimPolicy::names().collect();
        let (settings, parsed, _) = assign(&policies, &[]);
        for line in settings.describe(&parsed, "\n").lines() {
            // An optional setting that is not set has no value to give.
            if line.contains('=') {
                let assigned = assign(&policies, &[line]);
                assert_eq!(assigned, (settings.clone(), parsed.clone(), String::new()), "{line}");
            }
        }
    }

    #[test]
    fn what_cannot_be_set_is_named() {
        for (policies, assignment, reasons) in [
            (&["darc"][..], "preempt=1", &["`preempt`", "preempt-ns=0", "darc.delta=2"][..]),
            (&["c-fcfs"], "delta=3", &["`delta`", "queue-capacity=65536"]),
            (&["c-fcfs"], "darc.delta=3", &["`darc.delta`"]),
            (&["darc"], "darc.preempt-ns=3", &["`darc.preempt-ns`"]),
            (&["darc"], "darc.name=sjf", &["`darc.name`"]),
            (&["darc"], "preempt-ns", &["`preempt-ns` sets nothing", "key=value"]),
            (&["darc"], "=3", &["`=3` sets nothing"]),
            (&["darc"], "preempt-ns=-3", &["`preempt-ns=-3`", "u64"]),
            (&["darc"], "preempt-ns=0.7", &["`preempt-ns=0.7`", "u64"]),
            (&["darc"], "hints=maybe", &["hints", "maybe", "a boolean"]),
            (&["darc"], "classifier=best", &["best", "exact", "random"]),
            (&["darc"], "delta=wide", &["delta", "wide", "f64"]),
        ] {
            let (.., error) = assign(policies, &[assignment]);
            for reason in reasons {
                assert!(error.contains(reason), "{assignment} gave {error}");
            }
        }
    }
}
