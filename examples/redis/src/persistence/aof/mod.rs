//! The append-only file: every change in a log, in the files of Redis 7.
//!
//! ```text
//!   appendonlydir/  manifest ─► base: an RDB file, of one instant ─► increments: commands since
//!
//!   start:           replay ◄─ base, increments                          BGREWRITEAOF: snapshot + cut ─► a new base,
//!   changes ─► psp_store's journal ─► writer (psp-journal) ─► last increment      and the increments from the cut on
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `manifest.rs` | which files there are |
//! | `log_reader.rs`, `replay.rs` | from the files to the databases |
//! | `starting.rs` | the start and the end |
//! | `writer.rs` | from the journal to the last file |
//! | `fences.rs` | who waits for the disk |
//! | `rewriting.rs` | a new base |

mod fences;
mod log_reader;
mod manifest;
mod replay;
mod rewriting;
mod starting;
mod writer;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use parking_lot::{Condvar, Mutex};
use psp_server::sync::oneshot::Receiver;
use psp_store::Journal;
use serde::{Deserialize, Serialize};

use fences::Fence;
use manifest::{Folder, Manifest, Part};

use crate::blocking::LateReply;
use crate::config::Config;

/// When the disk has to have what was written: `appendfsync`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Fsync {
    /// Before a client hears that its write is done.
    Always,
    /// Within about a second.
    #[default]
    Everysec,
    /// When the operating system likes.
    No,
}

impl Fsync {
    const ALL: [Self; 3] = [Self::Always, Self::Everysec, Self::No];

    /// In the words of Redis.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
            Self::No => "no",
        }
    }
}

/// Bytes that may wait to be written. Whoever writes more waits, too.
const WAITING_BYTES_MAX: u64 = 64 << 20;

/// What is known of the files.
#[derive(Debug, Default)]
struct State {
    manifest: Manifest,
    /// The manifest in the folder says what there is. It does not before the first base is whole.
    is_complete: bool,
    /// The file that is gone on with at the next cut, and its length.
    goes_on: Option<(Part, u64)>,
    /// The last cut: its place in the journal, and the file that begins there.
    cut: Option<(u64, Part)>,
    /// A rewrite that goes on.
    rewriting: Option<Instant>,
    is_rewrite_scheduled: bool,
    last_rewrite_s: Option<u64>,
    last_rewrite_failed: bool,
    rewrites: u64,
    /// Bytes of all files after the last rewrite, or the start.
    base_size: u64,
    next_automatic: Option<Instant>,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    is_on: AtomicBool,
    fsync: AtomicU8,
    rewrite_percentage: AtomicU64,
    rewrite_size_min: AtomicU64,
    loads_truncated: AtomicBool,
    reads_durable: AtomicBool,
    notes_times: AtomicBool,
    folder: Folder,
    state: Mutex<State>,
    /// All of the journal before is in the file, or is on the disk.
    written: Fence,
    synced: Fence,
    /// Where clients want the disk to be, whenever it is waited for.
    wanted: AtomicU64,
    size: AtomicU64,
    failure: Mutex<Option<String>>,
    /// Writes get an error: they cannot be logged.
    refuses_writes: AtomicBool,
    /// An fsync has failed.
    is_broken: AtomicBool,
    is_closing: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    awake: Mutex<bool>,
    wakes: Condvar,
    syncs: AtomicU64,
    sync_us_max: AtomicU64,
    sync_us_last: AtomicU64,
}

/// What INFO shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogFigures {
    pub(crate) is_on: bool,
    pub(crate) is_rewriting: bool,
    pub(crate) is_rewrite_scheduled: bool,
    pub(crate) last_rewrite_s: Option<u64>,
    pub(crate) current_rewrite_s: Option<u64>,
    pub(crate) last_rewrite_failed: bool,
    pub(crate) rewrites: u64,
    pub(crate) has_failed: bool,
    pub(crate) size: u64,
    pub(crate) base_size: u64,
    pub(crate) unwritten_bytes: u64,
    pub(crate) unsynced_bytes: u64,
    pub(crate) syncs: u64,
    pub(crate) sync_us_last: u64,
    pub(crate) sync_us_max: u64,
}

impl Log {
    /// Of a server that starts now, whose files are in folders of `dir`.
    pub(super) fn new(config: &Config, dir: &Path) -> Self {
        Self {
            is_on: AtomicBool::new(false),
            fsync: AtomicU8::new(config.appendfsync as u8),
            rewrite_percentage: AtomicU64::new(config.auto_aof_rewrite_percentage),
            rewrite_size_min: AtomicU64::new(config.auto_aof_rewrite_min_size),
            loads_truncated: AtomicBool::new(config.aof_load_truncated),
            reads_durable: AtomicBool::new(config.aof_read_durable),
            notes_times: AtomicBool::new(config.aof_timestamp_enabled),
            folder: Folder {
                path: dir.join(&config.appenddirname),
                prefix: config.appendfilename.clone(),
            },
            state: Mutex::default(),
            written: Fence::default(),
            synced: Fence::default(),
            wanted: AtomicU64::new(0),
            size: AtomicU64::new(0),
            failure: Mutex::default(),
            refuses_writes: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            thread: Mutex::default(),
            awake: Mutex::new(false),
            wakes: Condvar::new(),
            syncs: AtomicU64::new(0),
            sync_us_max: AtomicU64::new(0),
            sync_us_last: AtomicU64::new(0),
        }
    }

    /// Adopts the settings of a configuration that was read again. Whether there is a log stays as it is.
    pub(super) fn take_over(&self, started: &mut Config, config: &Config) {
        self.set_fsync(config.appendfsync);
        self.set_rewrite_percentage(config.auto_aof_rewrite_percentage);
        self.set_rewrite_size_min(config.auto_aof_rewrite_min_size);
        self.set_loads_truncated(config.aof_load_truncated);
        self.set_reads_durable(config.aof_read_durable);
        self.set_notes_times(config.aof_timestamp_enabled);
        started.appendfsync = config.appendfsync;
        started.auto_aof_rewrite_percentage = config.auto_aof_rewrite_percentage;
        started.auto_aof_rewrite_min_size = config.auto_aof_rewrite_min_size;
        started.aof_load_truncated = config.aof_load_truncated;
        started.aof_read_durable = config.aof_read_durable;
    }

    /// Whether changes are logged.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// When the disk has to have what was written.
    pub(crate) fn fsync(&self) -> Fsync {
        Fsync::ALL[usize::from(self.fsync.load(Ordering::Relaxed)).min(2)]
    }

    pub(crate) fn set_fsync(&self, fsync: Fsync) {
        self.fsync.store(fsync as u8, Ordering::Relaxed);
        self.wake();
    }

    pub(crate) fn rewrite_percentage(&self) -> u64 {
        self.rewrite_percentage.load(Ordering::Relaxed)
    }

    pub(crate) fn set_rewrite_percentage(&self, percentage: u64) {
        self.rewrite_percentage.store(percentage, Ordering::Relaxed);
    }

    pub(crate) fn rewrite_size_min(&self) -> u64 {
        self.rewrite_size_min.load(Ordering::Relaxed)
    }

    pub(crate) fn set_rewrite_size_min(&self, bytes: u64) {
        self.rewrite_size_min.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn loads_truncated(&self) -> bool {
        self.loads_truncated.load(Ordering::Relaxed)
    }

    pub(crate) fn set_loads_truncated(&self, loads: bool) {
        self.loads_truncated.store(loads, Ordering::Relaxed);
    }

    /// Whether replies of reads wait for the disk as those of writes do.
    #[inline]
    pub(crate) fn notes_times(&self) -> bool {
        self.notes_times.load(Ordering::Relaxed)
    }

    pub(crate) fn set_notes_times(&self, notes: bool) {
        self.notes_times.store(notes, Ordering::Relaxed);
    }

    pub(crate) fn reads_durable(&self) -> bool {
        self.reads_durable.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reads_durable(&self, are: bool) {
        self.reads_durable.store(are, Ordering::Relaxed);
    }

    /// Whether writes get an error: the log cannot take them.
    #[inline]
    pub(super) fn refuses_writes(&self) -> bool {
        self.refuses_writes.load(Ordering::Relaxed)
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Why the log takes nothing.
    pub(crate) fn failure(&self) -> String {
        self.failure.lock().clone().unwrap_or_default()
    }

    fn note_failure(&self, what: &str, error: &io::Error) {
        let text = error.to_string();
        let mut failure = self.failure.lock();
        if failure.as_ref() != Some(&text) {
            tracing::error!("cannot {what}: {text}");
        }
        *failure = Some(text);
        self.refuses_writes.store(true, Ordering::Relaxed);
    }

    fn note_written(&self) {
        if self.refuses_writes() && !self.is_broken() {
            tracing::info!("the log can be written again");
            self.refuses_writes.store(false, Ordering::Relaxed);
            *self.failure.lock() = None;
        }
    }

    fn note_broken(&self, error: &io::Error) {
        tracing::error!(
            "fsync of the log has failed: {error}. Nothing is acknowledged until BGREWRITEAOF has made a new one"
        );
        *self.failure.lock() = Some(error.to_string());
        self.is_broken.store(true, Ordering::Relaxed);
        self.refuses_writes.store(true, Ordering::Relaxed);
        self.synced.set_broken(true);
    }

    /// A new log begins, of which nothing has failed.
    fn note_mended(&self) {
        self.is_broken.store(false, Ordering::Relaxed);
        self.refuses_writes.store(false, Ordering::Relaxed);
        *self.failure.lock() = None;
        self.synced.set_broken(false);
    }

    fn note_sync(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_us_last.store(us, Ordering::Relaxed);
        self.sync_us_max.fetch_max(us, Ordering::Relaxed);
    }

    /// Whether somebody wants more on the disk than there is.
    fn is_sync_wanted(&self) -> bool {
        self.synced.waiting() > 0 || self.wanted.load(Ordering::Relaxed) > self.synced.passed()
    }

    fn note_cut(&self, at: u64, part: Part) {
        self.state.lock().cut = Some((at, part));
    }

    /// Has the thread look at once.
    fn wake(&self) {
        *self.awake.lock() = true;
        self.wakes.notify_all();
    }

    fn sleep(&self, at_most: Duration) {
        let mut awake = self.awake.lock();
        if !*awake {
            self.wakes.wait_for(&mut awake, at_most);
        }
        *awake = false;
    }

    /// What has to come before a client hears that its commands have been done: with `always`, the disk has what was
    /// recorded so far. If the sender is dropped, it never will.
    #[cold]
    pub(crate) fn fence(&self, journal: &Journal) -> Option<Receiver<()>> {
        let reached = if self.fsync() == Fsync::Always {
            self.synced.reaches(journal.end())
        } else if journal.end().saturating_sub(self.written.passed()) > WAITING_BYTES_MAX {
            self.written.reaches(journal.end())
        } else {
            None
        };
        reached.inspect(|_| self.wake())
    }

    /// Finishes a reply behind its [fence](Self::fence).
    pub(crate) fn finish(&self, journal: &Journal, reply: Box<dyn LateReply>) {
        if self.is_on() && self.fsync() == Fsync::Always {
            self.synced.finishes(journal.end(), reply);
            self.wake();
        } else {
            reply.finish();
        }
    }

    /// Whether the disk has all up to this place of the journal.
    pub(crate) fn is_synced(&self, end: u64) -> bool {
        self.synced.passed() >= end
    }

    /// Has the disk get all up to this place soon.
    pub(crate) fn want_sync(&self, end: u64) {
        self.wanted.fetch_max(end, Ordering::Relaxed);
        self.wake();
    }

    pub(crate) fn figures(&self, journal_end: u64) -> LogFigures {
        let state = self.state.lock();
        LogFigures {
            is_on: self.is_on(),
            is_rewriting: state.rewriting.is_some(),
            is_rewrite_scheduled: state.is_rewrite_scheduled,
            last_rewrite_s: state.last_rewrite_s,
            current_rewrite_s: state.rewriting.map(|began| began.elapsed().as_secs()),
            last_rewrite_failed: state.last_rewrite_failed,
            rewrites: state.rewrites,
            has_failed: self.refuses_writes(),
            size: self.size.load(Ordering::Relaxed),
            base_size: state.base_size,
            unwritten_bytes: journal_end.saturating_sub(self.written.passed()),
            unsynced_bytes: journal_end.saturating_sub(self.synced.passed()),
            syncs: self.syncs.load(Ordering::Relaxed),
            sync_us_last: self.sync_us_last.load(Ordering::Relaxed),
            sync_us_max: self.sync_us_max.load(Ordering::Relaxed),
        }
    }
}
