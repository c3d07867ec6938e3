//! What drivers report, and what schedulers answer.

use crate::request_type::RequestType;

/// Number of a worker, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

impl WorkerId {
    /// Its place in per-worker arrays.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The driver's name for a request. The scheduler hands it back and never looks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u32);

/// What a worker measured: `count` requests of one type took `service_ns` in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Their type.
    pub request_type: RequestType,
    /// How many.
    pub count: u32,
    /// Their service times added up, in nanoseconds; without the time that they waited between
    /// turns.
    pub service_ns: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request arrived. It may stand for a run of `count` pipelined requests that travel
    /// together; the run is queued, counted against the queue's capacity and dispatched as one.
    Arrived {
        /// The driver's name for it.
        request: RequestId,
        /// Its type; for a run, that of its first request.
        request_type: RequestType,
        /// When its turn shall have come at the latest, in nanoseconds; `None` for no such time. The
        /// driver does not run a request that got its worker later: see `dropped` below. Policies
        /// need not look at it.
        deadline_ns: Option<u64>,
    },
    /// `worker` finished what it was running and is idle.
    Completed {
        /// The worker.
        worker: WorkerId,
        /// What it measured, one entry for each type in the run. The service time of a preempted
        /// request is the sum over all its turns. Empty if the policy shall learn nothing from it.
        samples: &'a [Sample],
        /// The driver did not run the request, because no client waits for its reply any more. It took
        /// no time, and there are no samples. Only a request that never ran is dropped.
        dropped: bool,
    },
    /// The request on `worker` stopped before its end, after an [`Action::Preempt`] or because the
    /// handler yielded, and the worker is idle. The request waits again, with its first time of
    /// arrival, and will run again under the same name. Most policies put it back in order of
    /// arrival among its kind. Policies whose requests take turns put it behind the others; each
    /// policy's settings or documentation say so.
    Yielded {
        /// The worker.
        worker: WorkerId,
        /// For how long it ran this time, in nanoseconds.
        served_ns: u64,
    },
    /// The request on `worker` waits for something outside of the scheduler, such as a reply from
    /// another server. The worker is idle. The request neither runs nor waits for a worker, and does not
    /// count against its queue's capacity. It ends the turn as a yield does: an [`Action::Preempt`] that
    /// was asked for is void. The request keeps its [context](crate::Contexts), and ends by running
    /// again. It may be blocked many times.
    Blocked {
        /// The worker.
        worker: WorkerId,
        /// For how long it ran this time, in nanoseconds. The time for which it is blocked is no
        /// service time.
        served_ns: u64,
    },
    /// What a blocked request waited for has come: it waits for a worker again, with its first time
    /// of arrival. It is the first of its type; among several that resume, the one that arrived first.
    /// Unless [requests migrate](crate::Contexts::migrates), only its home worker can resume it, which
    /// is where it ran last.
    Unblocked {
        /// The driver's name for it.
        request: RequestId,
    },
    /// Workers `0..present` are present from now on, and all others are absent.
    ///
    /// An absent worker begins no request. It goes on with what it runs, and resumes what is suspended or
    /// blocked there, until nothing is left that can run nowhere else. What waits in a queue of its own moves
    /// to workers that are present, in order of arrival.
    ///
    /// Workers come and go at the end of their numbers only. So those that are present are a range, as the
    /// reservations of groups are, and a policy plans over `present` workers as over any number of them.
    /// Which core a worker runs on is not the policy's business. Worker 0 is always present.
    Workers {
        /// How many are present: at least 1, and no more than the setup has.
        present: usize,
    },
    /// Time passed. The driver sends it about every millisecond when nothing else happens, so
    /// that profiling windows can close by time.
    Tick,
}

/// What the driver shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Run `request` on `worker`, which is idle.
    Run {
        /// Where.
        worker: WorkerId,
        /// What.
        request: RequestId,
        /// Its type.
        request_type: RequestType,
        /// How it gets there.
        hand_off: HandOff,
    },
    /// Stop the request on `worker`, and report [`Event::Yielded`], or [`Event::Completed`] or
    /// [`Event::Blocked`] if it ends or is blocked before. The worker counts as busy until then. At most one follows
    /// each [`Action::Run`], and only where [`SchedulerSetup::preemption`](crate::SchedulerSetup::preemption) allows
    /// it.
    Preempt {
        /// Where.
        worker: WorkerId,
        /// The quantum of this turn, in nanoseconds; 0 if it has none. Policies count it from
        /// [`Action::Run`]. The live driver counts it from the moment the worker begins the request,
        /// and stops the request no earlier.
        quantum_ns: u64,
    },
    /// Refuse `request`: its typed queue is full.
    Reject {
        /// What.
        request: RequestId,
        /// Its type.
        request_type: RequestType,
    },
}

/// How a request gets to its worker. A live driver sends all requests in the same way; a simulator
/// charges what each way would cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandOff {
    /// A dispatcher decided, and sends it to a worker that waits for it.
    Dispatched,
    /// The worker takes it from a queue of its own.
    Own,
    /// The worker takes it from another worker's queue.
    Stolen,
    /// The worker takes it from a queue of its own, where the worker that received it has put it.
    HandedOver,
}
