//! Pub/sub: channels, patterns and shard channels, and how messages reach their subscribers.
//!
//! ```text
//!   SUBSCRIBE c ─► Topics: c ─► { client } ◄── snapshot ── PUBLISH c m ─► each subscriber, under its own lock:
//!                                                                            still subscribed? Push ─► net thread
//! ```
//!
//! PUBLISH walks a snapshot, so no lock is held for long, and a subscriber's lock is held for one message. UNSUBSCRIBE
//! takes that lock, too: no message of the channel is pushed after it.
//!
//! | file | job |
//! | --- | --- |
//! | `topics.rs` | who is subscribed to what |
//! | `subscriber.rs` | the subscriptions of one client, and how a message is sent to it |
//! | `message.rs` | a message in both versions of the protocol |
//! | `output_limit.rs` | how much may wait for a client that reads slowly |
//! | `outbox.rs` | messages of transactions and scripts, until these are carried out |

mod message;
mod outbox;
mod output_limit;
mod subscriber;
mod topics;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parking_lot::RwLock;
use psp_server::{PushBatch, checkpoint};

use self::message::Message;
use self::topics::{Members, Topics};
use crate::client::ClientInfo;
use crate::glob::{Pattern, Steps};
use crate::parse::Result;

pub use outbox::Outbox;
pub use output_limit::OutputLimit;
pub use subscriber::{Outlet, Sent, Subscriber};

/// Subscribers that get a message before the server may run another request.
const SUBSCRIBERS_PER_TURN: usize = 64;

/// A net thread ends so many subscriptions of a connection that it closes.
const SUBSCRIPTIONS_AT_ONCE: usize = 64;

/// What a client subscribes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicKind {
    /// Channels, by SUBSCRIBE.
    Channel,
    /// Patterns of channels, by PSUBSCRIBE.
    Pattern,
    /// Shard channels, by SSUBSCRIBE. There is one shard.
    Shard,
}

impl TopicKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    /// The word that precedes `message`, `subscribe` and `unsubscribe`.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Channel => "",
            Self::Pattern => "p",
            Self::Shard => "s",
        }
    }
}

/// All subscriptions.
#[derive(Debug)]
pub struct PubSub {
    topics: [Topics; TopicKind::ALL.len()],
    limit: RwLock<OutputLimit>,
    closed: AtomicU64,
}

impl PubSub {
    /// No subscriptions.
    #[must_use]
    pub fn new(limit: OutputLimit) -> Self {
        Self {
            topics: Default::default(),
            limit: RwLock::new(limit),
            closed: AtomicU64::new(0),
        }
    }

    /// How much may wait for each client.
    #[must_use]
    pub fn limit(&self) -> OutputLimit {
        *self.limit.read()
    }

    /// Changes how much may wait for each client.
    pub fn set_limit(&self, limit: OutputLimit) {
        *self.limit.write() = limit;
    }

    /// Clients that were closed because too much waited for them.
    #[must_use]
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Counts clients that were closed because too much waited for them.
    pub(crate) fn count_closed(&self, clients: u64) {
        self.closed.fetch_add(clients, Ordering::Relaxed);
    }

    const fn topics(&self, kind: TopicKind) -> &Topics {
        &self.topics[kind as usize]
    }

    /// Number of channels or patterns with subscribers.
    #[must_use]
    pub fn len(&self, kind: TopicKind) -> usize {
        self.topics(kind).len()
    }

    /// Number of subscribers of a channel, or of a pattern itself.
    #[must_use]
    pub fn subscribers(&self, kind: TopicKind, name: &[u8]) -> usize {
        self.topics(kind).members(name).len()
    }

    /// Subscriptions to patterns.
    #[must_use]
    pub fn pattern_subscriptions(&self) -> usize {
        self.topics(TopicKind::Pattern).subscriptions()
    }

    /// Length of the longest pattern that is or was subscribed to.
    #[must_use]
    pub fn pattern_len_max(&self) -> usize {
        self.topics(TopicKind::Pattern).name_len_max()
    }

    /// The names that match `pattern`, in their order.
    #[must_use]
    pub fn names(&self, kind: TopicKind, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let steps = Steps::new();
        let snapshot = self.topics(kind).snapshot();
        let pattern = pattern.map(Pattern::new);
        let wanted = |name: &&Arc<[u8]>| {
            let pattern = pattern.as_ref();
            pattern.is_none_or(|pattern| pattern.matches(name, &steps))
        };
        snapshot.keys().filter(wanted).cloned().collect()
    }

    /// Subscribes a client. Returns what it is subscribed to then, as [`Subscriber::announced`] counts.
    ///
    /// # Errors
    /// The client has too many subscriptions.
    pub fn subscribe(&self, client: &Arc<ClientInfo>, kind: TopicKind, name: &[u8]) -> Result<usize> {
        let subscriber = &client.subscriber;
        let name: Arc<[u8]> = name.into();
        if let Some(is_over) = subscriber.add(kind, &name)? {
            let is_pattern = kind == TopicKind::Pattern;
            let pattern = is_pattern.then(|| Pattern::new(&name).into_owned());
            self.topics(kind).add(name, pattern, client, is_over);
        }
        Ok(subscriber.announced(kind))
    }

    /// Ends a subscription. Returns what the client is subscribed to then, as [`Subscriber::announced`] counts.
    pub fn unsubscribe(&self, client: &ClientInfo, kind: TopicKind, name: &[u8]) -> usize {
        if client.subscriber.remove(kind, name) {
            self.topics(kind).remove(name, client.id);
        }
        client.subscriber.announced(kind)
    }

    /// Ends all subscriptions of a client whose connection is gone. The caller shall not be held up by many.
    pub(crate) fn forget_gone(self: &Arc<Self>, client: &Arc<ClientInfo>) {
        if client.subscriber.total() > SUBSCRIPTIONS_AT_ONCE {
            let (pubsub, gone) = (Arc::clone(self), Arc::clone(client));
            let thread = thread::Builder::new().name("psp-unsubscribe".to_owned());
            if thread.spawn(move || pubsub.forget(&gone)).is_ok() {
                return;
            }
        }
        self.forget(client);
    }

    /// Ends all subscriptions of a client.
    pub fn forget(&self, client: &ClientInfo) {
        for kind in TopicKind::ALL {
            for name in client.subscriber.names(kind) {
                self.unsubscribe(client, kind, &name);
            }
        }
    }

    /// Sends a message to the subscribers of a channel, and of patterns unless the channel is a shard channel. Returns
    /// how many there are. Yields to other requests meanwhile, so the caller must hold no lock.
    pub fn publish(&self, kind: TopicKind, channel: &[u8], text: &[u8]) -> usize {
        let mut delivery = Delivery { limit: self.limit(), ..Delivery::default() };
        let members = self.topics(kind).members(channel);
        delivery.send(&members, &mut Message::new(kind, None, channel, text));
        self.visit_matching(kind, channel, |pattern, members| {
            let message = &mut Message::new(TopicKind::Pattern, Some(pattern), channel, text);
            delivery.send(members, message);
        });
        self.closed.fetch_add(delivery.closed, Ordering::Relaxed);
        delivery.receivers
    }

    /// How many subscribers a message would reach.
    #[must_use]
    pub fn receivers(&self, kind: TopicKind, channel: &[u8]) -> usize {
        let mut receivers = self.subscribers(kind, channel);
        self.visit_matching(kind, channel, |_, members| receivers += members.len());
        receivers
    }

    fn visit_matching(&self, kind: TopicKind, channel: &[u8], mut visit: impl FnMut(&[u8], &Members)) {
        let patterns = self.topics(TopicKind::Pattern);
        if kind != TopicKind::Channel || patterns.len() == 0 {
            return;
        }
        for (name, topic) in &patterns.snapshot() {
            // Messages of clients that have left reach all subscribers, too.
            let steps = Steps::new();
            let pattern = topic.pattern.as_ref();
            if pattern.is_some_and(|pattern| pattern.matches(channel, &steps)) {
                visit(name, &topic.members);
            }
        }
    }
}

/// One message on its way to many.
#[derive(Default)]
struct Delivery {
    limit: OutputLimit,
    batch: PushBatch,
    receivers: usize,
    closed: u64,
}

impl Delivery {
    fn send(&mut self, members: &Members, message: &mut Message<'_>) {
        for member in members.values() {
            let sent = member.send(message, &mut self.batch, &self.limit);
            self.receivers += usize::from(sent.is_there);
            self.closed += u64::from(sent.is_closed);
            if sent.is_there && self.receivers.is_multiple_of(SUBSCRIBERS_PER_TURN) {
                self.batch.flush();
                checkpoint();
            }
        }
    }
}
