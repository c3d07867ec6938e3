//! The end of a pool.

use psp_policy::RequestId;

use super::parts::{Left, What};
use super::scheduling::State;
use crate::job::Fate;
use crate::table::Place;

impl State {
    /// Spare threads end with the pool.
    pub(crate) fn ends_spares(&mut self, left: &mut Left) {
        left.rung.extend(self.crew.take_spares());
    }

    /// Takes no new tasks from now on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Gives up all tasks that no thread polls; those that gave way go on without a worker. Returns how many there were.
    pub(crate) fn give_up(&mut self, left: &mut Left) -> usize {
        self.is_closed = true;
        self.is_over = true;
        let names: Vec<RequestId> = self.table.names().collect();
        let vacant = self.vacant.total();
        let mut given_up = Vec::new();
        for &name in &names {
            let place = &mut self.table.at(name).place;
            match std::mem::replace(place, Place::Pending) {
                Place::Waits(task) | Place::Woken(task) => given_up.push(What::Begins(task)),
                Place::Suspended(carrier) => {
                    *place = Place::Runs;
                    given_up.push(What::GoesOn(carrier));
                }
                other => *place = other,
            }
        }
        let turns = self.next.iter_mut().filter_map(Option::take);
        given_up.extend(turns.map(|turn| turn.what));
        for what in given_up {
            match what {
                What::Begins(task) => {
                    task.metadata().decide(Fate::Closed);
                    left.dropped.push(task);
                }
                What::GoesOn(carrier) => {
                    self.crew.lets_go();
                    left.rung.push(carrier);
                }
            }
        }
        names.len() - vacant
    }

    /// Whether workers shall end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over || self.is_drained()
    }

    /// Whether there is nothing left to do, and nothing will come.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_closed && self.table.len() == 0
    }
}
