//! A random choice among cases by their weights.

/// Cases to choose from at random, each with its weight.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedChoice {
    /// Where each case's part of the range from 0 to 1 ends. Ascending; the last end is 1.
    ends: Vec<f64>,
}

impl WeightedChoice {
    /// One case for each weight. `None` without weights, when a weight is negative or not finite,
    /// or when all are 0.
    pub fn new(weights: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let total: f64 = weights.clone().sum();
        let valid = weights.clone().all(|weight| weight >= 0.0);
        if !valid || !total.is_finite() || total <= 0.0 {
            return None;
        }
        let mut sum = 0.0;
        let mut ends: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum / total
            })
            .collect();
        // Rounding must not leave a gap behind the last case that can be chosen.
        let last = sum / total;
        for end in ends.iter_mut().rev().take_while(|end| **end >= last) {
            *end = 1.0;
        }
        Some(Self { ends })
    }

    /// The case whose part of the range holds `unit`, which is at least 0 and below 1, and the
    /// position of `unit` within that part, from 0 to 1.
    pub fn draw(&self, unit: f64) -> (usize, f64) {
        let case = self.ends.partition_point(|&end| end <= unit);
        let case = case.min(self.ends.len() - 1);
        (case, (unit - self.start(case)) / self.part(case))
    }

    /// The probability of a case.
    pub fn part(&self, case: usize) -> f64 {
        self.ends[case] - self.start(case)
    }

    fn start(&self, case: usize) -> f64 {
        case.checked_sub(1).map_or(0.0, |before| self.ends[before])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_get_their_parts() {
        let choice = WeightedChoice::new([1.0, 0.0, 3.0].into_iter()).unwrap();
        for (unit, case, within) in [(0.0, 0, 0.0), (0.125, 0, 0.5), (0.25, 2, 0.0), (0.625, 2, 0.5)] {
            assert_eq!(choice.draw(unit), (case, within), "{unit}");
        }
        assert_eq!(choice.draw(1.0 - f64::EPSILON).0, 2);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        for weights in [&[][..], &[0.0], &[1.0, -1.0], &[f64::INFINITY], &[f64::NAN]] {
            assert_eq!(WeightedChoice::new(weights.iter().copied()), None, "{weights:?}");
        }
    }
}
