//! The thread that removes expired keys that no request touches.
//!
//! Every shard keeps its expiring keys ordered by time. A cycle therefore touches only the keys
//! that it removes, and removes a few keys per lock. Hashes whose fields expire are in the same order by their next
//! field: a cycle removes a few fields of the first hash, which then has another place, until no field is due.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::background::Periodic;
use crate::clock::unix_time_ms;
use crate::databases::Databases;
use crate::keyspace::Keyspace;

/// Time between two cycles.
const CYCLE: Duration = Duration::from_millis(100);
/// Keys removed under one lock.
const KEYS_PER_LOCK: usize = 8;
/// Fields of a hash removed under one lock.
const FIELDS_PER_LOCK: usize = 16;

/// A running expiry cycle. It ends when this value is dropped.
#[derive(Debug)]
pub struct ExpiryCycle {
    _thread: Periodic,
}

impl ExpiryCycle {
    /// Starts the cycle for all databases.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn start(databases: Arc<Databases>) -> std::io::Result<Self> {
        let cycle = move || {
            databases.tick();
            databases.used().for_each(Keyspace::remove_expired);
        };
        Ok(Self { _thread: Periodic::start("psp-expiry", CYCLE, cycle)? })
    }
}

impl Keyspace {
    /// Removes every key, and every field of a hash, that has expired when the function is called.
    pub fn remove_expired(&self) {
        let now_ms = unix_time_ms();
        for shard in 0..self.shard_count() {
            while self.remove_due(shard, now_ms, KEYS_PER_LOCK) == KEYS_PER_LOCK {}
            while self.remove_due_fields(shard, now_ms, FIELDS_PER_LOCK) {
                // Who waits for the lock gets it before the next fields.
                thread::yield_now();
            }
        }
    }
}
