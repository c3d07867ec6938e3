//! The thread that sees to what happens by time alone: ends of quanta, and tasks that run for too long. A pool that
//! hands off no tasks, and never had a policy that preempts them, has none.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_policy::Policy;

use crate::shared::Shared;
use crate::state::Due;
use crate::worker;

/// Time to the next attempt if the system has no thread.
const PAUSE: Duration = Duration::from_millis(10);

/// Starts the thread if the pool needs it under this policy and has none. It ends with the pool.
pub(crate) fn start_for(shared: &Arc<Shared>, policy: &Policy) -> io::Result<()> {
    if !shared.lock().claims_timer(policy) {
        return Ok(());
    }
    let name = format!("{}-timer", shared.threads.name);
    let shared_there = shared.clone();
    let thread = std::thread::Builder::new().name(name);
    let started = thread.spawn(move || watch(&shared_there));
    if started.is_err() {
        shared.lock().has_no_timer();
    }
    started.map(drop)
}

fn watch(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    while !state.is_over() {
        let now_ns = shared.now_ns();
        let due = state.due(now_ns);
        state = match due {
            Due::In(left) => shared.timer_waits(state, left),
            Due::Tick => {
                drop(state);
                shared.change(|state, left| state.tick(now_ns, left));
                shared.lock()
            }
            Due::HandOff => {
                drop(state);
                shared.change(|state, left| state.hand_off(now_ns, left));
                shared.lock()
            }
            Due::Thread => {
                drop(state);
                let is_started = worker::start_spare(shared).is_ok();
                let state = shared.lock();
                match is_started {
                    true => state,
                    false => shared.timer_waits(state, PAUSE),
                }
            }
        };
    }
}
