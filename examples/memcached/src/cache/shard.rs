//! One of the shards that the keys are spread over, with its own lock.

use std::num::NonZeroU64;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::clock::now_ms;

use super::budget::{Lacking, Reservation, Stamp};
use super::index::Index;
use super::item::{Content, End, Item};
use super::segments::{Moves, Segment, Segments};
use super::slots::{SlotIndex, Slots};
use super::{Change, SHARD_BITS};

/// Most items that move to other slots under one lock.
const MOVES_PER_LOCK: usize = 64;

/// The hash of a key, which chooses its shard.
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

/// The time of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) epoch: u32,
    pub(super) now_s: u32,
}

/// Memory that a shard no longer needs, to be dropped after its lock is released.
#[derive(Debug)]
pub(super) struct Dead {
    /// Bytes to return to the budget.
    pub(super) memory_bytes: usize,
    /// Kept until it is dropped.
    _content: Content,
}

impl From<Content> for Dead {
    fn from(content: Content) -> Self {
        Self { memory_bytes: content.memory_bytes(), _content: content }
    }
}

impl From<Item> for Dead {
    fn from(item: Item) -> Self {
        item.content.into()
    }
}

/// The outcome of an update.
#[derive(Debug)]
pub(super) struct Updated<R> {
    pub(super) result: Result<R, Lacking>,
    pub(super) dead: Option<Dead>,
}

/// Counters and sizes of a cache, or of a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Current items, including expired ones that have not been removed yet.
    pub items: u64,
    /// Current items in each [`Segment`].
    pub items_of_segment: [u64; Segment::ALL.len()],
    /// Current bytes of memory in each [`Segment`].
    pub bytes_of_segment: [u64; Segment::ALL.len()],
    /// When the oldest item of each [`Segment`] was last used, in seconds by [`now_ms`]; 0 if there is none.
    pub oldest_used_s: [u32; Segment::ALL.len()],
    /// Uses of items in each [`Segment`].
    pub hits_of_segment: [u64; Segment::ALL.len()],
    /// Moves of items between the lists.
    pub moves: Moves,
    /// Items ever stored.
    pub items_total: u64,
    /// Live items removed to make room.
    pub evictions: u64,
    /// Evicted items that no client had read.
    pub evicted_unfetched: u64,
    /// Evicted items that had an expiry time.
    pub evicted_expiring: u64,
    /// Evicted items that were used again since they came to their list.
    pub evicted_active: u64,
    /// When an item was last evicted, and how long no client had used it, in seconds by [`now_ms`].
    pub last_evicted_s: (u32, u32),
    /// Expired or flushed items that were removed, by whatever found them.
    pub reclaimed: u64,
    /// Expired items that no client had read.
    pub expired_unfetched: u64,
    /// Items that had expired when a client requested them.
    pub found_expired: u64,
    /// Items that had been flushed when a client requested them.
    pub found_flushed: u64,
    /// Expired or flushed items that the reaper removed.
    pub reaped: u64,
    /// Items that the reaper examined.
    pub inspected: u64,
}

impl CacheStats {
    pub(super) fn plus(self, other: Self) -> Self {
        let sum = |left: [u64; 3], right: [u64; 3]| std::array::from_fn(|i| left[i] + right[i]);
        Self {
            items: self.items + other.items,
            items_of_segment: sum(self.items_of_segment, other.items_of_segment),
            bytes_of_segment: sum(self.bytes_of_segment, other.bytes_of_segment),
            oldest_used_s: std::array::from_fn(|i| match (self.oldest_used_s[i], other.oldest_used_s[i]) {
                (0, used_s) | (used_s, 0) => used_s,
                (left, right) => left.min(right),
            }),
            hits_of_segment: sum(self.hits_of_segment, other.hits_of_segment),
            moves: self.moves.plus(other.moves),
            items_total: self.items_total + other.items_total,
            evictions: self.evictions + other.evictions,
            evicted_unfetched: self.evicted_unfetched + other.evicted_unfetched,
            evicted_expiring: self.evicted_expiring + other.evicted_expiring,
            evicted_active: self.evicted_active + other.evicted_active,
            last_evicted_s: self.last_evicted_s.max(other.last_evicted_s),
            reclaimed: self.reclaimed + other.reclaimed,
            expired_unfetched: self.expired_unfetched + other.expired_unfetched,
            found_expired: self.found_expired + other.found_expired,
            found_flushed: self.found_flushed + other.found_flushed,
            reaped: self.reaped + other.reaped,
            inspected: self.inspected + other.inspected,
        }
    }
}

// A cache line and its neighbour: the hardware fetches both together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard {
    state: Mutex<State>,
    outline: Outline,
    /// How many walks need the items to stay in their slots.
    walks: AtomicUsize,
}

/// While it exists, the items of a shard stay in their slots.
#[derive(Debug)]
pub(super) struct Walk<'a>(&'a Shard);

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.0.walks.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What evictions read of a shard without its lock.
#[derive(Debug, Default)]
struct Outline {
    len: AtomicUsize,
    /// The bytes of each list.
    bytes: [AtomicUsize; Segment::ALL.len()],
    /// The [`Stamp`] at which the oldest item of each list entered it.
    since: [AtomicU32; Segment::ALL.len()],
}

#[derive(Debug, Default)]
struct State {
    index: Index,
    slots: Slots,
    segments: Segments,
    /// The last CAS value issued.
    cas: u64,
    reaping: Reaping,
    stats: CacheStats,
}

/// The reaper's state for a shard.
#[derive(Debug, Clone, Copy)]
struct Reaping {
    /// No item that the reaper has examined expires before this time.
    due_ms: u64,
    /// The epoch up to which all older items have been removed.
    epoch: u32,
    /// The next slot to examine; 0 if no round is under way in this shard.
    next_slot: usize,
}

impl Default for Reaping {
    fn default() -> Self {
        Self { due_ms: u64::MAX, epoch: 0, next_slot: 0 }
    }
}

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.outline.len.load(Ordering::Relaxed)
    }

    /// Bytes of a list.
    pub(super) fn bytes_of(&self, segment: Segment) -> usize {
        self.outline.bytes[segment as usize].load(Ordering::Relaxed)
    }

    /// How long the oldest item of a list has been there; `None` if there is none.
    pub(super) fn age_of(&self, segment: Segment, now: Stamp) -> Option<u32> {
        let since = Stamp(self.outline.since[segment as usize].load(Ordering::Relaxed));
        (self.bytes_of(segment) > 0).then(|| since.age(now))
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
        let (slot_index, dead) = state.find_live(hashed, key, now);
        let result = slot_index.and_then(|slot_index| {
            let slot = state.slots.slot_mut(slot_index);
            let item = slot.item.as_mut()?;
            let result = visit_in_place(item, &mut state.reaping, visit);
            let hits = &mut state.stats.hits_of_segment[slot.links.segment as usize];
            *hits += u64::from(item.take_hit());
            Some(result)
        });
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
        let (slot_index, mut dead) = state.find_live(hashed, key, now);
        state.cas += 1;
        let cas = state.cas;
        let item = slot_index.and_then(|slot_index| state.slots.slot_mut(slot_index).item.as_mut());
        let (change, result) = match item {
            Some(item) => visit_in_place(item, &mut state.reaping, |item| change(Some(item), cas)),
            None => change(None, cas),
        };
        let stored = match (change, slot_index) {
            (Change::Keep, _) | (Change::Remove, None) => Ok(()),
            (Change::Remove, Some(slot_index)) => {
                dead = state.remove(slot_index).map(Dead::from);
                Ok(())
            }
            (Change::Put(content), Some(slot_index)) => {
                state.replace(slot_index, content, now, reserved).map(|old| dead = Some(old))
            }
            (Change::Put(content), None) => state.insert(hashed, key, content, now, reserved),
        };
        self.publish(state);
        Updated { result: stored.map(|()| result), dead }
    }

    /// Moves the oldest item of a list on.
    pub(super) fn demote(&self, segment: Segment, stamp: Stamp) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.segments.demote(&mut state.slots, segment, stamp);
        self.publish(state);
    }

    /// Removes the oldest item of a list. An expired or flushed one counts as reclaimed. Moves one that was used again
    /// to warm instead, and removes nothing, unless `spares` says otherwise.
    pub(super) fn evict(&self, segment: Segment, now: &Now, stamp: Stamp, spares: bool) -> Option<Dead> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let slot_index = state.segments.oldest_of(segment)?;
        let is_dead = state.slots.item(slot_index)?.end(now.epoch).is_some();
        if spares && !is_dead && state.segments.spare(&mut state.slots, slot_index, stamp) {
            self.publish(state);
            return None;
        }
        let item = state.remove(slot_index)?;
        let stats = &mut state.stats;
        if is_dead {
            stats.reclaimed += 1;
        } else {
            stats.evictions += 1;
            stats.evicted_unfetched += u64::from(!item.is_fetched());
            stats.evicted_expiring += u64::from(item.content.expire_at_ms.is_some());
            stats.evicted_active += u64::from(item.is_active());
            stats.last_evicted_s = (now.now_s, now.now_s.saturating_sub(item.used_s()));
        }
        self.publish(state);
        Some(item.into())
    }

    pub(super) fn stats(&self) -> CacheStats {
        let mut state = self.state.lock();
        let state = &mut *state;
        let sizes = state.segments.sizes();
        let used_s = |segment| {
            let oldest = state.segments.oldest_of(segment)?;
            state.slots.item(oldest).map(Item::used_s)
        };
        CacheStats {
            items: state.slots.items() as u64,
            items_of_segment: sizes.map(|(len, _)| len as u64),
            bytes_of_segment: sizes.map(|(_, bytes)| bytes as u64),
            oldest_used_s: Segment::ALL.map(|segment| used_s(segment).unwrap_or(0)),
            moves: state.segments.moves(),
            ..state.stats
        }
    }

    /// Keeps the items in their slots for a walk.
    pub(super) fn walk(&self) -> Walk<'_> {
        // Who moves an item after the walk has held the lock sees the walk.
        self.walks.fetch_add(1, Ordering::Relaxed);
        Walk(self)
    }

    /// Copies the live items of `count` slots from `start` on into `found`. Returns the slot at which
    /// to continue; `None` after the last.
    pub(super) fn copy(&self, start: usize, count: usize, now: &Now, found: &mut Vec<Item>) -> Option<usize> {
        if self.len() == 0 {
            return None;
        }
        let state = self.state.lock();
        let end = state.slots.len().min(start + count);
        let items = (start..end).filter_map(|slot_index| state.slots.item(slot_index as SlotIndex));
        found.extend(items.filter(|item| item.end(now.epoch).is_none()).cloned());
        (end < state.slots.len()).then_some(end)
    }

    /// Removes expired or flushed items from the next `count` slots, if the shard may have any.
    /// Returns `None` if the shard needs no more reaping for now.
    pub(super) fn reap(&self, count: usize, now: &Now) -> Option<Vec<Dead>> {
        if self.len() == 0 {
            return None;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        let start = state.reaping.next_slot;
        if start == 0 {
            if state.reaping.due_ms > now_ms() && state.reaping.epoch == now.epoch {
                return None;
            }
            // Items that are stored or examined from here on lower it again.
            state.reaping.due_ms = u64::MAX;
            state.reaping.epoch = now.epoch;
        }
        let end = state.slots.len().min(start + count);
        let mut dead = Vec::new();
        for slot_index in start..end {
            let slot_index = slot_index as SlotIndex;
            let Some(item) = state.slots.item(slot_index) else {
                continue;
            };
            state.stats.inspected += 1;
            match item.end(now.epoch) {
                Some(end) => {
                    state.count_expired(slot_index, end);
                    state.stats.reaped += 1;
                    state.stats.reclaimed += 1;
                    dead.extend(state.remove(slot_index).map(Dead::from));
                }
                None => state.reaping.note_expiry(item.content.expire_at_ms),
            }
        }
        state.reaping.next_slot = if end < state.slots.len() { end } else { 0 };
        self.publish(state);
        Some(dead)
    }

    /// Copies the items of slots from `start` on to fresh memory, until about `bytes` are copied. Returns the
    /// slot at which to continue, `None` after the last, and the number of bytes.
    pub(super) fn relocate(&self, start: usize, bytes: usize) -> (Option<usize>, usize) {
        if self.len() == 0 {
            return (None, 0);
        }
        // Dropped after the lock is released.
        let mut old = Vec::new();
        let mut copied = 0;
        let mut state = self.state.lock();
        let mut slot_index = start;
        while slot_index < state.slots.len() && copied < bytes {
            if let Some((len, value)) = state.slots.relocate(slot_index as SlotIndex) {
                old.push(value);
                copied += len;
            }
            slot_index += 1;
        }
        let next = (slot_index < state.slots.len()).then_some(slot_index);
        drop(state);
        (next, copied)
    }

    /// Ends a change.
    fn publish(&self, state: &mut State) {
        if state.slots.is_sparse() && self.walks.load(Ordering::Relaxed) == 0 {
            state.move_together();
        }
        let Outline { len, bytes, since } = &self.outline;
        write(len, state.slots.items());
        for (shared, (_, of_list)) in bytes.iter().zip(state.segments.sizes()) {
            write(shared, of_list);
        }
        for (shared, Stamp(of_list)) in since.iter().zip(state.segments.oldest_since()) {
            if shared.load(Ordering::Relaxed) != of_list {
                shared.store(of_list, Ordering::Relaxed);
            }
        }
    }
}

/// Stores a value that others read, unless it is the same: their copy of it then stays valid.
fn write(shared: &AtomicUsize, value: usize) {
    if shared.load(Ordering::Relaxed) != value {
        shared.store(value, Ordering::Relaxed);
    }
}

/// Lets `visit` change an item, including its expiry.
fn visit_in_place<R>(item: &mut Item, reaping: &mut Reaping, visit: impl FnOnce(&mut Item) -> R) -> R {
    let before = item.memory_bytes();
    let result = visit(item);
    debug_assert_eq!(item.memory_bytes(), before, "a change in place must keep the length");
    reaping.note_expiry(item.content.expire_at_ms);
    result
}

impl Reaping {
    fn note_expiry(&mut self, expire_at_ms: Option<NonZeroU64>) {
        if let Some(expire_at_ms) = expire_at_ms {
            self.due_ms = self.due_ms.min(expire_at_ms.get());
        }
    }
}

impl State {
    /// The slot index of the key's item. Removes the item instead if it has expired or was flushed.
    fn find_live(&mut self, hashed: Hashed, key: &[u8], now: &Now) -> (Option<SlotIndex>, Option<Dead>) {
        let Some(slot_index) = self.find(hashed, key) else {
            return (None, None);
        };
        let Some(end) = self.slots.item(slot_index).and_then(|item| item.end(now.epoch)) else {
            return (Some(slot_index), None);
        };
        self.count_expired(slot_index, end);
        self.stats.reclaimed += 1;
        match end {
            End::Flushed => self.stats.found_flushed += 1,
            End::Expired => self.stats.found_expired += 1,
        }
        (None, self.remove(slot_index).map(Dead::from))
    }

    fn find(&self, hashed: Hashed, key: &[u8]) -> Option<SlotIndex> {
        self.index.find(&self.slots, hashed.tag, |item| item.key() == key)
    }

    fn insert(
        &mut self,
        hashed: Hashed,
        key: &[u8],
        content: Content,
        now: &Now,
        reserved: &mut Reservation<'_>,
    ) -> Result<(), Lacking> {
        debug_assert_eq!(content.value.key(), key);
        self.reaping.note_expiry(content.expire_at_ms);
        let item = Item::new(content, now.epoch, now.now_s, hashed.tag);
        let stamp = reserved.spend(item.memory_bytes())?;
        let slot_index = self.slots.insert(item);
        self.segments.push(&mut self.slots, slot_index, Segment::Hot, stamp);
        self.segments.move_excess_items(&mut self.slots, stamp);
        self.index.insert(&self.slots, slot_index);
        self.stats.items_total += 1;
        Ok(())
    }

    fn replace(
        &mut self,
        slot_index: SlotIndex,
        content: Content,
        now: &Now,
        reserved: &mut Reservation<'_>,
    ) -> Result<Dead, Lacking> {
        let stamp = reserved.spend(content.memory_bytes())?;
        self.reaping.note_expiry(content.expire_at_ms);
        self.segments.unlink(&mut self.slots, slot_index);
        let slot = self.slots.slot_mut(slot_index);
        let segment = slot.links.segment;
        let item = slot.item.as_mut();
        let item = item.expect("a slot that was found has an item");
        let old = item.replace(content, now.epoch, now.now_s);
        self.segments.push(&mut self.slots, slot_index, segment, stamp);
        self.segments.move_excess_items(&mut self.slots, stamp);
        self.stats.items_total += 1;
        Ok(old.into())
    }

    fn remove(&mut self, slot_index: SlotIndex) -> Option<Item> {
        self.slots.item(slot_index)?;
        self.index.remove(&self.slots, slot_index);
        self.segments.unlink(&mut self.slots, slot_index);
        let item = self.slots.remove(slot_index);
        self.index.shrink(&self.slots);
        item
    }

    /// Moves items from the last slots to free ones.
    fn move_together(&mut self) {
        for _ in 0..MOVES_PER_LOCK {
            if !self.slots.is_sparse() {
                return;
            }
            let Some((from, to)) = self.slots.move_last() else {
                return;
            };
            self.index.moved(&self.slots, from, to);
            self.segments.moved(&mut self.slots, to);
            if self.reaping.next_slot > 0 {
                // The item may have passed by the reaper, who comes again for it.
                self.reaping.due_ms = 0;
            }
        }
    }

    fn count_expired(&mut self, slot_index: SlotIndex, end: End) {
        let fetched = self.slots.item(slot_index).is_some_and(Item::is_fetched);
        self.stats.expired_unfetched += u64::from(end == End::Expired && !fetched);
    }
}

#[cfg(test)]
impl Shard {
    /// Checks that index, slots and lists agree. Returns the bytes of all items.
    pub(super) fn check(&self) -> usize {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut bytes = 0;
        let mut listed = 0;
        for (segment, (len, segment_bytes)) in Segment::ALL.into_iter().zip(state.segments.sizes()) {
            let indices = state.segments.indices(&mut state.slots, segment);
            let items = indices.iter().map(|slot_index| state.slots.item(*slot_index));
            let sum: usize = items.map(|item| item.expect("a listed item").memory_bytes()).sum();
            assert_eq!((indices.len(), sum), (len, segment_bytes));
            for slot_index in indices {
                let item = state.slots.item(slot_index).expect("a listed item");
                assert_eq!(state.find(Hashed::new(psp_store::hash_of(item.key())), item.key()), Some(slot_index));
            }
            listed += len;
            bytes += sum;
        }
        assert_eq!((state.slots.items(), self.len()), (listed, listed));
        bytes
    }
}
