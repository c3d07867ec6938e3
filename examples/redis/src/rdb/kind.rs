//! The types of values in payloads, and what they say of their size.

use super::reader::{Malformed, Reader, string_len};

/// How a payload lays out a value: its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    /// A count, then as many strings.
    List,
    /// A count, then as many strings.
    Set,
    /// A count, then as many strings in pairs.
    Hash,
    /// A count, then as many strings, each with a binary score.
    SortedSet,
    /// A count, then as many strings, each with a score in digits. Redis wrote it before version 4.
    SortedSetOfDigits,
    /// A count, then as many strings in pairs, each behind its time. Those of [`FieldTimes::Relative`] have the first
    /// time before the count.
    HashWithTimes(FieldTimes),
    /// One string, in which each pair has its time behind it.
    HashListpackWithTimes(FieldTimes),
    /// One string: integers of one width.
    SetIntset,
    /// One string.
    SetListpack,
    /// One string.
    HashListpack,
    /// One string.
    SortedSetListpack,
    /// One string. Redis wrote it before version 3.2.
    ListZiplist,
    /// One string. Redis wrote it before version 7.
    HashZiplist,
    /// One string. Redis wrote it before version 7.
    SortedSetZiplist,
    /// A count, then as many strings. Redis wrote it before version 7.
    Quicklist,
    /// A count, then as many strings, each after the form of its node.
    QuicklistOfListpacks,
    /// Nodes of entries, then groups.
    Stream(StreamVersion),
}

/// What the forms of streams have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StreamVersion {
    /// Redis 5 and 6.
    First,
    /// Redis 7.0: first and removed IDs, counts of entries.
    Second,
    /// Redis 7.2: when consumers were active.
    Third,
}

/// How a hash has the times of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldTimes {
    /// Redis wrote it before 7.4 was released.
    Absolute,
    /// The first time stands before all, and a count tells how much later each is.
    Relative,
}

/// The first bytes. Types that are missing here cannot be restored: modules, and what Redis before version 2.6 wrote.
const BYTES: [(u8, Kind); 22] = [
    (0, Kind::String),
    (1, Kind::List),
    (2, Kind::Set),
    (3, Kind::SortedSetOfDigits),
    (4, Kind::Hash),
    (5, Kind::SortedSet),
    (10, Kind::ListZiplist),
    (11, Kind::SetIntset),
    (12, Kind::SortedSetZiplist),
    (13, Kind::HashZiplist),
    (14, Kind::Quicklist),
    (15, Kind::Stream(StreamVersion::First)),
    (16, Kind::HashListpack),
    (17, Kind::SortedSetListpack),
    (18, Kind::QuicklistOfListpacks),
    (19, Kind::Stream(StreamVersion::Second)),
    (20, Kind::SetListpack),
    (21, Kind::Stream(StreamVersion::Third)),
    (22, Kind::HashWithTimes(FieldTimes::Absolute)),
    (23, Kind::HashListpackWithTimes(FieldTimes::Absolute)),
    (24, Kind::HashWithTimes(FieldTimes::Relative)),
    (25, Kind::HashListpackWithTimes(FieldTimes::Relative)),
];

impl FieldTimes {
    /// Reads the time before all, and returns its length.
    fn skip_first(self, reader: &mut Reader<'_>) -> Result<usize, Malformed> {
        Ok(match self {
            Self::Absolute => 0,
            Self::Relative => reader.array::<{ size_of::<u64>() }>()?.len(),
        })
    }
}

/// Least bytes of an entry in a listpack, a ziplist or an intset.
const ENTRY_LEN_MIN: u64 = 2;

impl Kind {
    pub(crate) fn of(byte: u8) -> Option<Self> {
        let found = BYTES.iter().find(|(known, _)| *known == byte);
        found.map(|(_, kind)| *kind)
    }

    pub(crate) fn byte(self) -> u8 {
        let found = BYTES.iter().find(|(_, kind)| *kind == self);
        found.map_or(u8::MAX, |(byte, _)| *byte)
    }
}

/// The most elements that the value of a payload may have, and the most bytes of its longest string, judged by its
/// first bytes. A payload that cannot be restored has none.
pub(crate) fn elements_max(payload: &[u8]) -> (u64, u64) {
    judge(payload).unwrap_or((0, 0))
}

fn judge(payload: &[u8]) -> Result<(u64, u64), Malformed> {
    let mut reader = Reader::new(payload, &|| {});
    let Some(kind) = Kind::of(reader.byte()?) else {
        return Err(Malformed);
    };
    let len = payload.len() as u64;
    Ok(match kind {
        Kind::String => (1, string_len(&payload[1..])?.max(len)),
        // Strings may be compressed.
        Kind::List | Kind::Set | Kind::SortedSet | Kind::SortedSetOfDigits => {
            (reader.plain_length()?, compressed_max(len))
        }
        Kind::Hash => (reader.plain_length()?.saturating_mul(2), compressed_max(len)),
        Kind::HashWithTimes(times) => {
            times.skip_first(&mut reader)?;
            (reader.plain_length()?.saturating_mul(2), compressed_max(len))
        }
        Kind::HashListpackWithTimes(times) => {
            let skipped = times.skip_first(&mut reader)?;
            let len = string_len(&payload[1 + skipped..])?.max(len);
            (len / ENTRY_LEN_MIN, len)
        }
        Kind::Quicklist | Kind::QuicklistOfListpacks | Kind::Stream(_) => {
            (compressed_max(len) / ENTRY_LEN_MIN, compressed_max(len))
        }
        Kind::SetIntset
        | Kind::SetListpack
        | Kind::HashListpack
        | Kind::SortedSetListpack
        | Kind::ListZiplist
        | Kind::HashZiplist
        | Kind::SortedSetZiplist => {
            let len = string_len(&payload[1..])?.max(len);
            (len / ENTRY_LEN_MIN, len)
        }
    })
}

/// The most bytes that a payload of `len` bytes expands to.
const fn compressed_max(len: u64) -> u64 {
    /// A run of three bytes expands to so many.
    const RUN: u64 = 264;
    len.saturating_mul(RUN / 3)
}
