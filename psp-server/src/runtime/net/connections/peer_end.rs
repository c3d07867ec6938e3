//! Notices that a peer has gone.
//!
//! A reset counts at once. An orderly end of the peer's side says less: the peer may have closed the connection, or it
//! may have ended its requests and still read the replies. A client of the second kind, such as `nc -N`, ends its side
//! right behind its last bytes. So an end that comes within [`Config::half_close_grace_ms`] after bytes is that of a
//! peer which still reads, and a later end is that of a peer which has gone.
//!
//! ```text
//!   bytes ── end ............................  still reads: its requests are answered
//!   bytes ........... grace ......... end ...  gone: its requests are dropped
//! ```
//!
//! The net thread sees both late if it runs a request meanwhile. Then it does not know when the end came, and takes
//! the earliest time that is possible. Nor does it know when unread bytes came, if several events told of them: while
//! there are any, the peer counts as one which still reads. A peer that has gone resets the connection at the first
//! reply.
//!
//! [`Config::half_close_grace_ms`]: crate::Config::half_close_grace_ms

use psp_protocols::Framing;

use super::readiness::Condition;
use super::slot::{Phase, Slot};
use crate::presence::State;
use crate::runtime::host::event::SocketEvent;

/// When an event came: after one time and up to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runtime::net) struct EventTime {
    pub(in crate::runtime::net) earliest_ns: u64,
    pub(in crate::runtime::net) latest_ns: u64,
}

impl<F: Framing, C> Slot<F, C> {
    /// Records what an event says about the peer, and returns whether the peer has left. To be called before the
    /// event's conditions are set.
    pub(super) fn note_peer(&mut self, event: SocketEvent, at: EventTime, grace_ns: u64) -> bool {
        if event.readable && !event.ended {
            self.received_ns = at.latest_ns;
        }
        let had_ended = self.readiness.has(Condition::PeerClosed);
        let state = if event.failed || (had_ended && event.hung_up) {
            State::Gone
        } else if event.ended && !had_ended {
            self.state_at_end(at, grace_ns)
        } else {
            return false;
        };
        let Some(presence) = &self.presence else {
            return false;
        };
        let could_read = presence.state().may_read();
        let state = presence.set(state);
        could_read && !state.may_read()
    }

    fn state_at_end(&self, at: EventTime, grace_ns: u64) -> State {
        let is_late = at.earliest_ns.saturating_sub(self.received_ns) > grace_ns;
        if grace_ns == 0 {
            return State::Gone;
        }
        if !is_late {
            return State::Ended;
        }
        match &self.phase {
            Phase::Lent { .. } => State::Unsure,
            // What is not read may have come with the end: then those are the last bytes.
            phase => match phase.stream() {
                Some(stream) if stream.connection.has_unread() => State::Ended,
                _ => State::Gone,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;

    use psp_protocols::psp_header::PspFraming;

    use super::*;
    use crate::presence::Presence;
    use crate::transport::connection::Connection;
    use crate::transport::request_key::PortNumber;
    use crate::transport::run::{Run, Stream};

    const MS: u64 = 1_000_000;
    const GRACE_NS: u64 = 100 * MS;
    const READABLE: SocketEvent = SocketEvent {
        readable: true,
        writable: false,
        ended: false,
        hung_up: false,
        failed: false,
    };
    const END: SocketEvent = SocketEvent { ended: true, ..READABLE };

    fn at(ms: u64) -> EventTime {
        let ns = ms * MS;
        EventTime { earliest_ns: ns, latest_ns: ns }
    }

    /// A connection without unread input, and its client.
    fn slot() -> (Slot<PspFraming, ()>, TcpStream) {
        let (connection, client) = Connection::example(PortNumber::default(), 0);
        let slot = Slot {
            presence: Some(connection.presence.clone()),
            phase: Phase::Home(Box::new(Stream { connection, run: Run::default() })),
            ..Slot::free()
        };
        (slot, client)
    }

    fn noted(slot: &mut Slot<PspFraming, ()>, event: SocketEvent, at: EventTime) -> State {
        slot.note_peer(event, at, GRACE_NS);
        slot.readiness.set(Condition::PeerClosed, event.ended);
        slot.presence.as_ref().map(Presence::state).unwrap()
    }

    #[test]
    fn a_required_peer_that_ends_its_side_has_gone() {
        let (mut slot, _client) = slot();
        let _required = slot.presence.as_ref().map(Presence::require);
        assert_eq!(noted(&mut slot, READABLE, at(7)), State::Here);
        assert!(slot.note_peer(END, at(7), GRACE_NS), "it has left");
        assert_eq!(slot.presence.map(|it| it.state()), Some(State::Gone));
    }

    #[test]
    fn an_end_right_behind_the_last_bytes_is_half_a_close() {
        for (after_ms, state) in [(0, State::Ended), (100, State::Ended), (101, State::Gone)] {
            let (mut slot, _client) = slot();
            assert_eq!(noted(&mut slot, READABLE, at(7)), State::Here);
            assert_eq!(noted(&mut slot, END, at(7 + after_ms)), state);
            assert_eq!(noted(&mut slot, END, at(900)), state, "the first event counts");
        }
    }

    #[test]
    fn a_net_thread_that_looked_away_assumes_the_earliest_end() {
        let (mut slot, _client) = slot();
        noted(&mut slot, READABLE, at(7));
        let unseen = EventTime { earliest_ns: 8 * MS, latest_ns: 900 * MS };
        assert_eq!(noted(&mut slot, END, unseen), State::Ended);
    }

    #[test]
    fn unread_bytes_may_have_come_with_the_end() {
        for was_told in [false, true] {
            let (mut slot, mut client) = slot();
            client.write_all(b"request").unwrap();
            while !slot.phase.stream().unwrap().connection.has_unread() {}
            if was_told {
                noted(&mut slot, READABLE, at(7));
                slot.readiness.set(Condition::Readable, true);
            }
            assert_eq!(noted(&mut slot, END, at(900)), State::Ended);
        }
    }

    #[test]
    fn a_worker_that_has_the_socket_looks_itself() {
        let (mut slot, _client) = slot();
        slot.phase = Phase::Lent { became_writable: false };
        assert_eq!(noted(&mut slot, END, at(900)), State::Unsure);
    }

    #[test]
    fn a_reset_counts_at_once_and_so_does_a_hang_up_after_half_a_close() {
        let (mut slot, _client) = slot();
        let reset = SocketEvent { failed: true, ..END };
        assert_eq!(noted(&mut slot, reset, at(0)), State::Gone);

        let (mut slot, _client) = self::slot();
        assert_eq!(noted(&mut slot, END, at(1)), State::Ended);
        let hang_up = SocketEvent { hung_up: true, ..END };
        assert_eq!(noted(&mut slot, hang_up, at(2)), State::Gone);
    }

    #[test]
    fn without_a_grace_every_end_counts() {
        let (mut slot, _client) = slot();
        slot.note_peer(READABLE, at(7), 0);
        slot.note_peer(END, at(7), 0);
        assert_eq!(slot.presence.map(|presence| presence.state()), Some(State::Gone));
    }
}
