//! The reply that a handler writes.

use bytes::Bytes;
use psp_protocols::Sink;

use crate::transport::output::OutputQueue;

/// The reply to one request: a [`Sink`] with a limit.
///
/// Over TCP it appends to the connection's output queue; over UDP it fills the free part of the buffer that
/// holds the request. A reply longer than [`limit_bytes`](Self::limit_bytes) is not sent: the peer gets
/// [`Rejection::ReplyTooLarge`](psp_protocols::Rejection::ReplyTooLarge) instead.
pub struct Reply<'a> {
    target: Target<'a>,
    written: usize,
    limit_bytes: usize,
    close: bool,
}

enum Target<'a> {
    Stream(&'a mut OutputQueue),
    Datagram(&'a mut [u8]),
}

/// How writing a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyOutcome {
    pub(crate) written: usize,
    pub(crate) overflowed: bool,
    pub(crate) close: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn to_stream(output: &'a mut OutputQueue, limit_bytes: usize) -> Self {
        Self {
            target: Target::Stream(output),
            written: 0,
            limit_bytes,
            close: false,
        }
    }

    #[inline]
    pub(crate) fn to_datagram(free: &'a mut [u8]) -> Self {
        let limit_bytes = free.len();
        Self {
            target: Target::Datagram(free),
            written: 0,
            limit_bytes,
            close: false,
        }
    }

    /// Closes the connection once the reply is sent. Datagrams have nothing to close.
    pub fn close(&mut self) {
        self.close = true;
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

    /// Longest reply, in bytes: over TCP the server's `reply_bytes_max`, over UDP its
    /// `datagram_bytes_max` less the header, and on a polled port the room in one frame.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Whether the reply is longer than the limit.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.written > self.limit_bytes
    }

    #[inline]
    pub(crate) fn outcome(&self) -> ReplyOutcome {
        ReplyOutcome {
            written: self.written,
            overflowed: self.is_too_large(),
            close: self.close,
        }
    }
}

impl Sink for Reply<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let start = self.written;
        self.written = start.saturating_add(bytes.len());
        if self.written > self.limit_bytes {
            return;
        }
        match &mut self.target {
            Target::Stream(output) => output.put(bytes),
            Target::Datagram(free) => free[start..self.written].copy_from_slice(bytes),
        }
    }

    fn put_shared(&mut self, bytes: Bytes) {
        match &mut self.target {
            Target::Stream(output) => {
                self.written = self.written.saturating_add(bytes.len());
                if self.written <= self.limit_bytes {
                    output.put_shared(bytes);
                }
            }
            Target::Datagram(_) => self.put(&bytes),
        }
    }
}
