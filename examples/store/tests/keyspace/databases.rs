//! Databases that exchange keys while others read, walk and write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use psp_store::{Databases, Element, Expired, Hash, Keyspace, KeyspaceStats, LfuRates, PackingLimit, Value};

const KEYS: usize = 300;

fn databases(count: usize) -> Arc<Databases> {
    Arc::new(Databases::new(count))
}

fn keys(keyspace: &Keyspace) -> BTreeSet<Vec<u8>> {
    let mut keys = BTreeSet::new();
    keyspace.for_each(|entry| {
        keys.insert(entry.key().to_vec());
    });
    keys
}

fn text(keyspace: &Keyspace, key: &[u8]) -> Option<Vec<u8>> {
    keyspace.with(key, |value| match value? {
        Value::String(text) => Some(text.to_vec()),
        other => panic!("{other:?}"),
    })
}

fn number(keyspace: &Keyspace, key: &[u8]) -> u64 {
    text(keyspace, key).map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap())
}

fn put(keyspace: &Keyspace, key: &[u8], number: u64) {
    keyspace.insert(key, Value::string(number.to_string().as_bytes()));
}

/// Lets `others` run until `work` is done.
fn beside<R>(others: &[&(dyn Fn() + Sync)], work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    let rounds: Vec<AtomicUsize> = others.iter().map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for (other, rounds) in others.iter().zip(&rounds) {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    other();
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let result = work();
        while rounds.iter().any(|rounds| rounds.load(Ordering::Relaxed) == 0) {
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn databases_are_apart_and_made_when_they_are_used() {
    let all = databases(Databases::COUNT_MAX);
    assert_eq!(all.used().count(), 0);
    put(all.get(3), b"k", 3);
    put(all.get(9000), b"k", 9);
    let used = all.used().map(Keyspace::number);
    assert_eq!(used.collect::<Vec<_>>(), [3, 9000]);
    assert_eq!(number(all.get(3), b"k"), 3);
    all.get(3).clear();
    assert_eq!((all.get(3).len(), all.get(9000).len()), (0, 1));
    all.clear();
    assert!(all.used().all(Keyspace::is_empty));
}

#[test]
fn a_walk_follows_the_keys_with_which_it_began() {
    let all = databases(3);
    let names = |prefix: &str| -> BTreeSet<Vec<u8>> {
        let names = (0..KEYS).map(|index| format!("{prefix}{index}").into_bytes());
        names.collect()
    };
    let [mine, theirs] = ["mine", "theirs"].map(names);
    mine.iter().for_each(|key| put(all.get(0), key, 1));
    theirs.iter().for_each(|key| put(all.get(1), key, 2));
    let mut seen = BTreeSet::new();
    all.get(0).for_each(|entry| {
        seen.insert(entry.key().to_vec());
        match seen.len() {
            1 => all.swap(0, 1),
            10 => all.swap(1, 2),
            20 => all.swap(0, 2),
            _ => {}
        }
    });
    assert_eq!(seen, mine);
    assert_eq!(keys(all.get(0)), mine);
    assert_eq!(keys(all.get(2)), theirs);
    assert_eq!([0, 1, 2].map(|number| all.get(number).len()), [KEYS, 0, KEYS]);
}

#[test]
fn nobody_sees_a_part_of_a_swap() {
    let all = databases(2);
    for index in 0..KEYS {
        put(all.get(0), format!("a{index}").as_bytes(), 0);
    }
    for index in 0..2 * KEYS {
        put(all.get(1), format!("b{index}").as_bytes(), 0);
    }
    let walks = || {
        let found = keys(all.get(0));
        let first = found.first().expect("keys")[0];
        assert!(found.iter().all(|key| key[0] == first), "a mixture");
        assert_eq!(found.len(), if first == b'a' { KEYS } else { 2 * KEYS });
    };
    let sizes = || {
        let size = all.get(1).len();
        assert!(size == KEYS || size == 2 * KEYS, "{size}");
    };
    beside(&[&walks, &sizes], || {
        for _ in 0..500 {
            all.swap(0, 1);
        }
    });
}

/// What is flushed is what was there at the begin, wherever it is by then.
#[test]
fn clearing_spares_what_a_swap_brings() {
    let all = databases(2);
    for _ in 0..200 {
        for index in 0..50 {
            put(all.get(0), format!("a{index}").as_bytes(), 0);
            put(all.get(1), format!("b{index}").as_bytes(), 0);
        }
        thread::scope(|scope| {
            scope.spawn(|| all.get(0).clear());
            scope.spawn(|| all.swap(0, 1));
        });
        let mut sizes = [0, 1].map(|number| all.get(number).len());
        sizes.sort_unstable();
        assert_eq!(sizes, [0, 50]);
        all.clear();
    }
}

#[test]
fn what_moves_between_databases_is_never_twice_or_gone() {
    let all = databases(2);
    put(all.get(0), b"k", 1);
    let looks = || {
        let seen = all.transact(&[], |fork| [0, 1].map(|number| usize::from(fork.get(number).contains(b"k"))));
        assert_eq!(seen.map(|seen| seen.iter().sum()), Some(1_usize));
    };
    let moves = |from: usize, to: usize| {
        Keyspace::update_both([(all.get(from), b"k"), (all.get(to), b"k")], |from, to| {
            if let Some(value) = from.remove() {
                to.insert(value);
            }
        });
    };
    beside(&[&looks, &|| moves(1, 0), &|| all.swap(0, 1)], || {
        (0..2000).for_each(|_| moves(0, 1));
    });
    assert_eq!(all.get(0).len() + all.get(1).len(), 1);
}

#[test]
fn a_transaction_swaps_as_it_ends() {
    let all = databases(4);
    for number in 0..3 {
        put(all.get(number), b"was in", number as u64);
    }
    let watched = [all.get(3).watch(b"none"), all.get(0).watch(b"none")];
    let seen = all.transact(&watched, |fork| {
        fork.swap(0, 1);
        fork.swap(1, 2);
        put(fork.get(0), b"new in", 0);
        fork.swap(3, 2);
        assert_eq!(number(all.get(0), b"was in"), 0, "no other client sees it");
        assert!(!all.get(1).contains(b"new in"));
        let places = [0, 1, 2, 3].map(|number| text(fork.get(number), b"was in"));
        assert_eq!(fork.used().count(), 4);
        places
    });
    let expected = [Some("1"), Some("2"), None, Some("0")];
    let expected = expected.map(|text| text.map(|text| text.as_bytes().to_vec()));
    assert_eq!(seen.as_ref(), Some(&expected));
    let after = [0, 1, 2, 3].map(|number| text(all.get(number), b"was in"));
    assert_eq!(after, expected);
    assert_eq!(number(all.get(0), b"new in"), 0);
    assert_eq!([0, 1, 2, 3].map(|number| all.get(number).len()), [2, 1, 0, 1]);
}

#[test]
fn a_watched_key_changes_with_a_swap() {
    let all = databases(2);
    put(all.get(0), b"k", 1);
    for (key, is_carried_out) in [(b"k".as_slice(), false), (b"none", true)] {
        let watched = [all.get(0).watch(key)];
        all.swap(0, 1);
        let result = all.transact(&watched, |_| ());
        assert_eq!(result.is_some(), is_carried_out);
        all.swap(0, 1);
    }
    let watched = [all.get(1).watch(b"k")];
    put(all.get(0), b"k", 2);
    assert!(all.transact(&watched, |_| ()).is_some(), "another database");
}

/// Transactions over two databases and swaps in turn, which end under locks if they must.
#[test]
fn transactions_over_databases_stay_whole() {
    let all = databases(2);
    put(all.get(0), b"sum", 500);
    put(all.get(1), b"sum", 500);
    let transfers = || {
        all.transact(&[], |fork| {
            let [here, there] = [0, 1].map(|database| number(fork.get(database), b"sum"));
            put(fork.get(0), b"sum", here.saturating_sub(1));
            put(fork.get(1), b"sum", there + here.min(1));
        });
    };
    let swaps = || {
        all.transact(&[], |fork| fork.swap(0, 1));
    };
    let looks = || {
        let sum =
            all.transact(&[], |fork| [0, 1].map(|database| number(fork.get(database), b"sum")).iter().sum::<u64>());
        assert_eq!(sum, Some(1000));
    };
    beside(&[&swaps, &looks], || (0..500).for_each(|_| transfers()));
}

/// The keys of one operation appear, and go, together.
#[test]
fn many_keys_change_at_one_instant() {
    for keys in [5, 200] {
        let store = Keyspace::new();
        let names: Vec<Vec<u8>> = (0..keys).map(|index| format!("k{index}").into_bytes()).collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let reversed: Vec<&[u8]> = names.iter().rev().copied().collect();
        let put_all = |value: &[u8], names: &[&[u8]]| {
            store.insert_all(names.iter().map(|name| (*name, Value::string(value))));
        };
        let looks = || {
            let mut seen = BTreeSet::new();
            store.with_all(&names, |value| {
                seen.insert(match value {
                    Some(Value::String(text)) => text.to_vec(),
                    _ => Vec::new(),
                });
            });
            assert_eq!(seen.len(), 1, "{seen:?}");
        };
        beside(&[&looks, &|| put_all(b"other", &reversed)], || {
            for _ in 0..500 {
                put_all(b"value", &names);
                assert_eq!(store.remove_all(&names), keys);
            }
        });
    }
}

#[test]
fn settings_hold_for_all_databases() {
    let all = databases(3);
    assert_eq!((all.count(), all.pending_bytes(), all.pending_objects()), (3, 0, 0));
    let mut hash = Hash::new();
    assert_eq!([b"a", b"b"].map(|field| hash.insert(field, Element::from(&b"v"[..]))), [true; 2]);
    let is_packed = || {
        all.get(2).update(b"hash", |slot| slot.insert(Value::Hash(hash.clone())));
        all.get(2)
            .with(b"hash", |value| matches!(value, Some(Value::Hash(hash)) if hash.is_packed()))
    };
    assert!(is_packed());
    for (most, packs) in [(1, false), (2, true)] {
        all.set_packing_limit(PackingLimit::HashEntries, most);
        assert_eq!((all.packing_limit(PackingLimit::HashEntries), is_packed()), (most, packs));
    }
    let rates = LfuRates { log_factor: 3, decay_minutes: 7 };
    all.set_lfu_rates(rates);
    assert_eq!(all.lfu_rates(), rates);
    for counts in [true, false] {
        all.count_accesses(counts);
        assert_eq!(all.get(1).counts_accesses(), counts);
    }
}

#[test]
fn reads_and_expired_keys_of_all_databases_are_counted() {
    let all = databases(3);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    all.on_expired(move |database, key, _| tell.lock().unwrap().push((database, key.to_vec())));
    all.keep_expired(true);
    for number in [0, 2] {
        let keyspace = all.get(number);
        put(keyspace, b"k", 1);
        assert_eq!([b"k", b"k", b"n"].map(|key| keyspace.contains(key)), [true, true, false]);
        keyspace.update(b"k", |slot| slot.set_expire_at_ms(Some(1)));
        assert_eq!((keyspace.contains(b"k"), keyspace.len()), (false, 1), "it is kept");
    }
    all.get(2).remove_expired();
    assert_eq!((all.get(2).len(), all.get(2).volatile_len()), (1, 1), "this keeps it, too");
    all.keep_expired(false);
    assert!(!all.get(2).contains(b"k") && all.get(2).is_empty());
    let stats = KeyspaceStats {
        hits: 4,
        misses: 5,
        expired_keys: 1,
        ..KeyspaceStats::default()
    };
    assert_eq!((all.stats(), told.lock().unwrap().as_slice()), (stats, &[(2, b"k".to_vec())][..]));
    let read = all.transact(&[], |fork| {
        assert!(fork.is_fork() && fork.get(1).is_fork());
        put(fork.get(1), b"new", 1);
        fork.get(1).contains(b"new") && !fork.get(1).contains(b"old")
    });
    let stats = KeyspaceStats { hits: 5, misses: 6, ..stats };
    assert_eq!((read, all.stats(), all.is_fork()), (Some(true), stats, false));
}

#[test]
fn a_fork_knows_what_it_has_not_touched() {
    let all = databases(1);
    ["a", "bb", "ccc"].iter().for_each(|key| put(all.get(0), key.as_bytes(), 1));
    all.transact(&[], |fork| {
        let fork = fork.get(0);
        assert_eq!((fork.len(), fork.key_len_max()), (3, 3));
        fork.remove(b"a");
        put(fork, b"dddd", 1);
        put(fork, b"bb", 2);
        assert_eq!((fork.len(), fork.key_len_max()), (3, 4));
        fork.clear();
        assert_eq!((fork.len(), fork.key_len_max()), (0, 0));
    });
    assert!(all.get(0).is_empty());
}

#[test]
fn long_commits_pause() {
    static PAUSES: AtomicUsize = AtomicUsize::new(0);
    let all = databases(1);
    all.yield_by(|| {
        PAUSES.fetch_add(1, Ordering::Relaxed);
    });
    all.transact(&[], |fork| (0..1000).for_each(|key: u32| put(fork.get(0), &key.to_le_bytes(), 1)));
    let commit = PAUSES.swap(0, Ordering::Relaxed);
    assert!((1000 / 64..1000).contains(&commit), "{commit}");
    // A fork is dropped piece by piece, too.
    all.transact(&[], |fork| {
        (0..1000).for_each(|key: u32| put(fork.get(0), &key.to_le_bytes(), 2));
        fork.roll_back();
        PAUSES.store(0, Ordering::Relaxed);
    });
    let end = PAUSES.load(Ordering::Relaxed);
    assert!((1000 / 64..commit).contains(&end), "{end}");
}

#[test]
fn marks_of_access_can_be_put_back() {
    let all = databases(1);
    let keyspace = all.get(0);
    put(keyspace, b"k", 1);
    let idle_s = || keyspace.peek(b"k", |entry| entry.map(|entry| keyspace.idle_s(entry)));
    keyspace.update(b"k", |slot| slot.set_idle_s(500));
    let mark = keyspace.access(b"k").expect("a key");
    assert!(keyspace.contains(b"k"));
    assert!(idle_s() < Some(400));
    keyspace.set_access(b"k", mark);
    assert!(idle_s() >= Some(500) && idle_s() < Some(600) && keyspace.access(b"n").is_none());
}

#[test]
fn a_pair_tells_of_the_key_that_has_expired() {
    let all = databases(2);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    all.on_expired(move |database, key, _| tell.lock().unwrap().push((database, key.to_vec())));
    let places = [(all.get(0), b"lives".as_slice()), (all.get(1), b"dies".as_slice())];
    places.iter().for_each(|(keyspace, key)| put(keyspace, key, 1));
    all.get(1).update(b"dies", |slot| slot.set_expire_at_ms(Some(1)));
    let values = Keyspace::update_both(places, |first, second| [first, second].map(|slot| slot.value().is_some()));
    assert_eq!((values, told.lock().unwrap().as_slice()), ([true, false], &[(1, b"dies".to_vec())][..]));
}

/// Each expired key is removed once, whatever shares its shard.
#[test]
fn all_expired_keys_are_removed() {
    let all = databases(1);
    let keyspace = all.get(0);
    for number in 0..10_000_u32 {
        put(keyspace, &number.to_le_bytes(), 1);
        let expire_at_ms = 1 + u64::from(number % 2) * (1 << 42);
        keyspace.update(&number.to_le_bytes(), |slot| slot.set_expire_at_ms(Some(expire_at_ms)));
    }
    keyspace.remove_expired();
    assert_eq!(
        (keyspace.len(), keyspace.volatile_len(), keyspace.stats().expired_keys),
        (5_000, 5_000, 5_000)
    );
}

/// A hash whose fields expire at once loses a few under each lock, and its key with the last one.
#[test]
fn fields_expire_a_few_at_a_time() {
    const FIELDS: u32 = 1000;
    let all = databases(1);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    all.on_expired(move |_, key, expired| tell.lock().unwrap().push((key.to_vec(), expired)));
    let keyspace = all.get(0);
    for (key, stays) in [(b"part".as_slice(), true), (b"whole", false)] {
        let mut hash = Hash::new();
        (0..FIELDS).for_each(|field| _ = hash.insert_expiring(&field.to_le_bytes(), Element::from(b"v"), Some(1)));
        if stays {
            hash.insert(b"stays", Element::from(b"v"));
        }
        keyspace.insert(key, Value::Hash(hash));
    }
    assert_eq!((keyspace.timed_len(), keyspace.volatile_len()), (2, 0));
    all.keep_expired(true);
    keyspace.remove_expired();
    assert_eq!(told.lock().unwrap().len(), 0, "what has expired stays for now");
    all.keep_expired(false);
    let fork_sees = all.transact(&[], |fork| fork.get(0).peek(b"whole", |entry| entry.unwrap().value().cardinality()));
    assert_eq!(fork_sees, Some(FIELDS as usize));
    keyspace.remove_expired();
    assert_eq!((keyspace.timed_len(), keyspace.len()), (0, 1));
    assert_eq!(keyspace.get(b"part").unwrap().cardinality(), 1);
    assert_eq!(keyspace.stats().expired_fields, 2 * u64::from(FIELDS));
    let told = told.lock().unwrap();
    let [part, whole] = [b"part".as_slice(), b"whole"].map(|wanted| {
        let steps = told.iter().filter(|(key, _)| key == wanted);
        steps.map(|(_, expired)| *expired).collect::<Vec<_>>()
    });
    assert!(part.iter().all(|expired| *expired == Expired::Fields));
    let [steps @ .., Expired::LastFields] = &whole[..] else {
        panic!("{whole:?}");
    };
    assert!(steps.len() > 10 && steps.iter().all(|expired| *expired == Expired::Fields));
}

/// A key that expires takes the times of its fields along, and one that is swapped or cleared, too.
#[test]
fn the_times_of_fields_go_where_their_key_goes() {
    let all = databases(2);
    let hash_until = |at_ms| {
        let mut hash = Hash::new();
        hash.insert_expiring(b"field", Element::from(b"v"), Some(at_ms));
        Value::Hash(hash)
    };
    let timed = || [0, 1].map(|number| all.get(number).timed_len());
    all.get(0).insert(b"dies", hash_until(1 << 40));
    all.get(0).update(b"dies", |slot| slot.set_expire_at_ms(Some(1)));
    all.get(0).remove_expired();
    assert_eq!(timed(), [0, 0]);
    all.get(0).insert(b"moves", hash_until(1 << 40));
    all.swap(0, 1);
    assert_eq!(timed(), [0, 1]);
    all.get(1).insert(b"moves", hash_until(1 << 41));
    assert_eq!(timed(), [0, 1]);
    all.get(1).insert(b"moves", Value::string(b"v"));
    assert_eq!(timed(), [0, 0]);
    all.get(1).insert(b"cleared", hash_until(1 << 40));
    all.get(1).clear();
    assert_eq!(timed(), [0, 0]);
}

#[test]
fn a_large_update_locks_the_key_only_if_others_change_it_and_takes_its_turn_before_if_it_is_long() {
    static TURNS: AtomicUsize = AtomicUsize::new(0);
    let all = databases(1);
    let keyspace = all.get(0);
    all.take_turns_by(|section| {
        TURNS.fetch_add(1, Ordering::Relaxed);
        section();
    });
    // The first stores a new key, and the second changes it.
    for (others_change, contended) in [(false, 0), (false, 0), (true, 1)] {
        let mut runs = 0;
        keyspace.update_large(b"k", |slot| {
            runs += 1;
            if others_change && !slot.is_locked() {
                put(keyspace, b"k", runs);
                thread::sleep(Duration::from_millis(1));
            }
            slot.insert(Value::string(b"stored"));
        });
        assert_eq!(runs > 1, others_change);
        assert_eq!(keyspace.stats().contended_updates, contended);
        assert_eq!(text(keyspace, b"k").as_deref(), Some(b"stored".as_slice()));
    }
    assert_eq!(TURNS.load(Ordering::Relaxed), 1);
}

#[test]
fn a_random_entry_is_any() {
    let all = databases(1);
    assert!(all.get(0).random_entry().is_none());
    (0..8_u32).for_each(|key| put(all.get(0), &key.to_le_bytes(), 1));
    let mut left = keys(all.get(0));
    while let Some(entry) = all.get(0).random_entry().filter(|_| !left.is_empty()) {
        left.remove(entry.key());
    }
    assert!(left.is_empty());
}

#[test]
fn many_keys_are_read_and_counted_together() {
    let all = databases(1);
    let names: Vec<[u8; 4]> = (0..100_u32).map(u32::to_le_bytes).collect();
    names[..60].iter().for_each(|name| put(all.get(0), name, 1));
    let read = |keyspace: &Keyspace| {
        let keys: Vec<&[u8]> = names.iter().map(<[u8; 4]>::as_slice).collect();
        let (mut all, mut some) = (0, 0);
        keyspace.glance_all(&keys, |entry| all += usize::from(entry.is_some()));
        keyspace.with_all(&keys[50..70], |value| some += usize::from(value.is_some()));
        (all, some)
    };
    assert_eq!(read(all.get(0)), (60, 10));
    let KeyspaceStats { hits, misses, .. } = all.stats();
    assert_eq!((hits, misses), (70, 50));
    assert_eq!(all.transact(&[], |fork| read(fork.get(0))), Some((60, 10)));
}
