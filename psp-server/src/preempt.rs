//! Preemption as users choose it: the mechanism, and what handlers have to know of it.
//!
//! A policy that shares time decides *when* a request gives its worker away; the mechanism decides
//! *how*. `docs/preemption.md` compares them.

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::fiber;

pub use crate::fiber::{Platform, PreemptSafeAlloc, SignalPreemptible, checkpoint, no_preempt};

/// How a running request is made to give way to another one.
///
/// Set for a server by [`Config::preempt`](crate::Config::preempt), and narrowed for a type by
/// [`TypeSpec::preempt`](crate::TypeSpec::preempt). Policies that run every request to its end
/// never use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptPolicy {
    /// Not at all: every request runs to its end.
    None,
    /// Where the handler calls [`checkpoint`].
    #[default]
    Cooperative,
    /// Anywhere in safe code: the worker goes on in another kernel thread. Needs Linux, and does best
    /// with CAP_SYS_NICE or an RLIMIT_NICE that allows the process its own nice value.
    KernelThread,
    /// Anywhere in code whose author vouches for it, by a signal to the worker.
    Signal,
}

impl PreemptPolicy {
    /// All of them, by the names that [`FromStr`](std::str::FromStr) knows.
    const NAMES: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("cooperative", Self::Cooperative),
        ("kernel-thread", Self::KernelThread),
        ("signal", Self::Signal),
    ];

    /// Refuses what this platform or this handler does not have. `vouched`: its author signed
    /// [`SignalPreemptible`].
    pub(crate) fn validate(self, vouched: bool) -> Result<(), BuildError> {
        let prepared = match self {
            Self::None | Self::Cooperative => Ok(()),
            Self::KernelThread if cfg!(target_os = "linux") => Ok(()),
            Self::KernelThread => Err("kernel-thread needs Linux".to_owned()),
            Self::Signal if !vouched => Err(
                "signal needs a handler that is SignalPreemptible, and signal_preemption() after \
                 handler() in the builder"
                    .to_owned(),
            ),
            Self::Signal => fiber::prepare_process(),
        };
        prepared.map_err(|reason| BuildError::Setting {
            setting: "preempt",
            reason,
        })
    }
}

impl std::str::FromStr for PreemptPolicy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|&(_, policy)| policy).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name).join(", ");
            format!("unknown preemption '{name}' ({names})")
        })
    }
}

impl std::fmt::Display for PreemptPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = Self::NAMES.iter().find(|(_, policy)| policy == self);
        f.write_str(name.map_or("", |&(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::PreemptPolicy;

    #[test]
    fn names_are_read_back() {
        for (name, policy) in PreemptPolicy::NAMES {
            assert_eq!(name.parse(), Ok(policy));
            assert_eq!(policy.to_string(), name);
            let table = BTreeMap::from([("preempt", policy)]);
            let text = toml::to_string(&table).unwrap();
            assert_eq!(text.trim(), format!("preempt = \"{name}\""));
        }
        let error = "nope".parse::<PreemptPolicy>().unwrap_err();
        assert!(error.contains("kernel-thread"), "{error}");
    }
}
