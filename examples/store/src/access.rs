//! When and how often keys are read and written: what eviction goes by.
//!
//! The frequency is the counter of Redis's LFU: 8 bits that grow with the logarithm of the number of accesses, and
//! shrink by one with each period without any. Keys are counted only while an LFU policy wants it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The clock's ticks in a second. The more, the better the order of keys that were used within a second.
const TICKS_PER_S: u32 = 10;
/// What the clock shows at the start. A restored key may have been idle for longer than the keyspace exists.
const START_TICKS: u32 = 1 << 31;
/// The frequency of a new key. Otherwise it would be evicted before it could be read.
const FREQUENCY_AT_FIRST: u8 = 5;

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
        Self { log_factor: 10, decay_minutes: 1 }
    }
}

/// The time of a keyspace, and how its keys are counted.
#[derive(Debug)]
pub(crate) struct AccessClock {
    start: Instant,
    now_ticks: AtomicU32,
    counts: AtomicBool,
    log_factor: AtomicU32,
    decay_minutes: AtomicU32,
}

impl Default for AccessClock {
    fn default() -> Self {
        let LfuRates { log_factor, decay_minutes } = LfuRates::default();
        Self {
            start: Instant::now(),
            now_ticks: AtomicU32::new(START_TICKS),
            counts: AtomicBool::new(false),
            log_factor: AtomicU32::new(log_factor),
            decay_minutes: AtomicU32::new(decay_minutes),
        }
    }
}

impl AccessClock {
    fn now_ticks(&self) -> u32 {
        self.now_ticks.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self) {
        self.advance_to(self.start.elapsed());
    }

    /// Shows the time at `elapsed` after the start.
    pub(crate) fn advance_to(&self, elapsed: Duration) {
        let ticks = elapsed.as_millis() * u128::from(TICKS_PER_S) / 1000;
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
        self.now_ticks.store(START_TICKS.saturating_add(ticks), Ordering::Relaxed);
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
        self.decay_minutes.store(rates.decay_minutes, Ordering::Relaxed);
    }

    /// Minutes start again after so many as there is room for.
    fn minute(&self) -> u16 {
        (self.now_ticks() / (60 * TICKS_PER_S)) as u16
    }
}

/// The accesses to one key.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// 0 for none.
    touched_ticks: AtomicU32,
    /// The minute of the last counted access, and the frequency then.
    minute: AtomicU16,
    frequency: AtomicU8,
    /// Of the entry, which has no room for it elsewhere without another word: whether it has room for its expiry.
    pub(crate) has_expiry: bool,
}

impl Clone for Access {
    fn clone(&self) -> Self {
        Self {
            touched_ticks: AtomicU32::new(self.touched_ticks()),
            minute: AtomicU16::new(self.minute.load(Ordering::Relaxed)),
            frequency: AtomicU8::new(self.frequency.load(Ordering::Relaxed)),
            has_expiry: self.has_expiry,
        }
    }
}

/// When a key was last used, and how often, at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessMark {
    touched_ticks: u32,
    minute: u16,
    frequency: u8,
}

impl Access {
    pub(crate) fn mark(&self) -> AccessMark {
        AccessMark {
            touched_ticks: self.touched_ticks(),
            minute: self.minute.load(Ordering::Relaxed),
            frequency: self.frequency.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set(&self, mark: AccessMark) {
        self.touched_ticks.store(mark.touched_ticks, Ordering::Relaxed);
        self.minute.store(mark.minute, Ordering::Relaxed);
        self.frequency.store(mark.frequency, Ordering::Relaxed);
    }

    pub(crate) fn touched_ticks(&self) -> u32 {
        self.touched_ticks.load(Ordering::Relaxed)
    }

    /// Notes an access. The first one does not count.
    #[inline]
    pub(crate) fn touch(&self, clock: &AccessClock) {
        let (touched_ticks, now_ticks) = (self.touched_ticks(), clock.now_ticks());
        if touched_ticks != now_ticks {
            self.touched_ticks.store(now_ticks, Ordering::Relaxed);
        }
        if touched_ticks == 0 {
            self.set_frequency(FREQUENCY_AT_FIRST, clock);
        } else if clock.counts() {
            self.count(clock, rand::random());
        }
    }

    /// Lets the key look as if its last access were `idle_s` seconds ago.
    pub(crate) fn set_idle_s(&self, idle_s: u32, clock: &AccessClock) {
        let idle_ticks = idle_s.saturating_mul(TICKS_PER_S);
        let touched_ticks = clock.now_ticks().saturating_sub(idle_ticks).max(1);
        self.touched_ticks.store(touched_ticks, Ordering::Relaxed);
    }

    pub(crate) fn idle_s(&self, clock: &AccessClock) -> u32 {
        self.idle_ticks(clock) / TICKS_PER_S
    }

    /// Time since the last access, in ticks of the clock.
    pub(crate) fn idle_ticks(&self, clock: &AccessClock) -> u32 {
        clock.now_ticks().saturating_sub(self.touched_ticks())
    }

    pub(crate) fn set_frequency(&self, frequency: u8, clock: &AccessClock) {
        self.minute.store(clock.minute(), Ordering::Relaxed);
        self.frequency.store(frequency, Ordering::Relaxed);
    }

    /// The frequency, less what it has lost since the last access.
    pub(crate) fn frequency(&self, clock: &AccessClock) -> u8 {
        let frequency = self.frequency.load(Ordering::Relaxed);
        let idle_minutes = { clock.minute() }.wrapping_sub(self.minute.load(Ordering::Relaxed));
        let lost = u32::from(idle_minutes).checked_div(clock.rates().decay_minutes).unwrap_or(0);
        frequency.saturating_sub(u8::try_from(lost).unwrap_or(u8::MAX))
    }

    /// Counts an access. `dice` are random bits.
    fn count(&self, clock: &AccessClock, dice: u32) {
        let frequency = self.frequency(clock);
        let grown = u32::from(frequency.saturating_sub(FREQUENCY_AT_FIRST));
        let one_of = grown.saturating_mul(clock.rates().log_factor).saturating_add(1);
        let grows = dice <= u32::MAX / one_of;
        self.set_frequency(frequency.saturating_add(grows.into()), clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_minute(clock: &AccessClock, minute: u32) {
        clock.advance_to(Duration::from_secs(60 * u64::from(minute)));
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
        clock.set_rates(LfuRates { decay_minutes: 0, ..LfuRates::default() });
        assert_eq!(access.frequency(&clock), 7);
        access.set_frequency(255, &clock);
        access.count(&clock, 0);
        assert_eq!(access.frequency(&clock), 255);
    }

    #[test]
    fn the_clock_follows_the_time() {
        let clock = AccessClock::default();
        while clock.now_ticks() == START_TICKS && clock.start.elapsed() < Duration::from_secs(60) {
            clock.advance();
        }
        assert!(clock.now_ticks() > START_TICKS);
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
        assert_eq!(access.clone().idle_s(&clock), 1000);
        assert_eq!(access.frequency(&clock), FREQUENCY_AT_FIRST - 1, "not counted");
    }
}
