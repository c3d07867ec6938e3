//! Reading items.

use psp_store::Element;

use super::Operations;
use crate::cache::{Change, Content, Item};

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

    /// Gives the key's item another expiration time; whether there is one.
    #[must_use]
    pub fn touch(&self, key: &[u8], expire_at_ms: Option<u64>) -> bool {
        let touched = self.visit(key, |item| item.content.expire_at_ms = expire_at_ms);
        self.count_touch(touched.is_some());
        touched.is_some()
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

/// How an item is to be read by `mg`, and what about it changes.
#[derive(Debug, Clone, Copy)]
pub struct Fetch {
    /// When the item expires from now on.
    pub expire_at_ms: Option<Option<u64>>,
    /// On a miss, make an empty item that expires then; the client wins the right to fill it.
    pub vivify: Option<Option<u64>>,
    /// The first client to ask wins the right to refresh an item that expires before.
    pub recache_before_ms: Option<Option<u64>>,
    /// The CAS value of an item that is made.
    pub new_cas: Option<u64>,
    /// Of an item that is made: its key was given in base64.
    pub binary_key: bool,
    /// Whether the item counts as used.
    pub counts_as_use: bool,
}

/// What `mg` learns about an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The item, with its new expiration time.
    pub content: Content,
    /// Whether it had been read before.
    pub was_fetched: bool,
    /// Seconds since it was used before.
    pub idle_s: u32,
    /// Whether another client was told to refresh it.
    pub token_was_sent: bool,
    /// Whether this client is told to.
    pub won: bool,
}

impl Fetch {
    fn of(&self, item: &mut Item, now_s: u32) -> Fetched {
        let content = &mut item.content;
        content.expire_at_ms = self.expire_at_ms.unwrap_or(content.expire_at_ms);
        let expires_soon = match (content.expire_at_ms, self.recache_before_ms.flatten()) {
            (Some(expire_at_ms), Some(before_ms)) => expire_at_ms < before_ms,
            _ => false,
        };
        let token_was_sent = content.token_sent;
        let won = !token_was_sent && (expires_soon || content.stale);
        content.token_sent |= won;
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
    /// Reads the key's item and all that is known about it.
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

    /// Makes an empty item, unless another client has made one meanwhile or there is no memory.
    fn vivify(&self, key: &[u8], request: &Fetch, expire_at_ms: Option<u64>) -> Option<Fetched> {
        let now_s = self.cache.now_s();
        let made = self.cache.update(key, |item, fresh_cas| {
            if let Some(item) = item {
                return (Change::Keep, request.of(item, now_s));
            }
            let content = Content {
                expire_at_ms: request.expire_at_ms.unwrap_or(expire_at_ms),
                token_sent: true,
                binary_key: request.binary_key,
                ..Content::new(Element::from(b""), request.new_cas.unwrap_or(fresh_cas))
            };
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
