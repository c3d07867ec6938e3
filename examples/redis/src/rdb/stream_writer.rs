//! Writes streams as Redis 7.0 does.
//!
//! ```text
//!   nodes:   count  |  first ID, listpack  |  ...
//!   then:    entries, last ID, first ID, highest removed ID, entries ever added
//!   groups:  count  |  name, last ID, entries read, pending entries, consumers  |  ...
//!
//!   listpack:  entries, removed ones, number of fields, names, 0  |  entry  |  ...
//!   entry:     flags, ms and seq above the first ID, values, number of these parts
//!              flags, ms and seq above the first ID, number of fields, names and values, number of these parts
//! ```
//!
//! Pending entries are those of the group with their times, and then those of each consumer.

use psp_store::{BlockLimits, Element, Group, Stream, StreamEntry, StreamId, Text};

use super::listpack_writer::ListpackWriter;
use super::{Out, put_len, put_string};

/// The entry has the fields of its node's first entry.
pub(super) const SAME_FIELDS: i64 = 2;
/// A group does not know how many entries it has read.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Appends a stream. Calls `visit` for each part of the work.
pub(super) fn put_stream(stream: &Stream, visit: &dyn Fn(), out: &mut impl Out) {
    put_len(count_nodes(stream, visit), out);
    let mut node: Option<Node<'_>> = None;
    for entry in stream.entries().range(StreamId::MIN..=StreamId::MAX) {
        visit();
        let texts: Vec<&[u8]> = entry.texts().map(Text::as_slice).collect();
        let bytes = texts.iter().map(|text| text.len()).sum();
        let full = node.take_if(|node| node.size.is_full(bytes));
        if let Some(full) = full {
            full.put(visit, out);
        }
        let node = node.get_or_insert_with(|| Node::new(entry.id, &texts));
        node.push(&entry, &texts, bytes);
    }
    if let Some(last) = node {
        last.put(visit, out);
    }
    put_len(stream.len(), out);
    for id in [stream.last_id(), stream.first_id(), stream.removed_id_max()] {
        put_id(id, out);
    }
    put_number(stream.entries_added(), out);
    let groups = stream.groups();
    put_len(groups.len(), out);
    groups.for_each(|group| put_group(group, visit, out));
}

/// How many nodes there will be: their number comes before them.
fn count_nodes(stream: &Stream, visit: &dyn Fn()) -> usize {
    let (mut nodes, mut last) = (0, Size::default());
    for entry in stream.entries().range(StreamId::MIN..=StreamId::MAX) {
        visit();
        let bytes = entry.texts().map(|text| text.as_slice().len()).sum();
        if nodes == 0 || last.is_full(bytes) {
            nodes += 1;
            last = Size::default();
        }
        last.add(bytes);
    }
    nodes
}

/// What a node holds.
#[derive(Default)]
struct Size {
    entries: usize,
    bytes: usize,
}

impl Size {
    fn is_full(&self, more_bytes: usize) -> bool {
        let limits = BlockLimits::default();
        self.entries >= limits.entries || self.bytes + more_bytes >= limits.bytes
    }

    fn add(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes;
    }
}

/// Entries that share a listpack.
struct Node<'s> {
    first: StreamId,
    names: Vec<&'s [u8]>,
    entries: ListpackWriter,
    size: Size,
}

impl<'s> Node<'s> {
    fn new(first: StreamId, texts: &[&'s [u8]]) -> Self {
        Self {
            first,
            names: texts.iter().step_by(2).copied().collect(),
            entries: ListpackWriter::default(),
            size: Size::default(),
        }
    }

    fn push(&mut self, entry: &StreamEntry<'_>, texts: &[&[u8]], bytes: usize) {
        let names = texts.iter().step_by(2);
        let is_same = names.eq(&self.names);
        let pack = &mut self.entries;
        pack.integer(if is_same { SAME_FIELDS } else { 0 });
        pack.integer(entry.id.ms.wrapping_sub(self.first.ms) as i64);
        pack.integer(entry.id.seq.wrapping_sub(self.first.seq) as i64);
        // The flags and the ID have come before.
        let parts = if is_same {
            let values = texts.iter().skip(1).step_by(2);
            values.for_each(|value| pack.string(value));
            3 + texts.len() / 2
        } else {
            pack.integer(texts.len() as i64 / 2);
            texts.iter().for_each(|text| pack.string(text));
            4 + texts.len()
        };
        pack.integer(parts as i64);
        self.size.add(bytes);
    }

    fn put(self, visit: &dyn Fn(), out: &mut impl Out) {
        visit();
        let mut head = ListpackWriter::default();
        head.integer(self.size.entries as i64);
        head.integer(0);
        head.integer(self.names.len() as i64);
        self.names.iter().for_each(|name| head.string(name));
        head.integer(0);
        put_string(&raw(self.first), out);
        out.put_text(&head.finish(&self.entries), visit);
    }
}

fn put_group(group: &Group, visit: &dyn Fn(), out: &mut impl Out) {
    put_name(group.name(), out);
    put_id(group.last_id, out);
    put_number(group.entries_read.unwrap_or(UNKNOWN), out);
    let pending = group.pending_from(StreamId::MIN);
    put_len(pending.len(), out);
    for item in pending {
        visit();
        out.put(&raw(item.id));
        out.put(&item.delivered_ms.to_le_bytes());
        put_number(item.deliveries, out);
    }
    let consumers = group.consumers();
    put_len(consumers.len(), out);
    for consumer in consumers {
        visit();
        put_name(consumer.name(), out);
        out.put(&consumer.seen_ms().to_le_bytes());
        let pending = consumer.pending_from(StreamId::MIN);
        put_len(pending.len(), out);
        for id in pending {
            visit();
            out.put(&raw(*id));
        }
    }
}

fn put_name(name: &Element, out: &mut impl Out) {
    put_string(name, out);
}

fn put_id(id: StreamId, out: &mut impl Out) {
    put_number(id.ms, out);
    put_number(id.seq, out);
}

fn put_number(number: u64, out: &mut impl Out) {
    put_len(number as usize, out);
}

/// An ID as Redis orders them: big-endian.
fn raw(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}
