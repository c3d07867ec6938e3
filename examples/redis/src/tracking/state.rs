//! What a connection tracks, and how.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use hashbrown::HashSet;
use parking_lot::Mutex;
use psp_server::no_preempt;

use crate::client::ClientInfo;

/// A property of a client that tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// It tracks.
    On,
    /// BCAST: by prefixes, rather than by what it reads.
    Broadcast,
    /// OPTIN: what it reads behind CLIENT CACHING YES.
    OptIn,
    /// OPTOUT: what it reads, but not behind CLIENT CACHING NO.
    OptOut,
    /// NOLOOP: it hears nothing of its own changes.
    NoLoop,
    /// CLIENT CACHING has been called for the next command.
    Caching,
    /// The client that shall get the messages is gone.
    BrokenRedirect,
}

/// A set of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes(u8);

impl Modes {
    /// Whether the mode is in the set.
    #[inline]
    #[must_use]
    pub const fn has(self, mode: Mode) -> bool {
        self.0 & Self::bit(mode) != 0
    }

    /// The set with this mode.
    #[must_use]
    pub const fn with(self, mode: Mode) -> Self {
        Self(self.0 | Self::bit(mode))
    }

    const fn bit(mode: Mode) -> u8 {
        1 << mode as u8
    }
}

/// The client that gets the messages in place of the one that tracks.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// Its id.
    pub id: u64,
    client: Weak<ClientInfo>,
}

impl Redirect {
    /// To this client.
    #[must_use]
    pub fn to(client: &Arc<ClientInfo>) -> Self {
        Self { id: client.id, client: Arc::downgrade(client) }
    }

    /// The client, unless it has left.
    pub(super) fn client(&self) -> Option<Arc<ClientInfo>> {
        let client = self.client.upgrade()?;
        (!client.has_left()).then_some(client)
    }
}

/// What one connection tracks. Its own requests change it. Others forget what they have told it.
#[derive(Debug, Default)]
pub struct TrackingState {
    modes: AtomicU8,
    /// It has tracked.
    known: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    redirect: Option<Redirect>,
    prefixes: BTreeSet<Arc<[u8]>>,
    /// Those keys of the table that have the client.
    keys: HashSet<Arc<[u8]>>,
}

impl TrackingState {
    /// How the client tracks. Nothing is set while it does not.
    #[inline]
    #[must_use]
    pub fn modes(&self) -> Modes {
        Modes(self.modes.load(Ordering::Relaxed))
    }

    /// Whether the client tracks.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.modes().has(Mode::On)
    }

    /// The client that gets the messages; 0 for the one that tracks, and -1 while it does not.
    #[must_use]
    pub fn redirect_id(&self) -> i64 {
        if !self.is_on() {
            return -1;
        }
        let redirect = self.redirect();
        redirect.map_or(0, |redirect| i64::try_from(redirect.id).unwrap_or(i64::MAX))
    }

    /// The prefixes of BCAST, in their order.
    #[must_use]
    pub fn prefixes(&self) -> Vec<Arc<[u8]>> {
        no_preempt(|| self.inner.lock().prefixes.iter().cloned().collect())
    }

    /// CLIENT CACHING, for the next command.
    pub fn begin_caching(&self) {
        let bit = Modes::bit(Mode::Caching);
        self.modes.fetch_or(bit, Ordering::Relaxed);
    }

    /// The command behind CLIENT CACHING has ended.
    pub(super) fn end_caching(&self) {
        if self.modes().has(Mode::Caching) {
            let bit = Modes::bit(Mode::Caching);
            self.modes.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Whether what the client reads now is tracked.
    pub(super) fn remembers_reads(&self) -> bool {
        let modes = self.modes();
        let is_asked = modes.has(Mode::Caching);
        let is_wanted = if modes.has(Mode::OptIn) {
            is_asked
        } else {
            !(is_asked && modes.has(Mode::OptOut))
        };
        modes.has(Mode::On) && !modes.has(Mode::Broadcast) && is_wanted
    }

    pub(super) fn redirect(&self) -> Option<Redirect> {
        no_preempt(|| self.inner.lock().redirect.clone())
    }

    pub(super) fn note_broken_redirect(&self) {
        let bit = Modes::bit(Mode::BrokenRedirect);
        self.modes.fetch_or(bit, Ordering::Relaxed);
    }

    /// Whether the client tracks, or has tracked.
    pub(super) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Begins to track, or tracks in another way. Returns whether it did not before.
    pub(super) fn set(&self, modes: Modes, redirect: Option<Redirect>) -> bool {
        no_preempt(|| {
            let mut inner = self.inner.lock();
            inner.redirect = redirect;
            self.known.store(true, Ordering::Relaxed);
            let before = self.modes.swap(modes.0, Ordering::Relaxed);
            !Modes(before).has(Mode::On)
        })
    }

    /// Tracks no longer. Returns the prefixes; `None` if it did not track.
    pub(super) fn end(&self) -> Option<BTreeSet<Arc<[u8]>>> {
        no_preempt(|| {
            let mut inner = self.inner.lock();
            inner.redirect = None;
            let before = self.modes.swap(0, Ordering::Relaxed);
            let prefixes = std::mem::take(&mut inner.prefixes);
            Modes(before).has(Mode::On).then_some(prefixes)
        })
    }

    /// Adds a prefix. Returns whether it is new.
    pub(super) fn add_prefix(&self, prefix: &Arc<[u8]>) -> bool {
        no_preempt(|| self.inner.lock().prefixes.insert(Arc::clone(prefix)))
    }

    /// Whether the table has the client for the key.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.inner.lock().keys.contains(key)
    }

    /// The table has the client for the key from now on.
    pub(super) fn hold(&self, key: &Arc<[u8]>) {
        self.inner.lock().keys.insert(Arc::clone(key));
    }

    /// The table has the client for the key no longer.
    pub(super) fn release(&self, key: &[u8]) {
        self.inner.lock().keys.remove(key);
    }

    pub(super) fn held(&self) -> usize {
        no_preempt(|| self.inner.lock().keys.len())
    }

    /// All keys for which the table has the client.
    pub(super) fn take_held(&self) -> HashSet<Arc<[u8]>> {
        no_preempt(|| std::mem::take(&mut self.inner.lock().keys))
    }
}
