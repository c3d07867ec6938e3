//! The journal: the effects of all changes, in an order in which they could have been made one after the other.
//!
//! ```text
//!   update, store_all, commit, .. ── locks held ──► record: one mutex, the last that is taken ──► take: who writes a file
//!   a transaction ─► records of its fork ── all its locks held ──► begin, records, end
//! ```
//!
//! A change is recorded while its locks are held, so that the order of the records is one of the changes. Unless a
//! [`Propagate`] says it in fewer bytes, a record says what the key holds after the change: that is always true, and
//! long for a large value. How records are written is the [`Encoding`]'s matter.
//!
//! A journal that is off costs one relaxed load a change.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::Element;
use crate::entry::{Entry, Slot};
use crate::keyspace::{Keyspace, Old};
use crate::value::Value;

/// Bytes of records that are kept together in memory.
const PART_BYTES: usize = 1 << 20;

/// What a change does, where nothing else says so.
#[derive(Debug, Clone, Copy)]
pub enum Effect<'a> {
    /// What follows is done in the database of this number.
    Database(usize),
    /// The key holds this value.
    Stored {
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a Value,
        /// When it expires, in milliseconds since the Unix epoch.
        expire_at_ms: Option<u64>,
    },
    /// The key's hash has no longer these fields.
    Fewer {
        /// The key.
        key: &'a [u8],
        /// The fields.
        fields: &'a [Element],
    },
    /// The key is gone.
    Removed(&'a [u8]),
    /// All keys of the database are gone.
    Cleared,
    /// Two databases have exchanged what they hold.
    Swapped(usize, usize),
    /// What follows takes effect at once, up to the end.
    Begin,
    /// The end of what takes effect at once.
    End,
}

/// How effects are written.
pub trait Encoding: Send + Sync {
    /// Adds the effect.
    fn encode(&self, effect: Effect<'_>, out: &mut Frame);
}

/// Says what a change does in fewer bytes than the values that it leaves.
pub trait Propagate {
    /// How many commands say what the change does that was just made; `None` leaves it to the values.
    fn commands(&self) -> Option<usize>;

    /// Adds these commands. The keys of the change are locked.
    fn propagate(&self, out: &mut Frame);
}

/// Bytes, of which long parts are shared with the values that they are of.
#[derive(Debug, Default)]
pub struct Frame {
    parts: Vec<Bytes>,
    last: Vec<u8>,
    len: usize,
}

impl Frame {
    /// Adds a copy of `bytes`.
    pub fn put(&mut self, bytes: &[u8]) {
        if self.last.len() >= PART_BYTES {
            self.close_part();
        }
        self.last.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds bytes that are kept as they are.
    pub fn put_shared(&mut self, bytes: Bytes) {
        self.close_part();
        self.len += bytes.len();
        self.parts.push(bytes);
    }

    /// The number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes, in pieces.
    #[must_use]
    pub fn into_parts(mut self) -> Vec<Bytes> {
        self.close_part();
        self.parts
    }

    fn close_part(&mut self) {
        if !self.last.is_empty() {
            self.parts.push(Bytes::from(std::mem::take(&mut self.last)));
        }
    }

    fn append(&mut self, other: Self) {
        if other.parts.is_empty() {
            return self.put(&other.last);
        }
        self.close_part();
        self.len += other.len;
        self.parts.extend(other.parts);
        self.last = other.last;
    }
}

/// Records, and the database in which the next one is.
#[derive(Debug, Default)]
struct Tail {
    frame: Frame,
    commands: usize,
    /// `None` if the next record has to say it.
    database: Option<usize>,
    /// Bytes of records before those of `frame`.
    taken: u64,
    /// Where parts of the file begin that were asked for.
    cuts: Vec<u64>,
}

/// Records that nobody else changes meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Records(Mutex<Tail>);

/// What was recorded since the last time.
#[derive(Debug)]
pub struct Batch {
    /// Where it begins: bytes of all records before.
    pub begin: u64,
    /// Its bytes, in pieces.
    pub parts: Vec<Bytes>,
    /// [Cuts](Journal::cut) within it, in order.
    pub cuts: Vec<u64>,
}

/// The effects of all changes of a server's databases. Off, until it is [begun](Journal::begin).
pub struct Journal {
    is_on: AtomicBool,
    encoding: OnceLock<Box<dyn Encoding>>,
    records: Records,
    end: AtomicU64,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("is_on", &self.is_on)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            is_on: AtomicBool::new(false),
            encoding: OnceLock::new(),
            records: Records::default(),
            end: AtomicU64::new(0),
        }
    }

    /// Records every change from now on. A change that goes on meanwhile may be missing: what is to be complete takes a
    /// [snapshot](crate::Databases::snapshot) afterwards, with a [cut](Self::cut). The first encoding counts.
    pub fn begin(&self, encoding: impl Encoding + 'static) {
        let _ = self.encoding.set(Box::new(encoding));
        self.is_on.store(true, Ordering::SeqCst);
    }

    /// Records nothing from now on, and drops what was not taken.
    pub fn stop(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        let _dropped = self.take();
    }

    /// Whether changes are recorded.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Bytes of all records so far. A change that was made before the call has its record before that, if the journal
    /// was on.
    #[inline]
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Takes the records since the last time.
    #[must_use]
    pub fn take(&self) -> Batch {
        let mut tail = self.records.0.lock();
        let frame = std::mem::take(&mut tail.frame);
        let begin = tail.taken;
        tail.taken += frame.len() as u64;
        let cuts = std::mem::take(&mut tail.cuts);
        drop(tail);
        Batch { begin, parts: frame.into_parts(), cuts }
    }

    /// A new part begins here, which says again in which database its records are. Returns where it begins.
    pub fn cut(&self) -> u64 {
        let mut tail = self.records.0.lock();
        let at = tail.taken + tail.frame.len() as u64;
        tail.database = None;
        tail.cuts.push(at);
        at
    }

    /// Records what is no change of a key. The caller holds what orders it among its like.
    pub fn record(&self, propagate: &dyn Propagate) {
        if self.is_on() {
            self.add(propagate.commands().unwrap_or(0), |tail| propagate.propagate(&mut tail.frame));
        }
    }

    /// Adds so many commands, which take effect at once.
    fn add(&self, commands: usize, add: impl FnOnce(&mut Tail)) {
        let mut tail = self.records.0.lock();
        if commands > 1 {
            self.encode(Effect::Begin, &mut tail.frame);
        }
        add(&mut tail);
        if commands > 1 {
            self.encode(Effect::End, &mut tail.frame);
        }
        self.end.store(tail.taken + tail.frame.len() as u64, Ordering::Release);
    }

    fn encode(&self, effect: Effect<'_>, out: &mut Frame) {
        if let Some(encoding) = self.encoding.get() {
            encoding.encode(effect, out);
        }
    }

    fn select(&self, number: usize, tail: &mut Tail) {
        if tail.database != Some(number) {
            tail.database = Some(number);
            self.encode(Effect::Database(number), &mut tail.frame);
        }
    }

    /// Two databases have exchanged what they hold. The locks of both are held.
    pub(crate) fn record_swap(&self, one: usize, other: usize) {
        if self.is_on() {
            self.add(1, |tail| self.encode(Effect::Swapped(one, other), &mut tail.frame));
        }
    }

    /// What a fork has recorded takes effect, and then its databases are swapped. All locks are held.
    pub(crate) fn record_commit(&self, records: &Records, swaps: impl IntoIterator<Item = [usize; 2]>) {
        let mut of_fork = records.0.lock();
        for [one, other] in swaps {
            of_fork.commands += 1;
            self.encode(Effect::Swapped(one, other), &mut of_fork.frame);
        }
        if of_fork.commands == 0 {
            return;
        }
        self.add(of_fork.commands, |tail| {
            tail.frame.append(std::mem::take(&mut of_fork.frame));
            tail.database = of_fork.database.or(tail.database);
        });
    }
}

/// What a change leaves at one key, to be recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left<'a> {
    key: &'a [u8],
    value: Option<(&'a Value, Option<u64>)>,
}

impl<'a> Left<'a> {
    pub(crate) fn of_slot(slot: &'a Slot<'_>) -> Self {
        Self {
            key: slot.key(),
            value: slot.value().map(|value| (value, slot.expire_at_ms())),
        }
    }

    pub(crate) fn of_entry(key: &'a [u8], entry: Option<&'a Entry>) -> Self {
        Self {
            key,
            value: entry.map(|entry| (entry.value(), entry.expire_at_ms())),
        }
    }

    pub(crate) const fn nothing(key: &'a [u8]) -> Self {
        Self { key, value: None }
    }

    fn effect(self) -> Effect<'a> {
        let key = self.key;
        match self.value {
            Some((value, expire_at_ms)) => Effect::Stored { key, value, expire_at_ms },
            None => Effect::Removed(key),
        }
    }
}

/// Records changes of one keyspace, or of the fork of one.
#[derive(Clone, Copy)]
pub(crate) struct Recorder<'k> {
    journal: &'k Journal,
    /// The fork's; `None` for the journal's own.
    of_fork: Option<&'k Records>,
    number: usize,
}

impl<'k> Recorder<'k> {
    /// `None` if nothing is recorded. The lock of a shard is held, so that what is not recorded is in each snapshot
    /// that is taken once the journal has begun.
    #[inline]
    pub(crate) fn of(keyspace: &'k Keyspace) -> Option<Self> {
        let journal = &keyspace.shared.journal;
        if !journal.is_on() {
            return None;
        }
        let of_fork = match &keyspace.origin {
            Some(origin) => Some(origin.records.as_deref()?),
            None => None,
        };
        Some(Self { journal, of_fork, number: keyspace.number() })
    }

    /// Adds so many commands, which take effect at once: a fork's do with all others of its transaction.
    fn add(self, commands: usize, add: impl FnOnce(&mut Tail)) {
        match self.of_fork {
            None => self.journal.add(commands, add),
            Some(records) => {
                let mut tail = records.0.lock();
                add(&mut tail);
                tail.commands += commands;
            }
        }
    }

    /// Records what a change has left at these keys, or what says it shorter.
    #[cold]
    pub(crate) fn record(self, propagate: Option<&dyn Propagate>, left: &[Left<'_>]) {
        match propagate.and_then(|propagate| Some((propagate, propagate.commands()?))) {
            Some((_, 0)) => {}
            Some((propagate, commands)) => self.add(commands, |tail| {
                self.journal.select(self.number, tail);
                propagate.propagate(&mut tail.frame);
            }),
            None => Self::record_all(left.iter().map(|left| (self, *left))),
        }
    }

    /// Records what one change has left at these keys, each of which has its recorder.
    pub(crate) fn record_all<'l>(left: impl IntoIterator<Item = (Self, Left<'l>)>) {
        // Values are written before the journal's mutex is taken.
        let frames = left.into_iter().map(|(recorder, left)| (recorder, recorder.frame(left)));
        let frames: SmallVec<[(Self, Frame); 2]> = frames.collect();
        let Some(&(recorder, _)) = frames.first() else {
            return;
        };
        recorder.add(frames.len(), |tail| {
            for (Self { journal, number, .. }, frame) in frames {
                journal.select(number, tail);
                tail.frame.append(frame);
            }
        });
    }

    /// What says that a key holds what a change leaves.
    pub(crate) fn frame(self, left: Left<'_>) -> Frame {
        let mut frame = Frame::default();
        self.journal.encode(left.effect(), &mut frame);
        frame
    }

    pub(crate) fn record_frame(self, frame: Frame) {
        self.add(1, |tail| {
            self.journal.select(self.number, tail);
            tail.frame.append(frame);
        });
    }

    #[cold]
    pub(crate) fn record_cleared(self) {
        let mut frame = Frame::default();
        self.journal.encode(Effect::Cleared, &mut frame);
        self.record_frame(frame);
    }
}

/// Fields of a hash that have expired, to be recorded as gone.
pub(crate) struct LostFields<'a> {
    journal: &'a Journal,
    key: &'a [u8],
    pub(crate) fields: RefCell<Vec<Element>>,
}

impl<'a> LostFields<'a> {
    pub(crate) fn new(journal: &'a Journal, key: &'a [u8]) -> Self {
        Self { journal, key, fields: RefCell::default() }
    }
}

impl Propagate for LostFields<'_> {
    fn commands(&self) -> Option<usize> {
        Some(1)
    }

    fn propagate(&self, out: &mut Frame) {
        let effect = Effect::Fewer { key: self.key, fields: &self.fields.borrow() };
        self.journal.encode(effect, out);
    }
}

/// A keyspace to be changed by one request, which may say what it does.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) propagate: Option<&'a dyn Propagate>,
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("keyspace", &self.keyspace.number())
            .finish_non_exhaustive()
    }
}

impl Keyspace {
    /// Changes of which the journal has what `propagate` says.
    #[must_use]
    pub fn telling<'a>(&'a self, propagate: &'a dyn Propagate) -> Writer<'a> {
        Writer { keyspace: self, propagate: Some(propagate) }
    }
}

impl Writer<'_> {
    /// [`Keyspace::update`].
    pub fn update<R>(self, key: &[u8], change: impl FnOnce(&mut Slot<'_>) -> R) -> R {
        self.keyspace.update_as(self.propagate, key, change)
    }

    /// [`Keyspace::update_pair`].
    ///
    /// # Panics
    /// The keys are equal.
    pub fn update_pair<R>(
        self,
        first: &[u8],
        second: &[u8],
        change: impl FnOnce(&mut Slot<'_>, &mut Slot<'_>) -> R,
    ) -> R {
        let places = [(self.keyspace, first), (self.keyspace, second)];
        Keyspace::update_both_as(self.propagate, places, change)
    }

    /// [`Keyspace::update_large`].
    pub fn update_large<R>(self, key: &[u8], change: impl FnMut(&mut Slot<'_>) -> R) -> R {
        self.keyspace.update_apart((key, self.propagate), Old::Whole, change)
    }

    /// [`Keyspace::update_part`].
    pub fn update_part<R>(self, key: &[u8], change: impl FnMut(&mut Slot<'_>) -> R) -> R {
        self.keyspace.update_apart((key, self.propagate), Old::Part, change)
    }
}

impl<'a> From<&'a Keyspace> for Writer<'a> {
    fn from(keyspace: &'a Keyspace) -> Self {
        Self { keyspace, propagate: None }
    }
}

impl Deref for Writer<'_> {
    type Target = Keyspace;

    fn deref(&self) -> &Keyspace {
        self.keyspace
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::thread;

    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;
    use crate::Databases;

    /// Effects as lines of words.
    struct Lines;

    impl Encoding for Lines {
        fn encode(&self, effect: Effect<'_>, out: &mut Frame) {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let line = match effect {
                Effect::Database(number) => format!("select {number}"),
                Effect::Stored { key, value: Value::String(value), .. } => format!("set {} {}", text(key), text(value)),
                Effect::Stored { .. } => unreachable!("the tests store strings"),
                Effect::Fewer { .. } => unreachable!("the tests store strings"),
                Effect::Removed(key) => format!("del {}", text(key)),
                Effect::Cleared => "clear".to_owned(),
                Effect::Swapped(one, other) => format!("swap {one} {other}"),
                Effect::Begin => "begin".to_owned(),
                Effect::End => "end".to_owned(),
            };
            out.put(line.as_bytes());
            out.put(b"\n");
        }
    }

    /// Says "append" where the tests append.
    struct Append(String);

    impl Propagate for Append {
        fn commands(&self) -> Option<usize> {
            Some(1)
        }

        fn propagate(&self, out: &mut Frame) {
            out.put(self.0.as_bytes());
        }
    }

    type Contents = BTreeMap<(usize, String), String>;

    fn contents(all: &Databases) -> Contents {
        let mut contents = Contents::new();
        for database in all.used() {
            database.for_each(|entry| {
                let Value::String(value) = entry.value() else { unreachable!() };
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                contents.insert((database.number(), text(entry.key())), text(value));
            });
        }
        contents
    }

    fn take(all: &Databases) -> String {
        let batch = all.journal().take();
        let parts: Vec<u8> = batch.parts.concat();
        assert_eq!(batch.begin + parts.len() as u64, all.journal().end());
        String::from_utf8(parts).unwrap()
    }

    /// What the lines lead to.
    fn replay(journal: &str) -> Contents {
        let (mut contents, mut database) = (Contents::new(), 0);
        for line in journal.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["select", number] => database = number.parse().unwrap(),
                ["set", key, value] => drop(contents.insert((database, key.to_owned()), value.to_owned())),
                ["append", key, value] => contents.entry((database, key.to_owned())).or_default().push_str(value),
                ["del", key] => assert!(contents.remove(&(database, key.to_owned())).is_some(), "{line}"),
                ["clear"] => contents.retain(|(number, _), _| *number != database),
                ["swap", one, other] => {
                    let [one, other]: [usize; 2] = [one, other].map(|number| number.parse().unwrap());
                    let moved = |number| match number {
                        number if number == one => other,
                        number if number == other => one,
                        number => number,
                    };
                    let moved = |((number, key), value)| ((moved(number), key), value);
                    contents = std::mem::take(&mut contents).into_iter().map(moved).collect();
                }
                ["begin" | "end"] => {}
                _ => panic!("{line}"),
            }
        }
        contents
    }

    fn append(store: &Keyspace, key: &str, value: &str, is_large: bool) {
        let said = Append(format!("append {key} {value}\n"));
        let store = store.telling(&said);
        let change = |slot: &mut Slot<'_>| {
            let old = match slot.value() {
                Some(Value::String(old)) => old.to_vec(),
                _ => Vec::new(),
            };
            let expire_at_ms = slot.expire_at_ms();
            slot.insert(Value::string(&[&old, value.as_bytes()].concat()));
            slot.set_expire_at_ms(expire_at_ms);
        };
        match is_large {
            true => store.update_large(key.as_bytes(), change),
            false => store.update(key.as_bytes(), change),
        }
    }

    /// One random change.
    fn change(all: &Arc<Databases>, random: &mut StdRng) {
        let key = |random: &mut StdRng| format!("k{}", random.random_range(0..8));
        let store = all.get(random.random_range(0..3));
        let (one, other, value) = (key(random), key(random), random.random_range(0..1000).to_string());
        match random.random_range(0..100) {
            0 => store.clear(),
            1 => all.swap(0, store.number()),
            2..20 => append(store, &one, &value, false),
            20..30 => append(store, &one, &value, true),
            30..40 => store.insert(one.as_bytes(), Value::string(value.as_bytes())),
            40..50 => drop(store.remove(one.as_bytes())),
            50..55 => store.insert_all([&one, &other].map(|key| (key.as_bytes(), Value::string(value.as_bytes())))),
            55..60 => drop(store.remove_all(&[one.as_bytes(), other.as_bytes()])),
            60..65 => store.update(one.as_bytes(), |slot| slot.set_expire_at_ms(Some(1))),
            65..75 if one != other => store.update_pair(one.as_bytes(), other.as_bytes(), |one, other| {
                if let Some(value) = one.remove() {
                    other.insert(value);
                }
            }),
            75..78 => drop((0..store.shard_count()).map(|index| store.remove_due(index, 2, 8)).sum::<usize>()),
            78..80 => {
                let panicked = catch_unwind(AssertUnwindSafe(|| {
                    store.update(one.as_bytes(), |slot| {
                        slot.insert(Value::string(b"half"));
                        std::panic::resume_unwind(Box::new("half way"));
                    });
                }));
                assert!(panicked.is_err());
            }
            _ => {
                let number = store.number();
                all.transact(&[], |fork| {
                    append(fork.get(number), &one, &value, false);
                    if value.len() == 1 {
                        fork.get(number).clear();
                    }
                    fork.get(0).remove(other.as_bytes());
                    fork.get(2).insert(one.as_bytes(), Value::string(value.as_bytes()));
                });
            }
        }
    }

    /// Without what has expired and is still there.
    fn settle(all: &Databases) {
        for store in all.used() {
            (0..store.shard_count()).for_each(|index| assert!(store.remove_due(index, u64::MAX - 1, 1000) < 1000));
        }
    }

    #[test]
    fn what_is_recorded_leads_to_what_there_is() {
        for seed in 0..20 {
            let all = Arc::new(Databases::new(3));
            all.journal().begin(Lines);
            let mut random = StdRng::seed_from_u64(seed);
            (0..300).for_each(|_| change(&all, &mut random));
            settle(&all);
            assert_eq!(replay(&take(&all)), contents(&all), "seed {seed}");
        }
    }

    #[test]
    fn the_order_of_the_records_is_one_of_the_changes() {
        for seed in 0..5 {
            let all = Arc::new(Databases::new(3));
            all.journal().begin(Lines);
            thread::scope(|scope| {
                for thread in 0..4 {
                    let all = &all;
                    scope.spawn(move || {
                        let mut random = StdRng::seed_from_u64(seed * 10 + thread);
                        (0..500).for_each(|_| change(all, &mut random));
                    });
                }
            });
            settle(&all);
            assert_eq!(replay(&take(&all)), contents(&all), "seed {seed}");
        }
    }

    #[test]
    fn a_cut_is_where_a_snapshot_is() {
        let all = Arc::new(Databases::new(3));
        all.journal().begin(Lines);
        let is_over = AtomicBool::new(false);
        let (mut journal, mut lens, mut begins) = (String::new(), Vec::new(), Vec::new());
        thread::scope(|scope| {
            for seed in 0..2 {
                let (all, is_over) = (&all, &is_over);
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed);
                    while !is_over.load(Ordering::Relaxed) {
                        change(all, &mut random);
                    }
                });
            }
            for _ in 0..20 {
                let (snapshot, cut) = all.snapshot(|| all.journal().cut());
                journal.push_str(&take(&all));
                let before = replay(&journal[..cut as usize]);
                // What has expired counts until it is removed.
                lens.push([snapshot.len(), before.len()]);
                let after = journal.get(cut as usize..).unwrap_or_default();
                begins.extend(after.split(' ').next().map(str::to_owned));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(lens.iter().all(|[of_snapshot, of_journal]| of_snapshot == of_journal), "{lens:?}");
        assert!(begins.iter().all(|word| !["set", "del", "append"].contains(&word.as_str())), "{begins:?}");
    }

    #[test]
    fn a_journal_that_is_off_has_nothing_and_one_that_begins_within_a_transaction_has_all_of_it() {
        let all = Arc::new(Databases::new(3));
        all.get(0).insert(b"before", Value::string(b"1"));
        let mut runs = 0;
        all.transact(&[], |fork| {
            runs += 1;
            fork.get(0).insert(b"k", Value::string(b"2"));
            all.journal().begin(Lines);
        });
        assert_eq!((runs, take(&all).as_str()), (2, "select 0\nset k 2\n"));
        all.transact(&[], |fork| {
            fork.get(0).insert(b"k", Value::string(b"3"));
            fork.get(1).insert(b"l", Value::string(b"4"));
        });
        assert_eq!(take(&all), "begin\nselect 0\nset k 3\nselect 1\nset l 4\nend\n");
        let both = [b"m".as_slice(), b"n"].map(|key| (key, Value::string(b"5")));
        all.transact(&[], |fork| fork.get(1).insert_all(both.clone()));
        assert_eq!(
            take(&all),
            "begin\nselect 1\nset m 5\nset n 5\nend\n",
            "one change of a transaction has two commands"
        );
        Keyspace::update_both([(all.get(1), b"m"), (all.get(2), b"m")], |from, to| to.insert(from.remove().unwrap()));
        assert_eq!(
            take(&all),
            "begin\ndel m\nselect 2\nset m 5\nend\n",
            "a key is in one database at any time"
        );
        all.transact(&[], |fork| {
            fork.get(0).insert(b"k", Value::string(b"5"));
            fork.roll_back();
        });
        all.journal().stop();
        all.get(0).insert(b"after", Value::string(b"6"));
        assert_eq!(all.journal().take().parts.len(), 0);
    }
}
