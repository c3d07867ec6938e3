//! How slow the slowest command of each second was: LATENCY.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use psp_server::no_preempt;
use psp_store::unix_time_ms;

/// Samples that are kept of each event, as in Redis.
const SAMPLES_MAX: usize = 160;

/// Nothing is slow.
const NEVER: u64 = u64::MAX;

/// The series of all events.
#[derive(Debug)]
pub struct Latency {
    /// From how many microseconds on a time counts; [`NEVER`] if none does.
    threshold_us: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Series>>,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            threshold_us: AtomicU64::new(NEVER),
            events: Mutex::default(),
        }
    }
}

/// The samples of one event, one for each second in which there was one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    /// In order of time.
    pub samples: VecDeque<Sample>,
    /// The longest time since the last reset, in milliseconds.
    pub max_ms: u64,
}

/// The longest time of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The second, since the Unix epoch.
    pub at_s: u64,
    /// The time in milliseconds.
    pub ms: u64,
}

impl Series {
    fn add(&mut self, sample: Sample) {
        self.max_ms = self.max_ms.max(sample.ms);
        match self.samples.back_mut() {
            Some(last) if last.at_s == sample.at_s => last.ms = last.ms.max(sample.ms),
            _ => {
                if self.samples.len() == SAMPLES_MAX {
                    self.samples.pop_front();
                }
                self.samples.push_back(sample);
            }
        }
    }
}

impl Latency {
    /// From how many microseconds on a time counts.
    pub(super) fn slow_from_us(&self) -> u64 {
        self.threshold_us.load(Ordering::Relaxed)
    }

    /// `latency-monitor-threshold` in milliseconds; 0 for never.
    #[must_use]
    pub fn threshold_ms(&self) -> u64 {
        match self.threshold_us.load(Ordering::Relaxed) {
            NEVER => 0,
            us => us / 1000,
        }
    }

    /// Sets `latency-monitor-threshold`; 0 means never.
    pub(super) fn set_threshold_ms(&self, ms: u64) {
        let us = if ms == 0 { NEVER } else { ms.saturating_mul(1000) };
        self.threshold_us.store(us, Ordering::Relaxed);
    }

    pub(super) fn add(&self, event: &'static str, ms: u64) {
        let at_s = unix_time_ms() / 1000;
        no_preempt(|| {
            let mut events = self.events.lock();
            events.entry(event).or_default().add(Sample { at_s, ms });
        });
    }

    /// All events with samples, in the order of their names.
    #[must_use]
    pub fn events(&self) -> BTreeMap<&'static str, Series> {
        no_preempt(|| self.events.lock().clone())
    }

    /// Forgets the events that `is_meant` names. Returns how many there were.
    pub fn reset(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        no_preempt(|| {
            let mut events = self.events.lock();
            let before = events.len();
            events.retain(|event, _| !is_meant(event));
            before - events.len()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_keeps_its_longest_time_and_old_ones_go() {
        let mut series = Series::default();
        for (at_s, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            series.add(Sample { at_s, ms });
        }
        let found: Vec<_> = series.samples.iter().map(|it| (it.at_s, it.ms)).collect();
        assert_eq!((found, series.max_ms), (vec![(1, 9), (2, 3)], 9));
        for at_s in 3..1000 {
            series.add(Sample { at_s, ms: 1 });
        }
        assert_eq!((series.samples.len(), series.max_ms), (SAMPLES_MAX, 9));
        assert_eq!(series.samples.back().map(|it| it.at_s), Some(999));
    }

    #[test]
    fn a_threshold_of_zero_means_never() {
        let latency = Latency::default();
        assert_eq!((latency.slow_from_us(), latency.threshold_ms()), (NEVER, 0));
        latency.set_threshold_ms(2);
        assert_eq!((latency.slow_from_us(), latency.threshold_ms()), (2000, 2));
        latency.set_threshold_ms(0);
        assert_eq!(latency.slow_from_us(), NEVER);
    }
}
