//! Arbitrary policies: every name, with any valid settings.

use std::time::Duration;

use proptest::prelude::*;
use psp_policy::Policy;
use psp_policy::{
    Cscq, Darc, DarcDistributed, DarcLending, DarcStatic, Drr, Edf, Jbsq, Jsq, JsqTies, Mq, Portfolio, Requeue, Sq,
    StaticPartition, Synergy,
};

/// Any policy with any settings that are valid for so many workers.
pub(crate) fn any_policy(workers: usize) -> impl Strategy<Value = Policy> {
    prop::sample::select(&Policy::NAMES[..]).prop_flat_map(move |name| policy_with_any_settings(name, workers))
}

/// The policy of that name with any settings that are valid for so many workers.
pub(crate) fn policy_with_any_settings(name: &str, workers: usize) -> BoxedStrategy<Policy> {
    let by_default: Policy = name.parse().expect("a policy's name");
    match by_default {
        Policy::DFcfs(_)
        | Policy::CFcfs(_)
        | Policy::Stealing(_)
        | Policy::FixedPriority(_)
        | Policy::Sjf(_)
        | Policy::Wrr(_) => Just(by_default).boxed(),
        Policy::StaticPartition(_) => delta().prop_map(|delta| StaticPartition::default().delta(delta).into()).boxed(),
        Policy::Edf(_) => slo_factor().prop_map(|slo_factor| Edf::default().slo_factor(slo_factor).into()).boxed(),
        Policy::Drr(_) => quantum_us().prop_map(|quantum_us| Drr::default().quantum_us(quantum_us).into()).boxed(),
        Policy::Cscq(_) => (prop::option::of(1..workers.max(2)), delta())
            .prop_map(move |(reserved, delta)| {
                let reserved = reserved.filter(|&reserved| reserved < workers);
                let cscq = Cscq::default().delta(delta);
                match reserved {
                    Some(reserved) => cscq.reserved(reserved).into(),
                    None => cscq.into(),
                }
            })
            .boxed(),
        Policy::DarcStatic(_) => (0..workers, delta())
            .prop_map(|(reserved, delta)| DarcStatic::default().reserved(reserved).delta(delta).into())
            .boxed(),
        Policy::Sq(_) => sq().prop_map(Policy::from).boxed(),
        Policy::Mq(_) => mq().prop_map(Policy::from).boxed(),
        Policy::Jbsq(_) => (1..5_usize, quantum_us())
            .prop_map(|(k, quantum_us)| Jbsq::default().k(k).quantum_us(quantum_us).into())
            .boxed(),
        Policy::Jsq(_) => (quantum_us(), any::<bool>())
            .prop_map(|(quantum_us, most_served)| {
                let ties = if most_served {
                    JsqTies::MostServed
                } else {
                    JsqTies::LowestNumber
                };
                Jsq::default().quantum_us(quantum_us).ties(ties).into()
            })
            .boxed(),
        Policy::Synergy(_) => synergy().prop_map(Policy::from).boxed(),
        Policy::DarcDistributed(_) => darc_distributed(workers).prop_map(Policy::from).boxed(),
        Policy::DarcLending(_) => darc_lending(workers).prop_map(Policy::from).boxed(),
        Policy::Darc(_) => darc(workers).prop_map(Policy::from).boxed(),
        Policy::Portfolio(_) => portfolio().prop_map(Policy::from).boxed(),
        other => unreachable!("{other:?} has no settings here"),
    }
}

fn sq() -> impl Strategy<Value = Sq> {
    (quantum_us(), requeue(), any::<Option<bool>>()).prop_map(|(quantum_us, requeue, spare_finishing)| {
        Sq::default().quantum_us(quantum_us).requeue(requeue).spare_finishing(spare_finishing)
    })
}

fn mq() -> impl Strategy<Value = Mq> {
    let spares = (any::<bool>(), any::<Option<bool>>());
    ((quantum_us(), requeue(), slo_factor()), spares).prop_map(
        |((quantum_us, requeue, slo_factor), (spare_chosen, spare_finishing))| {
            Mq::default()
                .quantum_us(quantum_us)
                .requeue(requeue)
                .slo_factor(slo_factor)
                .spare_chosen(spare_chosen)
                .spare_finishing(spare_finishing)
        },
    )
}

/// Many studies, each of few requests.
fn portfolio() -> impl Strategy<Value = Portfolio> {
    (1..12_u64, 64..128_usize, 1.1..20.0_f64).prop_map(|(first_study, trial_requests, slo_slowdown)| {
        Portfolio::default()
            .first_study(first_study)
            .trial_requests(trial_requests)
            .slo_slowdown(slo_slowdown)
    })
}

fn darc_distributed(workers: usize) -> impl Strategy<Value = DarcDistributed> {
    let lending = (any::<bool>(), 1.1..20.0_f64, 0.0..2.0_f64);
    (darc(workers), lending).prop_map(|(darc, (lends, slo_slowdown, cost_max))| {
        DarcDistributed::default()
            .lends(lends)
            .slo_slowdown(slo_slowdown)
            .cost_max(cost_max)
            .darc(darc)
    })
}

fn darc_lending(workers: usize) -> impl Strategy<Value = DarcLending> {
    let part = || 0.0..=1.0_f64;
    (
        (darc(workers), 1.1..20.0_f64, 0.0..2.0_f64),
        (part(), part(), 0.0..5.0_f64),
        (part(), 3.0..50.0_f64, any::<Option<bool>>()),
    )
        .prop_map(
            |(
                (darc, slo_slowdown, cost_max),
                (patience, patience_min, patience_per_pressure),
                (borrow_after, aged_after_costs, spare_finishing),
            )| {
                DarcLending::default()
                    .slo_slowdown(slo_slowdown)
                    .patience(patience)
                    .patience_min(patience_min)
                    .patience_per_pressure(patience_per_pressure)
                    .borrow_after(borrow_after)
                    .cost_max(cost_max)
                    .aged_after_costs(aged_after_costs)
                    .spare_finishing(spare_finishing)
                    .darc(darc)
            },
        )
}

fn slo_factor() -> impl Strategy<Value = f64> {
    0.001..1_000.0_f64
}

fn quantum_us() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.001), 1.0..20.0_f64, 100.0..1_000.0_f64]
}

fn requeue() -> impl Strategy<Value = Requeue> {
    prop::sample::select(&[Requeue::Head, Requeue::Tail, Requeue::Automatic][..])
}

fn delta() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.0), Just(2.0), Just(100.0)]
}

fn synergy() -> impl Strategy<Value = Synergy> {
    let threshold_us = prop_oneof![Just(0.0), 0.001..50.0_f64];
    let quanta = (quantum_us(), 0.1..5.0_f64, 0.1..20.0_f64, threshold_us, 0.01..=1.0_f64).prop_map(
        |(quantum_us, factor, congested_factor, threshold_us, weight)| {
            Synergy::default()
                .quantum_us(quantum_us)
                .quantum_factor(factor)
                .congested_quantum_factor(congested_factor)
                .congestion_threshold_us(threshold_us)
                .ema_weight(weight)
        },
    );
    let thresholds = (0..4_usize, 0..4_usize, 1.0..100.0_f64);
    let switches = any::<[bool; 4]>();
    (quanta, thresholds, switches).prop_map(
        |(quanta, (steal, steal_long, long_factor), [stealing, wait_queue, conditional, adaptive])| {
            quanta
                .steal_threshold(steal)
                .steal_threshold_long(steal_long)
                .long_factor(long_factor)
                .stealing(stealing)
                .wait_queue(wait_queue)
                .conditional_preemption(conditional)
                .adaptive_quantum(adaptive)
        },
    )
}

/// Short windows, and new reservations at the slightest occasion.
fn darc(workers: usize) -> impl Strategy<Value = Darc> {
    let first = (1..10_u64, 1_000..3_000_u64).prop_map(|(samples_min, window_max_us)| {
        Darc::default()
            .first_samples_min(samples_min)
            .first_window_max(Duration::from_micros(window_max_us))
    });
    let windows = (first, 1..20_u64, 1_000..3_000_u64, 1..5_u64, 0.01..=1.0_f64).prop_map(
        |(first, samples_min, window_max_us, aged_min, weight)| {
            first
                .slowdown_trigger(1.0)
                .demand_deviation(0.01)
                .samples_min(samples_min)
                .window_max(Duration::from_micros(window_max_us))
                .window_max_samples_min(aged_min)
                .ewma_weight(weight)
        },
    );
    (windows, delta(), 1..=workers, any::<bool>())
        .prop_map(|(windows, delta, spillway, stealing)| windows.delta(delta).spillway(spillway).stealing(stealing))
}
