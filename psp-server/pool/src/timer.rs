//! The thread that sees to tasks which run for too long. A pool that hands off no tasks has none.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::hand_off::Overdue;
use crate::shared::Shared;
use crate::worker;

/// Time to the next attempt if the system has no thread.
const PAUSE: Duration = Duration::from_millis(10);

/// Starts the thread, which ends with the pool.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let name = format!("{}-timer", shared.threads.name);
    let shared = shared.clone();
    let thread = std::thread::Builder::new().name(name);
    thread.spawn(move || watch(&shared))?;
    Ok(())
}

fn watch(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    while !state.is_over() {
        let now_ns = shared.now_ns();
        state = match state.overdue(now_ns) {
            Overdue::Now(watch) => {
                drop(state);
                let is_started = worker::start_in_place_of(shared, watch).is_ok();
                let mut state = shared.lock();
                if !is_started {
                    state.no_thread();
                    state = shared.timer_waits(state, PAUSE);
                }
                state
            }
            Overdue::At(at_ns) => {
                let left = Duration::from_nanos(at_ns.saturating_sub(now_ns));
                shared.timer_waits(state, left)
            }
            Overdue::Never => shared.timer_waits(state, Duration::MAX),
        };
    }
}
