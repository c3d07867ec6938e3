//! A key with its value and times, and the slot through which an update changes it.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::access::{Access, AccessClock};
use crate::form::PackingLimits;
use crate::reaper::Garbage;
use crate::value::Value;

/// `expire_at_ms` of a key that never expires.
const NEVER: u64 = u64::MAX;

/// A key with its value and times. The keyspace shares it with readers, and changes it in place
/// only while it holds the sole reference.
#[derive(Debug, Clone)]
pub struct Entry {
    key: Box<[u8]>,
    value: Value,
    expire_at_ms: u64,
    pub(crate) access: Access,
}

impl Entry {
    pub(crate) fn new(key: &[u8], value: Value) -> Self {
        Self {
            key: key.into(),
            value,
            expire_at_ms: NEVER,
            access: Access::default(),
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// When the key expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn expire_at_ms(&self) -> Option<u64> {
        (self.expire_at_ms != NEVER).then_some(self.expire_at_ms)
    }

    /// When the key was last read or written, in seconds of the keyspace's clock.
    #[must_use]
    pub fn touched_s(&self) -> u32 {
        self.access.touched_s()
    }

    /// Approximate bytes of memory that the key and its value take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.value.memory_bytes()
    }

    pub(crate) fn is_expired(&self, now_ms: impl FnOnce() -> u64) -> bool {
        self.expire_at_ms != NEVER && self.expire_at_ms <= now_ms()
    }
}

/// Exclusive access to one key during an update.
#[derive(Debug)]
pub struct Slot<'k> {
    key: &'k [u8],
    entry: Option<Arc<Entry>>,
    changed: bool,
    locked: bool,
    quiet: bool,
    /// What the key shall look like after the update.
    idle_s: Option<u32>,
    frequency: Option<u8>,
    discarded: SmallVec<[Garbage; 1]>,
}

impl<'k> Slot<'k> {
    /// A slot for a key whose shard is locked.
    pub(crate) fn new(key: &'k [u8], entry: Option<Arc<Entry>>) -> Self {
        Self {
            key,
            entry,
            changed: false,
            locked: true,
            quiet: false,
            idle_s: None,
            frequency: None,
            discarded: SmallVec::new(),
        }
    }

    /// A slot over a snapshot, for a change that has not been stored yet.
    pub(crate) fn of_snapshot(key: &'k [u8], entry: Option<Arc<Entry>>) -> Self {
        Self {
            locked: false,
            ..Self::new(key, entry)
        }
    }

    /// Whether the lock of the key's shard is held. If it is, the change must neither wait for
    /// anything nor yield to other requests.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &'k [u8] {
        self.key
    }

    /// The key's entry, if it has one.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.entry.as_deref()
    }

    /// The key's value, if it has one.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        self.entry().map(Entry::value)
    }

    /// The key's value, to be changed in place. The key keeps its expiry.
    ///
    /// An update that leaves a collection empty removes the key when it ends.
    pub fn value_mut(&mut self) -> Option<&mut Value> {
        self.changed = true;
        Some(&mut Arc::make_mut(self.entry.as_mut()?).value)
    }

    /// Like [`value_mut`](Self::value_mut), but first stores the value that `make` returns if the
    /// key has none.
    pub fn value_or_insert_with(&mut self, make: impl FnOnce() -> Value) -> &mut Value {
        self.changed = true;
        let key = self.key;
        let entry = self
            .entry
            .get_or_insert_with(|| Arc::new(Entry::new(key, make())));
        &mut Arc::make_mut(entry).value
    }

    /// Stores `value` in place of any previous value. The key no longer expires.
    pub fn insert(&mut self, value: Value) {
        self.changed = true;
        if let Some(entry) = self.entry.as_mut().and_then(Arc::get_mut) {
            let old = std::mem::replace(&mut entry.value, value);
            entry.expire_at_ms = NEVER;
            self.discarded.push(Garbage::Value(old));
            return;
        }
        let fresh = Arc::new(Entry::new(self.key, value));
        self.discarded
            .extend(self.entry.replace(fresh).map(Garbage::Entry));
    }

    /// Removes the key and returns the value it had.
    pub fn remove(&mut self) -> Option<Value> {
        let entry = self.entry.take()?;
        self.changed = true;
        let value = entry.value.clone();
        self.discarded.push(Garbage::Entry(entry));
        Some(value)
    }

    /// When the key expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn expire_at_ms(&self) -> Option<u64> {
        self.entry.as_deref().and_then(Entry::expire_at_ms)
    }

    /// Sets or clears the key's expiry time. Does nothing if the key has no value.
    pub fn set_expire_at_ms(&mut self, expire_at_ms: Option<u64>) {
        if let Some(entry) = &mut self.entry {
            self.changed = true;
            Arc::make_mut(entry).expire_at_ms = expire_at_ms.unwrap_or(NEVER);
        }
    }

    /// The change gives nothing to those who wait for the key, so that they are left alone.
    pub fn wake_nobody(&mut self) {
        self.quiet = true;
    }

    pub(crate) fn wakes_nobody(&self) -> bool {
        self.quiet
    }

    /// Lets the key look as if nothing had read or written it for `idle_s` seconds.
    pub fn set_idle_s(&mut self, idle_s: u32) {
        self.idle_s = Some(idle_s);
    }

    /// Lets the key look as often used as this [frequency](crate::Keyspace::frequency) says.
    pub fn set_frequency(&mut self, frequency: u8) {
        self.frequency = Some(frequency);
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Ends the update. Returns the values and entries that it displaced.
    pub(crate) fn finish(
        &mut self,
        clock: &AccessClock,
        limits: &PackingLimits,
    ) -> SmallVec<[Garbage; 1]> {
        // A string, even an empty one, counts as one element.
        if self.value().is_some_and(Value::is_spent) {
            self.remove();
        }
        // A change has made the entry the slot's own.
        if self.changed
            && let Some(entry) = self.entry.as_mut().and_then(Arc::get_mut)
        {
            entry.value.settle(limits);
        }
        if let Some(entry) = &self.entry {
            entry.access.touch(clock);
            if let Some(idle_s) = self.idle_s {
                entry.access.set_idle_s(idle_s, clock);
            }
            if let Some(frequency) = self.frequency {
                entry.access.set_frequency(frequency, clock);
            }
        }
        std::mem::take(&mut self.discarded)
    }

    /// Takes the entry that the update wants to store.
    pub(crate) fn take_entry(&mut self) -> Option<Arc<Entry>> {
        self.entry.take()
    }

    /// Drops the slot's entry, which has expired, without inspecting it.
    pub(crate) fn expire(&mut self) {
        self.changed = true;
        self.discarded.extend(self.entry.take().map(Garbage::Entry));
    }
}
