//! One item: the content that its client stored, and the cache's own data about it.

use std::num::{NonZeroU32, NonZeroU64};

use crate::clock::now_ms;

use super::index::ENTRY_LEN;
use super::slots::SLOT_LEN;
use super::value::Value;

/// The content of an item: all parts that its client sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The data, and the key.
    pub value: Value,
    /// Opaque to the server.
    pub flags: u32,
    /// When the item expires, by [`now_ms`].
    pub expire_at_ms: Option<NonZeroU64>,
    /// A number that changes with every change of the item.
    pub cas: u64,
    /// See [`Mark`].
    pub marks: Marks,
}

/// What else replies tell of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The client gave the key in base64, and replies show it in base64.
    BinaryKey,
    /// A newer value exists elsewhere.
    Stale,
    /// The server has told a client to fetch the newer value.
    TokenSent,
}

/// The marks of a content, and the epoch in which it was stored, in few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks(NonZeroU32);

impl Marks {
    /// Lowest bit of the epoch. Below are the marks, and a bit that is always set, which leaves 0 to vacant slots.
    const EPOCH: u32 = 4;

    /// The same marks in another epoch.
    fn in_epoch(self, epoch: u32) -> Self {
        let marks = self.0.get() & ((1 << Self::EPOCH) - 1);
        Self(NonZeroU32::MIN | marks | epoch << Self::EPOCH)
    }

    const fn bit(mark: Mark) -> u32 {
        2 << mark as u32
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

impl Content {
    /// A content with only a value.
    #[must_use]
    pub fn new(value: Value, cas: u64) -> Self {
        Self {
            value,
            flags: 0,
            expire_at_ms: None,
            cas,
            marks: Marks::default(),
        }
    }

    /// Whether the content has a mark.
    #[must_use]
    pub const fn has(&self, mark: Mark) -> bool {
        self.marks.0.get() & Marks::bit(mark) != 0
    }

    /// Sets or clears a mark.
    pub fn mark(&mut self, mark: Mark, is_set: bool) {
        let others = self.marks.0.get() & !Marks::bit(mark);
        let bit = u32::from(is_set) * Marks::bit(mark);
        self.marks.0 = NonZeroU32::MIN | others | bit;
    }

    /// The content with or without a mark.
    #[must_use]
    pub fn with(mut self, mark: Mark, is_set: bool) -> Self {
        self.mark(mark, is_set);
        self
    }

    /// Bytes of memory of an item with this content, including its entries in the cache's tables.
    pub(super) fn memory_bytes(&self) -> usize {
        SLOT_LEN + ENTRY_LEN + self.value.held_bytes()
    }

    /// Milliseconds until the item expires; `None` if it does not.
    #[must_use]
    pub fn ttl_ms(&self) -> Option<u64> {
        let expire_at_ms = self.expire_at_ms?;
        Some(expire_at_ms.get().saturating_sub(now_ms()))
    }
}

/// A stored item.
#[derive(Debug, Clone)]
pub struct Item {
    /// The content that a client stored. The length of its value must not change.
    pub content: Content,
    uses: Uses,
    tag: u32,
}

/// When an item was last stored or used, in seconds, and marks of its uses, in few bytes.
#[derive(Debug, Clone, Copy)]
struct Uses(u32);

impl Uses {
    /// The item was ever read.
    const FETCHED: u32 = 1;
    /// The item was used again since it came to its list.
    const ACTIVE: u32 = 1 << 1;
    /// The present visit uses the item.
    const HIT: u32 = 1 << 2;
    const MARKS: u32 = 3;

    /// Without marks.
    const fn at(used_s: u32) -> Self {
        Self(used_s << Self::MARKS)
    }

    const fn used_s(self) -> u32 {
        self.0 >> Self::MARKS
    }

    const fn has(self, mark: u32) -> bool {
        self.0 & mark != 0
    }

    const fn with(self, mark: u32, is_set: bool) -> Self {
        match is_set {
            true => Self(self.0 | mark),
            false => Self(self.0 & !mark),
        }
    }
}

impl Item {
    pub(super) fn new(mut content: Content, epoch: u32, now_s: u32, tag: u32) -> Self {
        content.marks = content.marks.in_epoch(epoch);
        Self { content, uses: Uses::at(now_s), tag }
    }

    /// Replaces the content. Returns the old one.
    pub(super) fn replace(&mut self, mut content: Content, epoch: u32, now_s: u32) -> Content {
        self.uses = Uses::at(now_s).with(Uses::ACTIVE, self.is_active());
        content.marks = content.marks.in_epoch(epoch);
        std::mem::replace(&mut self.content, content)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.content.value.key()
    }

    /// A part of the key's hash.
    pub(super) fn tag(&self) -> u32 {
        self.tag
    }

    /// When the item was last stored or used, in seconds by [`now_ms`].
    #[must_use]
    pub fn used_s(&self) -> u32 {
        self.uses.used_s()
    }

    /// Whether the item was ever read.
    #[must_use]
    pub fn is_fetched(&self) -> bool {
        self.uses.has(Uses::FETCHED)
    }

    /// Bytes of memory that the item takes, including its entries in the cache's tables.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.content.memory_bytes()
    }

    /// Records a use of the item at `now_s`. From the second use on, the item qualifies for warm.
    pub fn mark_used(&mut self, now_s: u32) {
        self.uses = Uses::at(now_s)
            .with(Uses::ACTIVE, self.is_fetched())
            .with(Uses::FETCHED | Uses::HIT, true);
    }

    /// Whether the item was used again since it came to its list.
    pub(super) fn is_active(&self) -> bool {
        self.uses.has(Uses::ACTIVE)
    }

    /// The item has come to another list.
    pub(super) fn clear_active(&mut self) {
        self.uses = self.uses.with(Uses::ACTIVE, false);
    }

    /// Whether the visit that ends used the item.
    pub(super) fn take_hit(&mut self) -> bool {
        let is_hit = self.uses.has(Uses::HIT);
        self.uses = self.uses.with(Uses::HIT, false);
        is_hit
    }

    /// Why clients can no longer see the item; `None` if they can.
    pub(super) fn end(&self, epoch: u32) -> Option<End> {
        let marks = self.content.marks;
        if marks != marks.in_epoch(epoch) {
            return Some(End::Flushed);
        }
        self.content
            .expire_at_ms
            .is_some_and(|expire_at_ms| expire_at_ms.get() <= now_ms())
            .then_some(End::Expired)
    }
}

/// Why an item is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Flushed,
    Expired,
}
