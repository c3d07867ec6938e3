//! Entries in memory.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use imbl::OrdMap;
use parking_lot::RwLock;

use super::{Engine, EngineError, Visit};

/// A persistent tree behind a lock, which is held for one lookup or change. A scan takes a snapshot,
/// which costs as much as a lookup, and walks it without the lock. A later change copies the few
/// nodes that it shares with snapshots.
#[derive(Debug, Default)]
pub struct Memory {
    entries: RwLock<OrdMap<Bytes, Bytes>>,
}

impl Engine for Memory {
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let value = self.entries.read().get(key).cloned();
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, start: &[u8], visit: &mut Visit<'_>) -> Result<(), EngineError> {
        let snapshot = self.entries.read().clone();
        let from = (Bound::Included(start), Bound::Unbounded);
        for (key, value) in snapshot.range::<_, [u8]>(from) {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let replaced = self.entries.write().insert(key, value);
        // The old value is freed here, without the lock.
        drop(replaced);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        let removed = self.entries.write().remove(key);
        drop(removed);
        Ok(())
    }
}
