//! SLOs of types, and substitutes for types without an SLO.

use crate::parts::profile::Profile;
use crate::setup::SchedulerSetup;

/// The SLO of a type is that of its registration, or else a multiple of its mean service time,
/// measured or hinted. A type of unknown length, and `UNKNOWN`, have the longest SLO of all
/// types.
#[derive(Debug)]
pub(crate) struct Slos {
    /// Per type slot: what the type was registered with. `None` for `UNKNOWN`, the last.
    given_ns: Vec<Option<f64>>,
    /// Mean service times that make an SLO.
    factor: f64,
    /// Per type slot.
    slo_ns: Vec<f64>,
}

impl Slos {
    /// The SLOs of registered types; [`Slos::update`] adds the others.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, factor: f64) -> Self {
        let specs = setup.types.specs().iter();
        let given_ns = specs.map(|spec| Some(spec.slo?.as_nanos() as f64));
        let given_ns: Vec<Option<f64>> = given_ns.chain([None]).collect();
        Self { slo_ns: vec![0.0; given_ns.len()], given_ns, factor }
    }

    /// The SLO of the type at `slot`, whose mean service time is `mean_ns`.
    pub(crate) fn of_mean(&self, slot: usize, mean_ns: f64) -> f64 {
        self.given_ns[slot].unwrap_or(mean_ns * self.factor)
    }

    /// Takes the means that `profile` has now.
    pub(crate) fn update(&mut self, profile: &Profile) {
        let unknown = self.given_ns.len() - 1;
        let known_ns = |slot: usize| {
            let by_mean = || Some(profile.mean_ns(slot)? * self.factor);
            self.given_ns[slot].or_else(by_mean)
        };
        let longest_ns = (0..unknown).filter_map(known_ns).reduce(f64::max);
        let others_ns = longest_ns.unwrap_or(0.0);
        for slot in 0..unknown {
            self.slo_ns[slot] = known_ns(slot).unwrap_or(others_ns);
        }
        self.slo_ns[unknown] = others_ns;
    }

    /// Per type slot: time from arrival to completion, in nanoseconds. 0 where no type has any.
    pub(crate) fn all_ns(&self) -> &[f64] {
        &self.slo_ns
    }
}
