//! A quantum that is set, or that the machine decides.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::units::nanoseconds;
use crate::setup::Preemption;

/// In configuration files and in [`spelled`](crate::Policy::spelled).
const AUTO: &str = "auto";

/// How long a request keeps its worker while others wait. In a configuration file it is a number of microseconds, or
/// `"auto"`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Quantum {
    /// The policy's own, or the [shortest that is worth its cost](Preemption::quantum_ns_min) if that is longer.
    Auto,
    /// So many microseconds, at least 0.001.
    Us(f64),
}

impl Quantum {
    /// In nanoseconds, at least 1, where the policy's own quantum is `own_us` and requests yield by `preemption`.
    #[must_use]
    pub fn ns(self, own_us: f64, preemption: Option<Preemption>) -> u64 {
        match self {
            Self::Auto => {
                let least_ns = preemption.map_or(0, |preemption| preemption.quantum_ns_min);
                nanoseconds(own_us).max(least_ns)
            }
            Self::Us(quantum_us) => nanoseconds(quantum_us),
        }
    }

    /// The number that was set.
    pub(super) const fn us(self) -> Option<f64> {
        match self {
            Self::Auto => None,
            Self::Us(quantum_us) => Some(quantum_us),
        }
    }
}

impl Serialize for Quantum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(AUTO),
            Self::Us(quantum_us) => serializer.serialize_f64(*quantum_us),
        }
    }
}

impl<'de> Deserialize<'de> for Quantum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrAuto;

        impl Visitor<'_> for NumberOrAuto {
            type Value = Quantum;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a number of microseconds, or `{AUTO}`")
            }

            fn visit_f64<E: Error>(self, quantum_us: f64) -> Result<Quantum, E> {
                Ok(Quantum::Us(quantum_us))
            }

            fn visit_i64<E: Error>(self, quantum_us: i64) -> Result<Quantum, E> {
                Ok(Quantum::Us(quantum_us as f64))
            }

            fn visit_u64<E: Error>(self, quantum_us: u64) -> Result<Quantum, E> {
                Ok(Quantum::Us(quantum_us as f64))
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Quantum, E> {
                if word == AUTO {
                    Ok(Quantum::Auto)
                } else {
                    Err(E::invalid_value(serde::de::Unexpected::Str(word), &self))
                }
            }
        }

        deserializer.deserialize_any(NumberOrAuto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mq, Policy};

    #[test]
    fn a_quantum_that_is_set_holds_and_any_other_is_worth_its_cost() {
        let machine = Some(Preemption::new(1_000).quantum_ns_min(20_000));
        for (quantum, preemption, expected_ns) in [
            (Quantum::Auto, None, 5_000),
            (Quantum::Auto, Some(Preemption::new(1_000)), 5_000),
            (Quantum::Auto, machine, 20_000),
            (Quantum::Us(7.0), machine, 7_000),
            (Quantum::Us(7.0), None, 7_000),
        ] {
            assert_eq!(quantum.ns(5.0, preemption), expected_ns, "{quantum:?}");
        }
        assert_eq!(Quantum::Auto.ns(30.0, machine), 30_000);
    }

    #[test]
    fn it_is_spelled_as_a_number_or_a_word() {
        for (line, quantum) in [
            ("mq", Quantum::Auto),
            ("mq quantum-us=auto", Quantum::Auto),
            ("mq quantum-us=7", Quantum::Us(7.0)),
            ("mq quantum-us=0.5", Quantum::Us(0.5)),
        ] {
            let policy: Policy = line.parse().unwrap();
            let mq = Mq { quantum_us: quantum, ..Mq::default() };
            assert_eq!(policy, mq.into(), "{line}");
            assert_eq!(policy.spelled().parse(), Ok(policy), "{line}");
        }
        let refused = "mq quantum-us=soon".parse::<Policy>().unwrap_err();
        assert!(refused.to_string().contains("or `auto`"), "{refused}");
    }
}
