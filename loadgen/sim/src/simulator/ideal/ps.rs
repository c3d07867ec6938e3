//! Processor sharing: each of `n` requests is served at `min(1, workers / n)` of a worker's speed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::driver::Ideal;
use crate::simulator::recorder::Measured;
use crate::simulator::slab::Slab;

/// See the [module](self).
pub(crate) struct ProcessorSharing {
    workers: f64,
    now_ns: f64,
    /// Service that each request has received since the system was last empty. All requests receive
    /// the same, so a request completes when this has grown by its service time.
    attained_ns: f64,
    /// Requests by the value of `attained_ns` at their completion. Positive floats sort as their
    /// bits do.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    requests: Slab<Measured>,
    served_ns: f64,
}

impl ProcessorSharing {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: workers as f64,
            now_ns: 0.0,
            attained_ns: 0.0,
            ends: BinaryHeap::new(),
            requests: Slab::default(),
            served_ns: 0.0,
        }
    }

    fn speed(&self) -> f64 {
        (self.workers / self.ends.len() as f64).min(1.0)
    }
}

impl Ideal for ProcessorSharing {
    fn next_ns(&self) -> Option<f64> {
        let Reverse((ends, _)) = self.ends.peek()?;
        let left_ns = (f64::from_bits(*ends) - self.attained_ns).max(0.0);
        Some(self.now_ns + left_ns / self.speed())
    }

    fn advance(&mut self, now_ns: f64) {
        let requests = self.ends.len();
        if requests > 0 {
            let attained_ns = (now_ns - self.now_ns) * self.speed();
            self.attained_ns += attained_ns;
            self.served_ns += attained_ns * requests as f64;
        }
        self.now_ns = now_ns;
    }

    fn arrive(&mut self, request: Measured) {
        if self.ends.is_empty() {
            self.attained_ns = 0.0;
        }
        let ends = self.attained_ns + request.service_ns as f64;
        let index = self.requests.insert(request);
        self.ends.push(Reverse((ends.to_bits(), index)));
    }

    fn complete(&mut self) -> Option<Measured> {
        let Reverse((ends, index)) = self.ends.pop()?;
        self.attained_ns = f64::from_bits(ends);
        Some(self.requests.remove(index))
    }

    fn spent(&self) -> (f64, u64) {
        (self.served_ns, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::tests::run;
    use super::*;

    #[test]
    fn two_on_one_worker_take_turns() {
        // Alone until 5, both at half speed until the second is done at 9, then alone again.
        let ideal = ProcessorSharing::new(1);
        assert_eq!(run(ideal, &[(0, 10), (5, 2)]), [(1, 9.0), (0, 12.0)]);
    }

    #[test]
    fn no_request_is_faster_than_one_worker() {
        let ideal = ProcessorSharing::new(3);
        assert_eq!(run(ideal, &[(0, 10), (5, 2)]), [(1, 7.0), (0, 10.0)]);
    }
}
