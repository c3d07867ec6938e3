//! Expiry times in arguments.

use psp_store::Now;

use crate::error::CommandError;
use crate::parse::{self, Result};

/// The form of an expiry time: its unit, and whether it counts from now or from the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeForm {
    /// Milliseconds of one unit.
    pub unit_ms: i64,
    /// Counts from now.
    pub relative: bool,
}

/// The options of SET and GETEX.
const OPTIONS: [(&str, TimeForm); 4] = [
    ("EX", TimeForm { unit_ms: 1000, relative: true }),
    ("PX", TimeForm { unit_ms: 1, relative: true }),
    ("EXAT", TimeForm { unit_ms: 1000, relative: false }),
    ("PXAT", TimeForm { unit_ms: 1, relative: false }),
];

impl TimeForm {
    /// The form that the option `arg` selects.
    #[must_use]
    pub fn of_option(arg: &[u8]) -> Option<Self> {
        OPTIONS.iter().find(|(name, _)| parse::is(arg, name)).map(|(_, form)| *form)
    }

    /// Converts `arg`, which may count from `now`, to milliseconds since the Unix epoch, possibly in the past. An error
    /// names `command`.
    ///
    /// # Errors
    /// [`CommandError::NotInteger`]; [`CommandError::InvalidExpire`] if it is out of range.
    pub fn any_deadline_ms(self, arg: &[u8], now: &Now, command: &'static str) -> Result<i64> {
        let base_ms = if self.relative {
            i64::try_from(now.ms()).unwrap_or(i64::MAX)
        } else {
            0
        };
        parse::integer(arg)?
            .checked_mul(self.unit_ms)
            .and_then(|time_ms| time_ms.checked_add(base_ms))
            .ok_or(CommandError::InvalidExpire(command.into()))
    }

    /// [`any_deadline_ms`](Self::any_deadline_ms) for commands that reject zero and negative
    /// numbers.
    ///
    /// # Errors
    /// [`CommandError::NotInteger`]; [`CommandError::InvalidExpire`] if it is out of range.
    pub fn deadline_ms(self, arg: &[u8], now: &Now, command: &'static str) -> Result<u64> {
        let deadline_ms = self.any_deadline_ms(arg, now, command)?;
        if parse::integer(arg)? <= 0 {
            return Err(CommandError::InvalidExpire(command.into()));
        }
        u64::try_from(deadline_ms).map_err(|_negative| CommandError::InvalidExpire(command.into()))
    }
}
