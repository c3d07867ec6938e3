//! What users were denied: ACL LOG.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use psp_server::no_preempt;
use psp_store::unix_time_ms;

/// Bytes that are kept of the name of a key, a channel or a user.
const NAME_LEN_MAX: usize = 1024;
/// Entries among which a denial looks for one of its kind, as in Redis.
const LOOKED_AT_MAX: usize = 10;
/// Denials of one kind that are further apart are not counted together, as in Redis.
const GROUPED_MS: u64 = 60_000;

/// Why something was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// The name or the password.
    Auth,
}

impl Reason {
    /// The word of ACL LOG.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Auth => "auth",
        }
    }
}

/// Where a command was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// By itself.
    TopLevel,
    /// In a transaction.
    Transaction,
    /// In a script.
    Script,
}

impl Place {
    /// The word of ACL LOG.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TopLevel => "toplevel",
            Self::Transaction => "multi",
            Self::Script => "lua",
        }
    }
}

/// What was denied, once or several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// How often.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// Where.
    pub place: Place,
    /// The name of the command, the key or the channel.
    pub object: Box<[u8]>,
    /// The name of the user.
    pub user: Box<[u8]>,
    /// When it was denied last, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The client to which it was denied last, as CLIENT LIST shows it.
    pub client: String,
}

impl Denied {
    /// A denial of now.
    pub(super) fn new((reason, place): (Reason, Place), object: &[u8], user: &[u8], client: String) -> Self {
        let kept = |name: &[u8]| name[..name.len().min(NAME_LEN_MAX)].into();
        Self {
            count: 1,
            reason,
            place,
            object: kept(object),
            user: kept(user),
            at_ms: unix_time_ms(),
            client,
        }
    }

    /// Whether both count together.
    fn is_like(&self, other: &Self) -> bool {
        (self.reason, self.place) == (other.reason, other.place)
            && self.at_ms.abs_diff(other.at_ms) <= GROUPED_MS
            && (&self.object, &self.user) == (&other.object, &other.user)
    }
}

/// The log.
#[derive(Debug)]
pub struct AclLog {
    len_max: AtomicU64,
    /// The last one first.
    entries: Mutex<VecDeque<Arc<Denied>>>,
}

impl AclLog {
    pub(super) fn new(len_max: u64) -> Self {
        Self { len_max: AtomicU64::new(len_max), entries: Mutex::default() }
    }

    /// `acllog-max-len`.
    #[must_use]
    pub fn len_max(&self) -> u64 {
        self.len_max.load(Ordering::Relaxed)
    }

    /// Sets `acllog-max-len`. A log that is longer is cut by the next denial, as in Redis.
    pub fn set_len_max(&self, len: u64) {
        self.len_max.store(len, Ordering::Relaxed);
    }

    /// Adds a denial, or counts it with the last ones of its kind.
    pub(super) fn add(&self, mut denied: Denied) {
        let len_max = usize::try_from(self.len_max()).unwrap_or(usize::MAX);
        no_preempt(|| {
            let mut entries = self.entries.lock();
            let mut last = entries.iter().take(LOOKED_AT_MAX);
            let same = last.position(|entry| entry.is_like(&denied));
            if let Some(entry) = same.and_then(|place| entries.remove(place)) {
                denied.count += entry.count;
            }
            entries.push_front(Arc::new(denied));
            if same.is_none() {
                entries.truncate(len_max);
            }
        });
    }

    /// The last `count` entries, the last one first.
    #[must_use]
    pub fn last(&self, count: usize) -> Vec<Arc<Denied>> {
        no_preempt(|| self.entries.lock().iter().take(count).cloned().collect())
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        let entries = no_preempt(|| std::mem::take(&mut *self.entries.lock()));
        drop(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(object: &str) -> Denied {
        let why = (Reason::Key, Place::TopLevel);
        Denied::new(why, object.as_bytes(), b"alice", String::new())
    }

    fn objects(log: &AclLog) -> Vec<(String, u64)> {
        let text = |entry: &Arc<Denied>| String::from_utf8_lossy(&entry.object).into_owned();
        let entries = log.last(usize::MAX);
        entries.iter().map(|it| (text(it), it.count)).collect()
    }

    #[test]
    fn denials_of_one_kind_count_together() {
        let log = AclLog::new(3);
        for object in ["a", "b", "a"] {
            log.add(denied(object));
        }
        assert_eq!(objects(&log), [("a".into(), 2), ("b".into(), 1)]);
        let mut earlier = denied("a");
        earlier.at_ms -= GROUPED_MS + 1000;
        log.add(earlier);
        log.add(denied("c"));
        assert_eq!(objects(&log), [("c".into(), 1), ("a".into(), 1), ("a".into(), 2)]);
        log.set_len_max(1);
        assert_eq!(log.last(2).len(), 2);
        log.add(denied("d"));
        assert_eq!(objects(&log), [("d".into(), 1)]);
        log.clear();
        assert!(objects(&log).is_empty());
    }

    #[test]
    fn names_are_kept_in_part() {
        let entry = denied(&"x".repeat(NAME_LEN_MAX + 1));
        assert_eq!(entry.object.len(), NAME_LEN_MAX);
    }
}
