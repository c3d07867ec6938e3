//! Which of those that wait an idle worker can take up: anything that never ran, where it has a
//! context left, and what is suspended there.
//!
//! What never ran goes to a worker on which nothing is suspended, if any such is idle, so that the
//! others go on with what they alone can.

use super::WorkerId;
use super::queues::{Queues, Waiting};
use super::workers::{WorkerRange, WorkerSet};

/// The idle worker of `range` that begins the next request which never ran.
pub(super) fn worker_for_new(
    queues: &Queues,
    idle: &WorkerSet,
    range: WorkerRange,
) -> Option<WorkerId> {
    least_bound(queues, idle, range, |worker| queues.has_context(worker))
}

/// As [`worker_for_new`], a worker that can still be taken back: one that has a context left when
/// what it begins is suspended.
pub(super) fn worker_to_lend(
    queues: &Queues,
    idle: &WorkerSet,
    range: WorkerRange,
) -> Option<WorkerId> {
    least_bound(queues, idle, range, |worker| {
        queues.has_another_context(worker)
    })
}

/// An idle worker on which nothing is suspended, or else one that is `fit`.
fn least_bound(
    queues: &Queues,
    idle: &WorkerSet,
    range: WorkerRange,
    fit: impl Fn(WorkerId) -> bool,
) -> Option<WorkerId> {
    let any_suspended = queues.any_suspended();
    let unbound = idle.find(range, |worker| {
        !any_suspended || queues.suspended(worker) == 0
    });
    unbound.or_else(|| any_suspended.then(|| idle.find(range, fit))?)
}

/// The next request of `lane` that some idle worker can take up.
pub(super) fn next_of<'a>(
    queues: &'a Queues,
    idle: &WorkerSet,
    lane: usize,
) -> Option<&'a Waiting> {
    let new = queues.front(lane);
    if !queues.any_suspended() {
        return new.filter(|_| !idle.all_busy());
    }
    let new = new.filter(|_| idle.workers().any(|worker| queues.has_context(worker)));
    let suspended = idle
        .workers()
        .filter_map(|worker| queues.front_at(lane, worker));
    new.into_iter()
        .chain(suspended)
        .min_by_key(|waiting| waiting.rank)
}

/// Takes the [next](next_of) request of `lane`, and the worker for it.
pub(super) fn take_next(
    queues: &mut Queues,
    idle: &mut WorkerSet,
    lane: usize,
) -> Option<(WorkerId, Waiting)> {
    let home = next_of(queues, idle, lane)?.home;
    let worker = home.or_else(|| worker_for_new(queues, idle, idle.all()))?;
    idle.remove(worker);
    let waiting = match home {
        Some(home) => queues.pop_at(lane, home),
        None => queues.pop(lane),
    };
    Some((worker, waiting?))
}
