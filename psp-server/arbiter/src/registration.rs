//! What a server says of itself when it registers.

use serde::{Deserialize, Serialize};

use crate::limits::{NAME_BYTES_MAX, THREADS_PER_SERVER_MAX};

/// How important a server is: one of eight levels, of which 0 is the highest. Servers of a level share what higher
/// levels leave (Arachne, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// How many levels there are.
    pub const LEVELS: usize = 8;
    /// The highest level.
    pub const HIGHEST: Self = Self(0);
    /// The lowest level.
    pub const LOWEST: Self = Self(Self::LEVELS as u8 - 1);

    /// The level, from 0 (highest) to 7.
    #[must_use]
    pub fn new(level: u8) -> Option<Self> {
        (usize::from(level) < Self::LEVELS).then_some(Self(level))
    }

    /// Its level.
    #[must_use]
    pub fn level(self) -> u8 {
        self.0
    }

    /// All levels, the highest first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::LEVELS as u8).map(Self)
    }
}

impl TryFrom<u8> for Priority {
    type Error = RegistrationError;

    fn try_from(level: u8) -> Result<Self, RegistrationError> {
        Self::new(level).ok_or(RegistrationError::Priority)
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

/// What a server says of itself when it registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Its name, for people: 1 to 32 bytes.
    pub name: String,
    /// How important it is.
    pub priority: Priority,
    /// Cores that servers of higher levels leave to it, as long as there are enough for all such claims.
    pub cores_min: usize,
    /// Cores that it can use at most, from 1 to 256.
    pub cores_max: usize,
}

/// Why a registration is wrong in itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The name has no bytes, more than 32, or a NUL.
    #[error("a server's name has 1 to 32 bytes, none of them NUL")]
    Name,
    /// The priority is no level.
    #[error("a priority is from 0 (highest) to 7")]
    Priority,
    /// The numbers of cores are out of range.
    #[error("a server has 1 to 256 cores at most, and at least no more than these")]
    Cores,
}

impl Registration {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names what is out of range.
    pub fn validate(&self) -> Result<(), RegistrationError> {
        let name = 1..=NAME_BYTES_MAX;
        if !name.contains(&self.name.len()) || self.name.contains('\0') {
            return Err(RegistrationError::Name);
        }
        let cores = 1..=THREADS_PER_SERVER_MAX;
        if !cores.contains(&self.cores_max) || self.cores_min > self.cores_max {
            return Err(RegistrationError::Cores);
        }
        Ok(())
    }
}
