//! Requests that are stuck on workers with threads of their own, and share these workers with what waits.
//!
//! ```text
//!   runs, is stuck ── a request waits: asked ──► yields: away ────┬─ its worker runs nothing ──────────────► goes on
//!     ▲                                                           └─ for as long as it ran, 2 budgets at most ──┐
//!     └──────────────────── the first of those away from this worker, one at a time ◄───────────────────────────┘
//! ```
//!
//! Most policies run requests to their ends. A request that has none would keep its worker for ever, and with as many
//! of them as workers nothing else ran. So a request yields at its checkpoints, under each policy, from a fifth of the
//! time on after which it is [stuck](field@crate::Config::stuck_after_ms): others have its worker for half of the time
//! at least. What begins beside such a request yields sooner, because a client that sent one may have sent many. To the
//! policy, the request is blocked while it is away, as one is that [paused](super::pauses) on the net thread. Policies
//! that preempt ask first.

use psp_policy::{RequestId, WorkerId};

use super::pauses::{Paused, Pauses};

/// A request yields after this part of the time after which it is stuck.
const FIRST: u64 = 5;
/// The same of a request beside one that has yielded.
const BESIDE_OTHERS: u64 = 100;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct TimeSharing {
    workers: Vec<SharedWorker>,
    /// Requests that are away, from all workers.
    away: usize,
}

/// For how long requests wait for one that runs, before it is asked to yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It has yielded before.
    Ns(u64),
    /// This part of the time after which it would be stuck.
    PartOfStuck(u64),
}

#[derive(Debug)]
struct SharedWorker {
    pauses: Pauses,
    /// The request that runs was asked to yield.
    is_asked: bool,
}

impl TimeSharing {
    /// Of so many workers; a request that is stuck has turns of `budget_us`. 0: none yields.
    pub(super) fn new(workers: usize, budget_us: u64) -> Self {
        let shared = || SharedWorker { pauses: Pauses::new(budget_us), is_asked: false };
        let workers = if budget_us > 0 { workers } else { 0 };
        Self { workers: (0..workers).map(|_| shared()).collect(), away: 0 }
    }

    /// For how long others wait for the request that runs on `worker`, if it was not asked in this turn.
    pub(super) fn patience(&self, worker: WorkerId, request: RequestId) -> Option<Patience> {
        let shared = self.workers.get(worker.index())?;
        let patience = match shared.pauses.knows(request) {
            true => Patience::Ns(shared.pauses.budget_ns()),
            false if shared.pauses.knows_any() => Patience::PartOfStuck(BESIDE_OTHERS),
            false => Patience::PartOfStuck(FIRST),
        };
        Some(patience).filter(|_| !shared.is_asked)
    }

    /// The request that runs on `worker` is asked to yield.
    pub(super) fn ask(&mut self, worker: WorkerId) {
        self.workers[worker.index()].is_asked = true;
    }

    /// The turn on `worker` is over. Returns whether its request was asked to yield.
    #[inline]
    pub(super) fn turn_ended(&mut self, worker: WorkerId) -> bool {
        let shared = self.workers.get_mut(worker.index());
        shared.is_some_and(|shared| std::mem::take(&mut shared.is_asked))
    }

    /// A request of `worker` has ended.
    #[inline]
    pub(super) fn end(&mut self, now_ns: u64, worker: WorkerId, request: RequestId) {
        if let Some(shared) = self.workers.get_mut(worker.index()) {
            shared.pauses.end(now_ns, request);
        }
    }

    /// A request yielded.
    pub(super) fn put_away(&mut self, paused: Paused) {
        let pauses = &mut self.workers[paused.worker.index()].pauses;
        pauses.count(&paused);
        pauses.put_away(paused, true);
        self.away += 1;
    }

    /// Whether any request is away.
    #[inline]
    pub(super) fn any_away(&self) -> bool {
        self.away > 0
    }

    /// A request that goes on: it was away for as long as it ran, or its worker `is_idle`.
    pub(super) fn next_due(&mut self, now_ns: u64, is_idle: impl Fn(WorkerId) -> bool) -> Option<Paused> {
        let due = (0..).map(WorkerId).zip(&mut self.workers);
        let paused = { due }.find_map(|(worker, shared)| match is_idle(worker) {
            true => shared.pauses.next_at_once(now_ns),
            false => shared.pauses.next_due(now_ns),
        });
        self.away -= usize::from(paused.is_some());
        paused
    }

    /// When the next one goes on, if its worker is not idle before.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let workers = self.workers.iter().filter(|_| self.any_away());
        workers.filter_map(|shared| shared.pauses.due_ns()).min()
    }
}

#[cfg(test)]
mod tests {
    use psp_policy::RequestType;

    use super::*;

    const US: u64 = 1_000;

    fn paused(request: u32, worker: u32, since_us: u64) -> Paused {
        Paused {
            worker: WorkerId(worker),
            request: RequestId(request),
            request_type: RequestType::new(0),
            served_ns: 100 * US,
            since_ns: since_us * US,
        }
    }

    #[test]
    fn stuck_requests_go_on_when_their_worker_is_idle_or_others_had_it_for_as_long() {
        let mut sharing = TimeSharing::new(2, 100);
        let [zero, one] = [0, 1].map(WorkerId);
        let [first, other] = [7, 9].map(RequestId);
        assert_eq!(sharing.patience(one, first), Some(Patience::PartOfStuck(FIRST)));
        sharing.ask(one);
        assert_eq!(sharing.patience(one, first), None);
        assert_eq!(sharing.patience(zero, first), Some(Patience::PartOfStuck(FIRST)));
        assert_eq!([sharing.turn_ended(one), sharing.turn_ended(one)], [true, false]);
        sharing.put_away(paused(7, 1, 500));
        sharing.put_away(paused(8, 1, 550));
        assert_eq!(sharing.patience(one, first), Some(Patience::Ns(100 * US)));
        assert_eq!(sharing.patience(one, other), Some(Patience::PartOfStuck(BESIDE_OTHERS)));
        let next = |sharing: &mut TimeSharing, now_us, idle: Option<WorkerId>| {
            let due = sharing.next_due(now_us * US, |worker| Some(worker) == idle);
            due.map(|paused| paused.request.0)
        };
        assert_eq!(sharing.due_ns(), Some(650 * US));
        assert_eq!(next(&mut sharing, 649, Some(zero)), None);
        assert_eq!(next(&mut sharing, 649, Some(one)), Some(7));
        assert_eq!(next(&mut sharing, 700, None), None, "7 runs");
        assert_eq!(next(&mut sharing, 849, None), Some(8), "7 could have yielded");
        assert!(!sharing.any_away() && sharing.due_ns().is_none());
        [7, 8].iter().for_each(|&request| sharing.end(900, one, RequestId(request)));
        assert_eq!(sharing.patience(one, first), Some(Patience::PartOfStuck(FIRST)));
    }

    #[test]
    fn without_a_budget_none_is_asked() {
        let sharing = TimeSharing::new(2, 0);
        assert_eq!(sharing.patience(WorkerId(0), RequestId(1)), None);
    }
}
