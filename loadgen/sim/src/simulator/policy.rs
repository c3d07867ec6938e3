//! Policies that can be simulated: the policies of live servers, and two ideals.

use std::fmt;
use std::str::FromStr;

use psp_policy::{Policy, PolicyError};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A policy that can be simulated.
#[derive(Debug, Clone, PartialEq)]
pub enum SimPolicy {
    /// A policy of live servers.
    Live(Policy),
    /// Ideal processor sharing: all requests in the system progress at the same speed, at most at
    /// the speed of one worker, at no cost.
    Ps,
    /// Ideal shortest remaining processing time first. It knows the service time of every request
    /// and preempts at no cost.
    Srpt,
}

/// Names of the ideals, and a line of help for each.
const IDEALS: [(&str, SimPolicy, &str); 2] = [
    ("ps", SimPolicy::Ps, "Ideal processor sharing: all requests progress at once, at no cost."),
    (
        "srpt",
        SimPolicy::Srpt,
        "Ideal shortest remaining processing time: knows every service time, preempts at no cost.",
    ),
];

impl SimPolicy {
    /// The names of all policies.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let ideals = IDEALS.iter().map(|(name, _, _)| *name);
        Policy::NAMES.iter().copied().chain(ideals)
    }

    /// The names of all policies, and a line of help for each.
    pub fn help() -> impl Iterator<Item = (&'static str, &'static str)> {
        let ideals = IDEALS.iter().map(|(name, _, help)| (*name, *help));
        Policy::help().chain(ideals)
    }

    /// The name that [`FromStr`] and files use.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Live(policy) => policy.name(),
            Self::Ps => "ps",
            Self::Srpt => "srpt",
        }
    }
}

impl From<Policy> for SimPolicy {
    fn from(policy: Policy) -> Self {
        Self::Live(policy)
    }
}

impl fmt::Display for SimPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// No policy has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no policy is called `{0}`; there are {names}", names = SimPolicy::names().collect::<Vec<_>>().join(", "))]
pub struct UnknownPolicy(pub String);

impl FromStr for SimPolicy {
    type Err = UnknownPolicy;

    /// The policy of that name with its default settings.
    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        if let Some((_, ideal, _)) = IDEALS.iter().find(|(ideal, _, _)| *ideal == name) {
            return Ok(ideal.clone());
        }
        let live: Result<Policy, PolicyError> = name.parse();
        live.map(Self::Live).map_err(|_| UnknownPolicy(name.to_owned()))
    }
}

impl Serialize for SimPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Live(policy) => policy.serialize(serializer),
            Self::Ps | Self::Srpt => serializer.serialize_str(self.name()),
        }
    }
}

impl<'de> Deserialize<'de> for SimPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = SimPolicy;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a policy, or a table of its name and settings")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<SimPolicy, E> {
                name.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SimPolicy, A::Error> {
                Policy::deserialize(MapAccessDeserializer::new(map)).map(SimPolicy::Live)
            }
        }

        deserializer.deserialize_any(NameOrTable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in SimPolicy::names() {
            let policy: SimPolicy = name.parse().unwrap();
            assert_eq!(policy.to_string(), name);
            let json = serde_json::to_string(&policy).unwrap();
            assert_eq!(serde_json::from_str::<SimPolicy>(&json).unwrap(), policy);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_that_can_be_simulated() {
        let error = SimPolicy::from_str("fifo").unwrap_err().to_string();
        assert!(error.contains("`fifo`"), "{error}");
        assert!(error.contains("c-fcfs") && error.contains("ps, srpt"), "{error}");
    }
}
