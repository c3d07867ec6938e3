//! Whether the peer of a connection is still there, as the net worker tells the worker that runs its request.
//!
//! ```text
//!   net worker:  reset ────────────────────────────────► gone
//!                orderly end, right behind input ──────► ended
//!                orderly end, late, nothing unread ────► gone
//!                the same while a worker has the socket ► unsure ── the worker looks for unread input ─► gone, ended
//! ```
//!
//! While somebody [requires](Presence::require) the peer, each end means that it is gone.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::{MsgFlags, recv};

/// See the [module](self). One allocation for each connection, which the net worker and the connection share.
///
/// Relaxed accesses are enough: the state guards no other data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence(Arc<AtomicU32>);

/// The bits of the state. Those above count who requires the peer.
const STATE: u32 = 0b11;
const ONE_WHO_REQUIRES: u32 = STATE + 1;

/// What is known of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub(crate) enum State {
    /// It may send requests and read replies.
    #[default]
    Here,
    /// It has ended its side right behind its last bytes. It may read replies.
    Ended,
    /// It has ended its side. It is gone unless it has sent something together with the end.
    Unsure,
    /// The peer reads no replies any more.
    Gone,
}

impl State {
    fn of(word: u32) -> Self {
        match word & STATE {
            gone if gone == Self::Gone as u32 => Self::Gone,
            unsure if unsure == Self::Unsure as u32 => Self::Unsure,
            ended if ended == Self::Ended as u32 => Self::Ended,
            _ => Self::Here,
        }
    }

    /// Whether no peer is known to be gone.
    pub(crate) fn may_read(self) -> bool {
        matches!(self, Self::Here | Self::Ended)
    }
}

impl Presence {
    /// Whether it is that of the same connection.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        State::of(self.0.load(Ordering::Relaxed))
    }

    /// Notes the state of a peer. Returns the one that it has now.
    pub(crate) fn set(&self, state: State) -> State {
        self.change(|_| Some(state))
    }

    /// Replaces [`State::Unsure`], unless the net worker knows more by now.
    fn decide(&self, state: State) {
        self.change(|now| (now == State::Unsure).then_some(state));
    }

    fn change(&self, to: impl Fn(State) -> Option<State>) -> State {
        let change = |word: u32| {
            let state = match to(State::of(word))? {
                State::Here => State::Here,
                _ if word >= ONE_WHO_REQUIRES => State::Gone,
                state => state,
            };
            Some(word & !STATE | state as u32)
        };
        let order = Ordering::Relaxed;
        let _ = self.0.fetch_update(order, order, change);
        self.state()
    }

    /// From now on each end means that the peer is gone, until the result is dropped. An end before that does not.
    pub(crate) fn require(&self) -> Required {
        self.0.fetch_add(ONE_WHO_REQUIRES, Ordering::Relaxed);
        Required(self.clone())
    }
}

/// Somebody requires the peer.
#[derive(Debug)]
pub(crate) struct Required(Presence);

impl Drop for Required {
    fn drop(&mut self) {
        self.0.0.fetch_sub(ONE_WHO_REQUIRES, Ordering::Relaxed);
    }
}

/// The view of a peer that the owner of its connection has: the worker that runs a request, or the net worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerWatch<'a> {
    pub(crate) presence: &'a Presence,
    /// The connection's socket, open for as long as the connection is borrowed.
    pub(crate) socket: RawFd,
}

impl PeerWatch<'_> {
    /// Whether the peer is gone. Looks at the socket if the net worker was not sure.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        match self.presence.state() {
            State::Here | State::Ended => false,
            // Those who have the socket will know.
            State::Unsure if self.socket < 0 => false,
            State::Gone => true,
            State::Unsure => self.look(),
        }
    }

    #[cold]
    fn look(&self) -> bool {
        let has_unread = self.has_unread();
        self.presence.decide(if has_unread { State::Ended } else { State::Gone });
        self.presence.state() == State::Gone
    }

    /// Whether the socket has input that was not read.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread(&mut [0]) > 0
    }

    /// Looks at the input that was not read, as far as it fits into `room`. Returns how many bytes these are.
    pub(crate) fn unread(&self, room: &mut [u8]) -> usize {
        #[cfg(all(test, not(loom)))]
        if let Some(unread) = crate::simulated::unread(self.socket) {
            return unread.min(room.len());
        }
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(self.socket, room, flags).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

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
            let watch = PeerWatch { presence: &presence, socket: server.as_raw_fd() };
            assert!(!watch.is_gone(), "nothing was noted");
            presence.set(State::Unsure);
            assert_eq!(watch.is_gone(), gone);
            assert_ne!(presence.state(), State::Unsure, "it is asked once");
        }
    }

    #[test]
    fn an_end_is_a_leave_while_somebody_requires_the_peer() {
        let presence = Presence::default();
        let [one, other] = [presence.require(), presence.require()];
        drop(one);
        assert_eq!(presence.state(), State::Here);
        assert_eq!(presence.set(State::Ended), State::Gone);
        let presence = Presence::default();
        drop((other, presence.require()));
        assert_eq!(presence.set(State::Ended), State::Ended);
        let _required = presence.require();
        assert_eq!(presence.state(), State::Ended, "it came before");
    }

    #[test]
    fn a_reset_is_certain() {
        let (mut client, server) = pair();
        client.write_all(b"more").unwrap();
        let presence = Presence::default();
        presence.clone().set(State::Gone);
        let watch = PeerWatch { presence: &presence, socket: server.as_raw_fd() };
        assert!(watch.is_gone());
    }
}
