//! Which form Redis would keep a collection in: packed while it is small, and unpacked from then on.
//!
//! Clients ask for it (`OBJECT ENCODING`), and settings change the limits. A collection here is [packed](crate::packed)
//! up to limits of its own, which spare time. So it remembers what decides the answer: its longest element, and whether
//! it has ever exceeded a limit.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Element;

/// A limit up to which Redis packs collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackingLimit {
    /// Fields of a hash.
    HashEntries,
    /// Bytes of a field's name or value.
    HashBytes,
    /// Members of a set of integers. Other sets are never packed.
    SetEntries,
    /// Members of a sorted set.
    SortedSetEntries,
    /// Bytes of a sorted set's member.
    SortedSetBytes,
}

/// The limits of a keyspace.
#[derive(Debug)]
pub(crate) struct PackingLimits([AtomicU64; 5]);

impl Default for PackingLimits {
    /// Those of Redis 7.0.
    fn default() -> Self {
        Self([512, 64, 512, 128, 64].map(AtomicU64::new))
    }
}

impl PackingLimits {
    pub(crate) fn get(&self, limit: PackingLimit) -> u64 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, limit: PackingLimit, most: u64) {
        self.0[limit as usize].store(most, Ordering::Relaxed);
    }
}

/// What a collection remembers of its past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// Bytes of the longest element so far.
    longest: u32,
    /// An element was no integer.
    has_text: bool,
    is_unpacked: bool,
    /// An element had a time.
    is_timed: bool,
}

impl Form {
    /// The collection gets an element of `len` bytes.
    pub(crate) fn note_len(&mut self, len: usize) {
        self.longest = self.longest.max(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// The collection gets `member`, and stays packed only with integers.
    pub(crate) fn note_member(&mut self, member: &[u8]) {
        self.has_text = self.has_text || integer(member).is_none();
    }

    /// An element gets a time.
    pub(crate) fn note_time(&mut self) {
        self.is_timed = true;
    }

    /// Whether an element had a time.
    pub(crate) fn is_timed(self) -> bool {
        self.is_timed
    }

    /// The form of a new collection of these members.
    pub(crate) fn of_members<'e>(members: impl IntoIterator<Item = &'e Element>) -> Self {
        Self {
            has_text: members.into_iter().any(|member| integer(member).is_none()),
            ..Self::default()
        }
    }

    /// The form of a new collection with elements of these lengths.
    pub(crate) fn of_lens(lens: impl IntoIterator<Item = usize>) -> Self {
        let mut form = Self::default();
        lens.into_iter().for_each(|len| form.note_len(len));
        form
    }

    /// Unpacks the collection for good if its `len` elements exceed a limit.
    pub(crate) fn settle(&mut self, len: usize, entries_max: u64, bytes_max: u64) {
        let exceeds = len as u64 > entries_max || u64::from(self.longest) > bytes_max;
        self.is_unpacked = self.is_unpacked || self.has_text || exceeds;
    }

    /// Whether an element was no integer.
    pub(crate) fn has_text(self) -> bool {
        self.has_text
    }

    pub(crate) fn is_packed(self) -> bool {
        !self.is_unpacked
    }
}

/// The 64-bit integer that is printed with these digits.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    /// The longest integer.
    const LEN_MAX: usize = "-9223372036854775808".len();
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0'] => return (text.len() == 1).then_some(0),
        [b'1'..=b'9', ..] if text.len() <= LEN_MAX => {}
        _ => return None,
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_that_print_the_same() {
        for text in ["0", "7", "-1", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(integer(text.as_bytes()), text.parse().ok(), "{text}");
        }
        for text in ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1a", "9223372036854775808"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(integer(b"1\xff"), None);
    }

    #[test]
    fn a_form_changes_in_one_direction() {
        let mut form = Form::default();
        form.note_len(64);
        form.settle(128, 128, 64);
        assert!(form.is_packed());
        form.settle(129, 128, 64);
        form.settle(1, 128, 64);
        assert!(!form.is_packed());

        let mut form = Form::of_lens([1, 65, 2]);
        form.settle(3, 128, 64);
        assert!(!form.is_packed());
    }
}
