//! When and how often keys are read and written: what eviction goes by.
//!
//! The frequency is the counter of Redis's LFU: 8 bits that grow with the logarithm of the number of accesses, and
//! shrink by one with each period without any. Keys are counted only while an LFU policy wants it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

/// What the clock shows at the start. A restored key may have been idle for longer than the keyspace exists.
const START_S: u32 = 1 << 31;
/// The frequency of a new key. Otherwise it would be evicted before it could be read.
const FREQUENCY_AT_FIRST: u8 = 5;
/// Bits of the frequency in [`Access::heat`]. The minute of the last access is above them.
const FREQUENCY_BITS: u32 = 8;
/// Minutes that an entry remembers. Then they start again.
const MINUTES: u32 = 1 << 16;

/// How the frequency of a key grows and shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LfuRates {
    /// The counter grows with one of so many accesses for each step that it has grown already. `lfu-log-factor` in
    /// Redis.
    pub log_factor: u32,
    /// Minutes without an access after which the counter is one less; 0 for never. `lfu-decay-time` in Redis.
    pub decay_minutes: u32,
}

impl Default for LfuRates {
    fn default() -> Self {
        Self {
            log_factor: 10,
            decay_minutes: 1,
        }
    }
}

/// The seconds of a keyspace, and how its keys are counted.
#[derive(Debug)]
pub(crate) struct AccessClock {
    start: Instant,
    now_s: AtomicU32,
    counts: AtomicBool,
    log_factor: AtomicU32,
    decay_minutes: AtomicU32,
}

impl Default for AccessClock {
    fn default() -> Self {
        let LfuRates {
            log_factor,
            decay_minutes,
        } = LfuRates::default();
        Self {
            start: Instant::now(),
            now_s: AtomicU32::new(START_S),
            counts: AtomicBool::new(false),
            log_factor: AtomicU32::new(log_factor),
            decay_minutes: AtomicU32::new(decay_minutes),
        }
    }
}

impl AccessClock {
    pub(crate) fn now_s(&self) -> u32 {
        self.now_s.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self) {
        let elapsed_s = u32::try_from(self.start.elapsed().as_secs()).unwrap_or(u32::MAX);
        self.now_s
            .store(START_S.saturating_add(elapsed_s), Ordering::Relaxed);
    }

    /// Whether accesses are counted.
    pub(crate) fn counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    pub(crate) fn set_counts(&self, counts: bool) {
        self.counts.store(counts, Ordering::Relaxed);
    }

    pub(crate) fn rates(&self) -> LfuRates {
        LfuRates {
            log_factor: self.log_factor.load(Ordering::Relaxed),
            decay_minutes: self.decay_minutes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set_rates(&self, rates: LfuRates) {
        self.log_factor.store(rates.log_factor, Ordering::Relaxed);
        self.decay_minutes
            .store(rates.decay_minutes, Ordering::Relaxed);
    }

    fn minute(&self) -> u32 {
        self.now_s() / 60 % MINUTES
    }
}

/// The accesses to one key.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// 0 for none.
    touched_s: AtomicU32,
    /// The minute of the last counted access, and the frequency then.
    heat: AtomicU32,
}

impl Clone for Access {
    fn clone(&self) -> Self {
        Self {
            touched_s: AtomicU32::new(self.touched_s()),
            heat: AtomicU32::new(self.heat.load(Ordering::Relaxed)),
        }
    }
}

/// When a key was last used, and how often, at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessMark {
    touched_s: u32,
    heat: u32,
}

impl Access {
    pub(crate) fn mark(&self) -> AccessMark {
        AccessMark {
            touched_s: self.touched_s(),
            heat: self.heat.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set(&self, mark: AccessMark) {
        self.touched_s.store(mark.touched_s, Ordering::Relaxed);
        self.heat.store(mark.heat, Ordering::Relaxed);
    }

    pub(crate) fn touched_s(&self) -> u32 {
        self.touched_s.load(Ordering::Relaxed)
    }

    /// Notes an access. The first one does not count.
    #[inline]
    pub(crate) fn touch(&self, clock: &AccessClock) {
        let (touched_s, now_s) = (self.touched_s(), clock.now_s());
        if touched_s != now_s {
            self.touched_s.store(now_s, Ordering::Relaxed);
        }
        if touched_s == 0 {
            self.set_frequency(FREQUENCY_AT_FIRST, clock);
        } else if clock.counts() {
            self.count(clock, rand::random());
        }
    }

    /// Lets the key look as if its last access were `idle_s` seconds ago.
    pub(crate) fn set_idle_s(&self, idle_s: u32, clock: &AccessClock) {
        let touched_s = clock.now_s().saturating_sub(idle_s).max(1);
        self.touched_s.store(touched_s, Ordering::Relaxed);
    }

    pub(crate) fn idle_s(&self, clock: &AccessClock) -> u32 {
        clock.now_s().saturating_sub(self.touched_s())
    }

    pub(crate) fn set_frequency(&self, frequency: u8, clock: &AccessClock) {
        let heat = clock.minute() << FREQUENCY_BITS | u32::from(frequency);
        self.heat.store(heat, Ordering::Relaxed);
    }

    /// The frequency, less what it has lost since the last access.
    pub(crate) fn frequency(&self, clock: &AccessClock) -> u8 {
        let heat = self.heat.load(Ordering::Relaxed);
        let frequency = heat as u8;
        let idle_minutes = (MINUTES + clock.minute() - (heat >> FREQUENCY_BITS)) % MINUTES;
        let lost = idle_minutes
            .checked_div(clock.rates().decay_minutes)
            .unwrap_or(0);
        frequency.saturating_sub(u8::try_from(lost).unwrap_or(u8::MAX))
    }

    /// Counts an access. `dice` are random bits.
    fn count(&self, clock: &AccessClock, dice: u32) {
        let frequency = self.frequency(clock);
        let grown = u32::from(frequency.saturating_sub(FREQUENCY_AT_FIRST));
        let one_of = grown
            .saturating_mul(clock.rates().log_factor)
            .saturating_add(1);
        let grows = dice <= u32::MAX / one_of;
        self.set_frequency(frequency.saturating_add(grows.into()), clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_minute(clock: &AccessClock, minute: u32) {
        clock.now_s.store(START_S + 60 * minute, Ordering::Relaxed);
    }

    #[test]
    fn frequencies_grow_slowly_and_shrink_with_time() {
        let clock = AccessClock::default();
        clock.set_counts(true);
        let access = Access::default();
        access.touch(&clock);
        assert_eq!(access.frequency(&clock), FREQUENCY_AT_FIRST);
        access.count(&clock, u32::MAX);
        assert_eq!(access.frequency(&clock), 6);
        // From here on one of eleven accesses counts.
        access.count(&clock, u32::MAX / 10);
        assert_eq!(access.frequency(&clock), 6);
        access.count(&clock, u32::MAX / 12);
        assert_eq!(access.frequency(&clock), 7);
        at_minute(&clock, 3);
        assert_eq!(access.frequency(&clock), 4);
        at_minute(&clock, 1000);
        assert_eq!(access.frequency(&clock), 0);
        clock.set_rates(LfuRates {
            decay_minutes: 0,
            ..LfuRates::default()
        });
        assert_eq!(access.frequency(&clock), 7);
        access.set_frequency(255, &clock);
        access.count(&clock, 0);
        assert_eq!(access.frequency(&clock), 255);
    }

    #[test]
    fn keys_are_idle_from_their_last_access_on() {
        let clock = AccessClock::default();
        let access = Access::default();
        access.touch(&clock);
        at_minute(&clock, 1);
        assert_eq!(access.idle_s(&clock), 60);
        access.touch(&clock);
        assert_eq!(access.idle_s(&clock), 0);
        access.set_idle_s(1000, &clock);
        assert_eq!(access.idle_s(&clock), 1000);
        assert_eq!(
            access.frequency(&clock),
            FREQUENCY_AT_FIRST - 1,
            "not counted"
        );
    }
}
