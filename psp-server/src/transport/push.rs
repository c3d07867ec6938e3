//! Messages to connections that did not ask for them.
//!
//! ```text
//!   any thread:   Push ── send ──► queue of the connection ── its index, bell ──► net thread ─► socket
//!                                             │
//!   a worker that has the connection: before ─┴─► each request ─► output
//! ```
//!
//! A queue belongs to its connection and dies with it. Whoever has the connection moves messages from the queue to the
//! output, between two replies. The net thread does so while nothing else waits to be sent, so what a peer does not
//! read stays in the queue, where the senders share its bytes and see how many there are.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use psp_protocols::Sink;

use super::budget::{Budget, EXEMPT_BYTES};
use super::output::OutputQueue;
use super::request_key::ConnectionIndex;
use crate::fiber::{Bell, no_preempt};
use crate::mailbox::Mailbox;
use crate::presence::{Presence, State};

/// What a message costs beside its bytes.
const MESSAGE_BYTES: usize = size_of::<Bytes>();
/// Messages of this length count by themselves: that takes an allocation.
const COUNTED_LEN_MIN: usize = 128;
/// Messages of this length are not copied into the output: a system call takes few of them, and yet many bytes.
const UNCOPIED_LEN_MIN: usize = 2 * 1024;
/// Longer messages that a batch knows to be counted. One message has a form for each version of a protocol, say.
const COUNTED_MAX: usize = 4;
/// A batch of this many connections wakes the net thread, so that the first messages leave before the last are queued.
const BATCH_LEN_MAX: usize = 256;
/// An empty queue keeps room for so many messages.
const IDLE_MESSAGES_MAX: usize = 4;

/// Sends messages to a connection at any time, from any thread: what [`Request::pusher`](crate::Request::pusher) made.
///
/// A message is sent whole, and never inside a reply. Messages keep the order in which one thread sends them. A request
/// of the connection that begins after a message was sent gets its reply after it.
///
/// A connection whose `Push` exists is not closed for being idle. A `Push` of a connection that is gone is an error,
/// and holds no messages.
///
/// # Bounds
///
/// What waits for a peer counts in the server's `buffered_bytes_max` when it is more than 64 KiB, and is three quarters
/// of it at most. A message of 128 bytes or more counts once for all connections to which one [`PushBatch`] sends it.
/// If there is no room for a message, the server closes the connections of the peers that have not read the most for
/// the longest time, and meanwhile takes an eighth more. A message that has no room even so is
/// [refused](PushError::NoRoom). `Push` does not wait for room, so that a peer who does not read holds no other peer
/// up: [`queued_bytes`](Self::queued_bytes) tells who that is, and [`close`](Self::close) ends it.
///
/// ```
/// # use std::sync::Mutex;
/// # use psp_server::protocols::Sink;
/// # use psp_server::{Push, Reply, Request};
/// static LISTENERS: Mutex<Vec<Push>> = Mutex::new(Vec::new());
///
/// fn handle(request: Request<'_, ()>, reply: &mut Reply<'_>) {
///     let mut listeners = LISTENERS.lock().unwrap();
///     if request.payload.starts_with(b"listen") {
///         listeners.extend(request.pusher());
///     } else {
///         let message = bytes::Bytes::copy_from_slice(request.payload);
///         listeners.retain(|listener| listener.send(message.clone()).is_ok());
///     }
///     reply.put(b"ok\n");
/// }
/// ```
#[derive(Clone)]
pub struct Push {
    queue: Arc<Queue>,
}

/// Closes a connection at any time, from any thread: what [`Request::closer`](crate::Request::closer) made.
///
/// It holds nothing but a name of the connection: unlike a [`Push`], it lets the connection be closed for being idle.
#[derive(Clone)]
pub struct Closer(Weak<Queue>);

impl Closer {
    /// Closes the connection at once, without what waits to be sent. Its requests that wait are not run. Nothing
    /// happens if it is gone.
    pub fn close(&self) {
        if let Some(queue) = self.0.upgrade() {
            queue.cut_off();
        }
    }

    /// Sends messages to the connection. `None` if it is gone.
    #[must_use]
    pub fn pusher(&self) -> Option<Push> {
        let queue = self.0.upgrade()?;
        Some(Push { queue })
    }
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closer").finish_non_exhaustive()
    }
}

/// Why a message was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The connection is gone, or about to be closed.
    #[error("the connection is gone")]
    Gone,
    /// The server has no memory left for messages to peers that read slowly.
    #[error("there is no room for the message")]
    NoRoom,
}

impl Push {
    /// Sends a message. To send the same message to many, use a [`PushBatch`].
    ///
    /// # Errors
    /// The message is not sent: see [`PushError`].
    pub fn send(&self, message: Bytes) -> Result<(), PushError> {
        PushBatch::default().send(self, message)
    }

    /// Bytes that wait because the peer has not read what is before them, with 32 for each message.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queue.held_bytes.load(Ordering::Relaxed)
    }

    /// Closes the connection at once, without what waits to be sent.
    pub fn close(&self) {
        self.queue.cut_off();
    }

    /// Whether the connection is gone, or about to be closed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.queue.is_over.load(Ordering::Relaxed)
    }

    /// What closes the connection, and does not keep it from being closed for being idle.
    #[must_use]
    pub fn closer(&self) -> Closer {
        Closer(Arc::downgrade(&self.queue))
    }
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("queued_bytes", &self.queued_bytes())
            .field("is_gone", &self.is_gone())
            .finish_non_exhaustive()
    }
}

/// Messages to several connections. The threads that send them are woken once, when the batch is dropped, and in
/// between when it is long.
#[derive(Default)]
pub struct PushBatch {
    /// Connections with new messages, by the threads that receive from them.
    told: Vec<(Arc<Announcements>, Vec<ConnectionIndex>)>,
    counted: VecDeque<Counted>,
}

/// A message that counts in the budget as long as anybody holds it.
struct Counted {
    /// As it came.
    message: Bytes,
    counting: Bytes,
    budget: Arc<Budget>,
}

/// Its owner.
struct Counting {
    message: Bytes,
    budget: Arc<Budget>,
}

impl AsRef<[u8]> for Counting {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.budget.give_back(self.message.len());
    }
}

/// Whether a message counts by itself, in place of once for each queue that has it.
fn counts_itself(message: &Bytes) -> bool {
    message.len() >= COUNTED_LEN_MIN
}

impl PushBatch {
    /// Adds a message to the batch.
    ///
    /// # Errors
    /// The message is not sent: see [`PushError`].
    pub fn send(&mut self, push: &Push, message: Bytes) -> Result<(), PushError> {
        let queue = &*push.queue;
        let is_news = no_preempt(|| match counts_itself(&message) {
            true => queue.put(self.count(queue, message)?),
            false => queue.put(message),
        })?;
        if is_news {
            self.tell(queue);
        }
        Ok(())
    }

    /// Counts a message, unless this batch has counted it before.
    fn count(&mut self, queue: &Queue, message: Bytes) -> Result<Bytes, PushError> {
        let budget = &queue.announcements.budget;
        let known = self.counted.iter().find(|known| {
            let (bytes, other) = (&known.message, &message);
            (bytes.as_ptr(), bytes.len()) == (other.as_ptr(), other.len()) && Arc::ptr_eq(&known.budget, budget)
        });
        if let Some(known) = known {
            return Ok(known.counting.clone());
        }
        queue.take_room(message.len())?;
        let budget = budget.clone();
        let counting = Bytes::from_owner(Counting { message: message.clone(), budget: budget.clone() });
        self.counted.truncate(COUNTED_MAX - 1);
        self.counted.push_front(Counted { message, counting: counting.clone(), budget });
        Ok(counting)
    }

    /// Wakes the threads that send what the batch has so far. To be called before a wait.
    pub fn flush(&mut self) {
        for (announcements, connections) in &mut self.told {
            if !connections.is_empty() {
                announcements.add(connections);
            }
        }
    }

    fn tell(&mut self, queue: &Queue) {
        let mut told = self.told.iter_mut();
        let known = told.find(|(known, _)| Arc::ptr_eq(known, &queue.announcements));
        let Some((announcements, connections)) = known else {
            let connections = vec![queue.connection];
            return self.told.push((queue.announcements.clone(), connections));
        };
        connections.push(queue.connection);
        if connections.len() >= BATCH_LEN_MAX {
            announcements.add(connections);
        }
    }
}

impl Drop for PushBatch {
    fn drop(&mut self) {
        self.flush();
    }
}

impl fmt::Debug for PushBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushBatch").finish_non_exhaustive()
    }
}

/// What a message in a queue counts in the budget.
fn counted_bytes(message: &Bytes) -> usize {
    match counts_itself(message) {
        true => MESSAGE_BYTES,
        false => message.len() + MESSAGE_BYTES,
    }
}

/// The messages to one connection that are not in its output yet.
struct Queue {
    connection: ConnectionIndex,
    presence: Presence,
    announcements: Arc<Announcements>,
    /// Changed under the lock alone.
    held_bytes: AtomicUsize,
    is_over: AtomicBool,
    messages: Mutex<Messages>,
}

#[derive(Default)]
struct Messages {
    waiting: VecDeque<Bytes>,
    /// What these count in the budget, beside those that count by themselves.
    counted_bytes: usize,
    /// Who has the connection knows that there are messages, and has not looked for them yet.
    is_announced: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Messages> {
        let lock = self.messages.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message. Returns whether the net thread has to be told.
    fn put(&self, message: Bytes) -> Result<bool, PushError> {
        let mut messages = self.lock();
        if self.is_over.load(Ordering::Relaxed) {
            return Err(PushError::Gone);
        }
        let held_bytes = self.held_bytes.load(Ordering::Relaxed) + message.len() + MESSAGE_BYTES;
        if held_bytes > self.announcements.budget.share_bytes() {
            return Err(PushError::NoRoom);
        }
        let counted_bytes = counted_bytes(&message);
        self.take_room(counted_bytes)?;
        messages.counted_bytes += counted_bytes;
        messages.waiting.push_back(message);
        // Who has the connection sees the message after this.
        self.held_bytes.store(held_bytes, Ordering::Release);
        Ok(!std::mem::replace(&mut messages.is_announced, true))
    }

    /// Counts `bytes` more. A queue that has little takes them in any case. If there is no room, the net thread makes
    /// some.
    fn take_room(&self, bytes: usize) -> Result<(), PushError> {
        let budget = &self.announcements.budget;
        if self.held_bytes.load(Ordering::Relaxed) + bytes <= EXEMPT_BYTES {
            budget.replace(0, bytes);
            return Ok(());
        }
        if budget.try_take(bytes) {
            return Ok(());
        }
        self.announcements.ask_for_room(bytes);
        match budget.try_take_beyond(bytes) {
            true => Ok(()),
            false => Err(PushError::NoRoom),
        }
    }

    /// Moves the first messages to `output`, `bytes_max` of them or one. Returns what they took from the budget.
    fn take(&self, output: &mut OutputQueue, bytes_max: usize) -> usize {
        let mut messages = self.lock();
        let (mut taken, mut counted) = (0, 0);
        while taken < bytes_max
            && let Some(message) = messages.waiting.pop_front()
        {
            taken += message.len() + MESSAGE_BYTES;
            counted += counted_bytes(&message);
            match message.len() >= UNCOPIED_LEN_MIN {
                true => output.put_counted(message),
                false => output.put(&message),
            }
        }
        messages.counted_bytes -= counted;
        if messages.waiting.is_empty() {
            messages.is_announced = false;
            if messages.waiting.capacity() > IDLE_MESSAGES_MAX {
                messages.waiting = VecDeque::new();
            }
        }
        self.held_bytes.fetch_sub(taken, Ordering::Relaxed);
        counted
    }

    /// Takes no more messages and forgets those that it has. Returns whether it was open.
    fn end(&self) -> bool {
        let waiting = {
            let mut messages = self.lock();
            if self.is_over.swap(true, Ordering::Relaxed) {
                return false;
            }
            self.held_bytes.store(0, Ordering::Relaxed);
            let counted_bytes = std::mem::take(&mut messages.counted_bytes);
            self.announcements.budget.give_back(counted_bytes);
            std::mem::take(&mut messages.waiting)
        };
        drop(waiting);
        true
    }

    fn cut_off(&self) {
        no_preempt(|| {
            if self.end() {
                // Requests of the connection that wait are for no client.
                self.presence.set(State::Gone);
                self.announcements.add(&mut vec![self.connection]);
            }
        });
    }
}

/// What is pushed to a connection, for whom the connection belongs to. Holds nothing before the first [`Push`].
#[derive(Default)]
pub(crate) struct Pushes(OnceLock<Arc<Queue>>);

impl Pushes {
    /// A handle for senders.
    pub(crate) fn pusher(
        &self,
        connection: ConnectionIndex,
        presence: &Presence,
        announcements: &Arc<Announcements>,
    ) -> Push {
        let queue = self.0.get_or_init(|| {
            Arc::new(Queue {
                connection,
                presence: presence.clone(),
                announcements: announcements.clone(),
                held_bytes: AtomicUsize::new(0),
                // A detached request may run on behind its connection.
                is_over: AtomicBool::new(presence.state() == State::Gone),
                messages: Mutex::default(),
            })
        });
        Push { queue: queue.clone() }
    }

    /// Takes no more messages and forgets those that it has.
    pub(crate) fn end(&self) {
        if let Some(queue) = self.0.get() {
            no_preempt(|| queue.end());
        }
    }

    /// Whether messages wait.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.held_bytes() > 0
    }

    /// Bytes that wait.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        let queue = self.0.get();
        queue.map_or(0, |queue| queue.held_bytes.load(Ordering::Acquire))
    }

    /// Whether a sender has closed the connection.
    #[inline]
    pub(crate) fn is_cut_off(&self) -> bool {
        let queue = self.0.get();
        queue.is_some_and(|queue| queue.is_over.load(Ordering::Relaxed))
    }

    /// Whether there may be more messages.
    pub(crate) fn has_senders(&self) -> bool {
        self.0.get().is_some_and(|queue| Arc::strong_count(queue) > 1)
    }

    /// Moves the first messages to `output`, `bytes_max` of them or one. Returns what they took from the budget.
    #[cold]
    pub(crate) fn take(&self, output: &mut OutputQueue, bytes_max: usize) -> usize {
        let queue = self.0.get();
        queue.map_or(0, |queue| no_preempt(|| queue.take(output, bytes_max)))
    }
}

impl Drop for Pushes {
    fn drop(&mut self) {
        self.end();
    }
}

/// Connections to which something was pushed, on their way to the thread that receives from them.
pub(crate) struct Announcements {
    budget: Arc<Budget>,
    /// Calls that thread, once the server runs.
    bell: OnceLock<Arc<dyn Bell>>,
    connections: Mailbox<ConnectionIndex>,
    /// Bytes for which messages found no room since that thread looked last.
    wanted_bytes: AtomicUsize,
}

impl Announcements {
    /// None yet. The bytes of messages count in `budget`.
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            bell: OnceLock::new(),
            connections: Mailbox::default(),
            wanted_bytes: AtomicUsize::new(0),
        }
    }

    /// From here on `bell` calls the thread.
    pub(crate) fn run(&self, bell: Arc<dyn Bell>) {
        let _ = self.bell.set(bell);
    }

    /// Says that messages wait for `connections`, or that these are to be closed.
    fn add(&self, connections: &mut Vec<ConnectionIndex>) {
        no_preempt(|| {
            self.connections.append(connections);
            if let Some(bell) = self.bell.get() {
                bell.ring();
            }
        });
    }

    /// Asks that thread to make room for messages, without waiting.
    #[cold]
    fn ask_for_room(&self, bytes: usize) {
        self.wanted_bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }

    /// How much room messages need.
    #[inline]
    pub(crate) fn take_wanted_bytes(&self) -> usize {
        match self.wanted_bytes.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.wanted_bytes.swap(0, Ordering::Relaxed),
        }
    }

    /// Whether there may be some.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.connections.has_some()
    }

    /// Adds the connections to `into`. Returns how many there are. Costs a load if there are none.
    #[inline]
    pub(crate) fn take(&self, into: &mut VecDeque<ConnectionIndex>) -> usize {
        self.connections.take(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(index: usize) -> ConnectionIndex {
        ConnectionIndex::new(index).unwrap()
    }

    fn announcements(bytes: usize) -> (Arc<Budget>, Arc<Announcements>) {
        let budget = Arc::new(Budget::new(bytes));
        (budget.clone(), Arc::new(Announcements::new(budget)))
    }

    fn announced(announcements: &Announcements) -> Vec<ConnectionIndex> {
        let mut all = VecDeque::new();
        announcements.take(&mut all);
        all.into()
    }

    fn text(mut output: OutputQueue) -> Vec<u8> {
        let mut text = Vec::new();
        output.write_to(&mut text, usize::MAX).unwrap();
        text
    }

    #[test]
    fn a_closer_closes_and_counts_as_no_sender() {
        let (_, announcements) = announcements(1 << 20);
        let pushes = Pushes::default();
        let closer = pushes.pusher(index(5), &Presence::default(), &announcements).closer();
        assert!(!pushes.has_senders() && !pushes.is_cut_off());
        closer.clone().close();
        assert!(pushes.is_cut_off());
        assert_eq!(announced(&announcements), [index(5)]);
        closer.close();
        assert!(announced(&announcements).is_empty());
        drop(pushes);
        closer.close();
        assert!(closer.pusher().is_none());
    }

    #[test]
    fn a_closer_knows_how_to_send() {
        let (_, announcements) = announcements(1 << 20);
        let pushes = Pushes::default();
        let closer = pushes.pusher(index(5), &Presence::default(), &announcements).closer();
        let push = closer.pusher().expect("the connection is there");
        assert!(pushes.has_senders());
        push.send("a".into()).unwrap();
        drop(push);
        assert!(pushes.has_any() && !pushes.has_senders());
    }

    #[test]
    fn messages_are_announced_once_and_taken_in_order() {
        let (budget, announcements) = announcements(1 << 20);
        let pushes = Pushes::default();
        let push = pushes.pusher(index(3), &Presence::default(), &announcements);
        assert!(pushes.has_senders() && !pushes.has_any());
        let clone = push.clone();
        for message in ["a", "bc"] {
            push.send(message.into()).unwrap();
        }
        clone.send("d".into()).unwrap();
        assert_eq!(announced(&announcements), [index(3)]);
        assert_eq!(push.queued_bytes(), 4 + 3 * MESSAGE_BYTES);
        assert_eq!(budget.held_bytes(), push.queued_bytes());
        let mut output = OutputQueue::default();
        let first = pushes.take(&mut output, 1);
        assert_eq!((output.len(), first), (1, 1 + MESSAGE_BYTES));
        clone.send("e".into()).unwrap();
        assert_eq!(announced(&announcements), [], "there are others");
        let taken = first + pushes.take(&mut output, usize::MAX);
        assert_eq!(text(output), b"abcde");
        assert_eq!((taken, pushes.has_any()), (budget.held_bytes(), false));
        push.send("f".into()).unwrap();
        assert_eq!(announced(&announcements), [index(3)]);
        drop((push, clone));
        assert!(!pushes.has_senders() && pushes.has_any());
    }

    #[test]
    fn a_connection_that_is_gone_takes_nothing_and_holds_nothing() {
        let (budget, announcements) = announcements(1 << 20);
        let pushes = Pushes::default();
        let push = pushes.pusher(index(3), &Presence::default(), &announcements);
        push.send("a".into()).unwrap();
        drop(pushes);
        assert!(push.is_gone());
        assert_eq!(push.send("b".into()), Err(PushError::Gone));
        assert_eq!((push.queued_bytes(), budget.held_bytes()), (0, 0));

        let (pushes, presence) = (Pushes::default(), Presence::default());
        let push = pushes.pusher(index(4), &presence, &announcements);
        announced(&announcements);
        push.close();
        push.close();
        assert!(pushes.is_cut_off());
        assert_eq!(presence.state(), State::Gone);
        assert_eq!(announced(&announcements), [index(4)]);
    }

    #[test]
    fn what_waits_is_bounded_and_a_little_has_always_room() {
        let (budget, announcements) = announcements(1 << 20);
        let pushes = Pushes::default();
        let push = pushes.pusher(index(3), &Presence::default(), &announcements);
        let message = Bytes::from(vec![7; 30_000]);
        let sent = std::iter::repeat_with(|| push.send(message.clone()));
        let sent = sent.take_while(|sent| *sent != Err(PushError::NoRoom));
        let count = sent.count();
        assert!(count * message.len() > budget.share_bytes() - 2 * message.len());
        assert!(push.queued_bytes() <= budget.share_bytes());
        assert!(budget.try_take((1 << 20) - budget.held_bytes()));
        let other = Pushes::default();
        let push = other.pusher(index(4), &Presence::default(), &announcements);
        assert_eq!(push.send(message.clone()), Ok(()));
        assert_eq!(push.send(message.clone()), Ok(()));
        assert_eq!(announcements.take_wanted_bytes(), 0);
        let sent = std::iter::repeat_with(|| push.send(message.clone()));
        let beyond = sent.take_while(|sent| *sent != Err(PushError::NoRoom));
        let most = budget.share_bytes() / 6;
        assert!((1..=most / message.len()).contains(&beyond.count()));
        assert!(announcements.take_wanted_bytes() > message.len() && !push.is_gone());
    }

    #[test]
    fn a_long_message_counts_once_for_all_who_have_it() {
        let (budget, announcements) = announcements(1 << 20);
        let all: Vec<_> = (0..100).map(|_| Pushes::default()).collect();
        let mut batch = PushBatch::default();
        let messages = [7, 8].map(|byte| Bytes::from(vec![byte; 100_000]));
        for (at, pushes) in all.iter().enumerate() {
            let push = pushes.pusher(index(at), &Presence::default(), &announcements);
            for message in &messages {
                batch.send(&push, message.clone()).unwrap();
            }
            assert_eq!(push.queued_bytes(), 2 * (100_000 + MESSAGE_BYTES));
        }
        drop(batch);
        assert_eq!(budget.held_bytes(), 200_000 + 200 * MESSAGE_BYTES);
        let mut output = OutputQueue::default();
        let taken = all[0].take(&mut output, usize::MAX);
        assert_eq!((taken, output.held_bytes()), (2 * MESSAGE_BYTES, 0));
        budget.give_back(taken);
        drop(all);
        assert_eq!(budget.held_bytes(), 200_000, "the output has them");
        drop(output);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn a_batch_tells_each_connection_once() {
        let (_, announcements) = announcements(1 << 20);
        let all: Vec<_> = (0..300).map(|_| Pushes::default()).collect();
        let mut batch = PushBatch::default();
        let mut first = VecDeque::new();
        for _ in 0..2 {
            for (at, pushes) in all.iter().enumerate() {
                let push = pushes.pusher(index(at), &Presence::default(), &announcements);
                batch.send(&push, "a".into()).unwrap();
            }
            announcements.take(&mut first);
            assert_eq!(first.len(), BATCH_LEN_MAX);
        }
        drop(batch);
        assert_eq!(announced(&announcements).len(), 300 - BATCH_LEN_MAX);
    }
}
