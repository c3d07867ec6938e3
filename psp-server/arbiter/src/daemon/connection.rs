//! One client of the arbiter.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};

use crate::arbitration::ServerId;
use crate::limits::{MESSAGES_BURST_MAX, MESSAGES_PER_SECOND_MAX};
use crate::packet;
use crate::page::PageWriter;
use crate::protocol::ToServer;

/// One client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    /// Readable when the process has ended, even if another one has the socket.
    process_end: OwnedFd,
    pub(super) process: i32,
    pub(super) user: u32,
    pub(super) server: Option<ServerId>,
    pub(super) page: Option<PageWriter>,
    pub(super) since: Instant,
    budget: Budget,
}

impl Connection {
    /// # Errors
    /// The peer has ended.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        let peer = socket_peercred(&socket)?;
        let now = Instant::now();
        Ok(Self {
            process_end: pidfd_open(peer.pid, PidfdFlags::empty())?,
            process: peer.pid.as_raw_nonzero().get(),
            user: peer.uid.as_raw(),
            server: None,
            page: None,
            since: now,
            budget: Budget::new(now),
            socket,
        })
    }

    /// Adds it to the event queue.
    pub(super) fn watch(&self, events: &OwnedFd, key: u64) -> io::Result<()> {
        let readable = epoll::EventFlags::IN;
        let data = epoll::EventData::new_u64;
        epoll::add(events, &self.socket, data(key * 2), readable)?;
        epoll::add(events, &self.process_end, data(key * 2 + 1), readable)?;
        Ok(())
    }

    /// Whether the client may send another message. Call it once for each.
    pub(super) fn may_send(&mut self) -> bool {
        self.budget.take(Instant::now())
    }

    /// Sends without waiting.
    pub(super) fn send(&self, message: ToServer, file: Option<BorrowedFd<'_>>) -> rustix::io::Result<()> {
        packet::send(&self.socket, &message.encode(), file)
    }

    /// Makes the server's page, and hands it over.
    pub(super) fn welcome(&mut self, cores: usize) -> io::Result<()> {
        let page = self.page.insert(PageWriter::new()?);
        let file = Some(page.file());
        packet::send(self.socket.as_fd(), &ToServer::Welcome { cores }.encode(), file)?;
        Ok(())
    }
}

/// How many messages a client may still send: a token bucket.
#[derive(Debug)]
struct Budget {
    messages: f64,
    at: Instant,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self { messages: MESSAGES_BURST_MAX.into(), at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed_s = now.saturating_duration_since(self.at).as_secs_f64();
        let earned = passed_s * f64::from(MESSAGES_PER_SECOND_MAX);
        self.messages = (self.messages + earned).min(MESSAGES_BURST_MAX.into());
        self.at = now;
        let may = self.messages >= 1.0;
        self.messages -= f64::from(u8::from(may));
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_may_send_a_burst_and_then_so_many_a_second() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let sent = (0..5000).filter(|_| budget.take(start)).count();
        assert_eq!(sent, 1024);
        let later = start + Duration::from_millis(100);
        let sent = (0..5000).filter(|_| budget.take(later)).count();
        assert_eq!(sent, 500);
        let much_later = start + Duration::from_secs(3600);
        let sent = (0..5000).filter(|_| budget.take(much_later)).count();
        assert_eq!(sent, 1024);
    }
}
