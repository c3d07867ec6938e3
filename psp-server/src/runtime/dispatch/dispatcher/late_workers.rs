//! Workers that begin their requests late, in virtual time: tests of when a quantum starts, with the policy,
//! the dispatcher and the account of turns of a real server.
//!
//! ```text
//!   dispatcher   Run                Preempt
//!   worker        └──── WAKE_NS ────► begins, and says so ── served ──► done, or yields when it is asked; at
//!                                                                       once if that was before it began
//! ```

use std::sync::Arc;

use psp_policy::{Action, Policy, PreemptPolicy, RequestId, RequestType, TypeTable, WorkerId};

use super::Dispatcher;
use crate::config::Config;
use crate::runtime::channel::turn_start::TurnStart;
use crate::shared::Receiver;

const US: u64 = 1_000;
/// From the dispatcher's `Run` to the request's first instruction.
const WAKE_NS: u64 = 30 * US;
const REQUESTS: usize = 3;
const SERVICE_NS: u64 = 120 * US;
/// More turns than any test needs: requests without progress reach this number.
const TURNS_MAX: usize = 10_000;
const WORKER: WorkerId = WorkerId(0);

type Classify = fn(&[u8]) -> RequestType;

/// The turn that runs on the worker, or will.
#[derive(Debug, Clone, Copy)]
struct Turn {
    request: usize,
    begins_ns: u64,
    has_begun: bool,
    asked_ns: Option<u64>,
}

/// One worker, and requests that take turns.
struct Machine {
    dispatcher: Dispatcher<Classify>,
    start: Arc<TurnStart>,
    now_ns: u64,
    turn: Option<Turn>,
    /// Turns that were sent, as both ends of a link count them.
    turns: u64,
    /// The service that each request still needs.
    left_ns: [u64; REQUESTS],
    /// The request of each turn that is over, and how long it was served in that turn.
    served_ns: Vec<(usize, u64)>,
}

impl Machine {
    fn new(preempt: PreemptPolicy, quantum_us: f64) -> Self {
        let config = Config { preempt, ..Config::default() };
        let shared = Receiver::example(config, TypeTable::new(), 1);
        let policy = Policy::sq().quantum_us(quantum_us);
        let scheduler = policy.scheduler(&shared.scheduler_setup());
        let start = Arc::new(TurnStart::new());
        let classify: Classify = |_| RequestType::UNKNOWN;
        Self {
            dispatcher: Dispatcher::new(classify, scheduler, shared, vec![start.clone()]),
            start,
            now_ns: 0,
            turn: None,
            turns: 0,
            left_ns: [SERVICE_NS; REQUESTS],
            served_ns: Vec::new(),
        }
    }

    /// All requests arrive at once, and are served.
    fn serve(mut self) -> Vec<(usize, u64)> {
        for request in (0..).take(REQUESTS).map(RequestId) {
            self.dispatcher.entered(0, request, RequestType::UNKNOWN);
        }
        self.carry_out();
        while self.left_ns != [0; REQUESTS] {
            assert!(self.served_ns.len() < TURNS_MAX, "requests make no progress");
            self.pass_time();
            self.carry_out();
        }
        self.served_ns
    }

    /// Passes the time until the worker's next event, or the dispatcher's deadline.
    fn pass_time(&mut self) {
        let worker_ns = self.turn.map(|turn| self.next_ns(turn));
        let deadline_ns = self.dispatcher.deadline_ns();
        let next_ns = worker_ns.into_iter().chain(deadline_ns).min();
        let next_ns = next_ns.expect("a request waits or runs");
        self.now_ns = self.now_ns.max(next_ns);
        match self.turn {
            Some(turn) if self.next_ns(turn) <= self.now_ns => self.advance(turn),
            _ => {}
        }
    }

    /// When the turn begins, or ends if it has begun.
    fn next_ns(&self, turn: Turn) -> u64 {
        let done_ns = turn.begins_ns + self.left_ns[turn.request];
        match turn.asked_ns {
            _ if !turn.has_begun => turn.begins_ns,
            None => done_ns,
            Some(asked_ns) => done_ns.min(asked_ns.max(turn.begins_ns)),
        }
    }

    fn advance(&mut self, turn: Turn) {
        if !turn.has_begun {
            self.start.announce(self.turns, self.now_ns);
            let has_begun = true;
            self.turn = Some(Turn { has_begun, ..turn });
            return;
        }
        let served_ns = self.now_ns.saturating_sub(turn.begins_ns);
        self.served_ns.push((turn.request, served_ns));
        self.left_ns[turn.request] -= served_ns;
        self.turn = None;
        if self.left_ns[turn.request] == 0 {
            self.dispatcher.completed(self.now_ns, WORKER, &[]);
        } else {
            self.dispatcher.yielded(self.now_ns, WORKER, served_ns);
        }
    }

    fn carry_out(&mut self) {
        self.dispatcher.tick(self.now_ns);
        while let Some(action) = self.dispatcher.poll(self.now_ns) {
            match (action, &mut self.turn) {
                (Action::Run { request, .. }, None) => {
                    self.turns += 1;
                    self.turn = Some(Turn {
                        request: request.0 as usize,
                        begins_ns: self.now_ns + WAKE_NS,
                        has_begun: false,
                        asked_ns: None,
                    });
                }
                (Action::Preempt { .. }, Some(turn)) => turn.asked_ns = Some(self.now_ns),
                (action, turn) => unreachable!("{action:?} while {turn:?}"),
            }
        }
    }
}

/// By the policy's count the quanta would be over 20 us after they began.
#[test]
fn a_turn_that_begins_late_has_its_full_quantum() {
    let served_ns = Machine::new(PreemptPolicy::Cooperative, 50.0).serve();
    let round = |served_ns| (0..REQUESTS).map(move |request| (request, served_ns));
    let rounds = [50 * US, 50 * US, 20 * US].into_iter().flat_map(round);
    assert!(served_ns.iter().copied().eq(rounds), "{served_ns:?}");
}

/// By the policy's count the quanta would be over before they began: no request would ever complete.
#[test]
fn requests_make_progress_with_quanta_shorter_than_a_wake_up() {
    for preempt in [PreemptPolicy::Cooperative, PreemptPolicy::KernelThread, PreemptPolicy::Signal] {
        let served_ns = Machine::new(preempt, 1.0).serve();
        let mut had_ns = [0; REQUESTS];
        for &(request, served_ns) in &served_ns {
            had_ns[request] += served_ns;
            let is_last = had_ns[request] == SERVICE_NS;
            assert!(served_ns >= US || is_last, "{preempt}: {served_ns}");
            assert!(served_ns <= 2 * WAKE_NS, "{preempt}: turns are not checked");
        }
        assert!(served_ns.len() > REQUESTS, "{preempt}: no request yielded");
    }
}
