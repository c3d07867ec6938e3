//! The report of a run against a live server.

use std::time::SystemTime;

use super::client::Client;
use super::run_report::{ClosedLoopReport, Mode, Report, SCHEMA, SCHEMA_VERSION, TraceReport, TypeReport};
use super::summary::{Offers, Summary};
use crate::clients::RunResult;
use crate::record::TypeRecord;
use crate::schedule::{Pacing, RunPlan, ThreadClass};

impl Report {
    /// Combines a plan and its result.
    #[must_use]
    pub fn new(plan: &RunPlan, result: &RunResult) -> Self {
        let duration_s = result.measured.as_secs_f64();
        let dilation = plan.dilation.max(1);
        let mut total = TypeRecord::default();
        let offers = Offers { pacing: &plan.pacing, duration_s, dilation };
        let types = plan.types.iter().zip(&result.records).map(|(ty, record)| {
            total.add(record);
            let rate_rps = ty.rate_rps_mean(result.measured);
            TypeReport {
                name: ty.name.clone(),
                slow_thread: ty.thread == ThreadClass::Slow,
                connections: if plan.target.protocol.is_datagram() {
                    0
                } else {
                    ty.connections
                },
                service_us: ty.service_ns().map(|service_ns| f64::from(service_ns) / f64::from(dilation) / 1e3),
                summary: Summary::new(record, rate_rps, ty.service_ns().is_some(), &offers),
                timeline: record.timeline.clone(),
            }
        });
        let types: Vec<_> = types.collect();
        let rates = plan.types.iter().map(|ty| ty.rate_rps_mean(result.measured));
        let slowdown_known = plan.types.iter().all(|ty| ty.service_ns().is_some());
        let overall = Summary::new(&total, rates.sum(), slowdown_known, &offers);
        let (closed_loop, trace) = pacing_reports(&plan.pacing);
        let started = result.measured_from.duration_since(SystemTime::UNIX_EPOCH);
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            target: plan.target.to_string(),
            mode: if closed_loop.is_some() {
                Mode::Closed
            } else {
                Mode::Open
            },
            arrivals: plan.arrivals,
            closed_loop,
            trace,
            simulation: None,
            seed: plan.seed,
            started_unix_s: started.unwrap_or_default().as_secs_f64(),
            client: Client::new(plan),
            warmup_s: plan.warmup.as_secs_f64(),
            duration_s,
            stalled_share: result.stalled.map(|stalled| stalled.as_secs_f64() / duration_s.max(f64::MIN_POSITIVE)),
            interrupted: result.interrupted,
            dilation,
            overall,
            types,
            warnings: Vec::new(),
        };
        report.warnings = report.reasons_to_doubt();
        report.warnings.extend(warnings_of_plan(plan));
        report
    }
}

fn warnings_of_plan(plan: &RunPlan) -> Vec<String> {
    let mut warnings = match &plan.pacing {
        Pacing::Trace(trace) => trace.warnings().to_vec(),
        Pacing::Drawn | Pacing::Closed(_) => Vec::new(),
    };
    if plan.ramp > plan.warmup {
        let ramp_s = plan.ramp.as_secs_f64();
        warnings.push(format!(
            "connections were opened over {ramp_s:.1} s, which reaches into the measured part"
        ));
    }
    warnings
}

/// What is told of closed loops, and of traces.
fn pacing_reports(pacing: &Pacing) -> (Option<ClosedLoopReport>, Option<TraceReport>) {
    match pacing {
        Pacing::Drawn => (None, None),
        Pacing::Closed(closed) => {
            let closed_loop = ClosedLoopReport {
                outstanding: closed.outstanding,
                per_type: closed.per_type,
                think_us: closed.think.as_secs_f64() * 1e6,
            };
            (Some(closed_loop), None)
        }
        Pacing::Trace(trace) => {
            let file = trace.path().display().to_string();
            (None, Some(TraceReport { file, speed: trace.speed() }))
        }
    }
}
