//! Reading items.

use std::num::NonZeroU64;

use super::Operations;
use crate::cache::{Change, Content, Item, Mark, Value};

/// The parts of an item that a client reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The data.
    pub value: Value,
    /// The client's flags.
    pub flags: u32,
    /// A number that changes with every change of the item.
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

    /// Changes the expiration time of the key's item. Returns whether there is one.
    #[must_use]
    pub fn touch(&self, key: &[u8], expire_at_ms: Option<NonZeroU64>) -> bool {
        let touched = self.visit(key, |item| item.content.expire_at_ms = expire_at_ms);
        self.count_touch(touched.is_some());
        touched.is_some()
    }

    /// Reads the key's item and changes its expiration time.
    #[must_use]
    pub fn get_and_touch(&self, key: &[u8], expire_at_ms: Option<NonZeroU64>) -> Option<Found> {
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

/// How `mg` reads an item, and its changes to the item.
#[derive(Debug, Clone, Copy)]
pub struct Fetch {
    /// The item's new expiration time.
    pub expire_at_ms: Option<Option<NonZeroU64>>,
    /// On a miss, create an empty item with this expiration time. The client wins the right to fill it.
    pub vivify: Option<Option<NonZeroU64>>,
    /// The first client that reads an item that expires earlier wins the right to refresh it.
    pub recache_before_ms: Option<Option<NonZeroU64>>,
    /// The CAS value of an item that is created, or gets a new expiration time.
    pub new_cas: Option<u64>,
    /// Whether the read counts as a use of the item.
    pub counts_as_use: bool,
}

/// The result of `mg` for an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The item, with its new expiration time.
    pub content: Content,
    /// Whether an earlier request had read the item.
    pub was_fetched: bool,
    /// Seconds since the item's previous use.
    pub idle_s: u32,
    /// Whether the server had told another client to refresh the item.
    pub token_was_sent: bool,
    /// Whether the server tells this client to refresh the item.
    pub won: bool,
}

impl Fetch {
    fn of(&self, item: &mut Item, now_s: u32) -> Fetched {
        let content = &mut item.content;
        if let Some(expire_at_ms) = self.expire_at_ms {
            content.expire_at_ms = expire_at_ms;
            content.cas = self.new_cas.unwrap_or(content.cas);
        }
        let expires_soon = match (content.expire_at_ms, self.recache_before_ms.flatten()) {
            (Some(expire_at_ms), Some(before_ms)) => expire_at_ms < before_ms,
            _ => false,
        };
        let token_was_sent = content.has(Mark::TokenSent);
        let won = !token_was_sent && (expires_soon || content.has(Mark::Stale));
        content.mark(Mark::TokenSent, token_was_sent || won);
        let fetched = Fetched {
            content: content.clone(),
            was_fetched: item.is_fetched(),
            idle_s: now_s.saturating_sub(item.used_s()),
            token_was_sent,
            won,
        };
        if self.counts_as_use {
            item.mark_used(now_s);
        }
        fetched
    }
}

impl Operations<'_> {
    /// Reads the key's item with all data about it.
    #[must_use]
    pub fn fetch(&self, key: &[u8], request: &Fetch) -> Option<Fetched> {
        let now_s = self.cache.now_s();
        let mut fetched = self.cache.with(key, |item| request.of(item, now_s));
        let hit = fetched.is_some();
        if let (None, Some(expire_at_ms)) = (&fetched, request.vivify) {
            fetched = self.vivify(key, request, expire_at_ms);
        }
        if request.expire_at_ms.is_some() {
            self.count_touch(hit);
        } else {
            self.count_get(hit);
        }
        fetched
    }

    /// Creates an empty item. If another client has created one meanwhile, reads that one instead.
    /// Returns `None` if there is no memory.
    fn vivify(&self, key: &[u8], request: &Fetch, expire_at_ms: Option<NonZeroU64>) -> Option<Fetched> {
        let now_s = self.cache.now_s();
        let made = self.cache.update(key, |item, fresh_cas| {
            if let Some(item) = item {
                return (Change::Keep, request.of(item, now_s));
            }
            let content = Content {
                expire_at_ms: request.expire_at_ms.unwrap_or(expire_at_ms),
                ..Content::new(Value::new(key, []), request.new_cas.unwrap_or(fresh_cas))
            }
            .with(Mark::TokenSent, true);
            let fetched = Fetched {
                content: content.clone(),
                was_fetched: false,
                idle_s: 0,
                token_was_sent: false,
                won: true,
            };
            (Change::Put(content), fetched)
        });
        made.ok()
    }
}
