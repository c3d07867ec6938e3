//! Settings in units other than nanoseconds.

use std::time::Duration;

/// A setting in microseconds as schedulers count; at least 1.
pub(crate) fn nanoseconds(micros: f64) -> u64 {
    ((micros * 1000.0).round() as u64).max(1)
}

/// A duration that configuration files give in whole milliseconds.
pub(super) mod millis {
    use super::Duration;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::settings) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(in crate::settings) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
