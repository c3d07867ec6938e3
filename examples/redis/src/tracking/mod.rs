//! CLIENT TRACKING: clients keep copies of what they read, and hear when it changes.
//!
//! ```text
//!   GET k of a client that tracks ─► table: k ─► { client } ─► then the value is read ─► reply
//!                                      │
//!   SET k ─► stored ─► k is taken out ─┴─► invalidate k ─► Push of the client, or of the one to which it redirects
//!   EXEC, scripts ─► keys are gathered until the commit ─┘
//!   expiry, eviction, FLUSHALL, the table is too large ──┘
//! ```
//!
//! # No invalidation is lost
//!
//! A read puts its keys into the table *before* it looks at them. A write looks into the table *after* it has stored.
//! Both lock the key's shard of the keyspace in between, and one of them is first:
//!
//! - The read is first. Then the write sees the client in the table, or another write has taken it out since, and that
//!   one sends the message.
//! - The write is first. Then the read gets the new value.
//!
//! Whether anybody tracks is a counter. It is raised before the first read of a client that tracks, so a write that
//! loads it after it has stored, sees that client if its read was first. A write that stored while no client tracked
//! loads it then, too.
//!
//! A message must not overtake the reply with the old value. What is pushed to a connection while one of its requests
//! runs comes after the reply to that request. Replies that are written later, because the command waited for a key or
//! for the end of a pause, end with a message about what was read. A client that redirects to another connection has to
//! see to the order of the two by itself, as with Redis.
//!
//! A message may come for a key that has not changed after all: SADD of a member that is there.
//!
//! | file | job |
//! | --- | --- |
//! | `run.rs` | what surrounds a command while somebody tracks |
//! | `changed.rs` | which keys commands change |
//! | `table.rs` | which clients may have a copy of which key |
//! | `prefixes.rs` | the prefixes of BCAST |
//! | `state.rs` | what one connection tracks, and how |
//! | `message.rs` | messages in both versions of the protocol |

mod changed;
mod message;
mod prefixes;
mod run;
mod state;
mod table;

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use psp_protocols::resp::Version;
use psp_server::{PushBatch, checkpoint};

use self::changed::Changed;
use self::message::{Invalidation, Stale, broken_redirect};
use self::prefixes::Prefixes;
use self::table::{Members, Table, Taken};
use crate::client::ClientInfo;
use crate::parse::Result;
use crate::pubsub::{OutputLimit, PubSub};

pub(crate) use changed::{Gathered, named};
pub(crate) use run::{LateChanges, behind_late_reply, remember, run};
pub use state::{Mode, Modes, Redirect, TrackingState};

/// Messages that are sent before the server may run another request.
const MESSAGES_PER_TURN: usize = 64;
/// Keys that are put into the table, or taken out, before it may do so.
const KEYS_PER_TURN: usize = 64;
/// Keys that a thread forgets at once of a client that leaves, or takes out at once when the limit is lowered.
const KEYS_AT_ONCE: usize = 64;

/// All clients that track, and what.
#[derive(Debug)]
pub struct Tracking {
    clients: AtomicUsize,
    members: Members,
    table: Table,
    prefixes: Prefixes,
    /// The limit of what waits for a client, and how many were closed because of it.
    pubsub: Arc<PubSub>,
}

impl Tracking {
    /// No client tracks yet. Messages wait within the limit of subscribers.
    #[must_use]
    pub fn new(pubsub: Arc<PubSub>) -> Self {
        Self {
            clients: AtomicUsize::new(0),
            members: Members::default(),
            table: Table::default(),
            prefixes: Prefixes::default(),
            pubsub,
        }
    }

    /// Whether anybody tracks.
    #[inline]
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.clients() > 0
    }

    /// Clients that track.
    #[inline]
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Keys of which clients may have copies.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.table.keys()
    }

    /// Clients of all these keys.
    #[must_use]
    pub fn items(&self) -> usize {
        self.table.items()
    }

    /// Prefixes of clients in broadcasting mode.
    #[must_use]
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// The clients that hear of a change of the key.
    #[must_use]
    pub fn listeners(&self, key: &[u8]) -> usize {
        self.table.clients(key) + self.prefixes.clients(key)
    }

    /// `tracking-table-max-keys`; 0 for no limit.
    #[must_use]
    pub fn keys_max(&self) -> usize {
        self.table.keys_max()
    }

    /// Sets `tracking-table-max-keys`.
    pub fn set_keys_max(self: &Arc<Self>, keys_max: usize) {
        self.table.set_keys_max(keys_max);
        self.shrink(KEYS_AT_ONCE);
        if self.table.is_too_large() {
            let tracking = Arc::clone(self);
            let thread = thread::Builder::new().name("psp-tracking".to_owned());
            // Without a thread, reads take the rest out.
            let _ = thread.spawn(move || tracking.shrink(usize::MAX));
        }
    }

    /// Lets a client track, or changes how it does.
    ///
    /// # Errors
    /// Its prefixes overlap, or there are too many.
    pub fn enable(
        &self,
        client: &Arc<ClientInfo>,
        modes: Modes,
        redirect: Option<Redirect>,
        prefixes: &[&[u8]],
    ) -> Result<()> {
        let is_broadcast = modes.has(Mode::Broadcast);
        if is_broadcast {
            self.prefixes.check(client, prefixes)?;
        }
        self.members.add(client);
        if client.tracking.set(modes, redirect) {
            self.clients.fetch_add(1, Ordering::Relaxed);
        }
        if is_broadcast {
            let all: &[&[u8]] = &[b""];
            let prefixes = if prefixes.is_empty() { all } else { prefixes };
            for prefix in prefixes {
                self.prefixes.add(client, prefix);
            }
        }
        if client.has_left() {
            self.forget(client);
        }
        Ok(())
    }

    /// Lets a client track no longer. The table keeps what it has read, as in Redis.
    pub fn disable(&self, client: &ClientInfo) {
        let Some(prefixes) = client.tracking.end() else {
            return;
        };
        for prefix in prefixes {
            self.prefixes.remove(client, &prefix);
        }
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// Forgets a client whose connection is gone. The caller shall not be held up by many keys.
    pub(crate) fn forget_gone(self: &Arc<Self>, client: &Arc<ClientInfo>) {
        if !client.tracking.is_known() {
            return;
        }
        if client.tracking.held() > KEYS_AT_ONCE {
            let (tracking, gone) = (Arc::clone(self), Arc::clone(client));
            let thread = thread::Builder::new().name("psp-untrack".to_owned());
            if thread.spawn(move || tracking.forget(&gone)).is_ok() {
                return;
            }
        }
        self.forget(client);
    }

    fn forget(&self, client: &ClientInfo) {
        self.disable(client);
        self.table.forget(client);
        self.members.remove(client);
    }

    /// The client is about to read these keys.
    fn remember(&self, client: &ClientInfo, keys: &[&[u8]]) {
        for (index, key) in keys.iter().enumerate() {
            self.table.add(client, key);
            self.shrink(2);
            yield_after(index);
        }
        if client.has_left() {
            self.table.forget(client);
        }
    }

    /// Takes up to `keys_max` keys out of the table, while it is too large.
    fn shrink(&self, keys_max: usize) {
        for _ in 0..keys_max {
            if !self.table.is_too_large() {
                return;
            }
            let Some(taken) = self.table.take_any(&self.members) else {
                return;
            };
            let mut delivery = Delivery::new(self, None, None);
            delivery.send_to_readers(&taken);
        }
    }

    /// These keys have changed, or are gone, by the client with the id `author`, if by a client.
    pub fn invalidate(&self, author: Option<u64>, keys: &[&[u8]]) {
        if self.is_any() {
            self.tell(author, &Changed::Keys(keys.to_vec()), None);
        }
    }

    /// What a transaction or a script of the client with the id `author` has changed.
    pub(crate) fn invalidate_gathered(&self, author: u64, gathered: &Gathered) {
        if self.is_any() || self.keys() > 0 {
            self.tell(Some(author), &gathered.changed(), None);
        }
    }

    /// Tells of a change. What the author itself gets on its own connection goes to `aside`, if there is one. Yields
    /// to other requests meanwhile, so the caller must hold no lock.
    fn tell(&self, author: Option<u64>, changed: &Changed<'_>, aside: Option<&mut Vec<Bytes>>) {
        let mut delivery = Delivery::new(self, author, aside);
        let Changed::Keys(keys) = changed else {
            self.table.clear(&self.members);
            let message = &mut Invalidation::of(Stale::All);
            for client in self.members.snapshot().values() {
                delivery.send(client, message);
            }
            return;
        };
        for (index, key) in keys.iter().enumerate() {
            if let Some(taken) = self.table.take(key, &self.members) {
                delivery.send_to_readers(&taken);
            }
            yield_after(index);
        }
        for (clients, keys) in self.prefixes.matching(keys) {
            let message = &mut Invalidation::of(Stale::Keys(&keys));
            for client in clients.values() {
                delivery.send_change(client, message);
            }
        }
    }
}

/// Lets the server run another request after some keys.
fn yield_after(index: usize) {
    if (index + 1).is_multiple_of(KEYS_PER_TURN) {
        checkpoint();
    }
}

/// Messages on their way.
struct Delivery<'a> {
    pubsub: &'a PubSub,
    author: Option<u64>,
    aside: Option<&'a mut Vec<Bytes>>,
    limit: OutputLimit,
    batch: PushBatch,
    sent: usize,
}

impl<'a> Delivery<'a> {
    fn new(tracking: &'a Tracking, author: Option<u64>, aside: Option<&'a mut Vec<Bytes>>) -> Self {
        Self {
            pubsub: &tracking.pubsub,
            author,
            aside,
            limit: tracking.pubsub.limit(),
            batch: PushBatch::default(),
            sent: 0,
        }
    }

    /// To those who have read the key. In broadcasting mode they hear of it by their prefixes.
    fn send_to_readers(&mut self, taken: &Taken) {
        let key = &*taken.key;
        let message = &mut Invalidation::of(Stale::Keys(slice::from_ref(&key)));
        for client in &taken.clients {
            if !client.tracking.modes().has(Mode::Broadcast) {
                self.send_change(client, message);
            }
        }
    }

    /// Unless the client has made the change and does not want to hear of that.
    fn send_change(&mut self, client: &Arc<ClientInfo>, message: &mut Invalidation<'_>) {
        let is_own = self.author == Some(client.id);
        if !(is_own && client.tracking.modes().has(Mode::NoLoop)) {
            self.send(client, message);
        }
    }

    /// To a client that tracks, or to the one to which it redirects. Others than those of RESP3 need a subscription, to
    /// get the message as one of a channel.
    fn send(&mut self, client: &Arc<ClientInfo>, message: &mut Invalidation<'_>) {
        if !client.tracking.is_on() {
            return;
        }
        let Some(redirect) = client.tracking.redirect() else {
            if client.version() == Version::Resp3 {
                let bytes = message.encoded(Version::Resp3);
                self.push_or_put_aside(client, bytes);
            }
            return;
        };
        let is_reached = redirect.client().is_some_and(|target| {
            let version = target.version();
            let is_wanted = version == Version::Resp3 || target.subscriber.is_subscribed();
            !is_wanted || self.push(&target, message.encoded(version))
        });
        if !is_reached {
            client.tracking.note_broken_redirect();
            if client.version() == Version::Resp3 {
                self.push_or_put_aside(client, broken_redirect(redirect.id));
            }
        }
    }

    fn push_or_put_aside(&mut self, client: &ClientInfo, bytes: Bytes) {
        match &mut self.aside {
            Some(aside) if self.author == Some(client.id) => aside.push(bytes),
            _ => drop(self.push(client, bytes)),
        }
    }

    /// Returns whether the client is there.
    fn push(&mut self, client: &ClientInfo, bytes: Bytes) -> bool {
        let sent = client.push(bytes, &mut self.batch, &self.limit);
        if sent.is_closed {
            self.pubsub.count_closed(1);
        }
        self.sent += 1;
        if self.sent.is_multiple_of(MESSAGES_PER_TURN) {
            self.batch.flush();
            checkpoint();
        }
        sent.is_there
    }
}

#[cfg(test)]
mod tests;
