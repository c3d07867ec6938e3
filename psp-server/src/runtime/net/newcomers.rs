//! Connections that came in on a socket which all ports share, on their way to the port that gets them.
//!
//! ```text
//!   socket ──► port that was woken: accept ── give ──► list of the next port in turn, bell ──► who drives it: admits
//! ```
//!
//! The kernel wakes whoever sleeps, and so often the same one. In turn, each port gets as many connections as the
//! others. A port whose driver is held up gets some at most. Beyond these the connections stay where they were
//! accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fiber::Bell;
use crate::mailbox::Mailbox;
use crate::peer::Peer;
use crate::transport::request_key::PortNumber;
use crate::transport::socket::Socket;

/// Connections that may be on their way to one port.
const NEWCOMERS_MAX: usize = 64;

/// A connection that was not admitted yet.
pub(super) struct Newcomer {
    pub(super) socket: Socket,
    pub(super) peer: Peer,
    /// Index of its listener, which is the same in all ports.
    pub(super) listener: usize,
}

/// See the [module](self). All ports of a server.
pub(super) struct Newcomers {
    ports: Box<[Way]>,
    /// Counts those that were given.
    turn: AtomicUsize,
}

/// The way to one port.
struct Way {
    mailbox: Mailbox<Newcomer>,
    /// Wakes whoever drives the port.
    bell: Arc<dyn Bell>,
}

impl Newcomers {
    /// There are as many ports as `bells`, which wake those who drive them.
    pub(super) fn new<B: Bell + 'static>(bells: impl IntoIterator<Item = Arc<B>>) -> Self {
        let ports = bells.into_iter().map(|bell| Way { mailbox: Mailbox::default(), bell });
        Self { ports: ports.collect(), turn: AtomicUsize::new(0) }
    }

    /// Gives a connection, accepted at the port `here`, to the port whose turn it is. Gives it back if it stays.
    pub(super) fn give(&self, here: PortNumber, newcomer: Newcomer) -> Result<(), Newcomer> {
        let to = self.turn.fetch_add(1, Ordering::Relaxed) % self.ports.len();
        if to == here.index() {
            return Err(newcomer);
        }
        let way = &self.ports[to];
        way.mailbox.put_within(NEWCOMERS_MAX, newcomer)?;
        way.bell.ring();
        Ok(())
    }

    /// Whether there are connections for `port`.
    #[inline]
    pub(super) fn has_some(&self, port: PortNumber) -> bool {
        self.ports[port.index()].mailbox.has_some()
    }

    /// Moves the connections for `port` into `into`. Costs a load if there is none.
    #[inline]
    pub(super) fn take(&self, port: PortNumber, into: &mut Vec<Newcomer>) {
        self.ports[port.index()].mailbox.take(into);
    }
}

#[cfg(test)]
mod tests {
    use mio::net::UnixStream;

    use super::*;

    struct Counting(AtomicUsize);

    impl Bell for Counting {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_port_gets_a_connection_in_turn_and_no_more_than_its_driver_keeps_up_with() {
        let bells = [(); 3].map(|()| Arc::new(Counting(AtomicUsize::new(0))));
        let newcomers = Newcomers::new(bells.clone());
        let here = PortNumber::new(1);
        let (socket, _peer) = UnixStream::pair().unwrap();
        let mut newcomer = Some(Newcomer {
            socket: Socket::Unix(socket),
            peer: Peer::Unix(None),
            listener: 4,
        });
        let mut places = Vec::new();
        for _ in 0..6 {
            let given = newcomers.give(here, newcomer.take().unwrap());
            newcomer = given.err();
            let mut taken = Vec::new();
            let at = (0..3).find(|&port| {
                newcomers.take(PortNumber::new(port), &mut taken);
                !taken.is_empty()
            });
            places.push(at);
            newcomer = newcomer.or(taken.pop());
        }
        assert_eq!(places, [Some(0), None, Some(2), Some(0), None, Some(2)]);
        let rung = bells.map(|bell| bell.0.load(Ordering::Relaxed));
        assert_eq!(rung, [2, 0, 2]);
        assert_eq!(newcomer.map(|newcomer| newcomer.listener), Some(4));

        let mut kept = 0;
        let mut peers = Vec::new();
        for _ in 0..3 * (NEWCOMERS_MAX + 1) {
            let (socket, peer) = UnixStream::pair().unwrap();
            peers.push(peer);
            let given = newcomers.give(
                here,
                Newcomer {
                    socket: Socket::Unix(socket),
                    peer: Peer::Unix(None),
                    listener: 0,
                },
            );
            kept += usize::from(given.is_err());
        }
        assert_eq!(kept, NEWCOMERS_MAX + 1 + 2, "its own, and one beyond the limit of each");
    }
}
