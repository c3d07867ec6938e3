//! What the slowdowns of a trial come to: a high percentile, and whether they grow.

use super::ranking::Parts;

/// Percentile that counts.
pub(super) const PERCENTILE: f64 = 0.999;
/// Slowdowns of which the percentile is simply taken.
const ENOUGH: usize = 4_000;
/// Of fewer, a tail is fitted to those above this percentile.
const TAIL: f64 = 0.9;

/// How a candidate did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    /// The percentiles that count, by their limits.
    pub(super) parts: Parts,
    /// The mean slowdown of the last third of a type's requests by that of the first third, of the type that has the
    /// most: 1 in a steady state. After a warm-up of a quarter these are the second and the last quarter of the tape,
    /// which have the same arrivals.
    pub(super) growth: f64,
    /// How often it preempted.
    pub(super) preemptions: u64,
}

impl Figures {
    /// From slowdowns and limits per type.
    pub(super) fn new(of_types: &mut [Vec<f32>], limits: &[f64], shortest: usize, preemptions: u64) -> Self {
        // The percentile takes them out of order.
        let growth = of_types.iter().map(|slowdowns| growth(slowdowns));
        let growth = largest(growth);
        let of_types = of_types.iter_mut().zip(limits);
        let parts: Vec<f64> = of_types.map(|(slowdowns, limit)| high(slowdowns) / limit).collect();
        Self {
            parts: Parts {
                worst: largest(parts.iter().copied()),
                shortest: parts[shortest],
            },
            growth,
            preemptions,
        }
    }

    /// Whether two candidates have these from the same decisions, among them some to preempt. Where none preempts, many
    /// decide alike that would not at a higher load.
    pub(super) fn are_of_the_same_turns(&self, other: &Self) -> bool {
        self == other && self.preemptions > 0
    }
}

fn largest(parts: impl Iterator<Item = f64>) -> f64 {
    parts.fold(0.0, f64::max)
}

/// Infinite for a trial without an end.
fn growth(slowdowns: &[f32]) -> f64 {
    let third = slowdowns.len() / 3;
    let (early, late) = (&slowdowns[..third], &slowdowns[slowdowns.len() - third..]);
    let growth = mean(late) / mean(early);
    if growth.is_nan() { f64::INFINITY } else { growth }
}

/// 1 of none.
fn mean(slowdowns: &[f32]) -> f64 {
    let total: f64 = slowdowns.iter().map(|&slowdown| f64::from(slowdown)).sum();
    if slowdowns.is_empty() {
        1.0
    } else {
        total / slowdowns.len() as f64
    }
}

/// The percentile that counts; 0 of none. Of few slowdowns it is at least what an exponential tail with the mean of
/// their largest tenth has: the largest of a hundred says nothing of one in a thousand.
fn high(slowdowns: &mut [f32]) -> f64 {
    let index = |part: f64| (slowdowns.len() as f64 * part).ceil() as usize;
    let (tail, rank) = (index(TAIL), index(PERCENTILE));
    if rank == 0 {
        return 0.0;
    }
    let measured = f64::from(*slowdowns.select_nth_unstable_by(rank - 1, f32::total_cmp).1);
    if slowdowns.len() >= ENOUGH || tail == slowdowns.len() {
        return measured;
    }
    let (_, from, above) = slowdowns.select_nth_unstable_by(tail, f32::total_cmp);
    let from = f64::from(*from);
    let excess = above.iter().map(|&slowdown| f64::from(slowdown) - from);
    let mean = excess.sum::<f64>() / above.len().max(1) as f64;
    let fitted = from + mean * ((1.0 - TAIL) / (1.0 - PERCENTILE)).ln();
    measured.max(fitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of an exponential distribution with a mean of 1.
    fn exponential(count: usize) -> Vec<f32> {
        let part = |index: usize| (index as f64 + 0.5) / count as f64;
        (0..count).map(|index| -(1.0 - part(index)).ln() as f32).collect()
    }

    #[test]
    fn of_few_slowdowns_the_tail_is_fitted() {
        let expected = 1000_f64.ln();
        for count in [100, 1_000, 10_000] {
            let high = high(&mut exponential(count));
            assert!((high - expected).abs() < 0.5, "{high} of {count}");
        }
        assert_eq!(high(&mut []), 0.0);
        assert_eq!(high(&mut [3.0]), 3.0);
        assert_eq!(high(&mut [1.0; 200]), 1.0);
        let up_to = |count: u16| (1..=count).map(f32::from).collect::<Vec<_>>();
        // The largest tenth begins at 91, and the others are 5 above that on average.
        let fitted = 91.0 + 5.0 * 100_f64.ln();
        assert!((high(&mut up_to(100)) - fitted).abs() < 1e-6);
        assert!(high(&mut up_to(3_999)) > 4_200.0);
        assert_eq!(high(&mut up_to(4_000)), 3_996.0);
        // Nothing is above the lower nine tenths of nine.
        assert_eq!(high(&mut up_to(9)), 9.0);
    }

    #[test]
    fn the_worst_type_and_the_one_that_grows_the_most_count() {
        let mut of_types = [vec![2.0; 9], [[1.0; 3], [2.0; 3], [4.0; 3]].concat(), vec![]];
        let figures = Figures::new(&mut of_types, &[10.0, 8.0, 1.0], 0, 7);
        assert_eq!(figures.parts, Parts { worst: 0.5, shortest: 0.2 });
        assert_eq!((figures.growth, figures.preemptions), (4.0, 7));
    }

    #[test]
    fn figures_without_preemptions_tell_nothing_of_decisions() {
        let figures = |preemptions| Figures::new(&mut [vec![1.0; 9]], &[10.0], 0, preemptions);
        assert!(figures(3).are_of_the_same_turns(&figures(3)));
        assert!(!figures(3).are_of_the_same_turns(&figures(4)));
        assert!(!figures(0).are_of_the_same_turns(&figures(0)));
    }

    #[test]
    fn slowdowns_grow_where_a_queue_does() {
        assert!((growth(&[2.0; 100]) - 1.0).abs() < 1e-9);
        let queue: Vec<f32> = (0..1_000).map(|index| index as f32).collect();
        assert!((growth(&queue) - 5.0).abs() < 0.02);
        assert_eq!(growth(&[f32::INFINITY; 10]), f64::INFINITY);
        assert_eq!(growth(&[]), 1.0);
    }

    #[test]
    fn one_that_never_ended_is_beyond_every_limit() {
        let mut slowdowns = exponential(500);
        slowdowns[7] = f32::INFINITY;
        assert_eq!(high(&mut slowdowns), f64::INFINITY);
        let mut slowdowns = exponential(10_000);
        slowdowns[..20].fill(f32::INFINITY);
        assert_eq!(high(&mut slowdowns), f64::INFINITY);
    }
}
