//! Which requests are long: this stands in for what applications tell Synergy (II-A, algorithm 1).
//!
//! There, an application classifies a request when it begins it, and tells Synergy if it is long.
//! Here, the classifier has named the request's type before, and the type's mean service time decides
//! (measured; until then the hint). A type is long when its mean is more than `long_factor` times
//! that of the shortest type. A request of unknown length is long, too: Synergy never preempts a
//! short request, and an unknown one may be of any length.

use crate::distributed::{Feedback, InSystem, Knowledge, Word};
use crate::event::Sample;
use crate::parts::profile::Profile;
use crate::scheduler::TypeStatus;
use crate::settings::Darc;
use crate::setup::SchedulerSetup;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct LongTypes {
    profile: Profile,
    long_factor: f64,
}

impl LongTypes {
    pub(crate) fn new<C: Word>(setup: &SchedulerSetup<'_>, long_factor: f64, knowledge: &Knowledge<C>) -> Self {
        let feedback = Self { profile: Profile::new(setup, &Darc::default()), long_factor };
        feedback.classify(knowledge);
        feedback
    }

    fn classify<C: Word>(&self, knowledge: &Knowledge<C>) {
        let Self { profile, long_factor } = self;
        let types = profile.types();
        let means = (0..types).filter_map(|slot| profile.mean_ns(slot));
        let shortest_ns = means.fold(f64::INFINITY, f64::min);
        for slot in 0..types {
            let mean_ns = profile.mean_ns(slot);
            let long = mean_ns.is_none_or(|mean_ns| mean_ns > long_factor * shortest_ns);
            knowledge.set_length(slot, mean_ns, long);
        }
    }
}

impl<C: Word> Feedback<C> for LongTypes {
    fn record(&mut self, slot: usize, sample: &Sample) {
        self.profile.record(slot, sample);
    }

    /// Types are told apart anew when a window of measurements closes.
    fn passes(&mut self, now_ns: u64, _: &dyn InSystem, knowledge: &Knowledge<C>) -> bool {
        // Shares do not matter here.
        if self.profile.close_window_if_due(now_ns, |_| 0).is_some() {
            self.classify(knowledge);
        }
        false
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        TypeStatus {
            service_ns_mean: self.profile.mean_ns(slot).unwrap_or(0.0),
            share: self.profile.share(slot),
            ..TypeStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::distributed::{EmptySystem, Plain};
    use crate::rehearsal::setup;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    fn feedback(specs: Vec<TypeSpec>) -> (LongTypes, Knowledge<Plain>) {
        let types: TypeTable = specs.into_iter().collect();
        let knowledge = Knowledge::new(types.len(), 1);
        let feedback = LongTypes::new(&setup(1, &types), 10.0, &knowledge);
        (feedback, knowledge)
    }

    fn long(knowledge: &Knowledge<Plain>) -> Vec<bool> {
        let slots = 0..knowledge.slots();
        slots.map(|slot| knowledge.is_long(slot)).collect()
    }

    #[test]
    fn hints_tell_long_from_short_and_without_any_all_are_long() {
        let hinted = |micros| TypeSpec::new("T").service_time(Duration::from_micros(micros));
        let specs = vec![hinted(10), hinted(100), TypeSpec::new("T"), hinted(101)];
        assert_eq!(long(&feedback(specs).1), [false, false, true, true, true]);
        assert_eq!(long(&feedback(vec![TypeSpec::new("T")]).1), [true, true]);
    }

    #[test]
    fn what_is_measured_replaces_the_hints() {
        let (mut feedback, knowledge) = feedback(vec![TypeSpec::new("A"), TypeSpec::new("B")]);
        for (slot, mean_ns) in [(0, 50_000), (1, 1_000)] {
            let count = 16;
            let sample = Sample {
                request_type: RequestType::UNKNOWN,
                count,
                service_ns: u64::from(count) * mean_ns,
            };
            assert_eq!(long(&knowledge), [true; 3]);
            Feedback::<Plain>::record(&mut feedback, slot, &sample);
            feedback.passes(1, &EmptySystem, &knowledge);
        }
        assert_eq!(long(&knowledge), [true, false, true]);
        let status = [0, 1, 2].map(|slot| Feedback::<Plain>::type_status(&feedback, slot));
        assert_eq!(status.map(|of| of.service_ns_mean), [50_000.0, 1_000.0, 0.0]);
        assert!((status[0].share + status[1].share - 1.0).abs() < 1e-9, "{status:?}");
    }
}
