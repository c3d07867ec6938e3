//! The thread that drops values that are no longer needed.
//!
//! ```text
//!   worker: DEL big, FLUSHALL ──► bounded channel ──► reaper thread: drop
//!                                      │ full
//!                                      └──► dropped by the worker after all
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::entry::Entry;
use crate::keyspace::ShardContents;
use crate::value::Value;

/// Discarded items that may wait for the reaper.
const BACKLOG_MAX: usize = 1024;

/// Something to drop.
#[derive(Debug)]
pub(crate) enum Garbage {
    /// The previous value of a key that has a new one.
    Value(Value),
    /// A removed key. Its last holder drops it.
    Entry(Entry),
    /// All keys of some shards.
    Shards(Vec<ShardContents>),
}

impl Garbage {
    /// Bytes of a value or an entry, by estimate. Those of whole shards are not added up.
    fn bytes(&self) -> usize {
        match self {
            Self::Value(value) => value.memory_bytes(),
            Self::Entry(entry) => entry.memory_bytes(),
            Self::Shards(_) => 0,
        }
    }

    /// Values, keys and buckets of keys.
    fn objects(&self) -> usize {
        match self {
            Self::Value(_) | Self::Entry(_) => 1,
            Self::Shards(shards) => shards.iter().map(|shard| shard.keys).sum(),
        }
    }

    fn is_heavy(&self) -> bool {
        match self {
            Self::Value(value) => value.is_heavy(),
            Self::Entry(entry) => entry.value().is_heavy(),
            Self::Shards(shards) => shards.iter().any(|shard| shard.keys > 0),
        }
    }
}

/// What garbage counts as.
#[derive(Debug, Clone, Copy)]
struct Size {
    bytes: usize,
    objects: usize,
}

/// The sending side of the reaper's channel. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reaper {
    backlog: Option<SyncSender<(Garbage, Size)>>,
    counts: Arc<Counts>,
}

/// What waits for the thread, and what it has dropped.
#[derive(Debug, Default)]
struct Counts {
    pending_bytes: AtomicUsize,
    pending_objects: AtomicUsize,
    dropped_objects: AtomicUsize,
    /// Snapshots that there are, and bytes of keys that were removed and that they keep.
    snapshots: AtomicUsize,
    kept_bytes: AtomicUsize,
}

impl Counts {
    fn kept_bytes(&self) -> usize {
        match self.snapshots.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.kept_bytes.load(Ordering::Relaxed),
        }
    }

    fn add(&self, size: Size) {
        self.pending_bytes.fetch_add(size.bytes, Ordering::Relaxed);
        self.pending_objects.fetch_add(size.objects, Ordering::Relaxed);
    }

    fn remove(&self, size: Size) {
        self.pending_bytes.fetch_sub(size.bytes, Ordering::Relaxed);
        self.pending_objects.fetch_sub(size.objects, Ordering::Relaxed);
    }
}

impl Reaper {
    /// Starts the thread. If the system refuses a thread, garbage is dropped in place.
    pub(crate) fn start() -> Self {
        let (backlog, arrivals) = sync_channel(BACKLOG_MAX);
        let counts = Arc::<Counts>::default();
        let counted = Arc::clone(&counts);
        let started = thread::Builder::new()
            .name("psp-reaper".to_owned())
            .spawn(move || reap(&arrivals, &counted));
        Self { backlog: started.is_ok().then_some(backlog), counts }
    }

    /// A snapshot begins, before it has anything.
    pub(crate) fn keeper(&self) -> Arc<Keeper> {
        self.counts.snapshots.fetch_add(1, Ordering::Relaxed);
        Arc::new(Keeper(Arc::clone(&self.counts)))
    }

    /// Drops `garbage`: on the reaper's thread if dropping takes long, otherwise here.
    pub(crate) fn discard(&self, garbage: Garbage) {
        if let Garbage::Entry(entry) = &garbage
            && self.counts.snapshots.load(Ordering::Relaxed) > 0
            && !entry.is_unshared()
        {
            self.counts.kept_bytes.fetch_add(entry.memory_bytes(), Ordering::Relaxed);
            return;
        }
        if garbage.is_heavy()
            && let Some(backlog) = &self.backlog
        {
            let size = Size { bytes: garbage.bytes(), objects: garbage.objects() };
            self.counts.add(size);
            // A full or closed channel returns the garbage, which is dropped here.
            if let Err(_dropped_here) = backlog.try_send((garbage, size)) {
                self.counts.remove(size);
            }
        }
    }

    /// Bytes that wait to be dropped, and those of removed keys that a snapshot keeps, by estimate.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.counts.pending_bytes.load(Ordering::Relaxed) + self.counts.kept_bytes()
    }

    /// Values and keys that wait to be dropped.
    pub(crate) fn pending_objects(&self) -> usize {
        self.counts.pending_objects.load(Ordering::Relaxed)
    }

    /// Values and keys that the thread has dropped.
    pub(crate) fn dropped_objects(&self) -> usize {
        self.counts.dropped_objects.load(Ordering::Relaxed)
    }
}

/// What keeps removed keys: a snapshot, as long as there are parts of it.
#[derive(Debug)]
pub(crate) struct Keeper(Arc<Counts>);

impl Keeper {
    /// Whether any removed keys are kept.
    pub(crate) fn keeps_some(&self) -> bool {
        self.0.kept_bytes() > 0
    }

    /// An entry that nothing else holds any more is dropped now.
    pub(crate) fn forget(&self, entry: &Entry) {
        let bytes = entry.memory_bytes();
        let kept = &self.0.kept_bytes;
        let less = |kept: usize| Some(kept.saturating_sub(bytes));
        let _always_some = kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.0.snapshots.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.kept_bytes.store(0, Ordering::Relaxed);
        }
    }
}

fn reap(arrivals: &Receiver<(Garbage, Size)>, counts: &Counts) {
    for (garbage, size) in arrivals {
        drop(garbage);
        counts.dropped_objects.fetch_add(size.objects, Ordering::Relaxed);
        counts.remove(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_until_it_is_dropped() {
        let (backlog, arrivals) = sync_channel(2);
        let reaper = Reaper { backlog: Some(backlog), counts: Arc::default() };
        let heavy = Value::string(&vec![b'v'; 1 << 20]);
        let entry = Entry::new(b"key", heavy.clone());
        let bytes = [heavy.memory_bytes(), heavy.memory_bytes() + entry.memory_bytes()];
        assert!(bytes[0] >= 1 << 20 && bytes[1] > 2 << 20);
        let waiting = || (reaper.pending_bytes(), reaper.pending_objects(), reaper.dropped_objects());
        reaper.discard(Garbage::Value(Value::string(b"light")));
        assert_eq!(waiting(), (0, 0, 0));
        reaper.discard(Garbage::Value(heavy.clone()));
        assert_eq!(waiting(), (bytes[0], 1, 0));
        reaper.discard(Garbage::Entry(entry));
        assert_eq!(waiting(), (bytes[1], 2, 0));
        reaper.discard(Garbage::Value(heavy));
        assert_eq!(waiting(), (bytes[1], 2, 0), "more than the backlog holds is dropped here");
        let Reaper { backlog, counts } = reaper;
        drop(backlog);
        reap(&arrivals, &counts);
        let reaper = Reaper { backlog: None, counts };
        assert_eq!((reaper.pending_bytes(), reaper.pending_objects(), reaper.dropped_objects()), (0, 0, 2));
    }
}
