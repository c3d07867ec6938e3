//! Makes plans from the options that all measurements share.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use psp_loadgen::schedule::{LiveWorkload, Pacing, RequestPlan, RunPlan, TypePlan, Waiting};
use psp_loadgen::simulated::{SimRun, SimTarget};
use psp_loadgen::wire::{Protocol, Target, give_body};
use psp_sim::workload::ArrivalProcess;

use crate::cli::args::measurement::MeasurementArgs;
use crate::cli::args::pacing::TraceType;
use crate::cli::args::target::Subject;
use crate::cli::measurement::Measurement;
use psp_loadgen::schedule::{
    ClosedLoop, ItemRate, Mix, OfferedLoad, ThreadClass, Trace, TraceCommand, TraceTypes, assign_threads,
};
use psp_loadgen::wire::CommandTemplate;

/// Default number of keys.
const KEYS: u64 = 100_000;

/// Default length of the measurement in seconds.
const DURATION_S: f64 = 10.0;

/// Default length of the warm-up in seconds.
const WARMUP_S: f64 = 1.0;

/// Default connections of a type on the fast thread.
const FAST_CONNECTIONS: usize = 16;

/// Default connections of a type on the slow thread.
const SLOW_CONNECTIONS: usize = 4;

/// Most types of a trace's commands.
const TRACE_TYPES_MAX: usize = 256;

/// The type of commands whose own types would be too many.
const OTHER: &str = "other";

/// A word of a mix that stands for itself.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "%27"))
}

/// Request types before threads and connections are assigned.
struct Sent {
    types: Vec<TypePlan>,
    arrivals: ArrivalProcess,
    pacing: Pacing,
}

impl MeasurementArgs {
    /// The measurement of `subject`.
    pub(crate) fn measurement(&self, subject: &Subject) -> anyhow::Result<Measurement> {
        match subject {
            Subject::Live(target) => {
                let plan = self.plan(target.clone())?;
                Ok(Measurement::Live(Box::new(plan)))
            }
            Subject::Simulated(target) => {
                let run = self.sim_run(SimTarget::clone(target))?;
                Ok(Measurement::Simulated(Box::new(run)))
            }
        }
    }

    /// The simulation of a target. Options about connections, threads and keys do not apply.
    fn sim_run(&self, target: SimTarget) -> anyhow::Result<SimRun> {
        let Some(workload) = &self.workload else {
            bail!("a sim: target needs --workload");
        };
        ensure!(
            self.pacing.has_rates(),
            "requests of a simulation arrive at rates; --trace and --closed-loop go with live targets"
        );
        ensure!(self.dilate == 1, "a simulation needs no --dilate");
        let live = LiveWorkload::named_or_file(workload)?;
        let offered = self.offered(&live)?;
        let mut workload = live.simulated()?;
        workload.arrivals = self.pacing.arrivals(workload.arrivals)?;
        let warmup = Duration::from_secs_f64(self.warmup.unwrap_or(WARMUP_S));
        let duration = Duration::try_from_secs_f64(self.duration.unwrap_or(DURATION_S));
        let duration = duration.context("--duration")?;
        Ok(SimRun::new(target, workload, offered, self.seed, warmup, duration)?)
    }

    fn plan(&self, target: Target) -> anyhow::Result<RunPlan> {
        let Sent { mut types, arrivals, pacing } = self.sent(&target)?;
        self.give_bodies(&mut types, target.protocol)?;
        let known = |name: &&String| types.iter().any(|ty| ty.name == **name);
        if let Some(name) = self.slow.iter().chain(&self.fast).find(|name| !known(name)) {
            bail!("--slow and --fast name types of the mix; `{name}` is none");
        }
        let types = self.placed(types, target.protocol, &pacing)?;
        let length_ns = match &pacing {
            Pacing::Trace(trace) => trace.length_ns(),
            Pacing::Drawn | Pacing::Closed(_) => None,
        };
        let warmup_s = self.warmup.unwrap_or(match length_ns {
            Some(_) => self.ramp,
            None => self.ramp.max(WARMUP_S),
        });
        let warmup = Duration::from_secs_f64(warmup_s);
        let rate_rps: f64 = types.iter().map(|ty| ty.rate_rps).sum();
        let duration_s = self.requests.map(|requests| requests as f64 / rate_rps).or(self.duration);
        let duration = match (duration_s, length_ns) {
            (Some(duration_s), _) => Duration::try_from_secs_f64(duration_s).context("--duration")?,
            (None, Some(length_ns)) => {
                // The measurement includes the last arrival.
                let length = Duration::from_nanos(length_ns + 1);
                let measured = length.checked_sub(warmup);
                measured.context("the trace ends before the warm-up")?
            }
            (None, None) => Duration::from_secs_f64(DURATION_S),
        };
        Ok(RunPlan {
            arrivals,
            pacing,
            seed: self.seed,
            warmup,
            duration,
            timeout: Duration::try_from_secs_f64(self.timeout).context("--timeout")?,
            outstanding_max: self.outstanding,
            pipeline: self.pipeline,
            ramp: Duration::from_secs_f64(self.ramp),
            keyspace: self.keyspace.keyspace(KEYS)?,
            headers: self.header.clone(),
            dilation: self.dilate,
            waiting: if self.busy_poll {
                Waiting::BusyPoll
            } else {
                Waiting::SleepThenSpin(Duration::from_micros(self.spin_us))
            },
            slow_nice: self.slow_nice,
            calm: self.calm,
            #[cfg(feature = "dpdk")]
            dpdk: self.port.config(),
            ..RunPlan::new(target, types)
        })
    }

    /// Gives the body of --body to requests that lack one.
    fn give_bodies(&self, types: &mut [TypePlan], protocol: Protocol) -> anyhow::Result<()> {
        let is_plain = self.header.is_empty() && self.body.is_none();
        ensure!(is_plain || protocol.is_http(), "--header and --body go with http:// targets");
        let Some(body) = &self.body else {
            return Ok(());
        };
        let body: Arc<[u8]> = match body.strip_prefix('@') {
            Some(path) => fs::read(path).with_context(|| format!("cannot read {path}"))?,
            None => body.clone().into_bytes(),
        }
        .into();
        for ty in types {
            for command in ty.request.commands_mut() {
                give_body(command, &body);
            }
        }
        Ok(())
    }

    fn sent(&self, target: &Target) -> anyhow::Result<Sent> {
        let protocol = target.protocol;
        let mix = self.mix.as_deref();
        let preset = self.keyspace.preset.as_ref().map(|preset| preset.mix);
        let page = target.page().map(|page| format!("GET {}:1", quoted(page)));
        let trace = self.pacing.trace(self.rate)?;
        let closed = self.pacing.closed_loop()?;
        let (types, arrivals) = match (mix.or(preset), &self.workload) {
            (_, Some(workload)) => {
                let workload = LiveWorkload::named_or_file(workload)?;
                (self.workload_types(&workload, protocol)?, workload.arrivals())
            }
            (_, None) if protocol.is_synthetic() => {
                bail!("a {protocol}:// target needs --workload")
            }
            (Some(mix), None) => {
                let mix = Mix::parse(mix, protocol)?;
                (self.mix_types(&mix)?, ArrivalProcess::Poisson)
            }
            (None, None) if trace.is_some() => (Vec::new(), ArrivalProcess::Poisson),
            (None, None) if page.is_some() => {
                let mix = Mix::parse(&page.unwrap_or_default(), protocol)?;
                (self.mix_types(&mix)?, ArrivalProcess::Poisson)
            }
            (None, None) => {
                bail!("a {protocol} target needs --mix, --preset, --workload or --trace")
            }
        };
        if let Some((path, format, pace)) = trace {
            let steady = types.iter().all(|ty| ty.phases.is_empty());
            ensure!(steady, "a trace has its own times, phases cannot change them");
            let named = types.iter().map(|ty| (ty.name.clone(), ty.rate_rps));
            let requests = if types.is_empty() {
                TraceTypes::Commands(target.clone())
            } else {
                TraceTypes::Named(named.collect())
            };
            let mut trace = Trace::open(path, format, pace, requests)?;
            let rules = self.pacing.trace_types();
            return Ok(Sent {
                types: traced_types(types, &mut trace, rules, protocol)?,
                arrivals: self.pacing.arrivals(arrivals)?,
                pacing: Pacing::Trace(trace),
            });
        }
        let pacing = match closed {
            Some(closed) => {
                let steady = types.iter().all(|ty| ty.phases.is_empty());
                ensure!(steady, "a closed loop has no load that phases could change");
                Pacing::Closed(closed)
            }
            None => Pacing::Drawn,
        };
        Ok(Sent { types, arrivals: self.pacing.arrivals(arrivals)?, pacing })
    }

    /// Types of a mix. Without a rate, their rates are their weights.
    fn mix_types(&self, mix: &Mix) -> anyhow::Result<Vec<TypePlan>> {
        let rates = if self.pacing.has_rates() {
            mix.rates_rps(self.rate).context("--rate and --mix do not fit together")?
        } else {
            let weight = |rate| match rate {
                ItemRate::Weight(weight) => Ok(weight),
                ItemRate::PerSecond(_) => {
                    Err(anyhow!("a trace and a closed loop have no rates; give weights, such as GET:90"))
                }
            };
            let items = mix.items.iter().map(|item| weight(item.rate));
            items.collect::<Result<_, _>>()?
        };
        let types = mix.items.iter().zip(rates);
        Ok(types
            .map(|(item, rate_rps)| {
                let request = RequestPlan::Command(item.command.clone());
                TypePlan::new(item.name.clone(), rate_rps, request)
            })
            .collect())
    }

    /// Types of a workload. Without a rate, their rates are their shares.
    fn workload_types(&self, workload: &LiveWorkload, protocol: Protocol) -> anyhow::Result<Vec<TypePlan>> {
        let offered = self.offered(workload)?;
        Ok(workload.type_plans(protocol, offered, self.dilate)?)
    }

    /// The offered load of a workload.
    fn offered(&self, workload: &LiveWorkload) -> anyhow::Result<OfferedLoad> {
        Ok(match (self.rate.or(workload.rate_rps()), self.load, self.workers) {
            _ if !self.pacing.has_rates() => OfferedLoad::Rate(1.0),
            (_, Some(load), Some(workers)) => OfferedLoad::Workers { load, workers },
            (Some(rate_rps), None, _) => OfferedLoad::Rate(rate_rps),
            _ => bail!("give either --rate, or --load with --workers"),
        })
    }

    /// Assigns threads and connections to the types.
    fn placed(&self, mut types: Vec<TypePlan>, protocol: Protocol, pacing: &Pacing) -> anyhow::Result<Vec<TypePlan>> {
        if protocol.is_synthetic() {
            // Replies of 16 bytes delay no other reply, and all types share one socket.
            return Ok(types);
        }
        let closed = match pacing {
            Pacing::Closed(closed) => Some(*closed),
            Pacing::Drawn | Pacing::Trace(_) => None,
        };
        let is_shared = closed.is_some_and(|closed| !closed.per_type);
        if is_shared && !self.slow.is_empty() {
            bail!("a closed loop over all types has one thread; --slow goes with --closed-per-type");
        }
        let named: Vec<_> = types.iter().map(|ty| (ty.name.as_str(), ty.rate_rps)).collect();
        let threads = assign_threads(&named, &self.slow, &self.fast);
        for (ty, thread) in types.iter_mut().zip(threads) {
            ty.thread = if is_shared { ThreadClass::Fast } else { thread };
            if protocol.is_datagram() {
                continue;
            }
            ty.connections = match closed {
                Some(closed) => self.connections_closed(closed)?,
                None => self.connections.unwrap_or(match thread {
                    ThreadClass::Fast => FAST_CONNECTIONS,
                    ThreadClass::Slow => SLOW_CONNECTIONS,
                }),
            };
        }
        Ok(types)
    }

    /// Enough connections for each client of a closed loop to send at once.
    fn connections_closed(&self, closed: ClosedLoop) -> anyhow::Result<usize> {
        let needed = closed.outstanding.div_ceil(self.pipeline);
        let given = self.connections.unwrap_or(needed);
        ensure!(
            given >= needed,
            "{} outstanding requests need {needed} connections of each type with --pipeline {}",
            closed.outstanding,
            self.pipeline,
        );
        Ok(given)
    }
}

/// The types of a trace with their recorded rates: `types`, or those of its commands.
fn traced_types(
    mut types: Vec<TypePlan>,
    trace: &mut Trace,
    rules: &[TraceType],
    protocol: Protocol,
) -> anyhow::Result<Vec<TypePlan>> {
    if types.is_empty() {
        types = grouped_commands(trace, rules, protocol);
    } else {
        ensure!(
            rules.is_empty(),
            "--trace-type goes with traces of commands, without --mix, --preset and --workload"
        );
    }
    for (ty, rate_rps) in types.iter_mut().zip(trace.rates_rps()) {
        ty.rate_rps = rate_rps;
    }
    Ok(types)
}

/// A type for each different command of a trace. With `rules` or types in the trace, or if there are too many
/// commands, those of one name share a type.
fn grouped_commands(trace: &mut Trace, rules: &[TraceType], protocol: Protocol) -> Vec<TypePlan> {
    let commands = trace.take_commands();
    let are_typed = commands.iter().any(|command| command.type_name.is_some());
    let is_each_own = rules.is_empty() && !are_typed && commands.len() <= TRACE_TYPES_MAX;
    let mut groups: Vec<(String, Vec<CommandTemplate>)> = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut types = Vec::with_capacity(commands.len());
    // Each rule has a place, whenever its first command comes.
    let mut own_left = (TRACE_TYPES_MAX - 1).saturating_sub(rules.len());
    for command in commands {
        let TraceCommand { text, type_name, template } = command;
        let is_meant = |rule: &&TraceType| type_name.is_none() && text.starts_with(&rule.start);
        let rule = rules.iter().find(is_meant);
        let mut name = match rule {
            Some(rule) => rule.name.clone(),
            None => type_name.unwrap_or_else(|| protocol.type_name(&text)),
        };
        // The second command with the same first word gets its whole text as its name.
        if is_each_own && numbers.contains_key(&name) {
            name = text;
        }
        if !is_each_own && rule.is_none() && !numbers.contains_key(&name) {
            match own_left.checked_sub(1) {
                Some(left) => own_left = left,
                None => name = OTHER.to_owned(),
            }
        }
        let number = *numbers.entry(name).or_insert_with_key(|name| {
            groups.push((name.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[number].1.push(template);
        types.push(number);
    }
    trace.group(&types);
    let plan = |(name, commands)| TypePlan::new(name, 0.0, RequestPlan::Commands(commands));
    groups.into_iter().map(plan).collect()
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
        args: MeasurementArgs,
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
        let busy: f64 = load.types.iter().map(|ty| ty.rate_rps * f64::from(ty.service_ns().unwrap()) / 1e9).sum();
        assert!((busy - 7.0).abs() < 1e-6, "{busy}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (line, reason) in [
            ("--target redis://127.0.0.1", "needs --mix"),
            ("--target redis://127.0.0.1 --mix GET:1", "do not fit together"),
            ("--target redis://127.0.0.1 --mix GET:1 --rate 0", "above 0"),
            ("--target redis://127.0.0.1 --mix GET@1/s --slow SET", "`SET` is none"),
            ("--target psp://127.0.0.1:9 --rate 1", "needs --workload"),
            ("--target memcached://127.0.0.1 --mix KEYS:1 --rate 1", "no command `KEYS`"),
            ("--target protobuf://127.0.0.1:9 --rate 1", "needs --mix"),
            ("--target redis://127.0.0.1 --mix GET@1/s --closed-loop 5", "have no rates"),
            ("--target redis://127.0.0.1 --mix GET:1 --closed-loop 5 --rate 5", "cannot be used with"),
            (
                "--target redis://127.0.0.1 --mix GET:1 --closed-loop 5 --connections 4",
                "need 5 connections",
            ),
            ("--target redis://127.0.0.1 --mix GET:1 --closed-loop 5 --slow GET", "--closed-per-type"),
            ("--target redis://127.0.0.1 --mix GET:1 --think-us 5 --rate 5", "go with --closed-loop"),
            ("--target redis://127.0.0.1 --mix GET:1 --trace-speed 5 --rate 5", "goes with --trace"),
            (
                "--target redis://127.0.0.1 --mix GET@1/s --arrivals poisson --burst-share 0.5",
                "go with --arrivals bursty",
            ),
            (
                "--target redis://127.0.0.1 --mix GET@1/s --arrivals bursty --burst-share 1.5",
                "--burst-share is below 1",
            ),
            ("--target redis://127.0.0.1 --trace no/such", "cannot read no/such"),
            (
                "--target redis://127.0.0.1 --trace no/such --arrivals uniform",
                "--arrivals goes with --rate",
            ),
            ("--target redis://127.0.0.1 --trace no/such --rate 5 --trace-speed 2", "takes the place"),
            ("--target redis://127.0.0.1 --mix GET:1 --rate 5 --trace-format csv", "--trace <FILE>"),
            ("--target redis://127.0.0.1 --trace no/such --trace-format combined", "go with http://"),
            ("--target http://127.0.0.1 --trace no/such --trace-format vegeta", "give --rate"),
            (
                "--target http://127.0.0.1 --trace no/such --trace-format common --mix GET:1",
                "no types of a mix",
            ),
            ("--target redis://127.0.0.1 --mix GET@1/s --header A:b", "go with http://"),
            ("--target http://127.0.0.1 --mix POST@1/s --body @no/such", "cannot read no/such"),
            ("--target redis://127.0.0.1 --mix GET@1/s --keys 0", "from 1 to"),
            ("--target redis://127.0.0.1 --mix GET@1/s --key-bytes 5", "too short"),
            ("--target redis://127.0.0.1 --workload tpcc --rate 1", "has no `command`"),
            ("--target psp://127.0.0.1:9 --workload tpcc", "give either --rate"),
            ("--target psp://127.0.0.1:9 --workload tpcc --load 1", "--workers"),
            ("--target psp://127.0.0.1:9 --workload tpcc --rate 1 --dilate 100000", "largest dilation"),
        ] {
            let error = format!("{:#}", plan(line).unwrap_err());
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    #[test]
    fn presets_give_a_mix_and_its_options_may_differ() {
        let usr = plan("--target redis://127.0.0.1 --preset usr --rate 1000").unwrap();
        assert_eq!((usr.types[0].name.as_str(), usr.types.len()), ("GET", 2));
        assert!((usr.types[1].rate_rps - 2.0).abs() < 1e-9);
        assert_eq!(usr.keyspace.first_value(3), b"ab");
        let other = "--target redis://127.0.0.1 --preset usr --mix GET@5/s --value-bytes 3";
        let other = plan(other).unwrap();
        assert_eq!((other.types.len(), other.keyspace.first_value(3).len()), (1, 3));
    }

    #[test]
    fn a_closed_loop_has_connections_for_all_its_requests() {
        let base = "--target redis://127.0.0.1 --mix GET:99,KEYS:1 --closed-loop 50 --think-us 7";
        let shared = plan(&format!("{base} --pipeline 4")).unwrap();
        assert!(shared.types.iter().all(|ty| ty.connections == 13));
        assert!(shared.types.iter().all(|ty| ty.thread == ThreadClass::Fast));
        let Pacing::Closed(closed) = shared.pacing else {
            panic!("not closed");
        };
        let think = Duration::from_micros(7);
        let expected = ClosedLoop { outstanding: 50, per_type: false, think };
        assert_eq!(closed, expected);
        let own = plan(&format!("{base} --closed-per-type")).unwrap();
        assert_eq!(own.types[1].thread, ThreadClass::Slow);
    }

    #[test]
    fn bursts_are_set() {
        let base = "--target redis://127.0.0.1 --mix GET@1/s --arrivals bursty";
        let bursty = plan(&format!("{base} --burst-factor 3 --burst-share 0.2")).unwrap();
        let bursts = psp_sim::workload::Bursts { factor: 3.0, share: 0.2, requests: 100.0 };
        assert_eq!(bursty.arrivals, ArrivalProcess::Bursty(bursts));
    }

    #[test]
    fn a_trace_gives_types_rates_and_the_duration() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "5 GET a\n6 GET b\n7 get a\n9 GET a\n").unwrap();
        let path = file.path().display();
        let plan = plan(&format!("--target redis://127.0.0.1 --trace {path} --trace-speed 2")).unwrap();
        let names: Vec<_> = plan.types.iter().map(|ty| ty.name.as_str()).collect();
        assert_eq!(names, ["GET", "GET b", "get a"]);
        assert_eq!(plan.duration, Duration::from_nanos(2_000_000_001));
        assert_eq!(plan.warmup, Duration::ZERO);
        assert!((plan.types[0].rate_rps - 1.0).abs() < 1e-6);
    }

    #[test]
    fn commands_of_a_long_trace_have_types_by_rule() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = (0..600).map(|line| match line % 2 {
            0 => format!("{line} GET /users/{line}?a\n"),
            _ => format!("{line} GET /page?n={line}\n"),
        });
        std::fs::write(file.path(), lines.collect::<String>()).unwrap();
        let path = file.path().display();
        let line = format!("--target http://127.0.0.1 --trace {path}");
        let types = |options: &[&str]| {
            let words = std::iter::once("run").chain(line.split(' '));
            let line = Line::try_parse_from(words.chain(options.iter().copied())).unwrap();
            let plan = line.args.plan(line.target.parse().unwrap()).unwrap();
            let types = plan.types.into_iter();
            types.map(|ty| (ty.name, ty.request.commands().len())).collect::<Vec<_>>()
        };
        let named = |name: &str, len| (name.to_owned(), len);
        let by_name = types(&[]);
        assert_eq!(by_name.len(), 256);
        assert_eq!(by_name[..2], [named("/users/0", 1), named("/page", 300)]);
        assert_eq!(by_name[255], named("other", 46));
        let by_rule = types(&["--trace-type", "users=GET /users/"]);
        assert_eq!(by_rule, [named("users", 300), named("/page", 300)]);
    }

    #[test]
    fn a_file_of_csv_may_name_types() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "type,request,time\ngold,GET /a,5\n,GET /a,6\ngold,GET /b,7\n,POST /c?d,7\n";
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().display();
        let line = format!("--target http://127.0.0.1 --trace {path} --trace-format csv");
        let names = |options: &str| {
            let plan = plan(&format!("{line}{options}")).unwrap();
            let types = plan.types.into_iter();
            types.map(|ty| (ty.name, ty.request.commands().len())).collect::<Vec<_>>()
        };
        let named = |name: &str, len| (name.to_owned(), len);
        let untyped = [named("gold", 2), named("/a", 1), named("/c", 1)];
        assert_eq!(names(""), untyped);
        let ruled = [named("gold", 2), named("rest", 2)];
        assert_eq!(names(" --trace-type rest="), ruled);
    }

    #[test]
    fn requests_of_a_trace_may_have_a_rate() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "5 GET a\n6 SET a b\n7 GET a\n").unwrap();
        let path = file.path().display();
        let line = format!("--target redis://127.0.0.1 --trace {path} --rate 300");
        let plan = plan(&format!("{line} --arrivals uniform")).unwrap();
        let rates: Vec<_> = plan.types.iter().map(|ty| ty.rate_rps).collect();
        assert_eq!(rates, [200.0, 100.0]);
        assert_eq!(plan.arrivals, ArrivalProcess::Uniform);
        assert_eq!(plan.warmup, Duration::from_secs(1));
        assert_eq!(plan.duration, Duration::from_secs(10));
    }

    #[test]
    fn commands_of_a_trace_share_the_body() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "5 POST /a\n6 POST /b\n").unwrap();
        let path = file.path().display();
        let line = format!("--target http://127.0.0.1 --trace {path} --body given");
        let plan = plan(&line).unwrap();
        let mut bodies = plan.types.iter().map(|ty| ty.request.commands()[0].literal(2));
        let [Some(first), Some(second)] = [bodies.next().unwrap(), bodies.next().unwrap()] else {
            panic!("two bodies");
        };
        assert_eq!(first, b"given");
        assert!(std::ptr::eq(first, second));
    }

    #[test]
    fn commands_of_a_trace_have_quotes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"5 SET a '{"b": "\\"}'"#).unwrap();
        let path = file.path().display();
        let plan = plan(&format!("--target redis://127.0.0.1 --trace {path}")).unwrap();
        let [command] = plan.types[0].request.commands() else {
            panic!("one command");
        };
        assert_eq!(command.literal(2), Some(&br#"{"b": "\\"}"#[..]));
    }

    #[test]
    fn the_warm_up_is_as_long_as_the_ramp() {
        let base = "--target redis://127.0.0.1 --mix GET@1/s --ramp 3";
        assert_eq!(plan(base).unwrap().warmup, Duration::from_secs(3));
        let told = plan(&format!("{base} --warmup 2")).unwrap();
        assert_eq!(told.warmup, Duration::from_secs(2));
    }
}
