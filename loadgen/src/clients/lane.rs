//! The interface between the loop of a generator thread and its connections or datagrams.

use super::arrival::Arrival;
use super::waiter::Waiter;
use crate::record::{Notes, RunClock};

/// The sockets of one thread and the requests on them. Indices are those of the thread's types.
pub(crate) trait Lane {
    /// Sends the request, queues it, or drops it.
    fn issue(&mut self, arrival: Arrival, waiter: &Waiter, clock: &RunClock);

    /// Arrivals that a late thread handles before it writes them and looks at replies again.
    fn arrivals_per_turn(&self) -> usize {
        32
    }

    /// Writes everything that [`issue`](Self::issue) and [`ready`](Self::ready) left for a common
    /// write.
    fn flush(&mut self, _waiter: &Waiter, _clock: &RunClock) {}

    /// Whether no socket reports arriving data. Then [`ready`](Self::ready) is called all the time.
    fn is_polled(&self) -> bool {
        false
    }

    /// Handles a ready socket. `data` comes from its registration.
    fn ready(&mut self, data: u64, waiter: &Waiter, clock: &RunClock);

    /// Gives up requests that have been outstanding for too long and reopens connections.
    fn expire(&mut self, waiter: &Waiter, clock: &RunClock);

    /// Whether a request of the type would be sent at once.
    fn has_room(&self, _index: usize) -> bool {
        true
    }

    /// Requests of the type that have ended since the last call, with any outcome.
    fn take_ended(&mut self, index: usize) -> u64;

    /// Number of types.
    fn types(&self) -> usize;

    /// Requests in flight or queued.
    fn outstanding(&self) -> usize;

    /// When the last request was sent, if any is in flight.
    fn sent_ns(&self) -> Option<u64>;

    /// Whether [`expire`](Self::expire) has work soon although no request is outstanding.
    fn is_broken(&self) -> bool {
        false
    }

    /// Ends all outstanding requests as unfinished and returns the records.
    fn finish(self) -> Vec<Notes>;
}
