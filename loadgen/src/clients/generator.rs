//! One thread of a run: its connections, its pacer, and its loop.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use psp_sim::random::WeightedChoice;
use psp_sim::workload::Schedule;

use super::closed_loop::Clients;
use super::commands::Commands;
use super::drive::drive;
use super::error::RunError;
use super::pacer::{Pacer, Recorded, Schedules};
use super::services::Services;
use super::stream::{StreamLane, StreamTypeSetup};
use super::waiter::Waiter;
use crate::clients::datagram::lane::DatagramLane;
use crate::clients::datagram::memcached::MemcachedExchange;
use crate::clients::datagram::psp::{PspExchange, PspType};
use crate::record::{Completions, IntervalRecorder, LiveCounters, Notes, Recorder, RunClock};
use crate::schedule::{Pacing, RequestPlan, RunPlan, ThreadClass};
use crate::wire::Protocol;

/// Scheduling slice of a thread of fast types.
const SLICE_US: u64 = 100;

/// Random streams of a seed. Service times have streams apart from arrivals and keys.
const SERVICE_STREAMS: u64 = 4 << 32;

pub(super) fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One thread of a run, connected and ready to start.
pub(super) struct Generator {
    class: ThreadClass,
    /// Indices of its types in the plan.
    indices: Vec<usize>,
    lane: AnyLane,
    pacer: Pacer,
    waiter: Waiter,
}

/// The pacer of the types at `indices`.
fn pacer(plan: &RunPlan, indices: &[usize], end_ns: u64) -> Result<Pacer, RunError> {
    match &plan.pacing {
        Pacing::Drawn => {
            let schedules = indices.iter().map(|&index| {
                let ty = &plan.types[index];
                let starts_ns = |starts| saturating_ns(plan.warmup.saturating_add(starts));
                let phases = ty.phases.iter();
                let changes: Vec<_> = phases.map(|phase| (starts_ns(phase.starts), phase.rate_rps)).collect();
                let stream = index as u64;
                Schedule::changing(plan.arrivals, ty.rate_rps, &changes, plan.seed, stream)
            });
            Ok(Pacer::Drawn(Schedules::new(schedules.collect(), end_ns)))
        }
        Pacing::Trace(trace) => {
            let mut positions = vec![None; plan.types.len()];
            for (position, &index) in indices.iter().enumerate() {
                positions[index] = Some(position);
            }
            let wanted = indices.to_vec();
            let wanted = move |index| wanted.contains(&index);
            let replay = trace.replay(plan.arrivals, plan.seed, wanted)?;
            Ok(Pacer::Recorded(Recorded::new(replay, positions, end_ns)?))
        }
        Pacing::Closed(closed) => {
            let think_ns = saturating_ns(closed.think);
            let clients = if closed.per_type {
                Clients::of_each(indices.len(), closed.outstanding, think_ns, end_ns)
            } else {
                let weights = indices.iter().map(|&index| plan.types[index].rate_rps);
                let choice = WeightedChoice::new(weights).ok_or(RunError::NoWeights)?;
                Clients::of_all(choice, closed.outstanding, think_ns, end_ns, plan.seed)
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
    pub(super) fn prepare(
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
        Ok(Self { class, indices, lane, pacer, waiter })
    }

    pub(super) fn run(self, clock: RunClock, slow_nice: i32, stop: &AtomicBool) -> io::Result<Vec<(usize, Notes)>> {
        // The kernel may otherwise extend each sleep by 50 us.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        match self.class {
            // With a long slice the thread would wait for the slices of other threads to end, and
            // each reply with it.
            ThreadClass::Fast => psp_server::internal::shorten_slice(SLICE_US),
            ThreadClass::Slow => rustix::process::setpriority_process(None, slow_nice)?,
        }
        let Self { indices, lane, pacer, waiter, .. } = self;
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
        let rates_rps = indices.iter().map(|&index| plan.types[index].rate_rps_max());
        let rate_rps: f64 = rates_rps.sum();
        let connected = match plan.target.protocol {
            Protocol::Redis
            | Protocol::Memcached
            | Protocol::MemcachedMeta
            | Protocol::Protobuf
            | Protocol::Wire(_) => {
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
                DatagramLane::connect(plan, exchange, recorders, rate_rps, waiter).map(Self::Memcached)
            }
            Protocol::PspUdp => {
                let types = indices.iter().map(|&index| psp_type(plan, index));
                let exchange = PspExchange::new(types.collect::<Result<_, _>>()?);
                DatagramLane::connect(plan, exchange, recorders, rate_rps, waiter).map(Self::Psp)
            }
        };
        connected.map_err(|source| RunError::Connect { target: plan.target.to_string(), source })
    }
}

/// The commands of the type at `index`.
fn commands(plan: &RunPlan, index: usize) -> Result<Commands, RunError> {
    Commands::new(plan, index).ok_or_else(|| mismatch(plan, index))
}

/// The psp requests of the type at `index`.
fn psp_type(plan: &RunPlan, index: usize) -> Result<PspType, RunError> {
    let ty = &plan.types[index];
    let RequestPlan::Synthetic { request_type, service } = ty.request else {
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
