//! One item: the content that its client stored, and the cache's own data about it.

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
    pub expire_at_ms: Option<u64>,
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
        Some(expire_at_ms.saturating_sub(now_ms()))
    }
}

/// A stored item.
#[derive(Debug, Clone)]
pub struct Item {
    key: Element,
    /// The content that a client stored. The length of its value must not change.
    pub content: Content,
    used_s: u32,
    epoch: u32,
    fetched: bool,
    pub(super) active: bool,
    /// Whether the present visit uses the item.
    pub(super) hit: bool,
}

impl Item {
    pub(super) fn new(key: &[u8], content: Content, epoch: u32, now_s: u32) -> Self {
        Self {
            key: Element::from(key),
            content,
            used_s: now_s,
            epoch,
            fetched: false,
            active: false,
            hit: false,
        }
    }

    /// Replaces the content. Returns the old one.
    pub(super) fn replace(&mut self, content: Content, epoch: u32, now_s: u32) -> Content {
        self.used_s = now_s;
        self.epoch = epoch;
        self.fetched = false;
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
        self.used_s
    }

    /// Whether the item was ever read.
    #[must_use]
    pub fn is_fetched(&self) -> bool {
        self.fetched
    }

    /// Bytes of memory that the item takes, including its entries in the cache's tables.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        memory_bytes(self.key_held_bytes(), &self.content)
    }

    /// Records a use of the item at `now_s`. From the second use on, the item qualifies for warm.
    pub fn mark_used(&mut self, now_s: u32) {
        self.used_s = now_s;
        self.active = self.fetched;
        self.fetched = true;
        self.hit = true;
    }

    /// Why clients can no longer see the item; `None` if they can.
    pub(super) fn end(&self, epoch: u32) -> Option<End> {
        if self.epoch != epoch {
            return Some(End::Flushed);
        }
        self.content
            .expire_at_ms
            .is_some_and(|expire_at_ms| expire_at_ms <= now_ms())
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
