//! What a command says about a type, in place of what its workload says.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::workload::Workload;

/// What policies are told about the type of a name, in every workload that has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeHint {
    /// The type's name.
    pub name: String,
    /// Its target for the time from arrival to completion, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_us: Option<f64>,
    /// Its weight under weighted round robin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

impl TypeHint {
    /// An SLO in microseconds, which is kept to the nanosecond and at least one.
    pub fn slo_us(name: impl Into<String>, slo_us: f64) -> Self {
        Self { name: name.into(), slo_us: Some(slo_us), weight: None }
    }

    /// A weight, at least 1.
    pub fn weight(name: impl Into<String>, weight: u32) -> Self {
        Self { name: name.into(), slo_us: None, weight: Some(weight) }
    }

    /// Puts it into a workload. Returns whether that has such a type.
    pub fn apply(&self, workload: &mut Workload) -> bool {
        let Some(ty) = workload.types.iter_mut().find(|ty| ty.name == self.name) else {
            return false;
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float that is out of range becomes the nearest number"
        )]
        let slo_ns = self.slo_us.map(|us| ((us * 1e3).round() as u64).max(1));
        ty.slo_ns = slo_ns.or(ty.slo_ns);
        ty.weight = self.weight.or(ty.weight);
        true
    }
}

/// As an option takes it: `short=12.5`.
impl fmt::Display for TypeHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, .. } = self;
        if let Some(slo_us) = self.slo_us {
            write!(f, "slo-us {name}={slo_us}")?;
        }
        if let Some(weight) = self.weight {
            write!(f, "weight {name}={weight}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_replace_what_the_workload_says_of_that_type_alone() {
        let mut workload = Workload::named("high-bimodal").unwrap();
        assert!(TypeHint::slo_us("short", 1.25).apply(&mut workload));
        assert!(TypeHint::weight("short", 3).apply(&mut workload));
        assert!(!TypeHint::weight("medium", 3).apply(&mut workload));
        let [short, long] = &workload.types[..] else {
            panic!("two types");
        };
        assert_eq!((short.slo_ns, short.weight), (Some(1_250), Some(3)));
        assert_eq!((long.slo_ns, long.weight), (None, None));
    }
}
