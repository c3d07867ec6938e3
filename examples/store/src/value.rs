//! What a key holds.

use crate::{Element, Hash, List, Set, SortedSet};

/// Elements of a collection from which on it is dropped by the reaper, not by who removed it.
const HEAVY_ELEMENTS_MIN: usize = 64;
/// Bytes of a string from which on it is dropped by the reaper. Freeing less never unmaps memory.
const HEAVY_BYTES_MIN: usize = 256 * 1024;

/// The value of a key. A clone is O(1) and shares everything with the original.
#[derive(Clone, Debug)]
pub enum Value {
    /// Bytes of any content.
    String(Element),
    /// A sequence.
    List(List),
    /// Fields with values.
    Hash(Hash),
    /// Unordered distinct members.
    Set(Set),
    /// Distinct members ordered by score.
    SortedSet(SortedSet),
}

impl Value {
    /// A string with a copy of `bytes`.
    #[must_use]
    pub fn string(bytes: &[u8]) -> Self {
        Self::String(Element::from(bytes))
    }

    /// The type's name as `TYPE` prints it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::SortedSet(_) => "zset",
        }
    }

    /// Number of elements; 1 for a string, however long.
    #[must_use]
    pub fn cardinality(&self) -> usize {
        match self {
            Self::String(_) => 1,
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
        }
    }

    /// Whether dropping the value takes long enough to leave it to the reaper.
    pub(crate) fn is_heavy(&self) -> bool {
        match self {
            Self::String(bytes) => bytes.len() >= HEAVY_BYTES_MIN,
            _ => self.cardinality() >= HEAVY_ELEMENTS_MIN,
        }
    }
}
