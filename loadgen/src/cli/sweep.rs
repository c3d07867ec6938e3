//! `psp-loadgen sweep`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use clap::Args;
use psp_loadgen::condition::Condition;
use psp_loadgen::page::Results;
use psp_loadgen::sweep::{Range, SWEEP_SCHEMA, Search, SweepPoint, SweepReport, Swept};

use super::Failure;
use super::contestants::{Contestant, ContestantArgs, start_all};
use super::interrupt::stop_on_signals;
use super::measure::{require_types, run_once};
use super::output::{TextOrJson, print};
use super::report::write_page;
use super::run::RunArgs;
use super::values::{in_range, positive};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  psp-loadgen sweep redis://127.0.0.1 --mix GET:9,SET:1 --from 10000 --slo 'GET.p99_9 < 1ms' --duration 5
  Two servers in turn, and a page with the latencies at all rates:
    psp-loadgen sweep --mix GET:1 --preload --from 5000 --slo 'GET.p99 < 500us' --html sweep.html \\
        --start redis='redis-server --port {port} --save \"\"' --start psp='psp-redis --port {port}'

  Simulated policies, in virtual time:
    psp-loadgen sweep 'darc=sim:darc?workers=14' 'fcfs=sim:c-fcfs?workers=14' --workload high-bimodal \\
        --from 50000 --slo 'short.slowdown_p99_9 < 10'

Only the types with weights are scaled; those with rates of their own keep them. A rate is held when all
conditions hold, the offered rate was sent, and at most one request in a thousand of each type failed.
Conditions are those of `psp-loadgen run --fail-if`.

Exit codes: 0 the sweep was made, 1 a run failed, 2 the command line is wrong, 3 a target does not even
hold the first rate, 130 interrupted: the points that were measured are printed.")]
pub(super) struct SweepArgs {
    #[command(flatten)]
    contestants: ContestantArgs,
    #[command(flatten)]
    run: RunArgs,
    /// What must hold, e.g. 'GET.p99_9 < 500us'; may be repeated
    #[arg(
        long,
        value_name = "CONDITION",
        required = true,
        help_heading = "Which rates"
    )]
    slo: Vec<Condition>,
    /// The first rate in requests per second
    #[arg(long, value_name = "RPS", value_parser = positive, help_heading = "Which rates")]
    from: f64,
    /// No rate above it is tried
    #[arg(
        long, value_name = "RPS", value_parser = positive, default_value = "10000000",
        help_heading = "Which rates"
    )]
    to: f64,
    /// Each rate is so many times the one before, until the objective breaks
    #[arg(
        long, value_name = "N", value_parser = in_range(1.01, 100.0), default_value = "1.5",
        help_heading = "Which rates"
    )]
    factor: f64,
    /// The search ends when the rate held is known to this part of itself
    #[arg(
        long, value_name = "PART", value_parser = in_range(0.001, 1.0), default_value = "0.05",
        help_heading = "Which rates"
    )]
    precision: f64,
    /// A rate is too high when so many runs in a row broke the objective: above 1 where the machine is not calm
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), default_value = "1",
        help_heading = "Which rates"
    )]
    tries: u32,
    /// Write tables and plots into one HTML page
    #[arg(long, value_name = "FILE", help_heading = "What to report")]
    html: Option<PathBuf>,
    /// How to print the report
    #[arg(long, value_enum, default_value_t, help_heading = "What to report")]
    output: TextOrJson,
}

pub(super) fn sweep(args: &SweepArgs) -> Result<(), Failure> {
    let mut contestants = args.contestants.contestants().map_err(Failure::usage)?;
    let refused = if contestants.is_empty() {
        Some("a sweep needs a target; give a URL or --start")
    } else if args.run.has_rate() {
        Some("a sweep chooses the rate; give --from instead of --rate and --load")
    } else if args.from > args.to {
        Some("--from is above --to")
    } else {
        None
    };
    if let Some(reason) = refused {
        return Err(Failure::usage(anyhow!(reason)));
    }
    let first = args.run.at_rate(args.from);
    for contestant in &contestants {
        let measurement = first.measurement(&contestant.subject);
        require_types(&args.slo, &measurement.map_err(Failure::usage)?)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop).map_err(Failure::work)?;
    start_all(&mut contestants, &stop)?;
    for contestant in &contestants {
        let measurement = first.measurement(&contestant.subject);
        args.run.preload(&measurement.map_err(Failure::usage)?)?;
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
    let holds_none: Vec<_> = report
        .targets
        .iter()
        .filter(|target| target.held_rps.is_none())
        .map(|target| target.name.clone())
        .collect();
    if let Some(path) = &args.html {
        write_page(path, "psp-loadgen sweep", &[Results::Sweep(report)])?;
    }
    if interrupted {
        return Err(Failure::interrupted(
            "what was measured is printed".to_owned(),
        ));
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

/// Searches for the rates of all targets at the same time: each gets its next rate in turn, so that
/// a machine that becomes slower does so for all.
fn search_all(
    args: &SweepArgs,
    range: Range,
    contestants: &[Contestant],
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Swept>, Failure> {
    let mut searches: Vec<(Search, Vec<SweepPoint>)> = contestants
        .iter()
        .map(|_| (Search::new(range), Vec::new()))
        .collect();
    let mut is_done = false;
    while !is_done {
        is_done = true;
        for (contestant, (search, points)) in contestants.iter().zip(&mut searches) {
            let Some(rate_rps) = search.next_rps().filter(|_| !stop.load(Ordering::Relaxed)) else {
                continue;
            };
            let run = args.run.at_rate(rate_rps);
            let measurement = run.measurement(&contestant.subject);
            let title = format!("{} at {rate_rps:.0}/s", contestant.name);
            let report = run_once(&title, &measurement.map_err(Failure::usage)?, stop)?;
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
