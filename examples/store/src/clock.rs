//! Wall-clock time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, the unit of expiry.
#[must_use]
pub fn unix_time_ms() -> u64 {
    unix_time_us() / 1000
}

/// Microseconds since the Unix epoch.
#[must_use]
pub fn unix_time_us() -> u64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}
