//! The loop of a generator thread: send due requests, read replies, give up late requests.

use std::sync::atomic::{AtomicBool, Ordering};

use super::lane::Lane;
use super::pacer::Pacer;
use super::waiter::{Events, Waiter};
use crate::record::{Notes, RunClock};

/// How often requests are checked for their timeout, in nanoseconds.
const EXPIRY_INTERVAL_NS: u64 = 5_000_000;

/// Runs `lane` until its schedules and all its requests have ended, or until `stop`.
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
            // Due requests are sent between sockets. Otherwise, in a closed loop, the server would
            // wait while the client reads, and the client while the server works.
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

/// Sends due requests, up to the limit of a turn.
fn send_due<L: Lane>(lane: &mut L, pacer: &mut Pacer, waiter: &Waiter, clock: &RunClock) -> std::io::Result<()> {
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
