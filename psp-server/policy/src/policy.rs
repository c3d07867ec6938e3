//! The policies, as users choose them: one row each.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::custom::Custom;
use crate::distributed::{AnyLocal, Word};
use crate::error::PolicyError;
use crate::event::Event;
use crate::policies::c_fcfs::CFcfs;
use crate::policies::cscq::Cscq;
use crate::policies::d_fcfs;
use crate::policies::darc::Darc;
use crate::policies::darc_distributed;
use crate::policies::drr::Drr;
use crate::policies::edf::Edf;
use crate::policies::fixed_priority::FixedPriority;
use crate::policies::jbsq::Jbsq;
use crate::policies::jsq;
use crate::policies::lending::Lending;
use crate::policies::mq::Mq;
use crate::policies::portfolio::Portfolio;
use crate::policies::sjf;
use crate::policies::sq::Sq;
use crate::policies::static_partition::StaticPartition;
use crate::policies::stealing;
use crate::policies::synergy;
use crate::policies::wrr::Wrr;
use crate::scheduler::Scheduler;
use crate::settings;
use crate::setup::SchedulerSetup;
use crate::traits::{Assigns, GoesBy, PreemptionUse};

/// A row without its settings and its scheduler.
struct Row {
    name: &'static str,
    help: &'static str,
    assigns: Assigns,
    goes_by: GoesBy,
    preemption: PreemptionUse,
    by_default: fn() -> Policy,
}

policies! {
    /// One queue per worker; each request joins one at random.
    "d-fcfs": DFcfs, d_fcfs(), Workers, Arrival, Never, |setup, _| d_fcfs::scheduler(setup);
    /// One queue, any idle worker.
    "c-fcfs": CFcfs, c_fcfs(), Dispatcher, Arrival, Never, |setup, _| CFcfs::new(setup);
    /// One queue per worker; idle workers take from the queues of others.
    "stealing": Stealing, stealing(), Workers, Arrival, Never, |setup, _| stealing::scheduler(setup);
    /// The shortest waiting type first, any idle worker.
    "fixed-priority": FixedPriority, fixed_priority(), Dispatcher, Length, Never, |setup, _| FixedPriority::new(setup);
    /// Workers divided among groups of types once, by their demand.
    "static-partition": StaticPartition, static_partition(), Dispatcher, Length, Never, StaticPartition::new;
    /// Workers reserved for groups of types by their measured demand.
    "darc": Darc, darc(), Dispatcher, Length, Never, Darc::new;
    /// Fixed priority with workers set aside for the shortest types.
    "darc-static": DarcStatic, _, Dispatcher, Length, Never, FixedPriority::with_reserved;
    /// DARC that lends idle reserved workers and takes them back by preemption; without it, DARC.
    "darc-lending": DarcLending, darc_lending(), Dispatcher, Length, WherePossible, Lending::new;
    /// Whichever of a portfolio of policies does best on what arrived lately, by trials in virtual time.
    "portfolio": Portfolio, portfolio(), Dispatcher, Length, WherePossible, Portfolio::new;
    /// The type with the shortest measured service time first, any idle worker.
    "sjf": Sjf, sjf(), Dispatcher, Length, Never, |setup, _| sjf::scheduler(setup);
    /// The earliest deadline first, any idle worker.
    "edf": Edf, edf(), Dispatcher, Length, Never, Edf::new;
    /// Types take turns, each for as much service time as the others; any idle worker.
    "drr": Drr, drr(quantum_us), Dispatcher, Length, Never, Drr::new;
    /// Types take turns, each for as many requests as its weight; any idle worker.
    "wrr": Wrr, wrr(), Dispatcher, Type, Never, |setup, _| Wrr::new(setup);
    /// One queue for short and one for long types, with a limit on the workers that run long ones.
    "cscq": Cscq, cscq(), Dispatcher, Length, Never, Cscq::new;
    /// Shinjuku: one queue, and quanta while others wait.
    "sq": Sq, sq(quantum_us), Dispatcher, Arrival, Needed, Sq::new;
    /// Shinjuku: typed queues weighed by SLO, and quanta while others wait.
    "mq": Mq, mq(quantum_us), Dispatcher, Length, Needed, Mq::new;
    /// Concord: each request to the worker with the fewest, which are bounded.
    "jbsq": Jbsq, jbsq(quantum_us), Dispatcher, Arrival, Needed, Jbsq::new;
    /// Tiny Quanta: each request to the worker with the fewest, which take turns there.
    "jsq": Jsq, jsq(quantum_us), Dispatcher, Arrival, Needed, jsq::scheduler;
    /// Synergy: one queue per worker, stealing, and long requests preempted for those behind them.
    "synergy": Synergy, synergy(quantum_us), Workers, Length, Needed, synergy::scheduler;
    /// DARC without a dispatcher: workers hand over what they must not run, and lend what they do not need.
    "darc-distributed": DarcDistributed, darc_distributed(), Workers, Length, WherePossible, darc_distributed::scheduler;
}

impl Policy {
    /// DARC-static with `reserved` workers for the shortest types.
    #[must_use]
    pub fn darc_static(reserved: usize) -> Self {
        settings::DarcStatic::default().reserved(reserved).into()
    }

    /// The objects of workers that schedule themselves under this policy, for drivers with a queue in each worker;
    /// `None` for policies that need a dispatcher. [`Policy::scheduler`] drives the same objects.
    #[must_use]
    pub fn local<C: Word>(&self, setup: &SchedulerSetup<'_>) -> Option<AnyLocal<C>> {
        Some(match self {
            Self::DFcfs(_) => d_fcfs::local(setup).boxed(),
            Self::Stealing(_) => stealing::local(setup).boxed(),
            Self::Jsq(settings) => jsq::local(setup, settings).boxed(),
            Self::Synergy(settings) => synergy::local(setup, settings).boxed(),
            Self::DarcDistributed(settings) => darc_distributed::local(setup, settings).boxed(),
            _ => return None,
        })
    }

    /// Whether workers can schedule themselves under this policy: it has objects for [`Policy::local`].
    #[must_use]
    pub const fn is_local(&self) -> bool {
        matches!(
            self,
            Self::DFcfs(_) | Self::Stealing(_) | Self::Jsq(_) | Self::Synergy(_) | Self::DarcDistributed(_)
        )
    }

    /// Sets the quantum of a policy that has one, in microseconds. The settings of the policy, such as
    /// [`settings::Mq`], say what it means and what it is unless set.
    ///
    /// # Panics
    ///
    /// When the policy has no quantum.
    #[must_use]
    pub fn quantum_us(mut self, quantum_us: impl Into<f64>) -> Self {
        let has_quantum = self.set_quantum_us(quantum_us.into());
        assert!(has_quantum, "policy {self} has no quantum");
        self
    }

    /// A policy from outside this crate, which runs requests to completion and has a dispatcher;
    /// [`Custom`] makes others. `scheduler` makes its state machine. `docs/your-policy.md` shows how.
    ///
    /// A custom policy equals its clones. Configuration files and flags cannot name it.
    pub fn custom(
        name: &str,
        scheduler: impl Fn(&SchedulerSetup<'_>) -> Box<dyn Scheduler> + Send + Sync + 'static,
    ) -> Self {
        Custom::new(name, scheduler).into()
    }

    /// The policy of that name with its default settings.
    pub(crate) fn named(name: &str) -> Result<Self, PolicyError> {
        let row = ROWS.iter().find(|row| row.name == name);
        row.map(|row| (row.by_default)())
            .ok_or_else(|| PolicyError::UnknownName { name: name.to_owned(), known: Self::NAMES.to_vec() })
    }

    /// All policies of this crate: name and one line of help.
    pub fn help() -> impl Iterator<Item = (&'static str, &'static str)> {
        ROWS.iter().map(|row| (row.name, row.help.trim()))
    }

    /// Whether a dispatcher assigns requests to workers; otherwise workers take them from queues.
    #[must_use]
    pub fn has_dispatcher(&self) -> bool {
        self.assigns() == Assigns::Dispatcher
    }

    /// Whether the policy treats requests by the lengths of their types, and so gains by
    /// [`TypeSpec::service_time`](crate::TypeSpec::service_time). Not so a policy from outside this crate, as far
    /// as is known.
    #[must_use]
    pub fn goes_by_length(&self) -> bool {
        !matches!(self, Self::Custom(_)) && self.row().goes_by == GoesBy::Length
    }

    /// Whether the policy needs preemption to work as published. Without
    /// [`SchedulerSetup::preemption`] it schedules nevertheless, and runs requests to completion.
    #[must_use]
    pub fn needs_preemption(&self) -> bool {
        self.preemption() == PreemptionUse::Needed
    }

    /// Whether the policy preempts requests where that is possible.
    #[must_use]
    pub fn can_preempt(&self) -> bool {
        self.preemption() != PreemptionUse::Never
    }

    /// The names of the policies that do not [need preemption](Self::needs_preemption).
    #[must_use]
    pub fn names_to_completion() -> Vec<&'static str> {
        let to_completion = |row: &&Row| row.preemption != PreemptionUse::Needed;
        let rows = ROWS.iter().filter(to_completion);
        rows.map(|row| row.name).collect()
    }

    /// Whether a running server can switch between this policy and others: its schedulers have a
    /// [`Handover`](crate::Handover).
    #[must_use]
    pub fn can_switch(&self, setup: &SchedulerSetup<'_>) -> bool {
        match self {
            Self::Custom(custom) => custom.scheduler(setup).handover().is_some(),
            _ => true,
        }
    }

    fn assigns(&self) -> Assigns {
        match self {
            Self::Custom(custom) => custom.assigns(),
            _ => self.row().assigns,
        }
    }

    fn preemption(&self) -> PreemptionUse {
        match self {
            Self::Custom(custom) => custom.preemption_use(),
            _ => self.row().preemption,
        }
    }

    /// The row of a policy that is not custom.
    fn row(&self) -> &'static Row {
        let row = ROWS.iter().find(|row| row.name == self.name());
        row.expect("every policy of this crate has a row")
    }
}

/// c-FCFS, which needs no hints and no preemption.
impl Default for Policy {
    fn default() -> Self {
        Self::c_fcfs()
    }
}

impl From<Custom> for Policy {
    fn from(custom: Custom) -> Self {
        Self::Custom(custom)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
