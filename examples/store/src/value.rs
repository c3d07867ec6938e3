//! The value of a key.

use crate::element::allocated_bytes;
use crate::form::PackingLimits;
use crate::{Element, ElementRef, Hash, List, Set, SortedSet, Stream, StreamId};

/// The reaper drops collections of this many elements or more; a worker drops smaller ones itself.
const HEAVY_ELEMENTS_MIN: usize = 64;
/// The reaper drops strings of this many bytes or more. Freeing less never unmaps memory.
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
    /// A log of entries with ascending IDs, and who reads it.
    Stream(Stream),
}

/// Elements sampled to estimate the size of a collection.
const SAMPLED_ELEMENTS: usize = 32;

/// Bytes of an element, with those that it has outside itself.
fn element_bytes(element: ElementRef<'_>) -> usize {
    match element {
        ElementRef::Element(element) => size_of::<Element>() + element.heap_bytes(),
        ElementRef::Packed(_) | ElementRef::Number(_) => size_of::<Element>(),
    }
}

/// What trees take for each item beside its elements: positions and scores, nodes, and room in their leaves.
const SET_SHARE_BYTES: usize = 20;
const HASH_SHARE_BYTES: usize = 30;
const SORTED_SET_SHARE_BYTES: usize = 42;

/// Estimates the sum of all `sizes` from the first of them.
fn estimate(sizes: impl ExactSizeIterator<Item = usize>) -> usize {
    let len = sizes.len();
    let sample: Vec<usize> = sizes.take(SAMPLED_ELEMENTS).collect();
    sample.iter().sum::<usize>() * len / sample.len().max(1)
}

/// Adds up the first `elements_max` of `lens`.
fn total(lens: impl Iterator<Item = usize>, elements_max: usize) -> usize {
    lens.take(elements_max).sum()
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
            Self::Stream(_) => "stream",
        }
    }

    /// Number of elements; 1 for a string of any length.
    #[must_use]
    pub fn cardinality(&self) -> usize {
        match self {
            Self::String(_) => 1,
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
            Self::Stream(stream) => stream.len(),
        }
    }

    /// The bytes of the elements themselves, of at most the first `elements_max` of them.
    #[must_use]
    pub fn payload_bytes(&self, elements_max: usize) -> usize {
        match self {
            Self::String(bytes) => bytes.len(),
            Self::List(list) => total(list.iter().map(|item| item.len()), elements_max),
            Self::Hash(hash) => {
                let fields = hash.iter().map(|(field, value)| field.len() + value.len());
                total(fields, elements_max)
            }
            Self::Set(set) => total(set.iter().map(|member| member.len()), elements_max),
            Self::SortedSet(set) => total(set.iter().map(|scored| scored.member.len()), elements_max),
            Self::Stream(stream) => {
                let entries = stream.entries().range(StreamId::MIN..=StreamId::MAX);
                let lens = entries.map(|entry| entry.texts().map(|text| text.as_slice().len()).sum());
                total(lens, elements_max)
            }
        }
    }

    /// Calls `visit` with the length of each name that a scan of `count` elements at `cursor` visits.
    /// Strings, lists and streams have no names.
    pub fn visit_scanned_lens(&self, cursor: u64, count: usize, visit: impl FnMut(usize)) {
        match self {
            Self::String(_) | Self::List(_) | Self::Stream(_) => {}
            Self::Hash(hash) => {
                let fields = hash.scan(cursor, count).entries;
                fields.map(|(field, _)| field.len()).for_each(visit);
            }
            Self::Set(set) => {
                let members = set.scan(cursor, count).entries;
                members.map(|member| member.len()).for_each(visit);
            }
            Self::SortedSet(set) => {
                let members = set.scan(cursor, count).entries;
                members.map(|scored| scored.member.len()).for_each(visit);
            }
        }
    }

    /// Approximate bytes of memory that the value takes beyond its own, estimated from a sample of its elements.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        if let Some(bytes) = self.packed_bytes() {
            return allocated_bytes(bytes);
        }
        match self {
            Self::String(bytes) => bytes.heap_bytes(),
            Self::List(list) => list.memory_bytes(),
            Self::Hash(hash) => {
                let bytes = |(field, value)| HASH_SHARE_BYTES + element_bytes(field) + element_bytes(value);
                estimate(hash.iter().map(bytes)) + hash.times_bytes()
            }
            Self::Set(set) => estimate(set.iter().map(|member| SET_SHARE_BYTES + element_bytes(member))),
            // Each of the two trees has the member.
            Self::SortedSet(set) => {
                estimate(set.iter().map(|scored| SORTED_SET_SHARE_BYTES + 2 * element_bytes(scored.member)))
            }
            Self::Stream(stream) => stream.memory_bytes(SAMPLED_ELEMENTS),
        }
    }

    /// Bytes that a [packed](crate::packed) collection has allocated; `None` for other values.
    fn packed_bytes(&self) -> Option<usize> {
        match self {
            Self::Hash(hash) => hash.packed_bytes(),
            Self::Set(set) => set.packed_bytes(),
            Self::SortedSet(set) => set.packed_bytes(),
            Self::String(_) | Self::List(_) | Self::Stream(_) => None,
        }
    }

    /// Whether the value removes its key, as an empty collection does. An empty stream remembers its last ID and its
    /// groups.
    pub(crate) fn is_spent(&self) -> bool {
        !matches!(self, Self::Stream(_)) && self.cardinality() == 0
    }

    /// Gives a collection the form that it has after an update.
    pub(crate) fn settle(&mut self, limits: &PackingLimits) {
        match self {
            Self::Hash(hash) => hash.settle(limits),
            Self::Set(set) => set.settle(limits),
            Self::SortedSet(set) => set.settle(limits),
            Self::String(_) | Self::List(_) | Self::Stream(_) => {}
        }
    }

    /// Whether dropping the value takes so long that the reaper should do it.
    pub(crate) fn is_heavy(&self) -> bool {
        match self {
            Self::String(bytes) => bytes.len() >= HEAVY_BYTES_MIN,
            Self::Stream(stream) => {
                let mut groups = stream.groups();
                stream.len() + groups.len() >= HEAVY_ELEMENTS_MIN
                    || groups.any(|group| group.pending_len() >= HEAVY_ELEMENTS_MIN)
            }
            Self::List(list) => !list.is_one_chunk() && list.len() >= HEAVY_ELEMENTS_MIN,
            _ => self.packed_bytes().is_none() && self.cardinality() >= HEAVY_ELEMENTS_MIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockLimits, Delivery, Kept, ListEnd, NewId, Operand, Trim};

    #[test]
    fn a_value_is_as_large_as_a_string() {
        assert_eq!(size_of::<Value>(), size_of::<Element>());
    }

    /// `len` different elements of `bytes` each in a value of each type; one string, which is as long as they.
    fn of_each_type(len: usize, bytes: usize) -> [Value; 6] {
        let (mut list, mut hash, mut set) = (List::new(), Hash::new(), Set::new());
        let (mut sorted, mut stream) = (SortedSet::new(), Stream::new());
        for number in 0..len {
            let text = format!("{number:x>bytes$}");
            let text = text.as_bytes();
            list.push(ListEnd::Right, &Element::from(text));
            hash.insert(text, Element::from(text));
            set.insert(text);
            sorted.insert(text, number as f64).expect("a number");
            let limits = BlockLimits { bytes: 4096, entries: 100 };
            let id = StreamId { ms: 1 + number as u64, seq: 0 };
            stream.push(NewId::Exactly(id), &[text, text], limits).expect("a free ID");
        }
        [
            Value::string(&vec![b'x'; len * bytes]),
            Value::List(list),
            Value::Hash(hash),
            Value::Set(set),
            Value::SortedSet(sorted),
            Value::Stream(stream),
        ]
    }

    #[test]
    fn sizes_follow_from_the_elements() {
        const LEN: usize = 1000;
        for bytes in [8, 300] {
            let values = of_each_type(LEN, bytes);
            let names = values.each_ref().map(Value::type_name);
            assert_eq!(names, ["string", "list", "hash", "set", "zset", "stream"]);
            let payloads = values.each_ref().map(|value| value.payload_bytes(LEN) / LEN);
            assert_eq!(payloads, [LEN * bytes / LEN, bytes, 2 * bytes, bytes, bytes, 2 * bytes]);
            assert_eq!(values[2].payload_bytes(3), 6 * bytes);
            let element = size_of::<Element>() + Element::from(vec![b'x'; bytes].as_slice()).heap_bytes();
            let memory = values.each_ref().map(|value| value.memory_bytes() / LEN);
            assert_eq!(memory[2..5], [30 + 2 * element, 20 + element, 42 + 2 * element]);
            for about in [memory[1], memory[5] / 2] {
                assert!((bytes..bytes + 80).contains(&about), "{bytes}: {memory:?}");
            }
            let scanned = values.each_ref().map(|value| {
                let mut count = 0;
                value.visit_scanned_lens(0, 10, |len| count += usize::from(len == bytes));
                count >= 10
            });
            assert_eq!(scanned, [false, false, true, true, true, false]);
        }
        assert_eq!(Value::Set(Set::new()).memory_bytes(), 0);
    }

    #[test]
    fn what_takes_long_to_drop_is_heavy() {
        let heavy = |len, bytes| of_each_type(len, bytes).map(|value| value.is_heavy());
        assert_eq!(heavy(64, 3000), [false, true, true, true, true, true]);
        assert_eq!(heavy(63, 3000), [false; 6]);
        assert_eq!([(1 << 18) - 1, 1 << 18].map(|len| Value::string(&vec![0; len]).is_heavy()), [false, true]);
        let [.., Value::Stream(mut stream)] = of_each_type(63, 8) else {
            panic!("a stream");
        };
        assert!(!Value::Stream(stream.clone()).is_heavy());
        stream.add_group(b"group", StreamId::MIN, None);
        assert!(Value::Stream(stream.clone()).is_heavy(), "a group counts as an entry");
        let delivery = Delivery { count: 64, needs_no_ack: false, now_ms: 1 };
        let id = StreamId { ms: 100, seq: 0 };
        stream
            .push(NewId::Exactly(id), &[b"a", b"b"], BlockLimits { bytes: 4096, entries: 100 })
            .expect("free");
        stream.deliver(b"group", b"consumer", delivery, &|| ());
        stream.trim(Trim { kept: Kept::Len(1), is_approximate: false, limit: 100 }, &|| ());
        assert!(Value::Stream(stream.clone()).is_heavy(), "what is pending is much");
        stream.group_mut(b"group").expect("the group").acknowledge(id);
        assert!(!Value::Stream(stream).is_heavy());
    }

    #[test]
    fn collections_know_their_lengths_and_forms() {
        let limits = PackingLimits::default();
        for (len, bytes) in [(0, 8), (3, 8), (200, 8), (600, 8), (3, 100)] {
            let [
                _,
                Value::List(list),
                Value::Hash(mut hash),
                Value::Set(mut set),
                Value::SortedSet(mut sorted),
                _,
            ] = of_each_type(len, bytes)
            else {
                panic!("one of each type");
            };
            let mut numbers = Set::new();
            (0..len).for_each(|number| assert!(numbers.insert(number.to_string().as_bytes())));
            let empty = [list.is_empty(), hash.is_empty(), set.is_empty(), sorted.is_empty()];
            assert_eq!(empty, [len == 0; 4]);
            for iter in [set.iter().size_hint(), numbers.iter().size_hint(), sorted.iter().size_hint()] {
                assert_eq!(iter, (len, Some(len)));
            }
            let operands = [Operand::Set(set.clone()), Operand::SortedSet(sorted.clone())];
            assert_eq!(operands.each_ref().map(Operand::len), [len; 2]);
            assert_eq!(operands.map(|operand| operand.is_empty()), [len == 0; 2]);
            let last = len.checked_sub(1).and_then(|rank| sorted.at(rank));
            let last = last.map(|scored| (scored.member.to_bytes(), scored.score));
            assert_eq!(last, sorted.iter().next_back().map(|scored| (scored.member.to_bytes(), scored.score)));
            assert_eq!(last.map(|(_, score)| score as usize), len.checked_sub(1));
            assert_eq!(set.at(0).is_some(), len > 0);
            hash.settle(&limits);
            set.settle(&limits);
            numbers.settle(&limits);
            sorted.settle(&limits);
            let forms = [hash.is_packed(), set.is_packed(), numbers.is_packed(), sorted.is_packed()];
            let expected = [len <= 512 && bytes <= 64, len == 0, len <= 512, len <= 128 && bytes <= 64];
            assert_eq!(forms, expected, "{len} of {bytes}");
        }
    }
}
