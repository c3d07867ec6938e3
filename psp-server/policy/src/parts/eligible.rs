//! Which waiting requests an idle worker can run: any request that never ran, if it has a context
//! left beside those of its blocked ones, and its own suspended ones.
//!
//! A request that never ran goes to an idle worker without suspended requests, if there is one, so
//! that the others resume the requests that only they can. It may begin on the workers of a range; a
//! suspended request resumes at home, whatever the range. A range has workers that are present.

use crate::event::WorkerId;
use crate::parts::queues::Queues;
use crate::parts::waiting::Waiting;
use crate::parts::workers::{WorkerRange, WorkerSet};

/// The idle worker of `range` that begins the next request which never ran.
#[inline]
pub(crate) fn worker_for_new(queues: &Queues, idle: &WorkerSet, range: WorkerRange) -> Option<WorkerId> {
    least_bound(queues, idle, range, |worker| queues.has_context(worker))
}

/// As [`worker_for_new`], a worker that can be taken back: it has a context left when the request
/// that it begins is suspended.
pub(crate) fn worker_to_lend(queues: &Queues, idle: &WorkerSet, range: WorkerRange) -> Option<WorkerId> {
    least_bound(queues, idle, range, |worker| queues.has_another_context(worker))
}

/// An idle worker that is `fit`: one that is the home of no other request, if there is any, or else one without
/// suspended requests. What a blocked request waits for may come while a long request has its home.
#[inline]
fn least_bound(
    queues: &Queues,
    idle: &WorkerSet,
    range: WorkerRange,
    fit: impl Fn(WorkerId) -> bool,
) -> Option<WorkerId> {
    if !queues.needs_any() {
        return idle.find(range, |_| true);
    }
    // The own thread goes first whatever is blocked there.
    let is_free = |worker| queues.suspended(worker) == 0 && (queues.is_free(worker) || idle.is_own_thread(worker));
    let free = idle.find(range, |worker| is_free(worker) && fit(worker));
    let unbound = free.or_else(|| idle.find(range, |worker| queues.suspended(worker) == 0 && fit(worker)));
    unbound.or_else(|| idle.find(range, fit))
}

/// The next request of `lane` that some idle worker can take up; one that never ran, a worker of `range`.
#[inline]
pub(crate) fn next_of<'a>(
    queues: &'a Queues,
    idle: &WorkerSet,
    range: WorkerRange,
    lane: usize,
) -> Option<&'a Waiting> {
    let new = queues.front(lane);
    if !queues.any_bound() {
        return new.filter(|_| idle.any_idle(range));
    }
    let begins = |worker: WorkerId| range.contains(worker.0) && queues.has_context(worker);
    let new = new.filter(|_| idle.workers().any(begins));
    let suspended = idle.workers().filter_map(|worker| queues.front_at(lane, worker));
    new.into_iter().chain(suspended).min_by_key(|waiting| waiting.rank)
}

/// Takes the [next](next_of) request of `lane`, and the worker for it.
#[inline]
pub(crate) fn take_next(
    queues: &mut Queues,
    idle: &mut WorkerSet,
    range: WorkerRange,
    lane: usize,
) -> Option<(WorkerId, Waiting)> {
    if !queues.any_bound() {
        // Any worker can take up anything.
        let worker = worker_for_new(queues, idle, range)?;
        let waiting = queues.pop(lane)?;
        idle.remove(worker);
        return Some((worker, waiting));
    }
    let home = next_of(queues, idle, range, lane)?.home;
    let worker = home.or_else(|| worker_for_new(queues, idle, range))?;
    idle.remove(worker);
    let waiting = match home {
        Some(home) => queues.pop_at(lane, home),
        None => queues.pop(lane),
    };
    Some((worker, waiting?))
}

/// Takes the request of `lane` that is [due first](Queues::first_due), and a worker of `range` for it.
pub(crate) fn take_due(
    queues: &mut Queues,
    idle: &mut WorkerSet,
    range: WorkerRange,
    lane: usize,
) -> Option<(WorkerId, Waiting)> {
    let worker = worker_for_new(queues, idle, range)?;
    let waiting = queues.pop_due(lane)?;
    idle.remove(worker);
    Some((worker, waiting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RequestId;
    use crate::rehearsal::setup;
    use crate::request_type::{RequestType, TypeTable};
    use crate::setup::{Contexts, SchedulerSetup};

    const LANE: usize = 0;

    /// Requests that arrived in the order of their ids, of which those with a home ran there.
    fn queues(contexts: usize, homes: &[Option<u32>]) -> Queues {
        let types = TypeTable::new();
        let setup = SchedulerSetup { contexts: Contexts::at_home(contexts), ..setup(3, &types) };
        let mut queues = Queues::typed(&setup);
        for id in 0..homes.len() as u32 {
            queues.push(LANE, 0, RequestId(id), RequestType::UNKNOWN, None);
        }
        let mut all: Vec<Waiting> = std::iter::from_fn(|| queues.pop(LANE)).collect();
        for (waiting, &home) in all.iter_mut().zip(homes) {
            waiting.home = home.map(WorkerId);
            queues.put_back_first(LANE, *waiting);
        }
        queues
    }

    /// Three workers, of which these are idle.
    fn idle(workers: &[u32]) -> WorkerSet {
        let mut set = WorkerSet::new(3, false);
        for worker in (0..3).filter(|worker| !workers.contains(worker)) {
            set.remove(WorkerId(worker));
        }
        set
    }

    /// The requests that run, one after the other, as `request@worker`.
    fn taken(queues: &mut Queues, idle: &mut WorkerSet) -> Vec<String> {
        let all = idle.all();
        let next = || take_next(queues, idle, all, LANE);
        std::iter::from_fn(next)
            .map(|(worker, waiting)| format!("{}@{}", waiting.request.0, worker.0))
            .collect()
    }

    #[test]
    fn suspended_requests_resume_at_home_and_new_ones_begin_where_nothing_is_suspended() {
        let mut queues = queues(4, &[Some(0), Some(2), None, None]);
        let mut idle = idle(&[1, 2]);
        assert_eq!(next_of(&queues, &idle, idle.all(), LANE).unwrap().request.0, 1);
        assert_eq!(taken(&mut queues, &mut idle), ["1@2", "2@1"]);
        assert!(next_of(&queues, &idle, idle.all(), LANE).is_none());
        idle.release(WorkerId(0));
        assert_eq!(taken(&mut queues, &mut idle), ["0@0"]);
    }

    #[test]
    fn a_new_one_that_is_first_leaves_homes_to_others_if_it_can() {
        let mut one = queues(4, &[None, Some(0)]);
        assert_eq!(taken(&mut one, &mut idle(&[0, 1])), ["0@1", "1@0"]);
        let mut other = queues(4, &[None, Some(0)]);
        assert_eq!(taken(&mut other, &mut idle(&[0])), ["0@0"], "none else is idle");
    }

    #[test]
    fn a_new_one_leaves_workers_alone_that_others_may_need() {
        for (suspended, blocked, inline, found) in [
            (&[0][..], &[][..], false, 1),
            (&[], &[0], false, 1),
            (&[], &[0, 1], false, 2),
            (&[0], &[1, 2], false, 1), // What is blocked may wait for long.
            (&[0, 1], &[0, 2], false, 2),
            (&[0, 1, 2], &[0, 1, 2], false, 0),
            (&[], &[0], true, 0), // The own thread.
            (&[0], &[], true, 1),
        ] {
            let homes: Vec<Option<u32>> = suspended.iter().copied().map(Some).collect();
            let mut queues = queues(4, &homes);
            for &worker in blocked {
                queues.block(0, WorkerId(worker), Waiting::example());
            }
            let idle = WorkerSet::new(3, inline);
            let worker = worker_for_new(&queues, &idle, idle.all());
            assert_eq!(worker, Some(WorkerId(found)), "{suspended:?} suspended, {blocked:?} blocked");
        }
    }

    #[test]
    fn the_range_is_for_requests_that_never_ran() {
        let others = WorkerRange::new(1, 3);
        let mut both = queues(4, &[None, Some(0)]);
        let mut only_0 = idle(&[0]);
        let (worker, resumed) = take_next(&mut both, &mut only_0, others, LANE).unwrap();
        assert_eq!((worker.0, resumed.request.0), (0, 1));
        only_0.release(WorkerId(0));
        assert!(next_of(&both, &only_0, others, LANE).is_none());
        assert!(take_next(&mut both, &mut only_0, others, LANE).is_none());
        only_0.release(WorkerId(2));
        let (worker, begun) = take_next(&mut both, &mut only_0, others, LANE).unwrap();
        assert_eq!((worker.0, begun.request.0), (2, 0));
    }

    #[test]
    fn without_a_context_left_a_worker_goes_on_with_what_it_has() {
        let mut queues = queues(1, &[None, Some(0), None]);
        let mut idle = idle(&[0]);
        assert_eq!(next_of(&queues, &idle, idle.all(), LANE).unwrap().request.0, 1);
        assert_eq!(worker_for_new(&queues, &idle, idle.all()), None);
        assert_eq!(taken(&mut queues, &mut idle), ["1@0"]);
        idle.release(WorkerId(0));
        assert_eq!(taken(&mut queues, &mut idle), ["0@0"]);
    }

    #[test]
    fn a_worker_is_lent_where_what_it_begins_can_be_suspended() {
        let queues = queues(2, &[Some(0), None]);
        let idle = idle(&[0]);
        assert_eq!(worker_for_new(&queues, &idle, idle.all()), Some(WorkerId(0)));
        assert_eq!(worker_to_lend(&queues, &idle, idle.all()), None);
        let both = self::idle(&[0, 2]);
        assert_eq!(worker_to_lend(&queues, &both, both.all()), Some(WorkerId(2)));
    }
}
