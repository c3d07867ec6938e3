//! Tests of the operations that all protocols use.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;

use crate::clock::now_ms;
use psp_protocols::memcached::text::StoreMode;

use super::*;
use crate::cache::{Limits, Mark};

const ITEM_LEN_MAX: usize = 1 << 20;

struct World {
    cache: Cache,
    counters: WorkerCounters,
}

impl World {
    fn new() -> Self {
        Self::with_memory(64 << 20)
    }

    fn with_memory(memory_bytes: usize) -> Self {
        Self {
            cache: Cache::new(Limits { memory_bytes, evict: true }),
            counters: WorkerCounters::default(),
        }
    }

    fn operations(&self) -> Operations<'_> {
        Operations {
            cache: &self.cache,
            counters: &self.counters,
            item_len_max: ITEM_LEN_MAX,
        }
    }
}

fn cas_of(stored: Result<Stored, crate::cache::OutOfMemory>) -> u64 {
    match stored {
        Ok(Stored::Stored { cas, .. }) => cas,
        other => panic!("not stored: {other:?}"),
    }
}

fn data(operations: Operations<'_>, key: &[u8]) -> Option<Vec<u8>> {
    operations.get(key).map(|found| found.value.to_vec())
}

#[test]
fn modes_store_on_their_conditions() {
    let world = World::new();
    let operations = world.operations();
    for mode in [StoreMode::Replace, StoreMode::Append, StoreMode::Prepend] {
        let stored = operations.store(&Store::new(mode, b"k", b"x"));
        assert_eq!(stored, Ok(Stored::NotStored), "{mode:?}");
    }
    cas_of(operations.store(&Store::new(StoreMode::Add, b"k", b"b")));
    let again = operations.store(&Store::new(StoreMode::Add, b"k", b"x"));
    assert_eq!(again, Ok(Stored::NotStored));
    cas_of(operations.store(&Store::new(StoreMode::Append, b"k", b"c")));
    let stored = operations.store(&Store::new(StoreMode::Prepend, b"k", b"a"));
    assert!(matches!(stored, Ok(Stored::Stored { data_len: 3, .. })));
    assert_eq!(data(operations, b"k"), Some(b"abc".to_vec()));
    cas_of(operations.store(&Store::new(StoreMode::Replace, b"k", b"r")));
    assert_eq!(data(operations, b"k"), Some(b"r".to_vec()));
}

#[test]
fn appending_keeps_flags_and_expiry_and_stays_within_the_longest_item() {
    let world = World::new();
    let operations = world.operations();
    let expire_at_ms = NonZeroU64::new(now_ms() + 1_000_000);
    let half = vec![b'x'; ITEM_LEN_MAX / 2];
    cas_of(operations.store(&Store {
        flags: 7,
        expire_at_ms,
        ..Store::new(StoreMode::Set, b"k", &half)
    }));
    let more = Store {
        flags: 9,
        ..Store::new(StoreMode::Append, b"k", &half[..1000])
    };
    cas_of(operations.store(&more));
    let kept = world.cache.with(b"k", |item| item.content.clone()).unwrap();
    assert_eq!((kept.flags, kept.expire_at_ms), (7, expire_at_ms));
    let too_much = operations.store(&Store::new(StoreMode::Append, b"k", &half));
    assert_eq!(too_much, Ok(Stored::NotStored));
    assert_eq!(data(operations, b"k").map(|data| data.len()), Some(half.len() + 1000));
}

#[test]
fn a_cas_value_allows_one_change() {
    let world = World::new();
    let operations = world.operations();
    let with_cas = |cas| Store {
        condition: Condition::Cas(cas),
        ..Store::new(StoreMode::Set, b"k", b"new")
    };
    assert_eq!(operations.store(&with_cas(1)), Ok(Stored::NotFound));
    let first = cas_of(operations.store(&Store::new(StoreMode::Set, b"k", b"old")));
    let second = cas_of(operations.store(&with_cas(first)));
    assert_ne!(first, second);
    assert_eq!(operations.store(&with_cas(first)), Ok(Stored::Exists));
    let stale = Store {
        condition: Condition::CasOrStale(first),
        ..Store::new(StoreMode::Set, b"k", b"stale")
    };
    cas_of(operations.store(&stale));
    assert_eq!(world.cache.with(b"k", |item| item.content.has(Mark::Stale)), Some(true));
    let own = Store {
        new_cas: Some(12),
        ..Store::new(StoreMode::Set, b"k", b"own")
    };
    assert_eq!(cas_of(operations.store(&own)), 12);
}

#[test]
fn increments_wrap_around_and_decrements_stop_at_zero() {
    let world = World::new();
    let operations = world.operations();
    assert_eq!(operations.compute(&Arithmetic::new(b"n")), Ok(Computed::NotFound));
    cas_of(operations.store(&Store::new(StoreMode::Set, b"n", b"18446744073709551615")));
    let value = |computed| match computed {
        Ok(Computed::Done(number)) => number.value,
        other => panic!("{other:?}"),
    };
    assert_eq!(value(operations.compute(&Arithmetic::new(b"n"))), 0);
    let down = Arithmetic { decrement: true, delta: 5, ..Arithmetic::new(b"n") };
    assert_eq!(value(operations.compute(&down)), 0);
    assert_eq!(data(operations, b"n"), Some([b"0".to_vec(), vec![b' '; 19]].concat()));
    let made = Arithmetic {
        vivify: Some(Vivify { initial: 40, expire_at_ms: None }),
        ..Arithmetic::new(b"fresh")
    };
    assert_eq!(value(operations.compute(&made)), 40);
    assert_eq!(value(operations.compute(&made)), 41);
    cas_of(operations.store(&Store::new(StoreMode::Set, b"n", b"apple")));
    assert_eq!(operations.compute(&Arithmetic::new(b"n")), Ok(Computed::NonNumeric));
}

#[test]
fn a_deletion_can_mark_or_empty_the_item() {
    let world = World::new();
    let operations = world.operations();
    let cas = cas_of(operations.store(&Store::new(StoreMode::Set, b"k", b"value")));
    let other = Delete { condition: Condition::Cas(cas + 1000), ..Delete::new(b"k") };
    assert_eq!(operations.delete(&other), Ok(Deleted::Exists));
    let stale = Delete { stale: true, empty: true, ..Delete::new(b"k") };
    assert_eq!(operations.delete(&stale), Ok(Deleted::Done));
    let left = world.cache.with(b"k", |item| item.content.clone()).unwrap();
    assert!(left.has(Mark::Stale) && left.value.is_empty() && left.cas > cas);
    assert_eq!(operations.delete(&Delete::new(b"k")), Ok(Deleted::Done));
    assert_eq!(operations.delete(&Delete::new(b"k")), Ok(Deleted::NotFound));
}

#[test]
fn a_set_without_memory_removes_the_old_value() {
    let world = World::with_memory(5000);
    let operations = world.operations();
    cas_of(operations.store(&Store::new(StoreMode::Set, b"k", b"old")));
    let large = [0; 10_000];
    assert!(operations.store(&Store::new(StoreMode::Set, b"k", &large)).is_err());
    assert_eq!(data(operations, b"k"), None);
}

#[test]
fn concurrent_appends_and_increments_all_count() {
    const ROUNDS: usize = 2000;
    let world = Arc::new(World::new());
    cas_of(world.operations().store(&Store::new(StoreMode::Set, b"n", b"0")));
    cas_of(world.operations().store(&Store::new(StoreMode::Set, b"s", b"")));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    world.operations().compute(&Arithmetic::new(b"n")).unwrap();
                    cas_of(world.operations().store(&Store::new(StoreMode::Append, b"s", b"+")));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let operations = world.operations();
    assert_eq!(data(operations, b"n"), Some((3 * ROUNDS).to_string().into_bytes()));
    assert_eq!(data(operations, b"s").map(|data| data.len()), Some(3 * ROUNDS));
}
