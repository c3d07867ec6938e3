//! What the server records of the commands that have run.
//!
//! ```text
//!   command ends ─► ended ─┬─► counters, histogram, errors of the worker ── INFO, LATENCY HISTOGRAM
//!                          ├── at least slowlog-log-slower-than ─► slow log ── SLOWLOG
//!                          └── at least latency-monitor-threshold ─► series ── LATENCY
//! ```
//!
//! A command that is not slow writes to its worker's counters alone, and compares its time with one threshold.
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

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// From how many nanoseconds on a command is slow for one of them.
    slow_from_ns: AtomicU64,
    keeps_histograms: AtomicBool,
    percentiles: RwLock<Vec<f64>>,
}

impl Default for Records {
    fn default() -> Self {
        let records = Self {
            slow_log: SlowLog::default(),
            latency: Latency::default(),
            slow_from_ns: AtomicU64::new(0),
            keeps_histograms: AtomicBool::new(true),
            percentiles: RwLock::new(vec![50.0, 99.0, 99.9]),
        };
        records.note_thresholds();
        records
    }
}

impl Records {
    /// Sets `slowlog-log-slower-than` in microseconds. A negative number means never.
    pub fn set_slow_log_threshold_us(&self, us: i64) {
        self.slow_log.set_threshold_us(us);
        self.note_thresholds();
    }

    /// Sets `latency-monitor-threshold` in milliseconds; 0 means never.
    pub fn set_latency_threshold_ms(&self, ms: u64) {
        self.latency.set_threshold_ms(ms);
        self.note_thresholds();
    }

    fn note_thresholds(&self) {
        let us = self.slow_log.slow_from_us().min(self.latency.slow_from_us());
        let ns = us.saturating_mul(1000);
        self.slow_from_ns.store(ns, Ordering::Relaxed);
    }

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
        stats.count_call(entry, ns(busy), error.is_some());
        self.note_end((client, stats), entry, args, ns(busy), error);
    }

    /// Records that a command has begun to wait, after so much service time.
    pub fn waits(&self, stats: &WorkerStats, entry: usize, busy: Duration) {
        stats.count_call(entry, ns(busy), false);
    }

    /// Records that a command has ended that had waited. It took `busy` before and after the wait.
    pub fn waited(
        &self,
        (client, stats): (&ClientInfo, &WorkerStats),
        entry: usize,
        args: &[&[u8]],
        busy: [Duration; 2],
        error: Option<&CommandError>,
    ) {
        let [before, after] = busy;
        stats.count_waited(entry, ns(after), error.is_some());
        self.note_end((client, stats), entry, args, ns(before + after), error);
    }

    #[inline]
    fn note_end(
        &self,
        (client, stats): (&ClientInfo, &WorkerStats),
        entry: usize,
        args: &[&[u8]],
        busy_ns: u64,
        error: Option<&CommandError>,
    ) {
        if self.keeps_histograms() {
            stats.record_time(entry, busy_ns);
        }
        if let Some(error) = error {
            stats.count_error(error);
        }
        if busy_ns >= self.slow_from_ns.load(Ordering::Relaxed) {
            self.note_slow(client, entry, args, busy_ns / 1000);
        }
    }

    #[cold]
    fn note_slow(&self, client: &ClientInfo, entry: usize, args: &[&[u8]], busy_us: u64) {
        let Some(entry) = CommandTable::get().entry(entry) else {
            return;
        };
        // The commands of a transaction are recorded one by one.
        let is_exec = entry.spec.name == "exec";
        if busy_us >= self.slow_log.slow_from_us() && !is_exec {
            self.slow_log.add(client, args, busy_us);
        }
        if busy_us >= self.latency.slow_from_us() {
            let is_fast = entry.spec.flags.contains(Flag::Fast);
            let event = if is_fast { "fast-command" } else { "command" };
            self.latency.add(event, busy_us / 1000);
        }
    }
}

fn ns(busy: Duration) -> u64 {
    busy.as_secs() * 1_000_000_000 + u64::from(busy.subsec_nanos())
}
