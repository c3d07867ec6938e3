//! The capacity of a policy: the highest load at which it keeps a service-level objective, found by
//! bisection.

use std::fmt;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::simulator::{Outcome, SimError, SimPlan, simulate};

/// The objective: a percentile of the slowdown stays at or below a limit, and no request is
/// rejected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// The largest slowdown allowed, at least 1.
    pub slowdown: f64,
    /// The percentile, above 0 and at most 100.
    pub percentile: f64,
    /// Which requests must keep the objective.
    pub scope: Scope,
}

/// Which requests must keep the objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The requests of each type by itself.
    #[default]
    PerType,
    /// All requests together.
    Overall,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerType => "each type",
            Self::Overall => "all requests",
        })
    }
}

/// The least capacity that a search with a relative tolerance finds. A smaller one is found to be 0.
pub const CAPACITY_MIN: f64 = 1.0 / 32.0;

/// How exact a search is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// To within this load.
    Absolute(f64),
    /// To within this part of the capacity, if that is at least [`CAPACITY_MIN`].
    Relative(f64),
}

impl Tolerance {
    /// Whether it is enough to know that the capacity is between `low` and `high`.
    fn is_met(self, low: f64, high: f64) -> bool {
        match self {
            Self::Absolute(load) => high - low <= load,
            Self::Relative(part) => high <= CAPACITY_MIN || high - low <= part * low,
        }
    }

    /// Number of loads that a search tries at most.
    #[must_use]
    pub fn probes_max(self) -> u32 {
        self.probes(CAPACITY_MIN)
    }

    /// About as many loads are tried in search of this `capacity`, which is at least [`CAPACITY_MIN`].
    #[must_use]
    pub fn probes(self, capacity: f64) -> u32 {
        let step_max = match self {
            Self::Absolute(load) => load,
            Self::Relative(part) => part * capacity,
        };
        (0..).find(|steps| 0.5_f64.powi(*steps) <= step_max).map_or(0, i32::cast_unsigned)
    }
}

/// How a load misses the objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// The load.
    pub load: f64,
    /// The type with the largest slowdown, or `overall`.
    pub name: String,
    /// The slowdown of that type, at the objective's percentile; 0 when nothing was completed.
    pub slowdown: f64,
    /// Requests that were rejected, of all types.
    pub rejected: u64,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// The highest load that kept the objective; 0 when no load did.
    pub load: f64,
    /// The same in requests per second.
    pub rps: f64,
    /// How the lowest load that missed the objective missed it.
    pub miss: Option<Miss>,
}

/// Why a search has no result.
#[derive(Debug, Error)]
pub enum CapacityError {
    /// A simulation failed.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The observer of progress stopped the search.
    #[error("interrupted")]
    Interrupted,
}

impl Slo {
    /// How `outcome`, simulated at `load`, misses the objective; `None` when it keeps it.
    #[must_use]
    pub fn miss(&self, load: f64, outcome: &Outcome) -> Option<Miss> {
        let quantile = self.percentile / 100.0;
        let types = outcome.types.iter();
        let (name, slowdown) = match self.scope {
            Scope::PerType => types
                .map(|ty| (ty.name.as_str(), ty.slowdown.at(quantile)))
                .max_by(|(_, one), (_, other)| one.total_cmp(other))?,
            Scope::Overall => ("overall", outcome.overall.at(quantile)),
        };
        let is_kept = outcome.rejected == 0 && slowdown <= self.slowdown;
        (!is_kept).then(|| Miss {
            load,
            name: name.to_owned(),
            slowdown,
            rejected: outcome.rejected,
        })
    }
}

/// Simulates `plan` at loads chosen by a bisection with this `tolerance`. The plan's own load does
/// not matter. Every load is simulated with the same seed.
///
/// `progress` gets the number of arrivals simulated so far, at all loads. It may stop the search.
///
/// # Errors
///
/// [`CapacityError`].
pub fn capacity(
    plan: &SimPlan,
    slo: &Slo,
    tolerance: Tolerance,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Capacity, CapacityError> {
    let mut before = 0;
    let bracket = bisect(tolerance, |load| {
        let plan = SimPlan { load, ..plan.clone() };
        let outcome = simulate(&plan, &mut |arrivals| progress(before + arrivals))?;
        if outcome.interrupted {
            return Err(CapacityError::Interrupted);
        }
        before += plan.requests + plan.warmup;
        Ok(match slo.miss(load, &outcome) {
            None => Ok(outcome.offered_rps),
            Some(miss) => Err(miss),
        })
    })?;
    Ok(Capacity {
        load: bracket.load,
        rps: bracket.kept.unwrap_or(0.0),
        miss: bracket.missed,
    })
}

/// Where a bisection ended.
#[derive(Debug, Clone, PartialEq)]
struct Bracket<Kept, Missed> {
    /// The highest load that kept the objective, or 0.
    load: f64,
    /// The result at that load; absent when no load kept the objective.
    kept: Option<Kept>,
    /// The result at the lowest load that missed the objective; absent when none did.
    missed: Option<Missed>,
}

/// Looks for the load between 0 and 1 where `probe` turns from kept (`Ok`) to missed (`Err`), to
/// within `tolerance`. If the probe turns several times, the search finds one of the turns.
fn bisect<Kept, Missed, E>(
    tolerance: Tolerance,
    mut probe: impl FnMut(f64) -> Result<Result<Kept, Missed>, E>,
) -> Result<Bracket<Kept, Missed>, E> {
    let (mut low, mut high) = (0.0, 1.0);
    let (mut kept, mut missed) = (None, None);
    while !tolerance.is_met(low, high) {
        let load = f64::midpoint(low, high);
        match probe(load)? {
            Ok(found) => (low, kept) = (load, Some(found)),
            Err(found) => (high, missed) = (load, Some(found)),
        }
    }
    Ok(Bracket { load: low, kept, missed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use psp_policy::Policy;
    use std::convert::Infallible;

    const TENTH: Tolerance = Tolerance::Absolute(0.1);

    fn plan() -> SimPlan {
        let workload = Workload::named("high-bimodal").unwrap();
        SimPlan::new(workload, Policy::c_fcfs(), 4, 0.7).requests(5_000)
    }

    fn slo(slowdown: f64, percentile: f64, scope: Scope) -> Slo {
        Slo { slowdown, percentile, scope }
    }

    #[test]
    fn an_objective_is_kept_up_to_the_slowdown_of_the_worst_type() {
        let mut outcome = simulate(&plan(), &mut |_| ControlFlow::Continue(())).unwrap();
        let short = outcome.types[0].slowdown.at(0.99);
        let overall = outcome.overall.at(0.99);
        assert!(overall < short);
        let per_type = |slowdown| slo(slowdown, 99.0, Scope::PerType);
        assert_eq!(per_type(short).miss(0.7, &outcome), None);
        let missed = |name: &str, slowdown| Miss { load: 0.7, name: name.to_owned(), slowdown, rejected: 0 };
        let below = short - 0.001;
        assert_eq!(per_type(below).miss(0.7, &outcome), Some(missed("short", short)));
        let together = |slowdown| slo(slowdown, 99.0, Scope::Overall);
        assert_eq!(together(overall).miss(0.7, &outcome), None);
        let below = overall - 0.001;
        assert_eq!(together(below).miss(0.7, &outcome), Some(missed("overall", overall)));
        outcome.rejected = 1;
        assert_eq!(together(1e9).miss(0.7, &outcome).map(|miss| miss.rejected), Some(1));
    }

    #[test]
    fn progress_counts_the_arrivals_of_all_probes_and_can_end_the_search() {
        let (plan, slo) = (plan(), slo(10.0, 99.9, Scope::PerType));
        let mut counts = Vec::new();
        let found = capacity(&plan, &slo, TENTH, &mut |arrivals| {
            counts.push(arrivals);
            ControlFlow::Continue(())
        });
        let total = (plan.requests + plan.warmup) * u64::from(TENTH.probes_max());
        assert!(found.unwrap().load > 0.0);
        assert!(counts.is_sorted() && counts.last().is_some_and(|last| *last <= total));
        let broken = capacity(&plan, &slo, TENTH, &mut |_| ControlFlow::Break(()));
        assert!(matches!(broken, Err(CapacityError::Interrupted)));
    }

    /// A system that keeps its objective up to `limit`.
    fn search(limit: f64, tolerance: Tolerance) -> (Bracket<f64, f64>, Vec<f64>) {
        let mut loads = Vec::new();
        let bracket = bisect(tolerance, |load| {
            loads.push(load);
            Ok::<_, Infallible>(if load <= limit { Ok(load) } else { Err(load) })
        });
        (bracket.unwrap(), loads)
    }

    #[test]
    fn the_turning_point_is_found_to_the_tolerance() {
        for limit in [0.01, 0.3, 0.5, 0.777, 0.98] {
            for load in [0.1, 0.005, 1e-6] {
                let tolerance = Tolerance::Absolute(load);
                let (bracket, loads) = search(limit, tolerance);
                assert!(bracket.load <= limit && limit - bracket.load <= load);
                assert_eq!(loads.len(), tolerance.probes_max() as usize);
                let kept = loads.iter().copied().filter(|load| *load <= limit);
                assert_eq!(bracket.kept, kept.reduce(f64::max));
                let missed = loads.iter().copied().filter(|load| *load > limit);
                assert_eq!(bracket.missed, missed.reduce(f64::min));
            }
        }
    }

    #[test]
    fn a_small_capacity_is_found_as_exactly_as_a_large_one() {
        for part in [0.1, 0.02, 0.001] {
            let tolerance = Tolerance::Relative(part);
            for limit in [CAPACITY_MIN, 0.05, 0.3, 0.777, 0.98] {
                let (bracket, loads) = search(limit, tolerance);
                assert!(bracket.load <= limit && limit - bracket.load <= part * limit);
                let tried = loads.len() as u32;
                assert!(tried.abs_diff(tolerance.probes(limit)) <= 1);
                assert!(tried <= tolerance.probes_max());
            }
            let (none, loads) = search(CAPACITY_MIN * 0.99, tolerance);
            assert_eq!((none.load, loads.len()), (0.0, 5));
        }
    }

    #[test]
    fn loads_that_are_all_kept_or_all_missed_have_one_side() {
        let (all, _) = search(1.0, Tolerance::Absolute(0.005));
        assert_eq!((all.missed, all.kept), (None, Some(all.load)));
        assert!(all.load >= 0.995);
        let (none, loads) = search(0.0, Tolerance::Absolute(0.005));
        assert_eq!((none.load, none.kept), (0.0, None));
        assert_eq!(none.missed, loads.last().copied());
    }

    #[test]
    fn halving_ends_at_the_tolerance() {
        for (tolerance, expected) in [(1.0, 0), (0.5, 1), (0.3, 2), (0.005, 8), (0.001, 10)] {
            assert_eq!(Tolerance::Absolute(tolerance).probes_max(), expected, "{tolerance}");
        }
    }

    #[test]
    fn an_error_ends_the_search() {
        let mut probed = 0;
        let result: Result<Bracket<(), ()>, &str> = bisect(Tolerance::Absolute(0.005), |_| {
            probed += 1;
            if probed == 3 { Err("broken") } else { Ok(Ok(())) }
        });
        assert_eq!((result, probed), (Err("broken"), 3));
    }
}
