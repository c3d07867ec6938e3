//! One of the parts that the keys are spread over, with a lock of its own.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::Mutex;
use psp_store::{hash_of, unix_time_ms};

use super::budget::{Lacking, Reservation, Stamp};
use super::item::{Content, End, Item, memory_bytes};
use super::segments::{Segment, Segments};
use super::slots::{Place, Slots};
use super::{Change, SHARD_BITS};

/// Where a key belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hashed {
    pub(super) shard: usize,
    /// Bits of the hash that do not choose the shard.
    tag: u32,
}

impl Hashed {
    pub(super) fn new(hash: u64) -> Self {
        Self {
            shard: (hash >> (u64::BITS - SHARD_BITS)) as usize,
            tag: (hash >> (u32::BITS - SHARD_BITS)) as u32,
        }
    }
}

/// The hash of an index entry: the table takes bits from both ends.
fn spread(tag: u32) -> u64 {
    u64::from(tag) << u32::BITS | u64::from(tag)
}

/// When something happens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) epoch: u32,
    pub(super) now_s: u32,
}

/// What a shard does not need any more, to be dropped without its lock.
#[derive(Debug)]
pub(super) struct Dead {
    /// Bytes to give back to the budget.
    pub(super) memory_bytes: usize,
    _rest: Rest,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held to be dropped")]
enum Rest {
    Item(Item),
    Content(Content),
}

impl From<Item> for Dead {
    fn from(item: Item) -> Self {
        Self {
            memory_bytes: item.memory_bytes(),
            _rest: Rest::Item(item),
        }
    }
}

/// How an update went.
#[derive(Debug)]
pub(super) struct Updated<R> {
    pub(super) result: Result<R, Lacking>,
    pub(super) dead: Option<Dead>,
}

/// Counters and sizes of a cache, or of a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Items now, among them expired ones that nobody has looked at since.
    pub items: u64,
    /// Items now in each [`Segment`].
    pub items_of_segment: [u64; Segment::ALL.len()],
    /// Bytes of memory now in each [`Segment`].
    pub bytes_of_segment: [u64; Segment::ALL.len()],
    /// Unix time in seconds at which the item that is evicted next was last used; 0 without one.
    pub oldest_used_s: u32,
    /// Items ever stored.
    pub items_total: u64,
    /// Live items removed to make room.
    pub evictions: u64,
    /// Of these, items that nobody had read.
    pub evicted_unfetched: u64,
    /// Of these, items that would have expired.
    pub evicted_expiring: u64,
    /// Expired or flushed items whose memory went to another item.
    pub reclaimed: u64,
    /// Expired items that nobody had read.
    pub expired_unfetched: u64,
    /// Items that were expired when a client asked for them.
    pub found_expired: u64,
    /// Items that had been flushed when a client asked for them.
    pub found_flushed: u64,
    /// Expired or flushed items that the reaper removed.
    pub reaped: u64,
    /// Items that the reaper looked at.
    pub inspected: u64,
}

impl CacheStats {
    pub(super) fn plus(self, other: Self) -> Self {
        let sum = |left: [u64; 3], right: [u64; 3]| std::array::from_fn(|i| left[i] + right[i]);
        Self {
            items: self.items + other.items,
            items_of_segment: sum(self.items_of_segment, other.items_of_segment),
            bytes_of_segment: sum(self.bytes_of_segment, other.bytes_of_segment),
            oldest_used_s: match (self.oldest_used_s, other.oldest_used_s) {
                (0, used_s) | (used_s, 0) => used_s,
                (left, right) => left.min(right),
            },
            items_total: self.items_total + other.items_total,
            evictions: self.evictions + other.evictions,
            evicted_unfetched: self.evicted_unfetched + other.evicted_unfetched,
            evicted_expiring: self.evicted_expiring + other.evicted_expiring,
            reclaimed: self.reclaimed + other.reclaimed,
            expired_unfetched: self.expired_unfetched + other.expired_unfetched,
            found_expired: self.found_expired + other.found_expired,
            found_flushed: self.found_flushed + other.found_flushed,
            reaped: self.reaped + other.reaped,
            inspected: self.inspected + other.inspected,
        }
    }
}

// A cache line and its neighbour, which the hardware fetches together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard {
    state: Mutex<State>,
    len: AtomicUsize,
    /// The [`Stamp`] since which the item that is evicted next is in its list.
    oldest: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    index: HashTable<(u32, Place)>,
    slots: Slots,
    segments: Segments,
    /// The last CAS value that was given out.
    cas: u64,
    reaping: Reaping,
    stats: CacheStats,
}

/// What the reaper knows about a shard.
#[derive(Debug, Clone, Copy)]
struct Reaping {
    /// No item that the reaper has passed expires before.
    due_ms: u64,
    /// The epoch to which all older items have been removed.
    epoch: u32,
    /// Where it goes on; 0 when it is not in the midst of the shard.
    place: usize,
}

impl Default for Reaping {
    fn default() -> Self {
        Self {
            due_ms: u64::MAX,
            epoch: 0,
            place: 0,
        }
    }
}

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// How long the item that is evicted next has been in its list; `None` without one.
    pub(super) fn age(&self, now: Stamp) -> Option<u32> {
        let oldest = Stamp(self.oldest.load(Ordering::Relaxed));
        (self.len() > 0).then(|| oldest.age(now))
    }

    pub(super) fn with<R>(
        &self,
        hashed: Hashed,
        key: &[u8],
        now: &Now,
        visit: impl FnOnce(&mut Item) -> R,
    ) -> (Option<R>, Option<Dead>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (place, dead) = state.find_live(hashed, key, now);
        let item = place.and_then(|place| state.slots.slot_mut(place).item.as_mut());
        let result = item.map(|item| visit_in_place(item, &mut state.reaping, visit));
        if dead.is_some() {
            self.publish(state);
        }
        (result, dead)
    }

    pub(super) fn update<R>(
        &self,
        hashed: Hashed,
        key: &[u8],
        now: &Now,
        reserved: &mut Reservation<'_>,
        change: &mut impl FnMut(Option<&mut Item>, u64) -> (Change, R),
    ) -> Updated<R> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (place, mut dead) = state.find_live(hashed, key, now);
        state.cas += 1;
        let cas = state.cas;
        let item = place.and_then(|place| state.slots.slot_mut(place).item.as_mut());
        let (change, result) = match item {
            Some(item) => visit_in_place(item, &mut state.reaping, |item| change(Some(item), cas)),
            None => change(None, cas),
        };
        let stored = match (change, place) {
            (Change::Keep, _) | (Change::Remove, None) => Ok(()),
            (Change::Remove, Some(place)) => {
                dead = state.remove(place).map(Dead::from);
                Ok(())
            }
            (Change::Put(content), Some(place)) => state
                .replace(place, content, now, reserved)
                .map(|old| dead = Some(old)),
            (Change::Put(content), None) => state.insert(hashed, key, content, now, reserved),
        };
        self.publish(state);
        Updated {
            result: stored.map(|()| result),
            dead,
        }
    }

    /// Removes the item that was not used for longest; those that are expired or flushed count as
    /// reclaimed.
    pub(super) fn evict(&self, now: &Now, stamp: Stamp) -> Option<Dead> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let place = state.segments.victim(&mut state.slots, stamp)?;
        let item = state.remove(place)?;
        let stats = &mut state.stats;
        if item.end(now.epoch).is_some() {
            stats.reclaimed += 1;
        } else {
            stats.evictions += 1;
            stats.evicted_unfetched += u64::from(!item.is_fetched());
            stats.evicted_expiring += u64::from(item.content.expire_at_ms.is_some());
        }
        self.publish(state);
        Some(item.into())
    }

    pub(super) fn stats(&self) -> CacheStats {
        let mut state = self.state.lock();
        let state = &mut *state;
        let sizes = state.segments.sizes();
        let oldest = state.segments.oldest();
        CacheStats {
            items: state.index.len() as u64,
            items_of_segment: sizes.map(|(len, _)| len as u64),
            bytes_of_segment: sizes.map(|(_, bytes)| bytes as u64),
            oldest_used_s: oldest
                .and_then(|place| state.slots.item(place))
                .map_or(0, Item::used_s),
            ..state.stats
        }
    }

    /// Copies the live items of up to `count` places from `place` on into `found`. Returns the place
    /// to go on with; `None` after the last.
    pub(super) fn copy(
        &self,
        place: usize,
        count: usize,
        now: &Now,
        found: &mut Vec<Item>,
    ) -> Option<usize> {
        if self.len() == 0 {
            return None;
        }
        let state = self.state.lock();
        let end = state.slots.len().min(place + count);
        let items = (place..end).filter_map(|place| state.slots.item(place as Place));
        found.extend(items.filter(|item| item.end(now.epoch).is_none()).cloned());
        (end < state.slots.len()).then_some(end)
    }

    /// Removes what is expired or flushed among the next `count` places, if there can be such items
    /// at all. `None` when the shard needs no more of it for now.
    pub(super) fn reap(&self, count: usize, now: &Now) -> Option<Vec<Dead>> {
        if self.len() == 0 {
            return None;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        let start = state.reaping.place;
        if start == 0 {
            if state.reaping.due_ms > unix_time_ms() && state.reaping.epoch == now.epoch {
                return None;
            }
            // Items that are stored or passed from here on lower it again.
            state.reaping.due_ms = u64::MAX;
            state.reaping.epoch = now.epoch;
        }
        let end = state.slots.len().min(start + count);
        let mut dead = Vec::new();
        for place in start..end {
            let place = place as Place;
            let Some(item) = state.slots.item(place) else {
                continue;
            };
            state.stats.inspected += 1;
            match item.end(now.epoch) {
                Some(end) => {
                    state.count_expired(place, end);
                    state.stats.reaped += 1;
                    dead.extend(state.remove(place).map(Dead::from));
                }
                None => state.reaping.note_expiry(item.content.expire_at_ms),
            }
        }
        state.reaping.place = if end < state.slots.len() { end } else { 0 };
        self.publish(state);
        Some(dead)
    }

    fn publish(&self, state: &State) {
        let len = state.index.len();
        if self.len() != len {
            self.len.store(len, Ordering::Relaxed);
        }
        let oldest = state.segments.oldest();
        let since = oldest.map_or(Stamp::default(), |place| state.slots.links(place).since);
        if self.oldest.load(Ordering::Relaxed) != since.0 {
            self.oldest.store(since.0, Ordering::Relaxed);
        }
    }
}

/// Lets `visit` change an item, whose expiry may then be another.
fn visit_in_place<R>(
    item: &mut Item,
    reaping: &mut Reaping,
    visit: impl FnOnce(&mut Item) -> R,
) -> R {
    let before = item.memory_bytes();
    let result = visit(item);
    debug_assert_eq!(item.memory_bytes(), before, "changed in place");
    reaping.note_expiry(item.content.expire_at_ms);
    result
}

impl Reaping {
    fn note_expiry(&mut self, expire_at_ms: Option<u64>) {
        if let Some(expire_at_ms) = expire_at_ms {
            self.due_ms = self.due_ms.min(expire_at_ms);
        }
    }
}

impl State {
    /// The place of the key's item, if that is alive; otherwise it is removed.
    fn find_live(
        &mut self,
        hashed: Hashed,
        key: &[u8],
        now: &Now,
    ) -> (Option<Place>, Option<Dead>) {
        let Some(place) = self.find(hashed, key) else {
            return (None, None);
        };
        let Some(end) = self.slots.item(place).and_then(|item| item.end(now.epoch)) else {
            return (Some(place), None);
        };
        self.count_expired(place, end);
        match end {
            End::Flushed => self.stats.found_flushed += 1,
            End::Expired => self.stats.found_expired += 1,
        }
        (None, self.remove(place).map(Dead::from))
    }

    fn find(&self, hashed: Hashed, key: &[u8]) -> Option<Place> {
        let is_key = |place: Place| self.slots.item(place).is_some_and(|item| item.key() == key);
        let found = self.index.find(spread(hashed.tag), |(tag, place)| {
            *tag == hashed.tag && is_key(*place)
        });
        found.map(|(_, place)| *place)
    }

    fn insert(
        &mut self,
        hashed: Hashed,
        key: &[u8],
        content: Content,
        now: &Now,
        reserved: &mut Reservation<'_>,
    ) -> Result<(), Lacking> {
        self.reaping.note_expiry(content.expire_at_ms);
        let item = Item::new(key, content, now.epoch, now.now_s);
        let stamp = reserved.spend(item.memory_bytes())?;
        let place = self.slots.insert(item);
        self.segments
            .push(&mut self.slots, place, Segment::Hot, stamp);
        self.segments.settle(&mut self.slots, stamp);
        self.index
            .insert_unique(spread(hashed.tag), (hashed.tag, place), |(tag, _)| {
                spread(*tag)
            });
        self.stats.items_total += 1;
        Ok(())
    }

    fn replace(
        &mut self,
        place: Place,
        content: Content,
        now: &Now,
        reserved: &mut Reservation<'_>,
    ) -> Result<Dead, Lacking> {
        let slot = self.slots.slot_mut(place);
        let segment = slot.links.segment;
        let item = slot
            .item
            .as_mut()
            .expect("a place that was found has an item");
        let before = item.memory_bytes();
        let after = memory_bytes(item.key_heap_bytes(), &content);
        let stamp = reserved.spend(after)?;
        self.reaping.note_expiry(content.expire_at_ms);
        let old = item.replace(content, now.epoch, now.now_s);
        self.segments.resized(segment, before, after);
        self.segments.unlink(&mut self.slots, place);
        self.segments.push(&mut self.slots, place, segment, stamp);
        self.segments.settle(&mut self.slots, stamp);
        self.stats.items_total += 1;
        Ok(Dead {
            memory_bytes: before,
            _rest: Rest::Content(old),
        })
    }

    fn remove(&mut self, place: Place) -> Option<Item> {
        let tag = Hashed::new(hash_of(self.slots.item(place)?.key())).tag;
        if let Ok(entry) = self
            .index
            .find_entry(spread(tag), |(_, other)| *other == place)
        {
            entry.remove();
        }
        self.segments.unlink(&mut self.slots, place);
        self.slots.remove(place)
    }

    fn count_expired(&mut self, place: Place, end: End) {
        let fetched = self.slots.item(place).is_some_and(Item::is_fetched);
        self.stats.expired_unfetched += u64::from(end == End::Expired && !fetched);
    }
}

#[cfg(test)]
impl Shard {
    /// Checks that all parts agree on what items there are; their bytes.
    pub(super) fn check(&self) -> usize {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut bytes = 0;
        let mut listed = 0;
        for (segment, (len, segment_bytes)) in Segment::ALL.into_iter().zip(state.segments.sizes())
        {
            let places = state.segments.places(&mut state.slots, segment);
            let items = places.iter().map(|place| state.slots.item(*place));
            let sum: usize = items
                .map(|item| item.expect("a listed item").memory_bytes())
                .sum();
            assert_eq!((places.len(), sum), (len, segment_bytes));
            for place in places {
                let item = state.slots.item(place).expect("a listed item");
                assert_eq!(
                    state.find(Hashed::new(hash_of(item.key())), item.key()),
                    Some(place)
                );
            }
            listed += len;
            bytes += sum;
        }
        assert_eq!((state.index.len(), self.len()), (listed, listed));
        bytes
    }
}
