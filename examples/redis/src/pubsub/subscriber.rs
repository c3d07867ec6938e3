//! The subscriptions of one client.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use psp_server::{Push, PushBatch, PushError, no_preempt};

use super::TopicKind;
use super::output_limit::OutputLimit;
use crate::error::CommandError;
use crate::parse::Result;

/// Most subscriptions of one client.
const SUBSCRIPTIONS_MAX: usize = 1 << 20;

/// Where messages to a client go.
pub trait Outlet: Send + Sync {
    /// Sends a message.
    ///
    /// # Errors
    /// Those of [`Push::send`].
    fn send(&self, batch: &mut PushBatch, message: Bytes) -> std::result::Result<(), PushError>;

    /// Bytes that wait.
    fn queued_bytes(&self) -> usize;

    /// Closes the client's connection.
    fn close(&self);
}

impl Outlet for Push {
    fn send(&self, batch: &mut PushBatch, message: Bytes) -> std::result::Result<(), PushError> {
        batch.send(self, message)
    }

    fn queued_bytes(&self) -> usize {
        Self::queued_bytes(self)
    }

    fn close(&self) {
        Self::close(self);
    }
}

/// What became of a message to one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// It is there, and subscribed if the message was for subscribers.
    pub is_there: bool,
    /// Its connection is closed, because too much waits for it.
    pub is_closed: bool,
}

/// A connection that subscribes. Its own requests change it, and others send to it.
#[derive(Default)]
pub struct Subscriber {
    counts: [AtomicUsize; TopicKind::ALL.len()],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until the client subscribes.
    outlet: Option<Box<dyn Outlet>>,
    /// For each name, what ends the subscription.
    names: [HashMap<Arc<[u8]>, Arc<AtomicBool>>; TopicKind::ALL.len()],
    /// Since when more than the soft limit waits.
    over_soft_since: Option<Instant>,
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Subscriber {
    /// Number of subscriptions of one kind.
    #[must_use]
    pub fn count(&self, kind: TopicKind) -> usize {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }

    /// Whether the client is subscribed to anything.
    #[inline]
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Number of all subscriptions.
    #[must_use]
    pub fn total(&self) -> usize {
        TopicKind::ALL.iter().map(|&kind| self.count(kind)).sum()
    }

    /// The number that replies about a subscription end with: channels and patterns count together.
    #[must_use]
    pub fn announced(&self, kind: TopicKind) -> usize {
        match kind {
            TopicKind::Shard => self.count(kind),
            TopicKind::Channel | TopicKind::Pattern => self.count(TopicKind::Channel) + self.count(TopicKind::Pattern),
        }
    }

    /// Sets where messages go. Its requests do so before they subscribe.
    pub fn attach(&self, outlet: impl FnOnce() -> Option<Box<dyn Outlet>>) {
        no_preempt(|| {
            let mut state = self.state.lock();
            if state.outlet.is_none() {
                state.outlet = outlet();
            }
        });
    }

    /// Bytes that wait for the client.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        no_preempt(|| {
            let state = self.state.lock();
            let outlet = state.outlet.as_ref();
            outlet.map_or(0, |outlet| outlet.queued_bytes())
        })
    }

    /// Forgets where messages go, if there are no subscriptions.
    pub fn detach(&self) {
        if !self.is_subscribed() {
            let outlet = no_preempt(|| self.state.lock().outlet.take());
            drop(outlet);
        }
    }

    /// What the client is subscribed to.
    #[must_use]
    pub fn names(&self, kind: TopicKind) -> Vec<Arc<[u8]>> {
        no_preempt(|| {
            let state = self.state.lock();
            state.names[kind as usize].keys().cloned().collect()
        })
    }

    /// Adds a subscription. Returns what ends it; `None` if there is one already.
    pub(super) fn add(&self, kind: TopicKind, name: &Arc<[u8]>) -> Result<Option<Arc<AtomicBool>>> {
        no_preempt(|| {
            let names = &mut self.state.lock().names[kind as usize];
            if names.contains_key(name) {
                return Ok(None);
            }
            if names.len() >= SUBSCRIPTIONS_MAX {
                return Err(CommandError::line("ERR too many subscriptions"));
            }
            let is_over = Arc::<AtomicBool>::default();
            names.insert(Arc::clone(name), Arc::clone(&is_over));
            self.counts[kind as usize].store(names.len(), Ordering::Relaxed);
            Ok(Some(is_over))
        })
    }

    /// Ends a subscription. Returns whether there was one.
    pub(super) fn remove(&self, kind: TopicKind, name: &[u8]) -> bool {
        no_preempt(|| {
            let names = &mut self.state.lock().names[kind as usize];
            let Some(is_over) = names.remove(name) else {
                return false;
            };
            is_over.store(true, Ordering::Relaxed);
            self.counts[kind as usize].store(names.len(), Ordering::Relaxed);
            true
        })
    }

    /// Sends a message, unless `is_over` says that the subscription is over.
    pub(super) fn send(
        &self,
        is_over: &AtomicBool,
        message: Bytes,
        batch: &mut PushBatch,
        limit: &OutputLimit,
    ) -> Sent {
        no_preempt(|| {
            let mut state = self.state.lock();
            let State { outlet: Some(outlet), over_soft_since, .. } = &mut *state else {
                return Sent::default();
            };
            if is_over.load(Ordering::Relaxed) {
                return Sent::default();
            }
            send_through(&**outlet, message, batch, (limit, over_soft_since))
        })
    }

    /// Sends a message that belongs to no subscription. `other` says where it goes if the client has none.
    pub(crate) fn push(
        &self,
        message: Bytes,
        other: impl FnOnce() -> Option<Box<dyn Outlet>>,
        batch: &mut PushBatch,
        limit: &OutputLimit,
    ) -> Sent {
        no_preempt(|| {
            let state = &mut *self.state.lock();
            let over_soft_since = &mut state.over_soft_since;
            let made;
            let outlet = match &state.outlet {
                Some(outlet) => outlet,
                None => match other() {
                    Some(other) => {
                        made = other;
                        &made
                    }
                    None => return Sent::default(),
                },
            };
            send_through(&**outlet, message, batch, (limit, over_soft_since))
        })
    }
}

/// Sends a message, and closes the connection if too much waits for it then.
fn send_through(
    outlet: &dyn Outlet,
    message: Bytes,
    batch: &mut PushBatch,
    (limit, over_soft_since): (&OutputLimit, &mut Option<Instant>),
) -> Sent {
    let is_closed = match outlet.send(batch, message) {
        Ok(()) => limit.is_exceeded(outlet.queued_bytes(), over_soft_since),
        Err(PushError::Gone) => return Sent::default(),
        Err(_) => true,
    };
    if is_closed {
        outlet.close();
    }
    Sent { is_there: true, is_closed }
}
