//! Policies in configuration files, and their settings' ranges.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use psp_policy::{
    Cscq, Darc, DarcDistributed, DarcLending, DarcStatic, Drr, Edf, Jbsq, Jsq, JsqTies, Mq, Policy, PolicyError,
    Portfolio, Requeue, Sq, StaticPartition, Synergy,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct File {
    policy: Policy,
}

fn parse(toml: &str) -> Result<Policy, String> {
    toml::from_str::<File>(toml).map(|file| file.policy).map_err(|error| error.to_string())
}

#[test]
fn names_round_trip() {
    for name in Policy::NAMES {
        let policy: Policy = name.parse().unwrap();
        assert_eq!(policy.to_string(), name);
        assert_eq!(parse(&format!("policy = '{name}'")), Ok(policy.clone()));
        let file = File { policy };
        assert_eq!(toml::from_str(&toml::to_string(&file).unwrap()), Ok(file));
    }
}

#[test]
fn constructors_make_policies_and_take_the_quantum() {
    let choose = |preempts: bool| {
        if preempts { Policy::mq() } else { Policy::darc() }
    };
    assert_eq!(choose(true), Mq::default().into());
    assert_eq!(choose(false), Darc::default().into());
    let mut with_a_quantum = Vec::new();
    for name in Policy::NAMES {
        let policy: Policy = name.parse().unwrap();
        let has_quantum = policy.spelled().contains(" quantum-us=");
        let set = catch_unwind(AssertUnwindSafe(|| policy.quantum_us(0.25)));
        assert_eq!(set.is_ok(), has_quantum, "{name}");
        if let Ok(policy) = set {
            assert!(policy.spelled().contains(" quantum-us=0.25"), "{policy:?}");
            with_a_quantum.push(name);
        }
    }
    assert_eq!(with_a_quantum, ["drr", "sq", "mq", "jbsq", "jsq", "synergy"]);
}

#[test]
fn a_table_sets_what_it_names_and_leaves_the_rest() {
    assert_eq!(
        parse("[policy]\nname = 'darc'\ndelta = 3.0\nwindow-max-ms = 250\nstealing = false"),
        Ok(Darc::default().delta(3.0).window_max(Duration::from_millis(250)).stealing(false).into())
    );
    assert_eq!(
        parse("[policy]\nname = 'darc'\nfirst-samples-min = 8\nfirst-window-max-ms = 20"),
        Ok(Darc::default().first_samples_min(8).first_window_max(Duration::from_millis(20)).into())
    );
    assert_eq!(
        parse("[policy]\nname = 'darc-lending'\nborrow-after = 0.1\n[policy.darc]\ndelta = 3.0"),
        Ok(DarcLending::default().borrow_after(0.1).darc(Darc::default().delta(3.0)).into())
    );
    assert_eq!(parse("[policy]\nname = 'darc-static'\nreserved = 2"), Ok(Policy::darc_static(2)));
    assert_eq!(
        parse("[policy]\nname = 'drr'\nquantum-us = 2.5"),
        Ok(Drr::default().quantum_us(2.5).into())
    );
    assert_eq!(
        parse("[policy]\nname = 'edf'\nslo-factor = 3.0"),
        Ok(Edf::default().slo_factor(3.0).into())
    );
    let optional = [
        Cscq::default().reserved(2).into(),
        Policy::sq(),
        Mq::default().spare_finishing(false).into(),
    ];
    for policy in optional {
        let file = File { policy };
        assert_eq!(toml::from_str(&toml::to_string(&file).unwrap()), Ok(file));
    }
    assert_eq!(
        parse("[policy]\nname = 'sq'\nquantum-us = 0.5\nrequeue = 'automatic'\nspare-finishing = true"),
        Ok(Sq::default().quantum_us(0.5).requeue(Requeue::Automatic).spare_finishing(true).into())
    );
    assert_eq!(
        parse("[policy]\nname = 'mq'\nquantum-us = 10\nslo-factor = 5.0\nspare-chosen = true"),
        Ok(Mq::default().quantum_us(10).slo_factor(5.0).spare_chosen(true).into())
    );
    assert_eq!(
        parse("[policy]\nname = 'jbsq'\nk = 4\nquantum-us = 2.5"),
        Ok(Jbsq::default().k(4).quantum_us(2.5).into())
    );
    assert_eq!(
        parse("[policy]\nname = 'jsq'\nties = 'most-served'"),
        Ok(Jsq::default().ties(JsqTies::MostServed).into())
    );
    assert_eq!(
        parse("[policy]\nname = 'synergy'\ncongestion-threshold-us = 10.0"),
        Ok(Synergy::default().congestion_threshold_us(10.0).into())
    );
}

#[test]
fn what_is_misspelt_is_named() {
    for (toml, expected) in [
        ("policy = 'dark'", "no policy is called `dark`"),
        ("policy = 'dark'", "d-fcfs, c-fcfs, stealing, fixed-priority, static-partition, darc"),
        ("[policy]\nname = 'dark'", "unknown variant `dark`"),
        ("[policy]\nname = 'darc'\ndeltas = 3.0", "unknown field `deltas`"),
        ("[policy]\nname = 'c-fcfs'\ndelta = 3.0", "unknown field `delta`"),
        ("[policy]\ndelta = 3.0", "missing field `name`"),
        ("policy = 7", "the name of a policy, or a table"),
    ] {
        let error = parse(toml).unwrap_err();
        assert!(error.contains(expected), "{toml:?} gave {error}");
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let lending = DarcLending::default;
    let (darc, synergy) = (Darc::default, Synergy::default);
    for (policy, setting) in [
        (darc().delta(0.9).into(), "delta"),
        (darc().delta(f64::NAN).into(), "delta"),
        (darc().slowdown_trigger(0.0).into(), "slowdown-trigger"),
        (darc().demand_deviation(-0.1).into(), "demand-deviation"),
        (darc().demand_deviation(f64::NAN).into(), "demand-deviation"),
        (darc().samples_min(0).into(), "samples-min"),
        (darc().window_max(Duration::ZERO).into(), "window-max-ms"),
        (darc().window_max_samples_min(0).into(), "window-max-samples-min"),
        (darc().first_samples_min(0).into(), "first-samples-min"),
        (darc().first_window_max(Duration::ZERO).into(), "first-window-max-ms"),
        (darc().ewma_weight(0.0).into(), "ewma-weight"),
        (darc().ewma_weight(1.5).into(), "ewma-weight"),
        (darc().spillway(0).into(), "spillway"),
        (darc().spillway(5).into(), "spillway"),
        (Policy::darc_static(4), "reserved"),
        (lending().darc(darc().spillway(5)).into(), "spillway"),
        (lending().slo_slowdown(1.0).into(), "slo-slowdown"),
        (lending().patience(1.1).into(), "patience"),
        (lending().patience_min(f64::NAN).into(), "patience-min"),
        (lending().borrow_after(-0.1).into(), "borrow-after"),
        (lending().cost_max(f64::INFINITY).into(), "cost-max"),
        (lending().aged_after_costs(0.5).into(), "aged-after-costs"),
        (DarcDistributed::default().darc(darc().spillway(5)).into(), "spillway"),
        (DarcDistributed::default().slo_slowdown(1.0).into(), "slo-slowdown"),
        (DarcDistributed::default().cost_max(f64::NAN).into(), "cost-max"),
        (Portfolio::default().first_study(0).into(), "first-study"),
        (Portfolio::default().trial_requests(63).into(), "trial-requests"),
        (DarcStatic::default().delta(f64::INFINITY).into(), "delta"),
        (StaticPartition::default().delta(0.5).into(), "delta"),
        (Edf::default().slo_factor(0.0).into(), "slo-factor"),
        (Edf::default().slo_factor(f64::NAN).into(), "slo-factor"),
        (Drr::default().quantum_us(0.0).into(), "quantum-us"),
        (Cscq::default().reserved(0).into(), "reserved"),
        (Cscq::default().reserved(4).into(), "reserved"),
        (Cscq::default().delta(0.0).into(), "delta"),
        (Policy::sq().quantum_us(0), "quantum-us"),
        (Policy::mq().quantum_us(f64::NAN), "quantum-us"),
        (Mq::default().slo_factor(-1.0).into(), "slo-factor"),
        (Jbsq::default().k(0).into(), "k"),
        (Jbsq::default().quantum_us(0).into(), "quantum-us"),
        (Jsq::default().quantum_us(f64::NAN).into(), "quantum-us"),
        (synergy().quantum_us(-1.0).into(), "quantum-us"),
        (synergy().quantum_factor(0.0).into(), "quantum-factor"),
        (synergy().congested_quantum_factor(f64::NAN).into(), "congested-quantum-factor"),
        (synergy().congestion_threshold_us(-1.0).into(), "congestion-threshold-us"),
        (synergy().ema_weight(0.0).into(), "ema-weight"),
        (synergy().long_factor(0.9).into(), "long-factor"),
    ] {
        let Err(PolicyError::Setting { setting: named, .. }) = policy.validate(4) else {
            panic!("{policy:?} passed");
        };
        assert_eq!(named, setting);
    }
}

#[test]
fn defaults_suit_any_number_of_workers() {
    for name in Policy::NAMES {
        let policy: Policy = name.parse().unwrap();
        assert_eq!(policy.validate(0), Err(PolicyError::NoWorkers));
        assert_eq!(policy.validate(2), Ok(()));
    }
    assert_eq!(Policy::darc().validate(1), Ok(()));
    assert_eq!(Policy::cscq().validate(1), Ok(()));
    assert_eq!(
        Policy::darc_static(1).validate(1).unwrap_err().to_string(),
        "policy darc-static: reserved is 1, it must be less than the number of workers, 1, \
         or longer types never run"
    );
}
