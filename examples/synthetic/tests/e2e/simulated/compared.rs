//! The slowdowns of the same requests on a live server and in the simulation.

use std::fmt::Write as _;
use std::time::Duration;

use psp_server::telemetry::Snapshot;
use psp_sim::simulator::Outcome;

use super::point::{Latencies, Point};
use crate::lag::LAGS;

/// Largest difference between live and simulated figures, as a fraction of the simulated figure.
pub(super) const DIFFERENCE_MAX: f64 = 0.25;
/// Smallest share of each type's requests that must remain without a stall.
const LEFT_MIN: f64 = 0.2;
/// Percentiles of the short comparisons.
pub(super) const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Requests beyond a percentile, from which the short comparisons look at it.
const BEYOND_MIN: f64 = 8.0;

/// A quantile of ascending values; infinite if there are none.
pub(super) fn at(quantile: f64, of: &[f64]) -> f64 {
    let rank = (of.len() as f64 * quantile).ceil() as usize;
    rank.checked_sub(1).map_or(f64::INFINITY, |index| of[index])
}

/// The slowdowns of each type's requests at one point, in ascending order.
pub(super) struct Compared<'p> {
    pub(super) point: &'p Point,
    /// All requests on the live server, including those with a stall.
    pub(super) all: Vec<Vec<f64>>,
    /// Requests without a long stall.
    pub(super) live: Vec<Vec<f64>>,
    pub(super) simulated: Vec<Vec<f64>>,
    /// Times of the requests without a long stall, live and simulated.
    pub(super) latencies: [Latencies; 2],
    /// The live server's counters when the last request had been sent.
    pub(super) counters: Snapshot,
    /// Time from its first request until then.
    pub(super) lasted: Duration,
    /// The rest of the simulation's results.
    pub(super) outcome: Outcome,
}

impl Compared<'_> {
    /// Share of each type's requests without a long stall.
    pub(super) fn left(&self) -> impl Iterator<Item = f64> {
        let types = self.live.iter().zip(&self.all);
        types.map(|(left, all)| left.len() as f64 / all.len() as f64)
    }

    pub(super) fn are_enough(&self) -> bool {
        self.left().all(|left| left >= LEFT_MIN)
    }

    /// These and others of the same types, such as those of another seed, as one.
    pub(super) fn with(mut self, others: impl IntoIterator<Item = Self>) -> Self {
        for other in others {
            let mine = [&mut self.all, &mut self.live, &mut self.simulated];
            for (mine, others) in mine.into_iter().zip([other.all, other.live, other.simulated]) {
                for (mine, others) in mine.iter_mut().zip(others) {
                    mine.extend(others);
                    mine.sort_unstable_by(f64::total_cmp);
                }
            }
            for (mine, others) in self.latencies.iter_mut().zip(other.latencies) {
                for (mine, others) in mine.iter_mut().zip(others) {
                    mine.extend(others);
                }
            }
        }
        self
    }

    /// A percentile of each type, live and simulated.
    pub(super) fn percentiles(&self, quantile: f64) -> impl Iterator<Item = (f64, f64)> {
        let types = self.live.iter().zip(&self.simulated);
        types.map(move |(live, simulated)| (at(quantile, live), at(quantile, simulated)))
    }

    /// The largest difference of a type's percentile, as a fraction of the simulated value.
    pub(super) fn difference(&self, quantile: f64) -> f64 {
        let types = self.percentiles(quantile);
        types.map(|(live, simulated)| (live / simulated - 1.0).abs()).fold(0.0, f64::max)
    }

    /// The types whose percentiles differ, beside a machine whose threads wake up `lag_ns` late. Percentiles with
    /// few requests beyond them count for nothing.
    pub(super) fn differing(&self, lag_ns: f64) -> Vec<String> {
        let types = self.point.plan().workload.types;
        let mut differing = Vec::new();
        for quantile in QUANTILES {
            for (index, (live, simulated)) in self.percentiles(quantile).enumerate() {
                let beyond = self.live[index].len() as f64 * (1.0 - quantile);
                let lags = LAGS * lag_ns / types[index].service_ns as f64;
                let error = live - simulated;
                let tolerance = DIFFERENCE_MAX * simulated;
                if beyond >= BEYOND_MIN && !(-tolerance..=tolerance + lags).contains(&error) {
                    let name = &types[index].name;
                    differing.push(format!(
                        "{} p{}: {live:.2}, simulated {simulated:.2}, lag {lag_ns:.0} ns",
                        name,
                        quantile * 100.0
                    ));
                }
            }
        }
        differing
    }
}

pub(super) fn table(found: &[Compared<'_>], quantile: f64) -> String {
    let percent = quantile * 100.0;
    let mut table = format!("p{percent} slowdown of each type, live / simulated (requests left)\n");
    for it in found {
        let Point { workload, load, policy, .. } = it.point;
        let factor = it.point.factor();
        write!(table, "{workload} x{factor} {load:.1} {policy:14}").unwrap();
        for ((live, simulated), left) in it.percentiles(quantile).zip(it.left()) {
            let left = left * 100.0;
            write!(table, " {live:8.2} /{simulated:8.2} ({left:3.0} %)").unwrap();
        }
        let difference = it.difference(quantile) * 100.0;
        writeln!(table, "  differ by {difference:4.1} %").unwrap();
    }
    println!("{table}");
    table
}
