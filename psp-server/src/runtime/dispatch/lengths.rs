//! Which types of requests are long, by what all workers have measured.

use crate::shared::Shared;

/// A request of a type whose service time is at least this on average is long. It takes several times as long as handing
/// a port to another worker and getting it back.
pub(crate) const LONG_NS: u64 = 100_000;

/// See the [module](self). A type of which nothing is known is long.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// Per type slot, `UNKNOWN` last.
    is_long: Vec<bool>,
}

impl Lengths {
    /// Nothing is known.
    pub(crate) fn new(type_slots: usize) -> Self {
        Self {
            is_long: vec![true; type_slots],
        }
    }

    /// Takes what has been measured by now.
    pub(crate) fn measure(&mut self, shared: &Shared) {
        for (slot, is_long) in self.is_long.iter_mut().enumerate() {
            let mean_ns = shared.telemetry.service_ns_mean(slot);
            *is_long = mean_ns == 0.0 || mean_ns >= LONG_NS as f64;
        }
    }

    /// Whether requests of the type at `slot` are long.
    #[inline]
    pub(crate) fn is_long(&self, slot: usize) -> bool {
        self.is_long[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use psp_policy::TypeSpec;

    #[test]
    fn types_are_long_until_they_were_measured_as_short() {
        let types = [TypeSpec::new("GET"), TypeSpec::new("KEYS")];
        let shared = Shared::example(Config::default(), types.into_iter().collect(), 2);
        let mut lengths = Lengths::new(3);
        let read = |lengths: &Lengths| [0, 1, 2].map(|slot| lengths.is_long(slot));
        lengths.measure(&shared);
        assert_eq!(read(&lengths), [true; 3]);
        let ([get, keys], [first, second]) = ([0, 1], [0, 1]);
        let measured = |worker: usize, slot: usize, service_ns| {
            let work = &shared.telemetry.workers[worker].types[slot].0;
            work.completions.add(1);
            work.service_ns.add(service_ns);
        };
        measured(first, get, 2_000);
        measured(first, keys, 2_000);
        lengths.measure(&shared);
        assert_eq!(read(&lengths), [false, false, true]);
        measured(second, keys, 300_000);
        lengths.measure(&shared);
        assert_eq!(read(&lengths), [false, true, true], "a mean of all workers");
    }
}
