//! What a worker that receives for itself does around a long request, and when a request turns out to be long.
//!
//! ```text
//!   begin   leaves its ports to others ──► steps back on its core
//!           ... the request runs ...
//!   end     has its standing again ──► sends the reply ──► takes its port back
//! ```
//!
//! The type says whether a request is long. One of a short type may turn out to be, at a checkpoint or because its
//! handler says so: then the worker does the same in the middle of the turn.
//!
//! It steps back behind its ports and comes forward before them: no thread waits for one of no standing that has what
//! short requests need.

use std::cell::{Cell, RefCell};

use psp_protocols::Framing;

use super::driven::Driven;
use crate::fiber::{self, TurnWatch};
use crate::handler::Handler;
use crate::runtime::dispatch::lengths::LONG_NS;
use crate::runtime::host::clock::Clock;
use crate::runtime::host::scheduling::Demotion;

/// See the [module](self). One turn, long or not.
pub(super) struct LongTurn<'a, F: Framing, H: Handler<F::Head>> {
    worker: RefCell<(&'a mut Driven<F, H>, &'a mut Option<Demotion>)>,
    clock: &'a Clock,
    /// When the turn is longer than a short one.
    overdue_at_ns: u64,
    /// The worker has left its ports and stepped back.
    is_away: Cell<bool>,
}

impl<'a, F: Framing, H: Handler<F::Head>> LongTurn<'a, F, H> {
    /// A turn of the worker that drives these ports. `demotion` is how it steps back, if it shares its core. It is
    /// `now_ns`.
    #[inline]
    pub(super) fn new(
        ports: &'a mut Driven<F, H>,
        demotion: &'a mut Option<Demotion>,
        clock: &'a Clock,
        now_ns: u64,
    ) -> Self {
        Self {
            worker: RefCell::new((ports, demotion)),
            clock,
            overdue_at_ns: now_ns + LONG_NS,
            is_away: Cell::new(false),
        }
    }

    /// The turn is long.
    #[cold]
    pub(super) fn begin(&self) {
        if self.is_away.replace(true) {
            return;
        }
        let (ports, demotion) = &mut *self.worker.borrow_mut();
        ports.leave();
        if let Some(demotion) = demotion {
            demotion.begin();
        }
    }

    /// Runs `body`, the turn. If it is not long yet, it may become so.
    #[inline]
    pub(super) fn run<T>(&self, body: impl FnOnce() -> T) -> T {
        if self.is_away.get() {
            return body();
        }
        fiber::watch_turn(self, body)
    }

    /// The turn is over. Returns whether it was long: the own port is to be taken back.
    #[inline]
    pub(super) fn end(self) -> bool {
        let is_away = self.is_away.get();
        if let (_, Some(demotion)) = self.worker.into_inner()
            && is_away
        {
            demotion.end();
        }
        is_away
    }
}

impl<F: Framing, H: Handler<F::Head>> TurnWatch for LongTurn<'_, F, H> {
    fn is_overdue(&self) -> bool {
        self.clock.now_ns() >= self.overdue_at_ns
    }

    fn turned_long(&self) {
        self.begin();
    }
}
