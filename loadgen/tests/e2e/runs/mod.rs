//! Plans of short runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use psp_loadgen::clients;
use psp_loadgen::clients::RunResult;
use psp_loadgen::record::TypeRecord;
use psp_loadgen::schedule::{RequestPlan, RunPlan, ServicePlan, ThreadClass, TypePlan, Waiting};
use psp_loadgen::wire::{CommandTemplate, Protocol, Target};
use psp_sim::keys::Keyspace;
use psp_sim::workload::{ArrivalProcess, Distribution};

pub(crate) fn target(scheme: &str, addr: SocketAddr) -> Target {
    format!("{scheme}://{addr}").parse().unwrap()
}

/// Half a second of uniform arrivals. Each test changes the settings that it tests.
pub(crate) fn plan(target: Target, types: Vec<TypePlan>) -> RunPlan {
    RunPlan {
        arrivals: ArrivalProcess::Uniform,
        warmup: Duration::ZERO,
        duration: Duration::from_millis(500),
        timeout: Duration::from_secs(10),
        keyspace: Keyspace::new(100, 8),
        waiting: Waiting::SleepThenSpin(Duration::ZERO),
        slow_nice: 0,
        ..RunPlan::new(target, types)
    }
}

pub(crate) fn command(text: &str, rate_rps: f64, thread: ThreadClass) -> TypePlan {
    let request = RequestPlan::Command(CommandTemplate::for_protocol(text, Protocol::Redis).unwrap());
    TypePlan {
        connections: 4,
        thread,
        ..TypePlan::new(text, rate_rps, request)
    }
}

pub(crate) fn synthetic(name: &str, request_type: u16, mean_ns: u32) -> TypePlan {
    let service = ServicePlan { mean_ns, distribution: Distribution::Fixed, wait_ns: 0 };
    let request = RequestPlan::Synthetic { request_type, service };
    TypePlan::new(name, 400.0, request)
}

pub(crate) fn run(plan: &RunPlan) -> RunResult {
    clients::run(plan, &Arc::default(), &mut ()).unwrap()
}

pub(crate) fn assert_every_arrival_ends_once(record: &TypeRecord) {
    let ends = record.completed + record.errors.total() + record.timeouts + record.dropped + record.unfinished;
    assert_eq!(record.scheduled, ends);
    assert_eq!(record.completed, record.latency_ns.len());
}
