//! Runs a plan against a live target.
//!
//! ```text
//!   main ── spawns ──► fast thread   schedules ─► send ─► epoll ─► timestamp ─► histograms
//!     │                slow thread   the same at lower priority: rare types, big replies
//!     └─ live line ◄── counters of each type (relaxed atomics, never waited for)
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use super::error::RunError;
use super::generator::{Generator, saturating_ns};
use crate::record::{Interval, IntervalCollector, LiveCounters, RunClock, TypeRecord, Witnesses};
use crate::schedule::{Pacing, RunPlan, ThreadClass};

/// Time between the last connect and the first intended send time, in which threads start.
const START_DELAY: Duration = Duration::from_millis(20);

/// The results of a run.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// One record for each type of the plan, in its order.
    pub records: Vec<TypeRecord>,
    /// When the measured part began.
    pub measured_from: SystemTime,
    /// Length of the measured part: the plan's, or less after an interruption.
    pub measured: Duration,
    /// How much of it the machine was stalled; `None` without witnesses.
    pub stalled: Option<Duration>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
}

/// Follows a run.
pub trait Observer {
    /// Called once all connections are open, with the time at which the measurement begins.
    fn started(&mut self, _measured_from: SystemTime) {}

    /// Called when nothing can watch for stalls, which the plan asks for. The run goes on without.
    fn unwatched(&mut self, _reason: &io::Error) {}

    /// Called with each interval of each type, about a second after its end.
    fn interval(&mut self, _interval: &Interval) {}

    /// Called about every second with the counters of each type, in the plan's order. `elapsed`
    /// counts from the first intended send time.
    fn second(&mut self, elapsed: Duration, counters: &[Arc<LiveCounters>]);
}

/// An observer that ignores everything.
impl Observer for () {
    fn second(&mut self, _elapsed: Duration, _counters: &[Arc<LiveCounters>]) {}
}

/// Runs `plan` to its end, or until `stop` is set.
///
/// # Errors
/// When the target cannot be reached at the start, or the system refuses sockets or threads. Later
/// failures are counted in the records.
pub fn run(plan: &RunPlan, stop: &Arc<AtomicBool>, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    let end_ns = saturating_ns(plan.warmup.saturating_add(plan.duration));
    let live: Vec<_> = plan.types.iter().map(|_| Arc::default()).collect();
    let mut collector = IntervalCollector::default();
    let mut intervals: Vec<_> =
        plan.types.iter().map(|_| Some(collector.add_type(saturating_ns(plan.warmup)))).collect();
    let mut prepared = Vec::new();
    for (class, indices) in types_of_threads(plan) {
        prepared.push(Generator::prepare(plan, class, indices, &live, &mut intervals, end_ns)?);
    }
    let witnesses = plan.calm.then(Witnesses::start);
    let witnesses = witnesses.and_then(|started| started.inspect_err(|error| observer.unwatched(error)).ok());
    let origin = Instant::now() + START_DELAY;
    let measured_from = SystemTime::now() + START_DELAY + plan.warmup;
    observer.started(measured_from);
    let clock = RunClock::starting_at(origin);
    let (done, finished) = mpsc::channel();
    let mut threads = Vec::new();
    for generator in prepared {
        let (done, stop, slow_nice) = (done.clone(), Arc::clone(stop), plan.slow_nice);
        let run = move || {
            let outcome = generator.run(clock, slow_nice, &stop);
            // The receiver outlives all threads.
            let _ = done.send(());
            outcome
        };
        threads.push(thread::Builder::new().name("generator".to_owned()).spawn(run)?);
    }
    drop(done);
    watch(&finished, origin, observer, &live, &mut collector);
    let stalls = witnesses.map(Witnesses::stop);
    let mut records = vec![TypeRecord::default(); plan.types.len()];
    for thread in threads {
        let outcome = thread.join().map_err(|_| io::Error::other("a generator thread panicked"))??;
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
    let measured = match interrupted {
        true => origin.elapsed().saturating_sub(plan.warmup).min(plan.duration),
        false => plan.duration,
    };
    let from_ns = saturating_ns(plan.warmup);
    let (from, until) = (clock.at(from_ns), clock.at(from_ns + saturating_ns(measured)));
    Ok(RunResult {
        records,
        measured_from,
        measured,
        stalled: stalls.map(|stalls| stalls.within(from, until)),
        interrupted,
    })
}

/// The threads that are needed, and the indices of their types.
fn types_of_threads(plan: &RunPlan) -> impl Iterator<Item = (ThreadClass, Vec<usize>)> {
    // Clients that send requests of all types need one thread.
    let is_shared = matches!(plan.pacing, Pacing::Closed(closed) if !closed.per_type) || plan.has_one_link();
    let threads = [ThreadClass::Fast, ThreadClass::Slow].map(|class| {
        let is_here = |&index: &usize| {
            class
                == if is_shared {
                    ThreadClass::Fast
                } else {
                    plan.types[index].thread
                }
        };
        (class, (0..plan.types.len()).filter(is_here).collect::<Vec<_>>())
    });
    threads.into_iter().filter(|(_, indices)| !indices.is_empty())
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
