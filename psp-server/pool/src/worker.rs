//! The life of a worker's thread.

use std::sync::Arc;
use std::time::Duration;

use psp_policy::WorkerId;

use crate::shared::Shared;
use crate::state::{Left, State, Turn};

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
        let took_ns = ended_ns.saturating_sub(began_ns);
        shared.change(|state, left| state.polled(ended_ns, worker, name, &job, took_ns, left));
    }
    shared.worker_has_ended();
}

/// Waits for the worker's next task. `None` if the pool ends.
fn next_turn(shared: &Shared, worker: WorkerId) -> Option<Turn> {
    let mut state = shared.lock();
    loop {
        if let Some(turn) = state.take(worker) {
            return Some(turn);
        }
        if state.is_over() {
            return None;
        }
        let now_ns = shared.now_ns();
        state = match state.deadline_ns() {
            Some(deadline_ns) if deadline_ns <= now_ns => {
                drop(state);
                shared.change(|state: &mut State, left: &mut Left| state.tick(now_ns, left));
                let state = shared.lock();
                // A tick that moved nothing shall not keep the thread awake.
                match state.deadline_ns() {
                    Some(next_ns) if next_ns <= now_ns => shared.wait(worker, state, PAUSE),
                    _ => state,
                }
            }
            Some(deadline_ns) => {
                shared.wait(worker, state, Duration::from_nanos(deadline_ns - now_ns))
            }
            None => shared.wait(worker, state, Duration::MAX),
        };
    }
}

/// Time to the next tick if one has moved nothing.
const PAUSE: Duration = Duration::from_millis(1);
