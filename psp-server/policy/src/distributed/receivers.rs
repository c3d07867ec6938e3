//! Which worker receives each request: receive-side scaling gives all requests of a flow to one worker.

use crate::distributed::random::Random;
use crate::event::WorkerId;
use crate::parts::workers::worker_count;

/// Keeps these draws apart from those that policies make with the same seed.
const OWN_STREAM: u64 = 1 << 63;

/// The receivers of requests whose flows are few. Each flow belongs to one worker, and each request to one flow, both
/// at random.
///
/// The simulator and the sender of the same requests to a live server draw the same.
#[derive(Debug)]
pub struct Receivers {
    /// By flow.
    workers: Vec<WorkerId>,
    random: Random,
}

impl Receivers {
    /// `flows` flows over `workers` workers, at least one of each.
    #[must_use]
    pub fn new(workers: usize, flows: usize, seed: u64) -> Self {
        let mut random = Random::new(seed ^ OWN_STREAM);
        let workers = worker_count(workers);
        let owner = |_| WorkerId(random.below(workers));
        Self { workers: (0..flows.max(1)).map(owner).collect(), random }
    }

    /// The worker that receives the next request.
    pub fn draw(&mut self) -> WorkerId {
        let flow = self.random.below(worker_count(self.workers.len()));
        self.workers[flow as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(flows: usize, seed: u64) -> Vec<u32> {
        let mut receivers = Receivers::new(14, flows, seed);
        (0..1_000).map(|_| receivers.draw().0).collect()
    }

    #[test]
    fn a_flow_has_one_receiver_and_all_of_many_workers_have_flows() {
        let receivers = |flows| {
            let mut drawn = drawn(flows, 3);
            drawn.sort_unstable();
            drawn.dedup();
            drawn.len()
        };
        assert_eq!(receivers(1), 1);
        assert!((2..=8).contains(&receivers(8)));
        assert_eq!(receivers(512), 14);
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(drawn(8, 3), drawn(8, 3));
        assert_ne!(drawn(8, 3), drawn(8, 4));
    }
}
