//! The engines that hold the entries.
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

/// An ordered map from keys to values. Many threads may use it at once.
///
/// No method holds a lock while it runs the caller's function, so that function may be preempted.
pub trait Engine: Send + Sync + 'static {
    /// Calls `found` with the value of `key`. Returns whether there is one.
    ///
    /// # Errors
    /// The store cannot be read.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError>;

    /// Calls `visit` for the entries from `start` on, in the order of keys and as of one moment, until
    /// `visit` breaks or the entries end.
    ///
    /// # Errors
    /// The store cannot be read. Some entries may have been visited.
    fn scan(&self, start: &[u8], visit: &mut Visit<'_>) -> Result<(), EngineError>;

    /// Sets a value. The value survives a crash if the engine was opened with sync.
    ///
    /// # Errors
    /// The store cannot be written.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError>;

    /// Deletes a key if it exists. The deletion survives a crash if the engine was opened with sync.
    ///
    /// # Errors
    /// The store cannot be written.
    fn delete(&self, key: &[u8]) -> Result<(), EngineError>;

    /// Sets a value that survives a crash only after [`Engine::sync`] has returned.
    ///
    /// # Errors
    /// The store cannot be written.
    fn fill(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.put(key, value)
    }

    /// Makes all earlier writes survive a crash, as far as the engine can.
    ///
    /// # Errors
    /// The store cannot be written.
    fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Whether [`Engine::put`] and [`Engine::delete`] block their thread in the kernel until the write is on the
    /// medium.
    fn waits_for_medium(&self) -> bool {
        false
    }
}

/// A function that receives the key and value of an entry.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The store failed. The message is the library's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store failed: {0}")]
pub struct EngineError(pub String);

/// Engines by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Memory only: the entries are lost when the server ends.
    #[default]
    Memory,
    /// RocksDB, in a directory.
    #[value(name = "rocksdb")]
    RocksDb,
}

/// An engine with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// [`EngineKind::Memory`].
    Memory,
    /// [`EngineKind::RocksDb`].
    RocksDb {
        /// The database's directory. It is created if it does not exist.
        directory: PathBuf,
        /// Whether to sync each write to the medium before acknowledging it.
        sync: bool,
        /// MiB of the block cache; RocksDB's own default if absent.
        block_cache_mb: Option<u32>,
    },
}

impl Storage {
    /// Opens the engine.
    ///
    /// # Errors
    /// The directory cannot be opened as a database, or the program was built without RocksDB.
    pub fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        match self {
            Self::Memory => Ok(Arc::new(Memory::default())),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb { directory, sync, block_cache_mb } => {
                Ok(Arc::new(RocksDb::open(directory, *sync, *block_cache_mb)?))
            }
            #[cfg(not(feature = "rocksdb"))]
            Self::RocksDb { .. } => Err(EngineError(
                "this program was built without RocksDB: build it with --features rocksdb".into(),
            )),
        }
    }
}
