//! Files of results.

use psp_sim::experiment::{CAPACITY_SCHEMA, CapacityReport, Conditions, SIM_SCHEMA, SimReport};
use psp_sim::text::Table;
use serde::Deserialize;

use super::measured::Measured;
use crate::report::{
    COMPARE_SCHEMA, CompareReport, Condition, RUNS_SCHEMA, Report, RunsReport, SCHEMA, SWEEP_SCHEMA, SweepReport,
};

/// The results in a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Results {
    /// One run.
    Run(Box<Report>),
    /// A repeated run.
    Runs(RunsReport),
    /// A sweep.
    Sweep(SweepReport),
    /// A comparison.
    Compare(CompareReport),
    /// Simulations.
    Sim(SimReport),
    /// Capacities of policies.
    Capacity(CapacityReport),
}

/// Why a file has no results.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The text is not JSON, or lacks a field.
    #[error("it is no JSON report of psp-loadgen")]
    Json(#[from] serde_json::Error),
    /// The JSON is of another kind or version.
    #[error("its schema is `{schema}`; this program reads {}", KNOWN.join(", "))]
    Schema {
        /// The schema.
        schema: String,
    },
}

/// The known schemas.
const KNOWN: [&str; 6] = [SCHEMA, RUNS_SCHEMA, SWEEP_SCHEMA, COMPARE_SCHEMA, SIM_SCHEMA, CAPACITY_SCHEMA];

#[derive(Deserialize)]
struct Schema {
    schema: String,
}

impl Results {
    /// Reads the output of `--output json`.
    ///
    /// # Errors
    /// [`ResultsError`].
    pub fn from_json(json: &str) -> Result<Self, ResultsError> {
        let Schema { schema } = serde_json::from_str(json)?;
        Ok(match schema.as_str() {
            SCHEMA => Self::Run(serde_json::from_str(json)?),
            RUNS_SCHEMA => Self::Runs(serde_json::from_str(json)?),
            SWEEP_SCHEMA => Self::Sweep(serde_json::from_str(json)?),
            COMPARE_SCHEMA => Self::Compare(serde_json::from_str(json)?),
            SIM_SCHEMA => Self::Sim(serde_json::from_str(json)?),
            CAPACITY_SCHEMA => Self::Capacity(serde_json::from_str(json)?),
            _ => return Err(ResultsError::Schema { schema }),
        })
    }

    pub(super) fn measured(&self) -> Vec<Measured<'_>> {
        fn run(report: &Report) -> Measured<'_> {
            Measured { name: &report.target, report, is_kept: true }
        }
        match self {
            Self::Run(report) => vec![run(report)],
            Self::Runs(runs) => runs.runs.iter().map(run).collect(),
            Self::Sweep(sweep) => sweep
                .targets
                .iter()
                .flat_map(|target| {
                    target.points.iter().map(|point| Measured {
                        name: &target.name,
                        report: &point.report,
                        is_kept: point.is_kept(),
                    })
                })
                .collect(),
            Self::Compare(compare) => compare
                .targets
                .iter()
                .flat_map(|target| {
                    target.runs.iter().map(|report| Measured { name: &target.name, report, is_kept: true })
                })
                .collect(),
            Self::Sim(_) | Self::Capacity(_) => Vec::new(),
        }
    }

    /// The conditions of simulations.
    pub(super) fn simulated(&self) -> Option<&Conditions> {
        match self {
            Self::Sim(report) => Some(&report.conditions),
            Self::Capacity(report) => Some(&report.conditions),
            Self::Run(_) | Self::Runs(_) | Self::Sweep(_) | Self::Compare(_) => None,
        }
    }

    pub(super) fn tables(&self) -> Vec<(String, Table)> {
        match self {
            Self::Run(report) => report.tables(),
            Self::Runs(runs) => runs.tables(),
            Self::Sweep(sweep) => sweep.tables(),
            Self::Compare(compare) => compare.tables(),
            Self::Sim(report) => report.tables(),
            Self::Capacity(report) => report.tables(),
        }
    }

    pub(super) fn heading(&self) -> String {
        match self {
            Self::Run(report) => format!("Run against {}", report.target),
            Self::Runs(runs) => format!("{} runs", runs.runs.len()),
            Self::Sweep(_) => "Sweep".to_owned(),
            Self::Compare(_) => "Comparison".to_owned(),
            Self::Sim(_) => "Simulation".to_owned(),
            Self::Capacity(_) => "Capacity".to_owned(),
        }
    }

    /// Names of targets and the commands that started them.
    pub(super) fn commands(&self) -> Vec<(&str, &str)> {
        let named: Vec<(&String, &Option<String>)> = match self {
            Self::Run(_) | Self::Runs(_) | Self::Sim(_) | Self::Capacity(_) => Vec::new(),
            Self::Sweep(sweep) => {
                let targets = sweep.targets.iter();
                targets.map(|target| (&target.name, &target.command)).collect()
            }
            Self::Compare(compare) => {
                let targets = compare.targets.iter();
                targets.map(|target| (&target.name, &target.command)).collect()
            }
        };
        named
            .into_iter()
            .filter_map(|(name, command)| Some((name.as_str(), command.as_deref()?)))
            .collect()
    }

    pub(super) fn is_interrupted(&self) -> bool {
        match self {
            Self::Run(report) => report.interrupted,
            Self::Runs(runs) => runs.runs.iter().any(|run| run.interrupted),
            Self::Sweep(sweep) => sweep.interrupted,
            Self::Compare(compare) => compare.interrupted,
            Self::Sim(_) | Self::Capacity(_) => self.simulated().is_some_and(|conditions| conditions.interrupted),
        }
    }

    pub(super) fn as_sim(&self) -> Option<&SimReport> {
        match self {
            Self::Sim(report) => Some(report),
            _ => None,
        }
    }

    pub(super) fn slo(&self) -> Vec<Condition> {
        let Self::Sweep(sweep) = self else {
            return Vec::new();
        };
        // Another version may have written unknown conditions; the plot then lacks a line.
        sweep.slo.iter().filter_map(|text| text.parse().ok()).collect()
    }
}
