//! Whether a workload has moved since it was studied: its rate of arrivals, or the types' shares of the demand.

use super::record::Record;
use crate::request_type::TypeTable;

/// Arrivals after which it is looked at again.
const WINDOW: u32 = 8_192;
/// The rate has moved if it is so many times what it was, or the reverse.
const RATE: f64 = 1.1;
/// A share of the demand has moved by more than this: as DARC's `demand-deviation`.
const SHARE: f64 = 0.1;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Drift {
    /// Per type slot: arrivals of the window.
    counts: Vec<u32>,
    arrivals: u32,
    began_ns: u64,
    /// Of the last window.
    latest: Option<Shape>,
    /// Of the last window before the last study.
    studied: Option<Shape>,
}

/// What of a workload has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Rate,
    /// The types' shares of the demand.
    Shares,
}

/// What a window looked like.
#[derive(Debug, Clone, PartialEq)]
struct Shape {
    /// Arrivals per nanosecond.
    rate: f64,
    /// Per type slot: its part of the demand.
    shares: Vec<f64>,
}

impl Drift {
    pub(super) fn new(types: &TypeTable) -> Self {
        Self {
            counts: vec![0; types.len() + 1],
            arrivals: 0,
            began_ns: 0,
            latest: None,
            studied: None,
        }
    }

    /// Counts an arrival. Returns what of the workload has moved.
    #[inline]
    pub(super) fn arrived(&mut self, now_ns: u64, slot: usize, record: &Record) -> Option<Moved> {
        self.counts[slot] += 1;
        self.arrivals += 1;
        if self.arrivals < WINDOW {
            return None;
        }
        self.look(now_ns, record)
    }

    /// What was learned so far is studied.
    pub(super) fn studied(&mut self) {
        self.studied.clone_from(&self.latest);
    }

    #[cold]
    fn look(&mut self, now_ns: u64, record: &Record) -> Option<Moved> {
        let shape = Shape {
            rate: f64::from(WINDOW) / (now_ns - self.began_ns).max(1) as f64,
            shares: record.demand_shares(&self.counts),
        };
        self.counts.fill(0);
        self.arrivals = 0;
        self.began_ns = now_ns;
        let studied = self.studied.as_ref();
        let moved = studied.and_then(|before| shape.moved(before));
        if self.studied.is_none() {
            self.studied = Some(shape.clone());
        }
        self.latest = Some(shape);
        moved
    }
}

impl Shape {
    fn moved(&self, before: &Self) -> Option<Moved> {
        if shares_differ(&self.shares, &before.shares) {
            return Some(Moved::Shares);
        }
        let factor = self.rate / before.rate;
        (factor.max(1.0 / factor) > RATE).then_some(Moved::Rate)
    }
}

/// Whether a type's share of the demand is another.
pub(super) fn shares_differ(shares: &[f64], before: &[f64]) -> bool {
    let mut shares = shares.iter().zip(before);
    shares.any(|(one, other)| (one - other).abs() > SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_type::TypeSpec;

    /// Two types of one length, of which one in so many arrivals is of the second, every so many nanoseconds.
    struct Workload {
        drift: Drift,
        record: Record,
        now_ns: u64,
    }

    impl Workload {
        fn new() -> Self {
            let types: TypeTable = ["ONE", "OTHER"].map(TypeSpec::new).into_iter().collect();
            let mut record = Record::new(&types);
            record.took(0, 100);
            record.took(1, 100);
            Self { drift: Drift::new(&types), record, now_ns: 0 }
        }

        /// What has moved after a window in which every `gap_ns` a request arrives, and every `nth` is of the second
        /// type.
        fn window(&mut self, gap_ns: u64, nth: u32) -> Option<Moved> {
            let mut moved = None;
            for number in 1..=WINDOW {
                assert_eq!(moved, None, "in the window");
                self.now_ns += gap_ns;
                let slot = usize::from(number % nth == 0);
                moved = self.drift.arrived(self.now_ns, slot, &self.record);
            }
            moved
        }
    }

    #[test]
    fn a_rate_or_a_share_of_the_demand_moves_by_more_than_a_tenth() {
        let mut workload = Workload::new();
        // The first window is the one that the others are compared with, until there is a study.
        let windows = [
            (1_000, 4),
            (1_000, 4),
            (1_099, 4),
            (1_101, 4),
            (910, 4),
            (909, 4),
            (1_000, 8),
            (1_000, 2),
            (500, 2),
        ];
        let moved = windows.map(|(gap_ns, nth)| workload.window(gap_ns, nth));
        use Moved::{Rate, Shares};
        let expected = [None, None, None, Some(Rate), None, Some(Rate), Some(Shares), Some(Shares), Some(Shares)];
        assert_eq!(moved, expected);
        workload.drift.studied();
        assert_eq!(
            [(500, 2), (500, 4)].map(|(gap_ns, nth)| workload.window(gap_ns, nth)),
            [None, Some(Shares)]
        );
    }

    #[test]
    fn a_share_differs_by_more_than_a_tenth_of_all_demand() {
        let differ = [[0.5, 0.5], [0.59, 0.41], [0.61, 0.39], [0.39, 0.61]].map(|now| shares_differ(&now, &[0.5, 0.5]));
        assert_eq!(differ, [false, false, true, true]);
        assert!(!shares_differ(&[0.25], &[0.125 + 0.125]) && !shares_differ(&[SHARE], &[0.0]));
    }
}
