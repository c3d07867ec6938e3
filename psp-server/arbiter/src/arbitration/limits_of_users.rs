//! What the servers of a user may have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::registration::Priority;

/// What the servers of a user may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct UserLimits {
    /// Cores of all its servers together; unlimited by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores_max: Option<usize>,
    /// The highest level that its servers may use; 0, the highest of all, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_highest: Option<Priority>,
}

/// The limits of all users. Root has none, unless it is named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Of users that are not named.
    pub default: UserLimits,
    /// Of users by their numbers.
    pub users: BTreeMap<u32, UserLimits>,
}

impl Limits {
    fn of(&self, user: u32) -> UserLimits {
        match self.users.get(&user) {
            Some(limits) => *limits,
            None if user == 0 => UserLimits::default(),
            None => self.default,
        }
    }

    pub(super) fn cores(&self, user: u32) -> usize {
        self.of(user).cores_max.unwrap_or(usize::MAX)
    }

    pub(super) fn allow(&self, user: u32, priority: Priority) -> bool {
        let highest = self.of(user).priority_highest;
        priority >= highest.unwrap_or(Priority::HIGHEST)
    }
}
