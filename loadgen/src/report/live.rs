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
        let mut types = Vec::new();
        let offers = Offers { pacing: &plan.pacing, duration_s, dilation };
        for (ty, record) in plan.types.iter().zip(&result.records) {
            total.add(record);
            let slowdown_known = ty.service_ns().is_some();
            let rate_rps = ty.rate_rps_mean(result.measured);
            types.push(TypeReport {
                name: ty.name.clone(),
                slow_thread: ty.thread == ThreadClass::Slow,
                connections: if plan.target.protocol.is_datagram() {
                    0
                } else {
                    ty.connections
                },
                service_us: ty.service_ns().map(|service_ns| f64::from(service_ns) / f64::from(dilation) / 1e3),
                summary: Summary::new(record, rate_rps, slowdown_known, &offers),
                timeline: record.timeline.clone(),
            });
        }
        let rates = plan.types.iter().map(|ty| ty.rate_rps_mean(result.measured));
        let slowdown_known = plan.types.iter().all(|ty| ty.service_ns().is_some());
        let overall = Summary::new(&total, rates.sum(), slowdown_known, &offers);
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            target: plan.target.to_string(),
            mode: match plan.pacing {
                Pacing::Drawn | Pacing::Trace(_) => Mode::Open,
                Pacing::Closed(_) => Mode::Closed,
            },
            arrivals: plan.arrivals,
            closed_loop: match plan.pacing {
                Pacing::Closed(closed) => Some(ClosedLoopReport {
                    outstanding: closed.outstanding,
                    per_type: closed.per_type,
                    think_us: closed.think.as_secs_f64() * 1e6,
                }),
                Pacing::Drawn | Pacing::Trace(_) => None,
            },
            trace: match &plan.pacing {
                Pacing::Trace(trace) => Some(TraceReport {
                    file: trace.path().display().to_string(),
                    speed: trace.speed(),
                }),
                Pacing::Drawn | Pacing::Closed(_) => None,
            },
            simulation: None,
            seed: plan.seed,
            started_unix_s: result
                .measured_from
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
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
        if let Pacing::Trace(trace) = &plan.pacing {
            report.warnings.extend_from_slice(trace.warnings());
        }
        if plan.ramp > plan.warmup {
            report.warnings.push(format!(
                "connections were opened over {:.1} s, which reaches into the measured part",
                plan.ramp.as_secs_f64()
            ));
        }
        report
    }
}
