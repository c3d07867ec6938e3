//! The life of a worker's thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_policy::WorkerId;

use crate::hand_off::Watch;
use crate::shared::Shared;
use crate::state::Turn;
use crate::system;

/// Time to the next tick if one has moved nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// Starts the first thread of a worker.
pub(crate) fn start(shared: &Arc<Shared>, worker: WorkerId) -> io::Result<()> {
    start_thread(shared, worker, move |shared| {
        serve(shared, Watch::first(worker));
    })
}

/// Starts a thread that takes the place of one which runs a task for too long.
pub(crate) fn start_in_place_of(shared: &Arc<Shared>, watch: Watch) -> io::Result<()> {
    start_thread(shared, watch.worker, move |shared| {
        let now_ns = shared.now_ns();
        let watch = shared.change(|state, left| state.hand_off(now_ns, watch, left));
        if let Some(watch) = watch {
            serve(shared, watch);
        }
    })
}

fn start_thread(
    shared: &Arc<Shared>,
    worker: WorkerId,
    life: impl FnOnce(&Shared) + Send + 'static,
) -> io::Result<()> {
    let name = format!("{}-{}", shared.threads.name, worker.0);
    let thread = std::thread::Builder::new().name(name);
    let shared_there = shared.clone();
    shared.thread_begins();
    let started = thread.spawn(move || {
        let shared = shared_there;
        if let Some(nice) = shared.threads.nice {
            system::set_nice(nice);
        }
        life(&shared);
        shared.thread_has_ended();
    });
    if started.is_err() {
        shared.thread_has_ended();
    }
    started.map(drop)
}

/// Serves as a worker until the pool ends, or another thread has its place.
fn serve(shared: &Shared, watch: Watch) {
    let worker = watch.worker;
    shared.lock().serves(worker, system::this_thread());
    while let Some(turn) = next_turn(shared, worker) {
        let Turn { name, task } = turn;
        let job = task.metadata().clone();
        let began_ns = shared.now_ns();
        shared.within(|| {
            task.run();
        });
        let ended_ns = shared.now_ns();
        let served_ns = ended_ns.saturating_sub(began_ns);
        let serves =
            shared.change(|state, left| state.polled(ended_ns, watch, name, &job, served_ns, left));
        if !serves {
            return;
        }
    }
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
