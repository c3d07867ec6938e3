//! Whether requests stay in the wait queue for too long (Synergy II-B.1).
//!
//! The age of single requests is not examined. Every `threshold` the policy records how many requests
//! were ever put into the queue. If fewer have been taken out by the next time, some waited for all
//! of that time, and the queue is congested until they are out.

/// Whether requests stay in the wait queue for too long (Synergy II-B.1).
#[derive(Debug)]
pub struct Congestion {
    /// 0 if the queue is never congested.
    threshold_ns: u64,
    put: u64,
    taken: u64,
    /// `put` at the last check.
    mark: u64,
    check_ns: u64,
    congested: bool,
}

impl Congestion {
    /// An empty queue.
    #[must_use]
    pub const fn new(threshold_ns: u64) -> Self {
        Self {
            threshold_ns,
            put: 0,
            taken: 0,
            mark: 0,
            check_ns: 0,
            congested: false,
        }
    }

    /// Time passes. Call this before [`Congestion::put`] and [`Congestion::took`] at the same time.
    pub const fn passes(&mut self, now_ns: u64) {
        if self.threshold_ns > 0 && !self.congested && now_ns >= self.check_ns {
            self.congested = self.taken < self.mark;
            if !self.congested {
                self.mark_at(now_ns);
            }
        }
    }

    /// Requests were put into the queue.
    pub const fn put(&mut self, requests: u64) {
        self.put += requests;
    }

    /// One was taken out.
    pub const fn took(&mut self, now_ns: u64) {
        self.taken += 1;
        if self.congested && self.taken >= self.mark {
            self.congested = false;
            self.mark_at(now_ns);
        }
    }

    /// Whether the queue is congested.
    #[must_use]
    pub const fn is_congested(&self) -> bool {
        self.congested
    }

    /// When the queue must be checked next: never while it is empty, or congested already.
    #[must_use]
    pub const fn deadline_ns(&self) -> Option<u64> {
        if self.threshold_ns > 0 && !self.congested && self.taken < self.put {
            Some(self.check_ns)
        } else {
            None
        }
    }

    /// From when the passing of time makes a difference; [`Congestion::passes`] need not be called before.
    #[must_use]
    pub const fn check_ns(&self) -> Option<u64> {
        if self.threshold_ns > 0 && !self.congested {
            Some(self.check_ns)
        } else {
            None
        }
    }

    const fn mark_at(&mut self, now_ns: u64) {
        self.mark = self.put;
        self.check_ns = now_ns.saturating_add(self.threshold_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_congested_when_a_request_waited_from_one_check_to_the_next() {
        let mut queue = Congestion::new(10);
        queue.passes(100);
        queue.put(2);
        assert_eq!(queue.deadline_ns(), Some(110));
        queue.passes(110);
        assert!(!queue.is_congested(), "they may have come just now");
        queue.took(115);
        queue.put(1);
        queue.passes(119);
        assert!(!queue.is_congested());
        queue.passes(120);
        assert!(queue.is_congested(), "the second did not move");
        assert_eq!((queue.deadline_ns(), queue.check_ns()), (None, None));
        queue.took(125);
        assert!(!queue.is_congested(), "the third is new");
        assert_eq!(queue.deadline_ns(), Some(135));
        queue.took(130);
        assert_eq!(queue.deadline_ns(), None, "nothing is left");
        assert_eq!(queue.check_ns(), Some(135));
        queue.passes(1000);
        assert!(!queue.is_congested());
    }

    #[test]
    fn without_a_threshold_it_never_is() {
        let mut queue = Congestion::new(0);
        queue.put(5);
        for now_ns in [0, 1_000_000, 2_000_000, u64::MAX] {
            queue.passes(now_ns);
            assert!(!queue.is_congested());
        }
        assert_eq!(queue.deadline_ns(), None);
    }
}
