//! Storing items: set, add, replace, append, prepend and compare-and-swap.

use std::num::NonZeroU64;

use psp_protocols::memcached::data_len_max;
use psp_protocols::memcached::text::StoreMode;

use super::Operations;
use crate::cache::{Change, Content, Item, Mark, OutOfMemory, Value};
use crate::counters::Counter;

/// Attempts to append outside the lock before appending under it.
const OPTIMISTIC_ATTEMPTS: usize = 3;

/// A request to store data, with its conditions.
#[derive(Debug, Clone, Copy)]
pub struct Store<'a> {
    /// The condition, and whether the data replaces the old data or goes after or before it.
    pub mode: StoreMode,
    /// The key.
    pub key: &'a [u8],
    /// The data.
    pub data: &'a [u8],
    /// Opaque to the server; appending ignores it.
    pub flags: u32,
    /// When the item expires; appending ignores it.
    pub expire_at_ms: Option<NonZeroU64>,
    /// The CAS value that the item must have.
    pub condition: Condition,
    /// The item's CAS value in place of a new one.
    pub new_cas: Option<u64>,
    /// The client gave the key in base64.
    pub binary_key: bool,
    /// Appending to a missing key stores an item with this expiration time.
    pub vivify: Option<Option<NonZeroU64>>,
}

impl<'a> Store<'a> {
    /// Stores only data, under any condition of `mode`.
    #[must_use]
    pub fn new(mode: StoreMode, key: &'a [u8], data: &'a [u8]) -> Self {
        Self {
            mode,
            key,
            data,
            flags: 0,
            expire_at_ms: None,
            condition: Condition::Any,
            new_cas: None,
            binary_key: false,
            vivify: None,
        }
    }
}

/// The CAS value that an item must have to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Any value.
    Any,
    /// This value.
    Cas(u64),
    /// This value. If it is higher than the item's, the new data is stored as stale.
    CasOrStale(u64),
}

impl Condition {
    /// [`Cas`](Self::Cas) if there is a value.
    #[must_use]
    pub fn from_cas(cas: Option<u64>) -> Self {
        cas.map_or(Self::Any, Self::Cas)
    }

    /// Whether an item with this CAS value may be changed.
    #[must_use]
    pub fn is_met(self, cas: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Cas(expected) | Self::CasOrStale(expected) => expected == cas,
        }
    }

    fn allows_stale(self, cas: u64) -> bool {
        matches!(self, Self::CasOrStale(expected) if expected < cas)
    }
}

/// The outcome of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The item was stored.
    Stored {
        /// The item's CAS value.
        cas: u64,
        /// Bytes of the item's data.
        data_len: usize,
    },
    /// The condition of the mode was not met.
    NotStored,
    /// The item has another CAS value.
    Exists,
    /// There is no item to compare with.
    NotFound,
}

impl Operations<'_> {
    /// Stores an item. If an unconditional store fails for lack of memory, it removes the old item, so
    /// that clients do not go on reading it.
    ///
    /// # Errors
    /// There is no memory for the item.
    /// When there is no memory for the item.
    pub fn store(&self, request: &Store<'_>) -> Result<Stored, OutOfMemory> {
        self.counters.count(Counter::CmdSet);
        let stored = match request.mode {
            StoreMode::Append | StoreMode::Prepend => self.extend(request),
            StoreMode::Set | StoreMode::Add | StoreMode::Replace => self.put(request),
        };
        if stored.is_err() {
            self.counters.count(Counter::StoreNoMemory);
            if request.mode == StoreMode::Set {
                self.forget(request.key);
            }
        }
        stored
    }

    /// Handles a value that is too long for an item. The key's old value is out of date.
    pub fn refuse_too_large(&self, key: &[u8]) {
        self.counters.count(Counter::StoreTooLarge);
        self.forget(key);
    }

    fn put(&self, request: &Store<'_>) -> Result<Stored, OutOfMemory> {
        let value = Value::new(request.key, [request.data]);
        let now_s = self.cache.now_s();
        let stored = self.cache.update(request.key, |item, fresh_cas| {
            let mut content = Content {
                flags: request.flags,
                expire_at_ms: request.expire_at_ms,
                ..Content::new(value.clone(), request.new_cas.unwrap_or(fresh_cas))
            }
            .with(Mark::BinaryKey, request.binary_key);
            match (request.mode, item) {
                (StoreMode::Add, Some(item)) => {
                    item.mark_used(now_s);
                    return (Change::Keep, Stored::NotStored);
                }
                (StoreMode::Add, None) => {}
                (mode, None) => match (mode, request.condition) {
                    (StoreMode::Set, Condition::Any) => {}
                    (_, Condition::Any) => return (Change::Keep, Stored::NotStored),
                    _ => return (Change::Keep, Stored::NotFound),
                },
                (_, Some(item)) if request.condition.is_met(item.content.cas) => {}
                (_, Some(item)) if request.condition.allows_stale(item.content.cas) => {
                    content.expire_at_ms = item.content.expire_at_ms;
                    content.mark(Mark::Stale, true);
                    content.mark(Mark::TokenSent, item.content.has(Mark::TokenSent));
                }
                (_, Some(_)) => return (Change::Keep, Stored::Exists),
            }
            put(content)
        })?;
        if request.condition != Condition::Any && request.mode != StoreMode::Add {
            self.count_cas(stored);
        }
        Ok(stored)
    }

    fn count_cas(&self, stored: Stored) {
        self.counters.count(match stored {
            Stored::Stored { .. } => Counter::CasHits,
            Stored::NotFound => Counter::CasMisses,
            Stored::Exists | Stored::NotStored => Counter::CasBadval,
        });
    }

    /// Appends or prepends. Copies long values without the lock, and retries if the item changes
    /// meanwhile.
    fn extend(&self, request: &Store<'_>) -> Result<Stored, OutOfMemory> {
        for _ in 0..OPTIMISTIC_ATTEMPTS {
            let seen = self.cache.with(request.key, |item| Seen::of(item));
            let extended = seen.as_ref().and_then(|seen| self.joined(request, &seen.value));
            let done = self.cache.update(request.key, |item, fresh_cas| {
                if item.as_deref().map(|item| item.content.cas) != seen.as_ref().map(|seen| seen.cas) {
                    return (Change::Keep, None);
                }
                let (change, stored) = request.extend(item, extended.clone(), fresh_cas);
                (change, Some(stored))
            })?;
            if let Some(stored) = done {
                return Ok(stored);
            }
        }
        self.cache.update(request.key, |item, fresh_cas| {
            let extended = item.as_deref().and_then(|item| self.joined(request, &item.content.value));
            request.extend(item, extended, fresh_cas)
        })
    }

    /// The request's data and an item's value, joined in the order of the mode; `None` if the result
    /// is too long.
    fn joined(&self, request: &Store<'_>, value: &Value) -> Option<Value> {
        let len_max = data_len_max(self.item_len_max, request.key.len());
        if value.len() + request.data.len() > len_max {
            return None;
        }
        let parts = match request.mode {
            StoreMode::Prepend => [request.data, value],
            _ => [value, request.data],
        };
        Some(Value::new(request.key, parts))
    }
}

/// An item's value and CAS value at the time they were read.
struct Seen {
    value: Value,
    cas: u64,
}

impl Seen {
    fn of(item: &Item) -> Self {
        Self { value: item.content.value.clone(), cas: item.content.cas }
    }
}

impl Store<'_> {
    /// Replaces the item's data with `extended`; `None` means that it was too long.
    fn extend(&self, item: Option<&mut Item>, extended: Option<Value>, fresh_cas: u64) -> (Change, Stored) {
        let cas = self.new_cas.unwrap_or(fresh_cas);
        match (item, extended, self.vivify) {
            (Some(item), _, _) if !self.condition.is_met(item.content.cas) => (Change::Keep, Stored::Exists),
            (Some(item), Some(extended), _) => put(Content { value: extended, cas, ..item.content.clone() }
                .with(Mark::Stale, false)
                .with(Mark::TokenSent, false)),
            (None, _, Some(expire_at_ms)) => put(Content {
                flags: self.flags,
                expire_at_ms,
                ..Content::new(Value::new(self.key, [self.data]), cas)
            }
            .with(Mark::BinaryKey, self.binary_key)),
            _ => (Change::Keep, Stored::NotStored),
        }
    }
}

fn put(content: Content) -> (Change, Stored) {
    let stored = Stored::Stored { cas: content.cas, data_len: content.value.len() };
    (Change::Put(content), stored)
}
