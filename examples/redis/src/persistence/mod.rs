//! Persistence: the data set as an RDB file, and changes as a log, which redis-server reads and writes, too.
//!
//! ```text
//!   SAVE, BGSAVE, save points, SHUTDOWN ─► snapshot, all databases at one instant ─► psp-saver: file_writer ─► place
//!   start, DEBUG RELOAD ─────────────────► psp-saver: load ◄─ file_reader ◄─ file
//!   every command ─► gate: one relaxed load ── loading: -LOADING ── saves fail: -MISCONF
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `format.rs` | the bytes of the file that are no values |
//! | `file_writer.rs`, `file_reader.rs` | the file, piece by piece |
//! | `place.rs` | a new file takes the place of the old one, or none does |
//! | `load.rs` | from the file to the databases |
//! | `save_points.rs` | when to save |
//! | `gate.rs` | what commands may not do meanwhile |
//! | `saver.rs`, `saving.rs`, `loading.rs` | the thread, and what it is asked to do |
//! | `status.rs` | what has been done |
//! | `aof/` | the log of all changes |

mod aof;
mod file_reader;
mod file_writer;
mod format;
mod gate;
mod load;
mod loading;
mod place;
mod save_points;
mod saver;
mod saving;
mod status;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use psp_server::no_preempt;
use psp_store::unix_time_ms;

use crate::config::Config;
use crate::state::ServerState;

pub use aof::Fsync;
pub(crate) use aof::{Log, LogFigures};
pub use gate::Gate;
pub use load::LoadError;
use load::LoadProgress;
pub(crate) use load::Present;
pub(crate) use loading::Reload;
use place::Place;
pub use place::SaveError;
pub(crate) use place::check_name as check_file_name;
pub use save_points::SavePoints;
use saver::Job;
pub use saver::Saver;
pub(crate) use saving::{IN_PROGRESS, Refused};
use status::Status;

/// What saves and loads the data set.
#[derive(Debug)]
pub struct Persistence {
    place: RwLock<Place>,
    save_points: RwLock<SavePoints>,
    compresses: AtomicBool,
    has_checksum: bool,
    stops_writes: AtomicBool,
    /// A [`Gate`].
    gate: AtomicU8,
    is_loading: AtomicBool,
    is_ending: AtomicBool,
    load_progress: LoadProgress,
    load_failed: Mutex<Option<anyhow::Error>>,
    /// The append-only file.
    pub(crate) log: Arc<Log>,
    status: Mutex<Status>,
    jobs: Mutex<Option<Sender<Job>>>,
}

/// What INFO shows.
pub(crate) struct Figures {
    pub(crate) is_loading: bool,
    pub(crate) loaded_bytes: [u64; 2],
    pub(crate) changes: u64,
    pub(crate) is_saving: bool,
    pub(crate) saved_keys: [u64; 2],
    pub(crate) last_save_s: u64,
    pub(crate) has_failed: bool,
    pub(crate) last_s: Option<u64>,
    pub(crate) current_s: Option<u64>,
    pub(crate) saves: u64,
    pub(crate) keys_expired: u64,
    pub(crate) keys_loaded: u64,
    pub(crate) log: LogFigures,
}

impl Persistence {
    /// Of a server that starts now, with this configuration.
    pub(crate) fn new(config: &Config) -> Self {
        let now = Instant::now();
        let dir = std::path::absolute(&config.dir).unwrap_or_else(|_| config.dir.clone());
        let dir = dir.canonicalize().unwrap_or(dir);
        let log = Arc::new(Log::new(config, &dir));
        Self {
            place: RwLock::new(Place { dir, name: config.dbfilename.clone() }),
            save_points: RwLock::new(config.save.clone()),
            compresses: AtomicBool::new(config.rdbcompression),
            has_checksum: config.rdbchecksum,
            stops_writes: AtomicBool::new(config.stop_writes_on_bgsave_error),
            gate: AtomicU8::new(Gate::Open as u8),
            is_loading: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            load_progress: LoadProgress::default(),
            load_failed: Mutex::default(),
            log,
            status: Mutex::new(Status {
                running: None,
                is_scheduled: false,
                last_save: now,
                last_save_s: unix_time_ms() / 1000,
                saved_changes: 0,
                file_changes: None,
                last_background_failed: false,
                last_background_s: None,
                last_try: now,
                saves: 0,
                loaded: load::Loaded::default(),
                saves_at_end: None,
            }),
            jobs: Mutex::default(),
        }
    }

    /// What commands may not do now.
    #[inline]
    #[must_use]
    pub fn gate(&self) -> Gate {
        match Gate::of(self.gate.load(Ordering::Relaxed)) {
            Gate::Open | Gate::Misconfigured if self.log.refuses_writes() => Gate::Unlogged,
            gate => gate,
        }
    }

    fn set_gate(&self) {
        let has_failed = self.with_status(|status| status.last_background_failed);
        let gate = if self.is_loading() {
            Gate::Loading
        } else if has_failed && self.stops_writes() && !self.save_points.read().is_empty() {
            Gate::Misconfigured
        } else {
            Gate::Open
        };
        self.gate.store(gate as u8, Ordering::Relaxed);
    }

    fn with_status<R>(&self, look: impl FnOnce(&mut Status) -> R) -> R {
        no_preempt(|| look(&mut self.status.lock()))
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Relaxed)
    }

    /// The save points.
    pub(crate) fn save_points(&self) -> SavePoints {
        self.save_points.read().clone()
    }

    pub(crate) fn set_save_points(&self, points: SavePoints) {
        *self.save_points.write() = points;
        self.set_gate();
    }

    /// The folder of the file.
    pub(crate) fn dir(&self) -> PathBuf {
        self.place.read().dir.clone()
    }

    /// # Errors
    /// There is no such folder.
    pub(crate) fn set_dir(&self, dir: &Path) -> std::io::Result<()> {
        let dir = self.dir().join(dir).canonicalize()?;
        if !dir.is_dir() {
            return Err(std::io::ErrorKind::NotADirectory.into());
        }
        self.move_to(|place| place.dir = dir);
        Ok(())
    }

    /// The name of the file.
    pub(crate) fn file_name(&self) -> String {
        self.place.read().name.clone()
    }

    /// # Errors
    /// No file can have this name.
    pub(crate) fn set_file_name(&self, name: &str) -> Result<(), &'static str> {
        place::check_name(name)?;
        self.move_to(|place| name.clone_into(&mut place.name));
        Ok(())
    }

    fn move_to(&self, change: impl FnOnce(&mut Place)) {
        change(&mut self.place.write());
        self.with_status(|status| status.file_changes = None);
    }

    /// Whether strings are compressed.
    pub(crate) fn compresses(&self) -> bool {
        self.compresses.load(Ordering::Relaxed)
    }

    pub(crate) fn set_compresses(&self, compresses: bool) {
        self.compresses.store(compresses, Ordering::Relaxed);
    }

    /// Whether writes get an error after a save has failed.
    pub(crate) fn stops_writes(&self) -> bool {
        self.stops_writes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stops_writes(&self, stops: bool) {
        self.stops_writes.store(stops, Ordering::Relaxed);
        self.set_gate();
    }

    /// Adopts the settings of a configuration that was read again.
    pub(crate) fn take_over(&self, started: &mut Config, config: &Config) {
        self.set_save_points(config.save.clone());
        started.save.clone_from(&config.save);
        self.set_compresses(config.rdbcompression);
        started.rdbcompression = config.rdbcompression;
        self.log.take_over(started, config);
        self.set_stops_writes(config.stop_writes_on_bgsave_error);
        started.stop_writes_on_bgsave_error = config.stop_writes_on_bgsave_error;
    }

    /// Seconds since the Unix epoch at the last save; at the start, if there was none.
    pub(crate) fn last_save_s(&self) -> u64 {
        self.with_status(|status| status.last_save_s)
    }

    pub(crate) fn figures(&self, server: &ServerState) -> Figures {
        let progress = &self.load_progress;
        let changes = changes(server);
        let log = self.log.figures(server.databases.journal().end());
        self.with_status(|status| {
            let running = status.running.as_ref();
            let background = running.filter(|save| save.is_background);
            Figures {
                is_loading: self.is_loading(),
                loaded_bytes: [&progress.bytes, &progress.all_bytes].map(|bytes| bytes.load(Ordering::Relaxed)),
                changes: changes.saturating_sub(status.saved_changes),
                is_saving: background.is_some(),
                saved_keys: running.map_or([0; 2], |save| [save.keys.load(Ordering::Relaxed), save.all_keys]),
                last_save_s: status.last_save_s,
                has_failed: status.last_background_failed,
                last_s: status.last_background_s,
                current_s: background.map(|save| save.started.elapsed().as_secs()),
                saves: status.saves,
                keys_expired: status.loaded.expired,
                keys_loaded: status.loaded.keys,
                log: log.clone(),
            }
        })
    }
}

/// Keys and libraries of functions that were changed: a counter that only grows.
fn changes(server: &ServerState) -> u64 {
    server.databases.changes() + server.scripts.functions.changes()
}

#[cfg(test)]
mod tests;
