//! Settings of DARC.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{Setting, above_0, check, delta, millis, samples};
use crate::settings::units;

/// Settings of DARC. The defaults are the paper's where it gives one (Perséphone 4.3.3, 5).
///
/// In a configuration file the names have dashes, `window_max` is `window-max-ms`, and `first_window_max` is
/// `first-window-max-ms`; both are whole numbers of milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Darc {
    /// Types whose mean service time is at most this many times that of a group's shortest belong
    /// to the group. At least 1; 2 unless set.
    pub delta: f64,
    /// A new reservation needs a request that waited longer than this many times its type's mean
    /// service time. Above 0; 10 unless set.
    pub slowdown_trigger: f64,
    /// A new reservation needs a type whose share of the CPU demand moved by more than this. 0 to 1; 0.1 unless set.
    pub demand_deviation: f64,
    /// Samples after which a profiling window closes. At least 1; 50 000 unless set.
    pub samples_min: u64,
    /// Age at which a window closes with fewer samples. Above 0; 2 s unless set.
    #[serde(rename = "window-max-ms", with = "units::millis")]
    pub window_max: Duration,
    /// Samples that a window needs to close by age; it waits for them. At least 1; 1000 unless
    /// set.
    pub window_max_samples_min: u64,
    /// Samples of types without a hint after which DARC looks into a window before it closes, and
    /// reserves workers provisionally; again at twice as many, and so on. At least 1; 32 unless set.
    pub first_samples_min: u64,
    /// Age from which DARC looks into a window at once when a type whose length it does not know has a
    /// sample. Above 0; 100 ms unless set.
    #[serde(rename = "first-window-max-ms", with = "units::millis")]
    pub first_window_max: Duration,
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
            first_samples_min: 32,
            first_window_max: Duration::from_millis(100),
            ewma_weight: 0.75,
            spillway: 1,
            stealing: true,
        }
    }
}

impl Darc {
    setters! {
        delta: f64,
        slowdown_trigger: f64,
        demand_deviation: f64,
        samples_min: u64,
        window_max: Duration,
        window_max_samples_min: u64,
        first_samples_min: u64,
        first_window_max: Duration,
        ewma_weight: f64,
        spillway: usize,
        stealing: bool,
    }

    pub(crate) fn validate(&self, workers: usize) -> Result<(), PolicyError> {
        check(
            "darc",
            [
                delta(self.delta),
                above_0("slowdown-trigger", self.slowdown_trigger),
                Setting::new(
                    "demand-deviation",
                    self.demand_deviation,
                    (0.0..=1.0).contains(&self.demand_deviation),
                    "a number from 0 to 1",
                ),
                samples("samples-min", self.samples_min),
                millis("window-max-ms", self.window_max),
                samples("window-max-samples-min", self.window_max_samples_min),
                samples("first-samples-min", self.first_samples_min),
                millis("first-window-max-ms", self.first_window_max),
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
