//! The figure by which tests compare policies.

use psp_sim::simulator::Outcome;

const P999: f64 = 0.999;

/// The largest slowdown that a type has at p99.9. No request was rejected.
pub(crate) fn worst_of(outcome: &Outcome) -> f64 {
    assert_eq!(outcome.rejected, 0);
    let types = outcome.types.iter();
    types.map(|ty| ty.slowdown.at(P999)).fold(0.0, f64::max)
}
