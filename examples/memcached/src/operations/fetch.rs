//! Reading items.

use psp_store::Element;

use super::Operations;
use crate::cache::Item;

/// What a client gets of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The data.
    pub value: Element,
    /// What the client stored beside it.
    pub flags: u32,
    /// Changes with every change of the item.
    pub cas: u64,
}

impl From<&Item> for Found {
    fn from(item: &Item) -> Self {
        Self {
            value: item.content.value.clone(),
            flags: item.content.flags,
            cas: item.content.cas,
        }
    }
}

impl Operations<'_> {
    /// The key's item.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Found> {
        let found = self.visit(key, |item| Found::from(&*item));
        self.count_get(found.is_some());
        found
    }

    /// The key's item, whose expiration time becomes another.
    #[must_use]
    pub fn get_and_touch(&self, key: &[u8], expire_at_ms: Option<u64>) -> Option<Found> {
        let found = self.visit(key, |item| {
            item.content.expire_at_ms = expire_at_ms;
            Found::from(&*item)
        });
        self.count_touch(found.is_some());
        found
    }

    fn visit<R>(&self, key: &[u8], visit: impl FnOnce(&mut Item) -> R) -> Option<R> {
        let now_s = self.cache.now_s();
        self.cache.with(key, |item| {
            item.mark_used(now_s);
            visit(item)
        })
    }
}
