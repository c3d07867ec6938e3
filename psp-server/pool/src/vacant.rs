//! Names of tasks that were withdrawn while they waited.
//!
//! The scheduler goes on to queue such a name, and the pool drops it when its turn comes. Until then it holds a place
//! in the bounded queue of its type. So a task that finds the queue full takes the name, and the place, of one that was
//! withdrawn.

use psp_policy::RequestId;

use crate::table::{Place, Table, Vacancy};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Vacant {
    /// Per type slot.
    names: Box<[Vec<RequestId>]>,
}

impl Vacant {
    pub(crate) fn new(slots: usize) -> Self {
        Self { names: (0..slots).map(|_| Vec::new()).collect() }
    }

    /// Remembers a name whose task is gone. Returns where the task was.
    pub(crate) fn add(&mut self, table: &mut Table, slot: usize, name: RequestId) -> Place {
        let names = &mut self.names[slot];
        let at = names.len();
        names.push(name);
        let vacant = Place::Vacant(Vacancy { slot, at });
        let entry = table.at(name);
        entry.waker = None;
        std::mem::replace(&mut entry.place, vacant)
    }

    /// A name for another task.
    pub(crate) fn take(&mut self, slot: usize) -> Option<RequestId> {
        self.names[slot].pop()
    }

    /// Forgets a name whose turn has come.
    pub(crate) fn remove(&mut self, table: &mut Table, vacancy: Vacancy) {
        let Vacancy { slot, at } = vacancy;
        let names = &mut self.names[slot];
        names.swap_remove(at);
        if let Some(&moved) = names.get(at) {
            table.at(moved).place = Place::Vacant(vacancy);
        }
    }

    /// How many there are of one type.
    pub(crate) fn len(&self, slot: usize) -> usize {
        self.names[slot].len()
    }

    /// How many there are.
    pub(crate) fn total(&self) -> usize {
        self.names.iter().map(Vec::len).sum()
    }
}
