//! What is expected of a request: its service, and how long it waits before.

/// Service times that a mean is of, once there are as many.
const SAMPLES: f64 = 4096.0;

/// Part of an average that a request makes up.
const WEIGHT: f64 = 1.0 / 64.0;

/// The mean service time of one type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Service {
    mean_ns: f64,
    samples: f64,
}

impl Service {
    /// Of a type that is expected to take so long; 0 if that is unknown.
    pub(super) const fn new(mean_ns: f64) -> Self {
        Self { mean_ns, samples: 0.0 }
    }

    /// 0 while unknown.
    #[inline]
    pub(super) const fn mean_ns(&self) -> f64 {
        self.mean_ns
    }

    /// Requests took `served_ns` each.
    pub(super) fn served(&mut self, served_ns: f64, count: u32) {
        self.samples = (self.samples + f64::from(count)).min(SAMPLES);
        self.mean_ns += (served_ns - self.mean_ns) * (f64::from(count) / self.samples).min(1.0);
    }
}

/// How long requests of one type and level wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// How long requests waited, and how many places in line they were from their turn, on average. Their ratio is what
    /// a place costs under this policy, whatever else that serves before.
    waited_ns: f64,
    places: f64,
    began_ns: u64,
    error_ns: f64,
}

impl Line {
    pub(super) const fn new() -> Self {
        Self { waited_ns: 0.0, places: 1.0, began_ns: 0, error_ns: 0.0 }
    }

    /// Time until a request begins that is so many places in line from its turn: 1 for the next.
    ///
    /// What a place costs is forgotten over `memory_ns` without a request that begins: otherwise a cost by which
    /// everything is too late would never be proved wrong.
    pub(super) fn wait_ns(&self, now_ns: u64, places: f64, memory_ns: f64) -> f64 {
        let age_ns = now_ns.saturating_sub(self.began_ns) as f64;
        let remembered = (1.0 - age_ns / memory_ns).max(0.0);
        places * self.waited_ns / self.places * remembered
    }

    /// A request began that was so many places from its turn and expected to wait for `expected_ns`.
    pub(super) fn began(&mut self, now_ns: u64, waited_ns: f64, places: f64, expected_ns: f64) {
        self.waited_ns += (waited_ns - self.waited_ns) * WEIGHT;
        self.places += (places - self.places) * WEIGHT;
        self.began_ns = now_ns;
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
        let mut service = Service::new(70.0);
        assert_eq!(service.mean_ns(), 70.0);
        service.served(100.0, 1);
        service.served(200.0, 3);
        assert_eq!(service.mean_ns(), 175.0);
        for _ in 0..40_000 {
            service.served(10.0, 1);
        }
        assert!((service.mean_ns() - 10.0).abs() < 0.1);
    }

    #[test]
    fn what_a_place_in_line_costs_is_learned_and_forgotten() {
        let mut line = Line::new();
        assert_eq!(line.wait_ns(0, 5.0, 200.0), 0.0);
        line.began(1_000, 640.0, 65.0, 0.0);
        assert_eq!((line.wait_ns(1_000, 3.0, 200.0), line.error_ns()), (15.0, 10.0));
        for _ in 0..1_000 {
            line.began(1_000, 500.0, 10.0, 100.0);
        }
        assert!((line.wait_ns(1_000, 3.0, 200.0) - 150.0).abs() < 1.0);
        assert!((line.wait_ns(1_100, 3.0, 200.0) - 75.0).abs() < 1.0);
        assert_eq!(line.wait_ns(2_000, 3.0, 200.0), 0.0);
        assert!((line.error_ns() - 400.0).abs() < 1.0);
    }
}
