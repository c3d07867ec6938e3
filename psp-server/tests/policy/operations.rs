//! Arbitrary setups, and arbitrary things that happen to a scheduler.

use std::time::Duration;

use proptest::prelude::*;
use psp_server::policy::{Preemption, SchedulerSetup};
use psp_server::{Policy, PreemptPolicy, TypeSpec, TypeTable};

use crate::settings::{any_policy, policy_with_any_settings};

/// One thing that happens. `nth` counts around what there is to choose from.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    /// Requests of these types arrive in one burst.
    Arrive(Vec<u32>),
    /// The n-th busy worker is done.
    Complete {
        nth: usize,
        measured: Option<Measured>,
    },
    /// The request on the n-th busy worker gives way, asked or not.
    Yield { nth: usize },
    /// The n-th worker that was asked to stop does so.
    Obey { nth: usize },
    /// Time passes; the driver ticks at each deadline.
    Advance(u64),
    /// Time passes, and the driver misses what deadlines there are.
    Stall(u64),
    /// The driver ticks.
    Tick,
    /// The n-th policy of the case takes over.
    Switch { nth: usize },
}

/// What a worker measured of the type that it ran: so many requests, each of which took this long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) count: u32,
    pub(crate) service_ns: u64,
}

/// An operation, and how many times the driver polls before the next. Some drivers serve one
/// request to its end before they poll for another.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) polls_max: usize,
}

/// A setup, and what happens in it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The first is the one to start with.
    pub(crate) policies: Vec<Policy>,
    pub(crate) workers: usize,
    pub(crate) types: TypeTable,
    pub(crate) inline: bool,
    pub(crate) preemption: Option<Preemption>,
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// Requests that may wait of a type that does not say.
    pub(crate) const QUEUE_CAPACITY: usize = 5;

    /// Arbitrary operations on a policy of that name, most of them, and on others that take over.
    pub(crate) fn any(name: &'static str) -> impl Strategy<Value = Self> {
        let setup = (types(), any::<bool>(), preemption(), any::<u64>());
        (policies(name), setup, steps()).prop_map(
            |((policies, workers), (types, inline, preemption, seed), steps)| Self {
                policies,
                workers,
                types,
                inline,
                preemption,
                seed,
                steps,
            },
        )
    }

    /// What its schedulers are built for.
    pub(crate) fn setup(&self) -> SchedulerSetup<'_> {
        SchedulerSetup {
            workers: self.workers,
            types: &self.types,
            queue_capacity: Self::QUEUE_CAPACITY,
            inline: self.inline,
            preemption: self.preemption,
            seed: self.seed,
        }
    }

    /// Preemption, where a worker can run anything in place of what it is asked to stop.
    pub(crate) fn useful_preemption(&self) -> Option<Preemption> {
        self.preemption
            .filter(|preemption| preemption.migrates || preemption.contexts > 1)
    }

    /// Whether requests of the type at `slot` give way at all.
    pub(crate) fn gives_way(&self, slot: usize) -> bool {
        let spec = self.types.specs().get(slot);
        spec.is_none_or(|spec| spec.preempt != Some(PreemptPolicy::None))
    }

    /// How many requests of the type at `slot` may wait.
    pub(crate) fn capacity(&self, slot: usize) -> usize {
        let spec = self.types.specs().get(slot);
        spec.and_then(|spec| spec.queue_capacity)
            .unwrap_or(Self::QUEUE_CAPACITY)
    }
}

/// Requests that cannot be preempted, can go on anywhere, or go on at home, where there is room for
/// few.
fn preemption() -> impl Strategy<Value = Option<Preemption>> {
    let cost_ns = 0..3_000_u64;
    let contexts = prop_oneof![1..4_usize, Just(usize::MAX)];
    prop_oneof![
        Just(None),
        cost_ns
            .clone()
            .prop_map(|cost_ns| Some(Preemption::migrating(cost_ns))),
        (cost_ns, contexts)
            .prop_map(|(cost_ns, contexts)| Some(Preemption::at_home(cost_ns, contexts))),
    ]
}

/// A policy of that name and up to three others, and a number of workers for them.
fn policies(name: &'static str) -> impl Strategy<Value = (Vec<Policy>, usize)> {
    prop_oneof![1..5_usize, Just(14), Just(70)].prop_flat_map(move |workers| {
        let first = policy_with_any_settings(name, workers);
        let others = prop::collection::vec(any_policy(workers), 0..4);
        let policies = (first, others).prop_map(|(first, mut policies)| {
            policies.insert(0, first);
            policies
        });
        (policies, Just(workers))
    })
}

/// One more type number than are ever registered.
const TYPES_MAX: u32 = 6;

fn types() -> impl Strategy<Value = TypeTable> {
    let hint_ns = prop_oneof![Just(0_u64), 1..5_000_u64, Just(1_000_000_u64)];
    let hint = prop::option::weighted(0.8, hint_ns.prop_map(Duration::from_nanos));
    let slo_ns = prop_oneof![Just(0_u64), 1_000..1_000_000_u64, Just(u64::MAX)];
    let slo = prop::option::of(slo_ns.prop_map(Duration::from_nanos));
    let share = prop::option::of(prop_oneof![0.0..1.5_f64, Just(f64::NAN), Just(-1.0)]);
    let capacity = prop::option::of(0..4_usize);
    let preempt = prop_oneof![
        4 => Just(None),
        1 => Just(Some(PreemptPolicy::None)),
        1 => Just(Some(PreemptPolicy::Cooperative)),
    ];
    let spec = (hint, slo, share, capacity, preempt).prop_map(
        |(service_time, slo, share, queue_capacity, preempt)| TypeSpec {
            service_time,
            slo,
            share,
            queue_capacity,
            preempt,
            ..TypeSpec::new("T")
        },
    );
    prop::collection::vec(spec, 0..TYPES_MAX as usize).prop_map(|specs| specs.into_iter().collect())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let polls_max = prop_oneof![1 => Just(0), 1 => 1..3_usize, 8 => Just(usize::MAX)];
    let step = (operation(), polls_max).prop_map(|(operation, polls_max)| Step {
        operation,
        polls_max,
    });
    prop::collection::vec(step, 0..200)
}

fn operation() -> impl Strategy<Value = Operation> {
    let request_type = prop_oneof![9 => 0..TYPES_MAX, 1 => Just(u32::MAX)];
    let service_ns = prop_oneof![Just(0_u64), 1..200_u64, 1_000..2_000_000_u64];
    // A window of a policy whose windows cannot be set is 50 000 requests long.
    let count = prop_oneof![3 => Just(1_u32), 1 => Just(50_000)];
    let measured =
        (count, service_ns).prop_map(|(count, service_ns)| Measured { count, service_ns });
    let measured = prop::option::weighted(0.85, measured);
    let pause_ns = prop_oneof![0..20_000_u64, 0..3_000_000_u64];
    let nth = any::<usize>();
    prop_oneof![
        5 => prop::collection::vec(request_type, 1..6).prop_map(Operation::Arrive),
        6 => (nth, measured).prop_map(|(nth, measured)| Operation::Complete { nth, measured }),
        2 => nth.prop_map(|nth| Operation::Yield { nth }),
        2 => nth.prop_map(|nth| Operation::Obey { nth }),
        3 => pause_ns.clone().prop_map(Operation::Advance),
        1 => pause_ns.prop_map(Operation::Stall),
        1 => Just(Operation::Tick),
        1 => nth.prop_map(|nth| Operation::Switch { nth }),
    ]
}
