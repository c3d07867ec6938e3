//! The options that all measurements share.

use clap::Args;
use psp_loadgen::clients::PreloadPlan;
use psp_loadgen::wire::HttpHeader;

use crate::cli::args::keyspace::KeyspaceArgs;
use crate::cli::args::pacing::PacingArgs;
use crate::cli::args::values::{at_least_one, count, positive, seconds, some_seconds};
use crate::cli::failure::Failure;
use crate::cli::measurement::Measurement;
use crate::cli::preloading::with_progress;

#[derive(Debug, Clone, Args)]
pub(crate) struct MeasurementArgs {
    #[cfg(feature = "dpdk")]
    #[command(flatten)]
    pub(crate) port: super::port::PortArgs,
    /// Commands with weights (GET:90) or rates (GET@10000/s), separated by commas; methods for a
    /// protobuf:// target. Placeholders: {key} {key:HIT} {keys:N} {value}, and n in braces: the
    /// number of the request. NAME=COMMAND:90 names a type. Quotes and backslashes are those of a shell; text in
    /// single quotes has no placeholders, elsewhere a brace is written twice
    #[arg(long, value_name = "MIX", conflicts_with = "workload", help_heading = "Requests")]
    pub(crate) mix: Option<String>,
    /// A workload of the literature for psp:// and sim: targets: high-bimodal, extreme-bimodal, tpcc,
    /// ...; or a TOML file, for any target
    #[arg(long, value_name = "NAME|FILE.toml", help_heading = "Requests")]
    pub(crate) workload: Option<String>,
    /// A header line of all requests of http:// targets, as in 'Accept: text/html'; may be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = str::parse::<HttpHeader>, help_heading = "Requests")]
    pub(crate) header: Vec<HttpHeader>,
    /// The body of requests POST, PUT and PATCH of http:// targets that have none in the mix or trace: text, or a
    /// file after @
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "Requests")]
    pub(crate) body: Option<String>,
    /// Set all keys before the run; a protobuf:// target by PUT
    #[arg(long, help_heading = "Requests")]
    pub(crate) preload: bool,
    #[command(flatten)]
    pub(crate) keyspace: KeyspaceArgs,

    /// Requests per second that the weighted types share, such as 5k [default: that of the workload file]
    #[arg(short, long, value_name = "RPS", value_parser = positive, help_heading = "Schedule")]
    pub(crate) rate: Option<f64>,
    /// Instead of --rate: the fraction of their time for which the server's --workers are busy
    #[arg(
        long, value_name = "LOAD", value_parser = positive, requires_all = ["workload", "workers"],
        conflicts_with = "rate", help_heading = "Schedule"
    )]
    pub(crate) load: Option<f64>,
    /// Workers of the server
    #[arg(long, value_name = "N", help_heading = "Schedule")]
    pub(crate) workers: Option<usize>,
    /// Multiply service times by N and divide the rate by it. With 1000 a request of 1 us sleeps
    /// for 1 ms, so that many sleeping workers fit on few cores
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "workload",
        help_heading = "Schedule"
    )]
    pub(crate) dilate: u32,
    #[command(flatten)]
    pub(crate) pacing: PacingArgs,
    /// How long is measured: seconds, or a time such as 500ms or 2m [default: 10 s, or the length of the trace]
    #[arg(short, long, value_name = "TIME", value_parser = some_seconds, help_heading = "Schedule")]
    pub(crate) duration: Option<f64>,
    /// Instead of --duration: for as long as so many requests take at the rate of all types
    #[arg(
        long, value_name = "N", value_parser = count, conflicts_with_all = ["duration", "closed_loop", "trace"],
        help_heading = "Schedule"
    )]
    pub(crate) requests: Option<u64>,
    /// Time before the measurement [default: 1 s or the ramp, whichever is longer; 0 with a trace]
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Schedule")]
    pub(crate) warmup: Option<f64>,
    /// Seed of all random numbers: times, types, keys, sizes, service times
    #[arg(long, default_value_t = 1, help_heading = "Schedule")]
    pub(crate) seed: u64,

    /// Connections of each type [default: 16, and 4 for types on the slow thread; in a closed loop
    /// as many as it needs]
    #[arg(short, long, value_name = "N", value_parser = at_least_one, help_heading = "Connections and threads")]
    pub(crate) connections: Option<usize>,
    /// Time from the start over which the connections are opened
    #[arg(
        long, value_name = "TIME", value_parser = seconds, default_value = "0",
        help_heading = "Connections and threads"
    )]
    pub(crate) ramp: f64,
    /// Requests in flight on one connection
    #[arg(
        long, value_name = "N", value_parser = at_least_one, default_value = "1",
        help_heading = "Connections and threads"
    )]
    pub(crate) pipeline: usize,
    /// Requests of one type that may be outstanding; more are dropped and counted
    #[arg(
        long, value_name = "N", value_parser = at_least_one, default_value = "100000",
        help_heading = "Connections and threads"
    )]
    pub(crate) outstanding: usize,
    /// Time after which a request is given up
    #[arg(
        long, value_name = "TIME", value_parser = some_seconds, default_value = "5s",
        help_heading = "Connections and threads"
    )]
    pub(crate) timeout: f64,
    /// Types for the thread of lower priority, besides those under 5 % of the rate
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "Connections and threads"
    )]
    pub(crate) slow: Vec<String>,
    /// Types to keep off the thread of lower priority
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "Connections and threads"
    )]
    pub(crate) fast: Vec<String>,
    /// Nice value of the thread of lower priority
    #[arg(
        long, value_name = "0-19", default_value_t = 10, help_heading = "Connections and threads",
        value_parser = clap::value_parser!(i32).range(0..=19)
    )]
    pub(crate) slow_nice: i32,
    /// Watch for stalls of this machine, and also report the latency of calm requests, which no
    /// stall overlaps. Needs root or CAP_SYS_NICE
    #[arg(long, help_heading = "Connections and threads")]
    pub(crate) calm: bool,
    /// Never sleep: lowest noise, one core for each thread
    #[arg(long, help_heading = "Connections and threads")]
    pub(crate) busy_poll: bool,
    /// Without --busy-poll: spin this long before a send is due and after a send
    #[arg(
        long,
        value_name = "US",
        default_value_t = 50,
        help_heading = "Connections and threads"
    )]
    pub(crate) spin_us: u64,
}

impl MeasurementArgs {
    /// The same options with another rate, in requests per second.
    pub(crate) fn at_rate(&self, rate_rps: f64) -> Self {
        Self { rate: Some(rate_rps), ..self.clone() }
    }

    /// Whether the options set a rate.
    pub(crate) fn has_rate(&self) -> bool {
        self.rate.is_some() || self.load.is_some()
    }

    /// Sets all keys of a live target if --preload is given.
    pub(crate) fn preload(&self, measurement: &Measurement) -> Result<(), Failure> {
        let plan = match measurement {
            Measurement::Live(plan) if self.preload => plan,
            Measurement::Live(_) | Measurement::Simulated(_) => return Ok(()),
        };
        with_progress(&PreloadPlan {
            target: plan.target.clone(),
            keyspace: Some(plan.keyspace.clone()),
            collections: Vec::new(),
        })
    }
}
