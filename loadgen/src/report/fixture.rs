//! A report for tests.

use crate::record::IntervalCollector;
use crate::schedule::RunPlan;
use std::time::{Duration, SystemTime};

use psp_sim::workload::Distribution;

use super::run_report::Report;
use crate::clients::RunResult;
use crate::record::TypeRecord;
use crate::schedule::{RequestPlan, ServicePlan, TypePlan};
use crate::wire::Target;

fn ty(name: &str, rate_rps: f64) -> TypePlan {
    let service = ServicePlan {
        mean_ns: 1_000,
        distribution: Distribution::Fixed,
        wait_ns: 0,
    };
    let request = RequestPlan::Synthetic { request_type: 0, service };
    TypePlan::new(name, rate_rps, request)
}

/// Ten seconds with 100 `GET`s: 90 completed after 1 us to 90 us, 6 errors, 4 timeouts. No
/// request of `odd.name` was due.
pub(crate) fn report() -> Report {
    let target: Target = "psp://127.0.0.1:9".parse().unwrap();
    let plan = RunPlan {
        seed: 7,
        warmup: Duration::ZERO,
        ..RunPlan::new(target, vec![ty("GET", 10.0), ty("odd.name", 0.0)])
    };
    let mut collector = IntervalCollector::default();
    let mut intervals = collector.add_type(0);
    let mut record = TypeRecord {
        scheduled: 100,
        sent: 100,
        sent_in_time: 100,
        completed: 90,
        completed_within: 90,
        timeouts: 4,
        ..TypeRecord::default()
    };
    record.errors.add("BUSY", 6);
    for index in 1..=90 {
        record.latency_ns.record(index * 1_000).unwrap();
        record.lag_ns.record(index * 20).unwrap();
        record.slowdown.record(index * 1_000).unwrap();
        intervals.completed(index * 100_000_000, index * 1_000);
    }
    intervals.finish();
    collector.collect(&mut |_| {});
    record.timeline = collector.into_timelines().swap_remove(0);
    let result = RunResult {
        records: vec![record, TypeRecord::default()],
        measured_from: SystemTime::UNIX_EPOCH,
        measured: Duration::from_secs(10),
        stalled: None,
        interrupted: false,
    };
    Report::new(&plan, &result)
}
