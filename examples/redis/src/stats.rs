//! Counters per command, one set per worker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::command::CommandTable;

/// The counters of one worker. Only that worker writes them, with a plain load and store each.
#[derive(Debug)]
pub struct WorkerStats {
    commands: Box<[CommandCounters]>,
}

#[derive(Debug, Default)]
struct CommandCounters {
    calls: AtomicU64,
    busy_ns: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
}

/// The counters of one command at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Times the command ran, including failures.
    pub calls: u64,
    /// Total running time, in nanoseconds.
    pub busy_ns: u64,
    /// Times the server rejected the command before it ran.
    pub rejected: u64,
    /// Times the command ran and failed.
    pub failed: u64,
}

impl Default for WorkerStats {
    fn default() -> Self {
        let commands = CommandTable::get().specs().len();
        Self {
            commands: (0..commands).map(|_| CommandCounters::default()).collect(),
        }
    }
}

impl WorkerStats {
    /// Counts a call of the command with this index in the [`CommandTable`].
    pub fn count_call(&self, index: usize, busy: Duration, failed: bool) {
        let counters = &self.commands[index];
        add(&counters.calls, 1);
        add(
            &counters.busy_ns,
            u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX),
        );
        add(&counters.failed, u64::from(failed));
    }

    /// Counts a rejection.
    pub fn count_rejected(&self, index: usize) {
        add(&self.commands[index].rejected, 1);
    }

    /// Adds the counters to `sums`, which has one element per command.
    pub fn add_to(&self, sums: &mut [CommandStats]) {
        for (counters, sum) in self.commands.iter().zip(sums) {
            sum.calls += counters.calls.load(Ordering::Relaxed);
            sum.busy_ns += counters.busy_ns.load(Ordering::Relaxed);
            sum.rejected += counters.rejected.load(Ordering::Relaxed);
            sum.failed += counters.failed.load(Ordering::Relaxed);
        }
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(amount),
        Ordering::Relaxed,
    );
}

impl CommandStats {
    /// The counts since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            calls: self.calls - earlier.calls,
            busy_ns: self.busy_ns - earlier.busy_ns,
            rejected: self.rejected - earlier.rejected,
            failed: self.failed - earlier.failed,
        }
    }
}
