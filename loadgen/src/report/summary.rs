//! Counts and percentiles of one type or of all.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use psp_sim::measure::{CurvePoint, Percentiles, SLOWDOWN_STEPS, curve};
use serde::{Deserialize, Serialize};

use crate::record::TypeRecord;
use crate::schedule::Pacing;

/// Above this share of requests without a latency, percentiles may flatter the server.
const FAILED_SHARE_MAX: f64 = 1e-3;

/// Share of the scheduled requests that may be late or unsent while the run still counts as having
/// kept its rate. One such request is always allowed.
const RATE_SHORTFALL_MAX: f64 = 0.01;

/// Counts and percentiles of one type or of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Planned rate in requests per second. For a trace or a closed loop: the rate that came about.
    pub offered_rps: f64,
    /// Requests per second that were sent before the measured part ended.
    #[serde(default)]
    pub sent_rps: f64,
    /// Whether at least 99 % of the scheduled requests were sent before the measured part ended.
    /// Absent for a closed loop, which has no planned rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_kept: Option<bool>,
    /// Replies without an error per second of the measured part, counted when they arrive. Replies
    /// to requests of the warm-up count, replies after the end do not.
    pub achieved_rps: f64,
    /// Arrivals of the schedule. Each ends in one of the counts below.
    pub scheduled: u64,
    /// Requests given to the operating system.
    pub sent: u64,
    /// Requests sent before the measured part ended.
    #[serde(default)]
    pub sent_in_time: u64,
    /// Requests with a reply that is not an error.
    pub completed: u64,
    /// Replies without an error that came during the measured part.
    #[serde(default)]
    pub completed_within: u64,
    /// Requests with an error reply, or lost with their connection, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Requests not sent because too many were outstanding.
    pub dropped: u64,
    /// Requests given up without a reply.
    pub timeouts: u64,
    /// Requests without a reply when the run was interrupted.
    pub unfinished: u64,
    /// Requests that waited in the generator for a free connection.
    pub queued: u64,
    /// Requests that waited while the generator let a connection rest after a failure: their latency
    /// is partly its own.
    #[serde(default)]
    pub held_back: u64,
    /// Times a connection was opened again.
    pub reconnects: u64,
    /// Found keys; absent if replies do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Keys that were not found; absent like `hits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Intended send time to last byte of the reply, in microseconds; absent when none completed.
    pub latency_us: Option<Percentiles>,
    /// The same divided by the dilation; absent without dilation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_undilated_us: Option<Percentiles>,
    /// Latency of calm requests, which no stall of the generator's machine overlapped, in
    /// microseconds; absent without witnesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm_latency_us: Option<Percentiles>,
    /// Number of calm requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm: Option<u64>,
    /// Latency divided by the service time; absent if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Percentiles>,
    /// How late the generator itself was, in microseconds. This is part of the latency. Absent if
    /// no request was due.
    pub lag_us: Option<Percentiles>,
    /// The percentile curve of the latency, in microseconds.
    pub latency_curve_us: Vec<CurvePoint>,
}

impl Summary {
    /// `drawn_rps` is the planned rate if arrivals are drawn.
    pub(crate) fn new(record: &TypeRecord, drawn_rps: f64, has_slowdown: bool, offers: &Offers<'_>) -> Self {
        let Offers { pacing, duration_s, dilation } = *offers;
        let latency = |unit| Percentiles::of(&record.latency_ns, unit);
        let per_second = |count: u64| {
            if duration_s > 0.0 {
                count as f64 / duration_s
            } else {
                0.0
            }
        };
        let late = record.scheduled.saturating_sub(record.sent_in_time) as f64;
        let looked_up = record.hits + record.misses > 0;
        let late_max = (record.scheduled as f64 * RATE_SHORTFALL_MAX).max(1.0);
        Self {
            offered_rps: match pacing {
                Pacing::Drawn => drawn_rps,
                Pacing::Trace(_) | Pacing::Closed(_) => per_second(record.scheduled),
            },
            sent_rps: per_second(record.sent_in_time),
            rate_kept: match pacing {
                Pacing::Drawn | Pacing::Trace(_) => Some(late <= late_max),
                Pacing::Closed(_) => None,
            },
            achieved_rps: per_second(record.completed_within),
            scheduled: record.scheduled,
            sent: record.sent,
            sent_in_time: record.sent_in_time,
            completed: record.completed,
            completed_within: record.completed_within,
            errors: record.errors.iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
            dropped: record.dropped,
            timeouts: record.timeouts,
            unfinished: record.unfinished,
            queued: record.queued,
            held_back: record.held_back,
            reconnects: record.reconnects,
            hits: looked_up.then_some(record.hits),
            misses: looked_up.then_some(record.misses),
            latency_us: latency(1e3),
            latency_undilated_us: (dilation > 1).then(|| latency(1e3 * f64::from(dilation))).flatten(),
            calm_latency_us: record.calm_latency_ns.as_ref().and_then(|calm_ns| Percentiles::of(calm_ns, 1e3)),
            calm: record.calm_latency_ns.as_ref().map(Histogram::len),
            slowdown: has_slowdown.then(|| Percentiles::of(&record.slowdown, SLOWDOWN_STEPS)).flatten(),
            lag_us: Percentiles::of(&record.lag_ns, 1e3),
            latency_curve_us: curve(&record.latency_ns, 1e3),
        }
    }

    /// Whether so many requests failed that the percentiles flatter the server.
    pub(crate) fn is_flattering(&self) -> bool {
        self.failed() as f64 > self.scheduled as f64 * FAILED_SHARE_MAX
    }

    /// The latency that tells most about the server: of calm requests if there are witnesses.
    #[must_use]
    pub fn telling_us(&self) -> Option<Percentiles> {
        self.calm_latency_us.or(self.latency_us)
    }

    /// Requests that were due and failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum::<u64>() + self.dropped + self.timeouts
    }
}

/// Settings that all summaries of a run share.
pub(crate) struct Offers<'a> {
    pub(crate) pacing: &'a Pacing,
    pub(crate) duration_s: f64,
    pub(crate) dilation: u32,
}
