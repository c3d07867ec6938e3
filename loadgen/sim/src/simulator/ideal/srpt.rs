//! Shortest remaining processing time first: the workers always run the requests that need the
//! least more service.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::driver::Ideal;
use crate::simulator::recorder::Measured;
use crate::simulator::slab::Slab;

/// See the [module](self).
pub(crate) struct ShortestRemaining {
    workers: usize,
    now_ns: u64,
    /// When each running request completes.
    running: Vec<(u64, u32)>,
    /// Waiting requests by the service that they still need. Of equals the earlier request comes
    /// first.
    waiting: BinaryHeap<Reverse<(u64, u64, u32)>>,
    waited: u64,
    requests: Slab<Measured>,
    served_ns: f64,
    preemptions: u64,
}

impl ShortestRemaining {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers,
            now_ns: 0,
            running: Vec::with_capacity(workers),
            waiting: BinaryHeap::new(),
            waited: 0,
            requests: Slab::default(),
            served_ns: 0.0,
            preemptions: 0,
        }
    }

    fn wait(&mut self, remaining_ns: u64, index: u32) {
        self.waiting.push(Reverse((remaining_ns, self.waited, index)));
        self.waited += 1;
    }
}

impl Ideal for ShortestRemaining {
    fn next_ns(&self) -> Option<f64> {
        let ends_ns = self.running.iter().map(|(ends_ns, _)| *ends_ns).min();
        ends_ns.map(|ends_ns| ends_ns as f64)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a whole number: the time of an arrival or a completion"
    )]
    fn advance(&mut self, now_ns: f64) {
        self.served_ns += (now_ns - self.now_ns as f64) * self.running.len() as f64;
        self.now_ns = now_ns as u64;
    }

    fn arrive(&mut self, request: Measured) {
        let service_ns = request.service_ns;
        let index = self.requests.insert(request);
        let ends_ns = self.now_ns + service_ns;
        if self.running.len() < self.workers {
            self.running.push((ends_ns, index));
            return;
        }
        let longest = self.running.iter_mut().max();
        match longest.filter(|(longest_ns, _)| *longest_ns > ends_ns) {
            None => self.wait(service_ns, index),
            Some(longest) => {
                let (victim_ends_ns, victim) = std::mem::replace(longest, (ends_ns, index));
                self.preemptions += 1;
                self.wait(victim_ends_ns - self.now_ns, victim);
            }
        }
    }

    fn complete(&mut self) -> Option<Measured> {
        let ended = (0..self.running.len()).min_by_key(|&index| self.running[index])?;
        let (_, done) = self.running.swap_remove(ended);
        if let Some(Reverse((remaining_ns, _, index))) = self.waiting.pop() {
            self.running.push((self.now_ns + remaining_ns, index));
        }
        Some(self.requests.remove(done))
    }

    fn spent(&self) -> (f64, u64) {
        (self.served_ns, self.preemptions)
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::tests::run;
    use super::*;

    #[test]
    fn what_needs_less_goes_first() {
        let ideal = ShortestRemaining::new(1);
        // The third needs less than the 5 that are left of the first, the second does not.
        let requests = [(0, 10), (4, 8), (5, 2)];
        assert_eq!(run(ideal, &requests), [(2, 7.0), (0, 12.0), (1, 20.0)]);
    }

    #[test]
    fn the_one_that_needs_most_makes_room() {
        let ideal = ShortestRemaining::new(2);
        let requests = [(0, 10), (0, 20), (1, 3)];
        assert_eq!(run(ideal, &requests), [(2, 4.0), (0, 10.0), (1, 23.0)]);
    }
}
