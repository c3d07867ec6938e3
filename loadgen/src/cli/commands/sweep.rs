//! `psp-loadgen sweep`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use clap::Args;
use psp_loadgen::page::Results;
use psp_loadgen::report::{Condition, Range, SWEEP_SCHEMA, Search, SweepPoint, SweepReport, Swept};

use crate::cli::args::contestants::{Contestant, ContestantArgs, start_all};
use crate::cli::args::measurement::MeasurementArgs;
use crate::cli::args::values::{in_range, positive};
use crate::cli::failure::Failure;
use crate::cli::interrupt::stop_on_signals;
use crate::cli::output::{TextOrJson, print, write_page};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  psp-loadgen sweep redis://127.0.0.1 --mix GET:9,SET:1 --from 10000 --slo 'GET.p99_9 < 1ms' --duration 5
  Two servers in turn, and a page with the latencies at all rates:
    psp-loadgen sweep --mix GET:1 --preload --from 5000 --slo 'GET.p99 < 500us' --html sweep.html \\
        --start redis='redis-server --port {port} --save \"\"' --start psp='psp-redis --port {port}'

  Simulated policies, in virtual time:
    psp-loadgen sweep 'darc=sim:darc?workers=14' 'fcfs=sim:c-fcfs?workers=14' --workload high-bimodal \\
        --from 50000 --slo 'short.slowdown_p99_9 < 10'

The sweep scales only types with weights; a type with its own rate keeps it. A target holds a rate if all
conditions hold, the offered rate was sent, and at most one request in a thousand of each type failed.
Conditions are those of `psp-loadgen run --fail-if`.

Exit codes: 0 the sweep was made, 1 a run failed, 2 the command line is wrong, 3 a target does not
hold the first rate, 130 interrupted: the measured points are printed.")]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    contestants: ContestantArgs,
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Condition of the objective, e.g. 'GET.p99_9 < 500us'; may be repeated
    #[arg(long, value_name = "CONDITION", required = true, help_heading = "Rates")]
    slo: Vec<Condition>,
    /// The first rate in requests per second
    #[arg(long, value_name = "RPS", value_parser = positive, help_heading = "Rates")]
    from: f64,
    /// The highest rate to try
    #[arg(
        long, value_name = "RPS", value_parser = positive, default_value = "10000000",
        help_heading = "Rates"
    )]
    to: f64,
    /// Factor between two rates until the objective breaks
    #[arg(
        long, value_name = "N", value_parser = in_range(1.01, 100.0), default_value = "1.5",
        help_heading = "Rates"
    )]
    factor: f64,
    /// The search ends when the rate held is known to this fraction of itself
    #[arg(
        long, value_name = "PART", value_parser = in_range(0.001, 1.0), default_value = "0.05",
        help_heading = "Rates"
    )]
    precision: f64,
    /// A rate is too high when this number of runs in a row broke the objective. Set it above 1 on
    /// a machine with stalls
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), default_value = "1",
        help_heading = "Rates"
    )]
    tries: u32,
    /// Write tables and plots to one HTML page
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    output: TextOrJson,
}

pub(crate) fn sweep(args: &SweepArgs) -> Result<(), Failure> {
    let mut contestants = args.contestants.contestants().map_err(Failure::usage)?;
    let refusals = [
        (contestants.is_empty(), "a sweep needs a target; give a URL or --start"),
        (
            args.measurement.has_rate(),
            "a sweep chooses the rate; give --from instead of --rate and --load",
        ),
        (args.from > args.to, "--from is above --to"),
    ];
    if let Some((_, reason)) = refusals.into_iter().find(|(is_refused, _)| *is_refused) {
        return Err(Failure::usage(anyhow!(reason)));
    }
    let first = args.measurement.at_rate(args.from);
    for contestant in &contestants {
        let measurement = first.measurement(&contestant.subject);
        measurement.map_err(Failure::usage)?.require_types(&args.slo)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop).map_err(Failure::work)?;
    start_all(&mut contestants, &stop)?;
    for contestant in &contestants {
        let measurement = first.measurement(&contestant.subject);
        args.measurement.preload(&measurement.map_err(Failure::usage)?)?;
    }
    let range = Range {
        from_rps: args.from,
        to_rps: args.to,
        factor: args.factor,
        precision: args.precision,
        tries_max: args.tries,
    };
    let targets = search_all(args, range, &contestants, &stop)?;
    let interrupted = stop.load(Ordering::Relaxed);
    let report = SweepReport {
        schema: SWEEP_SCHEMA.to_owned(),
        slo: args.slo.iter().map(ToString::to_string).collect(),
        range,
        interrupted,
        targets,
    };
    print(&args.output.render(&report).map_err(Failure::work)?).map_err(Failure::work)?;
    let holds_none = report.targets.iter().filter(|target| target.held_rps.is_none());
    let holds_none: Vec<_> = holds_none.map(|target| target.name.clone()).collect();
    if let Some(path) = &args.html {
        write_page(path, "psp-loadgen sweep", &[Results::Sweep(report)])?;
    }
    if interrupted {
        return Err(Failure::interrupted("the measured points are printed".to_owned()));
    }
    if holds_none.is_empty() {
        return Ok(());
    }
    let names = holds_none.join(", ");
    Err(Failure::condition(anyhow!(
        "not even {} requests per second are held: {names}",
        args.from
    )))
}

/// Searches for the rates of all targets in turn, so that a machine that slows down affects all of
/// them alike.
fn search_all(
    args: &SweepArgs,
    range: Range,
    contestants: &[Contestant],
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Swept>, Failure> {
    let mut searches: Vec<(Search, Vec<SweepPoint>)> =
        contestants.iter().map(|_| (Search::new(range), Vec::new())).collect();
    let mut is_done = false;
    while !is_done {
        is_done = true;
        for (contestant, (search, points)) in contestants.iter().zip(&mut searches) {
            let Some(rate_rps) = search.next_rps().filter(|_| !stop.load(Ordering::Relaxed)) else {
                continue;
            };
            let run = args.measurement.at_rate(rate_rps);
            let measurement = run.measurement(&contestant.subject);
            let title = format!("{} at {rate_rps:.0}/s", contestant.name);
            let report = measurement.map_err(Failure::usage)?.run_once(&title, stop)?;
            if stop.load(Ordering::Relaxed) {
                continue;
            }
            let point = SweepPoint::judge(rate_rps, &args.slo, report);
            search.tried(rate_rps, point.is_kept());
            points.retain(|point| point.rate_rps != rate_rps);
            points.push(point);
            is_done = false;
        }
    }
    let swept = contestants.iter().zip(searches);
    let swept = swept.map(|(contestant, (search, mut points))| {
        points.sort_by(|one, other| one.rate_rps.total_cmp(&other.rate_rps));
        Swept {
            name: contestant.name.clone(),
            command: contestant.command.clone(),
            held_rps: search.held_rps(),
            points,
        }
    });
    Ok(swept.collect())
}
