//! Reads a file into the databases.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use psp_store::{Keyspace, Now, Value};

use super::file_reader::{Entry, FileError, FileReader, Item};
use crate::commands::functions::load_library;
use crate::scripts::functions::Policy;
use crate::state::ServerState;

/// Time between two lines of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// How far a load has come.
#[derive(Debug, Default)]
pub(super) struct LoadProgress {
    pub(super) bytes: AtomicU64,
    pub(super) all_bytes: AtomicU64,
}

/// What becomes of a key or a library that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Present {
    /// The file has it twice, and is damaged.
    IsError,
    /// The one of the file takes its place.
    IsReplaced,
}

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Loaded {
    pub(super) keys: u64,
    /// Keys that had expired, and were dropped.
    pub(super) expired: u64,
    /// Collections without elements, which old versions may have left.
    pub(super) empty: u64,
    pub(super) libraries: u64,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is damaged, or has something that is not known.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system refuses to read it.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// A file of the log cannot be opened.
    #[error("cannot open {} that the manifest names: {error}", path.display())]
    Part {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file of the log is damaged.
    #[error("{}: {what} (behind byte {offset})", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Up to where it could be read.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The server ends.
    #[error("the server ends")]
    GivenUp,
}

/// A file that says how far it was read, and ends early when the server does.
pub(super) struct Watched<'a> {
    file: File,
    path: &'a Path,
    progress: &'a LoadProgress,
    goes_on: &'a dyn Fn() -> bool,
    told: Cell<Instant>,
}

impl<'a> Watched<'a> {
    pub(super) fn new(file: File, path: &'a Path, progress: &'a LoadProgress, goes_on: &'a dyn Fn() -> bool) -> Self {
        let told = Cell::new(Instant::now());
        Self { file, path, progress, goes_on, told }
    }
}

impl LoadProgress {
    /// So many bytes are to be read.
    pub(super) fn begin(&self, all_bytes: u64) {
        self.bytes.store(0, Ordering::Relaxed);
        self.all_bytes.store(all_bytes, Ordering::Relaxed);
    }
}

impl Loaded {
    pub(super) fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.expired += other.expired;
        self.empty += other.empty;
        self.libraries += other.libraries;
    }
}

impl LoadError {
    pub(super) fn log(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Log { path: path.to_owned(), offset, what: what.into() }
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !(self.goes_on)() {
            return Err(io::Error::other("the server ends"));
        }
        let read = self.file.read(buffer)?;
        let bytes = self.progress.bytes.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
        if self.told.get().elapsed() >= LOG_INTERVAL {
            self.told.set(Instant::now());
            let percent = bytes * 100 / self.progress.all_bytes.load(Ordering::Relaxed).max(1);
            tracing::info!("loading {}: {percent} %", self.path.display());
        }
        Ok(read)
    }
}

/// Reads the file at `path`.
///
/// # Errors
/// It cannot be read as a whole. What came before the error is in the databases.
pub(super) fn load(
    server: &ServerState,
    path: &Path,
    present: Present,
    progress: &LoadProgress,
    goes_on: &dyn Fn() -> bool,
) -> Result<Loaded, LoadError> {
    let file = File::open(path)?;
    progress.begin(file.metadata()?.len());
    let file = Watched::new(file, path, progress, goes_on);
    let mut reader = FileReader::new(file, server.settings.config.rdbchecksum)?;
    load_from(server, &mut reader, present, goes_on)
}

/// Reads what an RDB file has.
///
/// # Errors
/// As [`load`].
pub(super) fn load_from(
    server: &ServerState,
    reader: &mut FileReader<Watched<'_>>,
    present: Present,
    goes_on: &dyn Fn() -> bool,
) -> Result<Loaded, LoadError> {
    let now = Now::default();
    let (mut loaded, mut database) = (Loaded::default(), 0);
    loop {
        let next = reader.next(&|| {});
        let next = next.map_err(|error| match goes_on() {
            true => LoadError::from(error),
            false => LoadError::GivenUp,
        });
        match next? {
            Item::Aux { name, value } => note(&name, &value),
            Item::Library(code) => {
                let policy = match present {
                    Present::IsError => Policy::Append,
                    Present::IsReplaced => Policy::Replace,
                };
                let added = load_library(server, &code, policy);
                added.map_err(|error| reader.error(format!("a library of functions cannot be loaded: {error}")))?;
                loaded.libraries += 1;
            }
            Item::Database(number) => {
                let count = server.databases.count();
                let number = usize::try_from(number).ok().filter(|number| *number < count);
                let too_many =
                    || reader.error(format!("the file has more databases than the setting `databases`: {count}"));
                database = number.ok_or_else(too_many)?;
            }
            Item::Entry(entry) => {
                let store = server.databases.get(database);
                if entry.expire_at_ms.is_some_and(|at_ms| store.has_passed(at_ms, &now)) {
                    loaded.expired += 1;
                } else if is_empty(&entry.value) {
                    loaded.empty += 1;
                } else if put(store, entry, present) {
                    loaded.keys += 1;
                } else {
                    return Err(reader.error("a key comes twice").into());
                }
            }
            Item::End => break,
        }
    }
    Ok(loaded)
}

/// Says where the file is from.
fn note(name: &[u8], value: &[u8]) {
    if matches!(name, b"redis-ver" | b"valkey-ver") {
        tracing::info!("the file was written by version {}", String::from_utf8_lossy(value));
    }
}

fn is_empty(value: &Value) -> bool {
    value.cardinality() == 0 && !matches!(value, Value::Stream(_))
}

/// Stores a key. `false` if it is there, and may not.
fn put(store: &Keyspace, entry: Entry, present: Present) -> bool {
    let Entry { key, value, expire_at_ms, idle_s, frequency } = entry;
    store.update(&key, |slot| {
        if slot.value().is_some() && present == Present::IsError {
            return false;
        }
        slot.insert(value);
        slot.set_expire_at_ms(expire_at_ms);
        if let Some(idle_s) = idle_s {
            slot.set_idle_s(idle_s);
        }
        if let Some(frequency) = frequency {
            slot.set_frequency(frequency);
        }
        true
    })
}
