//! What is sent and how: the arguments that all live measurements share.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use psp_loadgen::arrivals::ArrivalProcess;
use psp_loadgen::command::Keyspace;
use psp_loadgen::mix::Mix;
use psp_loadgen::plan::{RequestPlan, RunPlan, ThreadClass, TypePlan, Waiting, assign_threads};
use psp_loadgen::preload::PreloadPlan;
use psp_loadgen::target::{Protocol, Target};
use psp_loadgen::workload::Workload;

use super::Failure;
use super::preload::with_progress;
use super::values::{at_least_one, positive, seconds};

/// Connections of a type on the fast thread when nobody says otherwise.
const FAST_CONNECTIONS: usize = 16;

/// Connections of a type on the slow thread when nobody says otherwise.
const SLOW_CONNECTIONS: usize = 4;

#[derive(Debug, Clone, Args)]
pub(super) struct RunArgs {
    /// Commands with weights (GET:90) or rates (GET@10000/s), separated by commas. Placeholders:
    /// {key} {keys:N} {value} {n}. NAME=COMMAND:90 names a type
    #[arg(
        long,
        value_name = "MIX",
        conflicts_with = "workload",
        help_heading = "What to send"
    )]
    mix: Option<String>,
    /// A workload for psp:// targets: high-bimodal, extreme-bimodal, tpcc, ..., or a TOML file
    #[arg(long, value_name = "NAME", help_heading = "What to send")]
    workload: Option<String>,
    /// Keys that {key} is drawn from: key:000000000000 and up
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        help_heading = "What to send"
    )]
    keys: u64,
    /// Bytes of {value}
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 64,
        help_heading = "What to send"
    )]
    value_bytes: usize,
    /// Set all keys before the run
    #[arg(long, help_heading = "What to send")]
    preload: bool,

    /// Requests per second that the weighted types share
    #[arg(long, value_name = "RPS", value_parser = positive, help_heading = "When to send")]
    rate: Option<f64>,
    /// Instead of --rate: the part of their time for which the server's --workers are busy
    #[arg(
        long, value_name = "LOAD", value_parser = positive, requires_all = ["workload", "workers"],
        conflicts_with = "rate", help_heading = "When to send"
    )]
    load: Option<f64>,
    /// Workers of the server
    #[arg(long, value_name = "N", help_heading = "When to send")]
    workers: Option<usize>,
    /// Multiply service times by N and divide the rate by it. With 1000 a request of 1 us sleeps
    /// for 1 ms, so that many sleeping workers fit on few cores
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "workload",
        help_heading = "When to send"
    )]
    dilate: u32,
    /// Distribution of the gaps between requests
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson, help_heading = "When to send")]
    arrivals: Arrivals,
    /// Seconds that are measured
    #[arg(
        long, value_name = "S", value_parser = positive, default_value = "10",
        help_heading = "When to send"
    )]
    duration: f64,
    /// Seconds before the measurement
    #[arg(
        long, value_name = "S", value_parser = seconds, default_value = "1",
        help_heading = "When to send"
    )]
    warmup: f64,
    /// Seed of arrival times and keys
    #[arg(long, default_value_t = 1, help_heading = "When to send")]
    seed: u64,

    /// Connections of each type [default: 16, and 4 for types on the slow thread]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "How to send")]
    connections: Option<usize>,
    /// Requests in flight on one connection
    #[arg(
        long, value_name = "N", value_parser = at_least_one, default_value = "1",
        help_heading = "How to send"
    )]
    pipeline: usize,
    /// Requests of one type that may be outstanding; more are dropped and counted
    #[arg(
        long, value_name = "N", value_parser = at_least_one, default_value = "100000",
        help_heading = "How to send"
    )]
    outstanding: usize,
    /// Seconds after which a request is given up
    #[arg(
        long, value_name = "S", value_parser = positive, default_value = "5",
        help_heading = "How to send"
    )]
    timeout: f64,
    /// Types for the thread of lower priority, besides those under 5 % of the rate
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "How to send"
    )]
    slow: Vec<String>,
    /// Types to keep off the thread of lower priority
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "How to send"
    )]
    fast: Vec<String>,
    /// Nice value of the thread of lower priority
    #[arg(
        long, value_name = "0-19", default_value_t = 10, help_heading = "How to send",
        value_parser = clap::value_parser!(i32).range(0..=19)
    )]
    slow_nice: i32,
    /// Never sleep: lowest noise, one core for each thread
    #[arg(long, help_heading = "How to send")]
    busy_poll: bool,
    /// Without --busy-poll: spin for so long before a send is due and after a send
    #[arg(
        long,
        value_name = "US",
        default_value_t = 50,
        help_heading = "How to send"
    )]
    spin_us: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Arrivals {
    Poisson,
    Uniform,
}

impl RunArgs {
    /// The same at another rate, in requests per second.
    pub(super) fn at_rate(&self, rate_rps: f64) -> Self {
        Self {
            rate: Some(rate_rps),
            ..self.clone()
        }
    }

    /// Whether the command line says at which rate to send.
    pub(super) fn has_rate(&self) -> bool {
        self.rate.is_some() || self.load.is_some()
    }

    /// Sets all keys of the plan's target, if the command line says so.
    pub(super) fn preload(&self, plan: &RunPlan) -> Result<(), Failure> {
        if !self.preload {
            return Ok(());
        }
        with_progress(&PreloadPlan {
            target: plan.target.clone(),
            keyspace: Some(plan.keyspace.clone()),
            collections: Vec::new(),
        })
    }

    pub(super) fn plan(&self, target: Target) -> anyhow::Result<RunPlan> {
        let types = match target.protocol {
            Protocol::Redis => self.command_types(),
            Protocol::PspUdp => self.synthetic_types(),
        }?;
        let known = |name: &&String| types.iter().any(|ty| ty.name == **name);
        if let Some(name) = self.slow.iter().chain(&self.fast).find(|name| !known(name)) {
            bail!("--slow and --fast name types of the mix; `{name}` is none");
        }
        Ok(RunPlan {
            target,
            types,
            arrivals: match self.arrivals {
                Arrivals::Poisson => ArrivalProcess::Poisson,
                Arrivals::Uniform => ArrivalProcess::Uniform,
            },
            seed: self.seed,
            warmup: Duration::from_secs_f64(self.warmup),
            duration: Duration::try_from_secs_f64(self.duration).context("--duration")?,
            timeout: Duration::try_from_secs_f64(self.timeout).context("--timeout")?,
            outstanding_max: self.outstanding,
            pipeline: self.pipeline,
            keyspace: Keyspace::new(self.keys, self.value_bytes),
            dilation: self.dilate,
            waiting: if self.busy_poll {
                Waiting::BusyPoll
            } else {
                Waiting::SleepThenSpin(Duration::from_micros(self.spin_us))
            },
            slow_nice: self.slow_nice,
        })
    }

    fn command_types(&self) -> anyhow::Result<Vec<TypePlan>> {
        let mix = self.mix.as_ref().context("a redis:// target needs --mix")?;
        let mix: Mix = mix.parse()?;
        let rates = mix
            .rates_rps(self.rate)
            .context("--rate and --mix do not fit together")?;
        let names = mix.items.iter().map(|item| item.name.as_str());
        let named: Vec<_> = names.zip(rates.iter().copied()).collect();
        let threads = assign_threads(&named, &self.slow, &self.fast);
        let types = mix.items.iter().zip(rates).zip(threads);
        Ok(types
            .map(|((item, rate_rps), thread)| TypePlan {
                name: item.name.clone(),
                rate_rps,
                connections: self.connections.unwrap_or(match thread {
                    ThreadClass::Fast => FAST_CONNECTIONS,
                    ThreadClass::Slow => SLOW_CONNECTIONS,
                }),
                thread,
                request: RequestPlan::Command(item.command.clone()),
            })
            .collect())
    }

    fn synthetic_types(&self) -> anyhow::Result<Vec<TypePlan>> {
        let name = self
            .workload
            .as_ref()
            .context("a psp:// target needs --workload")?;
        let workload = Workload::named_or_file(name)?;
        workload.require_steady()?;
        let dilated = workload.dilated(self.dilate)?;
        let rate_rps = match (self.rate, self.load, self.workers) {
            (Some(rate_rps), None, _) => rate_rps / f64::from(self.dilate),
            (None, Some(load), Some(workers)) => dilated.rate_rps(load, workers),
            _ => bail!("give either --rate, or --load with --workers"),
        };
        dilated
            .types
            .into_iter()
            .zip(0..)
            .map(|(ty, request_type)| {
                Ok(TypePlan {
                    name: ty.name,
                    rate_rps: rate_rps * ty.share,
                    connections: 0,
                    // Replies of 16 bytes delay nobody.
                    thread: ThreadClass::Fast,
                    request: RequestPlan::Synthetic {
                        request_type,
                        service_ns: u32::try_from(ty.service_ns)?,
                    },
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[arg(long)]
        target: String,
        #[command(flatten)]
        args: RunArgs,
    }

    fn plan(line: &str) -> anyhow::Result<RunPlan> {
        let words = std::iter::once("run").chain(line.split(' '));
        let line = Line::try_parse_from(words)?;
        line.args.plan(line.target.parse()?)
    }

    #[test]
    fn a_rare_type_gets_the_slow_thread_and_fewer_connections() {
        let plan = plan("--target redis://127.0.0.1 --mix GET:99.9,KEYS:0.1 --rate 1000").unwrap();
        let [get, keys] = &plan.types[..] else {
            panic!("two types");
        };
        assert_eq!((get.thread, get.connections), (ThreadClass::Fast, 16));
        assert_eq!((keys.thread, keys.connections), (ThreadClass::Slow, 4));
        assert!((keys.rate_rps - 1.0).abs() < 1e-9);
    }

    #[test]
    fn dilation_multiplies_service_times_and_divides_the_rate() {
        let base = "--target psp://127.0.0.1:9 --workload high-bimodal";
        let by_rate = plan(&format!("{base} --rate 10000 --dilate 1000")).unwrap();
        assert!((by_rate.types[0].rate_rps - 5.0).abs() < 1e-9);
        assert_eq!(by_rate.types[1].service_ns(), Some(100_000_000));
        let load = plan(&format!("{base} --load 0.5 --workers 14 --dilate 1000")).unwrap();
        let busy: f64 = load
            .types
            .iter()
            .map(|ty| ty.rate_rps * f64::from(ty.service_ns().unwrap()) / 1e9)
            .sum();
        assert!((busy - 7.0).abs() < 1e-6, "{busy}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (line, reason) in [
            ("--target redis://127.0.0.1", "needs --mix"),
            (
                "--target redis://127.0.0.1 --mix GET:1",
                "do not fit together",
            ),
            ("--target redis://127.0.0.1 --mix GET:1 --rate 0", "above 0"),
            (
                "--target redis://127.0.0.1 --mix GET@1/s --slow SET",
                "`SET` is none",
            ),
            ("--target psp://127.0.0.1:9 --rate 1", "needs --workload"),
            (
                "--target psp://127.0.0.1:9 --workload tpcc",
                "give either --rate",
            ),
            (
                "--target psp://127.0.0.1:9 --workload tpcc --load 1",
                "--workers",
            ),
            (
                "--target psp://127.0.0.1:9 --workload tpcc --rate 1 --dilate 100000",
                "largest dilation",
            ),
        ] {
            let error = format!("{:#}", plan(line).unwrap_err());
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
