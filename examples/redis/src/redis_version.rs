//! The version of Redis that clients are told.

/// The version whose commands and errors this server follows.
pub(crate) const REDIS_VERSION: &str = "7.4.1";
/// The same as a number: a byte each for its parts.
pub(crate) const REDIS_VERSION_NUMBER: u32 = 0x0007_0401;
