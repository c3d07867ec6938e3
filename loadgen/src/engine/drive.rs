//! The loop of a generator thread: send what is due, read what has come, give up what is late.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::RunClock;
use crate::engine::pacer::{Arrival, Pacer};
use crate::engine::waiter::{Events, Waiter};
use crate::record::Notes;

/// How often requests are checked for their timeout, in nanoseconds.
const EXPIRY_INTERVAL_NS: u64 = 5_000_000;

/// The sockets of one thread and the requests on them. Indices are those of the thread's types.
pub(crate) trait Lane {
    /// Sends the request, or lets it wait, or drops it.
    fn issue(&mut self, arrival: Arrival, waiter: &Waiter, clock: &RunClock);

    /// Arrivals handled before they are written and replies are looked at again, when the thread is
    /// behind.
    fn arrivals_per_turn(&self) -> usize {
        32
    }

    /// Writes what [`issue`](Self::issue) and [`ready`](Self::ready) left to be written together.
    fn flush(&mut self, _waiter: &Waiter, _clock: &RunClock) {}

    /// Whether it has no socket that says when something has come, so that [`ready`](Self::ready) is to be
    /// called all the time.
    fn is_polled(&self) -> bool {
        false
    }

    /// Handles a ready socket; `data` is what it was registered with.
    fn ready(&mut self, data: u64, waiter: &Waiter, clock: &RunClock);

    /// Gives up requests that have been outstanding for too long and reopens connections.
    fn expire(&mut self, waiter: &Waiter, clock: &RunClock);

    /// Whether a request of the type would be sent at once.
    fn has_room(&self, _index: usize) -> bool {
        true
    }

    /// How many requests of the type have ended, however they did, since this was last asked.
    fn take_ended(&mut self, index: usize) -> u64;

    /// Number of types.
    fn types(&self) -> usize;

    /// Requests that are sent or wait to be.
    fn outstanding(&self) -> usize;

    /// When the last request was sent, if any is in flight.
    fn sent_ns(&self) -> Option<u64>;

    /// Whether [`expire`](Self::expire) has something to do soon though nothing is outstanding.
    fn is_broken(&self) -> bool {
        false
    }

    /// Ends all outstanding requests as unfinished and hands out the records.
    fn finish(self) -> Vec<Notes>;
}

/// Runs `lane` until its schedules have ended and all its requests have, or until `stop`.
pub(crate) fn drive<L: Lane>(
    mut lane: L,
    mut pacer: Pacer,
    waiter: &Waiter,
    clock: &RunClock,
    stop: &AtomicBool,
) -> std::io::Result<Vec<Notes>> {
    let mut expiry_ns = 0;
    let mut events = Events::new();
    while !stop.load(Ordering::Relaxed) {
        send_due(&mut lane, &mut pacer, waiter, clock)?;
        let next_ns = pacer.next_ns(clock.now_ns(), |index| lane.has_room(index));
        if next_ns.is_none() && lane.outstanding() == 0 {
            break;
        }
        let mut deadline_ns = next_ns.unwrap_or(u64::MAX);
        if lane.outstanding() > 0 || lane.is_broken() {
            deadline_ns = deadline_ns.min(expiry_ns);
        }
        if lane.is_polled() {
            lane.ready(0, waiter, clock);
        } else {
            waiter.wait(&mut events, clock, deadline_ns, lane.sent_ns())?;
        }
        for data in events.data() {
            lane.ready(data, waiter, clock);
            // Nobody waits for what other sockets have: a closed loop would else let the server wait
            // while it reads, and the server it.
            send_due(&mut lane, &mut pacer, waiter, clock)?;
        }
        let now_ns = clock.now_ns();
        if now_ns >= expiry_ns {
            lane.expire(waiter, clock);
            expiry_ns = now_ns + EXPIRY_INTERVAL_NS;
        }
    }
    Ok(lane.finish())
}

/// Sends what is due, up to the arrivals of a turn.
fn send_due<L: Lane>(
    lane: &mut L,
    pacer: &mut Pacer,
    waiter: &Waiter,
    clock: &RunClock,
) -> std::io::Result<()> {
    if let Some(clients) = pacer.clients() {
        let now_ns = clock.now_ns();
        for index in 0..lane.types() {
            for _ in 0..lane.take_ended(index) {
                clients.ended(index, now_ns);
            }
        }
    }
    for _ in 0..lane.arrivals_per_turn() {
        let has_room = |index| lane.has_room(index);
        let Some(arrival) = pacer.take_due(clock.now_ns(), has_room)? else {
            break;
        };
        lane.issue(arrival, waiter, clock);
    }
    lane.flush(waiter, clock);
    Ok(())
}
