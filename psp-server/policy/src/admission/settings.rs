//! The settings of admission.

use thiserror::Error;

/// What admission goes by. An SLO is the only one that most servers set.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct AdmissionSettings {
    /// The SLO of types that are registered without one, in multiples of their mean service time: at least 2, or 0 for
    /// none.
    pub slo_slowdown: f64,
    /// The percentile of a type's requests that shall keep the SLO: from 50 to 99.99.
    pub slo_percentile: f64,
    /// How long requests of a type without an SLO may wait while the type is over its entitlement, in microseconds.
    /// More than 0.
    pub target_us: f64,
    /// The most that one tenant may have of all workers' time while others want it: above 0 and at most 1.
    pub tenant_share_max: f64,
    /// Requests that can be in the system at once; memory is set aside for them. From 1 to 2^24.
    pub requests_max: usize,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            slo_slowdown: 0.0,
            slo_percentile: 99.0,
            target_us: 5_000.0,
            tenant_share_max: 1.0,
            requests_max: 1 << 14,
        }
    }
}

/// A setting that is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("{setting} is {value}, and must be {range}")]
pub struct AdmissionSettingsError {
    setting: &'static str,
    value: f64,
    range: &'static str,
}

impl AdmissionSettings {
    crate::setters! {
        slo_slowdown: f64,
        slo_percentile: f64,
        target_us: f64,
        tenant_share_max: f64,
        requests_max: usize,
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// For the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), AdmissionSettingsError> {
        let slowdown = self.slo_slowdown;
        let checks = [
            (
                "slo_slowdown",
                slowdown,
                slowdown == 0.0 || (2.0..=1e9).contains(&slowdown),
                "0, or from 2 to a billion",
            ),
            (
                "slo_percentile",
                self.slo_percentile,
                (50.0..=99.99).contains(&self.slo_percentile),
                "from 50 to 99.99",
            ),
            (
                "target_us",
                self.target_us,
                self.target_us > 0.0 && self.target_us <= 1e12,
                "above 0, and below a fortnight",
            ),
            (
                "tenant_share_max",
                self.tenant_share_max,
                self.tenant_share_max > 0.0 && self.tenant_share_max <= 1.0,
                "above 0, and at most 1",
            ),
            (
                "requests_max",
                self.requests_max as f64,
                (1..=1 << 24).contains(&self.requests_max),
                "from 1 to 2^24",
            ),
        ];
        let wrong = checks.into_iter().find(|(_, _, valid, _)| !valid);
        wrong.map_or(Ok(()), |(setting, value, _, range)| Err(AdmissionSettingsError { setting, value, range }))
    }
}
