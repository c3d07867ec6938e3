//! The thread that drops values that are no longer needed.
//!
//! ```text
//!   worker: DEL big, FLUSHALL ──► bounded channel ──► reaper thread (low priority): drop
//!                                      │ full
//!                                      └──► dropped by the worker after all
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::entry::Entry;
use crate::keyspace::{Due, Map};
use crate::value::Value;

/// Discarded items that may wait for the reaper.
const BACKLOG_MAX: usize = 1024;

/// Something to drop.
#[derive(Debug)]
pub(crate) enum Garbage {
    /// The previous value of a key that has a new one.
    Value(Value),
    /// A removed key. Its last holder drops it.
    Entry(Arc<Entry>),
    /// All keys of some shards.
    Shards(Vec<(Map, Due)>),
}

impl Garbage {
    /// Bytes of a value or an entry, by estimate. Nobody adds up those of whole shards.
    fn bytes(&self) -> usize {
        match self {
            Self::Value(value) => value.memory_bytes(),
            Self::Entry(entry) => entry.memory_bytes(),
            Self::Shards(_) => 0,
        }
    }

    fn is_heavy(&self) -> bool {
        match self {
            Self::Value(value) => value.is_heavy(),
            Self::Entry(entry) => entry.value().is_heavy(),
            Self::Shards(shards) => shards.iter().any(|(map, _)| !map.is_empty()),
        }
    }
}

/// Garbage, and the bytes that it counts as.
type Item = (Garbage, usize);

/// The sending side of the reaper's channel. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reaper {
    backlog: Option<SyncSender<Item>>,
    pending_bytes: Arc<AtomicUsize>,
}

impl Reaper {
    /// Starts the thread. If the system refuses a thread, garbage is dropped in place.
    pub(crate) fn start() -> Self {
        let (backlog, arrivals) = sync_channel(BACKLOG_MAX);
        let pending_bytes = Arc::new(AtomicUsize::new(0));
        let pending = Arc::clone(&pending_bytes);
        let started = thread::Builder::new()
            .name("psp-reaper".to_owned())
            .spawn(move || reap(&arrivals, &pending));
        Self {
            backlog: started.is_ok().then_some(backlog),
            pending_bytes,
        }
    }

    /// Drops `garbage`: on the reaper's thread if dropping takes long, otherwise here.
    pub(crate) fn discard(&self, garbage: Garbage) {
        if garbage.is_heavy()
            && let Some(backlog) = &self.backlog
        {
            let bytes = garbage.bytes();
            self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
            // A full or closed channel returns the garbage, which is dropped here.
            if let Err(_dropped_here) = backlog.try_send((garbage, bytes)) {
                self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
    }

    /// Bytes that wait to be dropped, by estimate.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes.load(Ordering::Relaxed)
    }
}

fn reap(arrivals: &Receiver<Item>, pending_bytes: &AtomicUsize) {
    crate::background::lower_priority();
    for (garbage, bytes) in arrivals {
        drop(garbage);
        pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
