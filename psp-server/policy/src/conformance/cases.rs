//! Arbitrary setups, and arbitrary events.

use std::time::Duration;

use proptest::prelude::*;

use crate::policy::Policy;
use crate::preempt::PreemptPolicy;
use crate::request_type::{TypeSpec, TypeTable};
use crate::setup::{Contexts, History, Preemption, SchedulerSetup, StuckAfter};

/// One thing that happens. `nth` counts round and round the workers, or policies, that there are.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Requests of these types arrive in one burst.
    Arrive(Vec<u32>),
    /// A request arrives with a deadline of its own. The driver drops it if its turn comes later.
    ArriveDue {
        /// Its type.
        request_type: u32,
        /// Time until the deadline, in nanoseconds.
        within_ns: u64,
    },
    /// The n-th busy worker completes its request.
    Complete {
        /// Which of the busy workers.
        nth: usize,
        /// What it measured, if anything.
        measured: Option<Measured>,
    },
    /// The request on the n-th busy worker yields, whether it was asked to or not.
    Yield {
        /// Which of the busy workers.
        nth: usize,
    },
    /// The request yields on the n-th worker that was asked to stop.
    Obey {
        /// Which of these workers.
        nth: usize,
    },
    /// The request on the n-th busy worker is blocked.
    Block {
        /// Which of the busy workers.
        nth: usize,
    },
    /// The n-th blocked request is blocked no longer.
    Unblock {
        /// Which of the blocked requests, in order of arrival.
        nth: usize,
    },
    /// So many nanoseconds pass; the driver ticks at each deadline.
    Advance(u64),
    /// So many nanoseconds pass, and the driver misses all deadlines.
    Stall(u64),
    /// The driver ticks.
    Tick,
    /// So many workers are present from now on, counted round and round from 1 to all.
    Workers {
        /// Which number.
        nth: usize,
    },
    /// The n-th policy of the case takes over.
    Switch {
        /// Which of the policies.
        nth: usize,
    },
}

/// What a worker measured of the type that it ran.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Number of requests.
    pub count: u32,
    /// How long each took, in nanoseconds.
    pub service_ns: u64,
}

/// An operation, and how many times the driver polls before the next one. Some drivers serve one
/// request to its end before they poll again.
#[derive(Debug, Clone)]
pub struct Step {
    /// The operation.
    pub operation: Operation,
    /// Most polls that follow it.
    pub polls_max: usize,
}

/// A setup, and what happens under it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The first schedules at the start; the others can take over.
    pub policies: Vec<Policy>,
    /// As in [`SchedulerSetup::workers`], and so on.
    pub workers: usize,
    /// How many workers are present at the start.
    pub present: usize,
    /// The registered types.
    pub types: TypeTable,
    /// Whether worker 0 is the driver's own thread.
    pub inline: bool,
    /// How requests can be preempted.
    pub preemption: Option<Preemption>,
    /// Where requests resume.
    pub contexts: Contexts,
    /// From when a request is stuck.
    pub stuck: Option<StuckAfter>,
    /// Seed of policies that choose at random.
    pub seed: u64,
    /// What happens.
    pub steps: Vec<Step>,
}

impl Case {
    /// Requests that may wait of a type that has no capacity of its own.
    pub const QUEUE_CAPACITY: usize = 5;

    /// Arbitrary cases of a policy, which hands over to c-FCFS and back.
    pub fn of(policy: &Policy) -> impl Strategy<Value = Self> + use<> {
        let policy = policy.clone();
        let policies = workers().prop_filter_map("the policy fits no such server", move |workers| {
            let others = vec![policy.clone(), Policy::c_fcfs()];
            policy.validate(workers).is_ok().then_some((others, workers))
        });
        Self::any(policies)
    }

    /// Arbitrary cases of `policies`, each list with a number of workers for it.
    pub fn any(policies: impl Strategy<Value = (Vec<Policy>, usize)>) -> impl Strategy<Value = Self> {
        let present = prop_oneof![3 => Just(None), 1 => any::<usize>().prop_map(Some)];
        let setup = (present, types(), any::<bool>(), preemption(), contexts(), stuck(), any::<u64>());
        (policies, setup, steps()).prop_map(
            |((policies, workers), (present, types, inline, preemption, contexts, stuck, seed), steps)| Self {
                policies,
                workers,
                present: present.map_or(workers, |nth| 1 + nth % workers),
                types,
                inline,
                preemption,
                contexts,
                stuck,
                seed,
                steps,
            },
        )
    }

    /// What the schedulers of this case are built for.
    pub(super) fn setup(&self) -> SchedulerSetup<'_> {
        SchedulerSetup {
            workers: self.workers,
            present: self.present,
            types: &self.types,
            queue_capacity: Self::QUEUE_CAPACITY,
            inline: self.inline,
            preemption: self.preemption,
            contexts: self.contexts,
            stuck: self.stuck,
            flows: None,
            history: History::default(),
            seed: self.seed,
        }
    }

    /// Whether requests of the type at `slot` yield at all.
    pub(super) fn yields(&self, slot: usize) -> bool {
        let spec = self.types.specs().get(slot);
        spec.is_none_or(|spec| spec.preempt != Some(PreemptPolicy::None))
    }

    /// How many requests of the type at `slot` may wait.
    pub(super) fn capacity(&self, slot: usize) -> usize {
        let spec = self.types.specs().get(slot);
        spec.and_then(|spec| spec.queue_capacity).unwrap_or(Self::QUEUE_CAPACITY)
    }
}

/// No preemption, or one that costs little or more.
fn preemption() -> impl Strategy<Value = Option<Preemption>> {
    let cost_ns = 0..3_000_u64;
    prop::option::weighted(0.7, cost_ns.prop_map(Preemption::new))
}

/// Requests that migrate, and requests that resume at home, on workers with few contexts or many.
fn contexts() -> impl Strategy<Value = Contexts> {
    let per_worker = prop_oneof![1..4_usize, Just(usize::MAX)];
    prop_oneof![Just(Contexts::migrating()), per_worker.prop_map(Contexts::at_home),]
}

/// Requests that are never stuck, and requests that soon are.
fn stuck() -> impl Strategy<Value = Option<StuckAfter>> {
    let time_ns = prop_oneof![0..20_000_u64, 0..1_000_000_u64, Just(u64::MAX)];
    let stuck = (time_ns, prop_oneof![Just(0_u32), 1..9_u32]);
    prop::option::weighted(0.7, stuck.prop_map(|(time_ns, means)| StuckAfter::new(time_ns, means)))
}

/// Few workers, some, and more than a word has bits.
pub fn workers() -> impl Strategy<Value = usize> {
    prop_oneof![1..5_usize, Just(14), Just(70)]
}

/// One number more than types are ever registered.
const TYPES_MAX: u32 = 6;

/// The weights of types, in the order of their numbers, round and round.
const WEIGHTS: [Option<u32>; 5] = [Some(3), None, Some(u32::MAX), Some(0), Some(2)];

/// The number of the type that is never grouped.
const ALONE: usize = 2;

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
    let spec = (hint, slo, share, capacity, preempt).prop_map(|(service_time, slo, share, queue_capacity, preempt)| {
        TypeSpec {
            service_time,
            slo,
            share,
            queue_capacity,
            preempt,
            ..TypeSpec::new("T")
        }
    });
    prop::collection::vec(spec, 0..TYPES_MAX as usize).prop_map(|specs| {
        let weighted = specs.into_iter().zip(WEIGHTS.into_iter().cycle());
        let numbered = weighted.enumerate();
        numbered
            .map(|(number, (spec, weight))| TypeSpec {
                weight,
                never_grouped: (number == ALONE).then_some(true),
                ..spec
            })
            .collect()
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let polls_max = prop_oneof![1 => Just(0), 1 => 1..3_usize, 8 => Just(usize::MAX)];
    let step = (operation(), polls_max).prop_map(|(operation, polls_max)| Step { operation, polls_max });
    prop::collection::vec(step, 0..200)
}

fn operation() -> impl Strategy<Value = Operation> {
    let request_type = prop_oneof![9 => 0..TYPES_MAX, 1 => Just(u32::MAX)];
    let service_ns = prop_oneof![Just(0_u64), 1..200_u64, 1_000..2_000_000_u64];
    // A window of a policy whose windows cannot be set is 50 000 requests long.
    let count = prop_oneof![3 => Just(1_u32), 1 => Just(50_000)];
    let measured = (count, service_ns).prop_map(|(count, service_ns)| Measured { count, service_ns });
    let measured = prop::option::weighted(0.85, measured);
    let pause_ns = prop_oneof![0..20_000_u64, 0..3_000_000_u64];
    let within_ns = prop_oneof![Just(0_u64), 0..20_000_u64, Just(u64::MAX)];
    let due = (request_type.clone(), within_ns);
    let nth = any::<usize>();
    prop_oneof![
        5 => prop::collection::vec(request_type, 1..6).prop_map(Operation::Arrive),
        2 => due.prop_map(|(request_type, within_ns)| Operation::ArriveDue { request_type, within_ns }),
        6 => (nth, measured).prop_map(|(nth, measured)| Operation::Complete { nth, measured }),
        2 => nth.prop_map(|nth| Operation::Yield { nth }),
        2 => nth.prop_map(|nth| Operation::Obey { nth }),
        3 => nth.prop_map(|nth| Operation::Block { nth }),
        3 => nth.prop_map(|nth| Operation::Unblock { nth }),
        3 => pause_ns.clone().prop_map(Operation::Advance),
        1 => pause_ns.prop_map(Operation::Stall),
        1 => Just(Operation::Tick),
        1 => nth.prop_map(|nth| Operation::Workers { nth }),
        1 => nth.prop_map(|nth| Operation::Switch { nth }),
    ]
}
