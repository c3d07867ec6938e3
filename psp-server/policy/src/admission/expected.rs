//! What is expected of a request: its service, and how long it waits before.

/// Service times that a mean is of, once there are as many.
const SAMPLES: f64 = 1024.0;

/// Part of the residual, and of the error, that a request makes up.
const WEIGHT: f64 = 1.0 / 16.0;

/// The expectations of one type.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Expected {
    service_ns: f64,
    samples: f64,
    /// How much longer requests waited than the work ahead of them said: what is ahead of them in other queues.
    residual_ns: f64,
    residual_at_ns: u64,
    error_ns: f64,
}

impl Expected {
    /// Of a type that is expected to take so long; 0 if that is unknown.
    pub(super) const fn new(service_ns: f64) -> Self {
        Self {
            service_ns,
            samples: 0.0,
            residual_ns: 0.0,
            residual_at_ns: 0,
            error_ns: 0.0,
        }
    }

    /// Mean service time; 0 while unknown.
    #[inline]
    pub(super) const fn service_ns(&self) -> f64 {
        self.service_ns
    }

    /// Requests took `served_ns` each.
    pub(super) fn served(&mut self, served_ns: f64, count: u32) {
        self.samples = (self.samples + f64::from(count)).min(SAMPLES);
        self.service_ns += (served_ns - self.service_ns) * (f64::from(count) / self.samples).min(1.0);
    }

    /// Time until a request begins that has `ahead_ns` of work ahead of it on each of its workers.
    ///
    /// The residual is forgotten over `memory_ns` without a request that begins: otherwise one that says that
    /// everything is too late would never be proved wrong.
    pub(super) fn wait_ns(&self, now_ns: u64, ahead_ns: f64, memory_ns: f64) -> f64 {
        let age_ns = now_ns.saturating_sub(self.residual_at_ns) as f64;
        let remembered = (1.0 - age_ns / memory_ns).max(0.0);
        (ahead_ns + self.residual_ns * remembered).max(0.0)
    }

    /// A request began after `waited_ns`, of which `ahead_ns` were expected for the work ahead, and `expected_ns` in
    /// all.
    pub(super) fn began(&mut self, now_ns: u64, waited_ns: f64, ahead_ns: f64, expected_ns: f64) {
        self.residual_ns += (waited_ns - ahead_ns - self.residual_ns) * WEIGHT;
        self.residual_at_ns = now_ns;
        self.error_ns += ((waited_ns - expected_ns).abs() - self.error_ns) * WEIGHT;
    }

    /// How far expected waits were from real ones, on average.
    pub(super) const fn error_ns(&self) -> f64 {
        self.error_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_of_the_latest_service_times_and_a_hint_yields_to_the_first() {
        let mut expected = Expected::new(70.0);
        assert_eq!(expected.service_ns(), 70.0);
        expected.served(100.0, 1);
        expected.served(200.0, 3);
        assert_eq!(expected.service_ns(), 175.0);
        for _ in 0..10_000 {
            expected.served(10.0, 1);
        }
        assert!((expected.service_ns() - 10.0).abs() < 0.1);
    }

    #[test]
    fn what_the_work_ahead_does_not_explain_is_learned_and_forgotten() {
        let mut expected = Expected::new(10.0);
        for _ in 0..200 {
            expected.began(1_000, 500.0, 100.0, 100.0);
        }
        assert!((expected.wait_ns(1_000, 50.0, 200.0) - 450.0).abs() < 1.0);
        assert!((expected.wait_ns(1_100, 50.0, 200.0) - 250.0).abs() < 1.0);
        assert_eq!(expected.wait_ns(2_000, 50.0, 200.0), 50.0);
        assert!((expected.error_ns() - 400.0).abs() < 1.0);
    }
}
