//! Estimates of each type: its service time, its share of the requests, and from both its share of
//! the CPU demand (Perséphone 3, equation 1).
//!
//! Workers' measurements collect in a *window*. A window closes when it has enough samples, or
//! after a time with fewer; its plain means then move the estimates, which are exponentially
//! weighted over windows. A type that was not measured keeps its estimate.

use crate::event::Sample;
use crate::settings::Darc;
use crate::setup::SchedulerSetup;

/// When windows close and how far one moves the estimates.
#[derive(Debug, Clone, Copy)]
struct Windows {
    samples_min: u64,
    age_max_ns: u64,
    aged_samples_min: u64,
    weight: f64,
}

/// The measurements of one type in one window.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    count: u64,
    service_ns: u64,
}

/// The estimates of one type.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    hint_ns: Option<f64>,
    measured_ns: Option<f64>,
    /// Mean of the last window that had samples.
    latest_ns: Option<f64>,
    share: f64,
    demand: f64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Profile {
    windows: Windows,
    /// Per type slot, `UNKNOWN` last.
    window: Vec<Measured>,
    samples: u64,
    /// Time of the first event of the window.
    opened_ns: Option<u64>,
    /// How many windows with samples were closed.
    closed: u64,
    estimates: Vec<Estimate>,
}

/// Shortest mean. If the clock is too coarse for a type, the type must not count as free.
const MEAN_NS_MIN: f64 = 1.0;

impl Profile {
    /// A profile that knows the hints of `setup`'s types.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &Darc) -> Self {
        let specs = setup.types.specs();
        let share_hint =
            |share: Option<f64>| share.filter(|share| share.is_finite() && *share >= 0.0);
        let shares_hinted: Vec<Option<f64>> =
            specs.iter().map(|spec| share_hint(spec.share)).collect();
        let hinted_total: f64 = shares_hinted.iter().flatten().sum();
        let others = shares_hinted.iter().filter(|share| share.is_none()).count();
        let share_of_others = (1.0 - hinted_total).max(0.0) / others.max(1) as f64;

        let mut estimates: Vec<Estimate> = specs
            .iter()
            .zip(shares_hinted)
            .map(|(spec, share)| Estimate {
                hint_ns: spec
                    .service_time
                    .map(|time| (time.as_nanos() as f64).max(MEAN_NS_MIN)),
                measured_ns: None,
                latest_ns: None,
                share: share.unwrap_or(share_of_others) / hinted_total.max(1.0),
                demand: 0.0,
            })
            .collect();
        estimates.push(Estimate {
            hint_ns: None,
            measured_ns: None,
            latest_ns: None,
            share: 0.0,
            demand: 0.0,
        });
        let mut profile = Self {
            windows: Windows {
                samples_min: settings.samples_min.max(1),
                age_max_ns: u64::try_from(settings.window_max.as_nanos()).unwrap_or(u64::MAX),
                aged_samples_min: settings.window_max_samples_min.max(1),
                weight: settings.ewma_weight,
            },
            window: vec![Measured::default(); estimates.len()],
            samples: 0,
            opened_ns: None,
            closed: 0,
            estimates,
        };
        profile.update_demand();
        profile
    }

    /// Adds a worker's measurement of the type at `slot` to the window.
    #[inline]
    pub(crate) fn record(&mut self, slot: usize, sample: &Sample) {
        let measured = &mut self.window[slot];
        measured.count += u64::from(sample.count);
        measured.service_ns = measured.service_ns.saturating_add(sample.service_ns);
        self.samples += u64::from(sample.count);
    }

    /// Whether it is time to close the window.
    #[inline]
    pub(crate) fn window_due(&mut self, now_ns: u64) -> bool {
        let opened_ns = *self.opened_ns.get_or_insert(now_ns);
        self.samples >= self.windows.samples_min
            || (self.samples >= self.windows.aged_samples_min
                && now_ns.saturating_sub(opened_ns) >= self.windows.age_max_ns)
    }

    /// Closes the window if that is due. Says whether it was.
    pub(crate) fn close_window_if_due(&mut self, now_ns: u64) -> bool {
        let due = self.window_due(now_ns);
        if due {
            self.close_window(now_ns);
        }
        due
    }

    /// Moves the estimates by what the window measured and opens the next one.
    ///
    /// The first window replaces the hinted shares, and a type's first measurement replaces its hinted
    /// service time.
    ///
    /// Returns the most by which any type's share of the CPU demand moved.
    pub(crate) fn close_window(&mut self, now_ns: u64) -> f64 {
        self.opened_ns = Some(now_ns);
        if self.samples == 0 {
            return 0.0;
        }
        let weight = self.windows.weight;
        let weight_of_share = if self.closed > 0 { weight } else { 1.0 };
        for (estimate, measured) in self.estimates.iter_mut().zip(&mut self.window) {
            let share = measured.count as f64 / self.samples as f64;
            estimate.share = blend(estimate.share, share, weight_of_share);
            if measured.count > 0 {
                let mean_ns = (measured.service_ns as f64 / measured.count as f64).max(MEAN_NS_MIN);
                estimate.latest_ns = Some(mean_ns);
                estimate.measured_ns = Some(
                    estimate
                        .measured_ns
                        .map_or(mean_ns, |before_ns| blend(before_ns, mean_ns, weight)),
                );
            }
            *measured = Measured::default();
        }
        self.samples = 0;
        self.closed += 1;
        self.update_demand()
    }

    /// How many windows with samples were closed.
    pub(crate) const fn windows_closed(&self) -> u64 {
        self.closed
    }

    /// Mean service time of the type at `slot`: measured, else hinted, else not known.
    pub(crate) fn mean_ns(&self, slot: usize) -> Option<f64> {
        let estimate = &self.estimates[slot];
        estimate.measured_ns.or(estimate.hint_ns)
    }

    /// Like [`Profile::mean_ns`], but by the last window alone that measured the type.
    pub(crate) fn latest_ns(&self, slot: usize) -> Option<f64> {
        let estimate = &self.estimates[slot];
        estimate.latest_ns.or(estimate.hint_ns)
    }

    /// Like [`Profile::mean_ns`], but a hint takes precedence over measurements.
    pub(crate) fn hinted_ns(&self, slot: usize) -> Option<f64> {
        let estimate = &self.estimates[slot];
        estimate.hint_ns.or(estimate.measured_ns)
    }

    /// Share of the type at `slot` in all requests.
    pub(crate) fn share(&self, slot: usize) -> f64 {
        self.estimates[slot].share
    }

    /// Share of the type at `slot` in the CPU demand of all registered types.
    pub(crate) fn demand(&self, slot: usize) -> f64 {
        self.estimates[slot].demand
    }

    /// Number of registered types, which is also the slot of `UNKNOWN`.
    pub(crate) fn types(&self) -> usize {
        self.estimates.len() - 1
    }

    /// Returns the most by which it changed.
    fn update_demand(&mut self) -> f64 {
        let types = self.types();
        let work_ns =
            |profile: &Self, slot| profile.mean_ns(slot).unwrap_or(0.0) * profile.share(slot);
        let total_ns: f64 = (0..types).map(|slot| work_ns(self, slot)).sum();
        let mut moved_max = 0.0_f64;
        for slot in 0..types {
            let demand = if total_ns > 0.0 {
                work_ns(self, slot) / total_ns
            } else {
                0.0
            };
            let before = std::mem::replace(&mut self.estimates[slot].demand, demand);
            moved_max = moved_max.max((demand - before).abs());
        }
        moved_max
    }
}

/// Exponentially weighted moving average: `weight` of the new value.
pub(crate) fn blend(before: f64, now: f64, weight: f64) -> f64 {
    before + (now - before) * weight
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    fn profile_of(specs: Vec<TypeSpec>, settings: &Darc) -> Profile {
        let types: TypeTable = specs.into_iter().collect();
        let setup = SchedulerSetup {
            inline: false,
            workers: 2,
            types: &types,
            queue_capacity: 1,
            preemption: None,
            seed: 0,
        };
        Profile::new(&setup, settings)
    }

    fn record(profile: &mut Profile, slot: usize, count: u32, service_ns: u64) {
        let sample = Sample {
            request_type: RequestType::UNKNOWN,
            count,
            service_ns,
        };
        profile.record(slot, &sample);
    }

    fn hinted(name: &str, micros: u64) -> TypeSpec {
        TypeSpec::new(name).service_time(Duration::from_micros(micros))
    }

    #[test]
    fn types_without_a_share_split_what_is_left() {
        let specs = vec![
            hinted("A", 1).share(0.4),
            hinted("B", 1),
            hinted("C", 1).share(f64::NAN),
        ];
        let profile = profile_of(specs, &Darc::default());
        let shares: Vec<f64> = (0..4).map(|slot| profile.share(slot)).collect();
        assert_eq!(shares, [0.4, 0.3, 0.3, 0.0]);
        assert!((profile.demand(0) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn shares_beyond_one_are_scaled_down() {
        let specs = vec![
            hinted("A", 1).share(3.0),
            hinted("B", 1).share(1.0),
            hinted("C", 1),
        ];
        let profile = profile_of(specs, &Darc::default());
        let shares: Vec<f64> = (0..3).map(|slot| profile.share(slot)).collect();
        assert_eq!(shares, [0.75, 0.25, 0.0]);
    }

    #[test]
    fn estimates_move_by_the_weight_and_unseen_types_keep_theirs() {
        let settings = Darc::default().ewma_weight(0.5);
        let mut profile = profile_of(vec![hinted("A", 7), hinted("B", 9)], &settings);
        record(&mut profile, 0, 10, 10_000);
        profile.close_window(0);
        assert_eq!(profile.mean_ns(0), Some(1000.0), "measured replaces hinted");
        assert_eq!(profile.mean_ns(1), Some(9000.0), "no sample, no change");
        assert_eq!((profile.share(0), profile.share(1)), (1.0, 0.0));

        record(&mut profile, 0, 5, 15_000);
        record(&mut profile, 1, 5, 5_000);
        let moved = profile.close_window(1);
        assert!((moved - 1.0 / 7.0).abs() < 1e-12, "A had all the demand");
        assert_eq!(profile.mean_ns(0), Some(2000.0));
        assert_eq!(profile.latest_ns(0), Some(3000.0));
        assert_eq!(profile.mean_ns(1), Some(1000.0));
        assert_eq!((profile.share(0), profile.share(1)), (0.75, 0.25));
        assert_eq!(profile.hinted_ns(0), Some(7000.0));
    }

    #[test]
    fn an_empty_window_changes_nothing() {
        let mut profile = profile_of(vec![hinted("A", 7)], &Darc::default());
        assert_eq!(profile.close_window(5), 0.0);
        assert_eq!(profile.mean_ns(0), Some(7000.0));
        assert_eq!((profile.share(0), profile.demand(0)), (1.0, 1.0));
    }

    #[test]
    fn a_window_is_due_by_samples_or_by_age() {
        let settings = Darc::default()
            .samples_min(100)
            .window_max(Duration::from_nanos(1000))
            .window_max_samples_min(10);
        let mut profile = profile_of(vec![TypeSpec::new("A")], &settings);
        assert!(
            !profile.window_due(5_000),
            "age counts from the first event"
        );
        record(&mut profile, 0, 9, 9);
        assert!(!profile.window_due(6_000), "too few samples");
        record(&mut profile, 0, 1, 1);
        assert!(!profile.window_due(5_999), "too young");
        assert!(profile.window_due(6_000));
        profile.close_window(6_000);
        record(&mut profile, 0, 100, 100);
        assert!(profile.window_due(6_000), "enough samples at any age");
    }

    #[test]
    fn a_clock_that_reads_zero_makes_no_type_free() {
        let mut profile = profile_of(
            vec![TypeSpec::new("A"), TypeSpec::new("B")],
            &Darc::default(),
        );
        record(&mut profile, 0, 10, 0);
        profile.close_window(0);
        assert_eq!(profile.mean_ns(0), Some(1.0));
        assert_eq!(profile.mean_ns(1), None);
        assert_eq!((profile.demand(0), profile.demand(1)), (1.0, 0.0));
    }
}
