//! One time for each worker, and the earliest of them.

use crate::event::WorkerId;

/// No time is set.
const NEVER: u64 = u64::MAX;

/// One time for each worker, and the earliest of them: the ends of quanta in a scheduler, the ends
/// of service times in a simulator.
///
/// A tournament tree: changing one of N times takes log N steps, most often fewer. Where several
/// are equal, the worker with the lowest number is the earliest.
#[derive(Debug, Clone)]
pub struct WorkerTimes {
    /// A complete binary tree; node `n` has the earlier of nodes `2n` and `2n + 1`. Workers' own
    /// times begin at `leaves`.
    nodes: Vec<u64>,
    leaves: usize,
}

impl WorkerTimes {
    /// No time for any of `workers` workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let leaves = workers.next_power_of_two();
        Self { nodes: vec![NEVER; 2 * leaves], leaves }
    }

    /// Sets a worker's time. The last nanosecond that 64 bits can count is none.
    ///
    /// # Panics
    ///
    /// When there is no such worker.
    pub fn set(&mut self, worker: WorkerId, at_ns: u64) {
        let mut node = self.leaves + worker.index();
        let mut earlier_ns = at_ns;
        loop {
            self.nodes[node] = earlier_ns;
            if node <= 1 {
                return;
            }
            earlier_ns = earlier_ns.min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == earlier_ns {
                return;
            }
        }
    }

    /// Takes back a worker's time.
    pub fn clear(&mut self, worker: WorkerId) {
        self.set(worker, NEVER);
    }

    /// A worker's time.
    #[must_use]
    pub fn get(&self, worker: WorkerId) -> Option<u64> {
        Some(self.nodes[self.leaves + worker.index()]).filter(|&at_ns| at_ns != NEVER)
    }

    /// The earliest time.
    #[must_use]
    pub fn earliest_ns(&self) -> Option<u64> {
        Some(self.nodes[1]).filter(|&at_ns| at_ns != NEVER)
    }

    /// The earliest time, and whose it is.
    #[must_use]
    pub fn earliest(&self) -> Option<(u64, WorkerId)> {
        let at_ns = self.earliest_ns()?;
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.nodes[node] != at_ns);
        }
        let worker = u32::try_from(node - self.leaves).expect("worker ids are 32 bits wide");
        Some((at_ns, WorkerId(worker)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain array.
        #[test]
        fn agrees_with_an_array(
            workers in 1_usize..40,
            steps in prop::collection::vec((0_usize..40, prop::option::of(0_u64..50)), 0..200),
        ) {
            let mut times = WorkerTimes::new(workers);
            let mut plain = vec![None; workers];
            for (worker, at_ns) in steps {
                let index = worker % workers;
                let worker = WorkerId(u32::try_from(index).unwrap());
                plain[index] = at_ns;
                match at_ns {
                    Some(at_ns) => times.set(worker, at_ns),
                    None => times.clear(worker),
                }
                prop_assert_eq!(times.get(worker), at_ns);
                let earliest = (0..).zip(&plain).filter_map(|(n, at)| Some((((*at)?), WorkerId(n)))).min();
                prop_assert_eq!(times.earliest(), earliest);
                prop_assert_eq!(times.earliest_ns(), earliest.map(|(at_ns, _)| at_ns));
            }
        }
    }
}
