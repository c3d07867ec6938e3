//! Where a request waits that a worker read for another one, if the policy leaves it with the worker to which it came.
//!
//! ```text
//!   port of worker 1, which runs a long request ── read by worker 0 ──► own queue of 0
//!                                                             └───────► own queue of 1, if that one yields
//!                                                                       and a long request waits at 0
//! ```
//!
//! Synergy's idle workers take from the queues of others. A worker that drives the ports of others takes all that came
//! there, even if it has something to do itself: then a short request would wait behind a long one here, while the
//! worker to which it came is preempted for no request. Behind short ones it waits for less time than a preemption
//! takes. Where the other worker does not yield, its requests wait with who read them.

use psp_policy::WorkerId;

use super::super::own_queue::Waiting;
use super::Member;

/// Requests among which a long one is looked for. It does not matter so much behind others.
const LOOKED_AT: usize = 16;

impl Member {
    /// The worker in whose queue a request waits that this one has read.
    pub(super) fn receiver(&self, waiting: &Waiting) -> WorkerId {
        let group = &*self.group;
        let owner = group.owner_of(waiting.request).unwrap_or(self.me);
        if owner == self.me {
            return self.me;
        }
        let lane = group.lane(waiting.slot);
        let quantum = group.line(owner).quantum();
        let yields = quantum.is_some_and(|quantum| quantum.yields_to.contains(lane));
        match yields && self.has_long(lane) {
            true => owner,
            false => self.me,
        }
    }

    /// Whether what waits here in `lane` takes long.
    fn has_long(&self, lane: usize) -> bool {
        let group = &*self.group;
        let is_long = |waiting: &Waiting| group.knowledge.is_long(waiting.slot);
        let queue = group.queues[self.me.index()].lock();
        !self.held[lane].is_empty() || queue.iter(lane).take(LOOKED_AT).any(is_long)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use psp_policy::distributed::{LaneSet, Quantum, Runs};
    use psp_policy::{Event, Policy, Preemption, RequestType, Scheduler, SchedulerSetup, TypeSpec, TypeTable};

    use super::*;
    use crate::runtime::distributed::roster::Roster;
    use crate::runtime::distributed::worker_group::WorkerGroup;
    use crate::transport::request_key::{ConnectionIndex, Names, PortNumber};

    const WORKERS: usize = 2;
    const HERE: WorkerId = WorkerId(0);
    const OTHER: WorkerId = WorkerId(1);
    const GET: u32 = 0;
    const KEYS: u32 = 1;

    /// Worker 0 of two under Synergy, which reads for worker 1. That one runs a long request, with this quantum.
    fn member(quantum: Option<Quantum>) -> Member {
        let types = [("GET", 1), ("KEYS", 1_000)];
        let types: TypeTable = { types.into_iter() }
            .map(|(name, us)| TypeSpec::new(name).service_time(Duration::from_micros(us)))
            .collect();
        let setup = SchedulerSetup::new(WORKERS, &types).preemption(Some(Preemption::new(700)));
        let group = WorkerGroup::new(&Policy::synergy(), &setup, Roster::silent(WORKERS));
        let (group, objects) = group.expect("it needs no dispatcher");
        let group = group.with_names(names(HERE));
        let line = group.line(OTHER);
        let (slot, long) = (KEYS as usize, true);
        line.begin(0, 0, Runs { slot, long });
        line.set_quantum(0, quantum);
        let object = objects.into_iter().next().expect("of the first worker");
        Member::new(&setup, Arc::new(group), HERE, object)
    }

    fn names(of: WorkerId) -> Names {
        Names::new(PortNumber::new(of.index()), WORKERS)
    }

    /// Requests of these types come to these workers. Returns how many wait at each worker after each of them.
    fn arrive(member: &mut Member, requests: &[(u32, WorkerId)]) -> Vec<[u64; WORKERS]> {
        let arrives = |(number, &(slot, to)): (usize, &(u32, WorkerId))| {
            let index = ConnectionIndex::new(number).expect("it is small");
            let arrived = Event::Arrived {
                request: names(to).of_run(index),
                request_type: RequestType::new(slot),
                deadline_ns: None,
            };
            member.on_event(1, arrived);
            assert_eq!(member.place_arrived(1), None);
            [HERE, OTHER].map(|worker| member.group.line(worker).queued())
        };
        requests.iter().enumerate().map(arrives).collect()
    }

    #[test]
    fn what_came_to_a_worker_that_yields_does_not_wait_behind_a_long_request_of_another() {
        let mut member = member(Some(Quantum { ns: 1_000, yields_to: LaneSet::ALL }));
        let requests = [(GET, OTHER), (GET, OTHER), (KEYS, OTHER), (GET, OTHER), (GET, HERE)];
        let waiting = arrive(&mut member, &requests);
        assert_eq!(waiting, [[1, 0], [2, 0], [3, 0], [3, 1], [4, 1]]);
    }

    #[test]
    fn where_the_other_one_does_not_yield_all_wait_with_the_reader() {
        let mut member = member(None);
        let waiting = arrive(&mut member, &[(KEYS, OTHER), (GET, OTHER)]);
        assert_eq!(waiting, [[1, 0], [2, 0]]);
    }
}
