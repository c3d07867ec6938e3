//! Types whose requests are brief: they travel in one run of pipelined requests, whatever their types. To hand a
//! request to a worker, and to take it back, takes longer than such a request; and the replies of a connection are in
//! order anyhow.

use psp_policy::{TypeSpec, TypeTable};

/// The longest mean of a brief type, in nanoseconds.
const BRIEF_NS_MAX: f64 = 10_000.0;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Brief {
    /// Per type slot: what is known. `None` of types whose requests travel with their like alone.
    types: Vec<Option<bool>>,
}

impl Brief {
    /// Knows the hints of `types`.
    pub(super) fn new(types: &TypeTable) -> Self {
        let is_brief = |spec: &TypeSpec| {
            let hint = spec.service_time;
            hint.is_some_and(|hint| hint.as_nanos() as f64 <= BRIEF_NS_MAX)
        };
        let may_mix = |spec: &TypeSpec| !spec.is_never_grouped() && !spec.is_control();
        let known = |spec: &TypeSpec| may_mix(spec).then(|| is_brief(spec));
        let unknown = None;
        Self {
            types: { types.specs().iter() }.map(known).chain([unknown]).collect(),
        }
    }

    /// Takes the mean service times of the types at these slots; 0 is unknown.
    pub(super) fn follow(&mut self, mean_ns: impl Fn(usize) -> f64) {
        for (slot, is_brief) in self.types.iter_mut().enumerate() {
            let mean_ns = is_brief.map_or(0.0, |_| mean_ns(slot));
            if mean_ns > 0.0 {
                *is_brief = Some(mean_ns <= BRIEF_NS_MAX);
            }
        }
    }

    /// Whether the requests of both types are brief.
    #[inline]
    pub(super) fn are(&self, slots: [usize; 2]) -> bool {
        slots.iter().all(|&slot| self.types[slot] == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn brief_types_are_known_by_hints_and_by_what_they_took() {
        let types: TypeTable = [
            TypeSpec::new("GET").service_time(Duration::from_micros(1)),
            TypeSpec::new("SET"),
            TypeSpec::new("KEYS").service_time(Duration::from_millis(1)),
            TypeSpec::new("INFO").service_time(Duration::from_micros(1)).never_grouped(),
        ]
        .into_iter()
        .collect();
        let mut brief = Brief::new(&types);
        let with_get = |brief: &Brief| [0, 1, 2, 3, 4].map(|next| brief.are([0, next]));
        assert_eq!(with_get(&brief), [true, false, false, false, false]);
        brief.follow(|_| 0.0);
        assert_eq!(with_get(&brief), [true, false, false, false, false]);
        brief.follow(|slot| if slot == 2 { 1e6 } else { 2e3 });
        assert_eq!(with_get(&brief), [true, true, false, false, false]);
        brief.follow(|slot| if slot == 0 { 1e5 } else { 0.0 });
        assert_eq!(with_get(&brief), [false; 5]);
    }
}
