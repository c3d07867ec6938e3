//! `psp-loadgen compare`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use clap::Args;
use psp_loadgen::comparison::CompareReport;
use psp_loadgen::page::Results;

use super::Failure;
use super::contestants::{ContestantArgs, start_all};
use super::interrupt::stop_on_signals;
use super::measure::run_once;
use super::measurement::Measurement;
use super::output::{TextOrJson, print};
use super::report::write_page;
use super::run::RunArgs;
use super::values::at_least_one;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  psp-loadgen compare redis://127.0.0.1:6379 redis://127.0.0.1:6380 --mix \"GET@10000/s,KEYS@2/s\" --preload
  Servers that are started and stopped:
    psp-loadgen compare --preload --mix \"GET@10000/s,KEYS@2/s\" --runs 5 --html compare.html \\
        --start redis='redis-server --port {port} --save \"\"' --start psp='psp-redis --port {port}'

Exit codes: 0 all runs were made, 1 one failed, 2 the command line is wrong, 130 interrupted: the rounds
that were finished are printed.")]
pub(super) struct CompareArgs {
    #[command(flatten)]
    contestants: ContestantArgs,
    #[command(flatten)]
    run: RunArgs,
    /// Rounds: in each, all targets are measured in turn with the same seed
    #[arg(
        long, value_name = "N", value_parser = at_least_one, default_value = "3",
        help_heading = "What to report"
    )]
    runs: usize,
    /// Write tables and plots into one HTML page
    #[arg(long, value_name = "FILE", help_heading = "What to report")]
    html: Option<PathBuf>,
    /// How to print the report
    #[arg(long, value_enum, default_value_t, help_heading = "What to report")]
    output: TextOrJson,
}

pub(super) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let mut contestants = args.contestants.contestants().map_err(Failure::usage)?;
    if contestants.len() < 2 {
        let few = anyhow!("a comparison needs two targets; give URLs or --start");
        return Err(Failure::usage(few));
    }
    let planned: anyhow::Result<Vec<Measurement>> = contestants
        .iter()
        .map(|contestant| args.run.measurement(&contestant.subject))
        .collect();
    let mut measurements = planned.map_err(Failure::usage)?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop).map_err(Failure::work)?;
    start_all(&mut contestants, &stop)?;
    for measurement in &measurements {
        args.run.preload(measurement)?;
    }
    let mut runs: Vec<Vec<_>> = contestants.iter().map(|_| Vec::new()).collect();
    'rounds: for round in 0..args.runs {
        // The first of a round is another one each time.
        for step in 0..contestants.len() {
            let place = (round + step) % contestants.len();
            let name = &contestants[place].name;
            let title = format!("round {} of {}: {name}", round + 1, args.runs);
            let report = run_once(&title, &measurements[place], &stop)?;
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            runs[place].push(report);
        }
        for measurement in &mut measurements {
            measurement.advance_seed();
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let named = contestants.iter().zip(runs);
    let targets =
        named.map(|(contestant, runs)| (contestant.name.clone(), contestant.command.clone(), runs));
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
