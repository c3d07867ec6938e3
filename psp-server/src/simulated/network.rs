//! Simulated sockets, as Linux' behave on the loopback interface.
//!
//! ```text
//!   client ── client_send ──► input of the server's socket (bounded) ── read ──►  runtime
//!          ◄─ client_read ──  output of it (bounded)               ◄── write ──
//! ```
//!
//! - A read that returns less than it has room for has emptied the socket. The event queue is edge-triggered: a socket
//!   is in it again when something came, ended or failed, or when output that blocked has room. An event tells all that
//!   holds by then.
//! - A peer that resets discards what lies in the socket. So does a server that closes a socket with unread input: what
//!   it sent last may be lost on the way.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use mio::event::Source;
use mio::{Interest, Registry, Token};

use super::random::Random;
use super::{call, with_network};
use crate::peer::Peer;
use crate::runtime::host::event::{Event, SocketEvent};

/// Names of sockets as descriptors: below those of the system, and below -1.
const DESCRIPTOR_FIRST: RawFd = -2;

/// Number of a socket. It is used again after both ends are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketId(u32);

impl SocketId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    fn descriptor(self) -> RawFd {
        DESCRIPTOR_FIRST - self.0 as RawFd
    }

    pub(super) fn of_descriptor(descriptor: RawFd) -> Option<Self> {
        (descriptor <= DESCRIPTOR_FIRST).then(|| Self((DESCRIPTOR_FIRST - descriptor) as u32))
    }
}

/// How the network treats its sockets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes that a socket holds for the server.
    pub(crate) input_max: usize,
    /// Bytes that it takes from the server.
    pub(crate) output_max: usize,
    /// One call in so many is interrupted, takes less than it could, or loses a byte; 0 for none.
    pub(crate) interrupted: u64,
    pub(crate) short_writes: u64,
    /// One event in so many comes without a reason.
    pub(crate) spurious: u64,
    /// Bytes that are lost: a fault which no network has, for tests of the checks.
    pub(crate) lossy: u64,
    pub(crate) seed: u64,
}

/// A socket with both of its ends.
#[derive(Debug, Default)]
struct Pair {
    peer: Option<Peer>,
    input: Bytes,
    output: Bytes,
    token: Option<Token>,
    /// It is in the list of events.
    is_noted: bool,
    /// The server's last write blocked.
    is_blocked: bool,
    /// The client waits for room.
    is_full: bool,
    client_ended: bool,
    server_ended: bool,
    /// The server's end is closed, or the client's.
    server_gone: bool,
    client_gone: bool,
    /// The connection was reset, by either side. The server is told once.
    is_reset: bool,
    reset_told: bool,
    /// It is in the list of sockets whose clients have something to do.
    is_stirred: bool,
    stirred_ns: u64,
    /// When the server last accepted it, or read or wrote bytes.
    used_ns: u64,
}

/// Bytes in order.
#[derive(Debug, Default)]
struct Bytes {
    bytes: Vec<u8>,
    start: usize,
}

impl Bytes {
    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    fn put(&mut self, more: &[u8]) {
        if self.start == self.bytes.len() {
            self.clear();
        } else if self.start > 64 * 1024 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(more);
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let count = self.len().min(into.len());
        into[..count].copy_from_slice(&self.bytes[self.start..self.start + count]);
        self.start += count;
        count
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }
}

/// All sockets of a thread's system.
pub(crate) struct Network {
    pairs: Vec<Pair>,
    free: Vec<SocketId>,
    backlog: VecDeque<SocketId>,
    /// Sockets that have events.
    noted: Vec<SocketId>,
    /// Sockets whose clients have something to do.
    stirred: Vec<SocketId>,
    listener: Option<Token>,
    listener_noted: bool,
    limits: Option<Limits>,
    random: Option<Random>,
}

impl Network {
    pub(super) const fn new() -> Self {
        Self {
            pairs: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            noted: Vec::new(),
            stirred: Vec::new(),
            listener: None,
            listener_noted: false,
            limits: None,
            random: None,
        }
    }

    pub(super) fn start(&mut self, limits: Limits) {
        *self = Self::new();
        self.random = Some(Random::new(limits.seed));
        self.limits = Some(limits);
    }

    fn limits(&self) -> Limits {
        self.limits.expect("the system has begun")
    }

    fn once_in(&mut self, times: u64) -> bool {
        let random = self.random.as_mut();
        random.is_some_and(|random| random.once_in(times))
    }

    /// The events of the listener have this token.
    pub(crate) fn listen(&mut self, token: Token) {
        self.listener = Some(token);
    }

    /// A connection from `peer` waits to be accepted.
    pub(crate) fn connect(&mut self, peer: Peer) -> ClientEnd {
        let id = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(Pair::default());
            SocketId(self.pairs.len() as u32 - 1)
        });
        let pair = &mut self.pairs[id.index()];
        let (mut input, mut output) = (std::mem::take(&mut pair.input), std::mem::take(&mut pair.output));
        input.clear();
        output.clear();
        *pair = Pair {
            peer: Some(peer),
            input,
            output,
            is_noted: pair.is_noted,
            is_stirred: pair.is_stirred,
            ..Pair::default()
        };
        self.backlog.push_back(id);
        self.listener_noted = true;
        ClientEnd { id }
    }

    /// Connections that wait to be accepted.
    pub(crate) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// The connections that wait are not accepted.
    pub(crate) fn forget_backlog(&mut self) {
        for id in std::mem::take(&mut self.backlog) {
            let pair = &mut self.pairs[id.index()];
            (pair.server_gone, pair.is_reset) = (true, true);
            pair.output.clear();
            self.stir(id);
            self.let_go(id);
        }
    }

    /// The next socket whose client has something to do: output came, or the end, or there is room again.
    /// And when the server did that.
    pub(crate) fn next_stirred(&mut self) -> Option<(SocketId, u64)> {
        let id = self.stirred.pop()?;
        let pair = &mut self.pairs[id.index()];
        pair.is_stirred = false;
        Some((id, pair.stirred_ns))
    }

    pub(super) fn unread(&self, id: SocketId) -> usize {
        self.pairs[id.index()].input.len()
    }

    pub(super) fn take_events(&mut self, events: &mut Vec<Event>) {
        if self.listener_noted && !self.backlog.is_empty() {
            events.extend(self.listener.map(|token| Event {
                token,
                about: SocketEvent { readable: true, ..SocketEvent::default() },
            }));
        }
        self.listener_noted = false;
        let spurious = self.limits().spurious;
        if !self.pairs.is_empty() && self.once_in(spurious) {
            let count = self.pairs.len() as u64;
            let random = self.random.as_mut().expect("the system has begun");
            let id = SocketId(random.below(count) as u32);
            self.note(id);
        }
        let mut noted = std::mem::take(&mut self.noted);
        for id in noted.drain(..) {
            let pair = &mut self.pairs[id.index()];
            pair.is_noted = false;
            let Some(token) = pair.token.filter(|_| !pair.server_gone) else {
                continue;
            };
            events.push(Event {
                token,
                about: pair.event(self.limits.expect("the system has begun").output_max),
            });
        }
        self.noted = noted;
    }

    fn note(&mut self, id: SocketId) {
        let pair = &mut self.pairs[id.index()];
        if pair.token.is_some() && !pair.server_gone && !std::mem::replace(&mut pair.is_noted, true) {
            self.noted.push(id);
        }
    }

    fn stir(&mut self, id: SocketId) {
        let pair = &mut self.pairs[id.index()];
        pair.stirred_ns = super::now_ns();
        if !pair.client_gone && !std::mem::replace(&mut pair.is_stirred, true) {
            self.stirred.push(id);
            super::due(0);
        }
    }

    fn let_go(&mut self, id: SocketId) {
        let pair = &self.pairs[id.index()];
        if pair.server_gone && pair.client_gone {
            self.free.push(id);
        }
    }
}

impl Pair {
    fn event(&self, output_max: usize) -> SocketEvent {
        let ended = self.client_ended || self.is_reset;
        let hung_up = self.is_reset || (self.client_ended && self.server_ended);
        SocketEvent {
            readable: self.input.len() > 0 || ended,
            writable: self.is_reset || self.output.len() < output_max,
            ended,
            hung_up,
            failed: self.is_reset,
        }
    }
}

/// The client's end of a connection. It stays open until [`close`](Self::close).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientEnd {
    id: SocketId,
}

/// What a client finds in its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The server sends no more.
    End,
    /// The connection was reset.
    Reset,
}

impl ClientEnd {
    pub(crate) fn id(self) -> SocketId {
        self.id
    }

    /// Sends what there is room for. Returns how much. Without room for all, the client is told when there is some.
    pub(crate) fn send(self, bytes: &[u8]) -> usize {
        with_network(|network| {
            let max = network.limits().input_max;
            let pair = &mut network.pairs[self.id.index()];
            if pair.is_reset || pair.server_gone {
                // It is not read.
                return bytes.len();
            }
            let count = bytes.len().min(max.saturating_sub(pair.input.len()));
            pair.is_full = count < bytes.len();
            if count > 0 {
                pair.input.put(&bytes[..count]);
                network.note(self.id);
            }
            count
        })
    }

    /// Reads what has come.
    pub(crate) fn read(self, into: &mut [u8]) -> Found {
        with_network(|network| {
            let max = network.limits().output_max;
            let pair = &mut network.pairs[self.id.index()];
            let count = pair.output.take(into);
            if count > 0 {
                // As Linux does, once a third of the room is free.
                if pair.is_blocked && pair.output.len() <= max - max / 3 {
                    pair.is_blocked = false;
                    network.note(self.id);
                }
                return Found::Bytes(count);
            }
            match () {
                () if pair.is_reset => Found::Reset,
                () if pair.server_ended || pair.server_gone => Found::End,
                () => Found::Nothing,
            }
        })
    }

    /// Bytes that wait for the client.
    pub(crate) fn unread(self) -> usize {
        with_network(|network| network.pairs[self.id.index()].output.len())
    }

    /// Whether the server has accepted the connection.
    pub(crate) fn is_accepted(self) -> bool {
        with_network(|network| network.pairs[self.id.index()].token.is_some())
    }

    /// Bytes that the server has not read.
    pub(crate) fn unread_by_server(self) -> usize {
        with_network(|network| network.pairs[self.id.index()].input.len())
    }

    /// When the server last wrote bytes, made room, or closed the connection.
    pub(crate) fn stirred_ns(self) -> u64 {
        with_network(|network| network.pairs[self.id.index()].stirred_ns)
    }

    /// When the server last accepted the connection, or read or wrote bytes.
    pub(crate) fn used_ns(self) -> u64 {
        with_network(|network| network.pairs[self.id.index()].used_ns)
    }

    /// Sends no more.
    pub(crate) fn end(self) {
        with_network(|network| {
            network.pairs[self.id.index()].client_ended = true;
            network.note(self.id);
        });
    }

    /// Gives the connection up. `resets` says that the server is told by a reset, in place of an orderly end.
    pub(crate) fn close(self, resets: bool) {
        with_network(|network| {
            let pair = &mut network.pairs[self.id.index()];
            if std::mem::replace(&mut pair.client_gone, true) {
                return;
            }
            pair.client_ended = true;
            // A close with unread bytes is a reset, too.
            if resets || pair.output.len() > 0 {
                pair.is_reset = true;
                pair.input.clear();
            }
            pair.output.clear();
            network.note(self.id);
            network.let_go(self.id);
        });
    }
}

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct ServerEnd {
    id: SocketId,
}

impl ServerEnd {
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        with_network(|network| {
            let pair = &mut network.pairs[self.id.index()];
            if pair.is_reset {
                return Err(io::ErrorKind::NotConnected.into());
            }
            if how != Shutdown::Read {
                pair.server_ended = true;
                network.stir(self.id);
                network.note(self.id);
            }
            Ok(())
        })
    }

    fn with<T>(&self, body: impl FnOnce(&mut Network, usize, u64) -> T) -> T {
        call();
        let now_ns = super::now_ns();
        with_network(|network| body(network, self.id.index(), now_ns))
    }
}

impl AsRawFd for ServerEnd {
    fn as_raw_fd(&self) -> RawFd {
        self.id.descriptor()
    }
}

impl Source for ServerEnd {
    fn register(&mut self, _: &Registry, token: Token, _: Interest) -> io::Result<()> {
        with_network(|network| {
            network.pairs[self.id.index()].token = Some(token);
            network.note(self.id);
        });
        Ok(())
    }

    fn reregister(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn deregister(&mut self, _: &Registry) -> io::Result<()> {
        Ok(())
    }
}

impl Read for ServerEnd {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let id = self.id;
        self.with(|network, index, now_ns| {
            let limits = network.limits();
            if network.once_in(limits.interrupted) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let pair = &mut network.pairs[index];
            if pair.is_reset {
                let told = std::mem::replace(&mut pair.reset_told, true);
                return if told {
                    Ok(0)
                } else {
                    Err(io::ErrorKind::ConnectionReset.into())
                };
            }
            let mut count = pair.input.take(into);
            if count == 0 {
                let ended = pair.client_ended;
                return if ended {
                    Ok(0)
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                };
            }
            pair.used_ns = now_ns;
            if pair.is_full {
                pair.is_full = false;
                network.stir(id);
            }
            if count > 1 && network.once_in(limits.lossy) {
                into.copy_within(1..count, 0);
                count -= 1;
            }
            Ok(count)
        })
    }
}

impl Write for ServerEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let id = self.id;
        self.with(|network, index, now_ns| {
            let limits = network.limits();
            if network.once_in(limits.interrupted) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let is_short = network.once_in(limits.short_writes);
            let pair = &mut network.pairs[index];
            if pair.is_reset || pair.client_gone || pair.server_ended {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let room = limits.output_max.saturating_sub(pair.output.len());
            if room == 0 {
                pair.is_blocked = true;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let mut count = bytes.len().min(room);
            if is_short && count > 1 {
                count = 1 + count / 3;
            }
            pair.output.put(&bytes[..count]);
            pair.used_ns = now_ns;
            network.stir(id);
            Ok(count)
        })
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut written = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            match self.write(slice) {
                Ok(count) if count == slice.len() => written += count,
                Ok(count) => return Ok(written + count),
                Err(_) if written > 0 => return Ok(written),
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        with_network(|network| {
            let Some(pair) = network.pairs.get_mut(self.id.index()) else {
                return;
            };
            pair.server_gone = true;
            if pair.input.len() > 0 && !pair.client_gone {
                // A reset, which overtakes what was sent.
                pair.is_reset = true;
                pair.output.clear();
            }
            pair.input.clear();
            network.stir(self.id);
            network.let_go(self.id);
        });
    }
}

/// The socket that accepts connections. The real event queue has a descriptor of it that never has an event.
#[derive(Debug)]
pub(crate) struct ListenerEnd(OwnedFd);

impl ListenerEnd {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        Ok(Self(rustix::event::eventfd(0, flags)?))
    }

    pub(crate) fn accept(&self) -> io::Result<(ServerEnd, Peer)> {
        call();
        let now_ns = super::now_ns();
        with_network(|network| {
            while let Some(id) = network.backlog.pop_front() {
                let pair = &mut network.pairs[id.index()];
                pair.used_ns = now_ns;
                if let Some(peer) = pair.peer {
                    return Ok((ServerEnd { id }, peer));
                }
            }
            Err(io::ErrorKind::WouldBlock.into())
        })
    }
}

impl AsFd for ListenerEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
