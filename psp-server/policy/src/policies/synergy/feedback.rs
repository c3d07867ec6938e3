//! Which requests are long: this stands in for what applications tell Synergy (II-A, algorithm 1).
//!
//! There, an application classifies a request when it begins it, and tells Synergy if it is long.
//! Here, the classifier has named the request's type before, and the type's mean service time decides
//! (measured; until then the hint). A type is long when its mean is more than `long_factor` times
//! that of the shortest type. A request of unknown length is long, too: Synergy never preempts a
//! short request, and an unknown one may be of any length.

use crate::event::Sample;
use crate::parts::profile::Profile;
use crate::settings::Darc;
use crate::setup::SchedulerSetup;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Feedback {
    pub(crate) profile: Profile,
    long_factor: f64,
    /// Per type slot.
    long: Vec<bool>,
}

impl Feedback {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, long_factor: f64) -> Self {
        let mut feedback = Self {
            profile: Profile::new(setup, &Darc::default()),
            long_factor,
            long: vec![true; setup.types.len() + 1],
        };
        feedback.classify();
        feedback
    }

    /// Whether requests of the type at `slot` can be preempted.
    pub(crate) fn is_long(&self, slot: usize) -> bool {
        self.long[slot]
    }

    /// Adds what a worker measured of the type at `slot`.
    pub(crate) fn record(&mut self, slot: usize, sample: &Sample) {
        self.profile.record(slot, sample);
    }

    /// Time passes. Types are told apart anew when a window of measurements closes.
    pub(crate) fn passes(&mut self, now_ns: u64) {
        // Shares do not matter here.
        if self.profile.close_window_if_due(now_ns, |_| 0).is_some() {
            self.classify();
        }
    }

    fn classify(&mut self) {
        let Self {
            profile,
            long_factor,
            long,
        } = self;
        let types = profile.types();
        let means = (0..types).filter_map(|slot| profile.mean_ns(slot));
        let shortest_ns = means.fold(f64::INFINITY, f64::min);
        for (slot, long) in long.iter_mut().take(types).enumerate() {
            let mean_ns = profile.mean_ns(slot);
            *long = mean_ns.is_none_or(|mean_ns| mean_ns > *long_factor * shortest_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rehearsal::setup;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    fn feedback(specs: Vec<TypeSpec>) -> Feedback {
        let types: TypeTable = specs.into_iter().collect();
        Feedback::new(&setup(1, &types), 10.0)
    }

    fn long(feedback: &Feedback) -> Vec<bool> {
        let slots = feedback.profile.types() + 1;
        (0..slots).map(|slot| feedback.is_long(slot)).collect()
    }

    #[test]
    fn hints_tell_long_from_short_and_without_any_all_are_long() {
        let hinted = |micros| TypeSpec::new("T").service_time(Duration::from_micros(micros));
        let specs = vec![hinted(10), hinted(100), TypeSpec::new("T"), hinted(101)];
        assert_eq!(long(&feedback(specs)), [false, false, true, true, true]);
        assert_eq!(long(&feedback(vec![TypeSpec::new("T")])), [true, true]);
    }

    #[test]
    fn what_is_measured_replaces_the_hints() {
        let mut feedback = feedback(vec![TypeSpec::new("A"), TypeSpec::new("B")]);
        for (slot, mean_ns) in [(0, 50_000), (1, 1_000)] {
            let count = 16;
            let sample = Sample {
                request_type: RequestType::UNKNOWN,
                count,
                service_ns: u64::from(count) * mean_ns,
            };
            assert_eq!(long(&feedback), [true; 3]);
            feedback.record(slot, &sample);
            feedback.passes(1);
        }
        assert_eq!(long(&feedback), [true, false, true]);
    }
}
