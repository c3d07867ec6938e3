//! `psp-loadgen run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use psp_loadgen::page::Results;
use psp_loadgen::record::{HdrLog, JsonLines};
use psp_loadgen::report::{Condition, Report, RunsReport};

use crate::cli::args::measurement::MeasurementArgs;
use crate::cli::args::target::{COMMANDS, ProtocolArgs, Subject, TARGETS};
use crate::cli::args::values::at_least_one;
use crate::cli::failure::Failure;
use crate::cli::interrupt::stop_on_signals;
use crate::cli::observer::{Logs, RunObserver};
use crate::cli::output::{json, print, write_page};
use psp_loadgen::wire::masked;

const EXAMPLES: &str = "Examples:
  psp-loadgen http://127.0.0.1:8080/page?n=1 -c 50 -d 30s -r 5k
  psp-loadgen run --target redis://127.0.0.1 --preload --mix \"GET@10000/s,KEYS@2/s\"
  psp-loadgen run --target redis://127.0.0.1 --mix \"GET:90,SET:9,LRANGE big 0 -1:1\" --rate 5000
  psp-loadgen run --target redis://127.0.0.1 --preload --preset etc --rate 20000
  psp-loadgen run --target redis://127.0.0.1 --workload day.toml
  psp-loadgen run --target redis://127.0.0.1 --trace requests.txt --trace-speed 2
  psp-loadgen run --target http://127.0.0.1:8080 --trace access.log --trace-format combined --trace-type 'users=GET /users/'
  psp-loadgen run --target redis://127.0.0.1 --mix GET:9,SET:1 --closed-loop 64
  psp-loadgen run --target psp://127.0.0.1:9000 --workload high-bimodal --load 0.8 --workers 14 --dilate 1000
  psp-loadgen run --target memcached+meta://127.0.0.1 --preload --mix \"GET:90,SET:10,MGET 100:1\" --rate 20000
  psp-loadgen run --target protobuf://127.0.0.1:9000 --mix \"Get:99,Scan:1\" --rate 10000 --pipeline 16
  psp-loadgen run --target http://127.0.0.1:8080 --mix \"GET /fast@1000/s,GET /slow?ms=20@20/s\"
  psp-loadgen run --target http://127.0.0.1:8080 --mix \"POST /items '{\\\"id\\\": 1}'@100/s\" --header 'Accept: text/html'
  psp-loadgen run --target 'sim:darc?workers=14&preempt-ns=700' --workload high-bimodal --load 0.8 --workers 14
  In CI, with five runs and an exit code:
    psp-loadgen run --target redis://127.0.0.1 --mix GET@5000/s --runs 5 --fail-if 'GET.p99_9 > 2ms' --fail-if 'GET.errors > 0.1%'

Conditions of --fail-if are TYPE.METRIC or overall.METRIC, one of < <= > >=, and a limit with its unit
(ns us ms s, % of the requests or of the offered rate, or none for counts). Metrics: p50 p90 p99 p99_9
p99_99 mean max; the same after calm_, lag_ and slowdown_; errors timeouts dropped failed completed reconnects
hits misses achieved_rps offered_rps. A condition on a figure that does not exist, because no request was completed,
fails too.

Exit codes: 0 the run was made, 1 it failed, 2 the command line is wrong, 3 a condition of --fail-if
holds.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{TARGETS}\n\n{COMMANDS}\n\n{EXAMPLES}"))]
pub(crate) struct RunArgs {
    /// The server: redis://, memcached://, memcached+meta://, memcached+udp://, protobuf://, http://,
    /// lines+tcp:// or psp://HOST[:PORT]; SCHEME+unix:PATH for a local socket; sim:POLICY?workers=N for a simulated
    /// one. --help lists them all
    #[arg(long, value_name = "URL")]
    target: String,
    #[command(flatten)]
    protocol: ProtocolArgs,
    #[command(flatten)]
    measurement: MeasurementArgs,

    /// Repeat the run with other seeds and report means with 95 % confidence intervals
    #[arg(
        long, value_name = "N", value_parser = at_least_one, default_value = "1",
        help_heading = "Output"
    )]
    runs: usize,
    /// Exit with 3 if this condition holds, e.g. 'GET.p99_9 > 500us'; may be repeated
    #[arg(long, value_name = "CONDITION", help_heading = "Output")]
    fail_if: Vec<Condition>,
    /// Write the latencies of each second and type to an HDR interval log (version 2)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    hdr: Option<PathBuf>,
    /// Write a line of JSON for each second and type when it has ended; - is standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json_lines: Option<PathBuf>,
    /// Write tables and plots to one HTML page
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text, help_heading = "Output")]
    output: Output,
}

impl RunArgs {
    /// The logs of types with these names.
    fn logs(&self, names: &[String]) -> anyhow::Result<Logs> {
        let mut logs = Logs::default();
        logs.add("--hdr", self.hdr.as_deref(), |file| Box::new(HdrLog::new(file, names)))?;
        logs.add("--json-lines", self.json_lines.as_deref(), |file| {
            Box::new(JsonLines::new(file, names.to_vec()))
        })?;
        Ok(logs)
    }
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

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let subject = args.protocol.subject(&args.target).map_err(Failure::usage)?;
    let measurement = args.measurement.measurement(&subject);
    let mut measurement = measurement.map_err(Failure::usage)?;
    let has_log = args.hdr.is_some() || args.json_lines.is_some();
    if matches!(subject, Subject::Simulated(_)) && has_log {
        let reason = anyhow!("a simulation has no seconds for a log; --hdr and --json-lines go with live targets");
        return Err(Failure::usage(reason));
    }
    measurement.require_types(&args.fail_if)?;
    args.measurement.preload(&measurement)?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop).map_err(Failure::work)?;
    let mut logs = args.logs(&measurement.type_names()).map_err(Failure::work)?;
    let mut reports = Vec::with_capacity(args.runs);
    while reports.len() < args.runs && !stop.load(Ordering::Relaxed) {
        let observer = RunObserver::new(measurement.type_names(), &mut logs);
        reports.push(measurement.run(&stop, observer)?);
        measurement.advance_seed();
    }
    let is_silent = reports.iter().all(|report| report.overall.completed == 0 && report.overall.scheduled > 0);
    let violated = violated(&args.fail_if, &reports);
    let results = if args.runs == 1 {
        reports.into_iter().next().map(|report| Results::Run(Box::new(report)))
    } else {
        Some(Results::Runs(RunsReport::new(reports)))
    };
    if let Some(results) = results {
        args.output.print(&results).map_err(Failure::work)?;
        if let Some(path) = &args.html {
            write_page(path, &format!("psp-loadgen: {}", masked(&args.target)), &[results])?;
        }
    }
    if is_silent {
        let silence = anyhow!("{} answered none of the requests", masked(&args.target));
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

/// A line for each condition that holds or has no figure.
fn violated(conditions: &[Condition], reports: &[Report]) -> Vec<String> {
    let verdicts = conditions.iter().map(|condition| (condition, condition.verdict(reports)));
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
