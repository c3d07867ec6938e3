//! Results of `psp-loadgen calibrate`.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::calibration::Isolated;
use super::conditions::{Conditions, Found};
use super::quantiles::absent;
use crate::simulator::SimPlan;
use crate::text::{Csv, Table, number};

/// Name and version of [`CalibrationReport`]'s JSON. The version grows when a field changes its meaning or goes away.
pub const CALIBRATION_SCHEMA: &str = "psp-calibration/1";

/// The results of one call of `psp-loadgen calibrate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationReport {
    /// [`CALIBRATION_SCHEMA`].
    pub schema: String,
    /// The conditions of all simulations.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The percentile that was taken.
    pub percentile: f64,
    /// One for each workload, policy and load, in this order.
    pub results: Vec<Calibration>,
}

/// The SLOs of a workload's types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Name of the workload.
    pub workload: String,
    /// Name of the policy under which each type ran alone.
    pub policy: String,
    /// Number of workers.
    pub workers: usize,
    /// Load of the mix.
    pub load: f64,
    /// Each type.
    pub types: Vec<TypeCalibration>,
}

/// A type that ran alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeCalibration {
    /// Name of the type.
    pub name: String,
    /// Its part of the load.
    pub load: f64,
    /// Its mean service time in microseconds.
    pub service_us: f64,
    /// Its SLO in microseconds; absent if it has no requests in the mix, or some found the queue full.
    pub slo_us: Option<f64>,
}

impl Calibration {
    /// Combines a plan and its types.
    #[must_use]
    pub fn new(plan: &SimPlan, types: Vec<Isolated>) -> Self {
        let types = types.into_iter().map(|alone| TypeCalibration {
            name: alone.name,
            load: alone.load,
            service_us: alone.service_ns as f64 / 1e3,
            slo_us: alone.latency_ns.map(|ns| ns as f64 / 1e3),
        });
        Self {
            workload: plan.workload.name.clone(),
            policy: plan.policy.to_string(),
            workers: plan.workers,
            load: plan.load,
            types: types.collect(),
        }
    }

    /// The types that have an SLO, and that.
    fn known(&self) -> impl Iterator<Item = (&str, f64)> {
        let types = self.types.iter();
        types.filter_map(|ty| Some((ty.name.as_str(), ty.slo_us?)))
    }

    /// The option of `sim` and `capacity`.
    #[must_use]
    pub fn option(&self) -> String {
        let pairs: Vec<String> = self.known().map(|(name, slo_us)| format!("{name}={slo_us}")).collect();
        format!("--slo-us {}", pairs.join(","))
    }

    /// The tables of a server's configuration.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut text = String::new();
        for (name, slo_us) in self.known() {
            let name = toml::Value::from(name);
            // Writing to a string does not fail.
            let _ = writeln!(text, "[[types]]\nname = {name}\nslo-us = {slo_us:?}");
        }
        text
    }
}

impl CalibrationReport {
    fn table(&self) -> Table {
        let heads = [
            "workload",
            "policy",
            "type",
            "workers",
            "load",
            "load alone",
            "service, us",
            "SLO, us",
            "SLO / service",
        ];
        let mut table = Table::new(3, heads);
        for result in &self.results {
            for ty in &result.types {
                let by_service = ty.slo_us.map(|slo_us| slo_us / ty.service_us);
                table.push(vec![
                    result.workload.clone(),
                    result.policy.clone(),
                    ty.name.clone(),
                    result.workers.to_string(),
                    result.load.to_string(),
                    format!("{:.3}", ty.load),
                    number(ty.service_us),
                    ty.slo_us.map_or_else(absent, number),
                    by_service.map_or_else(absent, number),
                ]);
            }
        }
        table
    }
}

impl Found for CalibrationReport {
    /// One line for each type.
    fn csv(&self) -> String {
        let mut csv = Csv::new(["workload", "policy", "workers", "load", "type", "load_alone", "service_us", "slo_us"]);
        for result in &self.results {
            for ty in &result.types {
                csv.push([
                    result.workload.clone(),
                    result.policy.clone(),
                    result.workers.to_string(),
                    result.load.to_string(),
                    ty.name.clone(),
                    ty.load.to_string(),
                    ty.service_us.to_string(),
                    ty.slo_us.map_or_else(String::new, |us| us.to_string()),
                ]);
            }
        }
        csv.into_text()
    }

    fn markdown(&self) -> String {
        self.table().markdown()
    }
}

/// A table with a row for each type, and the settings to paste.
impl fmt::Display for CalibrationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percentile, title) = (self.percentile, self.conditions.title());
        let table = self.table();
        write!(
            f,
            "SLO: percentile {percentile} of each type alone, at its rate in the mix; {title}\n\n{table}"
        )?;
        for result in &self.results {
            if result.known().next().is_none() {
                continue;
            }
            let Calibration { workload, policy, load, .. } = result;
            write!(
                f,
                "\n{workload} under {policy} at load {load}, for `sim` and `capacity`:\n{}\n\
                 for the configuration of a server:\n{}",
                result.option(),
                result.tables()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_options_and_files() {
        let ty = |name: &str, slo_us| TypeCalibration { name: name.to_owned(), load: 0.4, service_us: 1.0, slo_us };
        let calibration = Calibration {
            workload: "w".to_owned(),
            policy: "sq".to_owned(),
            workers: 2,
            load: 0.8,
            types: vec![ty("a", Some(1.5)), ty("never", None), ty("b \"c\"", Some(20.0))],
        };
        assert_eq!(calibration.option(), "--slo-us a=1.5,b \"c\"=20");
        let tables: toml::Table = calibration.tables().parse().unwrap();
        let types = tables["types"].as_array().unwrap();
        let pairs = types.iter().map(|ty| {
            let (name, slo_us) = (&ty["name"], &ty["slo-us"]);
            (name.as_str().unwrap(), slo_us.as_float().unwrap())
        });
        assert_eq!(pairs.collect::<Vec<_>>(), [("a", 1.5), ("b \"c\"", 20.0)]);
    }
}
