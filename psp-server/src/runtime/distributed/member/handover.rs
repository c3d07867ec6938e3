//! How a worker's requests go on when its policy changes.
//!
//! A worker changes its policy between two turns, so nothing runs. What others hand over to it meanwhile stays with
//! them, since the queue is closed from then on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use psp_policy::distributed::Requeue;
use psp_policy::{Backlog, BacklogRequest, Handover, RequestState, WorkerId};

use super::{Begun, Member, Waiting};
use crate::fiber;

/// The worker, as a scheduler counts that has no other.
const HERE: WorkerId = WorkerId(0);

impl Begun {
    const fn backlog(self, state: RequestState) -> BacklogRequest {
        let Waiting { request, request_type, arrived_ns, served_ns, blocked_ns, .. } = self.waiting;
        BacklogRequest {
            request,
            request_type,
            arrived_ns,
            deadline_ns: None,
            served_ns,
            blocked_ns,
            state,
        }
    }
}

impl Member {
    /// Takes a request that waits for another turn.
    fn take_begun(&mut self) -> Option<Begun> {
        let aside = self.group.suspended.take().map(Begun::new);
        let aside = aside.or_else(|| self.begun.remove(&self.wait_queue.pop_front()?));
        if aside.is_some() {
            self.group.wait_queue.took(self.seen_ns);
            return aside;
        }
        let Reverse(resumable) = self.held.iter_mut().find_map(BinaryHeap::pop)?;
        self.begun.remove(&resumable.request)
    }

    /// A request that had begun under another policy waits for another turn.
    fn take_begun_over(&mut self, now_ns: u64, begun: Begun) {
        let Waiting { request, arrived_ns, served_ns, .. } = begun.waiting;
        let moves = { self.group.moving() }.is_some_and(|moving| moving.has(request));
        match self.object.requeue() {
            _ if moves => self.leave_to_all(now_ns, begun, arrived_ns),
            Requeue::WaitQueue if served_ns > 0 && self.group.moving().is_none() => {
                self.put_aside(now_ns, begun);
            }
            _ => self.hold(begun, arrived_ns),
        }
    }
}

impl Handover for Member {
    /// Where any worker may resume what was preempted, who leaves first takes all of that along.
    fn hand_over(&mut self) -> Backlog {
        let closed = self.group.queues[self.me.index()].close(self.line());
        let waiting = closed.into_iter().chain(self.arrived.drain(..));
        let suspended = RequestState::Suspended { home: HERE };
        let waiting = waiting.map(|waiting| {
            let state = match waiting.has_begun {
                true => suspended,
                false => RequestState::Waiting,
            };
            Begun::new(waiting).backlog(state)
        });
        let mut requests: Vec<BacklogRequest> = waiting.collect();
        while let Some(begun) = self.take_begun() {
            requests.push(begun.backlog(suspended));
        }
        let blocked = self.begun.drain().map(|(_, begun)| {
            let since_ns = begun.left_ns;
            begun.backlog(RequestState::Blocked { home: HERE, since_ns })
        });
        requests.extend(blocked);
        self.blocked = 0;
        self.show_held();
        self.line().set_served(0);
        requests.sort_by_key(|request| (request.arrived_ns, request.request.0));
        Backlog {
            requests,
            refused: self.refused.drain(..).collect(),
            rejections: Vec::new(),
        }
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.seen_ns = now_ns;
        // The numbers of its turns go on: somebody may be about to ask an earlier one to yield.
        self.line().settle(now_ns, fiber::turn());
        self.refused.extend(backlog.refused);
        for request in backlog.requests {
            let waiting = Waiting {
                request: request.request,
                request_type: request.request_type,
                slot: self.group.knowledge.slot(request.request_type),
                arrived_ns: request.arrived_ns,
                rank_ns: request.arrived_ns,
                handed_over: false,
                has_begun: request.state != RequestState::Waiting,
                served_ns: request.served_ns,
                blocked_ns: request.blocked_ns,
            };
            let mut begun = Begun::new(waiting);
            match request.state {
                // None is refused that another policy had taken.
                RequestState::Waiting => {
                    if let Err(waiting) = self.place(now_ns, waiting) {
                        self.put_stolen(waiting);
                    }
                }
                RequestState::Suspended { .. } => self.take_begun_over(now_ns, begun),
                RequestState::Blocked { since_ns, .. } => {
                    begun.left_ns = since_ns;
                    self.block(begun);
                }
                RequestState::Running { .. } => unreachable!("a worker is between two turns"),
            }
        }
        self.show_held();
        self.group.wake_for_suspended();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use psp_policy::{
        Action, Contexts, Event, Policy, Preemption, RequestId, RequestType, Scheduler, SchedulerSetup, TypeSpec,
        TypeTable, switch,
    };

    use super::*;
    use crate::runtime::distributed::moving::Moving;
    use crate::runtime::distributed::roster::Roster;
    use crate::runtime::distributed::worker_group::WorkerGroup;

    const WORKERS: usize = 2;
    const NAMES: [&str; 4] = ["stealing", "jsq", "synergy", "darc-distributed"];

    fn types() -> TypeTable {
        let specs = ["first", "second"].map(TypeSpec::new);
        specs.into_iter().collect()
    }

    fn setup(types: &TypeTable) -> SchedulerSetup<'_> {
        SchedulerSetup::new(WORKERS, types)
            .contexts(Contexts::at_home(16))
            .preemption(Some(Preemption::new(700)))
            .queue_capacity(4)
    }

    /// One worker of two, the other of which does nothing. `moves` says whether any worker may resume what was
    /// preempted.
    fn member(name: &str, moves: bool) -> Member {
        let (types, policy) = (types(), name.parse::<Policy>().expect("its name"));
        let setup = setup(&types);
        let group = WorkerGroup::new(&policy, &setup, Roster::silent(WORKERS));
        let (group, objects) = group.expect("it needs no dispatcher");
        let object = objects.into_iter().next().expect("of the first worker");
        let group = group.with_moving(moves.then(|| Arc::new(Moving::unlimited())));
        Member::new(&setup, Arc::new(group), HERE, object)
    }

    fn arrive(scheduler: &mut dyn Scheduler, now_ns: u64, requests: std::ops::Range<u32>) {
        for id in requests {
            let (request, deadline_ns) = (RequestId(id), None);
            let request_type = RequestType::new(id % 2);
            let arrived = Event::Arrived { request, request_type, deadline_ns };
            scheduler.on_event(now_ns + u64::from(id), arrived);
        }
    }

    fn run(scheduler: &mut dyn Scheduler, now_ns: u64) -> Option<u32> {
        match scheduler.poll(now_ns)? {
            Action::Run { request, .. } => Some(request.0),
            action => panic!("{action:?}"),
        }
    }

    /// Runs one request after the other to its end.
    fn run_all(scheduler: &mut dyn Scheduler, mut now_ns: u64) -> Vec<u32> {
        let mut ran = Vec::new();
        while let Some(request) = run(scheduler, now_ns) {
            ran.push(request);
            now_ns += 10;
            let completed = Event::Completed { worker: HERE, samples: &[], dropped: false };
            scheduler.on_event(now_ns, completed);
        }
        ran
    }

    /// The idle worker has these, by either policy.
    fn of_other(group: &Arc<WorkerGroup>) -> Vec<u32> {
        let other = WorkerId(1);
        let waiting = group.queues[other.index()].close(group.line(other));
        waiting.iter().map(|waiting| waiting.request.0).collect()
    }

    /// Requests that wait, one that yielded and one that is blocked, which this returns.
    fn busy(member: &mut Member) -> RequestId {
        arrive(member, 0, 0..3);
        let (worker, served_ns) = (HERE, 10);
        let blocked = run(member, 40).expect("it waits here");
        member.on_event(50, Event::Blocked { worker, served_ns });
        run(member, 50).expect("it waits here");
        member.on_event(60, Event::Yielded { worker, served_ns });
        arrive(member, 60, 3..5);
        let stay = if member.group.moving().is_some() { 1 } else { 2 };
        assert_eq!((member.blocked, member.begun.len()), (1, stay));
        RequestId(blocked)
    }

    #[test]
    fn everything_goes_on_under_every_other_policy() {
        let pairs = NAMES.map(|from| NAMES.map(|to| (from, to)));
        for (from, to) in pairs.into_iter().flatten() {
            for moves in [false, true] {
                let (mut before, mut after) = (member(from, moves), member(to, moves));
                let blocked = busy(&mut before);
                let group = before.group.clone();
                assert!(switch(&mut before, &mut after, 100));
                assert_eq!(group.line(HERE).queue(), Default::default(), "{from}");
                let mut ran = run_all(&mut after, 200);
                after.on_event(900, Event::Unblocked { request: blocked });
                ran.extend(run_all(&mut after, 1_000));
                ran.extend([group, after.group.clone()].iter().flat_map(of_other));
                ran.sort_unstable();
                assert_eq!(ran, [0, 1, 2, 3, 4], "{from} to {to}, {moves}");
                assert_eq!(run(&mut after, 2_000), None);
            }
        }
    }

    #[test]
    fn nothing_is_refused_that_another_policy_had_taken() {
        let (mut before, mut after) = (member("stealing", false), member("stealing", false));
        // As many of each type as its queue holds.
        arrive(&mut before, 0, 0..8);
        let refused = (RequestId(9), RequestType::new(0));
        before.refused.push_back(refused);
        let (moved, left) = (before.hand_over(), before.hand_over());
        assert_eq!((moved.requests.len(), moved.refused.len()), (8, 1));
        assert_eq!((left.requests.len(), left.refused.len()), (0, 0));
        after.take_over(100, moved);
        let first = after.poll(200);
        let (request, request_type) = refused;
        let rejected = Action::Reject { request, request_type };
        assert_eq!(first, Some(rejected));
        assert_eq!(run_all(&mut after, 200).len(), 8);
    }
}
