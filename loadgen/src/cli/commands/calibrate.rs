//! `psp-loadgen calibrate`.

use anyhow::Context;
use clap::Args;
use psp_sim::experiment::{CALIBRATION_SCHEMA, Calibration, CalibrationReport, isolated};

use crate::cli::args::experiment::{ExperimentArgs, after_long_help, name};
use crate::cli::args::values::{in_range, positive};
use crate::cli::failure::Failure;

const EXAMPLES: &str = "Examples:
  SLOs for mq as in Shinjuku: the p99 of each type alone, at its rate in the mix, under the single queue:
    psp-loadgen calibrate --workload high-bimodal --workers 14 --load 0.8
  What they change:
    psp-loadgen sim --workload high-bimodal --policy mq --workers 14 --load 0.8 --slo-us short=1,long=390

Exit codes: 0 the simulations were made, 1 a simulation failed, 2 the command line is wrong, 130
interrupted: the finished results are printed. A second Ctrl-C ends the program at once.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = after_long_help(EXAMPLES))]
#[command(mut_arg("policy", |policy| policy.required(false).default_value("sq")))]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Offered loads of the mix, separated by commas. Alone, a type has its part of the load
    #[arg(
        long, value_name = "LOAD", value_delimiter = ',', required = true, value_parser = positive,
        help_heading = "Simulation"
    )]
    load: Vec<f64>,
    /// Percentile of the time from arrival to completion that becomes the SLO
    #[arg(
        long, value_name = "P", value_parser = in_range(1.0, 100.0), default_value = "99",
        help_heading = "Objective"
    )]
    percentile: f64,
}

pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<(), Failure> {
    let mut experiment = args.experiment.experiment().map_err(Failure::usage)?;
    let plans = experiment.at_loads(&args.load)?;
    let types = plans.iter().map(|plan| plan.workload.types.len());
    let arrivals = experiment.arrivals() * types.max().unwrap_or(1) as u64;
    let results = experiment.run("calibrate", &plans, arrivals, |plan, progress| {
        let types = isolated(plan, args.percentile / 100.0, progress).with_context(|| name(plan))?;
        Ok(Calibration::new(plan, types))
    })?;
    let report = CalibrationReport {
        schema: CALIBRATION_SCHEMA.to_owned(),
        conditions: experiment.conditions.clone(),
        percentile: args.percentile,
        results,
    };
    experiment.end(&report, report.results.len(), plans.len())
}
