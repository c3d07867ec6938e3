//! Which types of requests are long, by what all workers have measured: those that take
//! [`long_us`](crate::Config::long_us) or more on average. By default that is several times as long as handing a port
//! to another worker and getting it back.

use crate::shared::Shared;
use crate::telemetry::Telemetry;

/// What is known of the requests of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Unknown,
    Short,
    Long,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Lengths {
    /// Per type slot, `UNKNOWN` last.
    types: Vec<Length>,
}

impl Lengths {
    /// Nothing is known.
    pub(crate) fn new(type_slots: usize) -> Self {
        Self { types: vec![Length::Unknown; type_slots] }
    }

    /// Takes what has been measured by now: the `mean_ns` of the requests of each slot.
    pub(crate) fn measure(&mut self, shared: &Shared, mean_ns: fn(&Telemetry, usize) -> f64) {
        let long_ns = shared.config.long_us as f64 * 1e3;
        for (slot, length) in self.types.iter_mut().enumerate() {
            *length = match mean_ns(&shared.telemetry, slot) {
                0.0 => Length::Unknown,
                mean_ns if mean_ns < long_ns => Length::Short,
                _ => Length::Long,
            };
        }
    }

    /// How long requests of the type at `slot` are.
    #[inline]
    pub(crate) fn of(&self, slot: usize) -> Length {
        self.types[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use psp_policy::TypeSpec;

    #[test]
    fn types_are_of_unknown_length_until_they_were_measured() {
        let types = [TypeSpec::new("GET"), TypeSpec::new("KEYS")];
        let shared = Shared::example(Config::default(), types.into_iter().collect(), 2);
        let mut lengths = Lengths::new(3);
        let read = |lengths: &Lengths| [0, 1, 2].map(|slot| lengths.of(slot));
        let (unknown, short, long) = (Length::Unknown, Length::Short, Length::Long);
        lengths.measure(&shared, Telemetry::length_ns_mean);
        assert_eq!(read(&lengths), [unknown; 3]);
        let ([get, keys], [first, second]) = ([0, 1], [0, 1]);
        let measured = |worker: usize, slot: usize, service_ns| {
            let work = &shared.telemetry.workers[worker].types[slot].0;
            work.completions.add(1);
            work.service_ns.add(service_ns);
        };
        measured(first, get, 2_000);
        measured(first, keys, 2_000);
        lengths.measure(&shared, Telemetry::length_ns_mean);
        assert_eq!(read(&lengths), [short, short, unknown]);
        measured(second, keys, 300_000);
        lengths.measure(&shared, Telemetry::length_ns_mean);
        assert_eq!(read(&lengths), [short, long, unknown], "a mean of all");
        let starved = &shared.telemetry.workers[second].types[keys].0.starved_ns;
        starved.add(290_000);
        lengths.measure(&shared, Telemetry::length_ns_mean);
        assert_eq!(read(&lengths), [short, short, unknown], "others had the core");
    }
}
