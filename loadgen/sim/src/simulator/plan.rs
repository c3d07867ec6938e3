//! The plan of a simulation.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use psp_policy::admission::AdmissionSettingsError;
use psp_policy::elastic::{Elastic, ElasticSettings, ElasticSettingsError};
use psp_policy::{Contexts, Policy, PolicyError, Preemption, SchedulerSetup, TypeSpec, TypeTable};
use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::costs::Costs;
use super::overload::Overload;
use super::policy::SimPolicy;
use crate::workload::{Workload, WorkloadError, service_ns_mean};

/// Makes an error of a policy that cannot be simulated so.
type Refusal = fn(Box<SimPolicy>) -> SimError;

/// Workers that can be simulated at most.
const WORKERS_MAX: usize = 4096;

/// Servers that can be simulated at most.
const SERVERS_MAX: usize = 256;

/// Load that can be simulated at most. Everything above 1 is overload.
const LOAD_MAX: f64 = 1000.0;

/// Longest cost, in nanoseconds: a second.
const COST_NS_MAX: u64 = 1_000_000_000;

/// Widest spread of what preemptions take.
const PREEMPT_SIGMA_MAX: f64 = 3.0;

/// Requests that can be simulated at most.
const REQUESTS_MAX: u64 = 1_000_000_000_000;

/// Longest time that can be simulated in nanoseconds. A float counts exactly up to this time, which
/// is a hundred days.
const TIME_NS_MAX: f64 = 9e15;

/// Flows that can be simulated at most.
const FLOWS_MAX: usize = 1 << 20;

/// Buckets that a timeline may have.
const TIMELINE_BUCKETS_MAX: f64 = 100_000.0;

/// A simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct SimPlan {
    /// The requests.
    pub workload: Workload,
    /// The policy, or an ideal.
    pub policy: SimPolicy,
    /// Number of workers of a server; the most if they come and go.
    pub workers: usize,
    /// Servers, and the load balancer in front of them. One server unless set.
    pub cluster: Cluster,
    /// Whether workers come and go, and how.
    pub elastic: Option<ElasticPlan>,
    /// Offered load: the share of the capacity of all servers' workers that the mean service time takes. A phase
    /// counts with its own mean service time and its own factor.
    pub load: f64,
    /// Arrivals that are measured.
    pub requests: u64,
    /// Arrivals before the measured ones.
    pub warmup: u64,
    /// Seed of all random numbers. Plans that differ only in policy, costs or settings have the
    /// same requests.
    pub seed: u64,
    /// The costs of scheduling.
    pub costs: Costs,
    /// Whether requests can be preempted. Without it no policy preempts.
    pub preemption: bool,
    /// Whether any worker may resume a preempted request, as in the papers' simulations, or only
    /// its home worker, as on live servers.
    pub migrates: bool,
    /// Requests that a worker can have begun and not finished, where requests do not migrate; any
    /// number unless set.
    pub contexts: Option<usize>,
    /// Requests of one type that may wait; further ones are rejected.
    pub queue_capacity: usize,
    /// How the server classifies requests.
    pub classifier: ClassifierModel,
    /// Whether the policy knows the types' service times and shares from the start. It always knows
    /// their SLOs and weights.
    pub hints: bool,
    /// Flows to which the requests belong. Under a policy without a dispatcher one worker receives all requests of a
    /// flow. Unless set, a worker at random receives each request.
    pub flows: Option<usize>,
    /// Width of the buckets of a timeline in nanoseconds; no timeline unless set.
    pub timeline_ns: Option<u64>,
    /// Whether the outcome has each request's latency.
    pub each: bool,
    /// A change of policy during the simulation.
    pub switch: Option<PolicySwitch>,
    /// The time in which the outcome has what happens to each request. Ideals have no turns to tell of.
    pub trace: Option<TraceWindow>,
    /// What is let in, which answers are in time, and when the server stands still.
    pub overload: Overload,
}

/// How workers come and go with the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ElasticPlan {
    /// The fewest workers that are present, at least 1.
    pub workers_min: usize,
    /// When they come and go.
    pub settings: ElasticSettings,
}

/// How the simulated server classifies requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassifierModel {
    /// Always right.
    #[default]
    Exact,
    /// A type chosen at random (Perséphone 5.6).
    Random,
}

/// A change of policy while requests wait and run.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySwitch {
    /// Measured arrivals before it.
    pub at_request: u64,
    /// The policy from then on.
    pub policy: Policy,
}

/// The time of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceWindow {
    /// When it begins, in nanoseconds after the first measured arrival.
    pub from_ns: u64,
    /// How long it is, in nanoseconds.
    pub length_ns: u64,
}

/// Why a plan cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimError {
    /// The workload is not valid.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The policy is not valid for this number of workers.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A setting is out of its range.
    #[error("{setting} is {value}, it must be {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The value.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// An ideal policy has no queues that another could take over.
    #[error("{0} cannot hand over to another policy; only policies of live servers can")]
    Switch(Box<SimPolicy>),
    /// An ideal policy has all workers all the time.
    #[error("{0} has a fixed number of workers; they come and go only under policies of live servers")]
    Elastic(Box<SimPolicy>),
    /// An ideal policy has no turns.
    #[error("{0} has no turns to trace; only policies of live servers do")]
    Trace(Box<SimPolicy>),
    /// An ideal policy lets everything in.
    #[error(
        "{0} lets everything in at once; only policies of live servers have admission, stalls, deadlines and retries"
    )]
    Overload(Box<SimPolicy>),
    /// A traced request has one name, and admission changes names.
    #[error("a trace shows no admission; leave one of them out")]
    TraceOfAdmission,
    /// A setting of admission is out of its range.
    #[error(transparent)]
    AdmissionSettings(#[from] AdmissionSettingsError),
    /// A setting of the estimator is out of its range.
    #[error(transparent)]
    ElasticSettings(#[from] ElasticSettingsError),
    /// An ideal policy is one server.
    #[error("{0} is one server; several are simulated only with policies of live servers")]
    Cluster(Box<SimPolicy>),
    /// An ideal policy knows no requests that wait without their worker.
    #[error("{0} knows no `wait_us`; only policies of live servers do")]
    Waits(Box<SimPolicy>),
    /// The policy never runs the waiting requests.
    #[error("policy {policy} leaves {waiting} requests waiting beside idle workers")]
    Stranded {
        /// The policy.
        policy: Box<SimPolicy>,
        /// How many.
        waiting: u64,
    },
}

impl SimPlan {
    /// A million measured requests after a tenth of that, without costs, preemption and hints.
    #[must_use]
    pub fn new(workload: Workload, policy: impl Into<SimPolicy>, workers: usize, load: f64) -> Self {
        let plan = Self {
            workload,
            policy: policy.into(),
            workers,
            cluster: Cluster::default(),
            elastic: None,
            load,
            requests: 0,
            warmup: 0,
            seed: 1,
            costs: Costs::default(),
            preemption: false,
            migrates: true,
            contexts: None,
            queue_capacity: 1 << 16,
            classifier: ClassifierModel::Exact,
            hints: false,
            flows: None,
            timeline_ns: None,
            each: false,
            switch: None,
            trace: None,
            overload: Overload::default(),
        };
        plan.requests(1_000_000)
    }

    /// Sets the number of measured arrivals, and a tenth of it as warm-up.
    #[must_use]
    pub fn requests(mut self, requests: u64) -> Self {
        self.requests = requests;
        self.warmup = requests / 10;
        self
    }

    /// Requests per second that arrive outside the workload's phases.
    #[must_use]
    pub fn offered_rps(&self) -> f64 {
        self.workload.rate_rps(self.load, self.workers_of_all())
    }

    /// Workers of all servers together.
    #[must_use]
    pub const fn workers_of_all(&self) -> usize {
        self.workers * self.cluster.servers
    }

    /// Mean gap between arrivals of these types at that load, in nanoseconds.
    pub(super) fn gap_mean_ns(&self, types: &[crate::workload::WorkloadType], factor: f64) -> f64 {
        service_ns_mean(types) / (self.load * factor * self.workers_of_all() as f64)
    }

    /// Checks all ranges.
    ///
    /// # Errors
    /// Any [`SimError`] but [`SimError::Stranded`].
    pub fn validate(&self) -> Result<(), SimError> {
        self.workload.validate()?;
        let policies = match &self.policy {
            SimPolicy::Live(policy) => Some(policy),
            SimPolicy::Ps | SimPolicy::Srpt => match self.refusal_of_ideals() {
                Some(refusal) => return Err(refusal(Box::new(self.policy.clone()))),
                None => None,
            },
        };
        if let Some(elastic) = self.elastic {
            elastic.settings.validate()?;
        }
        if let Some(admission) = self.overload.admission {
            admission.validate()?;
            if self.trace.is_some() {
                return Err(SimError::TraceOfAdmission);
            }
        }
        let next = self.switch.as_ref().map(|switch| &switch.policy);
        for policy in policies.into_iter().chain(next) {
            policy.validate(self.workers)?;
            if self.switch.is_some() && !policy.can_switch(&self.setup(&self.type_table())) {
                return Err(PolicyError::NoHandover(policy.name().to_owned()).into());
            }
        }
        self.validate_ranges()
    }

    /// What `ps` and `srpt` cannot do of this plan: they have no scheduler.
    fn refusal_of_ideals(&self) -> Option<Refusal> {
        let refusals: [(bool, Refusal); 6] = [
            (self.switch.is_some(), SimError::Switch),
            (self.elastic.is_some(), SimError::Elastic),
            (self.cluster.servers > 1, SimError::Cluster),
            (self.workload.waits(), SimError::Waits),
            (self.trace.is_some(), SimError::Trace),
            (self.overload.is_live(&self.workload), SimError::Overload),
        ];
        refusals.into_iter().find_map(|(asked, refusal)| asked.then_some(refusal))
    }

    /// Checks all numbers.
    fn validate_ranges(&self) -> Result<(), SimError> {
        let phases = self.workload.phases.iter();
        let gaps_ns = phases.map(|phase| self.gap_mean_ns(&phase.types, phase.load));
        let gap_ns = gaps_ns.fold(self.gap_mean_ns(&self.workload.types, 1.0), f64::max);
        let time_ns = gap_ns * (self.requests as f64 + self.warmup as f64);
        let buckets = self.timeline_ns.map_or(1.0, |bucket_ns| time_ns / bucket_ns as f64);
        let Self { load, costs, queue_capacity, .. } = self;
        let (delay_ns, longest_ns) = (self.cluster.feedback_delay_ns, costs.longest_ns());
        let slowdown = self.overload.slo_slowdown;
        let a_second = "at most a second";
        let above_0 = format!("above 0 and at most {LOAD_MAX}");
        let time_max = format!("at most {:.0} s", TIME_NS_MAX / 1e9);
        let buckets_max = format!("at most {TIMELINE_BUCKETS_MAX}; make them wider");
        within("workers", self.workers, 1..=WORKERS_MAX)?;
        within("servers", self.cluster.servers, 1..=SERVERS_MAX)?;
        ensure(delay_ns <= COST_NS_MAX, "the delay of feedback", format!("{delay_ns} ns"), a_second)?;
        within("the fewest workers", self.workers_at_start(), 1..=self.workers)?;
        ensure(*load > 0.0 && *load <= LOAD_MAX, "load", load, above_0)?;
        within("requests", self.requests, 1..=REQUESTS_MAX)?;
        ensure(self.warmup <= REQUESTS_MAX, "warm-up", self.warmup, format!("at most {REQUESTS_MAX}"))?;
        ensure(time_ns <= TIME_NS_MAX, "the simulated time", format!("{:.0} s", time_ns / 1e9), time_max)?;
        ensure((1..=1 << 24).contains(queue_capacity), "queue capacity", queue_capacity, "from 1 to 2^24")?;
        ensure(slowdown >= 1.0 && slowdown.is_finite(), "the slowdown of SLOs", slowdown, "at least 1")?;
        ensure(self.contexts != Some(0), "contexts", 0, "at least 1")?;
        within("flows", self.flows.unwrap_or(1), 1..=FLOWS_MAX)?;
        ensure(longest_ns <= COST_NS_MAX, "the longest cost", format!("{longest_ns} ns"), a_second)?;
        within("preempt-sigma", costs.preempt_sigma, 0.0..=PREEMPT_SIGMA_MAX)?;
        within("dispatchers", costs.dispatchers, 1..=WORKERS_MAX)?;
        let timeline = "the timeline's number of buckets";
        ensure(buckets <= TIMELINE_BUCKETS_MAX, timeline, format!("{buckets:.0}"), buckets_max)
    }

    /// The types as the policy sees them.
    pub(super) fn type_table(&self) -> TypeTable {
        let types = self.workload.types.iter();
        types
            .map(|ty| {
                let mut spec = TypeSpec::new(&ty.name);
                spec.slo = ty.slo_ns.map(Duration::from_nanos);
                spec.weight = ty.weight;
                if self.hints {
                    spec.service_time = Some(Duration::from_nanos(ty.service_ns));
                    spec.share = Some(ty.share);
                }
                spec
            })
            .collect()
    }

    /// Workers that are present at the start.
    pub(super) fn workers_at_start(&self) -> usize {
        self.elastic.map_or(self.workers, |elastic| elastic.workers_min)
    }

    /// The estimator of workers that come and go.
    pub(super) fn elastic(&self, types: &TypeTable) -> Option<Elastic> {
        let ElasticPlan { workers_min, settings } = self.elastic?;
        Some(Elastic::new(&self.setup(types), workers_min, settings))
    }

    /// The seed of a server's scheduler. The first has the plan's own.
    pub(super) const fn seed_of(&self, server: usize) -> u64 {
        self.seed.wrapping_add(server as u64)
    }

    /// The setup of schedulers.
    pub(super) fn setup<'a>(&self, types: &'a TypeTable) -> SchedulerSetup<'a> {
        let preemption = Preemption::new(self.costs.preemption_ns());
        let mut contexts = Contexts::at_home(self.contexts.unwrap_or(usize::MAX));
        contexts.migrates = self.migrates;
        SchedulerSetup::new(self.workers, types)
            .present(self.workers_at_start())
            .queue_capacity(self.queue_capacity)
            .preemption(self.preemption.then_some(preemption))
            .contexts(contexts)
            .flows(self.flows)
            .seed(self.seed)
    }
}

/// Refuses a value that is not `valid`.
fn ensure(
    valid: bool,
    setting: &'static str,
    value: impl Display,
    expected: impl Into<String>,
) -> Result<(), SimError> {
    let refusal = || SimError::Setting { setting, value: value.to_string(), expected: expected.into() };
    if valid { Ok(()) } else { Err(refusal()) }
}

/// Refuses a value out of this range.
fn within<T: PartialOrd + Display>(setting: &'static str, value: T, range: RangeInclusive<T>) -> Result<(), SimError> {
    let expected = format!("from {} to {}", range.start(), range.end());
    ensure(range.contains(&value), setting, value, expected)
}
