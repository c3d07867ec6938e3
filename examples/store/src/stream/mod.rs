//! Streams: logs of entries with ascending IDs, and groups of consumers that share the work on them.
//!
//! ```text
//!   Stream ─► Entries: tree of blocks, by the first ID ─► Block: about a hundred entries in one buffer
//!         └─► groups, by their names ─► Group: pending entries by their IDs, consumers by their names
//! ```

mod block;
mod entries;
mod group;
mod id;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use block::{BlockLimits, StreamEntry, Text};
pub use entries::{Entries, Kept, Trim};
pub use group::{Consumer, Group, Pending};
pub use id::StreamId;

use crate::Element;
use crate::tree::Tree;

/// A stream; a clone is O(1).
#[derive(Clone, Default)]
pub struct Stream(Arc<Body>);

#[derive(Clone, Default)]
struct Body {
    log: Log,
    groups: Tree<Vec<Group>>,
}

/// The entries, and what the stream remembers of those that are gone.
#[derive(Clone, Default)]
struct Log {
    entries: Entries,
    last_id: StreamId,
    removed_id_max: StreamId,
    entries_added: u64,
}

/// The stream has no IDs left for another entry, or has passed the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdTaken;

/// Which ID a new entry gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewId {
    /// The time, or the ID above the last one if the time is behind it.
    At {
        /// Milliseconds since the Unix epoch.
        now_ms: u64,
    },
    /// The lowest one that is free within this millisecond.
    Within {
        /// Milliseconds since the Unix epoch.
        ms: u64,
    },
    /// This one.
    Exactly(StreamId),
}

/// How entries are delivered to a consumer.
#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    /// Entries at most.
    pub count: usize,
    /// The consumer does not acknowledge them.
    pub needs_no_ack: bool,
    /// Now, in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

impl Stream {
    /// An empty stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &Entries {
        &self.0.log.entries
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.log.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The highest ID that the stream has given to an entry.
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.0.log.last_id
    }

    /// The highest ID of an entry that was removed other than by trimming.
    #[must_use]
    pub fn removed_id_max(&self) -> StreamId {
        self.0.log.removed_id_max
    }

    /// Number of entries that the stream ever had.
    #[must_use]
    pub fn entries_added(&self) -> u64 {
        self.0.log.entries_added
    }

    /// The ID of the first entry; the lowest ID if there is none.
    #[must_use]
    pub fn first_id(&self) -> StreamId {
        self.0.log.first_id()
    }

    /// Sets the last ID, which must not be below an entry's.
    pub fn set_last_id(&mut self, id: StreamId) {
        self.body().log.last_id = id;
    }

    /// Sets the number of entries that the stream ever had.
    pub fn set_entries_added(&mut self, count: u64) {
        self.body().log.entries_added = count;
    }

    /// Sets the highest ID of a removed entry.
    pub fn set_removed_id_max(&mut self, id: StreamId) {
        self.body().log.removed_id_max = id;
    }

    fn body(&mut self) -> &mut Body {
        Arc::make_mut(&mut self.0)
    }

    /// The ID that an entry with this wish gets.
    ///
    /// # Errors
    /// There is none.
    pub fn id_for(&self, wish: NewId) -> Result<StreamId, IdTaken> {
        let last = self.0.log.last_id;
        let id = match wish {
            NewId::At { now_ms } if now_ms > last.ms => Some(StreamId { ms: now_ms, seq: 0 }),
            NewId::At { .. } => last.next(),
            NewId::Within { ms } if ms == last.ms => {
                let seq = last.seq.checked_add(1);
                seq.map(|seq| StreamId { ms, seq })
            }
            NewId::Within { ms } => Some(StreamId { ms, seq: 0 }),
            NewId::Exactly(id) => Some(id),
        };
        id.filter(|id| *id > last).ok_or(IdTaken)
    }

    /// Adds an entry of field names and values, which take turns, and returns its ID.
    ///
    /// # Errors
    /// There is no ID for it.
    pub fn push(&mut self, wish: NewId, pairs: &[&[u8]], limits: BlockLimits) -> Result<StreamId, IdTaken> {
        let id = self.id_for(wish)?;
        let log = &mut self.body().log;
        log.entries.push(id, pairs, limits);
        log.last_id = id;
        log.entries_added += 1;
        Ok(id)
    }

    /// Removes an entry. Returns whether there was one.
    pub fn remove(&mut self, id: StreamId) -> bool {
        let log = &mut self.body().log;
        let is_removed = log.entries.remove(id);
        if is_removed {
            log.removed_id_max = log.removed_id_max.max(id);
        }
        is_removed
    }

    /// Removes the oldest entries. Calls `visit` for each block that it looks at. Returns how many it removed.
    pub fn trim(&mut self, trim: Trim, visit: &dyn Fn()) -> usize {
        self.body().log.entries.trim(trim, visit)
    }

    /// The groups by their names.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.0.groups.iter()
    }

    /// A group.
    #[must_use]
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.0.groups.found(name)
    }

    /// A group, to be changed.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        let place = self.0.groups.place_of(name).ok()?;
        self.body().groups.get_mut_at(&place)
    }

    /// Adds a group. Returns whether the name was free.
    pub fn add_group(&mut self, name: &[u8], last_id: StreamId, entries_read: Option<u64>) -> bool {
        let Err(place) = self.0.groups.place_of(name) else {
            return false;
        };
        let group = Group::new(name, last_id, entries_read);
        self.body().groups.insert_at(&place, group);
        true
    }

    /// Removes a group and returns it.
    pub fn remove_group(&mut self, name: &[u8]) -> Option<Group> {
        let place = self.0.groups.place_of(name).ok()?;
        Some(self.body().groups.remove_at(&place))
    }

    /// Delivers the entries that a group has not read to one of its consumers: up to `count` of them, which it has to
    /// acknowledge unless `needs_no_ack` says otherwise. Calls `visit` for each. Returns their IDs; `None` if there is
    /// no such group.
    pub fn deliver(
        &mut self,
        group: &[u8],
        consumer: &[u8],
        delivery: Delivery,
        visit: &dyn Fn(),
    ) -> Option<RangeInclusive<StreamId>> {
        let place = self.0.groups.place_of(group).ok()?;
        let Body { log, groups } = self.body();
        let group = groups.get_mut_at(&place)?;
        group.see_consumer(consumer, delivery.now_ms);
        let name = consumer;
        let consumer = Element::from(name);
        let Some(first) = group.last_id.next() else {
            return Some(none());
        };
        let unread = log.entries.range(first..=StreamId::MAX);
        for entry in unread.take(delivery.count) {
            visit();
            group.entries_read = log.entries_read_at(entry.id, group.entries_read);
            group.last_id = entry.id;
            if !delivery.needs_no_ack {
                group.assign(Pending {
                    id: entry.id,
                    consumer: consumer.clone(),
                    delivered_ms: delivery.now_ms as i64,
                    deliveries: 1,
                });
            }
        }
        if group.last_id >= first {
            group.set_active(name, Some(delivery.now_ms));
        }
        Some(first..=group.last_id)
    }

    /// How many entries a group has not read yet; `None` if that is not known. Below zero if it read some twice.
    #[must_use]
    pub fn lag(&self, group: &Group) -> Option<i64> {
        let added = self.0.log.entries_added;
        if added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.0.log.has_gaps_from(group.last_id) => read,
            _ => self.0.log.entries_up_to(group.last_id)?,
        };
        Some(added.wrapping_sub(read) as i64)
    }

    /// How many entries the stream ever had up to this ID; `None` if that is not known.
    #[must_use]
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        self.0.log.entries_up_to(id)
    }

    /// Approximate bytes of memory, estimated from the first `blocks_max` blocks.
    #[must_use]
    pub fn memory_bytes(&self, blocks_max: usize) -> usize {
        let groups = self.groups().take(blocks_max).map(Group::memory_bytes);
        size_of::<Body>() + self.0.log.entries.memory_bytes(blocks_max) + groups.sum::<usize>()
    }
}

/// A range of no IDs.
fn none() -> RangeInclusive<StreamId> {
    StreamId::MAX..=StreamId::MIN
}

impl Log {
    fn first_id(&self) -> StreamId {
        self.entries.first().map_or(StreamId::MIN, |entry| entry.id)
    }

    /// Whether entries from `start` on were removed other than by trimming.
    fn has_gaps_from(&self, start: StreamId) -> bool {
        let removed = self.removed_id_max;
        !self.entries.is_empty() && removed != StreamId::MIN && self.first_id() <= removed && start <= removed
    }

    /// How many entries the stream ever had up to this ID; `None` if that is not known.
    fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        let (added, len) = (self.entries_added, self.entries.len() as u64);
        if added == 0 {
            return Some(0);
        }
        if id == self.last_id || (self.entries.is_empty() && id < self.last_id) {
            return Some(added);
        }
        let (first, removed) = (self.first_id(), self.removed_id_max);
        if id > self.last_id || (removed != StreamId::MIN && removed >= first) || id > first {
            return None;
        }
        Some(added.wrapping_sub(len) + u64::from(id == first))
    }

    /// How many entries a group that has read up to `id` has read then, if it had read `entries_read` before this one.
    fn entries_read_at(&self, id: StreamId, entries_read: Option<u64>) -> Option<u64> {
        match entries_read {
            Some(count) if !self.has_gaps_from(id) => Some(count.wrapping_add(1)),
            known if self.entries_added == 0 => known,
            _ => self.entries_up_to(id),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("len", &self.len())
            .field("last_id", &self.0.log.last_id)
            .field("groups", &self.0.groups.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::Element;

    const FEW: BlockLimits = BlockLimits { bytes: 4096, entries: 5 };

    fn id(ms: u64) -> StreamId {
        StreamId { ms, seq: 0 }
    }

    fn ids(stream: &Stream) -> Vec<u64> {
        let all = stream.entries().range(StreamId::MIN..=StreamId::MAX);
        all.map(|entry| entry.id.ms).collect()
    }

    fn of_ids(ids: impl IntoIterator<Item = u64>) -> Stream {
        let mut stream = Stream::new();
        for ms in ids {
            let text = ms.to_string();
            let wish = NewId::Exactly(id(ms));
            stream.push(wish, &[b"name", text.as_bytes()], FEW).unwrap();
        }
        stream
    }

    fn trim(kept: Kept) -> Trim {
        Trim { kept, is_approximate: false, limit: usize::MAX }
    }

    #[test]
    fn a_stream_remembers_how_many_entries_it_had() {
        let mut stream = of_ids(1..=10);
        assert_eq!((stream.last_id(), stream.entries_added(), stream.removed_id_max()), (id(10), 10, id(0)));
        assert_eq!(
            (stream.is_empty(), stream.entries().is_empty(), stream.entries().block_count()),
            (false, false, 2)
        );
        assert_eq!(stream.entries().last_id(), Some(id(10)));
        assert!(stream.entries().first().is_some_and(|entry| entry.len() == 1 && !entry.is_empty()));
        let up_to = |stream: &Stream, of: [u64; 5]| of.map(|ms| stream.entries_up_to(id(ms)));
        assert_eq!(up_to(&stream, [0, 1, 5, 10, 11]), [Some(0), Some(1), None, Some(10), None]);
        assert_eq!(stream.trim(trim(Kept::Len(6)), &|| ()), 4);
        assert_eq!(up_to(&stream, [3, 5, 6, 10, 11]), [Some(4), Some(5), None, Some(10), None]);
        stream.remove(id(5));
        assert_eq!(up_to(&stream, [3, 5, 6, 10, 11]), [Some(5), Some(5), Some(6), Some(10), None]);
        stream.remove(id(8));
        assert_eq!(up_to(&stream, [3, 5, 6, 10, 11]), [None, None, None, Some(10), None]);
        assert_eq!(stream.removed_id_max(), id(8));
        stream.trim(trim(Kept::Len(0)), &|| ());
        assert_eq!(up_to(&stream, [3, 5, 6, 10, 11]), [Some(10), Some(10), Some(10), Some(10), None]);
        stream.set_last_id(id(50));
        stream.set_entries_added(100);
        stream.set_removed_id_max(id(49));
        assert_eq!((stream.last_id(), stream.entries_added(), stream.removed_id_max()), (id(50), 100, id(49)));
        let empty = Stream::new();
        assert_eq!(
            (empty.entries_up_to(id(1)), empty.entries().last_id(), empty.is_empty()),
            (Some(0), None, true)
        );
    }

    #[test]
    fn groups_count_what_they_read_and_what_is_pending() {
        let mut stream = of_ids(1..=10);
        let empty_bytes = stream.memory_bytes(9);
        stream.add_group(b"g", StreamId::MIN, Some(0));
        let delivery = Delivery { count: 3, needs_no_ack: false, now_ms: 7 };
        let deliver = |stream: &mut Stream, delivery| {
            let delivered = stream.deliver(b"g", b"c", delivery, &|| ());
            delivered.map(|ids| *ids.end())
        };
        assert_eq!(deliver(&mut stream, delivery), Some(id(3)));
        let unacknowledged = Delivery { count: 2, needs_no_ack: true, now_ms: 8 };
        assert_eq!(deliver(&mut stream, unacknowledged), Some(id(5)));
        let group = stream.group_mut(b"g").expect("the group");
        group.redeliver(id(2), 9);
        let seen = |id| group.pending(id).map(|pending| (pending.delivered_ms, pending.deliveries));
        assert_eq!([1, 2, 4].map(id).map(seen), [Some((7, 1)), Some((9, 2)), None]);
        let consumer = group.consumer(b"c").expect("the consumer");
        assert_eq!((consumer.seen_ms(), consumer.pending_len(), group.pending_len()), (8, 3, 3));
        assert_eq!(consumer.active_ms(), Some(8));
        assert!(consumer.pending_from(id(2)).copied().eq([id(2), id(3)]));
        assert!(group.pending_from(id(2)).map(|pending| pending.id).eq([id(2), id(3)]));
        let each = size_of::<Pending>() + size_of::<StreamId>();
        let bytes = size_of::<Group>() + group.name().heap_bytes() + 3 * each + size_of::<Consumer>();
        assert_eq!(stream.memory_bytes(9), empty_bytes + bytes);
        let read = |stream: &Stream| stream.group(b"g").map(|group| (group.entries_read, stream.lag(group)));
        assert_eq!(read(&stream), Some((Some(5), Some(5))));
        stream.remove(id(8));
        assert_eq!(read(&stream), Some((Some(5), None)), "with a gap it is not known");
        deliver(&mut stream, unacknowledged);
        assert_eq!(read(&stream), Some((None, None)));
        deliver(&mut stream, unacknowledged);
        assert_eq!(read(&stream), Some((Some(10), Some(0))), "known at the end");
        assert!(stream.remove_group(b"g").is_some() && stream.remove_group(b"g").is_none());
        assert_eq!(deliver(&mut stream, delivery), None);
    }

    #[test]
    fn estimates_are_near() {
        let stream = of_ids(1..=20);
        let entries = stream.entries();
        let all = StreamId::MIN..=StreamId::MAX;
        let about = [6, 11].map(|from| entries.trimmed(trim(Kept::From(id(from)))));
        assert_eq!(about, [5, 10]);
        let extent = |count, blocks_max| entries.extent(&all, count, false, blocks_max);
        let (len, bytes) = extent(100, 4).expect("all blocks");
        assert_eq!((len, extent(100, 3)), (20, None));
        let (half, half_bytes) = extent(10, 2).expect("two blocks");
        assert_eq!((half, extent(7, 2).map(|(len, _)| len)), (10, Some(7)));
        assert!((bytes * 2 / 5..bytes * 3 / 5).contains(&half_bytes), "{half_bytes} of {bytes}");
        assert_eq!(entries.extent(&(id(6)..=id(30)), 100, false, 3).map(|(len, _)| len), Some(15));
        assert!((bytes / 25..bytes / 15).contains(&entries.entry_bytes()));
        let (some, most) = (entries.memory_bytes(2), entries.memory_bytes(4));
        assert!(bytes < most && some.abs_diff(most) < most / 4, "{some} of {most}");
        let long = vec![b'v'; 100_000];
        let mut long_entries = Stream::new();
        for ms in 1..=4 {
            long_entries.push(NewId::Exactly(id(ms)), &[b"name", &long], FEW).expect("a free ID");
        }
        let sizes = [long_entries.entries().entry_bytes(), long_entries.memory_bytes(9) / 4];
        assert!(sizes.iter().all(|size| (100_000..120_000).contains(size)), "{sizes:?}");
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map(
            operations in proptest::collection::vec((0_u8..10, 0_u64..60), 0..80),
        ) {
            let mut stream = Stream::new();
            let mut model = BTreeMap::new();
            let mut last = 0;
            for (kind, number) in operations {
                let snapshot = stream.clone();
                let before = ids(&stream);
                match kind {
                    0..6 => {
                        last += 1 + number / 20;
                        let names: [&[u8]; 2] = [b"name", b"other"];
                        let value = vec![b'v'; number as usize * 10];
                        let pairs = [names[usize::from(number % 5 == 0)], &value];
                        let wish = NewId::Exactly(id(last));
                        prop_assert_eq!(stream.push(wish, &pairs, FEW), Ok(id(last)));
                        model.insert(last, pairs.map(<[u8]>::to_vec));
                    }
                    6 | 7 => {
                        prop_assert_eq!(stream.remove(id(number)), model.remove(&number).is_some());
                    }
                    8 => {
                        let len = number as usize / 3;
                        let removed = model.len().saturating_sub(len);
                        prop_assert!(stream.entries().trimmed(trim(Kept::Len(len))) >= removed);
                        prop_assert_eq!(stream.trim(trim(Kept::Len(len)), &|| ()), removed);
                        for _ in 0..removed {
                            model.pop_first();
                        }
                    }
                    _ => {
                        let left = model.split_off(&number);
                        prop_assert_eq!(stream.trim(trim(Kept::From(id(number))), &|| ()), model.len());
                        model = left;
                    }
                }
                prop_assert_eq!(before, ids(&snapshot));
                prop_assert_eq!(stream.len(), model.len());
                prop_assert_eq!(ids(&stream), model.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(stream.first_id().ms, model.keys().next().copied().unwrap_or(0));
                let edges = stream.entries().first().into_iter().chain(stream.entries().last());
                let expected = model.keys().next().into_iter().chain(model.keys().last());
                prop_assert!(edges.map(|entry| entry.id.ms).eq(expected.copied()));
                for (ms, pairs) in &model {
                    let entry = stream.entries().get(id(*ms)).expect("an entry");
                    prop_assert!(entry.texts().map(Text::as_slice).eq(pairs));
                }
                let (from, to) = (number / 2, number);
                let range = id(from)..=id(to);
                let expected: Vec<_> = model.range(from..=to).map(|(ms, _)| *ms).collect();
                let ascending = stream.entries().range(range.clone()).map(|entry| entry.id.ms);
                prop_assert_eq!(ascending.collect::<Vec<_>>(), expected.clone());
                let descending = stream.entries().range_back(range.clone()).map(|entry| entry.id.ms);
                prop_assert!(descending.eq(expected.iter().rev().copied()));
                for most in [0, 3, 1000] {
                    let count = stream.entries().count(&range, most, &|| ());
                    prop_assert_eq!(count, expected.len().min(most));
                    for is_reverse in [false, true] {
                        let extent = stream.entries().extent(&range, most, is_reverse, 1000);
                        prop_assert!(extent.expect("few blocks").0 >= count);
                    }
                }
            }
        }

        #[test]
        fn groups_know_what_is_pending(
            operations in proptest::collection::vec((0_u8..6, 0_u64..12, 0_usize..3), 0..60),
        ) {
            const NAMES: [&[u8]; 3] = [b"alice", b"bob", b"a consumer with quite a long name"];
            let mut stream = of_ids(1..20);
            stream.add_group(b"g", StreamId::MIN, None);
            let mut model = BTreeMap::new();
            for (kind, number, name) in operations {
                let (ms, name) = (number + 1, NAMES[name]);
                let snapshot = stream.clone();
                let before = snapshot.group(b"g").expect("the group").pending_len();
                let group = stream.group_mut(b"g").expect("the group");
                match kind {
                    0..3 => {
                        group.see_consumer(name, ms);
                        let consumer = Element::from(name);
                        let (delivered_ms, deliveries) = (7, 1);
                        group.assign(Pending { id: id(ms), consumer, delivered_ms, deliveries });
                        model.insert(ms, name);
                    }
                    3 | 4 => {
                        prop_assert_eq!(group.acknowledge(id(ms)), model.remove(&ms).is_some());
                    }
                    _ => {
                        let had = model.len();
                        model.retain(|_, owner| *owner != name);
                        prop_assert_eq!(group.remove_consumer(name, &|| ()), had - model.len());
                        prop_assert!(group.consumer(name).is_none());
                    }
                }
                let group = stream.group(b"g").expect("the group");
                let pending = group.pending_from(StreamId::MIN);
                let pending: Vec<_> = pending.map(|item| (item.id.ms, &*item.consumer)).collect();
                prop_assert_eq!(&pending, &model.iter().map(|(ms, name)| (*ms, *name)).collect::<Vec<_>>());
                let of_consumers: BTreeSet<_> = group
                    .consumers()
                    .flat_map(|consumer| {
                        let pending = consumer.pending_from(StreamId::MIN);
                        pending.map(|id| (id.ms, &**consumer.name())).collect::<Vec<_>>()
                    })
                    .collect();
                prop_assert_eq!(of_consumers, pending.into_iter().collect::<BTreeSet<_>>());
                prop_assert_eq!(snapshot.group(b"g").expect("the group").pending_len(), before);
            }
        }
    }

    #[test]
    fn ids_ascend_whatever_the_clock_does() {
        let mut stream = Stream::new();
        let mut push = |wish| stream.push(wish, &[b"a", b"b"], FEW);
        let at = |ms, seq| Ok(StreamId { ms, seq });
        assert_eq!(push(NewId::At { now_ms: 5 }), at(5, 0));
        assert_eq!(push(NewId::At { now_ms: 5 }), at(5, 1));
        assert_eq!(push(NewId::At { now_ms: 3 }), at(5, 2));
        assert_eq!(push(NewId::Within { ms: 5 }), at(5, 3));
        assert_eq!(push(NewId::Within { ms: 4 }), Err(IdTaken));
        assert_eq!(push(NewId::Within { ms: 6 }), at(6, 0));
        assert_eq!(push(NewId::Exactly(id(6))), Err(IdTaken));
        let last = StreamId { ms: 7, seq: u64::MAX };
        assert_eq!(push(NewId::Exactly(last)), Ok(last));
        assert_eq!(push(NewId::Within { ms: 7 }), Err(IdTaken));
        assert_eq!(push(NewId::At { now_ms: 1 }), at(8, 0));
        assert_eq!(push(NewId::Exactly(StreamId::MAX)), Ok(StreamId::MAX));
        assert_eq!(push(NewId::At { now_ms: 9 }), Err(IdTaken));
    }

    #[test]
    fn a_block_whose_last_entries_are_gone_is_trimmed_as_a_whole() {
        let mut stream = of_ids(1..=8);
        stream.push(NewId::Exactly(id(9)), &[b"a", b"1", b"b", b"2"], FEW).unwrap();
        assert_eq!(stream.entries().last().map(|entry| entry.len()), Some(2));
        stream.remove(id(5));
        assert_eq!(stream.trim(trim(Kept::From(id(5))), &|| ()), 4);
        assert_eq!((ids(&stream), stream.entries().block_count()), (vec![6, 7, 8, 9], 1));
        let within = |limit| Trim { limit, ..trim(Kept::Len(0)) };
        assert_eq!(stream.trim(within(3), &|| ()), 0, "the block has more");
        assert_eq!(stream.trim(within(4), &|| ()), 4);
    }

    #[test]
    fn approximate_trimming_removes_whole_blocks_within_the_limit() {
        let about = |kept, limit| Trim { kept, is_approximate: true, limit };
        let mut stream = of_ids(1..=23);
        assert_eq!(stream.trim(about(Kept::Len(14), 100), &|| ()), 5);
        assert_eq!(stream.trim(about(Kept::From(id(14)), 100), &|| ()), 5);
        assert_eq!(stream.trim(about(Kept::Len(0), 4), &|| ()), 0);
        assert_eq!(stream.trim(about(Kept::Len(0), 9), &|| ()), 5);
        assert_eq!(ids(&stream), (16..=23).collect::<Vec<_>>());
    }

    #[test]
    fn a_lag_is_known_unless_entries_are_missing() {
        let mut stream = of_ids(1..=5);
        stream.add_group(b"g", StreamId::MIN, None);
        let lag = |stream: &Stream| stream.lag(stream.group(b"g").unwrap());
        assert_eq!(lag(&stream), Some(5));
        stream.group_mut(b"g").unwrap().last_id = id(3);
        assert_eq!(lag(&stream), None, "an ID in the middle");
        stream.group_mut(b"g").unwrap().entries_read = Some(3);
        assert_eq!(lag(&stream), Some(2));
        stream.remove(id(4));
        assert_eq!(lag(&stream), None, "a gap ahead");
        stream.group_mut(b"g").unwrap().last_id = id(5);
        assert_eq!(lag(&stream), Some(2), "the counter is believed");
        assert_eq!(stream.0.log.entries_read_at(id(5), None), Some(5));
    }
}
