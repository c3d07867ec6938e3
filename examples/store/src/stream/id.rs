//! The IDs of a stream's entries.

use std::fmt;

/// The ID of an entry: Unix time in milliseconds, and a number among the entries of one millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since the Unix epoch, if the server chose the ID.
    pub ms: u64,
    /// The number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The lowest ID, which no entry has.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The highest ID.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The ID right above this one.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// The ID right below this one.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_carry_into_the_milliseconds() {
        let id = |ms, seq| StreamId { ms, seq };
        for (lower, upper) in [(id(0, 0), id(0, 1)), (id(5, 7), id(5, 8)), (id(5, u64::MAX), id(6, 0))] {
            assert_eq!(lower.next(), Some(upper));
            assert_eq!(upper.previous(), Some(lower));
            assert!(lower < upper);
        }
        assert_eq!(StreamId::MIN.previous(), None);
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(id(1, 2).to_string(), "1-2");
    }
}
