//! The names of mechanisms.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Cpusets of cgroup v1.
    CpusetV1,
    /// Partitions of cgroup v2.
    CpusetV2,
    /// Affinity masks.
    Affinity,
    /// A record, for tests.
    Recorded,
}

impl Kind {
    /// How settings and logs write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CpusetV1 => "cpuset-v1",
            Self::CpusetV2 => "cpuset-v2",
            Self::Affinity => "affinity",
            Self::Recorded => "recorded",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which mechanism to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Choice {
    /// The first that works.
    #[default]
    Auto,
    /// This one, or none.
    Only(Kind),
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Only(kind) => kind.name(),
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kinds = [Kind::CpusetV1, Kind::CpusetV2, Kind::Affinity];
        let mut choices = std::iter::once(Self::Auto).chain(kinds.map(Self::Only));
        let choice = choices.find(|choice| choice.name() == name);
        choice.ok_or_else(|| format!("'{name}' is not one of auto, cpuset-v1, cpuset-v2, affinity"))
    }
}

impl TryFrom<String> for Choice {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<Choice> for String {
    fn from(choice: Choice) -> Self {
        choice.name().to_owned()
    }
}
