//! How long a long request may keep its worker (Synergy II-A.2). Each worker follows the service
//! times of the short requests that it ran, so that a request behind a long one waits for about as
//! long as a short request takes.

use crate::event::WorkerId;
use crate::settings;
use crate::settings::nanoseconds;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Quantum {
    adaptive: bool,
    weight: f64,
    factor: f64,
    congested_factor: f64,
    /// Per worker: exponential moving average of short requests' service times.
    short_ns: Vec<f64>,
}

impl Quantum {
    pub(crate) fn new(workers: usize, settings: &settings::Synergy) -> Self {
        Self {
            adaptive: settings.adaptive_quantum,
            weight: settings.ema_weight,
            factor: settings.quantum_factor,
            congested_factor: settings.congested_quantum_factor,
            short_ns: vec![nanoseconds(settings.quantum_us) as f64; workers],
        }
    }

    /// `worker` ran `count` short requests of that mean service time.
    pub(crate) fn record(&mut self, worker: WorkerId, count: u32, mean_ns: f64) {
        if self.adaptive {
            let average_ns = &mut self.short_ns[worker.index()];
            let left = (1.0 - self.weight).powf(f64::from(count));
            *average_ns = mean_ns + (*average_ns - mean_ns) * left;
        }
    }

    /// What a long request gets that begins or goes on at `worker` now.
    pub(crate) fn of_ns(&self, worker: WorkerId, congested: bool) -> u64 {
        let factor = match (self.adaptive, congested) {
            (false, _) => 1.0,
            (true, false) => self.factor,
            (true, true) => self.congested_factor,
        };
        ((self.short_ns[worker.index()] * factor).round() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WorkerId = WorkerId(0);
    const B: WorkerId = WorkerId(1);

    #[test]
    fn each_worker_follows_its_own_short_requests() {
        let settings = settings::Synergy::default().congested_quantum_factor(20.0);
        let mut quantum = Quantum::new(2, &settings);
        assert_eq!(quantum.of_ns(A, false), 10_000, "twice 5 us at the start");
        quantum.record(A, 1, 1_000.0);
        assert_eq!(quantum.of_ns(A, false), 6_000, "twice the mean of 5 and 1");
        quantum.record(A, 1, 1_000.0);
        assert_eq!(
            (quantum.of_ns(A, false), quantum.of_ns(A, true)),
            (4_000, 40_000)
        );
        assert_eq!(quantum.of_ns(B, false), 10_000);
        quantum.record(B, 2, 1_000.0);
        assert_eq!(quantum.of_ns(B, false), 4_000, "two at once count as two");
        quantum.record(B, 1_000, 0.0);
        assert_eq!(quantum.of_ns(B, false), 1, "never nothing");
    }

    #[test]
    fn a_fixed_quantum_knows_no_factors() {
        let settings = settings::Synergy::default().adaptive_quantum(false);
        let mut quantum = Quantum::new(1, &settings);
        quantum.record(A, 9, 100.0);
        assert_eq!(
            (quantum.of_ns(A, false), quantum.of_ns(A, true)),
            (5_000, 5_000)
        );
    }
}
