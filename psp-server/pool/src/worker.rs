//! The life of a worker's thread.

use std::sync::Arc;
use std::time::Duration;

use psp_policy::WorkerId;

use crate::shared::Shared;
use crate::state::Turn;

/// Time to the next tick if one has moved nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// Serves as `worker` until the pool ends.
pub(crate) fn serve(shared: &Arc<Shared>, worker: WorkerId) {
    while let Some(turn) = next_turn(shared, worker) {
        let Turn { name, task } = turn;
        let job = task.metadata().clone();
        let began_ns = shared.now_ns();
        shared.within(|| {
            task.run();
        });
        let ended_ns = shared.now_ns();
        let served_ns = ended_ns.saturating_sub(began_ns);
        shared.change(|state, left| state.polled(ended_ns, worker, name, &job, served_ns, left));
    }
    shared.worker_has_ended();
}

/// Waits for the worker's next task. `None` if the pool ends.
fn next_turn(shared: &Shared, worker: WorkerId) -> Option<Turn> {
    let mut state = shared.lock();
    let mut has_ticked = false;
    loop {
        if let Some(turn) = state.take(worker) {
            return Some(turn);
        }
        if state.is_over() {
            return None;
        }
        let now_ns = shared.now_ns();
        let left_ns = { state.deadline_ns() }.map(|at_ns| at_ns.saturating_sub(now_ns));
        let is_due = left_ns == Some(0);
        state = if is_due && !has_ticked {
            drop(state);
            shared.change(|state, left| state.tick(now_ns, left));
            shared.lock()
        } else {
            let at_most = match left_ns {
                None => Duration::MAX,
                // A tick that moved nothing shall not keep the thread awake.
                Some(0) => PAUSE,
                Some(left_ns) => Duration::from_nanos(left_ns),
            };
            shared.wait(worker, state, at_most)
        };
        has_ticked = is_due && !has_ticked;
    }
}
