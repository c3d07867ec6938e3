//! The end of a pool.

use psp_policy::RequestId;

use super::parts::{Left, Turn, What};
use super::scheduling::State;
use crate::job::Fate;
use crate::table::{Place, Task};

impl State {
    /// Spare threads end with the pool.
    pub(crate) fn ends_spares(&mut self, left: &mut Left) {
        left.rung.extend(self.threads.take_spares());
    }

    /// Takes no new tasks from now on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Gives up all tasks that no thread polls; others are given up where they wait next. Those that yielded go on
    /// without a worker. Returns how many there were.
    pub(crate) fn give_up(&mut self, left: &mut Left) -> usize {
        self.is_closed = true;
        self.is_over = true;
        let names: Vec<RequestId> = self.table.names().collect();
        let vacant = self.vacant.total();
        let mut suspended = Vec::new();
        for &name in &names {
            let entry = self.table.at(name);
            match std::mem::replace(&mut entry.place, Place::Pending) {
                Place::Waits(task) => self.given_up(name, task, left),
                Place::Suspended(thread) => {
                    entry.place = Place::Runs;
                    suspended.push(thread);
                }
                Place::Pending => left.recalled.extend(entry.waker.take()),
                other => entry.place = other,
            }
        }
        let turns: Vec<_> = self.next.iter_mut().filter_map(Option::take).collect();
        for Turn { name, what } in turns {
            match what {
                What::Begins(task) => self.given_up(name, task, left),
                What::GoesOn(thread) => suspended.push(thread),
            }
        }
        suspended.iter().for_each(|_| self.threads.lets_go());
        left.rung.extend(suspended);
        names.len() - vacant
    }

    /// Forgets a task that the end of the pool has come before.
    pub(super) fn given_up(&mut self, name: RequestId, task: Task, left: &mut Left) {
        self.table.remove(name);
        task.metadata().decide(Fate::Closed);
        left.dropped.push(task);
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
