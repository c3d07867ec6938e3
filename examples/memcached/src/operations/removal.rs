//! Deletion of items, and items that a deletion keeps.

use std::num::NonZeroU64;

use super::{Condition, Operations};
use crate::cache::{Change, Content, Item, Mark, OutOfMemory, Value};

/// A deletion.
#[derive(Debug, Clone, Copy)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The CAS value that the item must have.
    pub condition: Condition,
    /// Keep the item and mark it as stale, so that clients learn of it.
    pub stale: bool,
    /// Keep the item but empty its value.
    pub empty: bool,
    /// When a kept item expires.
    pub expire_at_ms: Option<Option<NonZeroU64>>,
    /// The CAS value of a kept item in place of a new one.
    pub new_cas: Option<u64>,
    /// The client's flags of an emptied item.
    pub flags: u32,
}

impl<'a> Delete<'a> {
    /// Deletes the key's item without conditions.
    #[must_use]
    pub fn new(key: &'a [u8]) -> Self {
        Self {
            key,
            condition: Condition::Any,
            stale: false,
            empty: false,
            expire_at_ms: None,
            new_cas: None,
            flags: 0,
        }
    }

    /// The change of the item.
    fn of(&self, item: &mut Item, fresh_cas: u64) -> Change {
        if self.empty {
            let cas = self.new_cas.unwrap_or(if self.stale { fresh_cas } else { item.content.cas });
            let content = Content {
                flags: self.flags,
                expire_at_ms: self.expire_at_ms.flatten(),
                ..Content::new(Value::new(self.key, []), cas)
            };
            return Change::Put(
                content
                    .with(Mark::BinaryKey, item.content.has(Mark::BinaryKey))
                    .with(Mark::Stale, self.stale),
            );
        }
        if !self.stale {
            return Change::Remove;
        }
        let content = &mut item.content;
        content.expire_at_ms = self.expire_at_ms.unwrap_or(content.expire_at_ms);
        content.cas = self.new_cas.unwrap_or(fresh_cas);
        content.mark(Mark::Stale, true);
        // The server tells the next client to fetch the newer value.
        content.mark(Mark::TokenSent, false);
        Change::Keep
    }
}

/// The outcome of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// The deletion succeeded.
    Done,
    /// There is no such item.
    NotFound,
    /// The item has another CAS value.
    Exists,
}

impl Operations<'_> {
    /// Deletes an item, or keeps it marked or emptied.
    ///
    /// # Errors
    /// There is no memory to keep an emptied item. This happens only if other requests take all
    /// memory that is freed.
    pub fn delete(&self, request: &Delete<'_>) -> Result<Deleted, OutOfMemory> {
        let deleted = self.cache.update(request.key, |item, fresh_cas| match item {
            None => (Change::Keep, Deleted::NotFound),
            Some(item) if !request.condition.is_met(item.content.cas) => (Change::Keep, Deleted::Exists),
            Some(item) => (request.of(item, fresh_cas), Deleted::Done),
        })?;
        if !(request.stale && deleted == Deleted::Done) {
            self.count_delete(deleted == Deleted::Done);
        }
        Ok(deleted)
    }

    /// Removes the key's item, which is out of date.
    pub(super) fn forget(&self, key: &[u8]) {
        // Removing needs no memory, so it cannot fail.
        let _removed = self.cache.update(key, |_, _| (Change::Remove, ()));
    }
}
