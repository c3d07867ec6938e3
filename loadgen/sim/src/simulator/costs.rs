//! The costs of scheduling: time that is not service.

use serde::{Deserialize, Serialize};

/// The costs of scheduling in nanoseconds. All costs are 0 unless set.
///
/// If the policy has a dispatcher, the dispatcher classifies every arrival and dispatches every
/// request, one at a time. Without a dispatcher (d-FCFS, stealing, Synergy, distributed DARC) a worker classifies
/// the requests that it takes up.
///
/// ```text
///   arrival ─► dispatcher: classify ─► typed queue ─► dispatcher: dispatch ─► channel ─► worker
///                                                            ▲                              │
///                                                            └────────── channel ◄──────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Costs {
    /// To classify a request, once.
    pub classify_ns: u64,
    /// To dispatch a request.
    pub dispatch_ns: u64,
    /// One way between a dispatcher and a worker. A dispatched request waits for it. A worker gets
    /// no new request before its completion has travelled back. A request in the worker's own queue
    /// does not wait.
    pub channel_ns: u64,
    /// From the decision to preempt until it reaches the worker. The worker continues its request
    /// meanwhile and may finish it.
    pub propagation_ns: u64,
    /// From that moment until the worker is free. The worker does nothing useful meanwhile.
    pub preempt_ns: u64,
    /// How far apart the times lie that single preemptions take, `propagation_ns` and `preempt_ns` together: they are
    /// log-normal, these two are their medians, and this is the standard deviation of their logarithm. At 0.5 one in a
    /// hundred takes three times as long, and one in a thousand five times. 0 unless set: all take the same.
    pub preempt_sigma: f64,
    /// To resume a preempted request. The worker pays.
    pub switch_ns: u64,
    /// To take a request from another worker's queue. The worker that takes it pays.
    pub steal_ns: u64,
    /// To take a request that another worker received and handed over: both ends of the queue between them, and the
    /// wake. The worker that takes it pays for both.
    pub hand_over_ns: u64,
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
            preempt_sigma: 0.0,
            switch_ns: 0,
            steal_ns: 0,
            hand_over_ns: 0,
            dispatchers: 1,
        }
    }
}

impl Costs {
    /// Whether dispatchers take no time.
    pub(super) const fn dispatcher_is_free(&self) -> bool {
        self.classify_ns == 0 && self.dispatch_ns == 0 && self.channel_ns == 0
    }

    /// Time from the decision to preempt to the freed worker.
    pub(super) const fn preemption_ns(&self) -> u64 {
        self.propagation_ns.saturating_add(self.preempt_ns)
    }

    /// The largest cost.
    pub(super) fn longest_ns(&self) -> u64 {
        let Self {
            classify_ns,
            dispatch_ns,
            channel_ns,
            propagation_ns,
            preempt_ns,
            switch_ns,
            steal_ns,
            hand_over_ns,
            preempt_sigma: _,
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
            hand_over_ns,
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }
}
