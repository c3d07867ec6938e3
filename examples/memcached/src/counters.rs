//! The counters of each worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Defines the counters, each with its name in `stats`.
macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A counter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Counter {
            $($(#[$doc])* $variant,)*
        }

        impl Counter {
            /// All counters, in the order of `stats`.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in `stats`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Keys requested.
    CmdGet = "cmd_get",
    /// Storage commands.
    CmdSet = "cmd_set",
    /// `flush_all`
    CmdFlush = "cmd_flush",
    /// Requests to set a key's expiration time.
    CmdTouch = "cmd_touch",
    /// `me`
    CmdMeta = "cmd_meta",
    /// Requested keys that were present.
    GetHits = "get_hits",
    /// Requested keys that were missing.
    GetMisses = "get_misses",
    /// Deletions of a missing key.
    DeleteMisses = "delete_misses",
    /// Deletions.
    DeleteHits = "delete_hits",
    /// Increments of a missing key.
    IncrMisses = "incr_misses",
    /// Increments.
    IncrHits = "incr_hits",
    /// Decrements of a missing key.
    DecrMisses = "decr_misses",
    /// Decrements.
    DecrHits = "decr_hits",
    /// CAS on a missing key.
    CasMisses = "cas_misses",
    /// CAS that succeeded.
    CasHits = "cas_hits",
    /// CAS of an item that had changed.
    CasBadval = "cas_badval",
    /// Successful requests to set an expiration time.
    TouchHits = "touch_hits",
    /// Requests to set the expiration time of a missing key.
    TouchMisses = "touch_misses",
    /// Attempts of clients to show who they are.
    AuthCmds = "auth_cmds",
    /// Such attempts that failed.
    AuthErrors = "auth_errors",
    /// Values too long for an item.
    StoreTooLarge = "store_too_large",
    /// Items refused for lack of memory.
    StoreNoMemory = "store_no_memory",
}

/// The counters of one worker. Only that worker writes them, with a plain load and store each.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    counts: [AtomicU64; Counter::ALL.len()],
}

impl WorkerCounters {
    /// Increments a counter.
    pub fn count(&self, counter: Counter) {
        let count = &self.counts[counter as usize];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// The sums of all workers' counters, by [`Counter::ALL`].
type Sums = [u64; Counter::ALL.len()];

/// The counters of all workers.
#[derive(Debug, Default)]
pub struct Counters {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    workers: Vec<Arc<WorkerCounters>>,
    /// Sums at the last reset. Only workers write their counters.
    zero: Sums,
}

impl Counters {
    /// Creates the counters of one more worker.
    pub fn add_worker(&self) -> Arc<WorkerCounters> {
        let counters = Arc::new(WorkerCounters::default());
        self.inner.lock().workers.push(Arc::clone(&counters));
        counters
    }

    /// The counts since the last reset.
    #[must_use]
    pub fn read(&self) -> Vec<(Counter, u64)> {
        let inner = self.inner.lock();
        let since = inner.sums().into_iter().zip(inner.zero).map(|(sum, zero)| sum.wrapping_sub(zero));
        Counter::ALL.iter().copied().zip(since).collect()
    }

    /// Resets all counters to zero.
    pub fn reset(&self) {
        let mut inner = self.inner.lock();
        inner.zero = inner.sums();
    }
}

impl Inner {
    fn sums(&self) -> Sums {
        std::array::from_fn(|index| {
            self.workers
                .iter()
                .map(|worker| worker.counts[index].load(Ordering::Relaxed))
                .fold(0, u64::wrapping_add)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_of(counters: &Counters, wanted: Counter) -> u64 {
        let counts = counters.read();
        let found = counts.iter().find(|(counter, _)| *counter == wanted);
        found.expect("every counter is read").1
    }

    #[test]
    fn counts_of_workers_are_summed_and_a_reset_clears_them() {
        let counters = Counters::default();
        let (first, second) = (counters.add_worker(), counters.add_worker());
        first.count(Counter::GetHits);
        second.count(Counter::GetHits);
        second.count(Counter::CasBadval);
        assert_eq!(count_of(&counters, Counter::GetHits), 2);
        counters.reset();
        assert_eq!(count_of(&counters, Counter::GetHits), 0);
        first.count(Counter::GetHits);
        assert_eq!(count_of(&counters, Counter::GetHits), 1);
        assert_eq!(count_of(&counters, Counter::CasBadval), 0);
    }
}
