//! The thread that drops values that are no longer needed.
//!
//! ```text
//!   worker: DEL big, FLUSHALL ──► bounded channel ──► reaper thread (low priority): drop
//!                                      │ full
//!                                      └──► dropped by the worker after all
//! ```

use std::sync::Arc;
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
    fn is_heavy(&self) -> bool {
        match self {
            Self::Value(value) => value.is_heavy(),
            Self::Entry(entry) => entry.value().is_heavy(),
            Self::Shards(shards) => shards.iter().any(|(map, _)| !map.is_empty()),
        }
    }
}

/// The sending side of the reaper's channel. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reaper {
    backlog: Option<SyncSender<Garbage>>,
}

impl Reaper {
    /// Starts the thread. If the system refuses a thread, garbage is dropped in place.
    pub(crate) fn start() -> Self {
        let (backlog, arrivals) = sync_channel(BACKLOG_MAX);
        let started = thread::Builder::new()
            .name("psp-reaper".to_owned())
            .spawn(move || reap(&arrivals));
        Self {
            backlog: started.is_ok().then_some(backlog),
        }
    }

    /// Drops `garbage`: on the reaper's thread if dropping takes long, otherwise here.
    pub(crate) fn discard(&self, garbage: Garbage) {
        if garbage.is_heavy()
            && let Some(backlog) = &self.backlog
        {
            // A full or closed channel returns the garbage, which is dropped here.
            let _dropped_here = backlog.try_send(garbage);
        }
    }
}

fn reap(arrivals: &Receiver<Garbage>) {
    crate::background::lower_priority();
    for garbage in arrivals {
        drop(garbage);
    }
}
