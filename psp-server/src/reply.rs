//! The reply that a handler writes.

use std::fmt::{self, Display, Write as _};

use bytes::Bytes;
use psp_policy::RequestType;
use psp_protocols::Sink;

use crate::transport::budget::{Budget, EXEMPT_BYTES};
use crate::transport::output::OutputQueue;
use crate::transport::wire::Wire;

/// Longest text of a failure, in bytes. The rest is cut off.
const FAILURE_BYTES_MAX: usize = 1024;

/// The reply to one request: a [`Sink`] with a limit.
///
/// Over TCP it appends to the connection's output queue; over UDP it fills the free part of the buffer that
/// holds the request. A reply longer than [`limit_bytes`](Self::limit_bytes) is not sent: the peer gets
/// [`Rejection::ReplyTooLarge`](psp_protocols::Rejection::ReplyTooLarge) instead.
///
/// # Replies in pieces
///
/// Over TCP [`flush`](Self::flush) sends what the reply has so far. What was sent cannot be taken back: if the request
/// then fails, by [`fail`](Self::fail), a panic or the limit, the peer gets the pieces and the connection closes.
/// The limit is for the bytes that wait, [`queued_bytes`](Self::queued_bytes), so a reply in pieces may be longer in
/// total.
pub struct Reply<'a> {
    target: Target<'a>,
    written: usize,
    limit_bytes: usize,
    /// Bytes that may wait before the reply has to take more from the budget.
    covered_bytes: usize,
    /// Bytes that it took from the budget.
    reserved_bytes: usize,
    overflow: Option<Overflow>,
    close: bool,
    failure: Option<String>,
    reclassified: Option<RequestType>,
    flushed: Flushed,
}

/// Why a reply is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// It is longer than the limit.
    TooLarge,
    /// The budget for all peers has no room for it.
    OutOfBuffers,
}

enum Target<'a> {
    Stream {
        output: &'a mut OutputQueue,
        socket: &'a mut Wire,
        budget: &'a Budget,
    },
    Datagram(&'a mut [u8]),
}

/// What [`Reply::flush`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flushed {
    /// The reply cannot be discarded any more.
    pub(crate) is_committed: bool,
    /// The socket failed.
    pub(crate) is_peer_gone: bool,
    /// Bytes sent, those of earlier replies included.
    pub(crate) sent: usize,
    /// Bytes of earlier replies that still wait in front of this reply.
    pub(crate) ahead: usize,
    /// Bytes of this reply that were sent.
    own: usize,
}

/// How writing a reply ended.
#[derive(Debug)]
pub(crate) struct ReplyOutcome {
    pub(crate) written: usize,
    pub(crate) overflow: Option<Overflow>,
    /// What the reply took from the budget.
    pub(crate) reserved_bytes: usize,
    pub(crate) close: bool,
    /// The text for the peer if the handler failed.
    pub(crate) failure: Option<String>,
    /// The request is of this type, and has not been handled.
    pub(crate) reclassified: Option<RequestType>,
    pub(crate) flushed: Flushed,
}

impl<'a> Reply<'a> {
    pub(crate) fn to_stream(
        output: &'a mut OutputQueue,
        socket: &'a mut Wire,
        limit_bytes: usize,
        budget: &'a Budget,
    ) -> Self {
        let ahead = output.len();
        let target = Target::Stream {
            output,
            socket,
            budget,
        };
        let mut reply = Self::new(target, limit_bytes);
        reply.covered_bytes = limit_bytes.min(EXEMPT_BYTES);
        reply.flushed.ahead = ahead;
        reply
    }

    #[inline]
    pub(crate) fn to_datagram(free: &'a mut [u8]) -> Self {
        let limit_bytes = free.len();
        Self::new(Target::Datagram(free), limit_bytes)
    }

    #[inline]
    fn new(target: Target<'a>, limit_bytes: usize) -> Self {
        Self {
            target,
            written: 0,
            limit_bytes,
            covered_bytes: limit_bytes,
            reserved_bytes: 0,
            overflow: None,
            close: false,
            failure: None,
            reclassified: None,
            flushed: Flushed::default(),
        }
    }

    /// Closes the connection once the reply is sent. Datagrams have nothing to close.
    pub fn close(&mut self) {
        self.close = true;
    }

    /// Puts the request back: it is of `request_type`, which the [`Classifier`](crate::Classifier) could not know. What
    /// the reply has is discarded. The request waits in that type's queue, and the handler gets it again, with this
    /// [`request_type`](crate::Request::request_type). The handler shall return at once, and must have changed nothing.
    /// It must not put the request back again and again: it looks at the request's type first.
    ///
    /// Returns `false` for datagrams, and after [`flush`](Self::flush) has sent a part of the reply: the handler
    /// handles the request then.
    pub fn reclassify(&mut self, request_type: RequestType) -> bool {
        let is_possible =
            matches!(self.target, Target::Stream { .. }) && !self.flushed.is_committed;
        if is_possible {
            self.reclassified = Some(request_type);
        }
        is_possible
    }

    /// Fails the request: what the reply has is discarded, and the peer gets
    /// [`Rejection::Failed`](psp_protocols::Rejection::Failed) with up to 1024 bytes of this text, in its protocol's
    /// words. A handler that is a closure returns an error instead. Of several calls the first counts.
    pub fn fail(&mut self, text: impl Display) {
        if self.failure.is_none() {
            let mut line = FailureText(String::new());
            // It refuses what is beyond its length.
            let _ = write!(line, "{text}");
            self.failure = Some(line.0);
        }
    }

    /// Sends what the reply has so far, without waiting: bytes that the peer does not take stay queued. Returns
    /// whether the peer is still there; a handler may stop when it is not. After a failure, and on datagrams, which
    /// are sent whole, `flush` does nothing.
    ///
    /// The reply can no longer be discarded: see [the type](Self#replies-in-pieces). A handler that writes faster
    /// than its peer reads waits while [`queued_bytes`](Self::queued_bytes) is large, for instance by
    /// [`psp_server::sleep`](crate::sleep).
    pub fn flush(&mut self) -> bool {
        let fails = self.failure.is_some() || self.is_too_large();
        let Target::Stream { output, socket, .. } = &mut self.target else {
            return true;
        };
        let flushed = &mut self.flushed;
        if fails || flushed.is_peer_gone {
            return !flushed.is_peer_gone;
        }
        flushed.is_committed |= self.written > 0;
        let before = output.len();
        let sent = socket.send(output, usize::MAX);
        flushed.is_peer_gone = sent.flush.is_err();
        let taken = before - output.len();
        let of_earlier = taken.min(flushed.ahead);
        flushed.ahead -= of_earlier;
        flushed.own += taken - of_earlier;
        flushed.sent += sent.bytes;
        !flushed.is_peer_gone
    }

    /// Bytes of the reply that wait to be sent.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.written - self.flushed.own
    }

    /// Bytes written so far, including bytes beyond the limit.
    #[must_use]
    pub fn len(&self) -> usize {
        self.written
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Most bytes of the reply that may wait, which is the length of the longest reply without
    /// [`flush`](Self::flush): over TCP the server's `reply_bytes_max`, and three quarters of its `buffered_bytes_max` if
    /// that is less, over UDP its `datagram_bytes_max` less the
    /// header, and on a polled port the room in one frame.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Whether the reply is longer than the limit, or the server has no memory left for it. What it had is discarded,
    /// and a handler may stop.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.overflow.is_some()
    }

    /// Counts `len` more bytes. Returns whether there is room for them.
    #[inline]
    fn grow(&mut self, len: usize) -> bool {
        self.written = self.written.saturating_add(len);
        self.queued_bytes() <= self.covered_bytes || self.cover()
    }

    /// Takes from the budget what the reply needs by now, and a quarter more. A reply for which there is no room is
    /// discarded, so that it holds no memory while its handler goes on.
    #[cold]
    fn cover(&mut self) -> bool {
        if self.overflow.is_some() {
            return false;
        }
        let queued = self.queued_bytes();
        let Target::Stream { output, budget, .. } = &mut self.target else {
            self.overflow = Some(Overflow::TooLarge);
            return false;
        };
        if queued <= self.limit_bytes {
            let wanted = queued.saturating_add(queued / 4).min(self.limit_bytes);
            if budget.take(wanted - self.reserved_bytes) {
                (self.reserved_bytes, self.covered_bytes) = (wanted, wanted);
                return true;
            }
            self.overflow = Some(Overflow::OutOfBuffers);
        } else {
            self.overflow = Some(Overflow::TooLarge);
        }
        if !self.flushed.is_committed {
            output.truncate(self.flushed.ahead);
            budget.give_back(std::mem::take(&mut self.reserved_bytes));
        }
        false
    }

    #[inline]
    pub(crate) fn into_outcome(self) -> ReplyOutcome {
        ReplyOutcome {
            written: self.written,
            overflow: self.overflow,
            reserved_bytes: self.reserved_bytes,
            close: self.close,
            failure: self.failure,
            reclassified: self.reclassified,
            flushed: self.flushed,
        }
    }
}

impl Sink for Reply<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let start = self.written;
        if !self.grow(bytes.len()) {
            return;
        }
        match &mut self.target {
            Target::Stream { output, .. } => output.put(bytes),
            Target::Datagram(free) => free[start..self.written].copy_from_slice(bytes),
        }
    }

    fn put_shared(&mut self, bytes: Bytes) {
        if matches!(self.target, Target::Datagram(_)) {
            return self.put(&bytes);
        }
        if !self.grow(bytes.len()) {
            return;
        }
        if let Target::Stream { output, .. } = &mut self.target {
            output.put_shared(bytes);
        }
    }
}

/// A text of up to [`FAILURE_BYTES_MAX`] bytes.
struct FailureText(String);

impl fmt::Write for FailureText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = FAILURE_BYTES_MAX - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=room).rev().find(|&end| text.is_char_boundary(end));
        self.0.push_str(&text[..end.unwrap_or(0)]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_failure_is_bounded_and_the_first_one_counts() {
        let mut room = [0; 16];
        let mut reply = Reply::to_datagram(&mut room);
        reply.put(b"half a reply");
        assert!(reply.flush(), "datagrams are sent whole");
        reply.fail(format_args!("a{}", "ä".repeat(1024)));
        reply.fail("later");
        let outcome = reply.into_outcome();
        let text = outcome.failure.unwrap();
        assert_eq!(text.len(), FAILURE_BYTES_MAX - 1, "no half of a letter");
        assert!(text.starts_with("aää"));
        assert!(!outcome.flushed.is_committed);
    }
}
