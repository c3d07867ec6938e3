//! The policies against each other, on the same arrivals.

use psp_policy::Darc;
use psp_policy::{Policy, TypeTable};

use crate::simulation::{Classifier, HIGH_BIMODAL, Ran, Simulation, types_of};

const SHORT: usize = 0;
const LONG: usize = 1;
const P999: f64 = 0.999;

fn high_bimodal(policy: &Policy, types: &TypeTable, load: f64) -> Simulation {
    let mut simulation = Simulation::new(policy, 14, types);
    simulation.run(&HIGH_BIMODAL, load, 60_000);
    simulation.drain();
    assert_eq!(simulation.ran.len(), 60_000);
    simulation
}

#[test]
fn shorts_fare_worst_under_d_fcfs_then_c_fcfs_then_priority_then_darc() {
    let types = types_of(&HIGH_BIMODAL, true);
    let slowdowns = [Policy::d_fcfs(), Policy::c_fcfs(), Policy::fixed_priority(), Policy::darc()]
        .map(|policy| high_bimodal(&policy, &types, 0.9).slowdown(SHORT, P999));
    let [d_fcfs, c_fcfs, priority, darc] = slowdowns;
    assert!(d_fcfs > 2.0 * c_fcfs, "{slowdowns:?}");
    assert!(c_fcfs > 2.0 * priority, "{slowdowns:?}");
    assert!(priority > 2.0 * darc, "{slowdowns:?}");
    assert!(c_fcfs > 20.0 * darc, "{slowdowns:?}");
}

#[test]
fn darc_makes_longs_wait_but_not_much() {
    let types = types_of(&HIGH_BIMODAL, true);
    let [c_fcfs, darc] =
        [Policy::c_fcfs(), Policy::darc()].map(|policy| high_bimodal(&policy, &types, 0.8).slowdown(LONG, P999));
    assert!(darc >= c_fcfs, "{darc} {c_fcfs}");
    assert!(darc < 4.0 * c_fcfs, "{darc} {c_fcfs}");
}

#[test]
fn darc_static_does_what_darc_finds_out() {
    let types = types_of(&HIGH_BIMODAL, true);
    let ran = |policy: Policy| -> Vec<Ran> { high_bimodal(&policy, &types, 0.9).ran };
    assert_eq!(ran(Policy::darc_static(1)), ran(Policy::darc()));
    assert_eq!(ran(Policy::darc_static(0)), ran(Policy::fixed_priority()));
}

#[test]
fn stealing_absorbs_bursts_of_shorts() {
    let types = types_of(&HIGH_BIMODAL, true);
    let [without, with] = [false, true].map(|stealing| {
        let policy = Policy::from(Darc::default().stealing(stealing));
        let simulation = high_bimodal(&policy, &types, 0.8);
        let steals = simulation.scheduler.type_status(SHORT).steals;
        (simulation.slowdown(SHORT, P999), steals)
    });
    assert_eq!(without.1, 0);
    assert!(with.1 > 100, "{} steals", with.1);
    assert!(with.0 < without.0, "{with:?} {without:?}");
}

#[test]
fn shorts_fare_better_when_longs_yield() {
    let types = types_of(&HIGH_BIMODAL, true);
    let slowdown = |mut simulation: Simulation| {
        simulation.run(&HIGH_BIMODAL, 0.7, 60_000);
        simulation.drain();
        simulation.slowdown(SHORT, P999)
    };
    let policies: [Policy; 2] = [Policy::sq(), Policy::mq()];
    for policy in policies {
        let to_the_end = slowdown(Simulation::new(&policy, 14, &types));
        let yielding = slowdown(Simulation::preemptive(&policy, 14, &types, 1_000));
        assert!(to_the_end > 5.0 * yielding, "{policy}: {to_the_end} {yielding}");
    }
}

/// Perséphone 5.6.
#[test]
fn under_a_random_classifier_darc_becomes_c_fcfs() {
    let types = types_of(&HIGH_BIMODAL, false);
    let slowdowns = |policy: Policy, classifier| {
        let mut simulation = Simulation::new(&policy, 8, &types).classifier(classifier);
        simulation.run(&HIGH_BIMODAL, 0.8, 60_000);
        simulation.ran.clear();
        simulation.run(&HIGH_BIMODAL, 0.8, 60_000);
        let status = [SHORT, LONG].map(|slot| simulation.scheduler.type_status(slot));
        let slowdowns = [SHORT, LONG].map(|kind| simulation.slowdown(kind, P999));
        (slowdowns, status)
    };
    let (random, status) = slowdowns(Policy::darc(), Classifier::Random);
    for status in status {
        assert_eq!((status.group, status.workers_reserved), (Some(0), 8));
    }
    let (c_fcfs, _) = slowdowns(Policy::c_fcfs(), Classifier::Random);
    for (random, c_fcfs) in random.into_iter().zip(c_fcfs) {
        let ratio = random / c_fcfs;
        assert!((0.95..1.05).contains(&ratio), "{random} {c_fcfs}");
    }
    let (exact, _) = slowdowns(Policy::darc(), Classifier::Exact);
    assert!(random[0] > 10.0 * exact[0], "{random:?} {exact:?}");
}
