//! Readers, writers and long walks that run at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_store::{Databases, ExpiryCycle, Keyspace, List, ListEnd, Set, Slot, Value, unix_time_ms};

const DEADLINE: Duration = Duration::from_secs(30);

fn list_of(number: usize, len: usize) -> Value {
    let mut list = List::default();
    for _ in 0..len {
        list.push(ListEnd::Right, number.to_string().as_bytes());
    }
    Value::List(list)
}

/// Whether all elements are the same, as in every state that a writer stores.
fn is_whole(value: &Value) -> bool {
    let Value::List(list) = value else {
        return false;
    };
    let first = list.get(0);
    list.len() == 100 && list.iter().all(|element| Some(element) == first)
}

#[test]
fn readers_and_walks_never_see_torn_state() {
    let store = Keyspace::new();
    let keys: Vec<_> = (0..50).map(|index| format!("key {index}").into_bytes()).collect();
    for key in &keys {
        store.insert(key, list_of(0, 100));
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..200 {
                let key = &keys[round % keys.len()];
                store.update(key, |slot| slot.insert(list_of(round, 100)));
                // Changes the value in place, element by element. Readers see only the whole change.
                store.update(&keys[(round * 7) % keys.len()], |slot| {
                    if let Some(Value::List(list)) = slot.value_mut() {
                        for index in 0..list.len() {
                            list.set(index, round.to_string().as_bytes());
                        }
                    }
                });
            }
            done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    for key in &keys {
                        assert!(store.with(key, |value| value.is_some_and(is_whole)));
                    }
                    let mut visited = 0;
                    store.for_each(|entry| {
                        visited += 1;
                        assert!(is_whole(entry.value()));
                    });
                    assert_eq!(visited, keys.len());
                }
            });
        }
    });
    assert_eq!(store.len(), keys.len());
}

#[test]
fn no_update_is_lost() {
    let store = Keyspace::new();
    let add = |slot: &mut psp_store::Slot<'_>| {
        let old = match slot.value() {
            Some(Value::String(text)) => String::from_utf8_lossy(text).parse().unwrap_or(0),
            _ => 0u64,
        };
        slot.insert(Value::string((old + 1).to_string().as_bytes()));
    };
    thread::scope(|scope| {
        for worker in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..500 {
                    if worker % 2 == 0 {
                        store.update(b"counter", add);
                    } else {
                        store.update_large(b"counter", add);
                    }
                }
            });
        }
    });
    let text = store.with(b"counter", |value| match value {
        Some(Value::String(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    });
    assert_eq!(text, "2000");
}

/// Pairs updated in both orders at once must neither deadlock nor lose or double the value.
#[test]
fn pairs_move_values_without_losing_them() {
    let store = Keyspace::new();
    let keys: Vec<_> = (0..8).map(|index| format!("place {index}").into_bytes()).collect();
    store.insert(&keys[0], Value::string(b"wanders"));
    thread::scope(|scope| {
        for worker in 0..3 {
            let (store, keys) = (&store, &keys);
            scope.spawn(move || {
                for round in 0..2000 {
                    let from = (round * (worker + 1)) % keys.len();
                    let to = (from + 1 + round % (keys.len() - 1)) % keys.len();
                    store.update_pair(&keys[from], &keys[to], |from, to| {
                        if let Some(value) = from.remove() {
                            to.insert(value);
                        }
                    });
                }
            });
        }
    });
    assert_eq!(store.len(), 1);
    assert_eq!(keys.iter().filter(|key| store.contains(key)).count(), 1);
}

#[test]
fn a_snapshot_outlives_changes_to_its_key() {
    let store = Keyspace::new();
    store.insert(b"key", list_of(1, 100));
    let snapshot = store.get(b"key").expect("present");
    store.update(b"key", |slot| slot.insert(list_of(2, 100)));
    store.clear();
    assert!(is_whole(&snapshot));
    assert!(!store.contains(b"key"));
}

#[test]
fn a_panic_in_an_update_leaves_the_key_as_it_was() {
    let store = Keyspace::new();
    store.insert(b"key", Value::string(b"value"));
    for update in [
        (|store| store.update(b"key", |_| panic!("expected by the test"))) as fn(&Keyspace),
        |store| store.update_large(b"key", |_| panic!("expected by the test")),
        |store| store.update_pair(b"key", b"other", |_, _| panic!("expected by the test")),
    ] {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| update(&store)));
        assert!(outcome.is_err());
        assert!(store.contains(b"key"));
        assert_eq!(store.len(), 1);
    }
}

#[test]
fn the_expiry_cycle_removes_untouched_keys() {
    let databases = Arc::new(Databases::new(2));
    let store = databases.get(1);
    for index in 0..100 {
        let key = format!("key {index}");
        store.insert(key.as_bytes(), Value::string(b"x"));
        store.update(key.as_bytes(), |slot| {
            slot.set_expire_at_ms(Some(unix_time_ms() + 20));
        });
    }
    let cycle = ExpiryCycle::start(Arc::clone(&databases)).expect("a thread");
    let start = Instant::now();
    while !store.is_empty() {
        assert!(start.elapsed() < DEADLINE, "{} keys left", store.len());
        thread::yield_now();
    }
    drop(cycle);
    assert_eq!(store.volatile_len(), 0);
    assert_eq!(store.stats().expired_keys, 100);
}

/// A walk that is interrupted holds no lock: writers of the same keys proceed in its middle.
#[test]
fn a_walk_blocks_no_writer() {
    let store = Keyspace::new();
    for index in 0..1000 {
        store.insert(format!("key {index}").as_bytes(), Value::string(b"old"));
    }
    let mut visited = 0;
    store.for_each(|entry| {
        visited += 1;
        // This call, from within the walk, would deadlock if the walk held the key's lock.
        store.insert(entry.key(), Value::string(b"new"));
        store.remove(entry.key());
    });
    assert_eq!(visited, 1000);
    assert!(store.is_empty());
}

/// A large update that must be retried sees in the end that the lock is held, and can skip work
/// that it must not do there.
#[test]
fn a_large_update_can_see_that_it_holds_the_lock() {
    let store = Keyspace::new();
    let mut locked = Vec::new();
    store.update_large(b"key", |slot| {
        locked.push(slot.is_locked());
        slot.insert(Value::string(b"mine"));
        if !slot.is_locked() {
            store.insert(b"key", Value::string(b"another's"));
        }
    });
    assert_eq!(locked.pop(), Some(true));
    assert!(!locked.is_empty() && !locked.contains(&true));
    store.update(b"key", |slot| assert!(slot.is_locked()));
}

/// The reaper counts what it gets until it has dropped it.
#[test]
fn changes_of_a_part_leave_nothing_to_the_reaper() {
    let databases = Databases::new(1);
    let store = databases.get(0);
    let insert = |slot: &mut Slot<'_>, member: usize| {
        let value = slot.value_or_insert_with(|| Value::Set(Set::new()));
        if let Value::Set(set) = value {
            set.insert(&member.to_be_bytes());
        }
    };
    store.update(b"key", |slot| {
        (0..10_000).for_each(|member| insert(slot, member));
    });
    for round in 0..100 {
        store.update_part(b"key", |slot| {
            (0..100).for_each(|member| insert(slot, round * 100 + member));
        });
        assert_eq!(databases.pending_bytes(), 0);
    }
}

#[test]
fn the_reaper_counts_what_it_has_dropped() {
    let databases = Databases::new(1);
    let store = databases.get(0);
    let large = vec![0; 1 << 20];
    store.insert(b"large", Value::string(&large));
    store.insert(b"large", Value::string(b"small"));
    for number in 0..4_u8 {
        store.insert(&[number], Value::string(b""));
    }
    store.clear();
    let started = Instant::now();
    while databases.dropped_objects() < 6 && started.elapsed() < DEADLINE {
        thread::yield_now();
    }
    assert_eq!(databases.dropped_objects(), 6);
}
