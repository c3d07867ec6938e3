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
