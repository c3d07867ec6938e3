//! `psp-loadgen compare`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use clap::Args;
use psp_loadgen::page::Results;
use psp_loadgen::report::CompareReport;

use crate::cli::args::contestants::{ContestantArgs, start_all};
use crate::cli::args::measurement::MeasurementArgs;
use crate::cli::args::values::at_least_one;
use crate::cli::failure::Failure;
use crate::cli::interrupt::stop_on_signals;
use crate::cli::measurement::Measurement;
use crate::cli::output::{TextOrJson, print, write_page};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  psp-loadgen compare redis://127.0.0.1:6379 redis://127.0.0.1:6380 --mix \"GET@10000/s,KEYS@2/s\" --preload
  Servers that are started and stopped:
    psp-loadgen compare --preload --mix \"GET@10000/s,KEYS@2/s\" --runs 5 --html compare.html \\
        --start redis='redis-server --port {port} --save \"\"' --start psp='psp-redis --port {port}'

Exit codes: 0 all runs were made, 1 a run failed, 2 the command line is wrong, 130 interrupted: the finished
rounds are printed.")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    contestants: ContestantArgs,
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Rounds. Each round measures all targets in turn with the same seed
    #[arg(
        long, value_name = "N", value_parser = at_least_one, default_value = "3",
        help_heading = "Output"
    )]
    runs: usize,
    /// Write tables and plots into one HTML page
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    output: TextOrJson,
}

pub(crate) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let mut contestants = args.contestants.contestants().map_err(Failure::usage)?;
    if contestants.len() < 2 {
        let few = anyhow!("a comparison needs two targets; give URLs or --start");
        return Err(Failure::usage(few));
    }
    let planned: anyhow::Result<Vec<Measurement>> = contestants
        .iter()
        .map(|contestant| args.measurement.measurement(&contestant.subject))
        .collect();
    let mut measurements = planned.map_err(Failure::usage)?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop).map_err(Failure::work)?;
    start_all(&mut contestants, &stop)?;
    for measurement in &measurements {
        args.measurement.preload(measurement)?;
    }
    let mut runs: Vec<Vec<_>> = contestants.iter().map(|_| Vec::new()).collect();
    'rounds: for round in 0..args.runs {
        // Each round begins with another target.
        for step in 0..contestants.len() {
            let index = (round + step) % contestants.len();
            let name = &contestants[index].name;
            let title = format!("round {} of {}: {name}", round + 1, args.runs);
            let report = measurements[index].run_once(&title, &stop)?;
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            runs[index].push(report);
        }
        for measurement in &mut measurements {
            measurement.advance_seed();
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let named = contestants.iter().zip(runs);
    let targets = named.map(|(contestant, runs)| (contestant.name.clone(), contestant.command.clone(), runs));
    let report = CompareReport::new(targets.collect(), interrupted);
    let rounds = report.rounds;
    print(&args.output.render(&report).map_err(Failure::work)?).map_err(Failure::work)?;
    if let Some(path) = &args.html {
        write_page(path, "psp-loadgen compare", &[Results::Compare(report)])?;
    }
    if interrupted {
        let done = format!("{rounds} of {} rounds were finished", args.runs);
        return Err(Failure::interrupted(done));
    }
    Ok(())
}
