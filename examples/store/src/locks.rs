//! Locks of several shards at once, always taken in the order of their databases and places.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use parking_lot::MutexGuard;

use crate::index::Index;
use crate::keyspace::{Keyspace, State};

/// A shard: the number of its database, and its own.
pub(crate) type Place = (usize, usize);

/// The locked shards, in ascending order.
pub(crate) struct ShardLocks<'k>(Vec<(Place, MutexGuard<'k, State>)>);

impl<'k> ShardLocks<'k> {
    /// Locks these shards of the databases that `keyspace_of` finds by their numbers.
    pub(crate) fn take(places: &BTreeSet<Place>, keyspace_of: impl Fn(usize) -> &'k Keyspace) -> Self {
        let lock = |&(number, index): &Place| {
            let state = keyspace_of(number).shards[index].state.lock();
            ((number, index), state)
        };
        Self(places.iter().map(lock).collect())
    }

    /// Snapshots of the locked shards.
    pub(crate) fn indexes(&self) -> HashMap<Place, Index> {
        let states = self.0.iter();
        states.map(|(place, state)| (*place, state.index.clone())).collect()
    }

    /// Whether all these shards are locked.
    pub(crate) fn hold(&self, places: &BTreeSet<Place>) -> bool {
        places.iter().all(|place| self.find(*place).is_ok())
    }

    /// # Panics
    /// The shard is not locked.
    pub(crate) fn state(&self, place: Place) -> &State {
        &self.0[self.index_of(place)].1
    }

    /// # Panics
    /// The shard is not locked.
    pub(crate) fn state_mut(&mut self, place: Place) -> &mut State {
        let index = self.index_of(place);
        &mut self.0[index].1
    }

    /// # Panics
    /// One of the shards is not locked, or both are the same.
    pub(crate) fn pair_mut(&mut self, places: [Place; 2]) -> [&mut State; 2] {
        let indices = places.map(|place| self.index_of(place));
        let pair = self.0.get_disjoint_mut(indices);
        let pair = pair.unwrap_or_else(|error| panic!("shards {places:?}: {error}"));
        pair.map(|(_, state)| &mut **state)
    }

    /// Ends the locks of all shards behind this one.
    pub(crate) fn release_behind(&mut self, place: Place) {
        while self.0.pop_if(|(last, _)| *last > place).is_some() {}
    }

    fn find(&self, place: Place) -> Result<usize, usize> {
        self.0.binary_search_by_key(&place, |(place, _)| *place)
    }

    fn index_of(&self, place: Place) -> usize {
        self.find(place).unwrap_or_else(|_| panic!("shard {place:?} is not locked"))
    }
}
