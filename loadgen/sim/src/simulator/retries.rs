//! Clients that give up and clients that ask again.
//!
//! ```text
//!   arrival ─► attempt ─► server ─► answered in time: done
//!                 ▲          │
//!                 │          └────► refused, or the client gave up
//!                 └─── backoff ◄──┘
//! ```
//!
//! A server does not see that a client gave up. Clients stop to ask again when no more requests arrive, because the
//! measurement ends there.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::arrivals::{Arrival, Stream};
use super::plan::SimPlan;
use crate::workload::Clients;

/// A request on behalf of a client, which may be one of several.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub(super) arrival: Arrival,
    /// Attempts before it.
    pub(super) tries: u32,
    pub(super) measured: bool,
}

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    GivesUp,
    AsksAgain,
}

/// See the [module](self).
pub(super) struct Retries {
    clients: Clients,
    rng: Xoshiro256PlusPlus,
    serial: u64,
    /// By serial numbers.
    open: HashMap<u64, Attempt>,
    agenda: BinaryHeap<Reverse<(u64, u64, Next)>>,
    /// Whether the measurement ended.
    over: bool,
}

impl Retries {
    /// `None` if clients never ask again.
    pub(super) fn new(plan: &SimPlan) -> Option<Self> {
        let clients = plan.workload.clients.clone();
        (clients.retries > 0).then(|| Self {
            clients,
            rng: Stream::Retries.rng(plan.seed),
            serial: 0,
            open: HashMap::new(),
            agenda: BinaryHeap::new(),
            over: false,
        })
    }

    /// When a client does something next; the end of time if none does.
    pub(super) fn next_ns(&self) -> u64 {
        self.agenda.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns)
    }

    /// A client sends a request, and gives up after `timeout_ns`. Returns the attempt's number.
    pub(super) fn sent(&mut self, now_ns: u64, attempt: Attempt, timeout_ns: Option<u64>) -> u64 {
        if self.over {
            return 0;
        }
        self.serial += 1;
        self.open.insert(self.serial, attempt);
        if let Some(timeout_ns) = timeout_ns {
            let gives_up = (now_ns.saturating_add(timeout_ns), self.serial, Next::GivesUp);
            self.agenda.push(Reverse(gives_up));
        }
        self.serial
    }

    /// An attempt was answered, well or not.
    pub(super) fn ended(&mut self, now_ns: u64, serial: u64, is_done: bool) {
        if is_done {
            self.open.remove(&serial);
        } else {
            self.failed(now_ns, serial);
        }
    }

    /// The client that is next gives up, or asks again.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<Attempt> {
        let Reverse((_, serial, next)) = self.agenda.pop()?;
        match next {
            Next::GivesUp => {
                self.failed(now_ns, serial);
                None
            }
            Next::AsksAgain => self.open.remove(&serial),
        }
    }

    /// No client asks again any more.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.agenda.clear();
        self.open.clear();
    }

    fn failed(&mut self, now_ns: u64, serial: u64) {
        let Some(attempt) = self.open.remove(&serial).filter(|attempt| attempt.tries < self.clients.retries) else {
            return;
        };
        let backoff_ns = self.clients.backoff_us * 1e3 * 2_f64.powi(attempt.tries as i32);
        let part = 1.0 - self.clients.jitter * self.rng.random::<f64>();
        self.serial += 1;
        let again = Attempt { tries: attempt.tries + 1, ..attempt };
        self.open.insert(self.serial, again);
        let at_ns = now_ns.saturating_add((backoff_ns * part) as u64);
        self.agenda.push(Reverse((at_ns, self.serial, Next::AsksAgain)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use psp_policy::Policy;

    fn retries() -> (Retries, Attempt) {
        let mut workload = Workload::named("fixed").unwrap();
        workload.clients = Clients {
            retries: 2,
            backoff_us: 1.0,
            jitter: 0.0,
            ..Clients::default()
        };
        let plan = SimPlan::new(workload, Policy::c_fcfs(), 1, 0.5);
        let arrival = Arrival {
            at_ns: 0,
            kind: 0,
            service_ns: 9,
            wait_ns: 0,
            priority: 3,
            tenant: 0,
        };
        (Retries::new(&plan).unwrap(), Attempt { arrival, tries: 0, measured: true })
    }

    #[test]
    fn a_client_gives_up_and_asks_again_until_its_retries_are_used_up() {
        let (mut retries, attempt) = retries();
        retries.sent(0, attempt, Some(100));
        assert_eq!(retries.next_ns(), 100);
        assert!(retries.take(100).is_none(), "it gives up");
        assert_eq!(retries.next_ns(), 1_100);
        let again = retries.take(1_100).unwrap();
        assert_eq!(again.tries, 1);
        let serial = retries.sent(1_100, again, Some(100));
        retries.ended(1_150, serial, false);
        // Refused at once; that it would have given up at 1200 is forgotten.
        assert!(retries.take(1_200).is_none());
        assert_eq!(retries.next_ns(), 3_150, "twice the backoff");
        let last = retries.take(3_150).unwrap();
        retries.sent(3_150, last, Some(100));
        assert!(retries.take(3_250).is_none());
        assert_eq!(retries.next_ns(), u64::MAX, "it has asked three times");
    }

    #[test]
    fn an_answer_in_time_is_all_that_a_client_wants() {
        let (mut retries, attempt) = retries();
        let serial = retries.sent(0, attempt, Some(100));
        retries.ended(50, serial, true);
        assert!(retries.take(100).is_none());
        assert_eq!(retries.next_ns(), u64::MAX);
    }

    #[test]
    fn an_answer_after_the_client_gave_up_changes_nothing() {
        let (mut retries, attempt) = retries();
        let serial = retries.sent(0, attempt, Some(100));
        retries.take(100);
        retries.ended(150, serial, true);
        assert!(retries.take(1_100).is_some());
    }
}
