//! `psp-loadgen capacity`.

use anyhow::Context;
use clap::Args;
use psp_loadgen::capacity::{self as library, Scope, Slo};
use psp_loadgen::sim_report::{CapacityReport, CapacityResult};

use super::Failure;
use super::experiment::{ExperimentArgs, after_long_help, name};
use super::values::in_range;

const EXAMPLES: &str = "Examples:
  The load at which 99.9 % of each type's requests take at most ten times their service time:
    psp-loadgen capacity --workload extreme-bimodal --policy darc --workers 16 --slo-slowdown 10
  What preemption is worth when it costs 0.7 us:
    psp-loadgen capacity --workload high-bimodal --policy darc,mq --workers 14 --slo-slowdown 10 --set preempt-ns=700
  The table of docs/policies.md:
    psp-loadgen capacity --workload all --policy all --workers 14 --slo-slowdown 10 --output markdown

Exit codes: 0 the capacities were found, 1 a simulation failed, 2 the command line is wrong, 130
interrupted: the results that were done are printed. A second Ctrl-C ends the program at once.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = after_long_help(EXAMPLES))]
pub(super) struct CapacityArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// The slowdown to keep: time from arrival to completion, as a multiple of the request's own
    /// service time. A load at which a request is rejected does not keep it
    #[arg(
        long, value_name = "FACTOR", value_parser = in_range(1.0, 1e9), default_value = "10",
        help_heading = "What to keep"
    )]
    slo_slowdown: f64,
    /// Percentile of the slowdowns that must keep it
    #[arg(
        long, value_name = "P", value_parser = in_range(1.0, 100.0), default_value = "99.9",
        help_heading = "What to keep"
    )]
    percentile: f64,
    /// Each type's slowdowns must keep it [default]
    #[arg(long, help_heading = "What to keep")]
    per_type: bool,
    /// The slowdowns of all requests together must keep it
    #[arg(long, conflicts_with = "per_type", help_heading = "What to keep")]
    overall: bool,
    /// How exactly to find the load: the search ends between one that kept it and one that missed
    /// it and is at most so much higher
    #[arg(
        long, value_name = "LOAD", value_parser = in_range(1e-6, 0.5), default_value = "0.005",
        help_heading = "How long and how"
    )]
    tolerance: f64,
}

impl CapacityArgs {
    fn slo(&self) -> Slo {
        Slo {
            slowdown: self.slo_slowdown,
            percentile: self.percentile,
            scope: if self.overall {
                Scope::Overall
            } else {
                Scope::PerType
            },
        }
    }
}

pub(super) fn capacity(args: &CapacityArgs) -> Result<(), Failure> {
    let mut experiment = args.experiment.experiment().map_err(Failure::usage)?;
    let (slo, tolerance) = (args.slo(), args.tolerance);
    let plans = std::mem::take(&mut experiment.plans);
    let arrivals = experiment.arrivals() * u64::from(library::probes(tolerance));
    let results = experiment.run("capacity", &plans, arrivals, |plan, progress| {
        let capacity = library::capacity(plan, &slo, tolerance, progress);
        let capacity = capacity.with_context(|| name(plan))?;
        Ok(CapacityResult::new(plan, capacity))
    })?;
    let report = CapacityReport::new(experiment.conditions.clone(), slo, tolerance, results);
    experiment.end(&report, report.results.len(), plans.len())
}
