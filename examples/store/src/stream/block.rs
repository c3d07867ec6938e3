//! A block: up to about a hundred neighbouring entries in one buffer.
//!
//! ```text
//!   names of the first entry's fields | entry | entry | ...
//!
//!   entry:  ms above the block's first ID, and whether it has other fields | seq | values
//!                                    with other fields:  number of pairs | names and values
//!   string: length, and whether it is long | bytes, unless it is long
//! ```
//!
//! All numbers are of variable length. Entries mostly have the fields of the entries before them, and those names are
//! stored once. Long strings are outside the buffer, so that a reader shares them and a writer that copies the block
//! does not copy them.

use std::sync::Arc;

use super::StreamId;
use crate::Element;
use crate::tree::Item;

/// Strings of this many bytes or more are outside the buffer.
const LONG_LEN_MIN: usize = 256;

/// How much a block may hold before a new one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Bytes of the strings. An entry that is longer has a block of its own.
    pub bytes: usize,
    /// Entries, with those that were removed.
    pub entries: usize,
}

impl Default for BlockLimits {
    /// The limits of Redis.
    fn default() -> Self {
        Self { bytes: 4096, entries: 100 }
    }
}

/// Entries of neighbouring IDs. A clone is O(1).
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The ID of the entry that the block began with, which may have been removed.
    first: StreamId,
    content: Arc<Content>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    /// The ID of the entry that was added last, which may have been removed.
    last_added: StreamId,
    /// The ID of the last entry.
    last: StreamId,
    len: u32,
    removed: u32,
    /// Number of the block's fields.
    fields: u32,
    /// Where the first entry begins.
    start: u32,
    bytes: Vec<u8>,
    /// Long strings, in the order in which they follow in `bytes`.
    long: Vec<Element>,
}

impl Item for Block {
    type Key = StreamId;

    fn key(&self) -> &StreamId {
        &self.first
    }
}

impl Block {
    /// A block that begins with this entry, whose field names and values take turns.
    pub(super) fn new(id: StreamId, pairs: &[&[u8]]) -> Self {
        let mut content = Content {
            last_added: id,
            last: id,
            fields: (pairs.len() / 2) as u32,
            ..Content::default()
        };
        for name in pairs.iter().step_by(2) {
            content.put_string(name);
        }
        content.start = content.bytes.len() as u32;
        let mut block = Self { first: id, content: Arc::new(content) };
        block.push(id, pairs);
        block
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.content.len as usize
    }

    /// The ID of the entry that was added last, even if it has been removed.
    pub(super) fn last_added(&self) -> StreamId {
        self.content.last_added
    }

    /// The ID of the last entry.
    pub(super) fn last_id(&self) -> StreamId {
        self.content.last
    }

    /// Bytes of the strings and of what is around them.
    pub(super) fn bytes(&self) -> usize {
        let long: usize = self.content.long.iter().map(|long| long.len()).sum();
        self.content.bytes.len() + long
    }

    /// Approximate bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let long = self.content.long.iter();
        let long: usize = long.map(|long| size_of::<Element>() + long.heap_bytes()).sum();
        size_of::<Self>() + size_of::<Content>() + self.content.bytes.capacity() + long
    }

    /// Whether an entry with strings of `more_bytes` belongs into a new block.
    pub(super) fn is_full(&self, more_bytes: usize, limits: BlockLimits) -> bool {
        let entries = self.content.len as usize + self.content.removed as usize;
        self.bytes() + more_bytes >= limits.bytes || entries >= limits.entries
    }

    /// Gives back memory that was reserved for more entries.
    pub(super) fn shrink(&mut self) {
        let content = Arc::make_mut(&mut self.content);
        content.bytes.shrink_to_fit();
        content.long.shrink_to_fit();
    }

    /// Adds an entry behind all others.
    pub(super) fn push(&mut self, id: StreamId, pairs: &[&[u8]]) {
        let names = pairs.iter().step_by(2).copied();
        let has_other_fields = !self.names().map(Text::as_slice).eq(names);
        let ms_above = id.ms - self.first.ms;
        let content = Arc::make_mut(&mut self.content);
        content.put_number(u128::from(ms_above) << 1 | u128::from(has_other_fields));
        // Within the block's first millisecond, numbers only ascend.
        let base = if ms_above == 0 { self.first.seq } else { 0 };
        content.put_number(u128::from(id.seq - base));
        if has_other_fields {
            content.put_number(pairs.len() as u128 / 2);
            pairs.iter().for_each(|string| content.put_string(string));
        } else {
            let values = pairs.iter().skip(1).step_by(2);
            values.for_each(|value| content.put_string(value));
        }
        content.last_added = id;
        content.last = id;
        content.len += 1;
    }

    /// Removes the entry with this ID. Returns whether there was one.
    pub(super) fn remove(&mut self, id: StreamId) -> bool {
        let Some((from, to)) = self.bounds_of(id) else {
            return false;
        };
        self.cut(from, to, 1);
        if self.last_id() == id {
            let last = self.walk().last().map_or(id, |last| last.id);
            Arc::make_mut(&mut self.content).last = last;
        }
        true
    }

    /// Removes the first `count` entries, of which some must be left.
    pub(super) fn remove_front(&mut self, count: usize) {
        let mut walk = self.walk();
        let from = walk.place;
        walk.by_ref().take(count).for_each(drop);
        let to = walk.end();
        self.cut(from, to, count as u32);
    }

    fn cut(&mut self, from: Place, to: Place, entries: u32) {
        let content = Arc::make_mut(&mut self.content);
        content.bytes.drain(from.byte..to.byte);
        content.long.drain(from.long..to.long);
        content.len -= entries;
        content.removed += entries;
    }

    /// Where the entry with this ID begins and ends.
    fn bounds_of(&self, id: StreamId) -> Option<(Place, Place)> {
        let mut walk = self.walk();
        loop {
            let from = walk.end();
            let entry = walk.next()?;
            if entry.id >= id {
                return (entry.id == id).then(|| (from, walk.end()));
            }
        }
    }

    /// The entry with this ID.
    pub(super) fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        let found = self.walk().find(|entry| entry.id >= id)?;
        (found.id == id).then_some(found)
    }

    /// The entries in ascending order.
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk {
            block: self,
            place: Place { byte: self.content.start as usize, long: self.long_names() },
            strings: 0,
        }
    }

    /// How many of the block's field names are long.
    fn long_names(&self) -> usize {
        self.names().filter(|name| matches!(name, Text::Long(_))).count()
    }

    /// The names of the fields that most entries have.
    fn names(&self) -> Texts<'_> {
        self.texts(Place::default(), self.content.fields as usize)
    }

    fn texts(&self, place: Place, left: usize) -> Texts<'_> {
        Texts { content: &self.content, place, left }
    }
}

impl Content {
    fn put_number(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn put_string(&mut self, string: &[u8]) {
        let is_long = string.len() >= LONG_LEN_MIN;
        self.put_number((string.len() as u128) << 1 | u128::from(is_long));
        if is_long {
            self.long.push(Element::from(string));
        } else {
            self.bytes.extend_from_slice(string);
        }
    }
}

/// A place within a block.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    byte: usize,
    long: usize,
}

impl Place {
    fn number(&mut self, content: &Content) -> u128 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = content.bytes[self.byte];
            self.byte += 1;
            number |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }

    fn text<'s>(&mut self, content: &'s Content) -> Text<'s> {
        let head = self.number(content) as usize;
        if head & 1 == 1 {
            self.long += 1;
            return Text::Long(&content.long[self.long - 1]);
        }
        let from = self.byte;
        self.byte += head >> 1;
        Text::Short(&content.bytes[from..self.byte])
    }
}

/// A string of a stream's entry.
#[derive(Clone, Copy, Debug)]
pub enum Text<'s> {
    /// Bytes within a block.
    Short(&'s [u8]),
    /// Bytes that a reader can share.
    Long(&'s Element),
}

impl<'s> Text<'s> {
    /// The bytes.
    #[must_use]
    pub fn as_slice(self) -> &'s [u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(element) => element,
        }
    }
}

/// Strings that follow each other.
#[derive(Clone)]
struct Texts<'s> {
    content: &'s Content,
    place: Place,
    left: usize,
}

impl<'s> Iterator for Texts<'s> {
    type Item = Text<'s>;

    fn next(&mut self) -> Option<Text<'s>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.place.text(self.content))
    }
}

/// An entry of a stream.
#[derive(Clone, Copy)]
pub struct StreamEntry<'s> {
    /// Its ID.
    pub id: StreamId,
    block: &'s Block,
    /// Where its strings begin.
    place: Place,
    pairs: usize,
    has_other_fields: bool,
}

impl<'s> StreamEntry<'s> {
    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs
    }

    /// Whether there are no fields, which never is so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    /// The fields' names and values, which take turns.
    pub fn texts(&self) -> impl Iterator<Item = Text<'s>> + use<'s> {
        let strings = if self.has_other_fields { 2 } else { 1 } * self.pairs;
        let mut names = (!self.has_other_fields).then(|| self.block.names());
        let mut own = self.block.texts(self.place, strings);
        let mut is_name = false;
        std::iter::from_fn(move || {
            is_name = !is_name;
            match &mut names {
                Some(names) if is_name => names.next(),
                _ => own.next(),
            }
        })
    }
}

/// Walks the entries of a block.
pub(super) struct Walk<'s> {
    block: &'s Block,
    place: Place,
    /// Strings of the last entry, which begin at the place.
    strings: usize,
}

impl Walk<'_> {
    /// Where the last entry ends, and the next one begins.
    fn end(&mut self) -> Place {
        for _ in 0..std::mem::take(&mut self.strings) {
            self.place.text(&self.block.content);
        }
        self.place
    }
}

impl<'s> Iterator for Walk<'s> {
    type Item = StreamEntry<'s>;

    fn next(&mut self) -> Option<StreamEntry<'s>> {
        let content: &'s Content = &self.block.content;
        self.end();
        if self.place.byte >= content.bytes.len() {
            return None;
        }
        let head = self.place.number(content);
        let has_other_fields = head & 1 == 1;
        let ms_above = (head >> 1) as u64;
        let first = self.block.first;
        let base = if ms_above == 0 { first.seq } else { 0 };
        let id = StreamId {
            ms: first.ms + ms_above,
            seq: base + self.place.number(content) as u64,
        };
        let pairs = if has_other_fields {
            self.place.number(content) as usize
        } else {
            content.fields as usize
        };
        self.strings = if has_other_fields { 2 } else { 1 } * pairs;
        Some(StreamEntry {
            id,
            block: self.block,
            place: self.place,
            pairs,
            has_other_fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    fn strings(entry: StreamEntry<'_>) -> Vec<Vec<u8>> {
        entry.texts().map(|text| text.as_slice().to_vec()).collect()
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let long = vec![b'x'; 3 * LONG_LEN_MIN];
        let entries: Vec<(StreamId, Vec<&[u8]>)> = vec![
            (id(5, 9), vec![b"name", b"a", &long, b"b"]),
            (id(5, 10), vec![b"name", b"", &long, &long]),
            (id(6, 0), vec![b"other", &long]),
            (id(7, u64::MAX), vec![b"name", &long, &long, b"z"]),
            (id(u64::MAX, 3), vec![&long, b"name", b"name", b"name"]),
        ];
        let mut block = Block::new(entries[0].0, &entries[0].1);
        for (id, pairs) in &entries[1..] {
            block.push(*id, pairs);
        }
        let check = |block: &Block, left: &[usize]| {
            assert_eq!(block.len(), left.len());
            let found: Vec<_> = block.walk().map(|entry| (entry.id, strings(entry))).collect();
            let expected = left.iter().map(|&index| {
                let (id, pairs) = &entries[index];
                (*id, pairs.iter().map(|string| string.to_vec()).collect())
            });
            assert_eq!(found, expected.collect::<Vec<_>>());
        };
        check(&block, &[0, 1, 2, 3, 4]);
        assert_eq!(block.get(id(6, 0)).map(strings).unwrap()[0], b"other");
        assert!(block.get(id(6, 1)).is_none() && block.get(StreamId::MAX).is_none());
        let snapshot = block.clone();
        assert!(block.remove(id(6, 0)) && !block.remove(id(6, 0)));
        check(&block, &[0, 1, 3, 4]);
        block.remove_front(2);
        check(&block, &[3, 4]);
        block.push(StreamId::MAX, &[b"name", b"v", &long, b"w"]);
        assert_eq!((block.len(), block.last_id()), (3, StreamId::MAX));
        assert!(block.remove(StreamId::MAX));
        let last = (block.last_id(), block.last_added());
        assert_eq!(last, (id(u64::MAX, 3), StreamId::MAX));
        check(&snapshot, &[0, 1, 2, 3, 4]);
    }

    #[test]
    fn names_that_repeat_take_no_room() {
        let pairs: [&[u8]; 4] = [b"temperature", b"20", b"humidity", b"50"];
        let mut block = Block::new(id(1_700_000_000_000, 0), &pairs);
        let one = block.bytes();
        for seq in 1..100 {
            block.push(id(1_700_000_000_000 + seq * 10, 0), &pairs);
        }
        assert!((block.bytes() - one) / 99 <= 9, "{}", block.bytes());
    }

    #[test]
    fn a_block_is_full_by_its_bytes_and_by_its_entries() {
        let limits = BlockLimits { bytes: 100, entries: 2 };
        let mut block = Block::new(id(1, 0), &[b"a", b"b"]);
        assert!(!block.is_full(10, limits) && block.is_full(100, limits));
        block.push(id(2, 0), &[b"a", b"b"]);
        assert!(block.remove(id(1, 0)));
        assert!(block.is_full(10, limits), "removed entries count");
    }
}
