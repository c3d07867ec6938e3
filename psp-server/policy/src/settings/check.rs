//! Checks of settings. The error names the first setting that is out of its range.

use std::time::Duration;

use super::quantum::Quantum;
use crate::error::PolicyError;

/// One setting and whether its value makes sense.
pub(super) struct Setting {
    name: &'static str,
    value: String,
    valid: bool,
    expected: String,
}

impl Setting {
    pub(super) fn new(name: &'static str, value: impl ToString, valid: bool, expected: impl Into<String>) -> Self {
        Self {
            name,
            value: value.to_string(),
            valid,
            expected: expected.into(),
        }
    }
}

pub(super) fn delta(delta: f64) -> Setting {
    at_least("delta", delta, 1.0)
}

pub(super) fn samples(name: &'static str, samples: u64) -> Setting {
    Setting::new(name, samples, samples > 0, "at least 1")
}

/// A duration of at least one millisecond.
pub(super) fn millis(name: &'static str, duration: Duration) -> Setting {
    let millis = duration.as_millis();
    Setting::new(name, millis, millis > 0, "at least 1")
}

/// A quantum that is at least one nanosecond long.
pub(super) fn quantum_us(quantum_us: f64) -> Setting {
    let valid = quantum_us.is_finite() && quantum_us >= 0.001;
    Setting::new("quantum-us", quantum_us, valid, "at least 0.001")
}

/// A quantum that is, if it is set, at least one nanosecond long.
pub(super) fn quantum(quantum: Quantum) -> Setting {
    quantum_us(quantum.us().unwrap_or(f64::MAX))
}

/// A slowdown that types without an SLO shall not exceed.
pub(super) fn slo_slowdown(slo_slowdown: f64) -> Setting {
    let valid = slo_slowdown.is_finite() && slo_slowdown > 1.0;
    Setting::new("slo-slowdown", slo_slowdown, valid, "a finite number above 1")
}

/// A setting that is a finite number above 0.
pub(super) fn above_0(name: &'static str, value: f64) -> Setting {
    let valid = value.is_finite() && value > 0.0;
    Setting::new(name, value, valid, "a finite number above 0")
}

/// A setting that is a finite number of at least `least`.
pub(super) fn at_least(name: &'static str, value: f64, least: f64) -> Setting {
    let valid = value.is_finite() && value >= least;
    let expected = format!("a finite number of at least {least}");
    Setting::new(name, value, valid, expected)
}

/// The first of `settings` that is out of its range, as an error.
pub(super) fn check(policy: &'static str, settings: impl IntoIterator<Item = Setting>) -> Result<(), PolicyError> {
    match settings.into_iter().find(|setting| !setting.valid) {
        None => Ok(()),
        Some(setting) => Err(PolicyError::Setting {
            policy,
            setting: setting.name,
            value: setting.value,
            expected: setting.expected,
        }),
    }
}
