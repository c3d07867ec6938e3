//! Where a request waits that a worker read for another one, if the policy leaves it with the worker to which it came.
//!
//! ```text
//!   port of worker 1, which runs a long request ── read by worker 0 ──► own queue of 0, if that has nothing to do
//!                                                             └───────► own queue of 1, if that one gives way
//! ```
//!
//! Synergy's idle workers take from the queues of others. A worker that drives the ports of others takes all that came there,
//! even if it is busy itself: then a short request would wait behind others here, while the worker to which it came is
//! preempted for nobody. Where that one would not give way, its requests wait with who read them.

use psp_policy::WorkerId;

use super::super::own_queue::Waiting;
use super::Member;

impl Member {
    /// The worker in whose queue a request waits that this one has read.
    pub(super) fn receiver(&self, waiting: &Waiting) -> WorkerId {
        let crew = &*self.crew;
        let owner = crew.owner_of(waiting.request).unwrap_or(self.me);
        if owner == self.me {
            return self.me;
        }
        let lane = crew.lane(waiting.slot);
        let quantum = crew.line(owner).quantum();
        let gives_way = quantum.is_some_and(|quantum| quantum.yields_to.contains(lane));
        let mine = self.mine();
        let is_busy = mine.wait_queue || !mine.own().is_empty();
        match gives_way && is_busy {
            true => owner,
            false => self.me,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use psp_policy::distributed::{LaneSet, Quantum, Runs};
    use psp_policy::{
        Event, Policy, Preemption, RequestId, RequestType, Scheduler, SchedulerSetup, TypeSpec,
        TypeTable,
    };

    use super::*;
    use crate::runtime::crew::roster::Roster;
    use crate::runtime::crew::shared_state::Crew;
    use crate::transport::request_key::{ConnectionIndex, Names, PortNumber};

    const WORKERS: usize = 2;
    const HERE: WorkerId = WorkerId(0);
    const OTHER: WorkerId = WorkerId(1);

    /// Worker 0 of two under Synergy, which reads for worker 1. That one runs a long request, with this quantum.
    fn member(quantum: Option<Quantum>) -> Member {
        let types: TypeTable = [TypeSpec::new("GET")].into_iter().collect();
        let setup = SchedulerSetup::new(WORKERS, &types).preemption(Some(Preemption::new(700)));
        let crew = Crew::new(&Policy::synergy(), &setup, Roster::silent(WORKERS));
        let (crew, objects) = crew.expect("it needs no dispatcher");
        let crew = crew.with_names(names(HERE));
        let line = crew.line(OTHER);
        let (slot, long) = (0, true);
        line.begin(0, 0, Runs { slot, long });
        line.set_quantum(0, quantum);
        let object = objects.into_iter().next().expect("of the first worker");
        Member::new(&setup, Arc::new(crew), HERE, object)
    }

    fn names(of: WorkerId) -> Names {
        Names::new(PortNumber::new(of.index()), WORKERS)
    }

    /// A request comes to `to`. Returns how many wait at each worker then.
    fn arrives(member: &mut Member, number: usize, to: WorkerId) -> [u64; WORKERS] {
        let index = ConnectionIndex::new(number).expect("it is small");
        let request: RequestId = names(to).of_run(index);
        let arrived = Event::Arrived {
            request,
            request_type: RequestType::new(0),
            deadline_ns: None,
        };
        member.on_event(1, arrived);
        assert_eq!(member.place_arrived(1), None);
        [HERE, OTHER].map(|worker| member.crew.line(worker).queued())
    }

    #[test]
    fn a_busy_worker_leaves_what_it_read_to_the_one_that_gives_way() {
        let mut member = member(Some(Quantum {
            ns: 1_000,
            yields_to: LaneSet::ALL,
        }));
        assert_eq!(arrives(&mut member, 0, OTHER), [1, 0], "it runs it at once");
        assert_eq!(arrives(&mut member, 1, OTHER), [1, 1]);
        assert_eq!(arrives(&mut member, 2, HERE), [2, 1]);
    }

    #[test]
    fn where_the_other_one_does_not_give_way_all_wait_with_the_reader() {
        let mut member = member(None);
        assert_eq!(arrives(&mut member, 0, OTHER), [1, 0]);
        assert_eq!(arrives(&mut member, 1, OTHER), [2, 0]);
    }
}
