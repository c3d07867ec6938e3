//! Reasons to doubt the figures of a run.

use psp_sim::text::number;

use super::run_report::{Mode, Report};

/// Above this ratio of the generator's p99 lag to a type's p99 latency, the generator may have
/// shaped the latency.
const LAG_SHARE_MAX: f64 = 0.2;

impl Report {
    /// Reasons to doubt the figures.
    pub(crate) fn reasons_to_doubt(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.mode == Mode::Closed {
            reasons.push(
                "closed loop: requests that a slow server delayed before their send are missing from the \
                 percentiles; compare them with those of closed loops alone"
                    .to_owned(),
            );
        }
        for ty in &self.types {
            let (name, summary) = (&ty.name, &ty.summary);
            if let (Some(lag), Some(latency)) = (summary.lag_us, summary.latency_us)
                && lag.p99 > latency.p99 * LAG_SHARE_MAX
            {
                let (lag, latency) = (lag.p99, latency.p99);
                reasons.push(format!(
                    "{name}: the generator was late by {} us at p99, {:.0} % of the measured {} us; \
                     the latency is partly its own (try --busy-poll, a lower rate or a free core)",
                    number(lag),
                    lag / latency * 100.0,
                    number(latency),
                ));
            }
            if summary.held_back > 0 {
                reasons.push(format!(
                    "{name}: {} of {} requests waited while the generator let connections rest that had \
                     failed; the latency is partly its own",
                    summary.held_back, summary.scheduled,
                ));
            }
            let failed = summary.failed();
            if summary.is_flattering() {
                reasons.push(format!(
                    "{name}: {failed} of {} requests failed and have no latency; the percentiles \
                     flatter the server",
                    summary.scheduled,
                ));
            }
            if summary.rate_kept == Some(false) && !self.interrupted {
                let in_time = summary.sent_in_time;
                reasons.push(format!(
                    "{name}: the offered rate was not kept: {in_time} of {} requests were sent in \
                     time ({:.1} %), {} later, {} never",
                    summary.scheduled,
                    in_time as f64 / summary.scheduled as f64 * 100.0,
                    summary.sent - in_time,
                    summary.scheduled.saturating_sub(summary.sent),
                ));
            }
        }
        if self.interrupted {
            reasons.push(format!("interrupted after {:.1} s of measurement", self.duration_s));
        }
        reasons
    }
}
