//! Deleting items, and what deletions can leave of them.

use psp_store::Element;

use super::{Condition, Operations};
use crate::cache::{Change, Content, Item, OutOfMemory};

/// What is to be deleted.
#[derive(Debug, Clone, Copy)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What CAS value the item must have.
    pub condition: Condition,
    /// Keep the item and mark it as stale, for a client to be told so.
    pub stale: bool,
    /// Keep the item and empty its value.
    pub empty: bool,
    /// Of an item that is kept: when it expires.
    pub expire_at_ms: Option<Option<u64>>,
    /// Of an item that is kept: its CAS value in place of a new one.
    pub new_cas: Option<u64>,
    /// Of an item that is emptied: opaque to the server.
    pub flags: u32,
}

impl<'a> Delete<'a> {
    /// Deletes the key, whatever it has.
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

    /// What becomes of the item.
    fn of(&self, item: &mut Item, fresh_cas: u64) -> Change {
        if self.empty {
            let cas = self.new_cas.unwrap_or(if self.stale {
                fresh_cas
            } else {
                item.content.cas
            });
            return Change::Put(Content {
                flags: self.flags,
                expire_at_ms: self.expire_at_ms.flatten(),
                binary_key: item.content.binary_key,
                stale: self.stale,
                ..Content::new(Element::from(b""), cas)
            });
        }
        if !self.stale {
            return Change::Remove;
        }
        let content = &mut item.content;
        content.expire_at_ms = self.expire_at_ms.unwrap_or(content.expire_at_ms);
        content.cas = self.new_cas.unwrap_or(fresh_cas);
        content.stale = true;
        // The next client is told to fetch the newer value.
        content.token_sent = false;
        Change::Keep
    }
}

/// How a deletion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// Done.
    Done,
    /// There is no such item.
    NotFound,
    /// The item has another CAS value.
    Exists,
}

impl Operations<'_> {
    /// Deletes an item, or marks it as deleted.
    ///
    /// # Errors
    /// When there is no memory to keep an item that was emptied, which does not happen unless others
    /// take all that is made free.
    pub fn delete(&self, request: &Delete<'_>) -> Result<Deleted, OutOfMemory> {
        let deleted = self
            .cache
            .update(request.key, |item, fresh_cas| match item {
                None => (Change::Keep, Deleted::NotFound),
                Some(item) if !request.condition.is_met(item.content.cas) => {
                    (Change::Keep, Deleted::Exists)
                }
                Some(item) => (request.of(item, fresh_cas), Deleted::Done),
            })?;
        if !(request.stale && deleted == Deleted::Done) {
            self.count_delete(deleted == Deleted::Done);
        }
        Ok(deleted)
    }

    /// Removes what the key has, which is out of date.
    pub(super) fn forget(&self, key: &[u8]) {
        // Removing needs no memory, so that it does not fail.
        let _removed = self.cache.update(key, |_, _| (Change::Remove, ()));
    }
}
