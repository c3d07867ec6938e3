//! Estimates of each type: its service time, its share of the requests, and from both its share of
//! the CPU demand (Perséphone 3, equation 1).
//!
//! Workers' measurements collect in a *window*. A window closes when it has enough samples, or
//! after a time with fewer; its plain means then move the estimates, which are exponentially
//! weighted over windows. A type that was not measured keeps its estimate.
//!
//! A type that has neither a hint nor a measurement of a closed window is *new*. While new types have
//! samples the estimates do not wait for the window: the profile *looks* into it, and takes the means
//! as they stand. These estimates are provisional, and replaced at the next look, each with twice as many
//! samples as the one before, or when the window closes:
//!
//! ```text
//!   samples of new types   0  32   64         128                    256     ...    the whole window
//!                          ├───┼────┼──────────┼──────────────────────┼─────── ... ─────┤
//!                            look  look       look                   look             close
//! ```
//!
//! The first samples are those of requests that ended early, so they have fewer long requests than
//! arrived, and a reservation that is too small for a type holds up what would mend it. So requests that
//! wait or run count towards the shares as if they had ended: at a look, and when such a window closes.

use std::time::Duration;

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
    /// When the profile looks into a window that has samples of new types.
    first_samples_min: u64,
    first_age_max_ns: u64,
}

/// What the profile learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Learned {
    /// Estimates from a look into the open window.
    Provisional,
    /// Those of a window that closed.
    Window {
        /// The most by which any type's share of the CPU demand moved.
        moved: f64,
    },
}

/// The measurements of one type in one window.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    count: u64,
    service_ns: u64,
}

impl Measured {
    /// `None` without samples.
    fn mean_ns(self) -> Option<f64> {
        let mean_ns = self.service_ns as f64 / self.count as f64;
        (self.count > 0).then_some(mean_ns.max(MEAN_NS_MIN))
    }
}

/// The estimates of one type.
#[derive(Debug, Clone, Copy, Default)]
struct Estimate {
    hint_ns: Option<f64>,
    measured_ns: Option<f64>,
    /// Mean of the last window that had samples.
    latest_ns: Option<f64>,
    /// Mean of a new type, by the last look into the open window.
    provisional_ns: Option<f64>,
    /// By the closed windows.
    share_closed: f64,
    /// By the closed windows, or the last look.
    share: f64,
    demand: f64,
    /// Requests of the type reach no policy.
    is_control: bool,
}

impl Estimate {
    /// Neither hinted nor measured by a closed window.
    const fn is_new(&self) -> bool {
        self.hint_ns.is_none() && self.measured_ns.is_none()
    }

    fn mean_ns(&self) -> Option<f64> {
        self.measured_ns.or(self.provisional_ns).or(self.hint_ns)
    }
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
    /// Samples of the last one.
    samples_closed: u64,
    /// Samples of new types in the window.
    samples_new: u64,
    /// As many of them call for a look.
    next_look: u64,
    /// Some type that has a sample in the window had no length at the last look.
    any_unseen: bool,
    /// How many registered types have no length, and requests that reach the policy.
    unknown: usize,
    estimates: Vec<Estimate>,
}

/// Shortest mean. If the clock is too coarse for a type, the type must not count as free.
const MEAN_NS_MIN: f64 = 1.0;

impl Profile {
    /// A profile that knows the hints of `setup`'s types.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &Darc) -> Self {
        let specs = setup.types.specs();
        let share_hint = |share: Option<f64>| share.filter(|share| share.is_finite() && *share >= 0.0);
        let shares_hinted: Vec<Option<f64>> = { specs.iter() }
            .map(|spec| match spec.is_control() {
                true => Some(0.0),
                false => share_hint(spec.share),
            })
            .collect();
        let hinted_total: f64 = shares_hinted.iter().flatten().sum();
        let others = shares_hinted.iter().filter(|share| share.is_none()).count();
        let share_of_others = (1.0 - hinted_total).max(0.0) / others.max(1) as f64;

        let mut estimates: Vec<Estimate> = specs
            .iter()
            .zip(shares_hinted)
            .map(|(spec, share)| Estimate {
                hint_ns: { spec.service_time }
                    .filter(|_| !spec.is_control())
                    .map(|time| (time.as_nanos() as f64).max(MEAN_NS_MIN)),
                share_closed: share.unwrap_or(share_of_others) / hinted_total.max(1.0),
                is_control: spec.is_control(),
                ..Estimate::default()
            })
            .collect();
        estimates.push(Estimate::default());
        for estimate in &mut estimates {
            estimate.share = estimate.share_closed;
        }
        let mut profile = Self {
            windows: Windows {
                samples_min: settings.samples_min.max(1),
                age_max_ns: nanoseconds(settings.window_max),
                aged_samples_min: settings.window_max_samples_min.max(1),
                weight: settings.ewma_weight,
                first_samples_min: settings.first_samples_min.max(1),
                first_age_max_ns: nanoseconds(settings.first_window_max),
            },
            window: vec![Measured::default(); estimates.len()],
            samples: 0,
            opened_ns: None,
            closed: 0,
            samples_closed: 0,
            samples_new: 0,
            next_look: settings.first_samples_min.max(1),
            any_unseen: false,
            unknown: 0,
            estimates,
        };
        profile.update_demand();
        profile.count_unknown();
        profile
    }

    /// Adds a worker's measurement of the type at `slot` to the window.
    #[inline]
    pub(crate) fn record(&mut self, slot: usize, sample: &Sample) {
        let measured = &mut self.window[slot];
        measured.count += u64::from(sample.count);
        measured.service_ns = measured.service_ns.saturating_add(sample.service_ns);
        self.samples += u64::from(sample.count);
        let estimate = &self.estimates[slot];
        if slot < self.types() && estimate.is_new() && sample.count > 0 {
            self.samples_new += u64::from(sample.count);
            self.any_unseen |= estimate.provisional_ns.is_none();
        }
    }

    /// Closes the window, or looks into it, if either is due. `in_system` says how many requests of the type
    /// at a slot wait or run.
    #[inline]
    pub(crate) fn close_window_if_due(&mut self, now_ns: u64, in_system: impl Fn(usize) -> u64) -> Option<Learned> {
        if self.window_due(now_ns) {
            let moved = self.close_window(now_ns, in_system);
            return Some(Learned::Window { moved });
        }
        if self.look_due(now_ns) {
            self.look(in_system);
            return Some(Learned::Provisional);
        }
        None
    }

    /// Whether it is time to close the window.
    #[inline]
    fn window_due(&mut self, now_ns: u64) -> bool {
        let age_ns = self.age_ns(now_ns);
        self.samples >= self.windows.samples_min
            || (self.samples >= self.windows.aged_samples_min && age_ns >= self.windows.age_max_ns)
    }

    /// Whether it is time for a look into the window.
    #[inline]
    fn look_due(&mut self, now_ns: u64) -> bool {
        self.samples_new >= self.next_look || (self.any_unseen && self.age_ns(now_ns) >= self.windows.first_age_max_ns)
    }

    /// For how long the window has been open.
    #[inline]
    fn age_ns(&mut self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(*self.opened_ns.get_or_insert(now_ns))
    }

    /// Takes the means of new types, and all shares, from the window as it stands. The shares are those
    /// of the last closed window and this one together.
    fn look(&mut self, in_system: impl Fn(usize) -> u64) {
        let arrived = |slot: usize| self.window[slot].count + in_system(slot);
        let total: u64 = (0..self.window.len()).map(arrived).sum();
        let before = self.samples_closed as f64;
        for (slot, estimate) in self.estimates.iter_mut().enumerate() {
            let measured = self.window[slot];
            let count = estimate.share_closed * before + arrived(slot) as f64;
            estimate.share = count / (before + total as f64);
            if estimate.is_new() {
                estimate.provisional_ns = measured.mean_ns();
            }
        }
        self.next_look = self.samples_new.saturating_mul(2);
        self.note_look();
        self.update_demand();
    }

    fn note_look(&mut self) {
        self.any_unseen = false;
        self.count_unknown();
    }

    fn count_unknown(&mut self) {
        let types = self.estimates[..self.types()].iter();
        self.unknown = types.filter(|estimate| estimate.mean_ns().is_none() && !estimate.is_control).count();
    }

    /// Moves the estimates by what the window measured and opens the next one.
    ///
    /// The first window replaces the hinted shares, and a type's first measurement replaces its hinted
    /// service time.
    ///
    /// Returns the most by which any type's share of the CPU demand moved.
    fn close_window(&mut self, now_ns: u64, in_system: impl Fn(usize) -> u64) -> f64 {
        self.opened_ns = Some(now_ns);
        if self.samples == 0 {
            return 0.0;
        }
        let weight = self.windows.weight;
        let weight_of_share = if self.closed > 0 { weight } else { 1.0 };
        // What ended under provisional reservations is no fair part of what arrived.
        let provisional = self.samples_new > 0;
        let waits = |slot| if provisional { in_system(slot) } else { 0 };
        let waiting: u64 = (0..self.window.len()).map(waits).sum();
        let total = (self.samples + waiting) as f64;
        let measured = self.window.iter_mut().enumerate();
        for (estimate, (slot, measured)) in self.estimates.iter_mut().zip(measured) {
            let share = (measured.count + waits(slot)) as f64 / total;
            estimate.share_closed = blend(estimate.share_closed, share, weight_of_share);
            estimate.share = estimate.share_closed;
            if let Some(mean_ns) = measured.mean_ns() {
                estimate.latest_ns = Some(mean_ns);
                estimate.measured_ns =
                    Some(estimate.measured_ns.map_or(mean_ns, |before_ns| blend(before_ns, mean_ns, weight)));
            }
            *measured = Measured::default();
        }
        self.samples_closed = std::mem::take(&mut self.samples);
        self.closed += 1;
        self.samples_new = 0;
        self.next_look = self.windows.first_samples_min;
        self.note_look();
        self.update_demand()
    }

    /// Whether the length of any registered type is unknown.
    pub(crate) const fn any_unknown(&self) -> bool {
        self.unknown > 0
    }

    /// Whether the type at `slot` is registered, of unknown length, and without a sample in the window.
    pub(crate) fn is_untried(&self, slot: usize) -> bool {
        slot < self.types() && self.mean_ns(slot).is_none() && self.window[slot].count == 0
    }

    /// Whether the type at `slot` is registered, and hinted or measured.
    pub(crate) fn knows_length(&self, slot: usize) -> bool {
        slot < self.types() && self.mean_ns(slot).is_some()
    }

    /// Mean service time of the type at `slot`: measured, else hinted, else not known.
    pub(crate) fn mean_ns(&self, slot: usize) -> Option<f64> {
        self.estimates[slot].mean_ns()
    }

    /// Like [`Profile::mean_ns`], but by the last window alone that measured the type.
    pub(crate) fn latest_ns(&self, slot: usize) -> Option<f64> {
        let estimate = &self.estimates[slot];
        estimate.latest_ns.or(estimate.provisional_ns).or(estimate.hint_ns)
    }

    /// Like [`Profile::mean_ns`], but a hint takes precedence over measurements.
    pub(crate) fn hinted_ns(&self, slot: usize) -> Option<f64> {
        self.estimates[slot].hint_ns.or(self.mean_ns(slot))
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
        let work_ns = |profile: &Self, slot| profile.mean_ns(slot).unwrap_or(0.0) * profile.share(slot);
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

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Exponentially weighted moving average: `weight` of the new value.
pub(crate) fn blend(before: f64, now: f64, weight: f64) -> f64 {
    before + (now - before) * weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::setup;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    fn profile_of(specs: Vec<TypeSpec>, settings: &Darc) -> Profile {
        let types: TypeTable = specs.into_iter().collect();
        Profile::new(&setup(2, &types), settings)
    }

    fn record(profile: &mut Profile, slot: usize, count: u32, service_ns: u64) {
        let sample = Sample { request_type: RequestType::UNKNOWN, count, service_ns };
        profile.record(slot, &sample);
    }

    fn hinted(name: &str, micros: u64) -> TypeSpec {
        TypeSpec::new(name).service_time(Duration::from_micros(micros))
    }

    #[test]
    fn types_without_a_share_split_what_is_left() {
        let specs = vec![hinted("A", 1).share(0.4), hinted("B", 1), hinted("C", 1).share(f64::NAN)];
        let profile = profile_of(specs, &Darc::default());
        let shares: Vec<f64> = (0..4).map(|slot| profile.share(slot)).collect();
        assert_eq!(shares, [0.4, 0.3, 0.3, 0.0]);
        assert!((profile.demand(0) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn what_waits_counts_until_every_type_was_measured_and_unknown_ones_have_no_length() {
        let mut profile =
            profile_of(["A", "B"].map(TypeSpec::new).into(), &Darc::default().samples_min(8).ewma_weight(1.0));
        assert_eq!([0, 1].map(|slot| profile.demand(slot)), [0.0; 2], "no length is known");
        for (counts, shares) in [([4, 4, 0], [0.4, 0.6, 0.0]), ([3, 3, 2], [0.375, 0.375, 0.25])] {
            for (slot, count) in counts.into_iter().enumerate() {
                record(&mut profile, slot, count, 1_000 * u64::from(count));
            }
            let learned = profile.close_window_if_due(1, |slot| if slot == 1 { 2 } else { 0 });
            assert!(matches!(learned, Some(Learned::Window { .. })));
            assert_eq!([0, 1, 2].map(|slot| profile.share(slot)), shares);
        }
        assert_eq!([0, 1, 2].map(|slot| profile.knows_length(slot)), [true, true, false]);
    }

    #[test]
    fn a_control_type_has_no_share_and_no_length_and_is_not_waited_for() {
        let specs = vec![
            hinted("A", 1),
            hinted("PING", 1).share(0.4).control(),
            TypeSpec::new("INFO").control(),
            hinted("B", 1),
        ];
        let profile = profile_of(specs, &Darc::default());
        let shares: Vec<f64> = (0..4).map(|slot| profile.share(slot)).collect();
        assert_eq!(shares, [0.5, 0.0, 0.0, 0.5]);
        assert_eq!([1, 2].map(|slot| profile.mean_ns(slot)), [None; 2]);
        assert!(!profile.any_unknown());
    }

    #[test]
    fn shares_beyond_one_are_scaled_down() {
        let specs = vec![hinted("A", 1).share(3.0), hinted("B", 1).share(1.0), hinted("C", 1)];
        let profile = profile_of(specs, &Darc::default());
        let shares: Vec<f64> = (0..3).map(|slot| profile.share(slot)).collect();
        assert_eq!(shares, [0.75, 0.25, 0.0]);
    }

    #[test]
    fn estimates_move_by_the_weight_and_unseen_types_keep_theirs() {
        let settings = Darc::default().ewma_weight(0.5);
        let mut profile = profile_of(vec![hinted("A", 7), hinted("B", 9)], &settings);
        record(&mut profile, 0, 10, 10_000);
        profile.close_window(0, |_| 0);
        assert_eq!(profile.mean_ns(0), Some(1000.0), "measured replaces hinted");
        assert_eq!(profile.mean_ns(1), Some(9000.0), "no sample, no change");
        assert_eq!((profile.share(0), profile.share(1)), (1.0, 0.0));

        record(&mut profile, 0, 5, 15_000);
        record(&mut profile, 1, 5, 5_000);
        let moved = profile.close_window(1, |_| 0);
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
        assert_eq!(profile.close_window(5, |_| 0), 0.0);
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
        assert!(!profile.window_due(5_000), "age counts from the first event");
        record(&mut profile, 0, 9, 9);
        assert!(!profile.window_due(6_000), "too few samples");
        record(&mut profile, 0, 1, 1);
        assert!(!profile.window_due(5_999), "too young");
        assert!(profile.window_due(6_000));
        profile.close_window(6_000, |_| 0);
        record(&mut profile, 0, 100, 100);
        assert!(profile.window_due(6_000), "enough samples at any age");
    }

    #[test]
    fn a_clock_that_reads_zero_makes_no_type_free() {
        let mut profile = profile_of(vec![TypeSpec::new("A"), TypeSpec::new("B")], &Darc::default());
        record(&mut profile, 0, 10, 0);
        profile.close_window(0, |_| 0);
        assert_eq!(profile.mean_ns(0), Some(1.0));
        assert_eq!(profile.mean_ns(1), None);
        assert_eq!((profile.demand(0), profile.demand(1)), (1.0, 0.0));
    }

    fn looks() -> Darc {
        Darc::default()
            .first_samples_min(4)
            .first_window_max(Duration::from_nanos(1000))
            .samples_min(100)
    }

    /// One more sample; whether the profile looked, with these requests in the system.
    fn looked(profile: &mut Profile, now_ns: u64, slot: usize, in_system: [u64; 3]) -> bool {
        record(profile, slot, 1, [10, 90][slot]);
        let learned = profile.close_window_if_due(now_ns, |slot| in_system[slot]);
        assert!(!matches!(learned, Some(Learned::Window { .. })));
        learned.is_some()
    }

    #[test]
    fn new_types_are_looked_at_with_twice_as_many_samples_each_time() {
        let mut profile = profile_of(vec![TypeSpec::new("A"), TypeSpec::new("B")], &looks());
        let looks: Vec<usize> = (1..100).filter(|nth| looked(&mut profile, 0, nth % 2, [0; 3])).collect();
        assert_eq!(looks, [4, 8, 16, 32, 64]);
        assert_eq!((profile.mean_ns(0), profile.mean_ns(1)), (Some(10.0), Some(90.0)));
        assert_eq!((profile.demand(0), profile.share(1)), (0.1, 0.5));
        record(&mut profile, 0, 100, 0);
        let closed = profile.close_window_if_due(0, |_| 0);
        assert!(matches!(closed, Some(Learned::Window { .. })));
        assert!(!looked(&mut profile, 5_000, 0, [0; 3]), "A is not new any more");
    }

    #[test]
    fn at_a_look_requests_in_the_system_count_towards_the_shares() {
        let mut profile = profile_of(vec![TypeSpec::new("A"), TypeSpec::new("B")], &looks());
        for nth in 1..=4 {
            assert_eq!(looked(&mut profile, 0, 0, [1, 5, 0]), nth == 4);
        }
        assert_eq!((profile.share(0), profile.share(1)), (0.5, 0.5));
        assert!(profile.any_unknown() && profile.is_untried(1) && !profile.is_untried(0));
        assert!(profile.knows_length(0) && !profile.knows_length(1));
        assert!(!profile.is_untried(2), "UNKNOWN never is");
    }

    #[test]
    fn a_type_without_a_length_is_looked_at_by_age_with_one_sample() {
        let mut profile = profile_of(vec![TypeSpec::new("A"), TypeSpec::new("B")], &looks());
        assert!(!looked(&mut profile, 500, 0, [0; 3]));
        assert!(profile.close_window_if_due(1_499, |_| 0).is_none());
        assert!(profile.close_window_if_due(1_500, |_| 0).is_some());
        assert!(looked(&mut profile, 1_600, 0, [0; 3]), "twice as many");
        assert!(!looked(&mut profile, 9_000, 0, [0; 3]), "its length is known");
        assert!(looked(&mut profile, 9_000, 1, [0; 3]), "B is unseen");
    }

    #[test]
    fn a_type_that_comes_late_moves_the_shares_no_more_than_it_weighs() {
        let mut profile = profile_of(vec![hinted("A", 1), TypeSpec::new("B")], &looks());
        record(&mut profile, 0, 99, 99_000);
        assert_eq!(profile.close_window_if_due(0, |_| 0), None, "A is not new");
        record(&mut profile, 0, 1, 1_000);
        assert!(profile.close_window_if_due(0, |_| 0).is_some());
        assert!(looked(&mut profile, 2_000, 1, [0; 3]));
        assert!((profile.share(1) - 1.0 / 101.0).abs() < 1e-12);
        assert_eq!(profile.mean_ns(1), Some(90.0));
        assert_eq!(profile.mean_ns(0), Some(1_000.0));
    }
}
