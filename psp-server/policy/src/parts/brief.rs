//! Types whose requests are brief: they travel in one run of pipelined requests, whatever their types. A hand-over to a
//! worker and back may take longer than such a request.

use crate::event::Sample;
use crate::request_type::RequestType;
use crate::setup::SchedulerSetup;

/// The longest mean of a brief type, in nanoseconds: a driver has the rest of a run wait again after about as long.
const BRIEF_NS_MAX: f64 = 50_000.0;
/// By which part of its distance to a new measurement a mean moves.
const WEIGHT: f64 = 1.0 / 8.0;

/// See the [module](self). For policies by which any worker runs requests of all types alike.
#[derive(Debug)]
pub(crate) struct Brief {
    /// Per type slot, `UNKNOWN` last.
    types: Vec<Length>,
}

/// What is known of the requests of a type.
#[derive(Debug, Clone, Copy)]
enum Length {
    /// They travel with their like alone.
    Alone,
    Unknown,
    Mean(f64),
}

impl Brief {
    /// Knows the hints of `setup`'s types.
    pub(crate) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let specs = setup.types.specs().iter();
        let types = specs.map(|spec| match spec.service_time {
            _ if spec.is_never_grouped() => Length::Alone,
            Some(hint) => Length::Mean(hint.as_nanos() as f64),
            None => Length::Unknown,
        });
        Self {
            types: types.chain([Length::Alone]).collect(),
        }
    }

    /// Takes a worker's measurement of the type at `slot`.
    #[inline]
    pub(crate) fn record(&mut self, slot: usize, sample: &Sample) {
        let latest_ns = sample.service_ns as f64 / f64::from(sample.count.max(1));
        let length = &mut self.types[slot];
        match length {
            Length::Alone => {}
            Length::Unknown => *length = Length::Mean(latest_ns),
            Length::Mean(mean_ns) => *mean_ns += (latest_ns - *mean_ns) * WEIGHT,
        }
    }

    /// Whether requests of two types may travel in one run: the types are the same, or both are brief.
    pub(crate) fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        first == next || (self.is_brief(first) && self.is_brief(next))
    }

    fn is_brief(&self, request_type: RequestType) -> bool {
        let length = request_type.index().and_then(|index| self.types.get(index));
        matches!(length, Some(Length::Mean(mean_ns)) if *mean_ns <= BRIEF_NS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rehearsal::setup;
    use crate::request_type::{TypeSpec, TypeTable};

    #[test]
    fn brief_types_travel_together_as_soon_as_they_are_known() {
        let types: TypeTable = [
            TypeSpec::new("GET").service_time(Duration::from_micros(1)),
            TypeSpec::new("SET"),
            TypeSpec::new("KEYS").service_time(Duration::from_millis(1)),
            TypeSpec::new("INFO")
                .service_time(Duration::from_micros(1))
                .never_grouped(),
        ]
        .into_iter()
        .collect();
        let mut brief = Brief::new(&setup(1, &types));
        let [get, set, keys, info] = [0, 1, 2, 3].map(RequestType::new);
        let with_get = |brief: &Brief| {
            [get, set, keys, info, RequestType::UNKNOWN].map(|next| brief.same_run(get, next))
        };
        assert_eq!(with_get(&brief), [true, false, false, false, false]);
        let mut measured = |slot, service_us: u64| {
            let sample = Sample {
                request_type: RequestType::new(slot),
                count: 10,
                service_ns: 10_000 * service_us,
            };
            brief.record(slot as usize, &sample);
        };
        (0..4).for_each(|slot| measured(slot, 2));
        (0..20).for_each(|_| measured(2, 1_000));
        measured(4, 2);
        assert_eq!(with_get(&brief), [true, true, false, false, false]);
        assert!(brief.same_run(RequestType::UNKNOWN, RequestType::UNKNOWN));
    }
}
