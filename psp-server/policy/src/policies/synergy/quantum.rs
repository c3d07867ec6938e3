//! How long a long request may keep its worker (Synergy II-A.2). Each worker follows the service
//! times of the short requests that it ran, so that a request behind a long one waits for about as
//! long as a short request takes.

use crate::settings;
use crate::settings::nanoseconds;

/// The short requests of one worker. See the [module](self).
#[derive(Debug)]
pub(crate) struct ShortRequests {
    adaptive: bool,
    weight: f64,
    factor: f64,
    congested_factor: f64,
    /// Exponential moving average of their service times.
    mean_ns: f64,
}

impl ShortRequests {
    pub(crate) fn new(settings: &settings::Synergy) -> Self {
        Self {
            adaptive: settings.adaptive_quantum,
            weight: settings.ema_weight,
            factor: settings.quantum_factor,
            congested_factor: settings.congested_quantum_factor,
            mean_ns: nanoseconds(settings.quantum_us) as f64,
        }
    }

    /// The worker ran `count` short requests of that mean service time.
    pub(crate) fn record(&mut self, count: u32, mean_ns: f64) {
        if self.adaptive {
            let left = (1.0 - self.weight).powf(f64::from(count));
            self.mean_ns = mean_ns + (self.mean_ns - mean_ns) * left;
        }
    }

    /// What a long request gets that begins or goes on at the worker now.
    pub(crate) fn quantum_ns(&self, congested: bool) -> u64 {
        let factor = match (self.adaptive, congested) {
            (false, _) => 1.0,
            (true, false) => self.factor,
            (true, true) => self.congested_factor,
        };
        ((self.mean_ns * factor).round() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantum_follows_the_short_requests() {
        let settings = settings::Synergy::default().congested_quantum_factor(20.0);
        let mut short = ShortRequests::new(&settings);
        assert_eq!(short.quantum_ns(false), 10_000, "twice 5 us at the start");
        short.record(1, 1_000.0);
        assert_eq!(short.quantum_ns(false), 6_000, "twice the mean of 5 and 1");
        short.record(1, 1_000.0);
        assert_eq!((short.quantum_ns(false), short.quantum_ns(true)), (4_000, 40_000));
        let mut other = ShortRequests::new(&settings);
        other.record(2, 1_000.0);
        assert_eq!(other.quantum_ns(false), 4_000, "two at once count as two");
        other.record(1_000, 0.0);
        assert_eq!(other.quantum_ns(false), 1, "never nothing");
    }

    #[test]
    fn a_fixed_quantum_knows_no_factors() {
        let settings = settings::Synergy::default().adaptive_quantum(false);
        let mut short = ShortRequests::new(&settings);
        short.record(9, 100.0);
        assert_eq!((short.quantum_ns(false), short.quantum_ns(true)), (5_000, 5_000));
    }
}
