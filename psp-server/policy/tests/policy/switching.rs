//! One policy takes over from another under load: nothing is lost, and order is kept.

use psp_policy::TypeStatus;
use psp_policy::{Policy, TypeTable};

use crate::simulation::{Simulation, TPC_C, types_of};

/// Runs so many requests of TPC-C under each policy in turn, at a load that leaves a backlog at
/// each change.
fn switched(mut simulation: Simulation, policies: &[Policy], requests: usize) -> Simulation {
    simulation.run(&TPC_C, 1.1, requests);
    for policy in policies {
        let before = waiting(&simulation);
        assert!(before > 0, "nothing to hand over to {policy}");
        let rejected = simulation.rejected;
        simulation.switch(policy);
        assert!(waiting(&simulation) <= before);
        assert_eq!(simulation.rejected, rejected);
        simulation.run(&TPC_C, 1.1, requests);
    }
    simulation.drain();
    let arrived = requests * (policies.len() + 1);
    assert_eq!(simulation.ran.len() + simulation.rejected, arrived);
    assert_eq!(simulation.started.len(), simulation.ran.len());
    assert_eq!(waiting(&simulation), 0);
    simulation
}

fn waiting(simulation: &Simulation) -> usize {
    let status = |slot| -> TypeStatus { simulation.scheduler.type_status(slot) };
    (0..=TPC_C.len()).map(|slot| status(slot).queued).sum()
}

/// Requests of one kind start in order of arrival.
fn assert_order_within_kinds(simulation: &Simulation) {
    for kind in 0..TPC_C.len() {
        let of_kind = simulation.started.iter().filter(|started| started.1 == kind);
        assert!(of_kind.is_sorted(), "kind {kind}");
    }
}

fn tpc_c() -> TypeTable {
    types_of(&TPC_C, true)
}

fn there_and_back(simulation: Simulation) -> Simulation {
    let policies = [Policy::darc(), Policy::mq(), Policy::c_fcfs()];
    let simulation = switched(simulation, &policies, 5_000);
    assert_order_within_kinds(&simulation);
    simulation
}

#[test]
fn under_load_nothing_is_lost_and_order_is_kept() {
    there_and_back(Simulation::new(&Policy::c_fcfs(), 14, &tpc_c()));
}

#[test]
fn it_is_the_same_where_requests_are_preempted_meanwhile() {
    let simulation = Simulation::preemptive(&Policy::c_fcfs(), 14, &tpc_c(), 1_000);
    let simulation = there_and_back(simulation);
    assert!(simulation.preemptions > 100, "{}", simulation.preemptions);
}

#[test]
fn every_policy_takes_over_from_every_other() {
    for first in Policy::NAMES {
        for second in Policy::NAMES {
            let [first, second]: [Policy; 2] = [first, second].map(|name| name.parse().unwrap());
            for cost_ns in [0, 1_000] {
                let simulation = Simulation::preemptive(&first, 3, &tpc_c(), cost_ns);
                switched(simulation, &[second.clone(), first.clone()], 1_000);
            }
        }
    }
}
