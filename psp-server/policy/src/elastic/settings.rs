//! The settings of the estimator.

use thiserror::Error;

/// When workers come and go. The defaults are Arachne's (section 6.2), but for
/// [`tail_factor`](field@Self::tail_factor), which Arachne does not have.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ElasticSettings {
    /// A worker comes when so many requests run and wait for each worker, on average over an interval. More than 0.
    pub load_factor: f64,
    /// A worker goes when the load has fallen by this part below the load at which it came: from 0 up to, but not
    /// including, 1.
    pub hysteresis: f64,
    /// How long an interval is, in milliseconds. At least 1.
    pub interval_ms: u64,
    /// A worker comes when more than one in a hundred requests of a type take longer than the 99th percentile of the
    /// type's service times, times this, because they wait. At least 1; 0 for the paper's rule alone.
    pub tail_factor: f64,
}

impl Default for ElasticSettings {
    fn default() -> Self {
        Self {
            load_factor: 1.5,
            hysteresis: 0.09,
            interval_ms: 50,
            tail_factor: 1.0,
        }
    }
}

/// A setting that is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("{setting} is {value}, and must be {range}")]
pub struct ElasticSettingsError {
    setting: &'static str,
    value: f64,
    range: &'static str,
}

impl ElasticSettingsError {
    /// Its name in configuration files, with underscores.
    #[must_use]
    pub const fn setting(&self) -> &'static str {
        self.setting
    }

    /// What it is.
    #[must_use]
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// What it must be.
    #[must_use]
    pub const fn range(&self) -> &'static str {
        self.range
    }
}

impl ElasticSettings {
    crate::setters! {
        load_factor: f64,
        hysteresis: f64,
        interval_ms: u64,
        tail_factor: f64,
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// For the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ElasticSettingsError> {
        let error = |setting, value, range| ElasticSettingsError { setting, value, range };
        if !(self.load_factor > 0.0 && self.load_factor.is_finite()) {
            Err(error("elastic_load_factor", self.load_factor, "more than 0"))
        } else if !(0.0..1.0).contains(&self.hysteresis) {
            Err(error("elastic_hysteresis", self.hysteresis, "from 0 to below 1"))
        } else if self.interval_ms == 0 {
            Err(error("elastic_interval_ms", 0.0, "at least 1"))
        } else if !(self.tail_factor == 0.0 || self.tail_factor >= 1.0 && self.tail_factor.is_finite()) {
            Err(error("elastic_tail_factor", self.tail_factor, "0, or at least 1"))
        } else {
            Ok(())
        }
    }

    pub(crate) const fn interval_ns(&self) -> u64 {
        self.interval_ms.saturating_mul(1_000_000)
    }
}
