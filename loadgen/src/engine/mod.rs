//! Runs a plan against a live target.
//!
//! ```text
//!   main ── spawns ──► fast thread   schedules ─► send ─► epoll ─► timestamp ─► histograms
//!     │                slow thread   the same at lower priority: rare types, big replies
//!     └─ live line ◄── counters of each type (relaxed atomics, never waited for)
//! ```

mod clients;
mod commands;
mod connection;
mod datagram;
mod drive;
mod in_flight;
mod link;
mod pacer;
mod services;
mod stream;
mod waiter;

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

pub(crate) use connection::{connect, connect_within};
pub(crate) use datagram::connect as connect_datagram;

use crate::arrivals::Schedule;
use crate::clock::RunClock;
use crate::intervals::{Interval, IntervalCollector, IntervalRecorder};
use crate::lot::Lot;
use crate::plan::{Pacing, RequestPlan, RunPlan, ThreadClass};
use crate::record::{Completions, LiveCounters, Notes, Recorder, TypeRecord};
use crate::stalls::Witnesses;
use crate::target::Protocol;

use clients::Clients;
use commands::Commands;
use datagram::{DatagramLane, MemcachedExchange, PspExchange, PspType};
use drive::drive;
use pacer::{Pacer, Recorded, Schedules};
use services::Services;
use stream::{StreamLane, StreamTypeSetup};
use waiter::Waiter;

/// Between the last connect and the first intended send time: threads are up by then.
const START_DELAY: Duration = Duration::from_millis(20);

/// For how long a thread of fast types runs at a time, as far as the kernel is concerned.
const SLICE_US: u64 = 100;

/// Random streams of a seed: service times are drawn apart from arrivals and keys.
const SERVICE_STREAMS: u64 = 4 << 32;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No connection at the start.
    #[error("cannot connect to {target}")]
    Connect {
        /// The target.
        target: String,
        /// Why.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("the generator failed")]
    System(#[from] io::Error),
    /// The plan has a request that the target's protocol cannot carry.
    #[error("type `{type_name}` cannot be sent to {target}")]
    Mismatch {
        /// The type.
        type_name: String,
        /// The target.
        target: String,
    },
    /// The clients of a closed loop share types whose rates are all 0.
    #[error("no type has a rate above 0")]
    NoWeights,
}

/// What a run measured.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// One record for each type of the plan, in its order.
    pub records: Vec<TypeRecord>,
    /// When the measured part began.
    pub measured_from: SystemTime,
    /// Length of the measured part: the plan's, or less after an interruption.
    pub measured: Duration,
    /// How much of it the machine stood still; `None` when nobody watched.
    pub stalled: Option<Duration>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
}

/// What may happen while a run goes on.
pub trait Observer {
    /// Called once all connections are open, with the time at which the measurement begins.
    fn started(&mut self, _measured_from: SystemTime) {}

    /// Called with each interval of each type, about a second after its end.
    fn interval(&mut self, _interval: &Interval) {}

    /// Called about every second with the counters of each type, in the plan's order. `elapsed`
    /// counts from the first intended send time.
    fn second(&mut self, elapsed: Duration, counters: &[Arc<LiveCounters>]);
}

/// An observer that looks away.
impl Observer for () {
    fn second(&mut self, _elapsed: Duration, _counters: &[Arc<LiveCounters>]) {}
}

/// Runs `plan` to its end, or until `stop` is set.
///
/// # Errors
/// When the target cannot be reached at the start or the system refuses sockets or threads. What
/// goes wrong later is counted in the records.
pub fn run(
    plan: &RunPlan,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let end_ns = saturating_ns(plan.warmup.saturating_add(plan.duration));
    let live: Vec<_> = plan.types.iter().map(|_| Arc::default()).collect();
    let mut collector = IntervalCollector::default();
    let mut intervals: Vec<_> = plan
        .types
        .iter()
        .map(|_| Some(collector.add_type(saturating_ns(plan.warmup))))
        .collect();
    let mut prepared = Vec::new();
    // Clients that send requests of all types are on one thread.
    let is_shared =
        matches!(plan.pacing, Pacing::Closed(closed) if !closed.per_type) || plan.has_one_link();
    for class in [ThreadClass::Fast, ThreadClass::Slow] {
        let indices: Vec<usize> = (0..plan.types.len())
            .filter(|&index| {
                let thread = plan.types[index].thread;
                class == if is_shared { ThreadClass::Fast } else { thread }
            })
            .collect();
        if !indices.is_empty() {
            prepared.push(Generator::prepare(
                plan,
                class,
                indices,
                &live,
                &mut intervals,
                end_ns,
            )?);
        }
    }
    let witnesses = plan.calm.then(Witnesses::start).transpose()?;
    let origin = Instant::now() + START_DELAY;
    let measured_from = SystemTime::now() + START_DELAY + plan.warmup;
    observer.started(measured_from);
    let clock = RunClock::starting_at(origin);
    let (done, finished) = mpsc::channel();
    let mut threads = Vec::new();
    for generator in prepared {
        let done = done.clone();
        let stop = Arc::clone(stop);
        let slow_nice = plan.slow_nice;
        let run = move || {
            let outcome = generator.run(clock, slow_nice, &stop);
            // The receiver outlives all threads.
            let _ = done.send(());
            outcome
        };
        threads.push(
            thread::Builder::new()
                .name("generator".to_owned())
                .spawn(run)?,
        );
    }
    drop(done);
    watch(&finished, origin, observer, &live, &mut collector);
    let stalls = witnesses.map(Witnesses::stop);
    let mut records = vec![TypeRecord::default(); plan.types.len()];
    for thread in threads {
        let outcome = thread
            .join()
            .map_err(|_| io::Error::other("a generator thread panicked"))??;
        for (index, (mut record, completions)) in outcome {
            if let (Some(completions), Some(stalls)) = (completions, &stalls) {
                record.find_calm(&completions, &clock, stalls);
            }
            records[index] = record;
        }
    }
    collector.collect(&mut |interval| observer.interval(interval));
    for (record, timeline) in records.iter_mut().zip(collector.into_timelines()) {
        record.timeline = timeline;
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let measured = if interrupted {
        let elapsed = origin.elapsed().saturating_sub(plan.warmup);
        elapsed.min(plan.duration)
    } else {
        plan.duration
    };
    let measured_from_ns = saturating_ns(plan.warmup);
    let (from, until) = (
        clock.at(measured_from_ns),
        clock.at(measured_from_ns + saturating_ns(measured)),
    );
    Ok(RunResult {
        records,
        measured_from,
        measured,
        stalled: stalls.map(|stalls| stalls.within(from, until)),
        interrupted,
    })
}

/// Calls the observer each second until all threads have finished.
fn watch(
    finished: &mpsc::Receiver<()>,
    origin: Instant,
    observer: &mut dyn Observer,
    live: &[Arc<LiveCounters>],
    collector: &mut IntervalCollector,
) {
    let second = Duration::from_secs(1);
    let mut next = origin + second;
    loop {
        match finished.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => {
                observer.second(origin.elapsed(), live);
                collector.collect(&mut |interval| observer.interval(interval));
                next += second;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
}

fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One thread's share of a run, connected and ready to start.
struct Generator {
    class: ThreadClass,
    /// Places of its types in the plan.
    indices: Vec<usize>,
    lane: AnyLane,
    pacer: Pacer,
    waiter: Waiter,
}

/// What makes the requests of the types at `indices` due.
fn pacer(plan: &RunPlan, indices: &[usize], end_ns: u64) -> Result<Pacer, RunError> {
    match &plan.pacing {
        Pacing::Drawn => {
            let schedules = indices.iter().map(|&index| {
                let ty = &plan.types[index];
                let starts_ns = |starts| saturating_ns(plan.warmup.saturating_add(starts));
                let phases = ty.phases.iter();
                let changes: Vec<_> = phases
                    .map(|phase| (starts_ns(phase.starts), phase.rate_rps))
                    .collect();
                let stream = index as u64;
                Schedule::changing(plan.arrivals, ty.rate_rps, &changes, plan.seed, stream)
            });
            Ok(Pacer::Drawn(Schedules::new(schedules.collect(), end_ns)))
        }
        Pacing::Trace(trace) => {
            let mut places = vec![None; plan.types.len()];
            for (place, &index) in indices.iter().enumerate() {
                places[index] = Some(place);
            }
            let wanted = indices.to_vec();
            let replay = trace.replay(plan.seed, move |index| wanted.contains(&index))?;
            Ok(Pacer::Recorded(Recorded::new(replay, places, end_ns)?))
        }
        Pacing::Closed(closed) => {
            let think_ns = saturating_ns(closed.think);
            let clients = if closed.per_type {
                Clients::of_each(indices.len(), closed.outstanding, think_ns, end_ns)
            } else {
                let weights = indices.iter().map(|&index| plan.types[index].rate_rps);
                let lot = Lot::new(weights).ok_or(RunError::NoWeights)?;
                Clients::of_all(lot, closed.outstanding, think_ns, end_ns, plan.seed)
            };
            Ok(Pacer::Closed(clients))
        }
    }
}

enum AnyLane {
    Stream(StreamLane),
    Psp(DatagramLane<PspExchange>),
    Memcached(DatagramLane<MemcachedExchange>),
}

impl Generator {
    fn prepare(
        plan: &RunPlan,
        class: ThreadClass,
        indices: Vec<usize>,
        live: &[Arc<LiveCounters>],
        intervals: &mut [Option<IntervalRecorder>],
        end_ns: u64,
    ) -> Result<Self, RunError> {
        let waiter = Waiter::new(plan.waiting)?;
        let pacer = pacer(plan, &indices, end_ns)?;
        let lane = AnyLane::connect(plan, &indices, live, intervals, end_ns, &waiter)?;
        Ok(Self {
            class,
            indices,
            lane,
            pacer,
            waiter,
        })
    }

    fn run(
        self,
        clock: RunClock,
        slow_nice: i32,
        stop: &AtomicBool,
    ) -> io::Result<Vec<(usize, Notes)>> {
        // The kernel may otherwise extend each sleep by 50 us.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        match self.class {
            // It would wait for others' slices to end otherwise, and each reply with it.
            ThreadClass::Fast => psp_server::shorten_slice(SLICE_US),
            ThreadClass::Slow => rustix::process::setpriority_process(None, slow_nice)?,
        }
        let Self {
            indices,
            lane,
            pacer,
            waiter,
            ..
        } = self;
        let records = match lane {
            AnyLane::Stream(lane) => drive(lane, pacer, &waiter, &clock, stop)?,
            AnyLane::Psp(lane) => drive(lane, pacer, &waiter, &clock, stop)?,
            AnyLane::Memcached(lane) => drive(lane, pacer, &waiter, &clock, stop)?,
        };
        Ok(indices.into_iter().zip(records).collect())
    }
}

impl AnyLane {
    fn connect(
        plan: &RunPlan,
        indices: &[usize],
        live: &[Arc<LiveCounters>],
        intervals: &mut [Option<IntervalRecorder>],
        end_ns: u64,
        waiter: &Waiter,
    ) -> Result<Self, RunError> {
        let measured_ns = saturating_ns(plan.warmup)..end_ns;
        let recorders = indices.iter().map(|&index| {
            let intervals = intervals[index].take();
            let intervals = intervals.expect("every type is on one thread");
            let completions = plan.calm.then(Completions::new);
            let live = Arc::clone(&live[index]);
            Recorder::new(measured_ns.clone(), live, intervals, completions)
        });
        let recorders: Vec<_> = recorders.collect();
        let rates_rps = indices
            .iter()
            .map(|&index| plan.types[index].rate_rps_max());
        let rate_rps: f64 = rates_rps.sum();
        let connected = match plan.target.protocol {
            Protocol::Redis
            | Protocol::Memcached
            | Protocol::MemcachedMeta
            | Protocol::Protobuf => {
                let setups = indices.iter().zip(recorders).map(|(&index, recorder)| {
                    Ok(StreamTypeSetup {
                        commands: commands(plan, index)?,
                        recorder,
                        connections: plan.types[index].connections,
                    })
                });
                let setups = setups.collect::<Result<_, RunError>>()?;
                StreamLane::connect(plan, setups, waiter).map(Self::Stream)
            }
            Protocol::MemcachedUdp => {
                let types = indices.iter().map(|&index| commands(plan, index));
                let exchange = MemcachedExchange::new(types.collect::<Result<_, _>>()?);
                DatagramLane::connect(plan, exchange, recorders, rate_rps, waiter)
                    .map(Self::Memcached)
            }
            Protocol::PspUdp => {
                let types = indices.iter().map(|&index| psp_type(plan, index));
                let exchange = PspExchange::new(types.collect::<Result<_, _>>()?);
                DatagramLane::connect(plan, exchange, recorders, rate_rps, waiter).map(Self::Psp)
            }
        };
        connected.map_err(|source| RunError::Connect {
            target: plan.target.to_string(),
            source,
        })
    }
}

/// The commands of the type at `index`.
fn commands(plan: &RunPlan, index: usize) -> Result<Commands, RunError> {
    Commands::new(plan, index).ok_or_else(|| mismatch(plan, index))
}

/// What the type at `index` asks psp servers for.
fn psp_type(plan: &RunPlan, index: usize) -> Result<PspType, RunError> {
    let ty = &plan.types[index];
    let RequestPlan::Synthetic {
        request_type,
        service,
    } = ty.request
    else {
        return Err(mismatch(plan, index));
    };
    let phases = ty.phases.iter().map(|phase| {
        let starts_ns = saturating_ns(plan.warmup.saturating_add(phase.starts));
        (starts_ns, phase.service.unwrap_or(service))
    });
    let stream = SERVICE_STREAMS + index as u64;
    Ok(PspType {
        request_type,
        services: Services::new(service, phases, plan.seed, stream),
    })
}

fn mismatch(plan: &RunPlan, index: usize) -> RunError {
    RunError::Mismatch {
        type_name: plan.types[index].name.clone(),
        target: plan.target.to_string(),
    }
}
