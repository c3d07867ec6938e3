//! Placeholder.

use serde::{Deserialize, Serialize};

/// Configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Password that clients must give.
    pub requirepass: Option<String>,
    /// Limits.
    pub limits: Limits,
}

/// Limits on what clients may send.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Longest argument and longest string value, in bytes.
    pub proto_max_bulk_len: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { proto_max_bulk_len: 512 << 20 }
    }
}
