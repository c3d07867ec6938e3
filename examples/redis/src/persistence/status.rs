//! What has been saved and loaded, and what is being.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use psp_server::sync::oneshot;

use super::load::Loaded;

/// A save that goes on.
#[derive(Debug)]
pub(super) struct Save {
    /// BGSAVE, or a save point. Such a save may be given up for another one.
    pub(super) is_background: bool,
    pub(super) started: Instant,
    /// [`Persistence::changes`](super::Persistence::changes) at its instant.
    pub(super) changes: u64,
    /// Keys that are written, and all.
    pub(super) keys: AtomicU64,
    pub(super) all_keys: u64,
    is_given_up: AtomicBool,
    lacks_memory: AtomicBool,
    /// They hear of its end by being dropped.
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Save {
    pub(super) fn new(is_background: bool, changes: u64, all_keys: u64) -> Arc<Self> {
        Arc::new(Self {
            is_background,
            started: Instant::now(),
            changes,
            keys: AtomicU64::new(0),
            all_keys,
            is_given_up: AtomicBool::new(false),
            lacks_memory: AtomicBool::new(false),
            waiting: Mutex::default(),
        })
    }

    /// Counts a key. Whether there shall be more.
    pub(super) fn goes_on(&self) -> bool {
        self.keys.fetch_add(1, Ordering::Relaxed);
        !self.is_given_up()
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    pub(super) fn give_up_for_memory(&self) {
        self.lacks_memory.store(true, Ordering::Relaxed);
        self.give_up();
    }

    pub(super) fn lacks_memory(&self) -> bool {
        self.lacks_memory.load(Ordering::Relaxed)
    }

    /// Ready when it has ended.
    pub(super) fn ended(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().push(sender);
        receiver
    }
}

/// What INFO shows, and what decides of the next save.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) running: Option<Arc<Save>>,
    /// BGSAVE in a transaction, or SCHEDULE.
    pub(super) is_scheduled: bool,
    pub(super) last_save: Instant,
    pub(super) last_save_s: u64,
    /// Changes that are in the last file, or were there before.
    pub(super) saved_changes: u64,
    /// The file at the place holds what there is after so many changes.
    pub(super) file_changes: Option<u64>,
    pub(super) last_background_failed: bool,
    pub(super) last_background_s: Option<u64>,
    pub(super) last_try: Instant,
    pub(super) saves: u64,
    pub(super) loaded: Loaded,
    /// Whether to save at the end, if a client has said so.
    pub(super) saves_at_end: Option<bool>,
}
