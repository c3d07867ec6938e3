//! The service times that psp requests ask for.

use psp_sim::random::stream_rng;
use psp_sim::workload::ServiceTimes;
use rand::rngs::Xoshiro256PlusPlus;

use crate::schedule::ServicePlan;

/// Draws the service times of one type.
#[derive(Debug)]
pub(crate) struct Services {
    /// When each begins, in nanoseconds from the start; ascending, the first at 0.
    phases: Vec<(u64, ServiceTimes)>,
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
        let times = |service: ServicePlan| {
            ServiceTimes::new(service.distribution, u64::from(service.mean_ns))
        };
        let all = std::iter::once((0, service)).chain(phases);
        Self {
            phases: all
                .map(|(from_ns, service)| (from_ns, times(service)))
                .collect(),
            current: 0,
            rng: stream_rng(seed, stream),
        }
    }

    /// The service time of a request with this intended time, which never decreases from call to
    /// call. Values beyond 32 bits of nanoseconds are cut to them.
    pub(crate) fn draw(&mut self, intended_ns: u64) -> u32 {
        let begun = |next: &(u64, ServiceTimes)| next.0 <= intended_ns;
        while self.phases.get(self.current + 1).is_some_and(begun) {
            self.current += 1;
        }
        let service_ns = self.phases[self.current].1.draw(&mut self.rng);
        u32::try_from(service_ns).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_sim::workload::Distribution;

    #[test]
    fn phases_have_their_own_service_times_and_long_ones_are_cut() {
        let fixed = |mean_ns| ServicePlan {
            mean_ns,
            distribution: Distribution::Fixed,
        };
        let wide = ServicePlan {
            mean_ns: u32::MAX,
            distribution: Distribution::Exponential,
        };
        let phases = [(100, fixed(2)), (200, fixed(3)), (300, wide)];
        let mut services = Services::new(fixed(1), phases.into_iter(), 1, 0);
        let at = [0, 99, 100, 250].map(|intended_ns| services.draw(intended_ns));
        assert_eq!(at, [1, 1, 2, 3]);
        let drawn: Vec<u32> = (0..1_000).map(|_| services.draw(300)).collect();
        let cut = drawn
            .iter()
            .filter(|service_ns| **service_ns == u32::MAX)
            .count();
        // e^-1 of an exponential lies above its mean.
        assert!((300..440).contains(&cut), "{cut}");
    }
}
