//! `psp-loadgen capacity`.

use anyhow::Context;
use clap::Args;
use psp_sim::experiment::{CapacityReport, CapacityResult, Scope, Slo, Tolerance};

use crate::cli::args::experiment::{ExperimentArgs, after_long_help, name};
use crate::cli::args::types::TypeArgs;
use crate::cli::args::values::in_range;
use crate::cli::failure::Failure;

const EXAMPLES: &str = "Examples:
  The load at which 99.9 % of each type's requests take at most ten times their service time:
    psp-loadgen capacity --workload extreme-bimodal --policy darc --workers 16 --slo-slowdown 10
  The gain from preemption at a cost of 0.7 us:
    psp-loadgen capacity --workload high-bimodal --policy darc,mq --workers 14 --slo-slowdown 10 --set preempt-ns=700
  The table of docs/policies.md:
    psp-loadgen capacity --workload all --policy all --workers 14 --slo-slowdown 10 --output markdown

Exit codes: 0 the capacities were found, 1 a simulation failed, 2 the command line is wrong, 130
interrupted: the finished results are printed. A second Ctrl-C ends the program at once.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = after_long_help(EXAMPLES))]
pub(crate) struct CapacityArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    #[command(flatten)]
    types: TypeArgs,
    /// Limit of the slowdown: time from arrival to completion as a multiple of the request's own
    /// service time. A load at which a request is rejected misses it
    #[arg(
        long, value_name = "FACTOR", value_parser = in_range(1.0, 1e9), default_value = "10",
        help_heading = "Objective"
    )]
    slo_slowdown: f64,
    /// Percentile of the slowdowns that must stay below the limit
    #[arg(
        long, value_name = "P", value_parser = in_range(1.0, 100.0), default_value = "99.9",
        help_heading = "Objective"
    )]
    percentile: f64,
    /// The slowdowns of each type must stay below the limit [default]
    #[arg(long, help_heading = "Objective")]
    per_type: bool,
    /// The slowdowns of all requests together must stay below the limit
    #[arg(long, conflicts_with = "per_type", help_heading = "Objective")]
    overall: bool,
    /// Tolerance of the search: it ends when the lowest load that missed the limit is at most this
    /// much above the highest load that kept it
    #[arg(
        long, value_name = "LOAD", value_parser = in_range(1e-6, 0.5), default_value = "0.005",
        help_heading = "Extent and output"
    )]
    tolerance: f64,
}

impl CapacityArgs {
    fn slo(&self) -> Slo {
        Slo {
            slowdown: self.slo_slowdown,
            percentile: self.percentile,
            scope: if self.overall { Scope::Overall } else { Scope::PerType },
        }
    }
}

pub(crate) fn capacity(args: &CapacityArgs) -> Result<(), Failure> {
    let mut experiment = args.experiment.experiment().map_err(Failure::usage)?;
    args.types.apply(&mut experiment).map_err(Failure::usage)?;
    let (slo, tolerance) = (args.slo(), Tolerance::Absolute(args.tolerance));
    let plans = std::mem::take(&mut experiment.plans);
    let arrivals = experiment.arrivals() * u64::from(tolerance.probes_max());
    let results = experiment.run("capacity", &plans, arrivals, |plan, progress| {
        let capacity = psp_sim::experiment::capacity(plan, &slo, tolerance, progress);
        let capacity = capacity.with_context(|| name(plan))?;
        Ok(CapacityResult::new(plan, capacity))
    })?;
    let report = CapacityReport::new(experiment.conditions.clone(), slo, args.tolerance, results);
    experiment.end(&report, report.results.len(), plans.len())
}
