//! `psp-loadgen sim`.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use psp_sim::experiment::{Point, SIM_SCHEMA, SimReport};
use psp_sim::simulator::{SimPlan, SimTrace, TraceWindow, simulate};

use crate::cli::args::experiment::{ExperimentArgs, after_long_help, name};
use crate::cli::args::overload::OverloadArgs;
use crate::cli::args::types::TypeArgs;
use crate::cli::args::values::{in_range, positive};
use crate::cli::failure::Failure;

const EXAMPLES: &str = "Examples:
  Which policy for this workload on 14 workers?
    psp-loadgen sim --workload tpcc --policy c-fcfs,fixed-priority,darc --workers 14 --load 0.85
  How does the tail grow with the load? One row per point and type, for a spreadsheet:
    psp-loadgen sim --workload high-bimodal --policy darc --workers 14 --load 0.5,0.7,0.9 --output csv
  With DARC's grouping changed and a dispatcher that takes 100 ns for each request:
    psp-loadgen sim --workload rocksdb --policy darc --workers 14 --load 0.8 --set darc.delta=3 --set dispatch-ns=100
  With SLOs that `psp-loadgen calibrate` found:
    psp-loadgen sim --workload high-bimodal --policy mq --workers 14 --load 0.8 --slo-us short=1,long=390
  Eight servers behind a load balancer that sees their queues 10 us late:
    psp-loadgen sim --workload tpcc --policy c-fcfs,darc --workers 8 --load 0.8 --servers 8 --spread jsq --feedback-delay-us 10
  What is still answered in time at three times the load, with and without admission?
    psp-loadgen sim --workload high-bimodal --policy darc --workers 14 --load 1.2,2,3 --admission slo --set queue-capacity=1024
  A second without service, and clients that ask again three times:
    psp-loadgen sim --workload high-bimodal --policy darc --workers 14 --load 0.9 --stall-ms 1000 --timeout-slowdown 10 --retries 3
  What happens to each request in 2 ms, for ui.perfetto.dev:
    psp-loadgen sim --workload rocksdb --policy mq --workers 4 --load 0.8 --trace mq.json --trace-ms 2
  A workload from a file, and the 99.9th percentile of each type:
    psp-loadgen sim --workload mine.toml --policy darc --workers 4 --load 0.7 --output json | jq '.points[].types[] | {name, p999: .slowdown.p999}'

Exit codes: 0 the simulations were made, 1 a simulation failed, 2 the command line is wrong, 130
interrupted: the finished points are printed. A second Ctrl-C ends the program at once.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = after_long_help(EXAMPLES))]
pub(crate) struct SimArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    overload: OverloadArgs,
    /// Offered loads, separated by commas: the fraction of the workers' time that service takes.
    /// Above 1 is overload
    #[arg(
        long, value_name = "LOAD", value_delimiter = ',', required = true, value_parser = positive,
        help_heading = "Simulation"
    )]
    load: Vec<f64>,
    /// Write what happens to each request in a while to FILE, which ui.perfetto.dev opens. For one workload, policy and
    /// load
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    trace: Option<PathBuf>,
    /// Simulated milliseconds of that [default: 10]
    #[arg(
        long, value_name = "MS", requires = "trace", value_parser = in_range(0.001, MS_MAX), help_heading = "Trace"
    )]
    trace_ms: Option<f64>,
    /// When it begins, in simulated milliseconds after the warm-up [default: 0]
    #[arg(
        long, value_name = "MS", requires = "trace", value_parser = in_range(0.0, MS_MAX), help_heading = "Trace"
    )]
    trace_from_ms: Option<f64>,
}

/// Length of a trace where none is given.
const TRACE_MS: f64 = 10.0;

impl SimArgs {
    /// The time to trace, if there is one.
    fn window(&self) -> Option<TraceWindow> {
        let ns = |ms: f64| (ms * 1e6) as u64;
        self.trace.as_ref().map(|_| TraceWindow {
            from_ns: ns(self.trace_from_ms.unwrap_or(0.0)),
            length_ns: ns(self.trace_ms.unwrap_or(TRACE_MS)),
        })
    }
}

/// More simulated milliseconds than a trace begins after, or has.
const MS_MAX: f64 = 1e9;

/// Writes the trace of a simulation.
fn write_trace(path: &Path, plan: &SimPlan, trace: Option<&SimTrace>) -> anyhow::Result<()> {
    let trace = trace.context("the simulation ended before the trace began")?;
    let written = File::create(path).and_then(|file| trace.write(plan, BufWriter::new(file)));
    written.with_context(|| format!("cannot write {}", path.display()))
}

pub(crate) fn sim(args: &SimArgs) -> Result<(), Failure> {
    let mut experiment = args.experiment.experiment().map_err(Failure::usage)?;
    args.types.apply(&mut experiment).map_err(Failure::usage)?;
    args.overload.apply(&mut experiment).map_err(Failure::usage)?;
    for plan in &mut experiment.plans {
        plan.trace = args.window();
    }
    let plans = experiment.at_loads(&args.load)?;
    if args.trace.is_some() && plans.len() > 1 {
        return Err(Failure::usage(anyhow!("--trace goes with one workload, one policy and one load")));
    }
    let arrivals = experiment.arrivals();
    let points = experiment.run("sim", &plans, arrivals, |plan, progress| {
        let outcome = simulate(plan, progress).with_context(|| name(plan))?;
        if let Some(path) = &args.trace {
            write_trace(path, plan, outcome.trace.as_ref())?;
        }
        Ok(Point::new(plan, &outcome))
    })?;
    let report = SimReport {
        schema: SIM_SCHEMA.to_owned(),
        conditions: experiment.conditions.clone(),
        points,
    };
    experiment.end(&report, report.points.len(), plans.len())
}
