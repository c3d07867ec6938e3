//! What holds the entries.
//!
//! ```text
//!   Service ─► Engine ─┬► Memory      a persistent tree; a scan walks a snapshot
//!                      └► RocksDb     librocksdb by its C interface; feature `rocksdb`
//! ```

mod memory;
#[cfg(feature = "rocksdb")]
#[allow(unsafe_code)]
mod rocksdb_c;

pub use memory::Memory;
#[cfg(feature = "rocksdb")]
pub use rocksdb_c::RocksDb;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An ordered map from keys to values that many threads use at once.
///
/// No method holds a lock while it calls what it was given, so that a request may be preempted there.
pub trait Engine: Send + Sync + 'static {
    /// Calls `found` with the value of `key`. Returns whether there is one.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError>;

    /// Calls `visit` for the entries from `start` on, in the order of keys, as they were at one moment,
    /// until it breaks or the last is visited.
    ///
    /// # Errors
    /// When the store cannot be read; some entries may have been visited.
    fn scan(&self, start: &[u8], visit: &mut Visit<'_>) -> Result<(), EngineError>;

    /// Sets a value. It outlasts a crash if the engine was opened to sync.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError>;

    /// Deletes a key, if it is there. It stays so after a crash if the engine was opened to sync.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn delete(&self, key: &[u8]) -> Result<(), EngineError>;

    /// Sets a value that need not outlast a crash until [`Engine::sync`] returns.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn fill(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.put(key, value)
    }

    /// Makes what was written outlast a crash, as far as the engine can.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// What is called with key and value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The store failed, in the words of its library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store failed: {0}")]
pub struct EngineError(pub String);

/// Engines by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Memory alone: gone when the server ends.
    #[default]
    Memory,
    /// RocksDB, in a directory.
    #[value(name = "rocksdb")]
    RocksDb,
}

/// Which engine, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// [`EngineKind::Memory`].
    Memory,
    /// [`EngineKind::RocksDb`].
    RocksDb {
        /// Its directory, made if it is not there.
        directory: PathBuf,
        /// Whether each write is on the medium before it is acknowledged.
        sync: bool,
        /// MiB in which blocks of its files are kept; as many as RocksDB chooses when absent.
        block_cache_mb: Option<u32>,
    },
}

impl Storage {
    /// Opens the engine.
    ///
    /// # Errors
    /// When the directory cannot be opened as a database, or the program was built without RocksDB.
    pub fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        match self {
            Self::Memory => Ok(Arc::new(Memory::default())),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb {
                directory,
                sync,
                block_cache_mb,
            } => Ok(Arc::new(RocksDb::open(directory, *sync, *block_cache_mb)?)),
            #[cfg(not(feature = "rocksdb"))]
            Self::RocksDb { .. } => Err(EngineError(
                "this program was built without RocksDB: build it with --features rocksdb".into(),
            )),
        }
    }
}
