//! What live servers serve: a workload, how much longer its times are, and the systems that serve it.

use psp_server::{Policy, PreemptPolicy, Topology};

use crate::simulated::distributed;
use crate::simulated::point::Point;

/// A workload with the systems that serve it.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) workload: &'static str,
    /// Factors of client and server.
    pub(super) dilation: (u32, u32),
    pub(super) systems: &'static [System],
}

/// A server of a [`Case`].
#[derive(Debug)]
pub(super) struct System {
    /// The name by which figures know it.
    pub(super) name: &'static str,
    /// As a share of the workers' capacity. Lines end where queues grow.
    pub(super) loads: &'static [f64],
    pub(super) served: Served,
    /// The policy, of the length of a microsecond after dilation.
    pub(super) policy: fn(f64) -> Policy,
}

/// How requests come to workers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Served {
    /// A dispatcher hands them out, and preempts by this mechanism.
    ByDispatcher(PreemptPolicy),
    /// Workers receive for themselves.
    ByWorkers {
        /// Flows of the requests.
        flows: usize,
        /// Whether others drive the socket of a worker that runs a request.
        moves: bool,
        /// The mechanism of the timer core.
        preempt: PreemptPolicy,
    },
}

impl Case {
    /// Factor by which all times are multiplied.
    pub(super) const fn factor(&self) -> u32 {
        self.dilation.0 * self.dilation.1
    }

    /// The points of one system.
    pub(super) fn points(&self, system: &System, measured_s: f64) -> Vec<Point> {
        let us = f64::from(self.factor());
        let of_load = |&load: &f64| {
            let policy = (system.policy)(us);
            let point = distributed::point(self.workload, self.dilation, load, measured_s, policy);
            match system.served {
                Served::ByDispatcher(preempt) => Point {
                    topology: Topology::Dedicated,
                    queue_capacity: 8192,
                    flows: None,
                    sockets_move: false,
                    preempt,
                    ..point
                },
                Served::ByWorkers { flows, moves, preempt } => {
                    Point { flows: Some(flows), sockets_move: moves, preempt, ..point }
                }
            }
        };
        system.loads.iter().map(of_load).collect()
    }
}
