//! What scheduling costs in the figures that papers measured: one table, so that all systems pay the same for the same
//! stage.
//!
//! A row has every stage. The simulator charges a system for those that its policy has: classification, dispatch and
//! channels where it has a dispatcher, classification by the worker where it has none, thefts where it steals, and
//! interrupts where it preempts. Rows differ in their interrupts alone.
//!
//! Figures whose papers simulate policies without costs have [`Costs::FREE`].

use crate::simulator::Costs;

/// Systems whose requests run to completion.
pub(super) const TO_COMPLETION: Costs = Costs {
    // Perséphone 5.1: its classifier takes about 100 ns.
    classify_ns: 100,
    // Shinjuku 4.3: a dispatcher bears 5 million requests a second. What classification leaves of 200 ns.
    dispatch_ns: 100,
    // Shinjuku 3.5: a message over a cache line and back takes 211 cycles, here at 2.3 GHz.
    channel_ns: 50,
    // One such way and back: the thief reads the victim's queue and takes from it.
    steal_ns: 100,
    // Twice that, since both ends of the queue pay.
    hand_over_ns: 200,
    // Perséphone 5.1, Synergy IV-A: the round trip between client and server. Shinjuku's paper names none.
    network_ns: 10_000,
    send_ns: 0,
    propagation_ns: 0,
    preempt_ns: 0,
    preempt_sigma: 0.0,
    switch_ns: 0,
    dispatchers: 1,
};

/// Shinjuku's posted interrupts at 2.3 GHz. Tables 1 and 2: 298 cycles to send, 1993 in all, the last 1212 of them at
/// the receiver, and 110 to switch contexts.
pub(super) const POSTED: Costs = interrupted(130, 340, 527, 48);
/// The same at Perséphone's 2.6 GHz, where preemption every 5 us costs requests "at least 20 %" (5.4.1).
pub(super) const POSTED_AT_PERSEPHONE: Costs = interrupted(115, 300, 958, 42);
/// Synergy's table I, medians: send, propagation, then receive and return; Shinjuku's switch.
pub(super) const SIGNAL: Costs = interrupted(746, 2216, 1434 + 641, 48);
/// As [`SIGNAL`].
pub(super) const IPI: Costs = interrupted(490, 1225, 728 + 100, 48);
/// As [`SIGNAL`].
pub(super) const UINTR: Costs = interrupted(171, 671, 464 + 45, 48);
/// Compiler interrupts at 2.3 GHz: 70 cycles to send a message (Shinjuku 3.5), its way, half of some 200 ns between
/// yield points, and Shinjuku's switch to and fro.
pub(super) const CHECKPOINTS: Costs = interrupted(30, 50 + 100, 48, 48);

const fn interrupted(send_ns: u64, propagation_ns: u64, preempt_ns: u64, switch_ns: u64) -> Costs {
    Costs {
        send_ns,
        propagation_ns,
        preempt_ns,
        switch_ns,
        ..TO_COMPLETION
    }
}

/// As a server sees its requests, without the way to the client.
pub(super) const fn at_server(costs: Costs) -> Costs {
    Costs { network_ns: 0, ..costs }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::all;
    use super::super::definition::Body;
    use super::super::job::Scale;
    use super::super::sweep::System;
    use super::*;
    use crate::simulator::{SimPlan, SimPolicy};
    use crate::workload::Workload;

    fn plan(system: &System) -> SimPlan {
        let workload = Workload::named("high-bimodal").unwrap();
        let scale = Scale { requests: 1, seed: 1 };
        system.plan(&workload, 14, 0.5, None, &scale).unwrap()
    }

    /// What every request costs, whatever the system.
    const fn stages(costs: &Costs) -> [u64; 5] {
        let by_dispatcher_ns = costs.classify_ns + costs.dispatch_ns;
        let [channel_ns, steal_ns] = [costs.channel_ns, costs.steal_ns];
        [by_dispatcher_ns, channel_ns, steal_ns, costs.hand_over_ns, costs.network_ns]
    }

    #[test]
    fn every_system_of_a_figure_pays_each_stage_of_its_design() {
        let mut compared = 0;
        for figure in all() {
            let Body::Sweep(sweep) = &figure.body else {
                continue;
            };
            let plans: Vec<SimPlan> = sweep.systems.iter().map(plan).collect();
            if plans.iter().all(|plan| stages(&plan.costs) == [0; 5]) {
                continue;
            }
            compared += 1;
            for (system, plan) in sweep.systems.iter().zip(&plans) {
                let subject = format!("{}: {}", figure.name, system.name);
                let costs = plan.costs;
                assert_eq!(stages(&costs), stages(&plans[0].costs), "{subject}");
                let SimPolicy::Live(policy) = &plan.policy else {
                    panic!("{subject} is an ideal, which pays nothing");
                };
                let (by_worker, interrupts) = (policy.name() == "jsq", policy.can_preempt());
                if plan.preemption && interrupts {
                    assert!(by_worker || costs.send_ns > 0, "{subject}");
                    let at_worker = [costs.propagation_ns, costs.preempt_ns, costs.switch_ns];
                    assert!(!at_worker.contains(&0), "{subject}: {at_worker:?}");
                }
            }
        }
        assert!(compared >= 19, "{compared}");
    }
}
