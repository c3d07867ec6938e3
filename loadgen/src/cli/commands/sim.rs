//! `psp-loadgen sim`.

use anyhow::Context;
use clap::Args;
use psp_sim::experiment::{Point, SIM_SCHEMA, SimReport};
use psp_sim::simulator::{SimPlan, simulate};

use crate::cli::args::experiment::{ExperimentArgs, after_long_help, name};
use crate::cli::args::values::positive;
use crate::cli::failure::Failure;

const EXAMPLES: &str = "Examples:
  Which policy for this workload on 14 workers?
    psp-loadgen sim --workload tpcc --policy c-fcfs,fixed-priority,darc --workers 14 --load 0.85
  How does the tail grow with the load? One row per point and type, for a spreadsheet:
    psp-loadgen sim --workload high-bimodal --policy darc --workers 14 --load 0.5,0.7,0.9 --output csv
  With DARC's grouping changed and a dispatcher that takes 100 ns for each request:
    psp-loadgen sim --workload rocksdb --policy darc --workers 14 --load 0.8 --set darc.delta=3 --set dispatch-ns=100
  Eight servers behind a load balancer that sees their queues 10 us late:
    psp-loadgen sim --workload tpcc --policy c-fcfs,darc --workers 8 --load 0.8 --servers 8 --spread jsq --feedback-delay-us 10
  A workload from a file, and the 99.9th percentile of each type:
    psp-loadgen sim --workload mine.toml --policy darc --workers 4 --load 0.7 --output json | jq '.points[].types[] | {name, p999: .slowdown.p999}'

Exit codes: 0 the simulations were made, 1 a simulation failed, 2 the command line is wrong, 130
interrupted: the finished points are printed. A second Ctrl-C ends the program at once.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = after_long_help(EXAMPLES))]
pub(crate) struct SimArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Offered loads, separated by commas: the fraction of the workers' time that service takes.
    /// Above 1 is overload
    #[arg(
        long, value_name = "LOAD", value_delimiter = ',', required = true, value_parser = positive,
        help_heading = "Simulation"
    )]
    load: Vec<f64>,
}

pub(crate) fn sim(args: &SimArgs) -> Result<(), Failure> {
    let mut experiment = args.experiment.experiment().map_err(Failure::usage)?;
    let at = |plan: &SimPlan, load| SimPlan {
        load,
        ..plan.clone()
    };
    let plans: Vec<SimPlan> = experiment
        .plans
        .iter()
        .flat_map(|plan| args.load.iter().map(move |&load| at(plan, load)))
        .collect();
    for plan in &plans {
        plan.validate().map_err(Failure::usage)?;
    }
    let arrivals = experiment.arrivals();
    let points = experiment.run("sim", &plans, arrivals, |plan, progress| {
        let outcome = simulate(plan, progress).with_context(|| name(plan))?;
        Ok(Point::new(plan, &outcome))
    })?;
    let report = SimReport {
        schema: SIM_SCHEMA.to_owned(),
        conditions: experiment.conditions.clone(),
        points,
    };
    experiment.end(&report, report.points.len(), plans.len())
}
