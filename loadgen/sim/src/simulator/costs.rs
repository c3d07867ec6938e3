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
    /// To ask a worker to preempt its request, one worker after the other: the time of the dispatcher, or of the timer
    /// core where there is none.
    pub send_ns: u64,
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
    /// Between client and server, for a request and its reply together. It is part of latencies and slowdowns, and
    /// nobody's time.
    pub network_ns: u64,
    /// Dispatchers that share the work. At least 1; 1 unless set.
    pub dispatchers: usize,
}

impl Default for Costs {
    fn default() -> Self {
        Self::FREE
    }
}

/// What a preemption takes by each mechanism, as measured by `cargo bench -p psp-server --bench preempt_gap`
/// (docs/preemption.md, "One preemption"): two virtual cores whose interrupts go through the hypervisor. Medians are
/// the table's, and sigma is that of a log-normal distribution with the same p50 and p99 from the decision to the other
/// request.
const MEASURED: [(&str, Measured); 3] = [
    (
        "cooperative",
        Measured {
            send_ns: 20,
            until_other_ns: [300, 16_300],
            lost_ns: 120,
            switch_ns: 120,
        },
    ),
    (
        "signal",
        Measured {
            send_ns: 11_300,
            until_other_ns: [18_100, 63_900],
            lost_ns: 11_230,
            switch_ns: 170,
        },
    ),
    (
        "kernel-thread",
        Measured {
            send_ns: 14_100,
            until_other_ns: [20_600, 115_000],
            lost_ns: 15_660,
            switch_ns: 1_340,
        },
    ),
];

/// A row of [`MEASURED`].
#[derive(Debug, Clone, Copy)]
struct Measured {
    send_ns: u64,
    /// From the decision until the other request runs: p50 and p99.
    until_other_ns: [u64; 2],
    /// The part of it in which the preempted request no longer runs.
    lost_ns: u64,
    switch_ns: u64,
}

/// Quantile of the normal distribution at p99.
const NORMAL_99: f64 = 2.326;

impl Costs {
    /// Nothing takes time, and there is one dispatcher.
    pub const FREE: Self = Self {
        classify_ns: 0,
        dispatch_ns: 0,
        channel_ns: 0,
        send_ns: 0,
        propagation_ns: 0,
        preempt_ns: 0,
        preempt_sigma: 0.0,
        switch_ns: 0,
        steal_ns: 0,
        hand_over_ns: 0,
        network_ns: 0,
        dispatchers: 1,
    };

    /// The names that [`Costs::measured`] knows.
    pub fn mechanisms() -> impl Iterator<Item = &'static str> {
        MEASURED.iter().map(|(name, _)| *name)
    }

    /// These costs with those of a preemption as measured for a mechanism of live servers. `None` if there is no
    /// mechanism of that name.
    #[must_use]
    pub fn measured(self, mechanism: &str) -> Option<Self> {
        let (_, row) = MEASURED.iter().find(|(name, _)| *name == mechanism)?;
        let [p50_ns, p99_ns] = row.until_other_ns;
        let sigma = (p99_ns as f64 / p50_ns as f64).ln() / NORMAL_99;
        Some(Self {
            send_ns: row.send_ns,
            propagation_ns: p50_ns - row.lost_ns,
            preempt_ns: row.lost_ns,
            preempt_sigma: (sigma * 100.0).round() / 100.0,
            switch_ns: row.switch_ns,
            ..self
        })
    }

    /// Whether dispatchers take no time.
    pub(super) const fn dispatcher_is_free(&self) -> bool {
        self.classify_ns == 0 && self.dispatch_ns == 0 && self.channel_ns == 0 && self.send_ns == 0
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
            send_ns,
            propagation_ns,
            preempt_ns,
            switch_ns,
            steal_ns,
            hand_over_ns,
            network_ns,
            preempt_sigma: _,
            dispatchers: _,
        } = *self;
        [
            classify_ns,
            dispatch_ns,
            channel_ns,
            send_ns,
            propagation_ns,
            preempt_ns,
            switch_ns,
            steal_ns,
            hand_over_ns,
            network_ns,
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_have_the_medians_of_the_measurement() {
        let costs = Costs::mechanisms().map(|name| Costs::default().measured(name).unwrap());
        let takes_ns: Vec<u64> = costs.map(|costs| costs.preemption_ns()).collect();
        assert_eq!(takes_ns, [300, 18_100, 20_600]);
        let signal = Costs::default().measured("signal").unwrap();
        assert_eq!(signal.preempt_sigma, 0.54);
        assert!(!signal.dispatcher_is_free());
        assert_eq!(Costs::default().measured("fiber"), None);
    }
}
