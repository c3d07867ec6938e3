//! Why a policy cannot be used.

use std::fmt;

use thiserror::Error;

/// Why a policy cannot be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy has this name.
    #[error("no policy is called `{name}`; there are {known}", known = known.join(", "))]
    UnknownName {
        /// The name that was given.
        name: String,
        /// The names of all policies.
        known: Vec<&'static str>,
    },
    /// A policy is not spelled as [`FromStr`](std::str::FromStr) takes it.
    #[error("policy `{line}`: {reason}")]
    Spelling {
        /// What was given.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There are no workers.
    #[error("a server needs at least one worker")]
    NoWorkers,
    /// The server was told not to preempt requests.
    #[error(
        "policy {policy} preempts requests, and preempt = none; \
         the policies that run requests to completion are {to_completion}",
        to_completion = to_completion.join(", ")
    )]
    NeedsPreemption {
        /// The policy's name.
        policy: String,
        /// The names of the policies that run requests to completion.
        to_completion: Vec<&'static str>,
    },
    /// The server's net thread runs requests itself, and cannot preempt them.
    #[error("policy {0} preempts requests, and the net thread runs some itself; it needs topology dedicated")]
    NeedsDedicated(String),
    /// The server's workers receive for themselves, and the policy needs a dispatcher.
    #[error(
        "policy {0} needs a net thread, and topology distributed has none; that topology runs d-fcfs, \
         stealing, jsq, synergy and darc-distributed"
    )]
    NotDistributed(String),
    /// A custom policy has no name, or that of a policy of this crate.
    #[error("a custom policy cannot be called `{0}`")]
    CustomName(String),
    /// Two custom policies have one name.
    #[error("two custom policies are called `{0}`")]
    SameName(String),
    /// A policy whose schedulers have no [`Handover`](crate::Handover) would lose requests.
    #[error("policy {0} cannot hand requests over: a running server can neither leave nor adopt it")]
    NoHandover(String),
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

/// As it displays, since the standard library prints this of what `main` returns.
impl fmt::Debug for PolicyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}
