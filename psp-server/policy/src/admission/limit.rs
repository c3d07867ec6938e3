//! How many requests of a type may be in the system, in multiples of the workers that it is entitled to.
//!
//! At 1 there is one request for each of these workers, and no queue. Above, a queue waits whose time is bounded;
//! below, workers stay free for others. Additive increase, multiplicative decrease: the limit grows slowly while it
//! refuses requests and nobody is hurt, and is cut at once when someone is. What a queue of one type does to another
//! depends on the policy, so it is measured and not computed.

/// The least that a limit is cut to.
const LEAST: f64 = 0.3;

/// Part of what is above 1 that is left by a cut.
const CUT_ABOVE: f64 = 0.25;

/// Below this distance from 1 a cut ends at 1.
const NEAR: f64 = 0.04;

/// What is left by a cut from 1 or below.
const CUT_BELOW: f64 = 0.95;

/// Growth in an interval.
const STEP: f64 = 0.02;

/// Intervals without a cut before it grows.
const PATIENCE: u32 = 8;

/// See the [module](self).
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    factor: f64,
    /// Whether it refused a request in this interval.
    refused: bool,
    /// No cut before this time, because the last one is still to take effect.
    next_cut_ns: u64,
    /// Intervals since the last cut.
    calm: u32,
}

impl Limit {
    pub(super) const fn new() -> Self {
        Self {
            factor: f64::INFINITY,
            refused: false,
            next_cut_ns: 0,
            calm: 0,
        }
    }

    /// The factor, which is at most `most`.
    pub(super) fn factor(&self, most: f64) -> f64 {
        self.factor.min(most)
    }

    /// It refused a request.
    pub(super) fn refused(&mut self) {
        self.refused = true;
    }

    /// Someone is hurt: it is cut to `floor` at the least, unless the last cut was less than `pause_ns` ago. Returns
    /// whether it was.
    pub(super) fn cut(&mut self, now_ns: u64, most: f64, floor: f64, pause_ns: f64) -> bool {
        let factor = self.factor(most);
        let floor = floor.max(LEAST);
        if now_ns < self.next_cut_ns || factor <= floor {
            return false;
        }
        let cut = match factor {
            above if above > 1.0 + NEAR => 1.0 + (above - 1.0) * CUT_ABOVE,
            above if above > 1.0 => 1.0,
            below => below * CUT_BELOW,
        };
        self.factor = cut.max(floor);
        self.next_cut_ns = now_ns + pause_ns as u64;
        self.calm = 0;
        true
    }

    /// An interval ended.
    pub(super) fn close(&mut self, most: f64) {
        self.calm = self.calm.saturating_add(1);
        if std::mem::take(&mut self.refused) && self.calm > PATIENCE {
            self.factor = (self.factor(most) + STEP).min(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_cut_at_once_and_grows_slowly() {
        let mut limit = Limit::new();
        assert_eq!(limit.factor(3.0), 3.0);
        assert!(limit.cut(100, 3.0, 0.0, 50.0));
        assert_eq!(limit.factor(3.0), 1.5);
        assert!(!limit.cut(149, 3.0, 0.0, 50.0), "the last cut has not taken effect");
        assert!(limit.cut(150, 3.0, 0.0, 50.0) && limit.cut(200, 3.0, 0.0, 50.0));
        assert_eq!(limit.factor(3.0), 1.03125);
        assert!(limit.cut(250, 3.0, 0.0, 50.0));
        assert_eq!(limit.factor(3.0), 1.0);
        assert!(!limit.cut(300, 3.0, 1.0, 50.0), "at its floor");
        let mut near = Limit::new();
        assert!(near.cut(0, 1.0 + NEAR, 0.0, 0.0));
        assert_eq!(near.factor(3.0), 1.0);
        for _ in 0..PATIENCE {
            limit.refused();
            limit.close(3.0);
        }
        assert_eq!(limit.factor(3.0), 1.0, "too early");
        limit.close(3.0);
        assert_eq!(limit.factor(3.0), 1.0, "nothing was refused");
        limit.refused();
        limit.close(3.0);
        assert_eq!(limit.factor(3.0), 1.0 + STEP);
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut limit = Limit::new();
        for cut in 0..1_000 {
            limit.cut(cut, 3.0, 0.0, 0.0);
        }
        assert_eq!(limit.factor(3.0), LEAST);
        for _ in 0..10_000 {
            limit.refused();
            limit.close(3.0);
        }
        assert_eq!(limit.factor(3.0), 3.0);
    }
}
