//! Settings of the policies that have any.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::PolicyError;

/// Settings of DARC. The defaults are the paper's where it gives one (Perséphone 4.3.3, 5).
///
/// In a configuration file the names have dashes, and `window_max` is `window-max-ms`, a whole
/// number of milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Darc {
    /// Types whose mean service time is at most this many times that of a group's shortest belong
    /// to the group. At least 1; 2 unless set.
    pub delta: f64,
    /// A request that waited longer than this many times its type's mean service time asks for
    /// another reservation. Above 0; 10 unless set.
    pub slowdown_trigger: f64,
    /// Another reservation is made only when some type's share of the CPU demand moved by more
    /// than this. 0 to 1; 0.1 unless set.
    pub demand_deviation: f64,
    /// Samples after which a profiling window closes. At least 1; 50 000 unless set.
    pub samples_min: u64,
    /// Age at which a window closes with fewer samples. Above 0; 2 s unless set.
    #[serde(rename = "window-max-ms", with = "millis")]
    pub window_max: Duration,
    /// Samples that a window needs to close by age; it waits for them. At least 1; 1000 unless
    /// set.
    pub window_max_samples_min: u64,
    /// Weight of a new window in the moving averages; 1 forgets all earlier ones. Above 0, at
    /// most 1; 0.75 unless set.
    pub ewma_weight: f64,
    /// Number of spillway workers, counted from the last. 1 up to the number of workers; 1 unless
    /// set.
    pub spillway: usize,
    /// Whether shorter groups may use idle workers of longer ones. On unless set.
    pub stealing: bool,
}

impl Default for Darc {
    fn default() -> Self {
        Self {
            delta: 2.0,
            slowdown_trigger: 10.0,
            demand_deviation: 0.1,
            samples_min: 50_000,
            window_max: Duration::from_secs(2),
            window_max_samples_min: 1_000,
            ewma_weight: 0.75,
            spillway: 1,
            stealing: true,
        }
    }
}

/// Writes a builder-style setter for each field.
macro_rules! setters {
    ($($field:ident: $type:ty),* $(,)?) => {
        $(
            #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        )*
    };
}

/// Writes the builder-style setter of `quantum_us`, which takes whole numbers too.
macro_rules! quantum_setter {
    () => {
        /// Sets [`quantum_us`](field@Self::quantum_us).
        #[must_use]
        pub fn quantum_us(mut self, quantum_us: impl Into<f64>) -> Self {
            self.quantum_us = quantum_us.into();
            self
        }
    };
}

/// Writes the builder-style setter of `spare_finishing`, which is one or the other once it is set.
macro_rules! spare_finishing_setter {
    () => {
        /// Sets [`spare_finishing`](field@Self::spare_finishing).
        #[must_use]
        pub fn spare_finishing(mut self, spare_finishing: bool) -> Self {
            self.spare_finishing = Some(spare_finishing);
            self
        }
    };
}

mod cscq;
mod darc_lending;
mod drr;
mod edf;
mod own_queues;
mod static_partition;
mod synergy;
mod time_sharing;

pub use cscq::Cscq;
pub use darc_lending::DarcLending;
pub use drr::Drr;
pub use edf::Edf;
pub use own_queues::{Jbsq, Jsq, JsqTies};
pub use static_partition::StaticPartition;
pub use synergy::Synergy;
pub use time_sharing::{Mq, Requeue, Sq};

impl Darc {
    setters! {
        delta: f64,
        slowdown_trigger: f64,
        demand_deviation: f64,
        samples_min: u64,
        window_max: Duration,
        window_max_samples_min: u64,
        ewma_weight: f64,
        spillway: usize,
        stealing: bool,
    }

    pub(super) fn validate(&self, workers: usize) -> Result<(), PolicyError> {
        check(
            "darc",
            [
                delta(self.delta),
                Setting::new(
                    "slowdown-trigger",
                    self.slowdown_trigger,
                    self.slowdown_trigger.is_finite() && self.slowdown_trigger > 0.0,
                    "a finite number above 0",
                ),
                Setting::new(
                    "demand-deviation",
                    self.demand_deviation,
                    (0.0..=1.0).contains(&self.demand_deviation),
                    "a number from 0 to 1",
                ),
                samples("samples-min", self.samples_min),
                Setting::new(
                    "window-max-ms",
                    self.window_max.as_millis(),
                    self.window_max.as_millis() > 0,
                    "at least 1",
                ),
                samples("window-max-samples-min", self.window_max_samples_min),
                Setting::new(
                    "ewma-weight",
                    self.ewma_weight,
                    self.ewma_weight > 0.0 && self.ewma_weight <= 1.0,
                    "a number above 0 and at most 1",
                ),
                Setting::new(
                    "spillway",
                    self.spillway,
                    (1..=workers).contains(&self.spillway),
                    format!("from 1 to the number of workers, {workers}"),
                ),
            ],
        )
    }
}

/// Settings of DARC-static.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DarcStatic {
    /// Workers reserved for the shortest group. Fewer than there are workers; 1 unless set.
    pub reserved: usize,
    /// As in [`Darc::delta`].
    pub delta: f64,
}

impl Default for DarcStatic {
    fn default() -> Self {
        Self {
            reserved: 1,
            delta: Darc::default().delta,
        }
    }
}

impl DarcStatic {
    setters! {
        reserved: usize,
        delta: f64,
    }

    pub(super) fn validate(&self, workers: usize) -> Result<(), PolicyError> {
        check(
            "darc-static",
            [
                Setting::new(
                    "reserved",
                    self.reserved,
                    self.reserved < workers,
                    format!(
                        "less than the number of workers, {workers}, or longer types never run"
                    ),
                ),
                delta(self.delta),
            ],
        )
    }
}

/// One setting and whether its value makes sense.
struct Setting {
    name: &'static str,
    value: String,
    valid: bool,
    expected: String,
}

impl Setting {
    fn new(
        name: &'static str,
        value: impl ToString,
        valid: bool,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            name,
            value: value.to_string(),
            valid,
            expected: expected.into(),
        }
    }
}

fn delta(delta: f64) -> Setting {
    let valid = delta.is_finite() && delta >= 1.0;
    Setting::new("delta", delta, valid, "a finite number of at least 1")
}

fn samples(name: &'static str, samples: u64) -> Setting {
    Setting::new(name, samples, samples > 0, "at least 1")
}

/// A quantum that is at least one nanosecond long.
fn quantum_us(quantum_us: f64) -> Setting {
    let valid = quantum_us.is_finite() && quantum_us >= 0.001;
    Setting::new("quantum-us", quantum_us, valid, "at least 0.001")
}

/// A setting in microseconds as schedulers count; at least 1.
pub(super) fn nanoseconds(micros: f64) -> u64 {
    ((micros * 1000.0).round() as u64).max(1)
}

fn check(
    policy: &'static str,
    settings: impl IntoIterator<Item = Setting>,
) -> Result<(), PolicyError> {
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

/// Durations as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
