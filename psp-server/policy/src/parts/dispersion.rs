//! How far apart service times lie, of each type and of all requests: this decides whether requests
//! should take turns.
//!
//! There are two measures, since neither shows everything:
//!
//! | service times | squared coefficient of variation | spread, in powers of two | |
//! | --- | --- | --- | --- |
//! | fixed | 0 | 0 | |
//! | exponential | 1 | 1.9 | |
//! | half 1, half 100 | 0.96 | 3.3 | wide |
//! | 1, 10, 100 in equal parts | 1.5 | 2.7 | wide |
//! | 99.5 % 0.5, 0.5 % 500 | 139 | 0.7 | wide |
//! | lognormal, sigma 1 | 1.7 | 1.4 | wide |
//!
//! Heavy tails and rare long requests show in the squared coefficient of variation (variance over
//! squared mean), modes of similar weight in the spread (standard deviation of the logarithm).
//! A distribution is *wide* if it exceeds an exponential one by a margin in either measure. Of types
//! that are not wide, [`finishing`](super::finishing) uses mean and deviation.

use crate::event::Sample;
use crate::parts::profile::blend;
use crate::setup::SchedulerSetup;

/// Samples in a window. With what is remembered of earlier ones, a squared coefficient of
/// variation of 1 is known to within 0.05 or so.
const WINDOW_SAMPLES: f64 = 500.0;
/// Weight of a new window in the moving averages.
const WEIGHT: f64 = 0.5;
/// A squared coefficient of variation above this is wide.
const SCV_WIDE: f64 = 1.25;
/// A spread above this many powers of two is wide.
const SPREAD_WIDE: f64 = 2.25;

/// Sums over service times.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    samples: f64,
    ns: f64,
    ns_squared: f64,
    log2: f64,
    log2_squared: f64,
}

impl Moments {
    fn add(&mut self, count: f64, ns: f64) {
        let log2 = ns.log2();
        self.samples += count;
        self.ns += count * ns;
        self.ns_squared += count * ns * ns;
        self.log2 += count * log2;
        self.log2_squared += count * log2 * log2;
    }

    fn mean_ns(&self) -> f64 {
        self.ns / self.samples
    }

    /// Variance over squared mean. Rounding must not make it negative.
    fn scv(&self) -> f64 {
        (self.ns_squared * self.samples / (self.ns * self.ns) - 1.0).max(0.0)
    }

    fn spread_squared(&self) -> f64 {
        let mean = self.log2 / self.samples;
        (self.log2_squared / self.samples - mean * mean).max(0.0)
    }
}

/// The measures of a distribution, and its mean.
#[derive(Debug, Clone, Copy)]
struct Measures {
    mean_ns: f64,
    scv: f64,
    spread_squared: f64,
}

/// Service times of a type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service {
    pub(crate) mean_ns: f64,
    /// Standard deviation.
    pub(crate) deviation_ns: f64,
}

/// One distribution of service times.
#[derive(Debug, Clone, Copy, Default)]
struct Distribution {
    window: Moments,
    /// Moving average over the windows that closed. Averages of the moments would need long to
    /// forget service times that became shorter.
    known: Option<Measures>,
}

impl Distribution {
    fn add(&mut self, count: f64, ns: f64) {
        self.window.add(count, ns);
        if self.window.samples < WINDOW_SAMPLES {
            return;
        }
        let window = std::mem::take(&mut self.window);
        let latest = Measures {
            mean_ns: window.mean_ns(),
            scv: window.scv(),
            spread_squared: window.spread_squared(),
        };
        let before = self.known.unwrap_or(latest);
        self.known = Some(Measures {
            mean_ns: blend(before.mean_ns, latest.mean_ns, WEIGHT),
            scv: blend(before.scv, latest.scv, WEIGHT),
            spread_squared: blend(before.spread_squared, latest.spread_squared, WEIGHT),
        });
    }

    #[cfg(test)]
    fn scv(&self) -> Option<f64> {
        self.known.map(|known| known.scv)
    }

    fn is_wide(&self) -> Option<bool> {
        let Measures { scv, spread_squared, .. } = self.known?;
        Some(scv > SCV_WIDE || spread_squared > SPREAD_WIDE * SPREAD_WIDE)
    }
}

/// See the [module](self). Everything is `None` until the first 500 samples; a type's are its own.
#[derive(Debug)]
pub(crate) struct Dispersion {
    /// Per type slot, `UNKNOWN` last.
    types: Vec<Distribution>,
    overall: Distribution,
}

impl Dispersion {
    /// Of the types of `setup` its history is known.
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let mut dispersion = Self {
            types: vec![Distribution::default(); setup.types.len() + 1],
            overall: Distribution::default(),
        };
        for sample in setup.history.samples {
            dispersion.record(setup.types.slot(sample.request_type), sample);
        }
        dispersion
    }

    /// Adds a worker's measurement of the type at `slot`.
    ///
    /// A sum over several requests does not show how far apart they lie. The overall distribution
    /// counts it as requests of its mean; the type's own distribution leaves it out.
    pub(crate) fn record(&mut self, slot: usize, sample: &Sample) {
        if sample.count == 0 {
            return;
        }
        let count = f64::from(sample.count);
        let mean_ns = (sample.service_ns as f64 / count).max(1.0);
        self.overall.add(count, mean_ns);
        if sample.count == 1 {
            self.types[slot].add(1.0, mean_ns);
        }
    }

    /// Squared coefficient of variation of all service times.
    #[cfg(test)]
    pub(crate) fn scv_overall(&self) -> Option<f64> {
        self.overall.scv()
    }

    /// Squared coefficient of variation of the service times of the type at `slot`.
    #[cfg(test)]
    pub(crate) fn scv(&self, slot: usize) -> Option<f64> {
        self.types[slot].scv()
    }

    /// Whether all service times together are heavy-tailed or multi-modal.
    pub(crate) fn is_wide_overall(&self) -> Option<bool> {
        self.overall.is_wide()
    }

    /// Mean and deviation of the service times of the type at `slot`.
    pub(crate) fn service(&self, slot: usize) -> Option<Service> {
        let Measures { mean_ns, scv, .. } = self.types[slot].known?;
        Some(Service { mean_ns, deviation_ns: mean_ns * scv.sqrt() })
    }

    /// Whether those of the type at `slot` are.
    pub(crate) fn is_wide(&self, slot: usize) -> Option<bool> {
        self.types[slot].is_wide()
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::rehearsal::setup;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    fn dispersion() -> Dispersion {
        let types: TypeTable = [TypeSpec::new("A"), TypeSpec::new("B")].into_iter().collect();
        Dispersion::new(&setup(1, &types))
    }

    fn record(dispersion: &mut Dispersion, slot: usize, count: u32, service_ns: u64) {
        let sample = Sample { request_type: RequestType::UNKNOWN, count, service_ns };
        dispersion.record(slot, &sample);
    }

    /// What 20 000 service times, drawn by a number from 0 to 1, look like.
    fn drawn(service_ns: impl Fn(f64) -> f64) -> Dispersion {
        let mut dispersion = dispersion();
        let mut lots = SmallRng::seed_from_u64(1);
        for _ in 0..20_000 {
            record(&mut dispersion, 0, 1, service_ns(lots.random()) as u64);
        }
        dispersion
    }

    #[test]
    fn the_papers_distributions_are_told_apart() {
        let half = |draw: f64| if draw < 0.5 { 1000.0 } else { 100_000.0 };
        let near = |draw: f64| if draw < 0.5 { 1000.0 } else { 21_100.0 };
        let rare = |draw: f64| if draw < 0.995 { 500.0 } else { 500_000.0 };
        let thirds = |draw: f64| 1000.0 * 10_f64.powf((draw * 3.0).floor());
        for (name, dispersion, wide, scv) in [
            ("fixed", drawn(|_| 1000.0), false, 0.0..1e-9),
            ("exponential", drawn(|draw| -1e4 * (1.0 - draw).ln()), false, 0.85..1.15),
            ("bimodal", drawn(half), true, 0.9..1.1),
            ("near", drawn(near), false, 0.75..0.95),
            ("trimodal", drawn(thirds), true, 1.3..1.7),
            ("rare", drawn(rare), true, 60.0..300.0),
        ] {
            let measured = dispersion.scv(0).unwrap();
            assert!(scv.contains(&measured), "{name}: {measured}");
            assert_eq!(dispersion.scv_overall(), Some(measured));
            assert_eq!(dispersion.is_wide(0), Some(wide), "{name}");
            assert_eq!(dispersion.is_wide_overall(), Some(wide), "{name}");
            assert_eq!(dispersion.is_wide(1), None, "never seen");
        }
    }

    #[test]
    fn types_that_are_alike_within_can_be_far_apart() {
        let mut dispersion = dispersion();
        for _ in 0..1000 {
            record(&mut dispersion, 0, 1, 1000);
            record(&mut dispersion, 1, 1, 100_000);
        }
        let per_type = [0, 1].map(|slot| dispersion.is_wide(slot));
        assert_eq!(per_type, [Some(false), Some(false)]);
        assert_eq!(dispersion.is_wide_overall(), Some(true));
    }

    #[test]
    fn sums_over_several_requests_count_only_overall() {
        let mut dispersion = dispersion();
        for _ in 0..100 {
            record(&mut dispersion, 0, 10, 10_000);
            record(&mut dispersion, 1, 1, 1_000);
            record(&mut dispersion, 1, 0, 0);
        }
        assert_eq!((dispersion.scv(0), dispersion.scv(1)), (None, None));
        assert_eq!(dispersion.scv_overall(), Some(0.0));
    }

    #[test]
    fn what_changes_is_forgotten() {
        let mut dispersion = dispersion();
        for draw in 0..10_000 {
            record(&mut dispersion, 0, 1, [1000, 100_000][draw % 2]);
        }
        assert_eq!(dispersion.is_wide(0), Some(true));
        for _ in 0..10_000 {
            record(&mut dispersion, 0, 1, 0);
        }
        assert_eq!(dispersion.is_wide(0), Some(false));
    }
}
