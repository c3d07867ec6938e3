//! The name of a command as a small number.
//!
//! ```text
//!   name ─► 20 bytes in lower case ─► hash ─► slot of a table made by the compiler ─► CommandId
//! ```

/// The table of commands, whose lines [`Facts`](super::Facts) explains.
pub(super) const COMMANDS: &str = include_str!("commands.txt");

/// Names in lower case, without those of subcommands. Number `n` has the [`CommandId`] `n + 1`.
const NAMES: [&str; name_count()] = {
    let mut names = [""; name_count()];
    let (mut count, mut lines) = (0, COMMANDS.as_bytes());
    while let Some((name, rest)) = next_name(lines) {
        (names[count], lines) = (name, rest);
        count += 1;
    }
    names
};

const fn name_count() -> usize {
    let (mut count, mut lines) = (0, COMMANDS.as_bytes());
    while let Some((_, rest)) = next_name(lines) {
        lines = rest;
        count += 1;
    }
    count
}

/// The next name of a command in `lines`, and the lines behind it.
const fn next_name(mut lines: &'static [u8]) -> Option<(&'static str, &'static [u8])> {
    while !lines.is_empty() {
        let name = until(lines, b' ');
        lines = lines.split_at(until(lines, b'\n').len() + 1).1;
        if until(name, b'|').len() == name.len() && name[0] != b'#' {
            let Ok(name) = str::from_utf8(name) else {
                panic!("a name that is no text");
            };
            return Some((name, lines));
        }
    }
    None
}

/// `text` up to this byte, or all of it.
const fn until(text: &'static [u8], byte: u8) -> &'static [u8] {
    let mut len = 0;
    while len < text.len() && text[len] != byte {
        len += 1;
    }
    text.split_at(len).0
}

/// Longest name in the table, in bytes.
pub(super) const NAME_LEN_MAX: usize = 20;

/// The name of a command in any case, resolved once: an index for tables of commands.
///
/// ```
/// # use psp_protocols::resp::CommandId;
/// assert_eq!(CommandId::of(b"GET"), CommandId::of(b"get"));
/// assert_eq!(CommandId::of(b"get").name(), Some("get"));
/// assert_eq!(CommandId::of(b"nosuchcommand"), CommandId::UNKNOWN);
/// assert!(CommandId::of(b"get").index() < CommandId::COUNT);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(u16);

impl CommandId {
    /// A command that the table of names does not have.
    pub const UNKNOWN: Self = Self(0);

    /// How many ids there are, [`UNKNOWN`](Self::UNKNOWN) included.
    pub const COUNT: usize = NAMES.len() + 1;

    /// The id of `name`, in any case.
    #[inline]
    #[must_use]
    pub const fn of(name: &[u8]) -> Self {
        let Some(key) = Key::of(name) else {
            return Self::UNKNOWN;
        };
        let mut at = key.slot();
        loop {
            let slot = &SLOTS[at];
            if slot.key.is(&key) {
                return slot.id;
            }
            if slot.id.0 == Self::UNKNOWN.0 {
                return Self::UNKNOWN;
            }
            at = (at + 1) % SLOTS.len();
        }
    }

    /// Number of this id: 0 for [`UNKNOWN`](Self::UNKNOWN), and below [`COUNT`](Self::COUNT).
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The name in lower case; `None` for [`UNKNOWN`](Self::UNKNOWN).
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES.get(self.index().checked_sub(1)?).copied()
    }
}

/// A name in lower case: its bytes in three words, and its length. Different names have different keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    low: u64,
    high: u64,
    /// What lies between the other words of a name that is longer than both.
    middle: u32,
    len: usize,
}

impl Key {
    /// `None` for a name that is too long or too short for the table.
    #[inline]
    const fn of(name: &[u8]) -> Option<Self> {
        let len = name.len();
        if len > NAME_LEN_MAX {
            return None;
        }
        // The words overlap unless they are full; the length tells such names apart.
        let (low, high) = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => match (name.first_chunk(), name.last_chunk()) {
                (Some(first), Some(last)) => {
                    let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
                    (first as u64 | (last as u64) << 32, 0)
                }
                _ => match *name {
                    [a, b, c] => (a as u64 | (b as u64) << 8 | (c as u64) << 16, 0),
                    _ => return None,
                },
            },
        };
        let middle = if len > 2 * size_of::<u64>() {
            u32::from_le_bytes([name[8], name[9], name[10], name[11]])
        } else {
            0
        };
        Some(Self {
            low: to_lower(low),
            high: to_lower(high),
            middle: to_lower(middle as u64) as u32,
            len,
        })
    }

    #[inline]
    const fn is(&self, other: &Self) -> bool {
        self.low == other.low && self.high == other.high && self.middle == other.middle && self.len == other.len
    }

    /// Where the search for it begins.
    #[inline]
    const fn slot(&self) -> usize {
        let mixed = (self.low ^ self.high.rotate_left(29)).wrapping_mul(MULTIPLIER);
        (mixed >> (u64::BITS - SLOTS_LOG2)) as usize
    }
}

/// Eight ASCII letters in lower case at once; other bytes stay.
#[inline]
const fn to_lower(bytes: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    let low_bits = bytes & each(0x7f);
    // The highest bit of each byte: is it at least 'A', is it above 'Z', and is it ASCII?
    let from_a = low_bits + each(0x80 - b'A');
    let above_z = low_bits + each(0x7f - b'Z');
    let is_upper = (from_a ^ above_z) & !bytes & each(0x80);
    bytes | is_upper >> 2
}

/// Half of the slots are free, so that a search ends soon.
const SLOTS_LOG2: u32 = 9;

/// Of some tried, the one with which the longest search is short; a test holds it to that.
const MULTIPLIER: u64 = 0x8f18_3f45_a317_7d2f;

/// An entry of the hash table. A free one has the id [`CommandId::UNKNOWN`].
#[derive(Clone, Copy)]
struct Slot {
    key: Key,
    id: CommandId,
}

/// A hash table with linear probing.
static SLOTS: [Slot; 1 << SLOTS_LOG2] = slots();

const fn slots() -> [Slot; 1 << SLOTS_LOG2] {
    let free = Slot {
        key: Key { low: 0, high: 0, middle: 0, len: 0 },
        id: CommandId::UNKNOWN,
    };
    let mut slots = [free; 1 << SLOTS_LOG2];
    let mut index = 0;
    while index < NAMES.len() {
        let Some(key) = Key::of(NAMES[index].as_bytes()) else {
            panic!("a name that is too long or too short");
        };
        let mut at = key.slot();
        while slots[at].id.0 != CommandId::UNKNOWN.0 {
            at = (at + 1) % slots.len();
        }
        index += 1;
        slots[at] = Slot { key, id: CommandId(index as u16) };
    }
    slots
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for (index, name) in NAMES.iter().enumerate() {
            let id = CommandId::of(name.as_bytes());
            assert_eq!(id.index(), index + 1, "{name}");
            assert_eq!(id.name(), Some(*name));
            assert_eq!(CommandId::of(name.to_uppercase().as_bytes()), id);
        }
        assert_eq!(CommandId::UNKNOWN.name(), None);
        assert_eq!(CommandId::default(), CommandId::UNKNOWN);
    }

    #[test]
    fn searches_are_short() {
        let probes = |name: &str| {
            let start = Key::of(name.as_bytes()).expect("a name of the table").slot();
            let id = CommandId::of(name.as_bytes());
            let place = SLOTS.iter().position(|slot| slot.id == id);
            (place.expect("in the table") + SLOTS.len() - start) % SLOTS.len() + 1
        };
        let longest = NAMES.iter().map(|name| probes(name)).max();
        assert!(longest <= Some(PROBES_MAX), "{longest:?}");
        for name in ["get", "set", "mget", "hget", "ping", "incr", "del"] {
            assert_eq!(probes(name), 1, "{name}");
        }
    }

    const PROBES_MAX: usize = 4;

    #[test]
    fn names_that_nearly_are_commands_are_unknown() {
        for name in [
            &b""[..],
            b"ge",
            b"gett",
            b"get\0",
            b"g\xe5t",
            b"GE\x14",
            b"zrangebyscor",
            b"sort\x7fro",
            b"zremrangebyscores",
            b"georadiusxymember",
            b"georadiusbymemberr",
            b"georadiusbyNember_ro",
            b"{get",
            b"@uth",
        ] {
            assert_eq!(CommandId::of(name), CommandId::UNKNOWN, "{}", name.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_name_is_found_if_and_only_if_the_table_has_it(
            name in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..24),
                "[a-zA-Z_-]{1,5}".prop_map(String::into_bytes),
                (0..NAMES.len(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(name, at, byte)| {
                    let mut name = NAMES[name].as_bytes().to_vec();
                    let at = at.index(name.len());
                    name[at] = byte;
                    name
                }),
            ]
        ) {
            let listed = NAMES.iter().find(|listed| name.eq_ignore_ascii_case(listed.as_bytes()));
            prop_assert_eq!(CommandId::of(&name).name(), listed.copied());
        }

        #[test]
        fn letters_and_no_other_bytes_change_case(bytes: [u8; 8]) {
            let lower = u64::from_le_bytes(bytes.map(|byte| byte.to_ascii_lowercase()));
            prop_assert_eq!(to_lower(u64::from_le_bytes(bytes)), lower);
        }
    }
}
