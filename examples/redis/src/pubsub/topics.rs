//! Who is subscribed to what.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use imbl::OrdMap;
use parking_lot::Mutex;
use psp_server::{PushBatch, no_preempt};

use super::message::Message;
use super::output_limit::OutputLimit;
use super::subscriber::Sent;
use crate::client::ClientInfo;
use crate::glob::Pattern;

/// The subscribers of one channel or pattern, by the clients' ids. A copy is O(1).
pub(super) type Members = OrdMap<u64, Member>;

/// A subscriber.
#[derive(Debug, Clone)]
pub(super) struct Member {
    client: Arc<ClientInfo>,
    /// It has unsubscribed. Changed under the subscriber's lock.
    is_over: Arc<AtomicBool>,
}

impl Member {
    /// Sends a message, unless the subscription is over.
    pub(super) fn send(&self, message: &mut Message<'_>, batch: &mut PushBatch, limit: &OutputLimit) -> Sent {
        let message = message.encoded(self.client.version());
        self.client.subscriber.send(&self.is_over, message, batch, limit)
    }
}

/// A channel or a pattern.
#[derive(Debug, Clone, Default)]
pub(super) struct Topic {
    pub(super) members: Members,
    /// `None` for a channel.
    pub(super) pattern: Option<Arc<Pattern<'static>>>,
}

/// Channels, or patterns, and their subscribers.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// Persistent, so that PUBLISH and PUBSUB walk snapshots.
    by_name: Mutex<OrdMap<Arc<[u8]>, Topic>>,
    names: AtomicUsize,
    subscriptions: AtomicUsize,
    name_len_max: AtomicUsize,
}

impl Topics {
    pub(super) fn len(&self) -> usize {
        self.names.load(Ordering::Relaxed)
    }

    pub(super) fn subscriptions(&self) -> usize {
        self.subscriptions.load(Ordering::Relaxed)
    }

    pub(super) fn name_len_max(&self) -> usize {
        self.name_len_max.load(Ordering::Relaxed)
    }

    pub(super) fn snapshot(&self) -> OrdMap<Arc<[u8]>, Topic> {
        no_preempt(|| self.by_name.lock().clone())
    }

    pub(super) fn members(&self, name: &[u8]) -> Members {
        if self.len() == 0 {
            return Members::new();
        }
        no_preempt(|| {
            let by_name = self.by_name.lock();
            let topic = by_name.get(name);
            topic.map_or_else(Members::new, |topic| topic.members.clone())
        })
    }

    /// Adds a subscriber. A new topic is this `pattern`, if it is one.
    pub(super) fn add(
        &self,
        name: Arc<[u8]>,
        pattern: Option<Pattern<'static>>,
        client: &Arc<ClientInfo>,
        is_over: Arc<AtomicBool>,
    ) {
        let member = Member { client: Arc::clone(client), is_over };
        self.name_len_max.fetch_max(name.len(), Ordering::Relaxed);
        let new = Topic { members: Members::new(), pattern: pattern.map(Arc::new) };
        self.change(1, |by_name| {
            let topic = by_name.entry(name).or_insert(new);
            topic.members.insert(client.id, member);
        });
    }

    pub(super) fn remove(&self, name: &[u8], client: u64) {
        self.change(-1, |by_name| {
            if let Some(topic) = by_name.get_mut(name) {
                topic.members.remove(&client);
                if topic.members.is_empty() {
                    by_name.remove(name);
                }
            }
        });
    }

    fn change(&self, by: isize, change: impl FnOnce(&mut OrdMap<Arc<[u8]>, Topic>)) {
        no_preempt(|| {
            let mut by_name = self.by_name.lock();
            change(&mut by_name);
            self.names.store(by_name.len(), Ordering::Relaxed);
            self.subscriptions.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
        });
    }
}
