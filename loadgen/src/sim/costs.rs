//! What scheduling costs: time that is no service.

use serde::{Deserialize, Serialize};

/// What scheduling costs, in nanoseconds. All costs are 0 unless set.
///
/// A policy with a dispatcher has it classify every arrival and hand out every request; while it
/// does one thing, others wait. Without a dispatcher (d-FCFS, stealing, Synergy) a worker
/// classifies what it takes up.
///
/// ```text
///   arrival ─► dispatcher: classify ─► typed queue ─► dispatcher: dispatch ─► channel ─► worker
///                                                            ▲                              │
///                                                            └────────── channel ◄──────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Costs {
    /// To name a request's type, once for each request.
    pub classify_ns: u64,
    /// To hand out a request, by a dispatcher.
    pub dispatch_ns: u64,
    /// One way between a dispatcher and a worker. What is dispatched waits for it, and a worker
    /// gets nothing before its completion has come the other way. What it finds in a queue of its
    /// own does not wait.
    pub channel_ns: u64,
    /// From the decision to preempt to the moment it reaches the worker, which goes on with its
    /// request meanwhile and may finish it.
    pub propagation_ns: u64,
    /// From then to the freed worker, which does nothing useful meanwhile.
    pub preempt_ns: u64,
    /// To resume a preempted request, paid by the worker.
    pub switch_ns: u64,
    /// To take a request from another worker's queue, paid by the worker that takes it.
    pub steal_ns: u64,
    /// Dispatchers that share the work. At least 1; 1 unless set.
    pub dispatchers: usize,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            classify_ns: 0,
            dispatch_ns: 0,
            channel_ns: 0,
            propagation_ns: 0,
            preempt_ns: 0,
            switch_ns: 0,
            steal_ns: 0,
            dispatchers: 1,
        }
    }
}

impl Costs {
    /// Whether a dispatcher takes time for anything.
    pub(super) const fn dispatcher_is_free(&self) -> bool {
        self.classify_ns == 0 && self.dispatch_ns == 0 && self.channel_ns == 0
    }

    /// Time from the decision to preempt to the freed worker.
    pub(super) const fn preemption_ns(&self) -> u64 {
        self.propagation_ns.saturating_add(self.preempt_ns)
    }

    /// The largest of them.
    pub(super) fn longest_ns(&self) -> u64 {
        let Self {
            classify_ns,
            dispatch_ns,
            channel_ns,
            propagation_ns,
            preempt_ns,
            switch_ns,
            steal_ns,
            dispatchers: _,
        } = *self;
        [
            classify_ns,
            dispatch_ns,
            channel_ns,
            propagation_ns,
            preempt_ns,
            switch_ns,
            steal_ns,
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }
}
