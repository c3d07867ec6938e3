//! Types by an amount, such as a number of keys.

use psp_server::RequestType;

/// Minimum amounts and their types, the smallest minimum first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Thresholds {
    steps: Vec<(usize, RequestType)>,
}

impl Thresholds {
    /// Amounts from `min` to the next threshold are of this type. Its former threshold is removed.
    pub(crate) fn set(&mut self, min: usize, request_type: RequestType) {
        self.steps.retain(|(other_min, other)| *other_min != min && *other != request_type);
        let at = self.steps.partition_point(|(other_min, _)| *other_min < min);
        self.steps.insert(at, (min, request_type));
    }

    /// The type of `amount`; `UNKNOWN` below all thresholds.
    #[inline]
    pub(crate) fn type_of(&self, amount: usize) -> RequestType {
        let reached = self.steps.iter().rev().find(|(min, _)| *min <= amount);
        reached.map_or(RequestType::UNKNOWN, |(_, request_type)| *request_type)
    }

    /// The highest threshold: larger amounts make no difference.
    #[inline]
    pub(crate) fn highest(&self) -> usize {
        self.steps.last().map_or(0, |(min, _)| *min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_reached_threshold_counts() {
        let [a, b, c] = [0, 1, 2].map(RequestType::new);
        let mut thresholds = Thresholds::default();
        assert_eq!(thresholds.type_of(7), RequestType::UNKNOWN);
        thresholds.set(10, b);
        thresholds.set(1, a);
        thresholds.set(100, c);
        for (amount, expected) in
            [(0, RequestType::UNKNOWN), (1, a), (9, a), (10, b), (99, b), (100, c), (usize::MAX, c)]
        {
            assert_eq!(thresholds.type_of(amount), expected, "{amount}");
        }
        assert_eq!(thresholds.highest(), 100);
    }

    #[test]
    fn a_threshold_moves_with_its_type() {
        let [a, b] = [0, 1].map(RequestType::new);
        let mut thresholds = Thresholds::default();
        thresholds.set(1, a);
        thresholds.set(10, b);
        thresholds.set(20, b);
        assert_eq!((thresholds.type_of(10), thresholds.type_of(20)), (a, b));
        thresholds.set(1, b);
        assert_eq!((thresholds.type_of(1), thresholds.highest()), (b, 1));
    }
}
