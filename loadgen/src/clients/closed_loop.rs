//! The clients of a closed loop: each sends, waits for the reply, thinks, and sends again.
//!
//! ```text
//!   waiting clients ──► due, and a connection is free ──► in flight
//!        ▲                                                   │
//!        └──────────── think ◄──── reply, error or timeout ──┘
//! ```

use std::collections::VecDeque;

use psp_sim::random::{WeightedChoice, stream_rng};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::arrival::Arrival;

/// Random stream of the types of requests.
const TYPE_STREAM: u64 = 3 << 32;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Clients {
    /// Clients without a request in flight. All clients think for the same time, so they are in the
    /// order of their next requests.
    waiting: VecDeque<Waiting>,
    types: Types,
    think_ns: u64,
    end_ns: u64,
}

/// The types of a client's requests.
#[derive(Debug)]
enum Types {
    /// Always the same type.
    Own,
    /// A random type for each request.
    Shared { choice: WeightedChoice, rng: Box<Xoshiro256PlusPlus> },
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    index: usize,
    due_ns: u64,
}

/// The run's clock shows 0 until the run starts.
const FIRST_NS: u64 = 1;

impl Clients {
    /// `count` clients for each of `types` types.
    pub(crate) fn of_each(types: usize, count: usize, think_ns: u64, end_ns: u64) -> Self {
        let clients = (0..count).flat_map(|_| 0..types);
        Self {
            waiting: clients.map(|index| Waiting { index, due_ns: FIRST_NS }).collect(),
            types: Types::Own,
            think_ns,
            end_ns,
        }
    }

    /// `count` clients that draw the types of their requests from `choice`.
    pub(crate) fn of_all(choice: WeightedChoice, count: usize, think_ns: u64, end_ns: u64, seed: u64) -> Self {
        let mut clients = Self {
            waiting: VecDeque::with_capacity(count),
            types: Types::Shared { choice, rng: Box::new(stream_rng(seed, TYPE_STREAM)) },
            think_ns,
            end_ns,
        };
        for _ in 0..count {
            clients.wait(0, FIRST_NS);
        }
        clients
    }

    fn wait(&mut self, own: usize, due_ns: u64) {
        let index = match &mut self.types {
            Types::Own => own,
            Types::Shared { choice, rng } => choice.draw(rng.random()).0,
        };
        self.waiting.push_back(Waiting { index, due_ns });
    }

    /// A request of type `index` has ended at `now_ns`.
    pub(crate) fn ended(&mut self, index: usize, now_ns: u64) {
        self.wait(index, now_ns.saturating_add(self.think_ns));
    }

    /// The index of the first client that can send at `now_ns`.
    fn ready(&self, now_ns: u64, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        let due = self.waiting.iter().take_while(|it| it.due_ns <= now_ns);
        due.map(|it| it.index).position(has_room)
    }

    /// A request to send now. Its intended time is `now_ns`.
    pub(crate) fn take_due(&mut self, now_ns: u64, has_room: impl Fn(usize) -> bool) -> Option<Arrival> {
        if now_ns >= self.end_ns {
            return None;
        }
        let position = self.ready(now_ns, has_room)?;
        self.waiting
            .remove(position)
            .map(|client| Arrival { index: client.index, command: 0, intended_ns: now_ns })
    }

    /// When a client can send next, or the end of the run. `None` after that.
    pub(crate) fn next_ns(&self, now_ns: u64, has_room: impl Fn(usize) -> bool) -> Option<u64> {
        if now_ns >= self.end_ns {
            return None;
        }
        if self.ready(now_ns, has_room).is_some() {
            return Some(now_ns);
        }
        let mut due = self.waiting.iter().map(|it| it.due_ns);
        let later = due.find(|due_ns| *due_ns > now_ns);
        Some(later.map_or(self.end_ns, |due_ns| due_ns.min(self.end_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_NS: u64 = 1_000;

    fn take_all(clients: &mut Clients, now_ns: u64) -> Vec<usize> {
        std::iter::from_fn(|| clients.take_due(now_ns, |_| true))
            .map(|arrival| {
                assert_eq!(arrival.intended_ns, now_ns);
                arrival.index
            })
            .collect()
    }

    #[test]
    fn each_client_has_one_request_and_thinks_after_it() {
        let mut clients = Clients::of_each(2, 2, 50, END_NS);
        assert!(take_all(&mut clients, 0).is_empty());
        assert_eq!(take_all(&mut clients, 1), [0, 1, 0, 1]);
        assert_eq!(clients.next_ns(1, |_| true), Some(END_NS));
        clients.ended(1, 100);
        assert!(take_all(&mut clients, 149).is_empty());
        assert_eq!(clients.next_ns(149, |_| true), Some(150));
        assert_eq!(take_all(&mut clients, 150), [1]);
    }

    #[test]
    fn nothing_is_sent_after_the_end() {
        let mut clients = Clients::of_each(1, 1, 0, END_NS);
        assert_eq!(clients.next_ns(END_NS - 1, |_| true), Some(END_NS - 1));
        assert!(take_all(&mut clients, END_NS).is_empty());
        assert_eq!(clients.next_ns(END_NS, |_| true), None);
    }

    #[test]
    fn who_has_no_connection_lets_others_go_first() {
        let mut clients = Clients::of_each(2, 1, 0, END_NS);
        let only_second = |index| index == 1;
        let taken = clients.take_due(5, only_second).unwrap();
        assert_eq!(taken.index, 1);
        assert_eq!(clients.take_due(5, only_second), None);
        assert_eq!(clients.next_ns(5, only_second), Some(END_NS));
        assert_eq!(clients.next_ns(5, |_| true), Some(5));
    }

    #[test]
    fn shared_clients_send_types_by_weight() {
        let choice = WeightedChoice::new([3.0, 1.0].into_iter()).unwrap();
        let mut clients = Clients::of_all(choice, 10, 0, END_NS, 1);
        let mut counts = [0_u32; 2];
        for now_ns in 1..END_NS {
            for index in take_all(&mut clients, now_ns) {
                counts[index] += 1;
                clients.ended(index, now_ns + 1);
            }
        }
        let total: u32 = counts.iter().sum();
        assert_eq!(total, 10 * (END_NS as u32 - 1));
        let share = f64::from(counts[0]) / f64::from(total);
        assert!((share / 0.75 - 1.0).abs() < 0.03, "{share}");
    }
}
