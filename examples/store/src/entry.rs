//! A key with its value and times, and the slot through which an update changes it.

use std::fmt;

use smallvec::SmallVec;
use triomphe::{Arc, HeaderSlice, HeaderWithLength, ThinArc};

use crate::access::{Access, AccessClock};
use crate::clock::Now;
use crate::element::allocated_bytes;
use crate::form::PackingLimits;
use crate::index::BYTES_PER_ENTRY;
use crate::reaper::Garbage;
use crate::value::Value;

/// `expire_at_ms` of a key that never expires.
const NEVER: u64 = u64::MAX;
/// Bytes of `expire_at_ms`.
const EXPIRY_LEN: usize = size_of::<u64>();
/// Longest key for which the bytes of an entry are put together without an allocation.
const USUAL_KEY_LEN_MAX: usize = 64;

/// When an entry is to be looked at next, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dues {
    /// The key expires then.
    pub(crate) key: Option<u64>,
    /// The first of the hash's fields does.
    pub(crate) fields: Option<u64>,
}

impl Dues {
    fn of(value: Option<&Value>, key: Option<u64>) -> Self {
        let fields = match value {
            Some(Value::Hash(hash)) => hash.next_due_ms(),
            _ => None,
        };
        Self { key, fields }
    }
}

/// A key with its value and times: one allocation. A clone shares it. The keyspace changes it in place only while
/// nothing else holds it.
///
/// ```text
///   references, value, accesses │ length │ when it expires │ key
///                                          if it may expire
/// ```
#[derive(Clone)]
pub struct Entry(ThinArc<Head, u8>);

struct Head {
    value: Value,
    access: Access,
}

/// An entry whose content may be changed if nothing else holds it.
struct Open(Arc<HeaderSlice<HeaderWithLength<Head>, [u8]>>);

/// When the key expires, and the key.
fn parts(entry: &HeaderSlice<HeaderWithLength<Head>, [u8]>) -> (u64, &[u8]) {
    match entry.slice.split_first_chunk() {
        Some((expire_at_ms, key)) if entry.header.header.access.has_expiry => (u64::from_le_bytes(*expire_at_ms), key),
        _ => (NEVER, &entry.slice),
    }
}

impl Entry {
    /// An entry of a key that does not expire.
    pub(crate) fn new(key: &[u8], value: Value) -> Self {
        Self::with(key, value, NEVER, Access::default())
    }

    fn with(key: &[u8], value: Value, expire_at_ms: u64, mut access: Access) -> Self {
        access.has_expiry = expire_at_ms != NEVER;
        let mut bytes = SmallVec::<[u8; EXPIRY_LEN + USUAL_KEY_LEN_MAX]>::new();
        if access.has_expiry {
            bytes.extend_from_slice(&expire_at_ms.to_le_bytes());
        }
        bytes.extend_from_slice(key);
        Self(ThinArc::from_header_and_slice(Head { value, access }, &bytes))
    }

    fn head(&self) -> &Head {
        &self.0.header.header
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        parts(&self.0).1
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.head().value
    }

    /// When the key expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn expire_at_ms(&self) -> Option<u64> {
        let (expire_at_ms, _) = parts(&self.0);
        (expire_at_ms != NEVER).then_some(expire_at_ms)
    }

    pub(crate) fn dues(&self) -> Dues {
        Dues::of(Some(self.value()), self.expire_at_ms())
    }

    pub(crate) fn access(&self) -> &Access {
        &self.head().access
    }

    /// Approximate bytes of memory that the key and its value take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let own = size_of::<usize>() + size_of::<HeaderWithLength<Head>>() + self.0.slice.len();
        allocated_bytes(own) + BYTES_PER_ENTRY + self.value().memory_bytes()
    }

    pub(crate) fn is_expired(&self, now: &Now) -> bool {
        self.expire_at_ms().is_some_and(|expire_at_ms| expire_at_ms <= now.ms())
    }

    /// Where the entry is in memory. Reads nothing of it.
    pub(crate) fn address(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// Where the value is, if it is a string that is not part of the entry. Reads nothing there.
    pub(crate) fn bytes_address(&self) -> Option<*const u8> {
        match self.value() {
            Value::String(text) if text.heap_bytes() > 0 => Some(text.as_slice().as_ptr()),
            _ => None,
        }
    }

    /// Whether both are the same entry, not only equal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }

    /// Whether nothing else holds the entry at this moment.
    pub(crate) fn is_unshared(&self) -> bool {
        ThinArc::strong_count(&self.0) == 1
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key())
            .field("value", self.value())
            .finish_non_exhaustive()
    }
}

impl Open {
    fn new(entry: Entry) -> Self {
        Self(Arc::from_thin(entry.0))
    }

    fn close(self) -> Entry {
        Entry(Arc::into_thin(self.0))
    }

    fn head(&self) -> &Head {
        &self.0.header.header
    }

    fn expire_at_ms(&self) -> u64 {
        parts(&self.0).0
    }

    /// The content, unless others hold it.
    fn get_mut(&mut self) -> Option<&mut Head> {
        Arc::get_mut(&mut self.0).map(|entry| &mut entry.header.header)
    }

    /// The content, after a copy if others hold it.
    fn make_mut(&mut self) -> &mut Head {
        if !self.0.is_unique() {
            let (expire_at_ms, key) = parts(&self.0);
            let Head { value, access } = self.head();
            let copy = Entry::with(key, value.clone(), expire_at_ms, access.clone());
            *self = Self::new(copy);
        }
        self.get_mut().expect("nothing else holds the entry")
    }

    /// Changes when the key expires. An entry that has no room for that is made anew.
    fn set_expire_at_ms(&mut self, expire_at_ms: u64) {
        self.make_mut();
        let entry = Arc::get_mut(&mut self.0).expect("nothing else holds the entry");
        if entry.header.header.access.has_expiry
            && let Some((room, _)) = entry.slice.split_first_chunk_mut()
        {
            *room = expire_at_ms.to_le_bytes();
        } else if expire_at_ms != NEVER {
            let Head { value, access } = &mut entry.header.header;
            let value = std::mem::replace(value, Value::string(b""));
            let copy = Entry::with(&entry.slice, value, expire_at_ms, access.clone());
            *self = Self::new(copy);
        }
    }
}

/// What a slot holds.
enum SlotContent {
    Nothing,
    /// The entry of the keyspace, or one made of it.
    Entry(Open),
    /// A new value, which becomes an entry when the update ends.
    New {
        value: Value,
        expire_at_ms: u64,
    },
}

/// Exclusive access to one key during an update.
pub struct Slot<'k> {
    key: &'k [u8],
    content: SlotContent,
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
    pub(crate) fn new(key: &'k [u8], entry: Option<Entry>) -> Self {
        Self {
            key,
            content: entry.map_or(SlotContent::Nothing, |entry| SlotContent::Entry(Open::new(entry))),
            changed: false,
            locked: true,
            quiet: false,
            idle_s: None,
            frequency: None,
            discarded: SmallVec::new(),
        }
    }

    /// A slot over a snapshot, for a change that has not been stored yet.
    pub(crate) fn of_snapshot(key: &'k [u8], entry: Option<Entry>) -> Self {
        Self { locked: false, ..Self::new(key, entry) }
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

    /// The key's value, if it has one.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match &self.content {
            SlotContent::Nothing => None,
            SlotContent::Entry(entry) => Some(&entry.head().value),
            SlotContent::New { value, .. } => Some(value),
        }
    }

    /// The key's value, to be changed in place. The key keeps its expiry.
    ///
    /// An update that leaves a collection empty removes the key when it ends.
    pub fn value_mut(&mut self) -> Option<&mut Value> {
        self.changed = true;
        match &mut self.content {
            SlotContent::Nothing => None,
            SlotContent::Entry(entry) => Some(&mut entry.make_mut().value),
            SlotContent::New { value, .. } => Some(value),
        }
    }

    /// Like [`value_mut`](Self::value_mut), but first stores the value that `make` returns if the
    /// key has none.
    pub fn value_or_insert_with(&mut self, make: impl FnOnce() -> Value) -> &mut Value {
        self.changed = true;
        if let SlotContent::Nothing = self.content {
            self.content = SlotContent::New { value: make(), expire_at_ms: NEVER };
        }
        self.value_mut().expect("there is a value by now")
    }

    /// Stores `value` in place of any previous value. The key no longer expires.
    pub fn insert(&mut self, value: Value) {
        self.changed = true;
        if let SlotContent::Entry(entry) = &mut self.content
            && let Some(head) = entry.get_mut()
        {
            let old = std::mem::replace(&mut head.value, value);
            if entry.expire_at_ms() != NEVER {
                entry.set_expire_at_ms(NEVER);
            }
            self.discarded.push(Garbage::Value(old));
            return;
        }
        let fresh = SlotContent::New { value, expire_at_ms: NEVER };
        match std::mem::replace(&mut self.content, fresh) {
            SlotContent::Nothing => {}
            SlotContent::Entry(entry) => self.discarded.push(Garbage::Entry(entry.close())),
            SlotContent::New { value, .. } => self.discarded.push(Garbage::Value(value)),
        }
    }

    /// Removes the key and returns the value it had.
    pub fn remove(&mut self) -> Option<Value> {
        match std::mem::replace(&mut self.content, SlotContent::Nothing) {
            SlotContent::Nothing => None,
            SlotContent::Entry(entry) => {
                self.changed = true;
                let value = entry.head().value.clone();
                self.discarded.push(Garbage::Entry(entry.close()));
                Some(value)
            }
            SlotContent::New { value, .. } => Some(value),
        }
    }

    /// When the key expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn expire_at_ms(&self) -> Option<u64> {
        let expire_at_ms = match &self.content {
            SlotContent::Nothing => NEVER,
            SlotContent::Entry(entry) => entry.expire_at_ms(),
            SlotContent::New { expire_at_ms, .. } => *expire_at_ms,
        };
        (expire_at_ms != NEVER).then_some(expire_at_ms)
    }

    pub(crate) fn dues(&self) -> Dues {
        Dues::of(self.value(), self.expire_at_ms())
    }

    /// Sets or clears the key's expiry time. Does nothing if the key has no value.
    pub fn set_expire_at_ms(&mut self, expire_at_ms: Option<u64>) {
        let new = expire_at_ms.unwrap_or(NEVER);
        match &mut self.content {
            SlotContent::Nothing => return,
            SlotContent::Entry(entry) => entry.set_expire_at_ms(new),
            SlotContent::New { expire_at_ms, .. } => *expire_at_ms = new,
        }
        self.changed = true;
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

    /// Notes an access to an entry that the update has left as it was.
    pub(crate) fn touch(&self, clock: &AccessClock) {
        if let SlotContent::Entry(entry) = &self.content {
            entry.head().access.touch(clock);
        }
    }

    /// Ends the update. Returns the values and entries that it displaced.
    pub(crate) fn finish(&mut self, clock: &AccessClock, limits: &PackingLimits) -> SmallVec<[Garbage; 1]> {
        // A string, even an empty one, counts as one element.
        if self.value().is_some_and(Value::is_spent) {
            self.remove();
        }
        match &mut self.content {
            // A change has made the entry the slot's own.
            SlotContent::Entry(entry) if self.changed => {
                if let Some(head) = entry.get_mut() {
                    head.value.settle(limits);
                }
            }
            SlotContent::New { value, .. } => {
                value.settle(limits);
                let entry = self.take_entry();
                self.content = entry.map_or(SlotContent::Nothing, |entry| SlotContent::Entry(Open::new(entry)));
            }
            SlotContent::Nothing | SlotContent::Entry(_) => {}
        }
        if let SlotContent::Entry(entry) = &self.content {
            let access = &entry.head().access;
            access.touch(clock);
            if let Some(idle_s) = self.idle_s {
                access.set_idle_s(idle_s, clock);
            }
            if let Some(frequency) = self.frequency {
                access.set_frequency(frequency, clock);
            }
        }
        std::mem::take(&mut self.discarded)
    }

    /// Takes the entry that the update wants to store.
    pub(crate) fn take_entry(&mut self) -> Option<Entry> {
        match std::mem::replace(&mut self.content, SlotContent::Nothing) {
            SlotContent::Nothing => None,
            SlotContent::Entry(entry) => Some(entry.close()),
            SlotContent::New { value, expire_at_ms } => {
                Some(Entry::with(self.key, value, expire_at_ms, Access::default()))
            }
        }
    }

    /// Drops the slot's entry without a copy of its value.
    pub(crate) fn discard(&mut self) {
        self.changed = true;
        let entry = self.take_entry();
        self.discarded.extend(entry.map(Garbage::Entry));
    }
}

impl fmt::Debug for Slot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("key", &self.key)
            .field("value", &self.value())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_key_takes_one_line_and_its_text_little_more_than_its_bytes() {
        let entry = |key_len, value_len| {
            let value = Value::string(&vec![b'v'; value_len]);
            Entry::new(&vec![b'k'; key_len], value).memory_bytes() - BYTES_PER_ENTRY
        };
        assert_eq!([entry(16, 0), entry(16, 22), entry(17, 0)], [64, 64, 80]);
        assert_eq!([entry(16, 56), entry(16, 104)], [64 + 64, 64 + 112]);
    }

    #[test]
    fn a_key_without_room_for_its_expiry_gets_it() {
        let mut open = Open::new(Entry::new(b"key", Value::string(b"v")));
        for expire_at_ms in [NEVER, 7, 8, NEVER, 9] {
            open.set_expire_at_ms(expire_at_ms);
            assert_eq!(open.expire_at_ms(), expire_at_ms);
            assert_eq!(parts(&open.0).1, b"key");
        }
        let short = Open::new(Entry::new(b"", Value::string(b"v")));
        assert_eq!(parts(&short.0), (NEVER, b"".as_slice()));
    }
}
