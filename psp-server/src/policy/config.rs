//! Which policy, with which settings: the user's side.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::c_fcfs::CFcfs;
use super::d_fcfs::DFcfs;
use super::fixed_priority::FixedPriority;
use super::settings::{
    Cscq, Darc, DarcLending, DarcStatic, Drr, Edf, Jbsq, Jsq, Mq, Sq, StaticPartition, Synergy,
};
use super::stealing::Stealing;
use super::{
    Scheduler, SchedulerSetup, cscq, darc, drr, edf, jbsq, jsq, lending, mq, sjf, sq,
    static_partition, synergy,
};

/// A policy and its settings. Building one costs nothing; [`Policy::scheduler`] makes the state
/// machine.
///
/// Policies that run requests to completion have constructors that make the policy, with its default
/// settings: `Policy::darc()`. Those that [need preemption](Policy::needs_preemption) have a quantum,
/// which depends on the machine, and constructors that make the settings:
/// `Policy::mq().quantum_us(10)`. All settings become a policy by [`Into`], which is what a server's
/// builder takes; so `Darc::default().delta(3.0)` will do for `Policy::darc()`.
///
/// In a configuration file it is a name, `policy = "darc"`, or a table of a name and settings:
///
/// ```toml
/// [policy]
/// name = "darc"
/// delta = 3.0
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Policy {
    /// One queue per worker, arrivals spread by lot.
    DFcfs,
    /// One queue, any idle worker.
    CFcfs,
    /// One queue per worker; idle workers take from the queues of others.
    Stealing,
    /// The shortest waiting type first, any idle worker.
    FixedPriority,
    /// Workers divided among groups of types once, by their demand.
    StaticPartition(StaticPartition),
    /// Workers reserved for groups of types by their measured demand.
    Darc(Darc),
    /// DARC that lends idle reserved workers and takes them back by preemption.
    DarcLending(DarcLending),
    /// Fixed priority with workers set aside for the shortest types.
    DarcStatic(DarcStatic),
    /// The type with the shortest measured service time first, any idle worker.
    Sjf,
    /// The earliest deadline first, any idle worker.
    Edf(Edf),
    /// Types take turns, each for as much service time as the others; any idle worker.
    Drr(Drr),
    /// One queue for short and one for long types, with a limit on the workers that run long ones.
    Cscq(Cscq),
    /// Shinjuku: one queue, and quanta while others wait.
    Sq(Sq),
    /// Shinjuku: typed queues weighed by SLO, and quanta while others wait.
    Mq(Mq),
    /// Concord: each request to the worker with the fewest, which are bounded.
    Jbsq(Jbsq),
    /// Tiny Quanta: each request to the worker with the fewest, which take turns there.
    Jsq(Jsq),
    /// Synergy: one queue per worker, stealing, and long requests preempted for those behind them.
    Synergy(Synergy),
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// No policy has this name.
    #[error("no policy is called `{0}`; there are {names}", names = Policy::NAMES.join(", "))]
    UnknownName(String),
    /// A policy is not spelled as [`FromStr`](std::str::FromStr) takes it.
    #[error("policy `{line}`: {reason}")]
    Spelling {
        /// What was given.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nobody to schedule.
    #[error("a server needs at least one worker")]
    NoWorkers,
    /// The server was told not to preempt requests.
    #[error(
        "policy {0} preempts requests, and preempt = none; \
         the policies that run requests to completion are {names}",
        names = Policy::names_to_completion().join(", ")
    )]
    NeedsPreemption(&'static str),
    /// The server's net thread runs requests itself, which nobody could preempt.
    #[error(
        "policy {0} preempts requests, and the net thread runs some itself; it needs topology dedicated"
    )]
    NeedsDedicated(&'static str),
    /// A setting is out of its range.
    #[error("policy {policy}: {setting} is {value}, it must be {expected}")]
    Setting {
        /// The policy's name.
        policy: &'static str,
        /// The setting, as configuration files spell it.
        setting: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be set to.
        expected: String,
    },
}

impl Policy {
    /// The names of all policies.
    pub const NAMES: [&'static str; 17] = [
        "d-fcfs",
        "c-fcfs",
        "stealing",
        "fixed-priority",
        "static-partition",
        "darc",
        "darc-static",
        "darc-lending",
        "sjf",
        "edf",
        "drr",
        "cscq",
        "sq",
        "mq",
        "jbsq",
        "jsq",
        "synergy",
    ];

    /// Decentralised first come, first served.
    #[must_use]
    pub const fn d_fcfs() -> Self {
        Self::DFcfs
    }

    /// Centralised first come, first served.
    #[must_use]
    pub const fn c_fcfs() -> Self {
        Self::CFcfs
    }

    /// Decentralised first come, first served, with work stealing.
    #[must_use]
    pub const fn stealing() -> Self {
        Self::Stealing
    }

    /// Shortest type first.
    #[must_use]
    pub const fn fixed_priority() -> Self {
        Self::FixedPriority
    }

    /// Partitions by demand; [`StaticPartition`] has its settings.
    #[must_use]
    pub fn static_partition() -> Self {
        StaticPartition::default().into()
    }

    /// Shortest type first, with `reserved` workers for it alone.
    #[must_use]
    pub fn darc_static(reserved: usize) -> Self {
        Self::DarcStatic(DarcStatic::default().reserved(reserved))
    }

    /// DARC as published; [`Darc`] has its settings.
    #[must_use]
    pub fn darc() -> Self {
        Self::Darc(Darc::default())
    }

    /// Shortest measured type first.
    #[must_use]
    pub const fn sjf() -> Self {
        Self::Sjf
    }

    /// Earliest deadline first; [`Edf`] has its settings.
    #[must_use]
    pub fn edf() -> Self {
        Edf::default().into()
    }

    /// Deficit round robin; [`Drr`] has its settings.
    #[must_use]
    pub fn drr() -> Self {
        Drr::default().into()
    }

    /// Cycle stealing with central queue; [`Cscq`] has its settings.
    #[must_use]
    pub fn cscq() -> Self {
        Cscq::default().into()
    }

    /// Shinjuku's single queue, as its settings.
    #[must_use]
    pub fn sq() -> Sq {
        Sq::default()
    }

    /// Shinjuku's multi queue, as its settings.
    #[must_use]
    pub fn mq() -> Mq {
        Mq::default()
    }

    /// Join the bounded shortest queue, as its settings.
    #[must_use]
    pub fn jbsq() -> Jbsq {
        Jbsq::default()
    }

    /// Join the shortest queue, and share its worker, as its settings.
    #[must_use]
    pub fn jsq() -> Jsq {
        Jsq::default()
    }

    /// Synergy as published, as its settings.
    #[must_use]
    pub fn synergy() -> Synergy {
        Synergy::default()
    }

    /// DARC with lending; [`DarcLending`] has its settings. Without preemption it is DARC.
    #[must_use]
    pub fn darc_lending() -> Self {
        DarcLending::default().into()
    }

    /// The policy of that name with its default settings.
    pub(super) fn named(name: &str) -> Result<Self, PolicyError> {
        match name {
            "d-fcfs" => Ok(Self::d_fcfs()),
            "c-fcfs" => Ok(Self::c_fcfs()),
            "stealing" => Ok(Self::stealing()),
            "fixed-priority" => Ok(Self::fixed_priority()),
            "static-partition" => Ok(Self::static_partition()),
            "darc" => Ok(Self::darc()),
            "darc-lending" => Ok(Self::darc_lending()),
            "darc-static" => Ok(Self::DarcStatic(DarcStatic::default())),
            "sjf" => Ok(Self::sjf()),
            "edf" => Ok(Self::edf()),
            "drr" => Ok(Self::drr()),
            "cscq" => Ok(Self::cscq()),
            "sq" => Ok(Self::sq().into()),
            "mq" => Ok(Self::mq().into()),
            "jbsq" => Ok(Self::jbsq().into()),
            "jsq" => Ok(Self::jsq().into()),
            "synergy" => Ok(Self::synergy().into()),
            _ => Err(PolicyError::UnknownName(name.to_owned())),
        }
    }

    /// The name by which [`FromStr`](std::str::FromStr) and configuration files know it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DFcfs => "d-fcfs",
            Self::CFcfs => "c-fcfs",
            Self::Stealing => "stealing",
            Self::FixedPriority => "fixed-priority",
            Self::StaticPartition(_) => "static-partition",
            Self::Darc(_) => "darc",
            Self::DarcLending(_) => "darc-lending",
            Self::DarcStatic(_) => "darc-static",
            Self::Sjf => "sjf",
            Self::Edf(_) => "edf",
            Self::Drr(_) => "drr",
            Self::Cscq(_) => "cscq",
            Self::Sq(_) => "sq",
            Self::Mq(_) => "mq",
            Self::Jbsq(_) => "jbsq",
            Self::Jsq(_) => "jsq",
            Self::Synergy(_) => "synergy",
        }
    }

    /// Whether it comes to its own only where requests can be preempted. Without
    /// [`SchedulerSetup::preemption`] it schedules nevertheless, and runs them to completion.
    #[must_use]
    pub const fn needs_preemption(&self) -> bool {
        matches!(
            self,
            Self::Sq(_) | Self::Mq(_) | Self::Jbsq(_) | Self::Jsq(_) | Self::Synergy(_)
        )
    }

    /// Whether it preempts requests where that is possible: it
    /// [needs preemption](Self::needs_preemption), or is `darc-lending`.
    #[must_use]
    pub const fn can_preempt(&self) -> bool {
        self.needs_preemption() || matches!(self, Self::DarcLending(_))
    }

    /// The names of the policies that do not [need preemption](Self::needs_preemption).
    #[must_use]
    pub fn names_to_completion() -> Vec<&'static str> {
        let runs_to_completion =
            |name: &&str| Self::named(name).is_ok_and(|policy| !policy.needs_preemption());
        let names = Self::NAMES.into_iter();
        names.filter(runs_to_completion).collect()
    }

    /// Checks the settings for a server with that many workers.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NoWorkers`] and [`PolicyError::Setting`], the latter for the first setting
    /// that is out of its range.
    pub fn validate(&self, workers: usize) -> Result<(), PolicyError> {
        if workers == 0 {
            return Err(PolicyError::NoWorkers);
        }
        match self {
            Self::DFcfs | Self::CFcfs | Self::Stealing | Self::FixedPriority | Self::Sjf => Ok(()),
            Self::StaticPartition(settings) => settings.validate(),
            Self::Darc(settings) => settings.validate(workers),
            Self::DarcLending(settings) => settings.validate(workers),
            Self::DarcStatic(settings) => settings.validate(workers),
            Self::Edf(settings) => settings.validate(),
            Self::Drr(settings) => settings.validate(),
            Self::Cscq(settings) => settings.validate(workers),
            Self::Sq(settings) => settings.validate(),
            Self::Mq(settings) => settings.validate(),
            Self::Jbsq(settings) => settings.validate(),
            Self::Jsq(settings) => settings.validate(),
            Self::Synergy(settings) => settings.validate(),
        }
    }

    /// Makes the scheduler for a given number of workers and table of types.
    ///
    /// It does not check the settings. With some that [`Policy::validate`] refuses every request
    /// is still served, but it is not said where, nor when reservations change.
    ///
    /// # Panics
    ///
    /// When there are no workers, or 2^32 and more.
    #[must_use]
    pub fn scheduler(&self, setup: &SchedulerSetup<'_>) -> Box<dyn Scheduler> {
        match self {
            Self::DFcfs => Box::new(DFcfs::new(setup)),
            Self::CFcfs => Box::new(CFcfs::new(setup)),
            Self::Stealing => Box::new(Stealing::new(setup)),
            Self::FixedPriority => Box::new(FixedPriority::new(setup)),
            Self::StaticPartition(settings) => {
                Box::new(static_partition::StaticPartition::new(setup, settings))
            }
            Self::Darc(settings) => Box::new(darc::Darc::new(setup, settings)),
            Self::DarcLending(settings) => Box::new(lending::Lending::new(setup, settings)),
            Self::DarcStatic(settings) => Box::new(FixedPriority::with_reserved(setup, settings)),
            Self::Sjf => Box::new(sjf::scheduler(setup)),
            Self::Edf(settings) => Box::new(edf::Edf::new(setup, settings)),
            Self::Drr(settings) => Box::new(drr::Drr::new(setup, settings)),
            Self::Cscq(settings) => Box::new(cscq::Cscq::new(setup, settings)),
            Self::Sq(settings) => Box::new(sq::Sq::new(setup, settings)),
            Self::Mq(settings) => Box::new(mq::Mq::new(setup, settings)),
            Self::Jbsq(settings) => Box::new(jbsq::Jbsq::new(setup, settings)),
            Self::Jsq(settings) => Box::new(jsq::Jsq::new(setup, settings)),
            Self::Synergy(settings) => Box::new(synergy::Synergy::new(setup, settings)),
        }
    }
}

/// Makes policies of settings, whose types have the names of the variants.
macro_rules! from_settings {
    ($($settings:ident),* $(,)?) => {
        $(
            impl From<$settings> for Policy {
                fn from(settings: $settings) -> Self {
                    Self::$settings(settings)
                }
            }
        )*
    };
}

from_settings!(
    StaticPartition,
    Darc,
    DarcLending,
    DarcStatic,
    Edf,
    Drr,
    Cscq,
    Sq,
    Mq,
    Jbsq,
    Jsq,
    Synergy
);

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The table form of a [`Policy`]. Empty braces make serde refuse settings that a policy does not
/// have; it would ignore them beside a unit variant.
#[derive(Deserialize)]
#[serde(tag = "name", deny_unknown_fields, rename_all = "kebab-case")]
enum Table {
    DFcfs {},
    CFcfs {},
    Stealing {},
    FixedPriority {},
    StaticPartition(StaticPartition),
    Darc(Darc),
    DarcLending(DarcLending),
    DarcStatic(DarcStatic),
    Sjf {},
    Edf(Edf),
    Drr(Drr),
    Cscq(Cscq),
    Sq(Sq),
    Mq(Mq),
    Jbsq(Jbsq),
    Jsq(Jsq),
    Synergy(Synergy),
}

impl From<Table> for Policy {
    fn from(table: Table) -> Self {
        match table {
            Table::DFcfs {} => Self::DFcfs,
            Table::CFcfs {} => Self::CFcfs,
            Table::Stealing {} => Self::Stealing,
            Table::FixedPriority {} => Self::FixedPriority,
            Table::StaticPartition(settings) => settings.into(),
            Table::Darc(settings) => settings.into(),
            Table::DarcLending(settings) => settings.into(),
            Table::DarcStatic(settings) => settings.into(),
            Table::Sjf {} => Self::Sjf,
            Table::Edf(settings) => settings.into(),
            Table::Drr(settings) => settings.into(),
            Table::Cscq(settings) => settings.into(),
            Table::Sq(settings) => settings.into(),
            Table::Mq(settings) => settings.into(),
            Table::Jbsq(settings) => settings.into(),
            Table::Jsq(settings) => settings.into(),
            Table::Synergy(settings) => settings.into(),
        }
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Policy;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a policy, or a table of its name and settings")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Policy, E> {
                name.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Policy, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map)).map(Policy::from)
            }
        }

        deserializer.deserialize_any(NameOrTable)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{JsqTies, Requeue};
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct File {
        policy: Policy,
    }

    fn parse(toml: &str) -> Result<Policy, String> {
        toml::from_str::<File>(toml)
            .map(|file| file.policy)
            .map_err(|error| error.to_string())
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
    fn a_table_sets_what_it_names_and_leaves_the_rest() {
        assert_eq!(
            parse("[policy]\nname = 'darc'\ndelta = 3.0\nwindow-max-ms = 250\nstealing = false"),
            Ok(Darc::default()
                .delta(3.0)
                .window_max(Duration::from_millis(250))
                .stealing(false)
                .into())
        );
        assert_eq!(
            parse(
                "[policy]\nname = 'darc-lending'\nborrow-after = 0.1\n[policy.darc]\ndelta = 3.0"
            ),
            Ok(DarcLending::default()
                .borrow_after(0.1)
                .darc(Darc::default().delta(3.0))
                .into())
        );
        assert_eq!(
            parse("[policy]\nname = 'darc-static'\nreserved = 2"),
            Ok(Policy::darc_static(2))
        );
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
            Policy::sq().into(),
            Policy::mq().spare_finishing(false).into(),
        ];
        for policy in optional {
            let file = File { policy };
            assert_eq!(toml::from_str(&toml::to_string(&file).unwrap()), Ok(file));
        }
        assert_eq!(
            parse(
                "[policy]\nname = 'sq'\nquantum-us = 0.5\nrequeue = 'automatic'\nspare-finishing = true"
            ),
            Ok(Policy::sq()
                .quantum_us(0.5)
                .requeue(Requeue::Automatic)
                .spare_finishing(true)
                .into())
        );
        assert_eq!(
            parse("[policy]\nname = 'mq'\nquantum-us = 10\nslo-factor = 5.0\nspare-chosen = true"),
            Ok(Policy::mq()
                .quantum_us(10)
                .slo_factor(5.0)
                .spare_chosen(true)
                .into())
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
            (
                "policy = 'dark'",
                "d-fcfs, c-fcfs, stealing, fixed-priority, static-partition, darc",
            ),
            ("[policy]\nname = 'dark'", "unknown variant `dark`"),
            (
                "[policy]\nname = 'darc'\ndeltas = 3.0",
                "unknown field `deltas`",
            ),
            (
                "[policy]\nname = 'c-fcfs'\ndelta = 3.0",
                "unknown field `delta`",
            ),
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
            (
                darc().window_max_samples_min(0).into(),
                "window-max-samples-min",
            ),
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
            (DarcStatic::default().delta(f64::INFINITY).into(), "delta"),
            (StaticPartition::default().delta(0.5).into(), "delta"),
            (Edf::default().slo_factor(0.0).into(), "slo-factor"),
            (Edf::default().slo_factor(f64::NAN).into(), "slo-factor"),
            (Drr::default().quantum_us(0.0).into(), "quantum-us"),
            (Cscq::default().reserved(0).into(), "reserved"),
            (Cscq::default().reserved(4).into(), "reserved"),
            (Cscq::default().delta(0.0).into(), "delta"),
            (Policy::sq().quantum_us(0).into(), "quantum-us"),
            (Policy::mq().quantum_us(f64::NAN).into(), "quantum-us"),
            (Policy::mq().slo_factor(-1.0).into(), "slo-factor"),
            (Jbsq::default().k(0).into(), "k"),
            (Jbsq::default().quantum_us(0).into(), "quantum-us"),
            (Jsq::default().quantum_us(f64::NAN).into(), "quantum-us"),
            (synergy().quantum_us(-1.0).into(), "quantum-us"),
            (synergy().quantum_factor(0.0).into(), "quantum-factor"),
            (
                synergy().congested_quantum_factor(f64::NAN).into(),
                "congested-quantum-factor",
            ),
            (
                synergy().congestion_threshold_us(-1.0).into(),
                "congestion-threshold-us",
            ),
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
}
