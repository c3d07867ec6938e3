//! Counters per command and subcommand, one set per worker.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::command::CommandTable;
use crate::error::CommandError;
use crate::record::{Histogram, Times};

/// Codes of errors that are counted by themselves. Scripts may make up codes.
const ERROR_CODES_MAX: usize = 128;
/// Longest such code.
const ERROR_CODE_LEN_MAX: usize = 64;

/// Rates are those of at least this time.
const RATES_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The counters of one worker. Only that worker writes them, with a plain load and store each.
#[derive(Debug)]
pub struct WorkerStats {
    commands: Box<[CommandCounters]>,
    /// Calls of all of them.
    calls: AtomicU64,
    /// Errors by their codes. Other threads read it alone.
    errors: Mutex<ErrorCounts>,
}

/// Error replies by their codes, such as `WRONGTYPE`.
pub type ErrorCounts = BTreeMap<Box<str>, u64>;

#[derive(Debug, Default)]
struct CommandCounters {
    /// Made by the first call.
    times: OnceLock<Histogram>,
    calls: AtomicU64,
    busy_ns: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
}

/// The counters of one command at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Times the command ran, including failures.
    pub calls: u64,
    /// Total running time, in nanoseconds.
    pub busy_ns: u64,
    /// Times the server rejected the command before it ran.
    pub rejected: u64,
    /// Times the command ran and failed.
    pub failed: u64,
    /// Service times of its calls.
    pub times: Times,
}

impl Default for WorkerStats {
    fn default() -> Self {
        let entries = CommandTable::get().entries().len();
        Self {
            commands: (0..entries).map(|_| CommandCounters::default()).collect(),
            calls: AtomicU64::new(0),
            errors: Mutex::default(),
        }
    }
}

impl WorkerStats {
    /// Counts a call of the entry with this index in the [`CommandTable`].
    pub fn count_call(&self, index: usize, busy_ns: u64, failed: bool) {
        let counters = &self.commands[index];
        add(&self.calls, 1);
        add(&counters.calls, 1);
        add(&counters.busy_ns, busy_ns);
        add(&counters.failed, u64::from(failed));
    }

    /// Counts the rest of a call that has waited in between, and was counted when the wait began.
    pub fn count_waited(&self, index: usize, busy_ns: u64, failed: bool) {
        let counters = &self.commands[index];
        add(&counters.busy_ns, busy_ns);
        add(&counters.failed, u64::from(failed));
    }

    /// Counts a rejection.
    pub fn count_rejected(&self, index: usize) {
        add(&self.commands[index].rejected, 1);
    }

    /// Records the service time of a call, in nanoseconds.
    #[inline]
    pub fn record_time(&self, index: usize, busy_ns: u64) {
        let times = self.commands[index].times.get_or_init(Histogram::default);
        times.record(busy_ns);
    }

    /// Counts an error reply by its code, the first word.
    pub fn count_error(&self, error: &CommandError) {
        let line = error.to_string();
        let code = line.split(' ').next().unwrap_or_default();
        let code = code.get(..ERROR_CODE_LEN_MAX).unwrap_or(code);
        // Another request of this worker could need the lock.
        psp_server::no_preempt(|| {
            let mut errors = self.errors.lock();
            if let Some(count) = errors.get_mut(code) {
                *count += 1;
            } else {
                let code = if errors.len() < ERROR_CODES_MAX { code } else { "OTHERS" };
                *errors.entry(code.into()).or_default() += 1;
            }
        });
    }

    /// Adds the counters to `totals`.
    pub fn add_to(&self, totals: &mut Totals) {
        for (counters, sum) in self.commands.iter().zip(&mut totals.commands) {
            sum.calls += counters.calls.load(Ordering::Relaxed);
            sum.busy_ns += counters.busy_ns.load(Ordering::Relaxed);
            sum.rejected += counters.rejected.load(Ordering::Relaxed);
            sum.failed += counters.failed.load(Ordering::Relaxed);
            if let Some(times) = counters.times.get() {
                sum.times.add(times);
            }
        }
        self.add_errors_to(&mut totals.errors);
    }

    /// Adds the errors to `errors`.
    pub fn add_errors_to(&self, errors: &mut ErrorCounts) {
        let own = psp_server::no_preempt(|| self.errors.lock().clone());
        for (code, count) in own {
            *errors.entry(code).or_default() += count;
        }
    }

    /// Calls of all commands.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// What has happened since the server began.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    /// Calls of commands.
    pub calls: u64,
    /// Bytes that came from clients.
    pub received: u64,
    /// Bytes that went to clients.
    pub sent: u64,
}

/// The same for each second.
#[derive(Debug, Clone, Copy, Default)]
pub struct PerSecond {
    /// Calls of commands.
    pub calls: f64,
    /// Bytes that came from clients.
    pub received: f64,
    /// Bytes that went to clients.
    pub sent: f64,
}

/// How fast counters grow between the two last readings that were not too close to each other.
#[derive(Debug)]
pub struct Rates(Mutex<(Instant, Counted, PerSecond)>);

impl Default for Rates {
    fn default() -> Self {
        Self(Mutex::new((Instant::now(), Counted::default(), PerSecond::default())))
    }
}

impl Rates {
    /// The rates, with what was counted up to now.
    pub fn read(&self, now: Counted) -> PerSecond {
        let mut last = self.0.lock();
        let (at, before, rates) = &mut *last;
        let elapsed = at.elapsed();
        if elapsed >= RATES_INTERVAL_MIN {
            // CONFIG RESETSTAT takes counters back.
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
            *rates = PerSecond {
                calls: rate(now.calls, before.calls),
                received: rate(now.received, before.received),
                sent: rate(now.sent, before.sent),
            };
            (*at, *before) = (Instant::now(), now);
        }
        *rates
    }
}

/// The counters of all workers at one instant.
#[derive(Debug, Clone)]
pub struct Totals {
    /// In the order of [`CommandTable::entries`].
    pub commands: Vec<CommandStats>,
    /// Error replies.
    pub errors: ErrorCounts,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            commands: vec![CommandStats::default(); CommandTable::get().entries().len()],
            errors: ErrorCounts::new(),
        }
    }
}

impl Totals {
    /// The counts since `earlier`.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        let commands = self.commands.into_iter().zip(&earlier.commands);
        Self {
            commands: commands.map(|(now, before)| now.since(before)).collect(),
            errors: errors_since(self.errors, &earlier.errors),
        }
    }

    /// Calls of all commands.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.commands.iter().map(|stats| stats.calls).sum()
    }
}

/// The errors since those of `earlier`.
pub fn errors_since(errors: ErrorCounts, earlier: &ErrorCounts) -> ErrorCounts {
    let since = errors.into_iter().map(|(code, count)| {
        let before = earlier.get(&code).copied().unwrap_or_default();
        (code, count - before)
    });
    since.filter(|(_, count)| *count > 0).collect()
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl CommandStats {
    /// The counts since `earlier`.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        Self {
            calls: self.calls - earlier.calls,
            busy_ns: self.busy_ns - earlier.busy_ns,
            rejected: self.rejected - earlier.rejected,
            failed: self.failed - earlier.failed,
            times: self.times.since(&earlier.times),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_since_the_last_reading_that_counted() {
        let rates = Rates::default();
        let counted = Counted { calls: 1000, received: 3000, sent: 5000 };
        let deadline = Instant::now() + Duration::from_secs(30);
        let read = loop {
            let read = rates.read(counted);
            if read.calls > 0.0 {
                break read;
            }
            assert!(Instant::now() < deadline, "no rates");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!((read.received / read.calls - 3.0).abs() < 1e-9 && (read.sent / read.calls - 5.0).abs() < 1e-9);
    }
}
