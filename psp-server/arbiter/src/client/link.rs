//! The connection to an arbiter that may come and go: packets in order, a descriptor that stays the same, and attempts
//! that become rarer.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::error::ConnectError;
use crate::packet::{self, Received};
use crate::protocol::Packet;

/// How long after the first failed attempt there is a second one. Each further one takes twice as long.
const BACKOFF_MIN: Duration = Duration::from_millis(1);
const BACKOFF_MAX: Duration = Duration::from_millis(250);

/// How long to leave an arbiter alone that has refused this server.
const PAUSE: Duration = Duration::from_secs(1);

/// When to try again to send packets that the socket did not take.
const SEND_AGAIN: Duration = Duration::from_millis(1);

/// Packets that wait to be sent, at most. An arbiter that does not read so many is as good as gone.
const OUTBOX_MAX: usize = 4096;

/// Opens a connection to the arbiter at `path`.
pub(crate) fn open(path: &Path) -> Result<OwnedFd, ConnectError> {
    let open = || -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    };
    open().map_err(|errno| ConnectError::Unreachable { path: path.to_owned(), source: errno.into() })
}

/// What has happened on a link.
pub(super) enum Read {
    /// Nothing.
    Nothing,
    /// There is a connection now.
    Connected,
    /// A packet has come.
    Packet(Received),
    /// There is no connection any more.
    Lost,
}

/// The connection to an arbiter that may come and go.
#[derive(Debug)]
pub(super) struct Link {
    path: PathBuf,
    /// Readable when the socket or the timer is.
    events: OwnedFd,
    timer: OwnedFd,
    socket: Option<OwnedFd>,
    outbox: VecDeque<Packet>,
    retry_at: Instant,
    backoff: Duration,
}

impl Link {
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&events, &timer, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let link = Self {
            path,
            events,
            timer,
            socket: None,
            outbox: VecDeque::new(),
            retry_at: Instant::now(),
            backoff: BACKOFF_MIN,
        };
        link.wake_in(Duration::ZERO);
        Ok(link)
    }

    /// Makes the descriptor readable after this time.
    fn wake_in(&self, time: Duration) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A timer of 0 would never fire.
        let time = time.max(Duration::from_nanos(1));
        let timer = Itimerspec {
            it_interval: zero,
            it_value: Timespec::try_from(time).unwrap_or(zero),
        };
        // The descriptor is a timer, and the time is in range: there is nothing to fail.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer);
    }

    /// What has happened next.
    pub(super) fn read(&mut self) -> Read {
        let mut expirations = [0; 8];
        let fired = rustix::io::read(&self.timer, &mut expirations).is_ok();
        if fired && self.flush().is_err() {
            return Read::Lost;
        }
        let Some(socket) = &self.socket else {
            return self.try_again();
        };
        match packet::receive(socket) {
            Ok(Some(received)) => Read::Packet(received),
            Err(Errno::AGAIN) => Read::Nothing,
            Ok(None) | Err(_) => Read::Lost,
        }
    }

    fn try_again(&mut self) -> Read {
        let left = self.retry_at.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            self.wake_in(left);
            return Read::Nothing;
        }
        let readable = epoll::EventFlags::IN;
        let opened = open(&self.path).ok().and_then(|socket| {
            let data = epoll::EventData::new_u64(1);
            epoll::add(&self.events, &socket, data, readable).ok()?;
            Some(socket)
        });
        if opened.is_none() {
            self.close();
            return Read::Nothing;
        }
        self.socket = opened;
        Read::Connected
    }

    pub(super) fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// Ends the connection. There will be another attempt.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.outbox.clear();
        self.retry_at = Instant::now() + self.backoff;
        self.wake_in(self.backoff);
        self.backoff = BACKOFF_MAX.min(self.backoff * 2);
    }

    /// Leaves the arbiter alone for a while.
    pub(super) fn pause(&mut self) {
        self.retry_at = Instant::now() + PAUSE;
        self.wake_in(PAUSE);
    }

    /// The arbiter has answered: if it goes, the first attempt comes soon.
    pub(super) fn is_good(&mut self) {
        self.backoff = BACKOFF_MIN;
    }

    /// Sends a packet when the socket takes it. Without a connection, does nothing.
    pub(super) fn send(&mut self, packet: Packet) {
        if self.socket.is_none() {
            return;
        }
        self.outbox.push_back(packet);
        if self.flush().is_err() || self.outbox.len() > OUTBOX_MAX {
            // The next read finds the end.
            if let Some(socket) = &self.socket {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
            }
            self.outbox.clear();
        }
    }

    fn flush(&mut self) -> rustix::io::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        while let Some(packet) = self.outbox.front() {
            match packet::send(socket, packet, None) {
                Err(Errno::AGAIN) => {
                    self.wake_in(SEND_AGAIN);
                    return Ok(());
                }
                sent => sent?,
            }
            self.outbox.pop_front();
        }
        Ok(())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}
