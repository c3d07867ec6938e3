//! The parts of the runtime that preempt by kernel threads, compiled into a benchmark.

#[path = "../../src/runtime/channel/mod.rs"]
pub(crate) mod channel;
#[path = "../../src/runtime/host/mod.rs"]
pub(crate) mod host;
#[path = "../../src/runtime/request_threads/mod.rs"]
pub(crate) mod request_threads;
#[path = "../../src/runtime/team/mod.rs"]
pub(crate) mod team;
#[path = "../../src/runtime/worker_link.rs"]
pub(crate) mod worker_link;

use std::sync::{Arc, Mutex};

use mio::{Poll, Token, Waker};

use channel::doorbell::Doorbell;
use channel::task_port::TaskPort;
use channel::turn_start::TurnStart;
use host::clock::Clock;
use host::scheduling::can_be_raised;
use team::Team;
use worker_link::{WorkerLink, channel};

/// A team whose threads have yet to be started, both ends of its channel, and when its turns begin. The caller
/// polls for reports.
pub(crate) fn new_team<T>(
    threads: usize,
    clock: Clock,
) -> (Arc<Team>, WorkerLink<T>, Mutex<TaskPort<T>>, Arc<TurnStart>) {
    let poll = Poll::new().unwrap();
    let waker = Waker::new(poll.registry(), Token(0)).unwrap();
    let (mut link, port) = channel(Arc::new(Doorbell::new(Arc::new(waker))));
    let (lowers, start) = (can_be_raised(), Arc::new(TurnStart::new()));
    let team = Arc::new(Team::new(threads, lowers, clock, start.clone()));
    link.attach_team(team.clone());
    (team, link, Mutex::new(port), start)
}
