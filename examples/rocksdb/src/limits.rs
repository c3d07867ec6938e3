//! Limits on requests.

use anyhow::ensure;
use psp_protocols::rpc::{Failure, Rpc};
use serde::{Deserialize, Serialize};

/// Room for the rest of a message beside key and value: id, method, deadline, lengths.
const ENVELOPE_LEN_MAX: usize = 1024;
/// Valid limits of the length of keys and values, in bytes.
const LEN_RANGE: std::ops::RangeInclusive<usize> = 1..=64 << 20;

/// Limits on keys, values and scans. A request beyond a limit gets the status `INVALID_ARGUMENT`. A
/// message longer than any within the limits closes the connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Longest key in bytes; 1024 by default.
    pub key_len_max: usize,
    /// Longest value in bytes; 1 MiB by default.
    pub value_len_max: usize,
    /// Most entries of a scan; 100 000 by default.
    pub scan_count_max: u32,
    /// Most bytes of the entries in a response; 4 MiB by default. A scan omits entries beyond it, except
    /// its first entry, and the response says so.
    pub scan_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            key_len_max: 1024,
            value_len_max: 1 << 20,
            scan_count_max: 100_000,
            scan_bytes_max: 4 << 20,
        }
    }
}

impl Limits {
    /// Rejects limits that allow no request, or more than a message can contain.
    ///
    /// # Errors
    /// A limit is out of range. The error names it.
    pub fn validate(&self) -> anyhow::Result<()> {
        for (name, bytes) in [("key_len_max", self.key_len_max), ("value_len_max", self.value_len_max)] {
            let (least, most) = (LEN_RANGE.start(), LEN_RANGE.end());
            ensure!(LEN_RANGE.contains(&bytes), "limits.{name} must be between {least} and {most}");
        }
        ensure!(self.scan_count_max > 0, "limits.scan_count_max must be at least 1");
        Ok(())
    }

    /// The framing that accepts every message within these limits.
    #[must_use]
    pub fn framing(&self) -> Rpc {
        let len_max = self.key_len_max + self.value_len_max + ENVELOPE_LEN_MAX;
        Rpc::default().message_len_max(u32::try_from(len_max).unwrap_or(u32::MAX))
    }

    /// Rejects an empty key and a key that is too long.
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), Failure> {
        if key.is_empty() {
            return Err(Failure::invalid("the key is empty"));
        }
        self.check_start(key)
    }

    /// Rejects the start of a scan if it is longer than any key.
    pub(crate) fn check_start(&self, start: &[u8]) -> Result<(), Failure> {
        at_most("the key", start.len(), self.key_len_max, "bytes")
    }

    pub(crate) fn check_value(&self, value: &[u8]) -> Result<(), Failure> {
        at_most("the value", value.len(), self.value_len_max, "bytes")
    }

    pub(crate) fn check_count(&self, count: u32) -> Result<(), Failure> {
        if count == 0 {
            return Err(Failure::invalid("the count of a scan must be at least 1"));
        }
        let (count, count_max) = (count as usize, self.scan_count_max as usize);
        at_most("the scan", count, count_max, "entries")
    }
}

fn at_most(what: &str, number: usize, most: usize, unit: &str) -> Result<(), Failure> {
    if number <= most {
        return Ok(());
    }
    Err(Failure::invalid(format!("{what} has {number} {unit}, at most {most} are allowed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_message_within_the_limits_is_accepted() {
        let limits = Limits { key_len_max: 10, value_len_max: 100, ..Limits::default() };
        assert_eq!(limits.framing().message_len_max, 1134);
        assert!(limits.check_key(&[b'k'; 10]).is_ok() && limits.check_value(&[0; 100]).is_ok());
        let refused = limits.check_key(&[b'k'; 11]).unwrap_err();
        assert!(refused.error.contains("11 bytes, at most 10"), "{refused}");
        assert!(limits.check_start(b"").is_ok() && limits.check_key(b"").is_err());
    }

    #[test]
    fn limits_that_allow_no_request_are_refused() {
        let nothing = |set: fn(&mut Limits)| {
            let mut limits = Limits::default();
            set(&mut limits);
            limits.validate().is_err()
        };
        assert!(nothing(|limits| limits.key_len_max = 0));
        assert!(nothing(|limits| limits.value_len_max = usize::MAX));
        assert!(nothing(|limits| limits.scan_count_max = 0));
        assert!(Limits::default().validate().is_ok());
    }
}
