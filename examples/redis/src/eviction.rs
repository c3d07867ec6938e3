//! What happens when the process holds more than `maxmemory`: keys are evicted, or writes get an error.
//!
//! ```text
//!   write ──► more than maxmemory? ──► a few keys evicted ──► runs
//!                    │                        │ nothing may be evicted
//!                    │                        └──► -OOM
//!   psp-eviction, every 10 ms ──► keys evicted until there is room
//! ```
//!
//! A write evicts few keys, so that it stays short. The thread does the rest when no write comes, or when much is to
//! go. Otherwise it leaves the work to writes: on a busy machine it may lose its core while it holds the lock of a
//! shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use psp_program::GroupMemory;
use psp_store::{Eviction, EvictionPolicy, Evictor, LfuRates, Periodic};
use quanta::Instant;

use crate::config::Config;
use crate::state::ServerState;

/// Keys that one write evicts at most. This write and the next ones take their memory, which is in the caches.
const KEYS_PER_WRITE: usize = 2;
/// The same where two do not suffice: new values may be longer than old ones.
const KEYS_PER_WRITE_MAX: usize = 32;
/// If more than this part of the limit is to go, a write evicts up to [`KEYS_PER_WRITE_MAX`] keys.
const HASTE_DIVISOR: u64 = 256;
/// Keys that the thread evicts between two looks at the memory.
const KEYS_PER_LOOK: usize = 256;
/// Time between two looks of the thread.
const PAUSE: Duration = Duration::from_millis(10);
/// If more than this part of the limit is to go, writes do not make room for it by themselves.
const MUCH_DIVISOR: u64 = 64;
/// This part of the limit is evicted beyond what is necessary. Else each write would evict.
const MARGIN_DIVISOR: u64 = 1024;

/// The settings of eviction, and what it remembers.
#[derive(Debug, Default)]
pub struct Evictions {
    policy: RwLock<EvictionPolicy>,
    samples: AtomicUsize,
    evictor: Evictor,
}

impl Evictions {
    /// Which keys are evicted.
    #[must_use]
    pub fn policy(&self) -> EvictionPolicy {
        *self.policy.read()
    }

    /// Keys that are looked at for each eviction.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples.load(Ordering::Relaxed)
    }

    /// Changes the number of keys that are looked at for each eviction.
    pub fn set_samples(&self, samples: usize) {
        self.samples.store(samples, Ordering::Relaxed);
    }

    /// Keys that were evicted.
    #[must_use]
    pub fn evicted_keys(&self) -> u64 {
        self.evictor.evicted_keys()
    }
}

/// What became of the memory beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// There is room, or there will be.
    Made,
    /// More keys have to go.
    TooLittle,
    /// No key may be evicted.
    None,
}

impl ServerState {
    /// Adopts the settings of eviction.
    pub fn configure_eviction(&self, config: &Config) {
        self.set_eviction_policy(config.maxmemory_policy);
        self.evictions.set_samples(config.maxmemory_samples);
        self.databases.set_lfu_rates(LfuRates {
            log_factor: config.lfu_log_factor,
            decay_minutes: config.lfu_decay_time,
        });
    }

    /// Evicts keys by another policy from now on.
    pub fn set_eviction_policy(&self, policy: EvictionPolicy) {
        *self.evictions.policy.write() = policy;
        self.databases.count_accesses(policy.is_lfu());
    }

    /// Whether commands that may store more get an error, at `now`. Evicts some keys if that helps.
    #[must_use]
    pub fn is_out_of_memory(&self, now: Instant) -> bool {
        self.is_full(now) && self.make_room(self.keys_per_write()) == Room::None
    }

    fn keys_per_write(&self) -> usize {
        match self.is_beyond_by(HASTE_DIVISOR) {
            true => KEYS_PER_WRITE_MAX,
            false => KEYS_PER_WRITE,
        }
    }

    /// Whether the process holds more than `maxmemory`.
    fn is_full(&self, now: Instant) -> bool {
        let limit_bytes = self.settings.maxmemory_bytes();
        limit_bytes > 0 && self.memory.exceeds(limit_bytes, now, || self.databases.pending_bytes())
    }

    /// Whether more than this part of the limit is to go.
    fn is_beyond_by(&self, divisor: u64) -> bool {
        let limit_bytes = self.settings.maxmemory_bytes();
        self.memory.excess_bytes(limit_bytes) > limit_bytes / divisor
    }

    /// Evicts up to `keys_max` keys.
    fn make_room(&self, keys_max: usize) -> Room {
        let limit_bytes = self.settings.maxmemory_bytes();
        let excess_bytes = self.memory.excess_bytes(limit_bytes);
        if excess_bytes == 0 {
            return Room::Made;
        }
        if self.evictions.policy() == EvictionPolicy::NoEviction {
            return Room::None;
        }
        let wanted_bytes = excess_bytes + limit_bytes / MARGIN_DIVISOR;
        let wanted_bytes = usize::try_from(wanted_bytes).unwrap_or(usize::MAX);
        match self.evict(wanted_bytes, keys_max) {
            Eviction::Freed(bytes) if bytes < wanted_bytes => Room::TooLittle,
            Eviction::Freed(_) => Room::Made,
            Eviction::Nothing => Room::None,
        }
    }

    /// Evicts up to `keys_max` keys, until `bytes` are free.
    pub(crate) fn evict(&self, bytes: usize, keys_max: usize) -> Eviction {
        let (policy, samples) = (self.evictions.policy(), self.evictions.samples());
        let (evictor, bounds) = (&self.evictions.evictor, (bytes, keys_max));
        let eviction = evictor.evict(&self.databases, policy, samples, bounds, |database, key| {
            self.notifier.evicted(database, key);
            self.clients.tracking.invalidate(None, &[key]);
        });
        if let Eviction::Freed(bytes) = eviction {
            self.memory.note_freed(bytes);
        }
        eviction
    }
}

impl ServerState {
    /// Whether what snapshots keep is about to take what the control group has.
    fn is_short_beside_snapshots(&self) -> bool {
        let is_near = |group: GroupMemory| self.memory.used_bytes() > group.usable_bytes();
        self.databases.pending_bytes() > 0 && GroupMemory::get().is_some_and(is_near)
    }
}

/// Starts the thread that evicts keys of `state`.
///
/// # Errors
/// The system refuses to start a thread.
pub fn start(state: Arc<ServerState>) -> std::io::Result<Periodic> {
    let mut evicted_before = 0;
    Periodic::start("psp-eviction", PAUSE, move || {
        state.persistence.give_up_if(|| state.is_short_beside_snapshots());
        let writes_evict = state.evictions.evicted_keys() != evicted_before;
        if !writes_evict || state.is_beyond_by(MUCH_DIVISOR) {
            while state.is_full(Instant::now()) && state.make_room(KEYS_PER_LOOK) == Room::TooLittle {}
        }
        evicted_before = state.evictions.evicted_keys();
    })
}
