//! Consumer groups: what was delivered to whom, and has not been acknowledged.
//!
//! ```text
//!   Group ─► pending:   ID ─► consumer, time, deliveries      sorted by ID
//!         └► consumers: name ─► seen, IDs of its pending entries      sorted by name
//! ```

use super::StreamId;
use crate::Element;
use crate::tree::{Item, Tree};

/// A consumer group. A clone is O(1).
#[derive(Clone)]
pub struct Group {
    name: Element,
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// How many entries were delivered of all that the stream ever had; `None` if that is not known.
    pub entries_read: Option<u64>,
    pending: Tree<Vec<Pending>>,
    consumers: Tree<Vec<Consumer>>,
}

/// An entry that was delivered and has not been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The entry, which may have been removed from the stream.
    pub id: StreamId,
    /// Who has to acknowledge it.
    pub consumer: Element,
    /// When it was delivered last, in milliseconds since the Unix epoch.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A consumer of a group.
#[derive(Clone)]
pub struct Consumer {
    name: Element,
    seen_ms: u64,
    active_ms: Option<u64>,
    pending: Tree<Vec<StreamId>>,
}

impl Item for Group {
    type Key = Element;

    fn key(&self) -> &Element {
        &self.name
    }
}

impl Item for Pending {
    type Key = StreamId;

    fn key(&self) -> &StreamId {
        &self.id
    }
}

impl Item for Consumer {
    type Key = Element;

    fn key(&self) -> &Element {
        &self.name
    }
}

impl Item for StreamId {
    type Key = Self;

    fn key(&self) -> &Self {
        self
    }
}

impl Consumer {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Element {
        &self.name
    }

    /// When it last asked for entries, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn seen_ms(&self) -> u64 {
        self.seen_ms
    }

    /// When it last got entries, in milliseconds since the Unix epoch; `None` if it has got none.
    #[must_use]
    pub fn active_ms(&self) -> Option<u64> {
        self.active_ms
    }

    /// Number of entries that it has to acknowledge.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The entries that it has to acknowledge, from `start` on.
    pub fn pending_from(&self, start: StreamId) -> impl ExactSizeIterator<Item = &StreamId> {
        self.pending.range(place(&self.pending, start)..self.pending.len())
    }
}

/// How many items have lower IDs.
fn place<T: Item<Key = StreamId>>(tree: &Tree<Vec<T>>, id: StreamId) -> usize {
    tree.seek(|item: &StreamId| *item < id).0
}

impl Group {
    pub(super) fn new(name: &[u8], last_id: StreamId, entries_read: Option<u64>) -> Self {
        Self {
            name: Element::from(name),
            last_id,
            entries_read,
            pending: Tree::default(),
            consumers: Tree::default(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Element {
        &self.name
    }

    /// Number of entries that have not been acknowledged.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The entry, if it was delivered and has not been acknowledged.
    #[must_use]
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.found(&id)
    }

    /// The entries that have not been acknowledged, from `start` on.
    pub fn pending_from(&self, start: StreamId) -> impl DoubleEndedIterator<Item = &Pending> + ExactSizeIterator {
        self.pending.range(place(&self.pending, start)..self.pending.len())
    }

    /// The consumers by their names.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = &Consumer> {
        self.consumers.iter()
    }

    /// A consumer.
    #[must_use]
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.found(name)
    }

    /// The consumer is there from now on, and was seen at `now_ms`. Returns whether it is new.
    pub fn see_consumer(&mut self, name: &[u8], now_ms: u64) -> bool {
        match self.consumers.place_of(name) {
            Ok(place) => {
                if let Some(consumer) = self.consumers.get_mut_at(&place) {
                    consumer.seen_ms = now_ms;
                }
                false
            }
            Err(place) => {
                let consumer = Consumer {
                    name: Element::from(name),
                    seen_ms: now_ms,
                    active_ms: None,
                    pending: Tree::default(),
                };
                self.consumers.insert_at(&place, consumer);
                true
            }
        }
    }

    /// A consumer, if it is there, has got entries at `active_ms`; `None` says that it never has.
    pub fn set_active(&mut self, name: &[u8], active_ms: Option<u64>) {
        if let Ok(place) = self.consumers.place_of(name)
            && let Some(consumer) = self.consumers.get_mut_at(&place)
        {
            consumer.active_ms = active_ms;
        }
    }

    /// Removes a consumer and what it has to acknowledge, calling `visit` for each. Returns how many these were.
    pub fn remove_consumer(&mut self, name: &[u8], visit: &dyn Fn()) -> usize {
        let Ok(place) = self.consumers.place_of(name) else {
            return 0;
        };
        let consumer = self.consumers.remove_at(&place);
        for id in consumer.pending.iter().inspect(|_| visit()) {
            if let Ok(place) = self.pending.place_of(id) {
                self.pending.remove_at(&place);
            }
        }
        consumer.pending_len()
    }

    /// The entry is pending as `pending` says from now on, whoever had it before. The consumer must be
    /// [there](Self::see_consumer).
    pub fn assign(&mut self, pending: Pending) {
        let (id, consumer) = (pending.id, pending.consumer.clone());
        let before = match self.pending.place_of(&id) {
            Ok(place) => {
                let item = self.pending.get_mut_at(&place);
                item.map(|item| std::mem::replace(item, pending).consumer)
            }
            Err(place) => {
                self.pending.insert_at(&place, pending);
                None
            }
        };
        if before.as_ref() == Some(&consumer) {
            return;
        }
        if let Some(before) = before {
            self.pending_of(&before, |ids| remove(ids, id));
        }
        self.pending_of(&consumer, |ids| {
            if let Err(place) = ids.place_of(&id) {
                ids.insert_at(&place, id);
            }
        });
    }

    /// A pending entry is delivered once more to its consumer, at `now_ms`.
    pub fn redeliver(&mut self, id: StreamId, now_ms: u64) {
        let place = self.pending.place_of(&id);
        if let Some(pending) = place.ok().and_then(|place| self.pending.get_mut_at(&place)) {
            pending.delivered_ms = now_ms as i64;
            pending.deliveries += 1;
        }
    }

    /// Forgets that the entry was delivered. Returns whether it was pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Ok(place) = self.pending.place_of(&id) else {
            return false;
        };
        let pending = self.pending.remove_at(&place);
        self.pending_of(&pending.consumer, |ids| remove(ids, id));
        true
    }

    fn pending_of(&mut self, consumer: &[u8], change: impl FnOnce(&mut Tree<Vec<StreamId>>)) {
        let place = self.consumers.place_of(consumer);
        if let Some(consumer) = place.ok().and_then(|place| self.consumers.get_mut_at(&place)) {
            change(&mut consumer.pending);
        }
    }

    /// Approximate bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let each = size_of::<Pending>() + size_of::<StreamId>();
        size_of::<Self>()
            + self.name.heap_bytes()
            + self.pending.len() * each
            + self.consumers.len() * size_of::<Consumer>()
    }
}

fn remove(ids: &mut Tree<Vec<StreamId>>, id: StreamId) {
    if let Ok(place) = ids.place_of(&id) {
        ids.remove_at(&place);
    }
}
