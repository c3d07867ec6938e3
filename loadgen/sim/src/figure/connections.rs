//! How many connections receive-side scaling needs to balance queues (Shinjuku 3.6).

use rand::{Rng, RngExt};
use rand_distr::Binomial;
use serde::Deserialize;

use crate::chart::{Axis, Panel};
use crate::random::stream_rng;

use super::error::FigureError;
use super::job::{Job, Point, Scale};
use super::kind::Kind;

/// A queue may exceed the mean by this fraction of it.
const IMBALANCE_MAX: f64 = 0.1;
/// The fraction of trials in which no queue may exceed that.
const PROBABILITY: f64 = 0.9;
/// Where the search stops; no server has as many connections.
const CONNECTIONS_MAX: u64 = 1 << 32;
/// No server has as many queues.
const QUEUES_MAX: u64 = 1024;

/// Requests of a figure for each trial of this one.
const REQUESTS_PER_TRIAL: u64 = 250;

/// A figure of the connections needed for several numbers of queues.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Connections {
    /// The name of its line.
    name: String,
    /// The title of its panel.
    title: String,
    /// Numbers of queues.
    queues: Vec<u64>,
    /// End of the vertical axis.
    most: f64,
}

impl Kind for Connections {
    fn series(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn panels(&self, _: &Scale) -> Result<Vec<Panel>, FigureError> {
        let last = self.queues.last().copied().unwrap_or_default();
        let x = Axis::linear("Queues (cores)", 0.0, last as f64);
        Ok(vec![Panel::new(&self.title, x, Axis::linear("Connections needed", 0.0, self.most))])
    }

    fn conditions(&self, scale: &Scale) -> Vec<String> {
        vec![format!(
            "Monte Carlo: {} trials for each number of connections, each connection on one queue \
             at random, no queue more than 10 % above the mean in 90 % of trials, seed {}.",
            trials(scale),
            scale.seed
        )]
    }

    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        if self.queues.iter().any(|queues| !(1..=QUEUES_MAX).contains(queues)) {
            return Err(FigureError::invalid(format!("`queues` are from 1 to {QUEUES_MAX}")));
        }
        let (trials, seed) = (trials(scale), scale.seed);
        let job = |&queues: &u64| {
            Job::new(u64::from(trials), move |_| {
                let needed = connections_needed(queues, trials, seed);
                Ok(vec![Point { panel: 0, series: 0, at: (queues as f64, needed as f64) }])
            })
        };
        Ok(self.queues.iter().map(job).collect())
    }
}

fn trials(scale: &Scale) -> u32 {
    let trials = scale.requests / REQUESTS_PER_TRIAL;
    u32::try_from(trials.clamp(100, 10_000)).expect("the range is small")
}

/// The least number of connections with which, in 90 % of `trials` trials, no queue gets more than
/// 10 % above the mean. Each connection gets one of `queues` queues at random.
///
/// All numbers of connections are tried with the same seed. The share of good trials rises in small
/// jumps, because connections are whole, so the result is exact only up to such a jump.
#[must_use]
pub fn connections_needed(queues: u64, trials: u32, seed: u64) -> u64 {
    let is_enough = |connections: u64| {
        let mut rng = stream_rng(seed, queues);
        let balanced = (0..trials).filter(|_| is_balanced(connections, queues, &mut rng));
        balanced.count() as f64 >= PROBABILITY * f64::from(trials)
    };
    let doublings = (0..).map(|power| queues << power);
    let mut enough = doublings
        .take_while(|connections| *connections < CONNECTIONS_MAX)
        .find(|connections| is_enough(*connections))
        .unwrap_or(CONNECTIONS_MAX);
    let mut short = enough / 2;
    while enough - short > 1 {
        let middle = short.midpoint(enough);
        if is_enough(middle) {
            enough = middle;
        } else {
            short = middle;
        }
    }
    enough
}

/// One trial. Each queue gets its part of the connections that are left for it and the later
/// queues.
fn is_balanced(connections: u64, queues: u64, rng: &mut impl Rng) -> bool {
    let allowed = (1.0 + IMBALANCE_MAX) * connections as f64 / queues as f64;
    let mut left = connections;
    for after in (0..queues).rev() {
        let part = 1.0 / (after + 1) as f64;
        let got = match Binomial::new(left, part) {
            Ok(share) if after > 0 => rng.sample(share),
            _ => left,
        };
        if got as f64 > allowed {
            return false;
        }
        left -= got;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_queues_need_what_the_normal_distribution_says() {
        // Half of c connections, plus or minus 1.645 standard deviations of sqrt(c) / 2, must be
        // within a tenth of half: c = (1.645 / 0.1)^2 = 271.
        let needed = connections_needed(2, 4_000, 1);
        assert!((220..330).contains(&needed), "{needed}");
    }

    #[test]
    fn more_queues_need_more_connections_each() {
        let needed: Vec<u64> = [1, 2, 8, 24].iter().map(|queues| connections_needed(*queues, 500, 7)).collect();
        assert_eq!(needed[0], 1);
        let each = |index: usize, queues: u64| needed[index] / queues;
        assert!(each(1, 2) < each(2, 8) && each(2, 8) < each(3, 24), "{needed:?}");
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(connections_needed(6, 200, 3), connections_needed(6, 200, 3));
    }
}
