//! The life of a thread that serves workers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::here::Here;
use crate::pool_thread::PoolThread;
use crate::shared::Shared;
use crate::state::{Next, Polled, Turn};
use crate::study;
use crate::system;
use crate::table::Task;
use crate::tick::Ticker;

/// Starts a thread, which serves a worker once it has an order to.
pub(crate) fn start(shared: &Arc<Shared>, thread: Arc<PoolThread>) -> io::Result<()> {
    let name = format!("{}-{}", shared.threads.name, shared.thread_begins());
    let builder = std::thread::Builder::new().name(name);
    let shared_there = shared.clone();
    let started = builder.spawn(move || {
        let shared = shared_there;
        if let Some(nice) = shared.threads.nice {
            system::set_nice(nice);
        }
        thread.begins();
        Here::live(&shared, thread, |here| live(&shared, here));
        shared.thread_has_ended();
    });
    if started.is_err() {
        shared.thread_has_ended();
    }
    started.map(drop)
}

/// Starts a thread that takes the place of one which gives its worker away.
pub(crate) fn start_spare(shared: &Arc<Shared>) -> io::Result<()> {
    let thread = Arc::new(PoolThread::default());
    start(shared, thread.clone())?;
    shared.change(|state, _| state.add_spare(thread));
    Ok(())
}

/// Serves workers until the pool ends, or has no use for the thread any more.
fn live(shared: &Arc<Shared>, here: &Here) {
    while let Some(worker) = shared.wait_for_order(&here.thread) {
        here.worker.set(worker);
        if !serve(shared, here) {
            return;
        }
    }
}

/// Serves a worker until the pool ends, or another thread has its place. Returns whether the thread is spare then.
fn serve(shared: &Arc<Shared>, here: &Here) -> bool {
    loop {
        match next(shared, here) {
            Next::Over => return false,
            Next::HandedOver { to, is_kept } => {
                to.ring();
                return is_kept;
            }
            Next::Begins { turn, now_ns } => {
                let serves = poll(shared, here, turn, now_ns);
                if !serves {
                    return false;
                }
            }
        }
    }
}

/// Polls a task. Returns whether the thread serves a worker afterwards.
fn poll(shared: &Shared, here: &Here, turn: Turn<Task>, now_ns: u64) -> bool {
    let Turn { name, what: task } = turn;
    let job = task.metadata().clone();
    let begun = Polled { name, request_type: job.request_type, since_ns: now_ns };
    here.polled.set(Some(begun));
    here.job.replace(Some(job.clone()));
    shared.within(|| {
        task.run();
    });
    here.job.replace(None);
    let ended_ns = shared.now_ns();
    // Both may be others behind a checkpoint.
    let (worker, polled) = (here.worker.get(), here.polled.take().unwrap_or(begun));
    shared.change(|state, left| state.polled(ended_ns, worker, &here.thread, polled, &job, left))
}

/// Waits for what the thread does next.
fn next(shared: &Arc<Shared>, here: &Here) -> Next {
    let worker = here.worker.get();
    let bell = shared.bell(worker);
    let mut spins = !shared.threads.spin.is_zero();
    let mut state = shared.lock();
    if let Some(study) = state.study() {
        drop(state);
        study::begin(shared, study);
        state = shared.lock();
    }
    let mut ticker = Ticker::default();
    loop {
        let now_ns = shared.now_ns();
        if let Some(next) = state.next(now_ns, worker, &here.thread) {
            return next;
        }
        let at_most = ticker.wait(now_ns, state.deadline_without_timer_ns());
        state = match at_most {
            Duration::ZERO => {
                drop(state);
                shared.change(|state, left| state.tick(now_ns, left));
                shared.lock()
            }
            at_most if std::mem::take(&mut spins) => {
                bell.spin(state, shared.threads.spin.min(at_most));
                shared.lock()
            }
            at_most => bell.sleep(state, at_most),
        };
    }
}
