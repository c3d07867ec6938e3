//! The options for the times of requests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use psp_loadgen::schedule::{ClosedLoop, TraceFormat, TracePace};
use psp_sim::workload::{ArrivalProcess, Bursts};

use crate::cli::args::values::{at_least_one, positive};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Schedule")]
pub(crate) struct PacingArgs {
    /// Distribution of the gaps between requests of each type [default: that of the workload file,
    /// or poisson]
    #[arg(long, value_enum, conflicts_with = "closed_loop")]
    arrivals: Option<Arrivals>,
    /// Bursty arrivals: rate within bursts as a multiple of the rate between them [default: 5]
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    burst_factor: Option<f64>,
    /// Bursty arrivals: share of the time in bursts [default: 0.1]
    #[arg(long, value_name = "SHARE", value_parser = positive)]
    burst_share: Option<f64>,
    /// Bursty arrivals: mean number of requests of a type in a burst [default: 100]
    #[arg(long, value_name = "N", value_parser = positive)]
    burst_requests: Option<f64>,

    /// Send the requests of this file at their times, which count from the first. With --rate times do not count:
    /// the requests are sent one after the other at that rate, all over again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["closed_loop", "load", "dilate"])]
    trace: Option<PathBuf>,
    /// Format of the trace. Requests of own and csv are types of the mix or workload, or commands if there is neither
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "own", requires = "trace")]
    trace_format: Format,
    /// Commands of the trace that begin with START are of type NAME, as in 'users=GET /users/'; the first that
    /// fits counts, and may be repeated. By default each different command is a type, or, if there are more than
    /// 256, each name of commands
    #[arg(long, value_name = "NAME=START", value_parser = trace_type, requires = "trace")]
    trace_type: Vec<TraceType>,
    /// Replay speed of the trace as a multiple of the recorded speed [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    trace_speed: Option<f64>,

    /// Closed loop: keep N requests outstanding in all and send the next when a reply comes.
    /// Latency then counts from the actual send, and the percentiles hide most of a stall of the
    /// server
    #[arg(
        long, value_name = "N", value_parser = at_least_one,
        conflicts_with_all = ["rate", "load"]
    )]
    closed_loop: Option<usize>,
    /// Closed loop: N outstanding requests of each type, independent of weights
    #[arg(long)]
    closed_per_type: bool,
    /// Closed loop: time between a reply and the next request [default: 0]
    #[arg(long, value_name = "US")]
    think_us: Option<u64>,
}

/// Names of formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each request: its time in seconds, or as in 2024-05-01T12:00:00.5Z, and its type or command
    Own,
    /// Access logs of HTTP servers. The requests of a second are spread evenly over it
    Common,
    /// The same with referrer and agent
    Combined,
    /// Columns time, request and optionally type, as the first line names them
    Csv,
    /// Targets of vegeta, in either of its formats; without times, so they need --rate
    Vegeta,
}

/// A rule for the types of a trace's commands.
#[derive(Debug, Clone)]
pub(crate) struct TraceType {
    pub(crate) name: String,
    /// What its commands begin with.
    pub(crate) start: String,
}

fn trace_type(text: &str) -> Result<TraceType, String> {
    match text.split_once('=') {
        Some((name, start)) if !name.is_empty() => Ok(TraceType { name: name.to_owned(), start: start.to_owned() }),
        _ => Err("expected a name and the start of commands, such as users=GET /users/".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Arrivals {
    Poisson,
    Uniform,
    Bursty,
}

impl PacingArgs {
    /// The arrival process of the options, or else `otherwise`.
    pub(crate) fn arrivals(&self, otherwise: ArrivalProcess) -> anyhow::Result<ArrivalProcess> {
        let bursts = Bursts::default();
        let told = [self.burst_factor, self.burst_share, self.burst_requests];
        let is_bursty = self.arrivals == Some(Arrivals::Bursty);
        if !is_bursty && told.iter().any(Option::is_some) {
            bail!("--burst-factor, --burst-share and --burst-requests go with --arrivals bursty");
        }
        let bursts = Bursts {
            factor: self.burst_factor.unwrap_or(bursts.factor),
            share: self.burst_share.unwrap_or(bursts.share),
            requests: self.burst_requests.unwrap_or(bursts.requests),
        };
        if !bursts.is_valid() {
            bail!("--burst-factor is at least 1, --burst-share is below 1");
        }
        Ok(match self.arrivals {
            None => otherwise,
            Some(Arrivals::Poisson) => ArrivalProcess::Poisson,
            Some(Arrivals::Uniform) => ArrivalProcess::Uniform,
            Some(Arrivals::Bursty) => ArrivalProcess::Bursty(bursts),
        })
    }

    /// The closed loop of the options.
    pub(crate) fn closed_loop(&self) -> anyhow::Result<Option<ClosedLoop>> {
        let is_told = self.closed_per_type || self.think_us.is_some();
        if is_told && self.closed_loop.is_none() {
            bail!("--closed-per-type and --think-us go with --closed-loop");
        }
        Ok(self.closed_loop.map(|outstanding| ClosedLoop {
            outstanding,
            per_type: self.closed_per_type,
            think: Duration::from_micros(self.think_us.unwrap_or(0)),
        }))
    }

    /// The file of a trace, its format, and when its requests are sent, given `--rate`.
    pub(crate) fn trace(&self, rate_rps: Option<f64>) -> anyhow::Result<Option<(&Path, TraceFormat, TracePace)>> {
        let Some(path) = self.trace.as_deref() else {
            if self.trace_speed.is_some() {
                bail!("--trace-speed goes with --trace");
            }
            return Ok(None);
        };
        let speed = self.trace_speed.unwrap_or(1.0);
        let pace = rate_rps.map_or(TracePace::Recorded { speed }, |rate_rps| TracePace::Rate { rate_rps });
        if self.trace_speed.is_some() && rate_rps.is_some() {
            bail!("a rate takes the place of the times of a trace, and of --trace-speed");
        }
        if self.arrivals.is_some() && rate_rps.is_none() {
            bail!("a trace has its own times; --arrivals goes with --rate");
        }
        let format = match self.trace_format {
            Format::Own => TraceFormat::Own,
            Format::Common | Format::Combined => TraceFormat::AccessLog,
            Format::Csv => TraceFormat::Csv,
            Format::Vegeta => TraceFormat::Vegeta,
        };
        Ok(Some((path, format, pace)))
    }

    /// The rules for the types of a trace's commands.
    pub(crate) fn trace_types(&self) -> &[TraceType] {
        &self.trace_type
    }

    /// Whether the types of requests have rates.
    pub(crate) fn has_rates(&self) -> bool {
        self.trace.is_none() && self.closed_loop.is_none()
    }
}
