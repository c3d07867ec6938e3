//! `psp-loadgen run`.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use psp_loadgen::condition::Condition;
use psp_loadgen::engine::Observer;
use psp_loadgen::hdr_log::HdrLog;
use psp_loadgen::intervals::Interval;
use psp_loadgen::page::Results;
use psp_loadgen::record::LiveCounters;
use psp_loadgen::report::Report;
use psp_loadgen::runs::RunsReport;

use super::Failure;
use super::interrupt::stop_on_signals;
use super::live::LiveLine;
use super::measurement::Measurement;
use super::output::{json, print};
use super::report::write_page;
use super::run::RunArgs;
use super::target::{COMMANDS, ProtocolArgs, Subject, TARGETS};
use super::values::at_least_one;

const EXAMPLES: &str = "Examples:
  psp-loadgen run --target redis://127.0.0.1 --preload --mix \"GET@10000/s,KEYS@2/s\"
  psp-loadgen run --target redis://127.0.0.1 --mix \"GET:90,SET:9,LRANGE big 0 -1:1\" --rate 5000
  psp-loadgen run --target redis://127.0.0.1 --preload --preset etc --rate 20000
  psp-loadgen run --target redis://127.0.0.1 --workload day.toml
  psp-loadgen run --target redis://127.0.0.1 --trace requests.txt --trace-speed 2
  psp-loadgen run --target redis://127.0.0.1 --mix GET:9,SET:1 --closed-loop 64
  psp-loadgen run --target psp://127.0.0.1:9000 --workload high-bimodal --load 0.8 --workers 14 --dilate 1000
  psp-loadgen run --target memcached+meta://127.0.0.1 --preload --mix \"GET:90,SET:10,MGET 100:1\" --rate 20000
  psp-loadgen run --target protobuf://127.0.0.1:9000 --mix \"Get:99,Scan:1\" --rate 10000 --pipeline 16
  psp-loadgen run --target 'sim:darc?workers=14&preempt-ns=700' --workload high-bimodal --load 0.8 --workers 14
  In CI, with five runs and an exit code:
    psp-loadgen run --target redis://127.0.0.1 --mix GET@5000/s --runs 5 --fail-if 'GET.p99_9 > 2ms' --fail-if 'GET.errors > 0.1%'

Conditions of --fail-if are TYPE.METRIC or overall.METRIC, one of < <= > >=, and a limit with its unit
(ns us ms s, % of the requests or of the offered rate, or none for counts). Metrics: p50 p90 p99 p99_9
p99_99 mean max; the same of lag_ and slowdown_; errors timeouts dropped failed completed reconnects hits misses
achieved_rps offered_rps. A figure that there is not, since nothing was completed, fails too.

Exit codes: 0 the run was made, 1 it failed, 2 the command line is wrong, 3 a condition of --fail-if
holds.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{TARGETS}\n\n{COMMANDS}\n\n{EXAMPLES}"))]
pub(super) struct MeasureArgs {
    /// The server: redis://, memcached://, memcached+meta://, memcached+udp://, protobuf:// or
    /// psp://HOST[:PORT]; SCHEME+unix:PATH for a local socket; sim:POLICY?workers=N for a simulated
    /// one. --help lists them all
    #[arg(long, value_name = "URL")]
    target: String,
    #[command(flatten)]
    protocol: ProtocolArgs,
    #[command(flatten)]
    run: RunArgs,

    /// Repeat the run with other seeds and report means with 95 % confidence intervals
    #[arg(
        long, value_name = "N", value_parser = at_least_one, default_value = "1",
        help_heading = "What to report"
    )]
    runs: usize,
    /// Exit with 3 if this holds, e.g. 'GET.p99_9 > 500us'; may be repeated
    #[arg(long, value_name = "CONDITION", help_heading = "What to report")]
    fail_if: Vec<Condition>,
    /// Write the latencies of each second and type into an HDR interval log (version 2)
    #[arg(long, value_name = "FILE", help_heading = "What to report")]
    hdr: Option<PathBuf>,
    /// Write tables and plots into one HTML page
    #[arg(long, value_name = "FILE", help_heading = "What to report")]
    html: Option<PathBuf>,
    /// How to print the report
    #[arg(long, value_enum, default_value_t = Output::Text, help_heading = "What to report")]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    /// Tables
    Text,
    /// One object
    Json,
    /// A line for each run and type
    Csv,
}

pub(super) fn measure(args: &MeasureArgs) -> Result<(), Failure> {
    let subject = args
        .protocol
        .subject(&args.target)
        .map_err(Failure::usage)?;
    let measurement = args.run.measurement(&subject);
    let mut measurement = measurement.map_err(Failure::usage)?;
    if let (Subject::Simulated(_), Some(_)) = (&subject, &args.hdr) {
        let reason = anyhow!("a simulation has no seconds for a log; --hdr goes with live targets");
        return Err(Failure::usage(reason));
    }
    require_types(&args.fail_if, &measurement)?;
    args.run.preload(&measurement)?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop).map_err(Failure::work)?;
    let hdr = args.hdr.as_ref().map(|path| open_log(path, &measurement));
    let mut hdr = hdr.transpose().map_err(Failure::work)?;
    let mut reports = Vec::with_capacity(args.runs);
    while reports.len() < args.runs && !stop.load(Ordering::Relaxed) {
        let observer = RunObserver::new(&measurement, hdr.as_mut());
        reports.push(measurement.run(&stop, observer)?);
        measurement.advance_seed();
    }
    if let Some(log) = hdr {
        log.finish().context("--hdr").map_err(Failure::work)?;
    }
    let is_silent = reports
        .iter()
        .all(|report| report.overall.completed == 0 && report.overall.scheduled > 0);
    let violated = violated(&args.fail_if, &reports);
    let results = if args.runs == 1 {
        reports
            .into_iter()
            .next()
            .map(|report| Results::Run(Box::new(report)))
    } else {
        Some(Results::Runs(RunsReport::new(reports)))
    };
    if let Some(results) = results {
        args.output.print(&results).map_err(Failure::work)?;
        if let Some(path) = &args.html {
            write_page(path, &format!("psp-loadgen: {}", args.target), &[results])?;
        }
    }
    if is_silent {
        let silence = anyhow!("{} answered none of the requests", args.target);
        return Err(Failure::work(silence));
    }
    if violated.is_empty() {
        return Ok(());
    }
    for line in &violated {
        eprintln!("failed: {line}");
    }
    Err(Failure::condition(anyhow!(
        "{} of {} conditions of --fail-if hold",
        violated.len(),
        args.fail_if.len()
    )))
}

/// Refuses conditions on types that the plan does not have.
pub(super) fn require_types(
    conditions: &[Condition],
    measurement: &Measurement,
) -> Result<(), Failure> {
    let names = measurement.type_names();
    let names = names.iter().map(String::as_str);
    conditions
        .iter()
        .try_for_each(|condition| condition.require_subject(names.clone()))
        .map_err(Failure::usage)
}

/// A line for each condition that holds, or whose figure there is not.
fn violated(conditions: &[Condition], reports: &[Report]) -> Vec<String> {
    let verdicts = conditions
        .iter()
        .map(|condition| (condition, condition.verdict(reports)));
    verdicts
        .filter(|(_, verdict)| verdict.holds != Some(false))
        .map(|(condition, verdict)| condition.describe(verdict))
        .collect()
}

impl Output {
    fn print(self, results: &Results) -> anyhow::Result<()> {
        let text = match (self, results) {
            (Self::Text, Results::Run(report)) => report.to_string(),
            (Self::Text, Results::Runs(runs)) => runs.to_string(),
            (Self::Csv, Results::Run(report)) => report.csv(),
            (Self::Csv, Results::Runs(runs)) => runs.csv(),
            (_, Results::Run(report)) => json(report)?,
            (_, Results::Runs(runs)) => json(runs)?,
            (_, Results::Sweep(sweep)) => json(sweep)?,
            (_, Results::Compare(compare)) => json(compare)?,
            (_, Results::Sim(sim)) => json(sim)?,
            (_, Results::Capacity(capacity)) => json(capacity)?,
        };
        print(&text)
    }
}

type Log = HdrLog<BufWriter<File>>;

fn open_log(path: &PathBuf, measurement: &Measurement) -> anyhow::Result<Log> {
    let file = File::create(path).with_context(|| format!("--hdr {}", path.display()))?;
    let names = measurement.type_names();
    let names = names.iter().map(String::as_str);
    Ok(HdrLog::new(BufWriter::new(file), names))
}

/// The live line, and the log if there is one.
pub(super) struct RunObserver<'a> {
    live: LiveLine,
    hdr: Option<&'a mut Log>,
    /// The first error of the log, which ends it.
    logged: io::Result<()>,
}

impl<'a> RunObserver<'a> {
    fn new(measurement: &Measurement, hdr: Option<&'a mut Log>) -> Self {
        Self {
            live: LiveLine::new(measurement.type_names()),
            hdr,
            logged: Ok(()),
        }
    }

    /// Says whether the log could be written.
    pub(super) fn finish(self) -> io::Result<()> {
        self.logged
    }

    fn log(&mut self, write: impl FnOnce(&mut Log) -> io::Result<()>) {
        if let (Some(log), Ok(())) = (&mut self.hdr, &self.logged) {
            self.logged = write(log);
        }
    }
}

impl Observer for RunObserver<'_> {
    fn started(&mut self, measured_from: SystemTime) {
        self.log(|log| log.started(measured_from));
    }

    fn interval(&mut self, interval: &Interval) {
        self.log(|log| log.interval(interval));
    }

    fn second(&mut self, elapsed: Duration, counters: &[Arc<LiveCounters>]) {
        self.live.second(elapsed, counters);
    }
}

/// One run of a sweep or a comparison.
pub(super) fn run_once(
    title: &str,
    measurement: &Measurement,
    stop: &Arc<AtomicBool>,
) -> Result<Report, Failure> {
    let observer = RunObserver::new(measurement, None);
    observer.live.announce(title);
    measurement.run(stop, observer)
}
