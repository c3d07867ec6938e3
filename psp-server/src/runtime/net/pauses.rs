//! Requests that have had the net thread for longer than they may, and gave it back for a while.
//!
//! ```text
//!   runs ── checkpoint: over its budget ──► paused ─┬─ no other is there ──────────────────► goes on at once
//!     ▲                                             └─ others are ──► away, for as long as it ran ──┐
//!     └──────────────── the first of those away, one at a time ◄────────────────────────────────────┘
//! ```
//!
//! A request that has begun never moves to another thread. So one that turns out to be long shares the net thread with
//! sockets and with short requests: they have it for half of the time at least, whatever the policy. To the policy,
//! such a request is blocked while it is away. In the topology `inline` the policy knows nothing before the net worker
//! has looked at its sockets: if no request waits that may be short, other long requests begin no sooner than they
//! would have.

use std::cell::Cell;
use std::collections::VecDeque;

use hashbrown::HashMap;
use psp_policy::{RequestId, RequestType, WorkerId};

use crate::fiber::{Looked, TurnWatch};
use crate::runtime::host::clock::Clock;

/// A request that has had this many budgets yields to all others, and not only to short ones: it may never end.
const BUDGETS_PATIENT: u64 = 100;

/// A request is away for so many budgets at most.
const AWAY_BUDGETS_MAX: u64 = 2;

/// For how long a request may have the thread.
#[derive(Debug)]
pub(super) struct Budget {
    ns: u64,
    /// When it is over.
    over_at_ns: Cell<u64>,
}

impl Budget {
    /// A budget of `us` from `now_ns` on; 0 for any time.
    #[inline]
    pub(super) fn new(us: u64, now_ns: u64) -> Self {
        let ns = match us {
            0 => u64::MAX,
            us => us.saturating_mul(1_000),
        };
        Self { ns, over_at_ns: Cell::new(now_ns.saturating_add(ns)) }
    }

    /// Whether it is never over.
    pub(super) fn is_unlimited(&self) -> bool {
        self.ns == u64::MAX
    }

    /// What a request does that runs at `now_ns`. One that goes on all the same has another budget.
    pub(super) fn look(&self, now_ns: u64) -> Looked {
        if self.is_unlimited() {
            return Looked::Settled;
        }
        if now_ns < self.over_at_ns.get() {
            return Looked::GoesOn;
        }
        self.over_at_ns.set(now_ns.saturating_add(self.ns));
        Looked::Pauses
    }
}

/// A turn on a thread that owns sockets for good.
pub(super) struct BudgetedTurn<'a> {
    pub(super) clock: &'a Clock,
    pub(super) budget: Budget,
}

impl TurnWatch for BudgetedTurn<'_> {
    fn look(&self, _has_said_long: bool) -> Looked {
        self.budget.look(self.clock.now_ns())
    }
}

/// A request that gave the thread back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paused {
    pub(super) worker: WorkerId,
    pub(super) request: RequestId,
    pub(super) request_type: RequestType,
    /// How long it ran before.
    pub(super) served_ns: u64,
    /// When it gave the thread back.
    pub(super) since_ns: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pauses {
    budget_us: u64,
    /// The one that paused last, until the net worker has looked at its sockets.
    latest: Option<Paused>,
    /// In order of their turns.
    away: VecDeque<Paused>,
    /// When the next of them goes on.
    next_ns: u64,
    /// Those that ever paused and have not ended.
    begun: HashMap<RequestId, Begun>,
}

/// A request that has paused.
#[derive(Debug, Default)]
struct Begun {
    /// For how long it has run, in all its turns.
    served_ns: u64,
    /// The log says that it may never end.
    is_told: bool,
}

impl Pauses {
    pub(super) fn new(budget_us: u64) -> Self {
        Self {
            budget_us,
            latest: None,
            away: VecDeque::new(),
            next_ns: 0,
            begun: HashMap::new(),
        }
    }

    /// The budget of a turn that begins at `now_ns`.
    #[inline]
    pub(super) fn budget(&self, now_ns: u64) -> Budget {
        Budget::new(self.budget_us, now_ns)
    }

    /// The budget, in nanoseconds.
    pub(super) fn budget_ns(&self) -> u64 {
        self.budget_us.saturating_mul(1_000)
    }

    /// A request pauses. One that did so just before, on the way to the net worker's sockets, is away.
    pub(super) fn pause(&mut self, paused: Paused) {
        if let Some(before) = self.latest.take() {
            self.put_away(before, true);
        }
        self.count(&paused);
        self.latest = Some(paused);
    }

    /// Counts what a request has had that pauses.
    pub(super) fn count(&mut self, paused: &Paused) {
        let begun = self.begun.entry(paused.request).or_default();
        begun.served_ns += paused.served_ns;
    }

    /// A request has ended.
    #[inline]
    pub(super) fn end(&mut self, now_ns: u64, request: RequestId) {
        if !self.begun.is_empty() && self.begun.remove(&request).is_some() {
            let next_ns = now_ns.saturating_add(self.budget_ns());
            self.next_ns = self.next_ns.min(next_ns);
        }
    }

    /// Whether a request has paused that has not ended.
    #[inline]
    pub(super) fn knows(&self, request: RequestId) -> bool {
        !self.begun.is_empty() && self.begun.contains_key(&request)
    }

    /// Whether it knows any.
    pub(super) fn knows_any(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Whether a request has paused and is not [away](Self::put_away).
    #[inline]
    pub(super) fn has_latest(&self) -> bool {
        self.latest.is_some()
    }

    /// The request that paused last. It goes on, or is [away](Self::put_away) from now on.
    #[inline]
    pub(super) fn take_latest(&mut self) -> Option<Paused> {
        self.latest.take()
    }

    /// For how long the request has run, in all its turns.
    pub(super) fn served_ns(&self, request: RequestId) -> u64 {
        let begun = self.begun.get(&request);
        begun.map_or(0, |begun| begun.served_ns)
    }

    /// Whether the request has run for so long that it yields to all others.
    pub(super) fn is_lasting(&self, request: RequestId) -> bool {
        self.served_ns(request) / BUDGETS_PATIENT >= self.budget_ns()
    }

    /// The log says from now on that the request may never end. Returns whether it did not before.
    pub(super) fn tell(&mut self, request: RequestId) -> bool {
        let begun = self.begun.get_mut(&request);
        begun.is_some_and(|begun| !std::mem::replace(&mut begun.is_told, true))
    }

    /// Whether requests are away.
    pub(super) fn any_away(&self) -> bool {
        !self.away.is_empty()
    }

    /// The request is away. With `for_others` the next one goes on when others have had the thread for as long. A
    /// request had it for longer than its budget if it reached no checkpoint, or if no other request needed the thread;
    /// that is its affair.
    pub(super) fn put_away(&mut self, paused: Paused, for_others: bool) {
        let away_ns = match for_others {
            true => paused.served_ns.min(AWAY_BUDGETS_MAX * self.budget_ns()),
            false => 0,
        };
        self.next_ns = paused.since_ns.saturating_add(away_ns);
        self.away.push_back(paused);
    }

    /// When the next one goes on.
    #[inline]
    pub(super) fn due_ns(&self) -> Option<u64> {
        (!self.away.is_empty()).then_some(self.next_ns)
    }

    /// The next one, if it goes on by `now_ns`. Those behind it wait until it pauses, or could have.
    #[inline]
    pub(super) fn next_due(&mut self, now_ns: u64) -> Option<Paused> {
        if self.due_ns()? > now_ns {
            return None;
        }
        self.next_at_once(now_ns)
    }

    /// The next one, at whatever time.
    pub(super) fn next_at_once(&mut self, now_ns: u64) -> Option<Paused> {
        self.next_ns = now_ns.saturating_add(2 * self.budget_ns());
        self.away.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const TYPE: RequestType = RequestType::new(0);

    fn paused(request: u32, since_us: u64, served_us: u64) -> Paused {
        Paused {
            worker: WorkerId(0),
            request: RequestId(request),
            request_type: TYPE,
            served_ns: served_us * US,
            since_ns: since_us * US,
        }
    }

    fn due(pauses: &mut Pauses, now_us: u64) -> Option<u32> {
        pauses.next_due(now_us * US).map(|paused| paused.request.0)
    }

    #[test]
    fn a_budget_is_over_once_each_time_and_0_never() {
        let budget = Budget::new(10, 5 * US);
        let looks = [14, 15, 16, 24, 25].map(|us| budget.look(us * US));
        use Looked::{GoesOn, Pauses};
        assert_eq!(looks, [GoesOn, Pauses, GoesOn, GoesOn, Pauses]);
        assert_eq!(Budget::new(0, 0).look(u64::MAX), Looked::Settled);
    }

    #[test]
    fn requests_are_away_for_as_long_as_they_ran_and_go_on_one_by_one() {
        let mut pauses = Pauses::new(100);
        pauses.put_away(paused(1, 1_000, 100), true);
        pauses.put_away(paused(2, 1_200, 150), true);
        assert_eq!(pauses.due_ns(), Some(1_350 * US));
        assert_eq!(due(&mut pauses, 1_349), None);
        assert_eq!(due(&mut pauses, 1_350), Some(1));
        assert_eq!(due(&mut pauses, 1_400), None, "the first one runs");
        pauses.put_away(paused(1, 1_450, 100), false);
        assert_eq!(due(&mut pauses, 1_450), Some(2), "no other request was there");
        assert_eq!(due(&mut pauses, 1_649), None);
        assert_eq!(due(&mut pauses, 1_650), Some(1), "that one is stuck");
        assert_eq!(pauses.due_ns(), None);
        pauses.put_away(paused(3, 2_000, 5_000), true);
        assert_eq!(pauses.due_ns(), Some(2_200 * US), "no request was held up");
    }

    #[test]
    fn a_request_is_known_until_it_ends() {
        let mut pauses = Pauses::new(100);
        let request = RequestId(7);
        for turn in 1..=100 {
            pauses.pause(paused(7, turn * 200, 100));
            assert!(pauses.take_latest().is_some());
            assert_eq!(pauses.served_ns(request), turn * 100 * US);
            assert_eq!(pauses.is_lasting(request), turn == 100, "{turn}");
        }
        assert_eq!([(); 2].map(|()| pauses.tell(request)), [true, false]);
        assert!(pauses.knows(request) && !pauses.has_latest());
        pauses.end(0, request);
        assert!(!pauses.knows(request));
    }
}
