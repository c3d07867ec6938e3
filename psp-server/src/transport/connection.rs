//! One connection: its socket, its buffers and the handler's state.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::TlsSession;
use super::budget::Budget;
use super::input::{BufferPool, Fill, InputBuffer};
use super::output::{Flush, OutputQueue};
use super::owed::Owed;
use super::push::Pushes;
use super::request_key::{ConnectionIndex, PortNumber};
use super::socket::{NoSocket, Socket};
use super::uptake::Uptake;
use super::wire::Wire;
use crate::peer::Peer;
use crate::presence::{PeerWatch, Presence};

/// What the kernel holds until the peer of a connection that has messages has room, in bytes. Without a bound it takes
/// some megabytes, and every connection of the machine stalls when that is more than all sockets may hold (`tcp_mem`).
const KERNEL_BYTES_MAX: u32 = 128 * 1024;

/// A connection has one owner at a time: the net worker, or the worker that runs its requests. That keeps
/// replies in order without a lock.
///
/// Where replies name their requests, the net worker may keep a connection and *detach* runs from it: each gets a
/// connection of its own without a socket, which takes its replies back to the first one.
pub(crate) struct Connection<C> {
    /// The port that it belongs to, whichever worker runs its requests.
    pub(crate) port: PortNumber,
    /// Its index in the port's table.
    pub(crate) index: ConnectionIndex,
    /// The index of the connection that has the socket: this one, unless it is detached.
    pub(crate) home: ConnectionIndex,
    pub(crate) socket: Wire,
    pub(crate) peer: Peer,
    /// Whether the peer is still there.
    pub(crate) presence: Presence,
    pub(crate) common: Arc<Common<C>>,
    /// Whether the peer has shown who it is.
    pub(crate) is_authenticated: bool,
    pub(crate) input: InputBuffer,
    pub(crate) output: OutputQueue,
    /// Replies that are deferred.
    pub(crate) owed: Vec<Owed>,
    /// It has had messages that no request has asked for. They come whether the peer reads or not, so the
    /// kernel holds little for it.
    has_had_pushes: bool,
    /// Memory held for the peer, as last counted in the budget.
    pub(crate) counted_bytes: usize,
    /// What replies took from the budget while they grew, since it was last counted.
    pub(crate) reserved_bytes: usize,
    /// How the last flush ended.
    pub(crate) flush: Flush,
    pub(crate) uptake: Uptake,
    /// Close once the output is sent.
    pub(crate) closing: bool,
    /// The socket failed; nothing more can be sent.
    pub(crate) failed: bool,
}

/// What the requests of a connection have in common, detached or not.
pub(crate) struct Common<C> {
    /// The handler's state of the connection.
    pub(crate) state: C,
    /// Messages that no request has asked for.
    pub(crate) pushes: Pushes,
}

/// What a connection begins with.
pub(crate) struct Accepted<C> {
    pub(crate) socket: Socket,
    /// The session of a connection with TLS.
    pub(crate) session: Option<Box<TlsSession>>,
    pub(crate) peer: Peer,
    pub(crate) state: C,
    pub(crate) is_authenticated: bool,
}

impl<C> Connection<C> {
    pub(crate) fn new(port: PortNumber, index: ConnectionIndex, accepted: Accepted<C>) -> Self {
        let Accepted { socket, session, peer, state, is_authenticated } = accepted;
        let common = Arc::new(Common { state, pushes: Pushes::default() });
        let wire = Wire::new(socket, session);
        Self {
            is_authenticated,
            ..Self::of(port, index, wire, peer, Presence::default(), common)
        }
    }

    /// One without a socket, for requests that are detached from this one.
    pub(crate) fn detached(&self, index: ConnectionIndex) -> Self {
        let (wire, presence) = (Wire::new(Socket::None(NoSocket), None), self.presence.clone());
        Self {
            home: self.index,
            is_authenticated: self.is_authenticated,
            ..Self::of(self.port, index, wire, self.peer, presence, self.common.clone())
        }
    }

    /// One that holds nothing yet, of a peer that has not authenticated.
    fn of(
        port: PortNumber,
        index: ConnectionIndex,
        socket: Wire,
        peer: Peer,
        presence: Presence,
        common: Arc<Common<C>>,
    ) -> Self {
        Self {
            port,
            index,
            home: index,
            socket,
            peer,
            presence,
            common,
            is_authenticated: false,
            input: InputBuffer::default(),
            output: OutputQueue::default(),
            owed: Vec::new(),
            has_had_pushes: false,
            counted_bytes: 0,
            reserved_bytes: 0,
            flush: Flush::Empty,
            uptake: Uptake::default(),
            closing: false,
            failed: false,
        }
    }

    /// Whether its requests are detached from another one.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.socket.is_detached()
    }

    /// One read from the socket into the input. `len_min` bytes of the next request are announced.
    ///
    /// # Errors
    /// The socket's errors, except `WouldBlock` and `Interrupted`.
    pub(crate) fn receive(&mut self, len_min: usize, pool: &mut BufferPool) -> io::Result<Fill> {
        self.socket.receive(&mut self.input, len_min, pool)
    }

    /// Sends output, at most `budget_bytes` of it. Returns the number of bytes sent.
    pub(crate) fn send(&mut self, budget_bytes: usize) -> usize {
        let sent = self.socket.send(&mut self.output, budget_bytes);
        match sent.flush {
            Ok(flush) => self.flush = flush,
            Err(_) => self.failed = true,
        }
        if sent.bytes > 0 || self.flush == Flush::Empty {
            self.uptake.moves();
        }
        sent.bytes
    }

    /// Moves messages to the output, `bytes_max` of them or one.
    pub(crate) fn take_pushed(&mut self, bytes_max: usize) {
        if !std::mem::replace(&mut self.has_had_pushes, true) {
            self.socket.hold_at_most(KERNEL_BYTES_MAX);
        }
        self.reserved_bytes += self.common.pushes.take(&mut self.output, bytes_max);
    }

    /// Whether the peer got what it did not ask for.
    pub(crate) fn has_had_pushes(&self) -> bool {
        self.has_had_pushes
    }

    /// Whether output waits to be sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.output.is_empty() || self.socket.unsent() > 0
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.output.len() + self.socket.unsent()
    }

    /// Takes buffers for output from `spare` if the connection has none.
    #[inline]
    pub(crate) fn lend_buffers(&mut self, spare: &mut Vec<Vec<u8>>) {
        self.output.lend_buffer(spare);
        self.socket.lend_buffer(spare);
    }

    /// Gives the buffers for output back once everything is sent.
    pub(crate) fn return_buffers(&mut self, spare: &mut Vec<Vec<u8>>) {
        self.output.return_buffer(spare);
        self.socket.return_buffer(spare);
    }

    fn watch(&self) -> PeerWatch<'_> {
        PeerWatch { presence: &self.presence, socket: self.socket.as_raw_fd() }
    }

    /// Whether the peer is known to be gone. Only the connection's owner may ask.
    #[inline]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.watch().is_gone()
    }

    /// Whether the socket has input that was not read.
    pub(crate) fn has_unread(&self) -> bool {
        self.watch().has_unread()
    }

    /// Looks at the input that the socket has, as far as it fits into `room`. Returns how many bytes these are.
    pub(crate) fn unread(&self, room: &mut [u8]) -> usize {
        self.watch().unread(room)
    }

    /// Counts in the budget what is held for the peer by now.
    pub(crate) fn count(&mut self, budget: &Budget) {
        let before = self.counted_bytes + std::mem::take(&mut self.reserved_bytes);
        self.counted_bytes = self.held_bytes();
        budget.replace(before, self.counted_bytes);
    }

    /// Bytes of memory held for the peer.
    pub(crate) fn held_bytes(&self) -> usize {
        let owed_bytes: usize = self.owed.iter().map(|owed| owed.request.len()).sum();
        self.input.held_bytes() + self.output.held_bytes() + self.socket.held_bytes() + owed_bytes
    }
}

#[cfg(test)]
impl Connection<()> {
    /// A connection, and its client.
    pub(crate) fn example(port: PortNumber, index: usize) -> (Self, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, peer) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let accepted = Accepted {
            socket: Socket::Tcp(mio::net::TcpStream::from_std(socket)),
            session: None,
            peer: Peer::Ip(peer),
            state: (),
            is_authenticated: true,
        };
        let index = ConnectionIndex::new(index).unwrap();
        (Self::new(port, index, accepted), client)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::transport::push::Announcements;

    /// Otherwise the sockets of silent listeners leave no memory to those of others.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_holds_little_of_what_a_peer_did_not_ask_for() {
        let announcements = Arc::new(Announcements::new(Arc::new(Budget::new(1 << 30))));
        let (mut connection, _client) = Connection::example(PortNumber::default(), 0);
        let (pushes, presence) = (&connection.common.pushes, &connection.presence);
        let push = pushes.pusher(connection.index, presence, &announcements);
        for _ in 0..10_000 {
            push.send(vec![7; 1_000].into()).unwrap();
        }
        connection.take_pushed(usize::MAX);
        let sent_bytes = connection.send(usize::MAX);
        assert_eq!(connection.flush, Flush::Blocked);
        assert!(sent_bytes < 1_000_000, "{sent_bytes}");
    }
}
