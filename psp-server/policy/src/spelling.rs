//! Policies as text: in configuration files, and in one line for flags and commands.
//!
//! The line is a name and settings, named as in configuration files: `mq quantum-us=20 requeue=tail`.
//! A setting within a table has a dot: `darc-lending darc.delta=3`.

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Value;

use crate::error::PolicyError;
use crate::policy::{Policy, Table};

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

impl FromStr for Policy {
    type Err = PolicyError;

    /// The policy of a name, with settings after it where they shall not be the default ones.
    fn from_str(line: &str) -> Result<Self, PolicyError> {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let mut policy = Self::named(name)?;
        let mut settings = words.peekable();
        if settings.peek().is_some() {
            let mut file = format!("name = \"{name}\"\n");
            for setting in settings {
                file.push_str(&as_toml(setting));
            }
            policy = toml::from_str(&file).map_err(|error| PolicyError::Spelling {
                line: line.to_owned(),
                reason: error.message().trim_end().to_owned(),
            })?;
        }
        Ok(policy)
    }
}

impl Policy {
    /// The policy with all its settings, as [`FromStr`] takes it.
    #[must_use]
    pub fn spelled(&self) -> String {
        let mut line = self.name().to_owned();
        if let Ok(mut settings) = toml::Table::try_from(self) {
            settings.remove("name");
            spell(&mut line, "", &settings);
        }
        line
    }
}

/// A line of a configuration file for `key=value`. Words that are no number and no truth value are
/// quoted.
fn as_toml(setting: &str) -> String {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let is_bare = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok();
    if is_bare {
        format!("{key} = {value}\n")
    } else {
        format!("{key} = {}\n", Value::from(value))
    }
}

fn spell(line: &mut String, prefix: &str, settings: &toml::Table) {
    for (key, value) in settings {
        match value {
            Value::Table(inner) => spell(line, &format!("{prefix}{key}."), inner),
            Value::String(word) => line.push_str(&format!(" {prefix}{key}={word}")),
            value => line.push_str(&format!(" {prefix}{key}={value}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Darc, DarcLending, Mq, Requeue};

    fn refusal(line: &str) -> String {
        line.parse::<Policy>().unwrap_err().to_string()
    }

    #[test]
    fn settings_follow_the_name() {
        let mq = Mq::default().quantum_us(20).requeue(Requeue::Tail);
        assert_eq!("mq quantum-us=20 requeue=tail".parse(), Ok(Policy::from(mq)));
        let lending = DarcLending::default().darc(Darc::default().delta(3.0).stealing(false));
        let line = "  darc-lending  darc.delta=3.0 darc.stealing=false ";
        assert_eq!(line.parse(), Ok(Policy::from(lending)));
    }

    #[test]
    fn what_is_spelled_reads_back() {
        for name in Policy::NAMES {
            let policy: Policy = name.parse().unwrap();
            let spelled = policy.spelled();
            assert!(spelled.starts_with(name), "{spelled}");
            assert_eq!(spelled.parse(), Ok(policy), "{spelled}");
        }
        let mq = Policy::mq().quantum_us(0.5);
        assert!(mq.spelled().contains(" quantum-us=0.5"), "{}", mq.spelled());
        assert_eq!(Policy::c_fcfs().spelled(), "c-fcfs");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(refusal("").contains("no policy is called ``"));
        assert!(refusal("mqq quantum-us=3").contains("`mqq`; there are d-fcfs"));
        let message = refusal("mq quantum=3");
        assert!(message.contains("`mq quantum=3`") && message.contains("quantum-us"), "{message}");
        for line in [
            "mq quantum-us",
            "mq quantum-us=x",
            "mq =3",
            "mq quantum-us=1 quantum-us=2",
            "c-fcfs quantum-us=3",
            "mq name=sq",
            "mq a]=1",
        ] {
            assert!(refusal(line).contains(&format!("`{line}`")), "{line}");
        }
    }
}
