//! What a worker that receives for itself does around a long request, and when a request turns out to be long.
//!
//! ```text
//!   sends what is complete ──► leaves its ports to others ──► steps back on its core
//!           ... the request runs ...
//!   sends the reply ──► has its standing again ──► takes its port back
//! ```
//!
//! Sending a long reply takes as long as making it, so that happens at low priority, too.
//!
//! The type says whether a request is long. One of a short type may turn out to be, at a checkpoint or because its
//! handler says so: then the worker does the same in the middle of the turn. For a request of a type of unknown length
//! the worker leaves its ports, and steps back when it turns out to be long: a short one would wait for others.
//!
//! If the request has a thread of its own, the worker does not step back, and needs no checkpoint to see that the turn
//! lasts: its own thread has nothing else to do.
//!
//! A long request that runs on the worker's own thread gives that back for a while, too, if no worker drives a port:
//! all other workers have long requests themselves. So does one of a type that is not long, if others wait in the
//! worker's queue. It does so each time that it has had the thread for its [budget](super::pauses).
//!
//! It steps back behind its ports and comes forward before them: no thread waits for one of no standing that has what
//! short requests need.

use std::cell::{Cell, RefCell};

use psp_protocols::Framing;

use super::driven::{Driven, PortLeases};
use super::pauses::Budget;
use crate::fiber::{self, Looked, TurnWatch};
use crate::handler::Handler;
use crate::runtime::dispatch::lengths::Length;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::scheduling::Demotion;

/// What a worker leaves for a long request: ports, by these leases, and its standing, if it shares its core.
type LongTurnOf<'a, F, H> = (&'a mut Driven<F, H>, &'a PortLeases<F, H>, &'a mut Option<Demotion>);

/// See the [module](self). One turn, long or not.
pub(super) struct LongTurn<'a, F: Framing, H: Handler<F::Head>> {
    worker: RefCell<LongTurnOf<'a, F, H>>,
    clock: &'a Clock,
    /// When the turn is longer than a short one.
    overdue_at_ns: u64,
    /// The worker has left its ports.
    is_away: Cell<bool>,
    /// It has stepped back, too.
    is_long: Cell<bool>,
    /// Another thread runs the request.
    is_elsewhere: Cell<bool>,
    budget: Budget,
    /// Whether others wait for the worker that its policy would not have put behind a long request.
    holds_up_others: &'a dyn Fn() -> bool,
}

impl<'a, F: Framing, H: Handler<F::Head>> LongTurn<'a, F, H> {
    /// A turn of `worker`. It is `now_ns`, and the turn is long after `long_us`. The request may have the thread for
    /// `budget`, and for longer unless it `holds_up_others`.
    #[inline]
    pub(super) fn new(
        worker: LongTurnOf<'a, F, H>,
        clock: &'a Clock,
        now_ns: u64,
        long_us: u64,
        budget: Budget,
        holds_up_others: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            worker: RefCell::new(worker),
            clock,
            overdue_at_ns: now_ns.saturating_add(long_us.saturating_mul(1_000)),
            is_away: Cell::new(false),
            is_long: Cell::new(false),
            is_elsewhere: Cell::new(false),
            budget,
            holds_up_others,
        }
    }

    /// Runs `body`, the turn, whose request has this length by its type. It may become long.
    #[inline]
    pub(super) fn run<T>(&self, length: Length, body: impl FnOnce() -> T) -> T {
        match length {
            Length::Short => {}
            Length::Unknown => self.leave(),
            Length::Long => {
                self.step_back();
                if self.budget.is_unlimited() {
                    return body();
                }
            }
        }
        fiber::watch_turn(self, body)
    }

    /// The same of a turn that another thread runs: `body` tells the watch when it becomes long, if there is one.
    pub(super) fn run_elsewhere<T>(&self, length: Length, body: impl FnOnce(Option<&dyn TurnWatch>) -> T) -> T {
        self.is_elsewhere.set(true);
        match length {
            Length::Short => body(Some(self)),
            Length::Unknown | Length::Long => {
                self.leave();
                body(None)
            }
        }
    }

    #[cold]
    fn leave(&self) {
        if !self.is_away.replace(true) {
            let (ports, leases, _) = &mut *self.worker.borrow_mut();
            ports.leave(leases);
        }
    }

    #[cold]
    fn step_back(&self) {
        self.leave();
        if self.is_elsewhere.get() {
            return;
        }
        self.is_long.set(true);
        if let (.., Some(demotion)) = &mut *self.worker.borrow_mut() {
            demotion.begin();
        }
    }

    /// Whether others need the thread.
    fn is_needed(&self) -> bool {
        self.worker.borrow().1.any_free() || (self.holds_up_others)()
    }

    /// Whether the worker has stepped back on its core.
    #[inline]
    pub(super) fn has_stepped_back(&self) -> bool {
        self.is_long.get()
    }

    /// The turn is over. Returns for how long others had the core, in nanoseconds, because the worker had stepped back.
    #[inline]
    pub(super) fn end(self) -> u64 {
        match self.worker.into_inner() {
            (.., Some(demotion)) if self.is_long.get() => demotion.end(),
            _ => 0,
        }
    }
}

impl<F: Framing, H: Handler<F::Head>> TurnWatch for LongTurn<'_, F, H> {
    fn look(&self, has_said_long: bool) -> Looked {
        let now_ns = self.clock.now_ns();
        if !self.is_long.get() {
            if !has_said_long && now_ns < self.overdue_at_ns {
                return Looked::GoesOn;
            }
            self.step_back();
        }
        if self.is_elsewhere.get() {
            return Looked::Settled;
        }
        match self.budget.look(now_ns) {
            Looked::Pauses if !self.is_needed() => Looked::GoesOn,
            looked => looked,
        }
    }
}
