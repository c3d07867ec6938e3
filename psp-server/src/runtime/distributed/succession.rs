//! Which policy is in force, and how workers go on from one to the next.
//!
//! ```text
//!   main thread   post(group 2) ──► the latest is 2, wakes all
//!   worker 0      between two turns: comes ── takes its requests along ──► member of group 2
//!   worker 1      ... a long request of group 1 ...          its turn ends ──► member of group 2
//! ```
//!
//! Each worker comes when its turn has ended, so that no worker waits for another. Until then it is a member of the
//! group that it was in, whose queue it reads. Others may put requests for it into its queue in the latest group. If
//! that group is replaced before it came, whoever comes first to the next one takes these along.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use psp_policy::{Policy, Scheduler, WorkerId};

use super::member::Member;
use super::own_queue::Waiting;
use super::worker_group::{Object, WorkerGroup, can_preempt};
use crate::shared::Receiver;

/// A policy, and the worker group under it. Policies under which nothing passes between workers have none.
pub(crate) struct Regime {
    pub(crate) policy: Policy,
    pub(crate) group: Option<Arc<WorkerGroup>>,
    /// Of workers that have not come yet, by their numbers.
    objects: Vec<Option<Object>>,
}

impl Regime {
    /// Without a group `objects` is empty.
    pub(crate) fn new(policy: Policy, group: Option<Arc<WorkerGroup>>, objects: Vec<Object>) -> Self {
        Self {
            policy,
            group,
            objects: objects.into_iter().map(Some).collect(),
        }
    }
}

/// What a worker gets that comes.
pub(crate) struct Joined {
    pub(crate) policy: Policy,
    /// The group, and what decides for the worker in it.
    pub(crate) member: Option<(Arc<WorkerGroup>, Object)>,
    /// Requests that were handed over to workers which never came for them. This one has them now.
    pub(crate) left: Vec<Waiting>,
}

impl Joined {
    /// The scheduler of the worker that receives for itself as `receiver`.
    pub(crate) fn scheduler(
        receiver: &Receiver,
        policy: &Policy,
        member: Option<(Arc<WorkerGroup>, Object)>,
    ) -> Box<dyn Scheduler> {
        let Some((group, object)) = member else {
            return receiver.scheduler(policy);
        };
        let setup = receiver.group_setup();
        receiver.set_can_preempt(can_preempt(policy, &setup));
        let me = receiver.global(WorkerId(0));
        Box::new(Member::new(&setup, group, me, object))
    }
}

struct State {
    latest: Regime,
    epoch: u64,
    /// Per worker: at which epoch it is.
    at: Box<[u64]>,
    left: Vec<Waiting>,
}

/// See the [module](self).
pub(crate) struct Succession {
    state: Mutex<State>,
    epoch: AtomicU64,
}

impl Succession {
    /// So many workers, which have yet to come to the first policy.
    pub(crate) fn new(workers: usize, first: Regime) -> Self {
        Self {
            state: Mutex::new(State {
                latest: first,
                epoch: 1,
                at: vec![0; workers].into(),
                left: Vec::new(),
            }),
            epoch: AtomicU64::new(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the latest policy.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The latest policy's number, and its group.
    pub(crate) fn latest(&self) -> (u64, Option<Arc<WorkerGroup>>) {
        let state = self.lock();
        (state.epoch, state.latest.group.clone())
    }

    /// There may be something to read that no worker reads: those who can have to yield.
    pub(crate) fn no_worker_reads(&self) {
        if let (_, Some(group)) = self.latest() {
            group.no_worker_reads();
        }
    }

    /// Puts another policy in force, and returns its number. The caller wakes all workers then.
    pub(crate) fn post(&self, now_ns: u64, next: Regime) -> u64 {
        if let Some(group) = &next.group {
            group.expect_all(now_ns);
        }
        let state = &mut *self.lock();
        let before = std::mem::replace(&mut state.latest, next);
        if let Some(group) = &before.group {
            let workers = group.workers().zip(&state.at);
            for (worker, _) in workers.filter(|&(_, &at)| at < state.epoch) {
                let left = group.queues[worker.index()].close(group.line(worker));
                state.left.extend(left);
            }
        }
        state.epoch += 1;
        self.epoch.store(state.epoch, Ordering::Release);
        state.epoch
    }

    /// `worker` comes to the latest policy, between two turns. Returns the number of that policy, too. Each worker
    /// comes once to each.
    pub(crate) fn join(&self, worker: WorkerId) -> (u64, Joined) {
        let state = &mut *self.lock();
        state.at[worker.index()] = state.epoch;
        let object = state.latest.objects.get_mut(worker.index());
        let object = object.map(|object| object.take().expect("a worker comes once"));
        let joined = Joined {
            policy: state.latest.policy.clone(),
            member: state.latest.group.clone().zip(object),
            left: std::mem::take(&mut state.left),
        };
        (state.epoch, joined)
    }

    /// Whether a worker is at this policy.
    pub(crate) fn is_in_use(&self, epoch: u64) -> bool {
        self.lock().at.contains(&epoch)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use psp_policy::{RequestId, RequestType, SchedulerSetup, TypeTable};

    use super::*;
    use crate::runtime::distributed::roster::Roster;

    const WORKERS: usize = 2;
    const FIRST: WorkerId = WorkerId(0);
    const SECOND: WorkerId = WorkerId(1);

    fn regime(policy: Policy) -> Regime {
        let types = TypeTable::new();
        let setup = SchedulerSetup::new(WORKERS, &types);
        let group = match policy {
            Policy::DFcfs(_) => None,
            _ => WorkerGroup::new(&policy, &setup, Roster::silent(WORKERS)),
        };
        let (group, objects) = group.unzip();
        Regime::new(policy, group.map(Arc::new), objects.unwrap_or_default())
    }

    fn hand_over(group: &WorkerGroup, to: WorkerId, request: u32) -> bool {
        let waiting = Waiting {
            request: RequestId(request),
            request_type: RequestType::UNKNOWN,
            slot: 0,
            arrived_ns: 0,
            rank_ns: 0,
            handed_over: true,
            has_begun: false,
            served_ns: 0,
            blocked_ns: 0,
        };
        let queue = &group.queues[to.index()];
        queue.put(group.line(to), 0, waiting).is_ok()
    }

    fn ids(left: &[Waiting]) -> Vec<u32> {
        left.iter().map(|waiting| waiting.request.0).collect()
    }

    #[test]
    fn what_waits_for_a_worker_that_never_came_goes_to_whoever_comes_next() {
        for next in [Policy::jsq(), Policy::d_fcfs()] {
            let succession = Succession::new(WORKERS, regime(Policy::d_fcfs()));
            succession.join(FIRST);
            succession.join(SECOND);
            succession.post(10, regime(Policy::jsq()));
            let (epoch, joined) = succession.join(FIRST);
            let (group, _) = joined.member.expect("it has a group");
            assert!(group.line(SECOND).is_busy(), "it is still elsewhere");
            assert!(hand_over(&group, FIRST, 1) && hand_over(&group, SECOND, 2));
            succession.post(20, regime(next));
            assert!(hand_over(&group, FIRST, 3), "it is there");
            assert!(!hand_over(&group, SECOND, 4), "no worker would find it");
            assert!(succession.is_in_use(epoch));
            let (_, second) = succession.join(SECOND);
            assert_eq!(ids(&second.left), [2]);
            let (_, first) = succession.join(FIRST);
            assert!(first.left.is_empty());
            assert!(!succession.is_in_use(epoch));
        }
    }
}
