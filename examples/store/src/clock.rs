//! Wall-clock time.

use std::cell::OnceCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// The instant of an operation: by this one it decides of all its keys whether they have expired. The clock is read
/// when the instant is first asked for.
#[derive(Debug, Default)]
pub struct Now(OnceCell<u64>);

impl Now {
    pub(crate) fn at(unix_ms: u64) -> Self {
        Self(unix_ms.into())
    }

    /// Milliseconds since the Unix epoch.
    pub fn ms(&self) -> u64 {
        *self.0.get_or_init(unix_time_ms)
    }
}

/// Milliseconds since the Unix epoch, the unit of expiry.
#[must_use]
pub fn unix_time_ms() -> u64 {
    unix_time_us() / 1000
}

/// Microseconds since the Unix epoch.
#[must_use]
pub fn unix_time_us() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}
