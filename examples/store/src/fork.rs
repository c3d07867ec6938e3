//! A fork: a keyspace over another one, its *origin*. A transaction reads and changes the fork, and nobody else
//! sees it. Commands need not know: a fork is a [`Keyspace`].
//!
//! ```text
//!   origin ──── the entry of a key, when it is first touched ────► fork ◄── commands
//!      ▲                                                            │
//!      └── commit: lock the shards of all touched keys; if their ◄──┘
//!          entries are still the same, replace those that changed
//! ```
//!
//! The fork keeps each entry that it took over. While it does, no update can change that entry in place, so the same
//! entry at the commit means the same content: all reads and all writes of the transaction are as of the commit.
//! What walks over keys without naming them (SCAN, the number of keys) sees the origin as it is at that moment, with
//! the fork's changes, and the commit does not compare it.
//!
//! A fork made under locks knows the locked shards by snapshots and takes no lock of its origin. It sees nothing in
//! other shards, and if it looked there, the commit fails.

use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};

use crate::absence::Came;
use crate::contents::Walk;
use crate::entry::Entry;
use crate::hashed::position_of;
use crate::index::Index;
use crate::keyspace::{Keyspace, Shard, visit_live};
use crate::locks::{Place, ShardLocks};
use crate::prepared::Prepared;
use crate::reaper::Garbage;

/// What a fork knows of its origin.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) keyspace: Arc<Keyspace>,
    /// The entries of the locked shards; `None` if no lock is held.
    locked: Option<HashMap<usize, Index>>,
    touched: Mutex<Touched>,
}

#[derive(Debug, Default)]
struct Touched {
    keys: HashMap<Box<[u8]>, Before>,
    /// The fork was cleared: nothing of the origin is left in it.
    cleared: bool,
    /// Needed something of all shards.
    all_shards: bool,
}

/// A key of the origin when the fork first touched it.
#[derive(Debug)]
struct Before {
    position: u64,
    /// How many keys the fork had touched before.
    order: usize,
    /// `None` if the fork had been cleared before, so that the key did not matter.
    entry: Option<Option<Entry>>,
}

impl Origin {
    /// `locked` are the snapshots of the shards that are locked, if there are locks.
    pub(crate) fn new(keyspace: &Arc<Keyspace>, locked: Option<HashMap<usize, Index>>) -> Self {
        Self {
            keyspace: Arc::clone(keyspace),
            locked,
            touched: Mutex::default(),
        }
    }

    pub(crate) const fn is_locked(&self) -> bool {
        self.locked.is_some()
    }

    /// Takes over the entry of `key` if `fork` touches the key for the first time.
    pub(crate) fn fetch(&self, fork: &Keyspace, position: u64, key: &[u8]) {
        let mut touched = self.touched.lock();
        if touched.keys.contains_key(key) {
            return;
        }
        let entry = if touched.cleared {
            None
        } else {
            let entry = self.find(position, key);
            if let Some(entry) = &entry {
                fork.adopt(position, key, entry.clone());
            }
            Some(entry)
        };
        let before = Before {
            position,
            order: touched.keys.len(),
            entry,
        };
        touched.keys.insert(key.into(), before);
    }

    /// The origin's entry of `key`, which may have expired.
    fn find(&self, position: u64, key: &[u8]) -> Option<Entry> {
        let index = self.keyspace.shard_index(position);
        let Some(locked) = &self.locked else {
            let state = self.keyspace.shards[index].state.lock();
            return state.find(position, key).cloned();
        };
        locked.get(&index)?.find(position, key).cloned()
    }

    /// The entry of `key` that the fork took over from its origin.
    pub(crate) fn entry_before(&self, key: &[u8]) -> Option<Entry> {
        let touched = self.touched.lock();
        touched.keys.get(key)?.entry.clone()?
    }

    /// Forgets the rest of the origin.
    pub(crate) fn clear(&self) {
        let mut touched = self.touched.lock();
        touched.cleared = true;
        touched.all_shards = true;
    }

    /// Number of keys of the origin that the fork has not touched.
    pub(crate) fn untouched_len(&self) -> usize {
        let touched = self.touched.lock();
        if touched.cleared {
            return 0;
        }
        let taken_over = touched.keys.values();
        let taken_over = taken_over.filter(|before| matches!(before.entry, Some(Some(_))));
        self.keyspace.len().saturating_sub(taken_over.count())
    }

    pub(crate) fn key_len_max(&self) -> usize {
        let cleared = self.touched.lock().cleared;
        if cleared {
            0
        } else {
            self.keyspace.key_len_max()
        }
    }

    /// [`Keyspace::scan`] over the fork and what it has not touched of its origin.
    pub(crate) fn scan(
        &self,
        fork: &Keyspace,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&Entry),
    ) -> u64 {
        let own = fork.shards[0].state.lock().index.clone();
        let mut left = count.max(1);
        let mut from = cursor;
        let walk = self.locked.is_none().then(|| self.keyspace.walk());
        for index in self.keyspace.shard_index(cursor)..self.keyspace.shards.len() {
            let end = self.keyspace.shard_start(index + 1);
            let untouched = self.untouched(walk.as_ref(), index, from..end);
            let below_end = |(position, _): &(u64, &Entry)| *position < end;
            let merged = Merged {
                left: untouched.range(from).peekable(),
                right: own.range(from).take_while(below_end).peekable(),
            };
            let mut last = None;
            for (position, entry) in merged {
                if left == 0 && last != Some(position) {
                    return position;
                }
                left = left.saturating_sub(1);
                last = Some(position);
                visit_live(entry, &mut visit);
            }
            from = end;
        }
        0
    }

    /// What the fork has not touched of a shard.
    fn untouched(
        &self,
        walk: Option<&Walk<'_>>,
        index: usize,
        positions: std::ops::Range<u64>,
    ) -> Index {
        let mut touched = self.touched.lock();
        if touched.cleared {
            return Index::new(0);
        }
        let locked = self.locked.as_ref().and_then(|locked| locked.get(&index));
        let mut index = match walk {
            Some(walk) => walk.visit(index, |_, state| state.index.clone()),
            None => {
                touched.all_shards |= locked.is_none();
                locked.cloned().unwrap_or(Index::new(0))
            }
        };
        for (key, before) in &touched.keys {
            if positions.contains(&before.position) {
                index.remove(before.position, |entry| entry.key() == &**key);
            }
        }
        index
    }
}

/// The entries of two indexes, by position.
struct Merged<L: Iterator, R: Iterator> {
    left: Peekable<L>,
    right: Peekable<R>,
}

impl<'m, L, R> Iterator for Merged<L, R>
where
    L: Iterator<Item = (u64, &'m Entry)>,
    R: Iterator<Item = (u64, &'m Entry)>,
{
    type Item = (u64, &'m Entry);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.left.peek(), self.right.peek()) {
            (Some((left, _)), Some((right, _))) if right < left => self.right.next(),
            (Some(_), _) => self.left.next(),
            (None, _) => self.right.next(),
        }
    }
}

/// What the commit of a fork changes, to be told when no lock is held.
#[derive(Debug, Default)]
pub(crate) struct Changes<'f> {
    /// With the order in which the fork first touched them.
    stored: Vec<(usize, &'f [u8])>,
    removed: Vec<&'f [u8]>,
    expired: Vec<&'f [u8]>,
    cleared: bool,
}

/// What a commit does with one key.
pub(crate) struct Step<'f> {
    place: Place,
    key: &'f [u8],
    before: &'f Before,
    after: Option<Entry>,
}

impl Step<'_> {
    /// The entry that the fork took over from its origin.
    fn was(&self) -> Option<&Entry> {
        self.before.entry.as_ref().and_then(Option::as_ref)
    }

    /// Whether the key has this entry, or did not matter.
    fn is_valid(&self, now: Option<&Entry>) -> bool {
        let before = self.before.entry.as_ref();
        before.is_none_or(|before| same(now, before.as_ref()))
    }
}

/// The steps of each shard. They are in the order of shards.
fn shards_of<'s, 'f>(steps: &'s [Step<'f>]) -> impl DoubleEndedIterator<Item = &'s [Step<'f>]> {
    steps.chunk_by(|one, other| one.place == other.place)
}

/// What a fork has touched, while its commit looks at it.
pub(crate) struct Commit<'f> {
    fork: &'f Keyspace,
    origin: &'f Keyspace,
    touched: MutexGuard<'f, Touched>,
}

impl<'f> Commit<'f> {
    /// `None` for a keyspace that is no fork.
    pub(crate) fn of(fork: &'f Keyspace) -> Option<Self> {
        let origin = fork.origin.as_ref()?;
        Some(Self {
            fork,
            origin: &origin.keyspace,
            touched: origin.touched.lock(),
        })
    }

    /// The shards of the origin that the fork has touched.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let number = self.origin.number();
        let all = self.touched.all_shards.then(|| 0..self.origin.shards.len());
        let keys = self.touched.keys.values();
        let shards = keys.map(|before| self.origin.shard_index(before.position));
        all.into_iter()
            .flatten()
            .chain(shards)
            .map(move |index| (number, index))
    }

    /// What there is to do for each key, in the order of shards: all that can be found out without locks.
    pub(crate) fn steps<'s>(&'s self) -> Vec<Step<'s>> {
        let own = self.fork.shards[0].state.lock();
        let steps = self.touched.keys.iter().map(|(key, before)| Step {
            place: self.place(before.position),
            key,
            before,
            after: own.find(before.position, key).cloned(),
        });
        let mut steps: Vec<_> = steps.collect();
        steps.sort_unstable_by_key(|step| (step.place, step.before.position));
        steps
    }

    /// Whether the fork was cleared, and takes all that its origin has.
    pub(crate) fn clears(&self) -> bool {
        self.touched.cleared
    }

    fn changes_key(&self, step: &Step<'_>) -> bool {
        self.touched.cleared || !same(step.after.as_ref(), step.was())
    }

    /// What will have changed.
    pub(crate) fn changes<'s>(&self, steps: &[Step<'s>]) -> Changes<'s> {
        let mut changes = Changes {
            cleared: self.touched.cleared,
            ..Changes::default()
        };
        for step in steps.iter().filter(|step| self.changes_key(step)) {
            let has_expired = |entry: &Entry| entry.is_expired(crate::unix_time_ms);
            if step.was().is_some_and(has_expired) {
                changes.expired.push(step.key);
            }
            match step.after {
                Some(_) => changes.stored.push((step.before.order, step.key)),
                None => changes.removed.push(step.key),
            }
        }
        changes
    }

    /// The shards as the steps leave them, in their order; each is locked for a moment. `None` if something that the fork
    /// touched is not as it was.
    pub(crate) fn prepare(&self, steps: &[Step<'_>]) -> Option<Vec<Prepared>> {
        let prepare = |steps: &[Step<'_>]| {
            let mut prepared = Prepared::of(&self.origin.shards[steps[0].place.1]);
            let finds = |step: &Step<'_>| prepared.find(step.before.position, step.key);
            if !steps.iter().all(|step| step.is_valid(finds(step))) {
                return None;
            }
            for step in steps.iter().filter(|step| self.changes_key(step)) {
                prepared.replace(step.before.position, step.key, step.after.clone());
            }
            Some(prepared)
        };
        shards_of(steps).map(prepare).collect()
    }

    /// Whether everything that the fork touched is as it was. All these shards are locked. `prepared` are the same shards, or
    /// none.
    pub(crate) fn is_valid(
        steps: &[Step<'_>],
        prepared: &[Prepared],
        locks: &ShardLocks<'_>,
    ) -> bool {
        shards_of(steps).enumerate().all(|(index, steps)| {
            let state = locks.state(steps[0].place);
            let finds = |step: &Step<'_>| state.find(step.before.position, step.key);
            prepared.get(index).is_some_and(|it| it.fits(state))
                || steps.iter().all(|step| step.is_valid(finds(step)))
        })
    }

    /// Stores what the fork changed. All shards that it touched are locked; `prepared` are the same shards, or none. With
    /// `releases` each lock ends as soon as its shard is whole: who takes it then finds other shards locked until these are
    /// whole, too.
    pub(crate) fn store(
        &self,
        steps: &[Step<'_>],
        prepared: &mut [Prepared],
        locks: &mut ShardLocks<'_>,
        releases: bool,
    ) -> Vec<Garbage> {
        let mut garbage = Vec::new();
        if self.touched.cleared {
            for index in 0..self.origin.shards.len() {
                let state = locks.state_mut((self.origin.number(), index));
                garbage.push(Garbage::Shards(vec![state.take_all()]));
                self.origin.shards[index].publish(state);
            }
        }
        // From the last shard on, since the last lock is the first to end.
        let mut prepared = prepared.iter_mut().rev();
        for steps in shards_of(steps).rev() {
            let place = steps[0].place;
            if releases {
                locks.release_behind(place);
            }
            let state = locks.state_mut(place);
            match prepared.next().filter(|it| it.fits(state)) {
                Some(prepared) => prepared.put(state),
                None => {
                    for step in steps.iter().filter(|step| self.changes_key(step)) {
                        let after = step.after.clone();
                        let old = state.replace(step.before.position, step.key, after);
                        garbage.extend(old.map(Garbage::Entry));
                    }
                }
            }
            self.origin.shards[place.1].publish(state);
        }
        garbage
    }

    /// Tells those who wait for the keys. No lock of a shard is held.
    pub(crate) fn settle(&self, mut changes: Changes<'_>, garbage: Vec<Garbage>) {
        let origin = self.origin;
        // Those who wait are served in the order in which the fork stored the keys.
        changes.stored.sort_unstable();
        changes
            .stored
            .iter()
            .for_each(|(_, key)| origin.note_key(key));
        changes
            .expired
            .iter()
            .for_each(|key| origin.tell_expired(key));
        let removed = changes.removed.iter();
        removed.for_each(|key| origin.awaited.note_removed(key));
        if changes.cleared {
            origin.awaited.note_all_removed();
        }
        origin.add_stats(self.fork.stats());
        origin.discard_all(garbage);
    }

    fn place(&self, position: u64) -> Place {
        (self.origin.number(), self.origin.shard_index(position))
    }
}

/// Whether both are the same entry.
fn same(left: Option<&Entry>, right: Option<&Entry>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => left.is(right),
        _ => false,
    }
}

/// A key whose changes a client waits for.
#[derive(Debug)]
pub struct Watched {
    database: usize,
    key: Box<[u8]>,
    found: Found,
}

/// What a client found that began to watch a key.
#[derive(Debug)]
enum Found {
    Entry(Entry),
    Nothing(Absence),
}

/// A watched key that does not exist.
#[derive(Debug)]
struct Absence {
    shards: Arc<[Shard]>,
    shard: usize,
    position: u64,
    came: Came,
}

impl Drop for Absence {
    fn drop(&mut self) {
        let mut state = self.shards[self.shard].state.lock();
        state.absences.unwatch(self.position, &self.came);
    }
}

impl Watched {
    /// The number of the key's database.
    #[must_use]
    pub const fn database(&self) -> usize {
        self.database
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Keyspace {
    /// Remembers a key as it is now, for [`transact`](crate::Databases::transact).
    #[must_use]
    pub fn watch(&self, key: &[u8]) -> Watched {
        let found = match self.lookup(key, false) {
            Some(entry) => Found::Entry(entry),
            None => Found::Nothing(self.watch_for(key)),
        };
        Watched {
            database: self.number(),
            key: key.into(),
            found,
        }
    }

    /// Watches for a key that does not exist.
    fn watch_for(&self, key: &[u8]) -> Absence {
        let position = position_of(key);
        let shard = self.shard_index(position);
        let mut state = self.shards[shard].state.lock();
        let came = match state.find(position, key) {
            // It came right now.
            Some(_) => Came::new(true.into()),
            None => state.absences.watch(position),
        };
        Absence {
            shards: Arc::clone(&self.shards),
            shard,
            position,
            came,
        }
    }

    /// Whether the fork found a watched key of this database as it was.
    pub(crate) fn found_unchanged(&self, watched: &Watched) -> bool {
        let Some(origin) = &self.origin else {
            return true;
        };
        origin.fetch(self, position_of(&watched.key), &watched.key);
        let now = origin.entry_before(&watched.key);
        let has_expired = now
            .as_ref()
            .is_some_and(|entry| entry.is_expired(crate::unix_time_ms));
        match &watched.found {
            Found::Entry(entry) => !has_expired && same(now.as_ref(), Some(entry)),
            Found::Nothing(absence) => now.is_none() && !absence.came.load(Ordering::Relaxed),
        }
    }
}
