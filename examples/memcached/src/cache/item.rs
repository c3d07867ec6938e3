//! One item: the content that its client stored, and the cache's own data about it.

use std::num::NonZeroU64;

use psp_store::Element;

use crate::clock::now_ms;

use super::held::{SMALL_LEN_MAX, held_bytes};
use super::slots::SLOT_LEN;

/// Bytes of an item's entry in its shard's index: entry and control byte in a table at its lowest
/// load.
const INDEX_LEN: usize = 20;

/// Bytes in front of a byte string outside an item.
const REFERENCE_COUNTS_LEN: usize = 2 * size_of::<usize>();

/// The content of an item: all parts that its client sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The data.
    pub value: Element,
    /// Opaque to the server.
    pub flags: u32,
    /// When the item expires, by [`now_ms`].
    pub expire_at_ms: Option<NonZeroU64>,
    /// A number that changes with every change of the item.
    pub cas: u64,
    /// The client gave the key in base64, and replies show it in base64.
    pub binary_key: bool,
    /// A newer value exists elsewhere.
    pub stale: bool,
    /// The server has told a client to fetch the newer value.
    pub token_sent: bool,
}

impl Content {
    /// A content with only a value.
    #[must_use]
    pub fn new(value: Element, cas: u64) -> Self {
        Self {
            value,
            flags: 0,
            expire_at_ms: None,
            cas,
            binary_key: false,
            stale: false,
            token_sent: false,
        }
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
    key: Element,
    /// The content that a client stored. The length of its value must not change.
    pub content: Content,
    epoch: u32,
    uses: Uses,
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
    pub(super) fn new(key: &[u8], content: Content, epoch: u32, now_s: u32) -> Self {
        Self {
            key: Element::from(key),
            content,
            epoch,
            uses: Uses::at(now_s),
        }
    }

    /// Replaces the content. Returns the old one.
    pub(super) fn replace(&mut self, content: Content, epoch: u32, now_s: u32) -> Content {
        self.uses = Uses::at(now_s).with(Uses::ACTIVE, self.is_active());
        self.epoch = epoch;
        std::mem::replace(&mut self.content, content)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn key_held_bytes(&self) -> usize {
        element_held_bytes(&self.key)
    }

    /// The item in fresh memory. A value with pages of its own stays where it is.
    pub(super) fn relocated(&self) -> Self {
        let mut item = self.clone();
        for element in [&mut item.key, &mut item.content.value] {
            if element_held_bytes(element) <= SMALL_LEN_MAX {
                *element = Element::from(element.as_slice());
            }
        }
        item
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
        memory_bytes(self.key_held_bytes(), &self.content)
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
        if self.epoch != epoch {
            return Some(End::Flushed);
        }
        self.content
            .expire_at_ms
            .is_some_and(|expire_at_ms| expire_at_ms.get() <= now_ms())
            .then_some(End::Expired)
    }
}

/// Bytes of memory of an item whose key takes `key_bytes` outside the item.
pub(super) fn memory_bytes(key_bytes: usize, content: &Content) -> usize {
    SLOT_LEN + INDEX_LEN + key_bytes + element_held_bytes(&content.value)
}

/// Bytes that the allocator holds for a byte string; 0 if it is inside its item.
fn element_held_bytes(element: &Element) -> usize {
    match element.heap_bytes() {
        0 => 0,
        _ => held_bytes(REFERENCE_COUNTS_LEN + element.len()),
    }
}

/// Why an item is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Flushed,
    Expired,
}
