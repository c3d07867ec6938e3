//! One stream connection: its socket, its requests in flight, and its unsent bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::channel::Channel;
use super::in_flight::InFlight;
use crate::wire::{Endpoint, Greeting, Protocol, Replies, Target, Tls};
use psp_protocols::skip::Skipped;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use socket2::{SockAddr, Socket, Type};

/// Timeout of the first connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Least time between two openings of a connection without a reply between them, in nanoseconds. It
/// doubles each time, up to the second value. After a reply the connection is opened again at once.
const PAUSE_NS_MIN: u64 = 100_000_000;
const PAUSE_NS_MAX: u64 = 1_600_000_000;

/// Opens a blocking connection behind its greeting, and returns the address that accepted it.
pub(crate) fn connect_and_greet(target: &Target) -> io::Result<(Channel, SockAddr)> {
    let (mut channel, addr) = connect_within(target, CONNECT_TIMEOUT)?;
    let Greeting { bytes, replies } = &target.greeting;
    channel.socket().set_read_timeout(Some(CONNECT_TIMEOUT))?;
    channel.write_all(bytes)?;
    let mut left = *replies;
    let mut buffer = [0; 512];
    let mut reader = Replies::new(target.protocol);
    while left > 0 {
        let count = channel.read(&mut buffer)?;
        let mut input = &buffer[..count];
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        while let Skipped::Reply { len, outcome } = reader.skip(input).map_err(io::Error::other)? {
            let reply = String::from_utf8_lossy(&input[..len]);
            if reader.error_kind(outcome).is_some() {
                return Err(io::Error::other(reply.trim_start_matches('-').trim_end().to_owned()));
            }
            input = &input[len..];
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    channel.socket().set_read_timeout(None)?;
    Ok((channel, addr))
}

/// Opens a blocking connection to a target, with a timeout for each address and for shaking hands.
pub(crate) fn connect_within(target: &Target, timeout: Duration) -> io::Result<(Channel, SockAddr)> {
    let connect = |addr: SockAddr| {
        let mut channel = Channel::new(connect_to(&addr, timeout)?, target.tls.as_ref(), true)?;
        channel.shake_hands(timeout)?;
        Ok((channel, addr))
    };
    match &target.endpoint {
        Endpoint::Inet(addrs) => first_of(addrs, |addr| connect(addr.into())),
        Endpoint::Unix(path) => connect(SockAddr::unix(path)?),
    }
}

/// What `open` makes of the first address that it can open. The error names all addresses.
pub(crate) fn first_of<T>(addrs: &[SocketAddr], open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut kind = ErrorKind::NotFound;
    let mut reasons = Vec::new();
    for &addr in addrs {
        match open(addr) {
            Ok(opened) => return Ok(opened),
            Err(error) => {
                kind = error.kind();
                reasons.push(format!("{addr}: {error}"));
            }
        }
    }
    Err(io::Error::new(kind, reasons.join("; ")))
}

fn connect_to(addr: &SockAddr, timeout: Duration) -> io::Result<Socket> {
    let socket = stream_socket(addr)?;
    if addr.is_unix() {
        // A local socket connects at once, or waits for room in the backlog; the write timeout
        // bounds this wait.
        socket.set_write_timeout(Some(timeout))?;
        socket.connect(addr)?;
        socket.set_write_timeout(None)?;
    } else {
        socket.connect_timeout(addr, timeout)?;
    }
    Ok(socket)
}

fn stream_socket(addr: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(addr.domain(), Type::STREAM, None)?;
    if !addr.is_unix() {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

#[derive(Debug)]
pub(crate) struct Connection {
    addr: SockAddr,
    tls: Option<Tls>,
    greeting: Arc<Greeting>,
    /// Replies to the greeting that have not come.
    ungreeted: usize,
    /// Index of its type on its thread.
    pub(crate) type_index: usize,
    /// The data of its registration with epoll.
    data: u64,
    state: State,
    pub(crate) in_flight: InFlight,
    /// Whether it is in its type's list of free connections.
    pub(crate) is_listed: bool,
    pub(crate) replies: Replies,
    /// Bytes of requests. The bytes from `out_start` on are unsent.
    pub(crate) out: Vec<u8>,
    out_start: usize,
    waits_for_write: bool,
    /// When it last began to open.
    begun_ns: u64,
    /// Least time from then to the next opening.
    pause_ns: u64,
    /// Whether it was open before. The first opening is not a reconnect.
    was_open: bool,
}

#[derive(Debug)]
enum State {
    Open(Channel),
    Connecting(Socket),
    Closed { retry_ns: u64 },
}

impl Connection {
    /// An open connection, registered with `epoll` as `data`.
    pub(crate) fn open(target: &Target, type_index: usize, data: u64, epoll: &OwnedFd) -> io::Result<Self> {
        let (mut channel, addr) = connect_and_greet(target)?;
        channel.stop_blocking()?;
        epoll::add(epoll, channel.socket(), EventData::new_u64(data), EventFlags::IN)?;
        let mut opened = Self::closed(target.protocol, addr, type_index, data, 0);
        opened.greeting = Arc::new(target.greeting.clone());
        opened.tls = target.tls.clone();
        opened.state = State::Open(channel);
        opened.was_open = true;
        Ok(opened)
    }

    /// Another connection of the type to the same address, which [`reopen`](Self::reopen) opens at
    /// `open_ns`.
    pub(crate) fn planned(&self, protocol: Protocol, data: u64, open_ns: u64) -> Self {
        Self {
            tls: self.tls.clone(),
            greeting: self.greeting.clone(),
            ..Self::closed(protocol, self.addr.clone(), self.type_index, data, open_ns)
        }
    }

    /// The address of a server on TCP.
    pub(crate) fn inet_addr(&self) -> Option<SocketAddr> {
        self.addr.as_socket()
    }

    fn closed(protocol: Protocol, addr: SockAddr, type_index: usize, data: u64, open_ns: u64) -> Self {
        Self {
            addr,
            tls: None,
            greeting: Arc::default(),
            ungreeted: 0,
            type_index,
            data,
            state: State::Closed { retry_ns: open_ns },
            in_flight: InFlight::default(),
            is_listed: false,
            replies: Replies::new(protocol),
            out: Vec::new(),
            out_start: 0,
            waits_for_write: false,
            begun_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            was_open: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Writes as much of `out` as the socket takes.
    pub(crate) fn flush(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        let State::Open(channel) = &mut self.state else {
            return Ok(());
        };
        while self.out_start < self.out.len() {
            match channel.write(&self.out[self.out_start..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.out_start += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let is_written = self.out_start == self.out.len();
        if is_written {
            self.out.clear();
            self.out_start = 0;
        }
        let waits = channel.waits_for_write(is_written)?;
        if self.waits_for_write != waits {
            self.waits_for_write = waits;
            let mut interest = EventFlags::IN;
            interest.set(EventFlags::OUT, self.waits_for_write);
            epoll::modify(epoll, channel.socket(), EventData::new_u64(self.data), interest)?;
        }
        Ok(())
    }

    /// Reads once; `None` when there is nothing to read.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let State::Open(channel) = &mut self.state else {
            return Ok(None);
        };
        match channel.read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(Some(count)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether bytes are left to write that may go out now that some were read.
    pub(crate) fn has_unwritten(&self) -> bool {
        let has_unsent = |channel: &Channel| channel.is_encrypted() && !self.out.is_empty() || channel.has_unsent();
        matches!(&self.state, State::Open(channel) if has_unsent(channel))
    }

    /// Whether bytes are left to read of which epoll tells nothing.
    pub(crate) fn has_unread(&self) -> bool {
        matches!(&self.state, State::Open(channel) if channel.has_unread())
    }

    /// Closes the socket and drops unsent bytes. The caller handles `in_flight`.
    pub(crate) fn close(&mut self, now_ns: u64) {
        self.state = self.rest(now_ns);
        self.out.clear();
        self.out_start = 0;
        self.waits_for_write = false;
        self.replies.restart();
    }

    fn rest(&mut self, now_ns: u64) -> State {
        let retry_ns = now_ns.max(self.begun_ns + self.pause_ns);
        self.pause_ns = (self.pause_ns * 2).clamp(PAUSE_NS_MIN, PAUSE_NS_MAX);
        State::Closed { retry_ns }
    }

    /// When its rest ends, if it rests after a failure. A connection that was never open does not
    /// rest, because it was not due.
    pub(crate) fn rest_end_ns(&self) -> Option<u64> {
        match self.state {
            State::Closed { retry_ns } => self.was_open.then_some(retry_ns),
            State::Open(_) | State::Connecting(_) => None,
        }
    }

    /// Whether a reply is one to the greeting.
    pub(crate) fn is_greeted(&mut self) -> bool {
        let is_greeting = self.ungreeted > 0;
        self.ungreeted -= usize::from(is_greeting);
        is_greeting
    }

    /// A reply to a request has come, so the connection works. A line that refuses the connection is none.
    pub(crate) fn answered(&mut self) {
        self.pause_ns = 0;
    }

    /// Begins to open a closed connection unless it rests. The socket becomes ready when this
    /// succeeds or fails.
    pub(crate) fn reopen(&mut self, now_ns: u64, epoll: &OwnedFd) {
        let State::Closed { retry_ns } = self.state else {
            return;
        };
        if now_ns < retry_ns {
            return;
        }
        self.begun_ns = now_ns;
        self.state = match self.begin_connect(epoll) {
            Ok(socket) => State::Connecting(socket),
            Err(_) => self.rest(now_ns),
        };
    }

    fn begin_connect(&self, epoll: &OwnedFd) -> io::Result<Socket> {
        let socket = stream_socket(&self.addr)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&self.addr) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        let data = EventData::new_u64(self.data);
        epoll::add(epoll, &socket, data, EventFlags::OUT)?;
        Ok(socket)
    }

    /// Finishes a connect when its socket is ready. Returns whether the connection had been open
    /// before; `None` unless it has just opened.
    pub(crate) fn finish_connect(&mut self, now_ns: u64, epoll: &OwnedFd) -> Option<bool> {
        let State::Connecting(socket) = &self.state else {
            return None;
        };
        let is_connecting = socket.peer_addr().is_err_and(|error| error.kind() == ErrorKind::NotConnected);
        let error = socket.take_error();
        if is_connecting && matches!(error, Ok(None)) {
            // The event was that of the socket before this one.
            return None;
        }
        let interest = EventData::new_u64(self.data);
        let is_open = matches!(error, Ok(None)) && epoll::modify(epoll, socket, interest, EventFlags::IN).is_ok();
        let resting = State::Closed { retry_ns: now_ns };
        match std::mem::replace(&mut self.state, resting) {
            State::Connecting(socket) if is_open => {
                let Ok(channel) = Channel::new(socket, self.tls.as_ref(), false) else {
                    self.state = self.rest(now_ns);
                    return None;
                };
                self.state = State::Open(channel);
                // They go out with the first request.
                self.out.extend_from_slice(&self.greeting.bytes);
                self.ungreeted = self.greeting.replies;
                Some(std::mem::replace(&mut self.was_open, true))
            }
            _ => {
                self.state = self.rest(now_ns);
                None
            }
        }
    }
}
