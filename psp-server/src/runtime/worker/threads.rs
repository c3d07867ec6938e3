//! A worker whose tasks are made to give way to each other by the kernel.
//!
//! ```text
//!   port ── Run ────► the thread with the baton: Executor::run ── done ──► Completed
//!                          │ preempted
//!                          └─► a thread that was idle: Yielded, takes over the loop
//!        ── Resume ─► the thread with the baton passes it on and is idle
//! ```
//!
//! [`Team`] has the threads; this is what each of them does.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Mutex;

use psp_protocols::Framing;

use super::Post;
use crate::fiber::{self, GiveWay};
use crate::handler::Handler;
use crate::policy::WorkerId;
use crate::runtime::channel::TaskPort;
use crate::runtime::shared::Shared;
use crate::runtime::task::Task;
use crate::runtime::team::{Seat, Team};
use crate::telemetry::WorkerCounters;

/// A thread's place in its team, and the time that its request was away.
struct Seated<'a> {
    team: &'a Team,
    seat: Seat,
    worker: WorkerId,
    shared: &'a Shared,
    away_ns: Rc<Cell<u64>>,
}

impl Seated<'_> {
    /// The request has the worker; it may have been away.
    fn has_turn(&self) {
        fiber::set_turn(self.team.turn());
        self.away_ns.set(self.team.away_ns(self.seat));
    }
}

impl GiveWay for Seated<'_> {
    fn give_way(&self) {
        self.team.give_way(self.seat);
        self.has_turn();
    }

    fn describe(&self, slot: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        self.shared.describe(self.worker, slot, out)
    }

    fn open(&self) {
        self.team.open(self.seat);
    }

    fn close(&self) {
        self.team.close(self.seat);
        self.has_turn();
    }

    fn try_close(&self) -> bool {
        self.team.try_close(self.seat)
    }
}

/// Serves tasks as one thread of a team until the team is told to stop.
pub(crate) fn serve_on_threads<F: Framing, H: Handler>(
    post: &Post<F, H>,
    team: &Team,
    seat: Seat,
    port: &Mutex<TaskPort<Task<H::Connection>>>,
) {
    let away_ns = Rc::<Cell<u64>>::default();
    let mut executor = post.executor(away_ns.clone());
    let seated = Seated {
        team,
        seat,
        worker: post.worker,
        shared: &post.shared,
        away_ns,
    };
    let counters = &post.shared.telemetry.workers[post.worker.index()];
    fiber::occupy(team.flag(), &seated, || {
        fiber::set_spare(usize::MAX);
        team.serve(seat, port, post.spin, |task| {
            seated.has_turn();
            executor.run(task);
            count_missed(team, counters);
        });
    });
}

/// Only the thread with the baton counts, as if the worker were one thread.
fn count_missed(team: &Team, counters: &WorkerCounters) {
    let undone = team.undone();
    let newly_undone = undone - counters.contexts_exhausted.get();
    counters.contexts_exhausted.set(undone);
    let missed = newly_undone + u64::from(team.is_wanted());
    counters.preemptions_missed.add(missed);
}
