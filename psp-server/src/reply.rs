//! The reply that a handler writes.
//!
//! | file | job |
//! | --- | --- |
//! | `deferred.rs` | replies that are written after their handlers returned |
//! | `overflow.rs` | why a reply is not sent |

mod deferred;
mod overflow;

use std::fmt::{self, Display};
use std::sync::Arc;

use bytes::Bytes;
use psp_policy::RequestType;
use psp_protocols::{Framing, Rejection, Sink};

use self::overflow::failure_text;
use crate::guarded_framing::GuardedFraming;
use crate::presence::Presence;
use crate::transport::budget::{Budget, EXEMPT_BYTES};
use crate::transport::output::OutputQueue;
use crate::transport::owed::Ticket;
use crate::transport::push::Pushes;
use crate::transport::request_key::{ConnectionIndex, RequestKey};
use crate::transport::wire::Wire;

pub use self::deferred::DeferredReply;
pub(crate) use self::deferred::{Completed, Deferrals};
pub(crate) use self::overflow::Overflow;
pub use crate::transport::push::{Closer, Push, PushBatch, PushError};

/// The reply to one request: a [`Sink`] with a limit.
///
/// Over TCP it appends to the connection's output queue; over UDP it fills the free part of the buffer that
/// holds the request. A reply longer than [`limit_bytes`](Self::limit_bytes) is not sent: the peer gets
/// [`Rejection::ReplyTooLarge`] instead.
///
/// # Replies in pieces
///
/// Over TCP [`flush`](Self::flush) sends what the reply has so far. What was sent cannot be taken back: if the request
/// then fails, by [`fail`](Self::fail), a panic or the limit, the peer gets the pieces and the connection closes.
/// The limit is for the bytes that wait, [`queued_bytes`](Self::queued_bytes), so a reply in pieces may be longer in
/// total.
///
/// # Later
///
/// [`defer`](Self::defer) lets the handler return without a reply, which any thread writes later.
pub struct Reply<'a> {
    target: Target<'a>,
    /// `None` for replies that no handler writes.
    origin: Option<Origin<'a>>,
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
    deferred: Option<Ticket>,
    flushed: Flushed,
}

/// The request that a reply is for.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) request: RequestKey,
    /// The connection with the socket; `None` for a datagram.
    pub(crate) home: Option<ConnectionIndex>,
    /// `None` for a datagram.
    pub(crate) presence: Option<&'a Presence>,
    pub(crate) deferrals: &'a Arc<Deferrals>,
    /// `None` for a datagram.
    pub(crate) pushes: Option<&'a Pushes>,
}

impl Origin<'_> {
    pub(crate) fn pusher(&self) -> Option<Push> {
        let (pushes, presence) = (self.pushes?, self.presence?);
        Some(pushes.pusher(self.home?, presence, self.deferrals.announcements()))
    }
}

impl fmt::Debug for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("request", &self.request).finish_non_exhaustive()
    }
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
    /// What messages in front of it took from the budget.
    pub(crate) pushed_bytes: usize,
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
    /// The reply is written later.
    pub(crate) deferred: Option<Ticket>,
    pub(crate) flushed: Flushed,
}

impl<'a> Reply<'a> {
    pub(crate) fn to_stream(
        output: &'a mut OutputQueue,
        socket: &'a mut Wire,
        limit_bytes: usize,
        budget: &'a Budget,
        origin: Origin<'a>,
    ) -> Self {
        let ahead = output.len();
        let target = Target::Stream { output, socket, budget };
        let mut reply = Self::new(target, limit_bytes, Some(origin));
        reply.covered_bytes = limit_bytes.min(EXEMPT_BYTES);
        reply.flushed.ahead = ahead;
        reply
    }

    #[inline]
    pub(crate) fn to_datagram(free: &'a mut [u8], origin: Option<Origin<'a>>) -> Self {
        let limit_bytes = free.len();
        Self::new(Target::Datagram(free), limit_bytes, origin)
    }

    #[inline]
    fn new(target: Target<'a>, limit_bytes: usize, origin: Option<Origin<'a>>) -> Self {
        Self {
            target,
            origin,
            written: 0,
            limit_bytes,
            covered_bytes: limit_bytes,
            reserved_bytes: 0,
            overflow: None,
            close: false,
            failure: None,
            reclassified: None,
            deferred: None,
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
        let is_possible = matches!(self.target, Target::Stream { .. }) && !self.flushed.is_committed;
        if is_possible {
            self.reclassified = Some(request_type);
        }
        is_possible
    }

    /// Fails the request: what the reply has is discarded, and the peer gets
    /// [`Rejection::Failed`] with up to 1024 bytes of this text, in its protocol's
    /// words. A handler that is a closure returns an error instead. Of several calls the first counts.
    pub fn fail(&mut self, text: impl Display) {
        if self.failure.is_none() {
            self.failure = Some(failure_text(text));
        }
    }

    /// Lets the handler return without a reply. Any thread completes the [`DeferredReply`] later: when another thread
    /// has the result, say. A request whose reply is deferred holds neither a worker nor a stack, where one that
    /// [waits](crate::wait()) holds a stack.
    ///
    /// What the reply has so far is discarded, unless [`flush`](Self::flush) has sent it, and so is what is written to
    /// this reply afterwards. If the handler then fails, by [`fail`](Self::fail) or a panic, the request fails at once,
    /// and the deferred reply is for no client.
    ///
    /// For the policy, the counters and the profile, the request ends when the handler returns: its service time is the
    /// time for which it had the worker. A stopping server waits for deferred replies until `drain-timeout-ms`.
    ///
    /// ```
    /// # use psp_server::protocols::Sink;
    /// # use psp_server::{Reply, Request};
    /// fn handle(request: Request<'_, ()>, reply: &mut Reply<'_>) {
    ///     let (key, mut later) = (request.payload.to_vec(), reply.defer());
    ///     std::thread::spawn(move || {
    ///         later.put(&key);
    ///         later.finish();
    ///     });
    /// }
    /// ```
    ///
    /// # Order and bounds
    ///
    /// Replies keep the order of a connection's requests: its next request begins when the deferred reply is complete.
    /// A framing whose replies [name their requests](psp_protocols::Framing::replies_in_order) has up to 64 deferred
    /// replies a connection, and these overtake each other, as those of datagrams do. Half of the server's datagrams
    /// may wait for deferred replies; one beyond fails, and its deferred reply is for no client. So does a second call
    /// for one request.
    pub fn defer(&mut self) -> DeferredReply {
        let Origin { request, presence, deferrals, .. } = self.origin.expect("handlers get replies with an origin");
        if self.deferred.is_some() {
            self.fail("a reply was deferred twice");
        }
        let (ticket, reply) = deferrals.defer(request, presence.cloned(), self.limit_bytes);
        if ticket.is_none() {
            self.fail("too many replies are deferred");
        }
        self.deferred = ticket;
        reply
    }

    /// Sends what the reply has so far, without waiting: bytes that the peer does not take stay queued. Returns
    /// whether the peer is still there; a handler may stop when it is not. After a failure, on datagrams, which are
    /// sent whole, and where requests of a connection [run at once](crate::Config::requests_per_connection_max),
    /// `flush` may do nothing. Replies that are longer than the limit in total need 1 there.
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
        if fails || flushed.is_peer_gone || socket.is_detached() {
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

    /// Puts the messages that were [pushed](crate::Push) to the connection so far in front of the reply. Others come
    /// after it. Does nothing on datagrams, and once the reply has something.
    pub fn put_pushed(&mut self) {
        let pushes = self.origin.and_then(|origin| origin.pushes);
        let has_any = pushes.is_some_and(Pushes::has_any);
        if let (Some(pushes), Target::Stream { output, socket, .. }) = (pushes, &mut self.target)
            && has_any
            && !socket.is_detached()
            && self.written == 0
        {
            let before = output.len();
            self.flushed.pushed_bytes += pushes.take(output, usize::MAX);
            self.flushed.ahead += output.len() - before;
        }
    }

    /// Bytes of the reply that [`flush`](Self::flush) may send. Where it sends nothing, there is nothing to wait
    /// for: 0.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        match &self.target {
            Target::Stream { socket, .. } if !socket.is_detached() => self.waiting_bytes(),
            _ => 0,
        }
    }

    /// Bytes of the reply that were not sent.
    fn waiting_bytes(&self) -> usize {
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
    /// [`flush`](Self::flush): over TCP the server's `reply_bytes_max`, and three quarters of its `buffered_bytes_max`
    /// if that is less, over UDP its `datagram_bytes_max` less the header, and on a polled port the room in one frame.
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
        self.waiting_bytes() <= self.covered_bytes || self.cover(self.waiting_bytes())
    }

    /// Takes from the budget what a reply of which `queued` bytes wait needs, and a quarter more. A reply for which
    /// there is no room is discarded, so that it holds no memory while its handler goes on.
    #[cold]
    fn cover(&mut self, queued: usize) -> bool {
        if self.overflow.is_some() {
            return false;
        }
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
        self.covered_bytes = 0;
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
            deferred: self.deferred,
            flushed: self.flushed,
        }
    }
}

/// Writes what the peer of a datagram gets in place of a reply. Returns its length: 0 if it does not fit.
pub(crate) fn refuse<F: Framing>(
    framing: &GuardedFraming<F>,
    rejection: &Rejection<'_>,
    request: &[u8],
    room: &mut [u8],
) -> usize {
    let mut reply = Reply::to_datagram(room, None);
    framing.encode_rejection(rejection, request, &mut reply);
    match reply.overflow {
        Some(_) => 0,
        None => reply.written,
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

    fn put_pieces(&mut self, pieces: [&[u8]; 3]) {
        let mut start = self.written;
        if !self.grow(pieces.iter().map(|piece| piece.len()).sum()) {
            return;
        }
        match &mut self.target {
            Target::Stream { output, .. } => output.put_pieces(pieces),
            Target::Datagram(free) => {
                for piece in pieces {
                    free[start..start + piece.len()].copy_from_slice(piece);
                    start += piece.len();
                }
            }
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

    fn reserve(&mut self, bytes: usize) -> bool {
        let queued = self.waiting_bytes().saturating_add(bytes);
        !self.is_too_large() && (queued <= self.covered_bytes || self.cover(queued))
    }
}

#[cfg(test)]
mod tests {
    use super::overflow::FAILURE_BYTES_MAX;
    use super::*;

    #[test]
    fn the_text_of_a_failure_is_bounded_and_the_first_one_counts() {
        let mut room = [0; 16];
        let mut reply = Reply::to_datagram(&mut room, None);
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

    #[test]
    fn a_reply_overflows_when_there_is_no_room_for_what_it_reserves() {
        let mut room = [0; 16];
        let mut reply = Reply::to_datagram(&mut room, None);
        reply.put(b"begin");
        assert!(reply.reserve(11) && !reply.is_too_large());
        assert!(!reply.reserve(12) && reply.is_too_large());
        assert!(!reply.reserve(0));
    }
}
