//! Replies that are written after their handlers returned.
//!
//! ```text
//!   worker:      handler ── Reply::defer ──► returns: Completed, the worker is free
//!                                 │             the connection, or the datagram, owes a reply
//!   any thread:  DeferredReply ◄──┘ put, put .. finish ── list, bell ──► net thread: the reply
//! ```
//!
//! The request holds no stack and no worker meanwhile. Its connection, or its datagram, stays with the net thread,
//! which knows the reply by its [`Ticket`]. A ticket is used once: a reply that comes when its connection is gone finds
//! no connection that knows it.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use psp_protocols::{Rejection, Sink};

use super::overflow::{Overflow, failure_text};
use crate::fiber::{Bell, no_preempt};
use crate::mailbox::Mailbox;
use crate::presence::{Presence, Required, State};
use crate::transport::budget::{Budget, EXEMPT_BYTES};
use crate::transport::output::OutputQueue;
use crate::transport::owed::Ticket;
use crate::transport::push::Announcements;
use crate::transport::request_key::RequestKey;

/// The reply to a request whose handler has returned: what [`Reply::defer`](crate::Reply::defer) made. Any thread may
/// write it and [`finish`](Self::finish) it.
///
/// A reply that is dropped is an error for its peer, [`Rejection::HandlerFailed`]. If the connection is gone by then,
/// nothing happens.
///
/// # Bounds
///
/// The limit of a reply holds, [`limit_bytes`](Self::limit_bytes). All its bytes count in the server's
/// `buffered_bytes_max` from the first one on. If that has no room, the net thread closes connections whose peers do
/// not read, and the thread that writes waits for this, up to a second; in the topology `distributed` the reply becomes
/// an error at once. Short replies need no room: those to datagrams, and up to 64 KiB for all deferred replies that a
/// connection may have.
#[must_use = "a reply that is dropped is an error for its peer"]
pub struct DeferredReply {
    /// `None` once it is complete.
    body: Option<Body>,
    deferrals: Arc<Deferrals>,
    /// Whether the peer is still there; `None` for a datagram.
    presence: Option<Presence>,
    /// The peer is required.
    required: Option<Required>,
}

/// What was written so far.
struct Body {
    /// For whom it is. `None`: for no client, as it could not be deferred.
    request: Option<(RequestKey, Ticket)>,
    output: OutputQueue,
    limit_bytes: usize,
    /// Bytes that it may have whatever others hold.
    exempt_bytes: usize,
    /// Bytes that it took from the budget.
    reserved_bytes: usize,
    overflow: Option<Overflow>,
    close: bool,
}

impl DeferredReply {
    /// Completes the reply: it is sent. Writing nothing sends nothing.
    pub fn finish(mut self) {
        self.complete(End::Written);
    }

    /// Completes the reply with an error: what was written is discarded, and the peer gets
    /// [`Rejection::Failed`] with up to 1024 bytes of this text, in its protocol's words.
    pub fn fail(mut self, text: impl Display) {
        let text = failure_text(text);
        self.complete(End::Failed(text));
    }

    /// Closes the connection once the reply is sent. Datagrams have nothing to close.
    pub fn close(&mut self) {
        self.body_mut().close = true;
    }

    /// Whether no client waits for the reply any more. Always `false` for datagrams.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        let presence = self.presence.as_ref();
        presence.is_some_and(|presence| presence.state() == State::Gone)
    }

    /// Whether the peer has ended its side. It is gone, unless it ended its requests right behind the last one and
    /// still reads replies: see [`Config::half_close_grace_ms`](crate::Config::half_close_grace_ms). Who would wait for
    /// long had better not wait for such a peer. Always `false` for datagrams.
    #[must_use]
    pub fn has_peer_ended(&self) -> bool {
        let presence = self.presence.as_ref();
        presence.is_some_and(|presence| presence.state() != State::Here)
    }

    /// From now on, and until the reply is complete, a peer that ends its side counts as one that is gone, whenever it
    /// does: its connection is closed at once. For replies that may take for ever. Call
    /// [`has_peer_ended`](Self::has_peer_ended) after this: a peer that had ended its side before stays. Does nothing
    /// for datagrams.
    pub fn require_peer(&mut self) {
        self.required = self.presence.as_ref().map(Presence::require);
    }

    /// Bytes written so far, unless the reply is [too large](Self::is_too_large).
    #[must_use]
    pub fn len(&self) -> usize {
        self.body.as_ref().map_or(0, |body| body.output.len())
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of the longest reply, as of [`Reply::limit_bytes`](crate::Reply::limit_bytes).
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.body.as_ref().map_or(0, |body| body.limit_bytes)
    }

    /// Whether the reply is longer than the limit, or the server has no memory left for it. What it had is discarded.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        let body = self.body.as_ref();
        body.is_some_and(|body| body.overflow.is_some())
    }

    fn body_mut(&mut self) -> &mut Body {
        self.body.as_mut().expect("only completion takes the body")
    }

    /// Counts `len` more bytes. Returns whether there is room for them.
    fn grow(&mut self, len: usize) -> bool {
        let body = self.body.as_mut().expect("only completion takes the body");
        if body.overflow.is_some() {
            return false;
        }
        let length = body.output.len().saturating_add(len);
        if length <= body.reserved_bytes {
            return true;
        }
        if length <= body.limit_bytes {
            let wanted = length.saturating_add(length / 4).min(body.limit_bytes);
            let budget = &self.deferrals.budget;
            let is_exempt = length <= body.exempt_bytes;
            if is_exempt {
                budget.replace(body.reserved_bytes, wanted);
            }
            if is_exempt || budget.take(wanted - body.reserved_bytes) {
                body.reserved_bytes = wanted;
                return true;
            }
            body.overflow = Some(Overflow::OutOfBuffers);
        } else {
            body.overflow = Some(Overflow::TooLarge);
        }
        body.output = OutputQueue::default();
        let reserved_bytes = std::mem::take(&mut body.reserved_bytes);
        self.deferrals.budget.give_back(reserved_bytes);
        false
    }

    fn complete(&mut self, end: End) {
        let Some(body) = self.body.take() else {
            return;
        };
        self.required = None;
        let Some((request, ticket)) = body.request else {
            return self.deferrals.budget.give_back(body.reserved_bytes);
        };
        let end = match (end, body.overflow) {
            (End::Written, Some(Overflow::TooLarge)) => End::TooLarge { limit_bytes: body.limit_bytes },
            (End::Written, Some(Overflow::OutOfBuffers)) => End::OutOfBuffers,
            (end, _) => end,
        };
        self.deferrals.complete(Completed {
            request,
            ticket,
            output: body.output,
            reserved_bytes: body.reserved_bytes,
            close: body.close,
            end,
        });
    }
}

impl Sink for DeferredReply {
    fn put(&mut self, bytes: &[u8]) {
        if self.grow(bytes.len()) {
            self.body_mut().output.put(bytes);
        }
    }

    fn put_shared(&mut self, bytes: Bytes) {
        if self.grow(bytes.len()) {
            self.body_mut().output.put_shared(bytes);
        }
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        self.grow(bytes)
    }
}

impl Drop for DeferredReply {
    fn drop(&mut self) {
        self.complete(End::Dropped);
    }
}

impl fmt::Debug for DeferredReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredReply").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// How a deferred reply ended.
#[derive(Debug)]
enum End {
    Written,
    Failed(String),
    Dropped,
    TooLarge { limit_bytes: usize },
    OutOfBuffers,
}

/// A deferred reply on its way to the net thread.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) request: RequestKey,
    pub(crate) ticket: Ticket,
    pub(crate) output: OutputQueue,
    /// What it took from the budget.
    pub(crate) reserved_bytes: usize,
    pub(crate) close: bool,
    end: End,
}

impl Completed {
    /// What the peer gets in place of the reply, if anything.
    pub(crate) fn refusal(&self) -> Option<Rejection<'_>> {
        match &self.end {
            End::Written => None,
            End::Failed(text) => Some(Rejection::Failed(text)),
            End::Dropped => Some(Rejection::HandlerFailed),
            &End::TooLarge { limit_bytes } => Some(Rejection::ReplyTooLarge { limit_bytes }),
            End::OutOfBuffers => Some(Rejection::OutOfBuffers),
        }
    }
}

/// What other threads have for the peers of a thread that receives requests: deferred replies, and where messages wait.
pub(crate) struct Deferrals {
    budget: Arc<Budget>,
    /// Bytes that the reply to a connection's request may have whatever others hold.
    exempt_bytes: usize,
    running: OnceLock<Running>,
    /// The ticket that was given last.
    last: AtomicU64,
    /// Replies that are not complete.
    open: AtomicUsize,
    /// Those of datagrams.
    open_datagrams: AtomicUsize,
    completed: Mailbox<Completed>,
    announcements: Arc<Announcements>,
}

/// What is known once the server runs.
struct Running {
    bell: Arc<dyn Bell>,
    /// Datagrams that may wait for deferred replies: others have to find a buffer.
    datagrams_max: usize,
}

impl Deferrals {
    /// No replies. Their bytes count in `budget`. A connection may owe `owed_max` of them.
    pub(crate) fn new(budget: Arc<Budget>, owed_max: usize) -> Self {
        Self {
            announcements: Arc::new(Announcements::new(budget.clone())),
            budget,
            exempt_bytes: EXEMPT_BYTES / owed_max,
            running: OnceLock::new(),
            last: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            open_datagrams: AtomicUsize::new(0),
            completed: Mailbox::default(),
        }
    }

    /// From here on `bell` calls the net thread. At most half of `datagrams` may wait for deferred replies.
    pub(crate) fn run(&self, bell: Arc<dyn Bell>, datagrams: usize) {
        let datagrams_max = datagrams.div_ceil(2);
        self.announcements.run(bell.clone());
        let _ = self.running.set(Running { bell, datagrams_max });
    }

    /// How many replies are deferred and not complete.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Defers the reply to a request. `None` instead of a ticket if too many datagrams wait already.
    pub(super) fn defer(
        self: &Arc<Self>,
        request: RequestKey,
        presence: Option<Presence>,
        limit_bytes: usize,
    ) -> (Option<Ticket>, DeferredReply) {
        let ticket = self.admit(request).then(|| {
            self.open.fetch_add(1, Ordering::Relaxed);
            Ticket(self.last.fetch_add(1, Ordering::Relaxed) + 1)
        });
        let exempt_bytes = match request {
            RequestKey::Connection(_) => self.exempt_bytes,
            RequestKey::Datagram(_) => limit_bytes,
        };
        let reply = DeferredReply {
            body: Some(Body {
                request: ticket.map(|ticket| (request, ticket)),
                output: OutputQueue::default(),
                limit_bytes,
                exempt_bytes,
                reserved_bytes: 0,
                overflow: None,
                close: false,
            }),
            deferrals: self.clone(),
            presence,
            required: None,
        };
        (ticket, reply)
    }

    /// Counts a datagram, if one more may wait.
    fn admit(&self, request: RequestKey) -> bool {
        let RequestKey::Datagram(_) = request else {
            return true;
        };
        let max = self.running.get().map_or(0, |it| it.datagrams_max);
        let is_admitted = self.open_datagrams.fetch_add(1, Ordering::Relaxed) < max;
        if !is_admitted {
            self.open_datagrams.fetch_sub(1, Ordering::Relaxed);
        }
        is_admitted
    }

    fn complete(&self, completed: Completed) {
        // A thread that is preempted while it has the lock would hold up the net thread.
        no_preempt(|| {
            self.open.fetch_sub(1, Ordering::Relaxed);
            if let RequestKey::Datagram(_) = completed.request {
                self.open_datagrams.fetch_sub(1, Ordering::Relaxed);
            }
            self.completed.put(completed);
            if let Some(running) = self.running.get() {
                running.bell.ring();
            }
        });
    }

    /// Connections for which messages wait.
    #[inline]
    pub(crate) fn announcements(&self) -> &Arc<Announcements> {
        &self.announcements
    }

    /// Whether the net thread has something to send: completed replies, or messages.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.completed.has_some() || self.announcements.has_some()
    }

    /// Moves the completed replies into `into`, in the order of their completion. Costs a load if there is none.
    #[inline]
    pub(crate) fn take(&self, into: &mut Vec<Completed>) {
        self.completed.take(into);
    }

    /// The reply is for no client.
    pub(crate) fn forget(&self, completed: &Completed) {
        self.budget.give_back(completed.reserved_bytes);
    }
}

impl fmt::Debug for Deferrals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferrals").field("open", &self.open()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::OWED_MAX;
    use crate::transport::request_key::{ConnectionIndex, DatagramIndex};

    fn connection() -> RequestKey {
        RequestKey::Connection(ConnectionIndex::new(3).unwrap())
    }

    fn taken(deferrals: &Deferrals) -> Vec<Completed> {
        let mut taken = Vec::new();
        deferrals.take(&mut taken);
        taken
    }

    #[test]
    fn each_ends_once_in_one_way_and_its_bytes_are_counted() {
        let budget = Arc::new(Budget::new(10_000));
        let deferrals = Arc::new(Deferrals::new(budget.clone(), OWED_MAX));
        let defer = || {
            let (ticket, reply) = deferrals.defer(connection(), None, 4000);
            (ticket.unwrap(), reply)
        };
        let [(first, mut written), (_, mut failed), (_, dropped), (_, mut long), (_, mut full)] =
            std::array::from_fn(|_| defer());
        written.put(b"whole");
        failed.put(b"half");
        long.put(&[0; 4001]);
        assert!(long.is_too_large() && long.is_empty());
        let before = budget.held_bytes();
        assert!(before >= 9 && budget.try_take(10_000 - before));
        let short = [0; EXEMPT_BYTES / OWED_MAX];
        full.put(&short);
        assert!(!full.is_too_large() && !budget.is_kept(), "short ones need no room");
        full.put(&short);
        assert!(full.is_too_large());
        assert_eq!(deferrals.open(), 5);
        written.finish();
        failed.fail("no");
        drop(dropped);
        long.finish();
        full.finish();
        assert_eq!(deferrals.open(), 0);
        let completed = taken(&deferrals);
        let refusals: Vec<_> = completed.iter().map(Completed::refusal).collect();
        assert_eq!(
            refusals,
            [
                None,
                Some(Rejection::Failed("no")),
                Some(Rejection::HandlerFailed),
                Some(Rejection::ReplyTooLarge { limit_bytes: 4000 }),
                Some(Rejection::OutOfBuffers),
            ]
        );
        assert_eq!(completed[0].ticket, first);
        assert_eq!(completed[0].output.len(), 5);
        completed.iter().for_each(|it| deferrals.forget(it));
        assert_eq!(budget.held_bytes(), 10_000 - before);
        assert!(taken(&deferrals).is_empty());
    }

    #[test]
    fn half_of_the_datagrams_may_wait_and_a_reply_beyond_is_for_nobody() {
        struct Silent;
        impl Bell for Silent {
            fn ring(&self) {}
        }
        let deferrals = Arc::new(Deferrals::new(Arc::new(Budget::new(1000)), OWED_MAX));
        deferrals.run(Arc::new(Silent), 3);
        let datagram = RequestKey::Datagram(DatagramIndex::new(0).unwrap());
        let defer = || deferrals.defer(datagram, None, 100);
        let [first, second, third] = [defer(), defer(), defer()];
        assert!(first.0.is_some() && second.0.is_some() && third.0.is_none());
        let (_, mut reply) = third;
        reply.put(b"for no client");
        reply.finish();
        assert_eq!((taken(&deferrals).len(), deferrals.open()), (0, 2));
        first.1.finish();
        assert!(defer().0.is_some());
        assert!(deferrals.defer(connection(), None, 100).0.is_some());
    }
}
