//! How a running request yields to another one.

use serde::{Deserialize, Serialize};

/// How a running request is made to yield to another one.
///
/// A server has one mechanism; a type can narrow it ([`TypeSpec::preempt`](crate::TypeSpec::preempt)).
/// Policies that run every request to its end never use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PreemptPolicy {
    /// Not at all: every request runs to its end.
    None,
    /// Where the handler calls `psp_server::checkpoint`.
    #[default]
    Cooperative,
    /// Anywhere in safe code: the worker goes on in another kernel thread. Needs Linux, and does best
    /// with CAP_SYS_NICE or an RLIMIT_NICE that allows the process its own nice value.
    KernelThread,
    /// Anywhere in code whose author vouches for it, by a signal to the worker.
    Signal,
}

impl PreemptPolicy {
    /// Each mechanism with the name that [`FromStr`](std::str::FromStr) knows.
    const NAMES: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("cooperative", Self::Cooperative),
        ("kernel-thread", Self::KernelThread),
        ("signal", Self::Signal),
    ];
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
