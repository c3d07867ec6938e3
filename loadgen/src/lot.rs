//! Choosing by weight.

/// Cases with weights.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lot {
    /// Where each case's part of 0 to 1 ends. Ascending; the last is 1.
    ends: Vec<f64>,
}

impl Lot {
    /// One case for each weight. `None` unless there are weights, all are finite and at least 0,
    /// and one is above 0.
    pub(crate) fn new(weights: impl Iterator<Item = f64> + Clone) -> Option<Self> {
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
        // Rounding leaves nothing behind the last case that can be drawn.
        let last = sum / total;
        for end in ends.iter_mut().rev().take_while(|end| **end >= last) {
            *end = 1.0;
        }
        Some(Self { ends })
    }

    /// The case that `unit`, at least 0 and below 1, falls on; and where within its part, again
    /// from 0 to 1.
    pub(crate) fn draw(&self, unit: f64) -> (usize, f64) {
        let case = self.ends.partition_point(|&end| end <= unit);
        let case = case.min(self.ends.len() - 1);
        (case, (unit - self.start(case)) / self.part(case))
    }

    /// How much of 0 to 1 is the case's.
    pub(crate) fn part(&self, case: usize) -> f64 {
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
        let lot = Lot::new([1.0, 0.0, 3.0].into_iter()).unwrap();
        for (unit, case, within) in [
            (0.0, 0, 0.0),
            (0.125, 0, 0.5),
            (0.25, 2, 0.0),
            (0.625, 2, 0.5),
        ] {
            assert_eq!(lot.draw(unit), (case, within), "{unit}");
        }
        assert_eq!(lot.draw(1.0 - f64::EPSILON).0, 2);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        for weights in [&[][..], &[0.0], &[1.0, -1.0], &[f64::INFINITY], &[f64::NAN]] {
            assert_eq!(Lot::new(weights.iter().copied()), None, "{weights:?}");
        }
    }
}
