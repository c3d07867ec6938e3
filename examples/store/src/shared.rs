//! What the databases of one server share.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use crate::access::AccessClock;
use crate::awaited::ReadyKeys;
use crate::form::PackingLimits;
use crate::journal::Journal;
use crate::keyspace::Shard;
use crate::reaper::Reaper;

/// Calls its argument, once.
pub(crate) type Section = fn(&mut dyn FnMut());

/// What the databases of one server share. Forks share it with their origins.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: AccessClock,
    pub(crate) packing: PackingLimits,
    pub(crate) reaper: Reaper,
    pub(crate) ready: Arc<ReadyKeys>,
    pub(crate) on_expired: OnceLock<ExpiredHook>,
    /// How sections run that hold many locks.
    pub(crate) holding: OnceLock<Section>,
    /// How work that others' changes have made vain waits for its like.
    pub(crate) turns: OnceLock<Section>,
    /// How work that takes long lets others run.
    pub(crate) yield_by: OnceLock<fn()>,
    /// Keys that have expired stay for now. No request finds them.
    pub(crate) keeps_expired: AtomicBool,
    /// No key expires for now, whatever the time.
    pub(crate) expires_nothing: AtomicBool,
    /// The shards of all databases that have been used, in the order of their first use.
    pub(crate) roots: RwLock<Vec<Arc<[Shard]>>>,
    pub(crate) journal: Journal,
}

impl Shared {
    /// Starts the reaper's thread.
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(Self {
            clock: AccessClock::default(),
            packing: PackingLimits::default(),
            reaper: Reaper::start(),
            ready: Arc::default(),
            on_expired: OnceLock::new(),
            holding: OnceLock::new(),
            turns: OnceLock::new(),
            yield_by: OnceLock::new(),
            keeps_expired: AtomicBool::new(false),
            expires_nothing: AtomicBool::new(false),
            roots: RwLock::default(),
            journal: Journal::new(),
        })
    }

    /// Whether no key expires for now.
    #[inline]
    pub(crate) fn expires_nothing(&self) -> bool {
        self.expires_nothing.load(Ordering::Relaxed)
    }

    /// Runs `body`, which holds many locks.
    pub(crate) fn hold<T>(&self, body: impl FnOnce() -> T) -> T {
        within(self.holding.get(), body)
    }

    /// Runs `body`, which has been in vain for long, while its like waits.
    pub(crate) fn in_turn<T>(&self, body: impl FnOnce() -> T) -> T {
        within(self.turns.get(), body)
    }
}

fn within<T>(section: Option<&Section>, body: impl FnOnce() -> T) -> T {
    let Some(section) = section else {
        return body();
    };
    let (mut body, mut result) = (Some(body), None);
    section(&mut || result = body.take().map(|body| body()));
    result.expect("a section is run")
}

/// What is told about keys that are removed because they have expired.
pub(crate) struct ExpiredHook(pub(crate) Box<Tell>);

/// Gets the number of the database, the key, and what of it.
type Tell = dyn Fn(usize, &[u8], Expired) + Send + Sync;

/// What has expired of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// The key itself.
    Key,
    /// Some fields of its hash.
    Fields,
    /// The last fields of its hash, so that the key is gone.
    LastFields,
}

impl fmt::Debug for ExpiredHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiredHook").finish_non_exhaustive()
    }
}
