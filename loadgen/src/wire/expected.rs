//! The expected replies of a request.

use psp_protocols::skip::Outcome;

/// The expected replies of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Number of replies, at least 1.
    pub(crate) replies: u32,
    /// What each reply tells about keys.
    pub(crate) lookup: Lookup,
}

/// What a reply tells about keys that were looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Nothing.
    None,
    /// Whether the key was found: one hit or one miss.
    Reply,
    /// How many of this number of keys were found.
    Keys(u64),
}

impl Expected {
    /// One reply.
    pub(super) const fn one(lookup: Lookup) -> Self {
        Self { replies: 1, lookup }
    }
}

impl Lookup {
    pub(super) const fn keys(count: usize) -> Self {
        Self::Keys(count as u64)
    }

    /// Hits and misses of a reply with this outcome.
    pub(crate) fn hits_and_misses(self, outcome: Outcome) -> (u64, u64) {
        match (self, outcome) {
            (Self::Reply, Outcome::Hit { .. }) => (1, 0),
            (Self::Reply, Outcome::Miss) => (0, 1),
            (Self::Keys(keys), Outcome::Done) => (keys, 0),
            (Self::Keys(keys), Outcome::Hit { values }) => {
                let hits = values.min(keys);
                (hits, keys - hits)
            }
            (Self::Keys(keys), Outcome::Miss) => (0, keys),
            (Self::None, _)
            | (Self::Reply, Outcome::Done)
            | (_, Outcome::NotStored | Outcome::Error | Outcome::Busy) => (0, 0),
        }
    }
}
