//! The parts of the runtime that preempt by kernel threads, compiled into a benchmark.

#[path = "../../src/runtime/channel.rs"]
pub(crate) mod channel;
#[path = "../../src/runtime/clock.rs"]
pub(crate) mod clock;
#[path = "../../src/runtime/cores.rs"]
pub(crate) mod cores;
#[path = "../../src/runtime/scheduling.rs"]
pub(crate) mod scheduling;
#[path = "../../src/runtime/sleep_flag.rs"]
mod sleep_flag;
#[path = "../../src/runtime/team/mod.rs"]
pub(crate) mod team;
#[path = "../../src/runtime/turn_start.rs"]
pub(crate) mod turn_start;

use std::sync::{Arc, Mutex};

use mio::{Poll, Token, Waker};

use channel::{Doorbell, TaskPort, WorkerLink, channel};
use clock::Clock;
use team::Team;
use turn_start::TurnStart;

/// A team whose threads are still to be started, both ends of its channel, and when its turns begin. Whoever
/// reads reports polls for them.
pub(crate) fn new_team<T>(
    threads: usize,
    clock: Clock,
) -> (Arc<Team>, WorkerLink<T>, Mutex<TaskPort<T>>, Arc<TurnStart>) {
    let poll = Poll::new().unwrap();
    let waker = Waker::new(poll.registry(), Token(0)).unwrap();
    let (mut link, port) = channel(Arc::new(Doorbell::new(Arc::new(waker))));
    let (lowers, start) = (scheduling::can_be_raised(), Arc::new(TurnStart::new()));
    let team = Arc::new(Team::new(threads, lowers, clock, start.clone()));
    link.attach_team(team.clone());
    (team, link, Mutex::new(port), start)
}
