//! A run: consecutive pipelined requests of one connection that travel together.

use psp_policy::admission::{Arrival, PRIORITY_DEFAULT};
use psp_policy::{RequestType, Sample};
use smallvec::SmallVec;

use super::connection::Connection;

/// Requests of one run at most.
pub(crate) const RUN_LEN_MAX: usize = 64;

/// Requests that a run holds without an allocation. A connection that pipelines more keeps its allocation.
const FRAMES_INLINE: usize = 4;

/// The time by which every request has waited for too long.
pub(crate) const TOO_LATE_NS: u64 = u64::MAX;

/// Whether a request has waited for too long that may wait until `deadline_ns`.
#[inline]
pub(crate) fn is_late(deadline_ns: Option<u64>, now_ns: u64) -> bool {
    deadline_ns.is_some_and(|at_ns| now_ns > at_ns) || now_ns == TOO_LATE_NS
}

/// What the net worker lends to a worker: a connection, and the requests of it to run. One allocation for
/// both, which lives as long as the connection.
pub(crate) struct Stream<C, D> {
    pub(crate) connection: Connection<C>,
    pub(crate) run: Run<D>,
}

impl<C, D> Stream<C, D> {
    /// Whether no client waits for the run any more, or it has waited for too long.
    pub(crate) fn is_unwanted(&self, now_ns: u64) -> bool {
        is_late(self.run.deadline_ns, now_ns) || self.connection.is_abandoned()
    }

    /// Applies what follows the last request of the run: all requests are answered.
    pub(crate) fn end_run(&mut self) {
        let beyond = std::mem::take(&mut self.run.discard_after);
        self.connection.input.discard(beyond);
        self.connection.closing |= std::mem::take(&mut self.run.closes);
    }
}

/// Requests at the start of a connection's input, and what became of them.
#[derive(Debug)]
pub(crate) struct Run<D> {
    /// The requests. Empty: the worker sends output only.
    pub(crate) frames: SmallVec<[Frame<D>; FRAMES_INLINE]>,
    /// When the net worker framed them.
    pub(crate) arrived_ns: u64,
    /// Until when the requests may wait for their turn. They all have the same deadline.
    pub(crate) deadline_ns: Option<u64>,
    /// The same of all requests, where there is admission.
    pub(crate) standing: Standing,
    /// How many requests are done.
    pub(crate) done: usize,
    /// How many requests the run may have.
    pub(crate) len_max: usize,
    /// The type that the handler gave the request which is next. It waits in that type's queue.
    pub(crate) reclassified: Option<RequestType>,
    /// Bytes after the run that belong to its last request and are dropped unseen.
    pub(crate) discard_after: u64,
    /// The last request of the run is the connection's last.
    pub(crate) closes: bool,
    /// Why it is on its way back to its port and was not run.
    pub(crate) turned_down: Option<TurnedDown>,
    /// The worker's measurements.
    pub(crate) samples: SmallVec<[Sample; 4]>,
}

/// What admission hears of a request beside its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) priority: u8,
    pub(crate) tenant: u32,
    /// When its peer stops to wait.
    pub(crate) deadline_ns: Option<u64>,
}

impl Standing {
    /// What admission hears of `arrival`.
    pub(crate) fn of(self, arrival: Arrival) -> Arrival {
        arrival.priority(self.priority).tenant(self.tenant).deadline_ns(self.deadline_ns)
    }
}

impl Default for Standing {
    fn default() -> Self {
        Self { priority: PRIORITY_DEFAULT, tenant: 0, deadline_ns: None }
    }
}

/// Why a run is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnedDown {
    /// No client waits for it any more, or it waited for too long.
    Unwanted,
    /// The queues had no room for it.
    Rejected,
}

/// One request of a run.
#[derive(Debug)]
pub(crate) struct Frame<D> {
    pub(crate) len: usize,
    pub(crate) request_type: RequestType,
    /// What the framing learnt about the request.
    pub(crate) head: D,
}

impl<D> Default for Run<D> {
    fn default() -> Self {
        Self {
            frames: SmallVec::new(),
            arrived_ns: 0,
            deadline_ns: None,
            standing: Standing::default(),
            done: 0,
            len_max: RUN_LEN_MAX,
            reclassified: None,
            discard_after: 0,
            closes: false,
            turned_down: None,
            samples: SmallVec::new(),
        }
    }
}

impl<D> Run<D> {
    /// Forgets the requests, to be filled again. What the next one was reclassified as stays.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.deadline_ns = None;
        self.done = 0;
        self.discard_after = 0;
        self.closes = false;
        self.turned_down = None;
    }

    /// The run has ended. The next one may have twice as many requests as this one had done, if it was cut off: what it
    /// left is framed again. Otherwise it may have twice as many as this one might.
    pub(crate) fn learn_len(&mut self) {
        let fits = match self.unfinished() {
            [] => self.len_max,
            _ => self.done.max(1),
        };
        self.len_max = (2 * fits).min(RUN_LEN_MAX);
    }

    /// Type of the first request, if there is one.
    #[inline]
    pub(crate) fn request_type(&self) -> Option<RequestType> {
        self.frames.first().map(|frame| frame.request_type)
    }

    /// The requests that are not done.
    pub(crate) fn unfinished(&self) -> &[Frame<D>] {
        &self.frames[self.done..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_short_behind_one_that_was_cut_off_and_grow_again() {
        let mut run = Run::<()>::default();
        let mut len_max_after = |len, done| {
            run.clear();
            run.frames
                .extend((0..len).map(|_| Frame { len: 1, request_type: RequestType::new(0), head: () }));
            run.done = done;
            run.learn_len();
            run.len_max
        };
        assert_eq!(len_max_after(RUN_LEN_MAX, RUN_LEN_MAX), RUN_LEN_MAX);
        assert_eq!(len_max_after(RUN_LEN_MAX, 5), 10);
        let grown = [(); 4].map(|()| len_max_after(1, 1));
        assert_eq!(grown, [20, 40, RUN_LEN_MAX, RUN_LEN_MAX]);
        assert_eq!(len_max_after(RUN_LEN_MAX, 0), 2, "none was done");
        assert_eq!(len_max_after(2, 2), 4);
    }
}
