//! The service times and waits that psp requests ask for.

use psp_sim::random::stream_rng;
use psp_sim::workload::ServiceTimes;
use rand::rngs::Xoshiro256PlusPlus;

use crate::schedule::ServicePlan;

/// What one psp request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    /// Its service time in nanoseconds.
    pub(crate) run_time_ns: u32,
    /// For how long it waits without its worker, in nanoseconds.
    pub(crate) wait_ns: u32,
}

/// Draws the service times of one type.
#[derive(Debug)]
pub(crate) struct Services {
    /// When each begins, in nanoseconds from the start; ascending, the first at 0. Service times and waits.
    phases: Vec<(u64, ServiceTimes, u32)>,
    current: usize,
    rng: Xoshiro256PlusPlus,
}

impl Services {
    /// The service times of `service`, and those of each phase from its time on, in nanoseconds
    /// from the start.
    pub(crate) fn new(
        service: ServicePlan,
        phases: impl Iterator<Item = (u64, ServicePlan)>,
        seed: u64,
        stream: u64,
    ) -> Self {
        let times = |service: ServicePlan| ServiceTimes::new(service.distribution, u64::from(service.mean_ns));
        let all = std::iter::once((0, service)).chain(phases);
        Self {
            phases: all.map(|(from_ns, service)| (from_ns, times(service), service.wait_ns)).collect(),
            current: 0,
            rng: stream_rng(seed, stream),
        }
    }

    /// What a request with this intended time asks for, which never decreases from call to
    /// call. Values beyond 32 bits of nanoseconds are cut to them.
    pub(crate) fn draw(&mut self, intended_ns: u64) -> Service {
        let begun = |next: &(u64, ServiceTimes, u32)| next.0 <= intended_ns;
        while self.phases.get(self.current + 1).is_some_and(begun) {
            self.current += 1;
        }
        let (_, times, wait_ns) = &self.phases[self.current];
        let run_time_ns = times.draw(&mut self.rng);
        Service {
            run_time_ns: u32::try_from(run_time_ns).unwrap_or(u32::MAX),
            wait_ns: *wait_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_sim::workload::Distribution;

    #[test]
    fn phases_have_their_own_service_times_and_waits_and_long_ones_are_cut() {
        let fixed = |mean_ns| ServicePlan {
            mean_ns,
            distribution: Distribution::Fixed,
            wait_ns: 10 * mean_ns,
        };
        let wide = ServicePlan {
            mean_ns: u32::MAX,
            distribution: Distribution::Exponential,
            wait_ns: 0,
        };
        let phases = [(100, fixed(2)), (200, fixed(3)), (300, wide)];
        let mut services = Services::new(fixed(1), phases.into_iter(), 1, 0);
        let at = [0, 99, 100, 250].map(|intended_ns| services.draw(intended_ns));
        let expected = [1, 1, 2, 3].map(|run_time_ns| Service { run_time_ns, wait_ns: 10 * run_time_ns });
        assert_eq!(at, expected);
        let draws = (0..1_000).map(|_| services.draw(300).run_time_ns);
        let drawn: Vec<u32> = draws.collect();
        let cut = drawn.iter().filter(|service_ns| **service_ns == u32::MAX).count();
        // e^-1 of an exponential lies above its mean.
        assert!((300..440).contains(&cut), "{cut}");
    }
}
