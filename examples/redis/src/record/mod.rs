//! What the server records of the commands that have run.
//!
//! ```text
//!   command ends ─► ended ─┬─► counters, histogram, errors of the worker ── INFO, LATENCY HISTOGRAM
//!                          ├── at least slowlog-log-slower-than ─► slow log ── SLOWLOG
//!                          └── at least latency-monitor-threshold ─► series ── LATENCY
//! ```
//!
//! A command that is not slow writes to its worker's counters alone, and compares its time with two thresholds.
//!
//! | file | job |
//! | --- | --- |
//! | `histogram.rs` | service times of one command |
//! | `slow_log.rs` | commands that were slow |
//! | `latency.rs` | how slow, second by second |
//! | `redacted.rs` | arguments without secrets |

mod histogram;
mod latency;
mod redacted;
mod slow_log;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

pub use histogram::{Histogram, Times};
pub use latency::{Latency, Sample, Series};
pub(crate) use redacted::redacted;
pub use slow_log::{SlowCommand, SlowLog};

use crate::client::ClientInfo;
use crate::command::{CommandTable, Flag};
use crate::error::CommandError;
use crate::stats::WorkerStats;

/// What is recorded, and how.
#[derive(Debug)]
pub struct Records {
    /// Commands that were slow.
    pub slow_log: SlowLog,
    /// How slow they were.
    pub latency: Latency,
    keeps_histograms: AtomicBool,
    percentiles: RwLock<Vec<f64>>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            slow_log: SlowLog::default(),
            latency: Latency::default(),
            keeps_histograms: AtomicBool::new(true),
            percentiles: RwLock::new(vec![50.0, 99.0, 99.9]),
        }
    }
}

impl Records {
    /// `latency-tracking`.
    #[inline]
    #[must_use]
    pub fn keeps_histograms(&self) -> bool {
        self.keeps_histograms.load(Ordering::Relaxed)
    }

    /// Sets `latency-tracking`.
    pub fn set_keeps_histograms(&self, keeps: bool) {
        self.keeps_histograms.store(keeps, Ordering::Relaxed);
    }

    /// `latency-tracking-info-percentiles`.
    #[must_use]
    pub fn percentiles(&self) -> Vec<f64> {
        self.percentiles.read().clone()
    }

    /// Sets `latency-tracking-info-percentiles`.
    pub fn set_percentiles(&self, percentiles: Vec<f64>) {
        *self.percentiles.write() = percentiles;
    }

    /// Records that a command of `client` has ended. `entry` is its index in the [`CommandTable`], `busy` its service
    /// time.
    #[inline]
    pub fn ended(
        &self,
        (client, stats): (&ClientInfo, &WorkerStats),
        entry: usize,
        args: &[&[u8]],
        busy: Duration,
        error: Option<&CommandError>,
    ) {
        stats.count_call(entry, busy, error.is_some());
        if self.keeps_histograms() {
            stats.record_time(entry, busy);
        }
        if let Some(error) = error {
            stats.count_error(error);
        }
        let busy_us = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
        if self.slow_log.is_slow(busy_us) || self.latency.is_slow(busy_us) {
            self.note_slow(client, entry, args, busy_us);
        }
    }

    #[cold]
    fn note_slow(&self, client: &ClientInfo, entry: usize, args: &[&[u8]], busy_us: u64) {
        let Some(entry) = CommandTable::get().entry(entry) else {
            return;
        };
        // The commands of a transaction are recorded one by one.
        let is_exec = entry.spec.name == "exec";
        if self.slow_log.is_slow(busy_us) && !is_exec {
            self.slow_log.add(client, args, busy_us);
        }
        if self.latency.is_slow(busy_us) {
            let is_fast = entry.spec.flags.contains(&Flag::Fast);
            let event = if is_fast { "fast-command" } else { "command" };
            self.latency.add(event, busy_us / 1000);
        }
    }
}
