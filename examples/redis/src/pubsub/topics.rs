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
    pub(super) fn send(
        &self,
        message: &mut Message<'_>,
        batch: &mut PushBatch,
        limit: &OutputLimit,
    ) -> Sent {
        let message = message.encoded(self.client.version());
        self.client
            .subscriber
            .send(&self.is_over, message, batch, limit)
    }
}

/// Channels, or patterns, and their subscribers.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// Persistent, so that PUBLISH and PUBSUB walk snapshots.
    by_name: Mutex<OrdMap<Arc<[u8]>, Members>>,
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

    pub(super) fn snapshot(&self) -> OrdMap<Arc<[u8]>, Members> {
        no_preempt(|| self.by_name.lock().clone())
    }

    pub(super) fn members(&self, name: &[u8]) -> Members {
        if self.len() == 0 {
            return Members::new();
        }
        no_preempt(|| self.by_name.lock().get(name).cloned().unwrap_or_default())
    }

    pub(super) fn add(&self, name: Arc<[u8]>, client: &Arc<ClientInfo>, is_over: Arc<AtomicBool>) {
        let member = Member {
            client: Arc::clone(client),
            is_over,
        };
        self.name_len_max.fetch_max(name.len(), Ordering::Relaxed);
        self.change(1, |by_name| {
            by_name.entry(name).or_default().insert(client.id, member);
        });
    }

    pub(super) fn remove(&self, name: &[u8], client: u64) {
        self.change(-1, |by_name| {
            if let Some(members) = by_name.get_mut(name) {
                members.remove(&client);
                if members.is_empty() {
                    by_name.remove(name);
                }
            }
        });
    }

    fn change(&self, by: isize, change: impl FnOnce(&mut OrdMap<Arc<[u8]>, Members>)) {
        no_preempt(|| {
            let mut by_name = self.by_name.lock();
            change(&mut by_name);
            self.names.store(by_name.len(), Ordering::Relaxed);
            self.subscriptions
                .fetch_add(by.cast_unsigned(), Ordering::Relaxed);
        });
    }
}
