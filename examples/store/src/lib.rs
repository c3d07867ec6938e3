//! A concurrent in-memory keyspace with O(1) snapshots.
//!
//! The design follows one rule: **no long command holds a lock that a short one needs**. All values
//! and the maps that hold them are persistent: they copy on write, and copies share structure. A
//! long command takes a snapshot in nanoseconds and works on it for any length of time, while
//! writers go on.
//!
//! ```text
//!   key ──hash──► position, 53 bits: [ shard | position in the shard ]
//!
//!   Databases ─► some Keyspaces, each made when it is first used
//!   Keyspace ─► 1024 shards, each  Mutex { index: position -> Entry,   a trie, sorted by position
//!                                         due: (expiry, position), sorted }
//!                                                     │
//!               Entry { value, expiry, key } ◄────────┘  one allocation, shared by reference count
//!                          │
//!                          └► String | List | Hash | Set | SortedSet | Stream: a clone is O(1)
//!
//!   GET         lock, clone the entry, unlock; read
//!   INCR, LPUSH lock, change in place, O(log n), unlock
//!   KEYS, SCAN  per shard: lock, clone the index (O(1)), unlock; walk
//!   LTRIM, ...  lock, clone the entry, unlock; work on a clone; lock, swap if unchanged, unlock
//!   EXEC        work on a fork; lock all its keys, swap if unchanged, unlock
//!   MGET, MSET  lock the shards of all keys, clone or replace the entries, unlock
//!   DEL, FLUSH  lock, take out, unlock; the reaper's thread drops large values
//! ```
//!
//! While a snapshot exists, a writer copies the tree nodes on the path to its entry once. Without a
//! snapshot, writers change everything in place. [`Keyspace`] is the entry point, [`Slot`] gives an
//! update access to its key, and [`Value`] is the value of a key.

mod absence;
mod access;
mod awaited;
mod background;
mod cache_line;
mod clock;
mod commit;
mod contents;
mod databases;
mod due_fields;
mod element;
mod element_ref;
mod entry;
mod eviction;
mod expiry;
mod field_time;
mod fork;
mod form;
#[cfg(feature = "jemalloc")]
mod freed_pages;
mod hash;
mod hashed;
mod index;
mod journal;
mod keyspace;
mod large;
mod list;
mod locks;
mod narrow;
mod numbers;
mod pace;
mod packed;
mod prefetch;
mod prepared;
mod reaper;
mod repr;
mod set;
mod shared;
mod snapshot;
mod sorted_set;
mod stream;
mod together;
mod transaction;
mod tree;
mod value;
mod watched;

pub use access::{AccessMark, LfuRates};
pub use awaited::{Awaits, ReadyKey};
pub use background::Periodic;
pub use clock::{Now, unix_time_ms, unix_time_us};
pub use databases::Databases;
pub use element::Element;
pub use element_ref::{Digits, ElementRef};
pub use entry::{Entry, Slot};
pub use eviction::{Eviction, EvictionPolicy, Evictor, UnknownEvictionPolicy};
pub use expiry::ExpiryCycle;
pub use form::PackingLimit;
#[cfg(feature = "jemalloc")]
pub use freed_pages::FreedPages;
pub use hash::{Fields, Hash, Held, TimedFields};
pub use hashed::{Scan, hash_of};
pub use journal::{Batch, Effect, Encoding, Frame, Journal, Propagate, Writer};
pub use keyspace::{Keyspace, KeyspaceStats};
pub use list::{List, ListEnd};
pub use set::{Members, Set, SetOperation};
pub use shared::Expired;
pub use snapshot::{DatabaseSnapshot, ShardSnapshot, Snapshot};
pub use sorted_set::{
    Aggregate, LexBound, NotANumber, Operand, ScoreBound, Scored, ScoredMember, ScoredMembers, SortedSet, Weighted,
};
pub use stream::{
    BlockLimits, Consumer, Delivery, Entries, Group, IdTaken, Kept, NewId, Pending, Stream, StreamEntry, StreamId,
    Text, Trim,
};
pub use value::Value;
pub use watched::Watched;
