//! The commit of a fork: what it changed takes the place of its origin's entries, if no other request changed these
//! meanwhile.
//!
//! ```text
//!   steps ─ a key, its entry before and after ──► prepare (if many) ──► lock, is_valid, store ──► settle: tell who waits
//! ```

use parking_lot::MutexGuard;

use crate::clock::Now;
use crate::entry::Entry;
use crate::fork::{Before, Touched, same};
use crate::keyspace::Keyspace;
use crate::locks::{Place, ShardLocks};
use crate::pace::Pace;
use crate::prepared::Prepared;
use crate::reaper::Garbage;

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

    /// When the key dies that the fork found alive.
    fn dies_at_ms(&self, now: &Now) -> Option<u64> {
        let alive = self.was().filter(|entry| !entry.is_expired(now));
        alive.and_then(Entry::expire_at_ms)
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

    /// The shards of the origin that the fork has touched, in which these `steps` are.
    pub(crate) fn places<'s>(&self, steps: &'s [Step<'_>]) -> impl Iterator<Item = Place> + 's {
        let number = self.origin.number();
        let all = self.touched.all_shards.then(|| 0..self.origin.shards.len());
        let all = all.into_iter().flatten().map(move |index| (number, index));
        all.chain(shards_of(steps).map(|steps| steps[0].place))
    }

    /// What there is to do for each key, in the order of shards: all that can be found out without locks.
    pub(crate) fn steps<'s>(&'s self, pace: &Pace) -> Vec<Step<'s>> {
        // No other request wants this lock.
        let own = self.fork.shards[0].state.lock();
        let steps = self.touched.keys.iter().map(|(key, before)| {
            pace.step();
            Step {
                place: self.place(before.position),
                key,
                before,
                after: own.find(before.position, key).cloned(),
            }
        });
        let mut steps: Vec<_> = steps.collect();
        steps.sort_unstable_by(|one, other| {
            pace.step();
            let order = |step: &Step<'_>| (step.place, step.before.position);
            order(one).cmp(&order(other))
        });
        steps
    }

    /// Whether the fork was cleared, and takes all that its origin has.
    pub(crate) fn clears(&self) -> bool {
        self.touched.cleared
    }

    /// When the first key dies that the fork found alive.
    pub(crate) fn dies_at_ms(&self, steps: &[Step<'_>]) -> Option<u64> {
        let now = self.fork.now();
        steps.iter().filter_map(|step| step.dies_at_ms(&now)).min()
    }

    fn changes_key(&self, step: &Step<'_>) -> bool {
        self.touched.cleared || !same(step.after.as_ref(), step.was())
    }

    /// What will have changed.
    pub(crate) fn changes<'s>(&self, steps: &[Step<'s>], pace: &Pace) -> Changes<'s> {
        let mut changes = Changes { cleared: self.touched.cleared, ..Changes::default() };
        let now = self.fork.now();
        for step in steps.iter().filter(|step| self.changes_key(step)) {
            pace.step();
            if step.was().is_some_and(|entry| entry.is_expired(&now)) {
                changes.expired.push(step.key);
            }
            match step.after {
                Some(_) => changes.stored.push((step.before.order, step.key)),
                None => changes.removed.push(step.key),
            }
        }
        changes
    }

    /// The shards as the steps leave them, in their order; each is locked for a moment. `None` if something that the
    /// fork touched is not as it was.
    pub(crate) fn prepare(&self, steps: &[Step<'_>], pace: &Pace) -> Option<Vec<Prepared>> {
        let prepare = |steps: &[Step<'_>]| {
            let mut prepared = Prepared::of(&self.origin.shards[steps[0].place.1]);
            let finds = |step: &Step<'_>| prepared.find(step.before.position, step.key);
            if !steps.iter().all(|step| step.is_valid(finds(step))) {
                return None;
            }
            for step in steps.iter().filter(|step| self.changes_key(step)) {
                pace.step();
                prepared.replace(step.before.position, step.key, step.after.clone());
            }
            Some(prepared)
        };
        shards_of(steps).map(prepare).collect()
    }

    /// Whether everything that the fork touched is as it was. All these shards are locked. `prepared` are the same
    /// shards, or none.
    pub(crate) fn is_valid(steps: &[Step<'_>], prepared: &[Prepared], locks: &ShardLocks<'_>) -> bool {
        shards_of(steps).enumerate().all(|(index, steps)| {
            let state = locks.state(steps[0].place);
            let finds = |step: &Step<'_>| state.find(step.before.position, step.key);
            prepared.get(index).is_some_and(|it| it.fits(state)) || steps.iter().all(|step| step.is_valid(finds(step)))
        })
    }

    /// Stores what the fork changed. All shards that it touched are locked; `prepared` are the same shards, or none.
    /// With `releases` each lock ends as soon as its shard is whole: who takes it then finds other shards locked until
    /// these are whole, too.
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
                let everything = state.take_all();
                self.origin.shards[index].publish(state, everything.keys);
                garbage.push(Garbage::Shards(vec![everything]));
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
            let changed = steps.iter().filter(|step| self.changes_key(step));
            self.origin.shards[place.1].publish(state, changed.count());
        }
        garbage
    }

    /// Tells those who wait for the keys. No lock of a shard is held.
    pub(crate) fn settle(&self, mut changes: Changes<'_>, garbage: Vec<Garbage>, pace: &Pace) {
        let origin = self.origin;
        // Those who wait are served in the order in which the fork stored the keys.
        changes.stored.sort_unstable_by(|one, other| {
            pace.step();
            one.cmp(other)
        });
        let stored = changes.stored.iter().inspect(|_| pace.step());
        stored.for_each(|(_, key)| origin.note_key(key));
        let expired = changes.expired.iter().inspect(|_| pace.step());
        expired.for_each(|key| origin.tell_expired(key));
        let removed = changes.removed.iter().inspect(|_| pace.step());
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
