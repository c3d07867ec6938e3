//! Whether the peer of a connection is still there, as the net worker tells the worker that runs its request.
//!
//! ```text
//!   net worker:  reset ────────────────────────────────► gone
//!                orderly end, late, nothing unread ────► gone
//!                the same while a worker has the socket ► unsure ── the worker looks for unread input ─► gone, here
//! ```

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::net::{RecvFlags, recv};

/// See the [module](self). One allocation for each connection, which the net worker and the connection share.
///
/// Relaxed accesses are enough: the state guards no other data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence(Arc<AtomicU8>);

/// What is known of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum State {
    /// It may read replies.
    #[default]
    Here,
    /// It has ended its side. It is gone unless it has sent something together with the end.
    Unsure,
    /// Nobody reads replies any more.
    Gone,
}

impl Presence {
    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.0.load(Ordering::Relaxed) {
            gone if gone == State::Gone as u8 => State::Gone,
            unsure if unsure == State::Unsure as u8 => State::Unsure,
            _ => State::Here,
        }
    }

    pub(crate) fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Relaxed);
    }

    /// Decides [`State::Unsure`] by the peer's `socket`, which the caller owns for now. Returns whether the peer
    /// is gone.
    #[inline]
    pub(crate) fn is_gone(&self, socket: BorrowedFd<'_>) -> bool {
        match self.state() {
            State::Here => false,
            State::Gone => true,
            State::Unsure => self.decide(socket),
        }
    }

    #[cold]
    fn decide(&self, socket: BorrowedFd<'_>) -> bool {
        let decided = if has_unread(socket) {
            State::Here
        } else {
            State::Gone
        };
        // The net worker may know more by now.
        let (from, to) = (State::Unsure as u8, decided as u8);
        let order = Ordering::Relaxed;
        let _ = self.0.compare_exchange(from, to, order, order);
        self.state() == State::Gone
    }
}

/// Whether `socket` has input that was not read.
pub(crate) fn has_unread(socket: BorrowedFd<'_>) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    recv(socket, &mut [0_u8; 1], flags).is_ok_and(|(_, count)| count > 0)
}

/// The peer of the request that a worker runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerWatch<'a> {
    pub(crate) presence: &'a Presence,
    pub(crate) socket: BorrowedFd<'a>,
}

impl PeerWatch<'_> {
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.presence.is_gone(self.socket)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn unread_input_decides_when_the_net_worker_is_not_sure() {
        for (sent, gone) in [(&b"more"[..], false), (b"", true)] {
            let (mut client, server) = pair();
            client.write_all(sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            // The end of the input has arrived, behind what was sent before.
            let mut end = [0; 8];
            while server.peek(&mut end).unwrap() != sent.len() {}
            let presence = Presence::default();
            assert!(!presence.is_gone(server.as_fd()), "nothing was noted");
            presence.set(State::Unsure);
            assert_eq!(presence.is_gone(server.as_fd()), gone);
            assert_ne!(presence.state(), State::Unsure, "it is asked once");
        }
    }

    #[test]
    fn a_reset_is_certain() {
        let (mut client, server) = pair();
        client.write_all(b"more").unwrap();
        let presence = Presence::default();
        presence.clone().set(State::Gone);
        assert!(presence.is_gone(server.as_fd()));
    }
}
