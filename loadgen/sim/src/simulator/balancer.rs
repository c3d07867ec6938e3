//! The load balancer in front of several servers.

use std::collections::VecDeque;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::arrivals::Stream;
use super::cluster::{Cluster, Spread};

/// What a balancer will see of a server.
#[derive(Debug, Clone, Copy)]
struct Report {
    seen_ns: u64,
    server: usize,
    requests: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Balancer {
    cluster: Cluster,
    rng: Xoshiro256PlusPlus,
    /// Requests that each server has.
    requests: Vec<u64>,
    /// The same as far as the balancer sees it.
    seen: Vec<u64>,
    /// What it sees later, in order of time.
    on_its_way: VecDeque<Report>,
}

impl Balancer {
    /// In front of at least two servers.
    pub(super) fn new(cluster: Cluster, seed: u64) -> Self {
        Self {
            cluster,
            rng: Stream::Spread.rng(seed),
            requests: vec![0; cluster.servers],
            seen: vec![0; cluster.servers],
            on_its_way: VecDeque::new(),
        }
    }

    /// A server has so many requests from now on.
    #[inline]
    pub(super) fn report(&mut self, now_ns: u64, server: usize, requests: u64) {
        if self.requests[server] == requests {
            return;
        }
        self.requests[server] = requests;
        match (self.cluster.spread, self.cluster.feedback_delay_ns) {
            (Spread::Random, _) => {}
            (_, 0) => self.seen[server] = requests,
            (_, delay_ns) => self.on_its_way.push_back(Report { seen_ns: now_ns + delay_ns, server, requests }),
        }
    }

    /// The server of the request that arrives now.
    pub(super) fn choose(&mut self, now_ns: u64) -> usize {
        while let Some(report) = self.on_its_way.front().copied()
            && report.seen_ns <= now_ns
        {
            self.seen[report.server] = report.requests;
            self.on_its_way.pop_front();
        }
        let servers = self.seen.len();
        match self.cluster.spread {
            Spread::Random => self.rng.random_range(0..servers),
            Spread::TwoChoices => {
                let one = self.rng.random_range(0..servers);
                // Any server but that one.
                let other = self.rng.random_range(0..servers - 1);
                let other = other + usize::from(other >= one);
                if self.seen[other] < self.seen[one] { other } else { one }
            }
            Spread::Jsq => self.shortest(),
        }
    }

    /// One of the servers with the fewest requests.
    fn shortest(&mut self) -> usize {
        let (mut fewest, mut ties) = (u64::MAX, 0);
        for &requests in &self.seen {
            if requests < fewest {
                (fewest, ties) = (requests, 1);
            } else {
                ties += usize::from(requests == fewest);
            }
        }
        let chosen = match ties {
            1 => 0,
            _ => self.rng.random_range(0..ties),
        };
        let servers = self.seen.iter().enumerate();
        let shortest = servers.filter(|(_, requests)| **requests == fewest);
        shortest.map(|(server, _)| server).nth(chosen).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balancer(spread: Spread, feedback_delay_ns: u64) -> Balancer {
        let cluster = Cluster { servers: 4, spread, feedback_delay_ns };
        let mut balancer = Balancer::new(cluster, 1);
        for (server, requests) in [(0, 3), (1, 2), (2, 9), (3, 2)] {
            balancer.report(0, server, requests);
        }
        balancer
    }

    /// How often each server is chosen.
    fn chosen(balancer: &mut Balancer, now_ns: u64) -> [u32; 4] {
        let mut counts = [0; 4];
        for _ in 0..4_000 {
            counts[balancer.choose(now_ns)] += 1;
        }
        counts
    }

    #[test]
    fn a_choice_at_random_minds_no_requests() {
        let counts = chosen(&mut balancer(Spread::Random, 0), 0);
        let even = counts.iter().all(|count| (900..1_100).contains(count));
        assert!(even, "{counts:?}");
    }

    #[test]
    fn of_two_choices_the_longest_loses_to_all() {
        let [second, shortest, longest, shortest_too] = chosen(&mut balancer(Spread::TwoChoices, 0), 0);
        assert_eq!(longest, 0);
        // Of six pairs it wins the one with the longest.
        assert!((600..730).contains(&second), "{second}");
        assert!(shortest.abs_diff(shortest_too) < 200);
    }

    #[test]
    fn the_shortest_share_what_comes() {
        let counts = chosen(&mut balancer(Spread::Jsq, 0), 0);
        assert_eq!((counts[0], counts[2]), (0, 0));
        assert!(counts[1].abs_diff(counts[3]) < 200, "{counts:?}");
    }

    #[test]
    fn what_is_on_its_way_does_not_count() {
        let mut late = balancer(Spread::Jsq, 10);
        let before = chosen(&mut late, 9);
        assert!(before.iter().all(|count| *count > 900), "{before:?}");
        late.report(9, 1, 50);
        assert!(chosen(&mut late, 18)[1] > 1_900);
        assert_eq!(chosen(&mut late, 19), [0, 0, 0, 4_000]);
        assert!(late.on_its_way.is_empty());
    }
}
