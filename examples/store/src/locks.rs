//! Locks of several shards at once, always taken in ascending order.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use parking_lot::MutexGuard;

use crate::keyspace::{Keyspace, Map, State};

/// The locked shards, in ascending order.
pub(crate) struct ShardLocks<'k>(Vec<(usize, MutexGuard<'k, State>)>);

impl<'k> ShardLocks<'k> {
    pub(crate) fn take(keyspace: &'k Keyspace, shards: &BTreeSet<usize>) -> Self {
        let lock = |&index: &usize| (index, keyspace.shards[index].state.lock());
        Self(shards.iter().map(lock).collect())
    }

    /// Snapshots of the locked shards.
    pub(crate) fn maps(&self) -> HashMap<usize, Map> {
        let states = self.0.iter();
        states
            .map(|(index, state)| (*index, state.map.clone()))
            .collect()
    }

    /// # Panics
    /// The shard is not locked.
    pub(crate) fn state(&self, index: usize) -> &State {
        &self.0[self.place(index)].1
    }

    /// # Panics
    /// The shard is not locked.
    pub(crate) fn state_mut(&mut self, index: usize) -> &mut State {
        let place = self.place(index);
        &mut self.0[place].1
    }

    fn place(&self, index: usize) -> usize {
        let place = self.0.binary_search_by_key(&index, |(index, _)| *index);
        place.unwrap_or_else(|_| panic!("shard {index} is not locked"))
    }
}
