//! `stats psp`: the scheduler's figures. Empty if no server runs.

use std::time::Duration;

use psp_server::ServerHandle;
use psp_server::telemetry::{TypeSnapshot, WorkerSnapshot};

use super::{Put, put_all};

pub(super) fn write(runtime: Option<&ServerHandle>, put: &mut Put<'_>) {
    let Some(runtime) = runtime else {
        return;
    };
    let snapshot = runtime.counters();
    let (elastic, arbiter) = (&snapshot.elastic, &snapshot.arbiter);
    put_all(
        put,
        "",
        &[
            ("policy", &runtime.policy()),
            ("topology", &runtime.topology()),
            ("workers", &runtime.workers()),
            ("workers_min", &runtime.workers_min()),
            ("workers_present", &elastic.present),
            ("workers_came", &elastic.came),
            ("workers_went", &elastic.went),
            ("arbiter_registered", &arbiter.registered),
            ("arbiter_cores", &arbiter.cores),
            ("arbiter_cores_wanted", &arbiter.wanted),
            ("arbiter_grants", &arbiter.grants),
            ("arbiter_recalls", &arbiter.recalls),
            ("arbiter_takings", &arbiter.takings),
            ("reservation_updates", &snapshot.reservation_updates),
            ("buffered_bytes", &snapshot.net.buffered_bytes),
            ("malformed_requests", &snapshot.net.malformed),
            ("reflected_datagrams", &snapshot.net.datagrams_reflected),
            ("over_budget_datagrams", &snapshot.net.datagrams_over_budget),
            ("timed_out_connections", &snapshot.net.connections_timed_out),
        ],
    );
    for ty in &snapshot.types {
        write_type(ty, put);
    }
    for (index, worker) in snapshot.workers.iter().enumerate() {
        write_worker(index, worker, put);
    }
}

fn write_type(ty: &TypeSnapshot, put: &mut Put<'_>) {
    let mean_us = us(ty.service_ns_total / ty.completions.max(1));
    let wait_mean_us = us(ty.waits.wait_ns_total / ty.waits.ended().max(1));
    put_all(
        put,
        &format!("type:{}:", ty.name),
        &[
            ("arrivals", &ty.arrivals),
            ("completions", &ty.completions),
            ("held", &ty.held),
            ("rejections", &ty.rejections),
            ("abandoned", &ty.abandoned),
            ("expired", &ty.expired),
            ("queued", &ty.queued),
            ("service_us_mean", &mean_us),
            ("service_us_max", &us(ty.service_ns_max)),
            ("service_us_profiled", &us(ty.service_ns_profiled)),
            ("workers_reserved", &ty.workers_reserved),
            ("steals", &ty.steals),
            ("blocked", &ty.waits.blocked),
            ("waits", &ty.waits.waits),
            ("wait_us_mean", &wait_mean_us),
        ],
    );
}

fn write_worker(index: usize, worker: &WorkerSnapshot, put: &mut Put<'_>) {
    put_all(
        put,
        &format!("worker:{index}:"),
        &[
            ("completions", &worker.completions),
            ("busy_us", &us(worker.service_ns_total)),
            ("panics", &worker.panics),
            ("bytes_sent", &worker.bytes_sent),
        ],
    );
}

fn us(ns: u64) -> String {
    format!("{:.3}", Duration::from_nanos(ns).as_secs_f64() * 1e6)
}
