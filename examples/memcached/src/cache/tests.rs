//! Tests of the cache against a model, of its memory limit, and of eviction.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, LazyLock};
use std::thread;

use proptest::prelude::*;

use crate::clock::now_ms;

use super::*;

const MIB: usize = 1 << 20;

fn cache(memory_bytes: usize) -> Cache {
    Cache::new(Limits { memory_bytes, evict: true })
}

fn content(value: &[u8]) -> Content {
    content_of(b"", value)
}

fn content_of(key: &[u8], value: &[u8]) -> Content {
    Content::new(Value::new(key, [value]), 1)
}

fn put(cache: &Cache, key: &[u8], content: &Content) -> Result<(), OutOfMemory> {
    let content = Content { value: Value::new(key, [&content.value]), ..content.clone() };
    cache.update(key, |_, _| (Change::Put(content.clone()), ()))
}

fn get(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    cache.with(key, |item| {
        item.mark_used(0);
        item.content.value.to_vec()
    })
}

/// Checks that the lists, the index, the slots and the budget agree.
fn check(cache: &Cache) {
    let mut bytes = 0;
    for shard in &cache.shards {
        bytes += shard.check();
    }
    assert_eq!(cache.memory_bytes(), bytes);
    assert!(bytes <= cache.memory_bytes_max());
}

fn shard_of(key: &[u8]) -> usize {
    Hashed::new(hash_of(key)).shard
}

/// 256 keys of one shard.
static CROWDED: LazyLock<Vec<[u8; 4]>> = LazyLock::new(|| {
    let keys = (0..u32::MAX).map(u32::to_be_bytes);
    keys.filter(|key| shard_of(key) == 0).take(256).collect()
});

#[derive(Debug, Clone)]
enum Step {
    Put {
        key: u8,
        len: usize,
        expired: bool,
    },
    PutAll,
    Remove(u8),
    /// This key and most others.
    RemoveMany(u8),
    Get(u8),
    Append(u8),
    Flush,
    Reap,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (any::<u8>(), 0..100_usize, prop::bool::weighted(0.1))
            .prop_map(|(key, len, expired)| Step::Put { key, len, expired }),
        1 => Just(Step::PutAll),
        2 => any::<u8>().prop_map(Step::Remove),
        1 => any::<u8>().prop_map(Step::RemoveMany),
        8 => any::<u8>().prop_map(Step::Get),
        2 => any::<u8>().prop_map(Step::Append),
        1 => Just(Step::Flush),
        1 => Just(Step::Reap),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #[test]
    fn behaves_as_a_map_while_there_is_memory(steps in steps(), is_crowded: bool) {
        let cache = cache(MIB);
        let mut model: HashMap<u8, Vec<u8>> = HashMap::new();
        let name = |key: u8| match is_crowded {
            true => CROWDED[usize::from(key)],
            false => [key; 4],
        };
        let set = |key: u8, value: &[u8], expire_at_ms| {
            put(&cache, &name(key), &Content { expire_at_ms, ..content(value) }).unwrap();
        };
        for step in steps {
            match step {
                Step::Put { key, len, expired } => {
                    let value = vec![key; len];
                    set(key, &value, expired.then_some(NonZeroU64::MIN));
                    if expired {
                        model.remove(&key);
                    } else {
                        model.insert(key, value);
                    }
                }
                Step::PutAll => for key in 0..=u8::MAX {
                    set(key, &[key], None);
                    model.insert(key, vec![key]);
                },
                Step::Remove(key) => {
                    let removed = cache.update(&name(key), |item, _| (Change::Remove, item.is_some()));
                    prop_assert_eq!(removed, Ok(model.remove(&key).is_some()));
                }
                Step::RemoveMany(first) => for key in (0..200).map(|other| first.wrapping_add(other)) {
                    let removed = cache.update(&name(key), |item, _| (Change::Remove, item.is_some()));
                    prop_assert_eq!(removed, Ok(model.remove(&key).is_some()));
                },
                Step::Get(key) => {
                    prop_assert_eq!(get(&cache, &name(key)), model.get(&key).cloned());
                }
                Step::Append(key) => {
                    let name = name(key);
                    let appended = cache.update(&name, |item, _| match item {
                        None => (Change::Keep, false),
                        Some(item) => {
                            let value = Value::new(&name, [&item.content.value, b"+"]);
                            (Change::Put(Content::new(value, 1)), true)
                        }
                    });
                    let value = model.get_mut(&key);
                    prop_assert_eq!(appended, Ok(value.is_some()));
                    if let Some(value) = value {
                        value.push(b'+');
                    }
                }
                Step::Flush => {
                    cache.flush(None);
                    model.clear();
                }
                Step::Reap => {
                    cache.reap(0);
                    prop_assert_eq!(cache.len(), model.len());
                }
            }
            check(&cache);
        }
        let mut seen = HashMap::new();
        cache.for_each(|item| {
            let twice = seen.insert(item.key().to_vec(), item.content.value.to_vec());
            assert_eq!(twice, None);
        });
        let model: HashMap<_, _> = (model.into_iter())
            .map(|(key, value)| (name(key).to_vec(), value))
            .collect();
        prop_assert_eq!(seen, model);
        prop_assert_eq!(cache.stats().evictions, 0);
    }

    #[test]
    fn memory_stays_within_its_limit(
        sizes in proptest::collection::vec((any::<u16>(), 0..20_000_usize), 1..400)
    ) {
        let cache = cache(200_000);
        for (key, len) in sizes {
            put(&cache, &key.to_be_bytes(), &content(&vec![0; len])).unwrap();
            prop_assert_eq!(get(&cache, &key.to_be_bytes()).map(|value| value.len()), Some(len));
        }
        check(&cache);
    }
}

proptest! {
    // A case stores up to a hundred megabytes.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_read_between_two_sets_stays_at_every_size(
        len in 1_usize..400_000,
        popular in 1_u32..4,
        before in 0_u32..200,
    ) {
        let cache = cache(2 * MIB);
        let set = |key: u32| put(&cache, &key.to_be_bytes(), &content(&vec![1; len])).unwrap();
        (1000..1000 + before).for_each(set);
        (0..popular).for_each(set);
        for key in 10_000..10_100 {
            for popular in 0..popular {
                let found = get(&cache, &popular.to_be_bytes());
                prop_assert!(found.is_some(), "{popular} is gone before {key} is set");
            }
            set(key);
        }
        check(&cache);
    }
}

/// The hits of an exact LRU that holds `capacity` items.
fn hits_of_lru(keys: &[u32], capacity: usize) -> usize {
    let mut held: Vec<u32> = Vec::new();
    let mut hits = 0;
    for key in keys {
        match held.iter().position(|other| other == key) {
            Some(place) => {
                held.remove(place);
                hits += 1;
            }
            None if held.len() == capacity => drop(held.remove(0)),
            None => {}
        }
        held.push(*key);
    }
    hits
}

#[test]
fn large_items_are_hit_as_often_as_in_one_list() {
    for len in [1000, 20_000, 100_000, 500_000] {
        let cache = cache(8 * MIB);
        let capacity = 8 * MIB / content_of(&[0; 4], &vec![0; len]).memory_bytes();
        // Popularity falls with the rank; there are ten times as many keys as places.
        let mut random = 1_u64;
        let keys: Vec<u32> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let uniform = (random >> 11) as f64 / (1_u64 << 53) as f64;
            ((capacity * 10) as f64).powf(uniform) as u32
        })
        .take(capacity * 30)
        .collect();
        let mut hits = 0;
        for key in &keys {
            match get(&cache, &key.to_be_bytes()) {
                Some(_) => hits += 1,
                None => put(&cache, &key.to_be_bytes(), &content(&vec![0; len])).unwrap(),
            }
        }
        let lru = hits_of_lru(&keys, capacity);
        assert!(hits * 100 >= lru * 99, "{len} bytes: {hits} hits, LRU has {lru}");
    }
}

#[test]
fn items_used_again_survive_items_used_once() {
    let cache = cache(4 * MIB);
    let popular: Vec<[u8; 4]> = (0..1000_u32).map(u32::to_be_bytes).collect();
    for key in &popular {
        put(&cache, key, &content(&[7; 100])).unwrap();
    }
    // Ten times the capacity passes through once.
    for round in 0..100_u32 {
        for key in &popular {
            get(&cache, key);
        }
        for index in 0..1600_u32 {
            let key = (1_000_000 + round * 1600 + index).to_be_bytes();
            put(&cache, &key, &content(&[1; 100])).unwrap();
        }
    }
    let kept = popular.iter().filter(|key| get(&cache, *key).is_some());
    assert!(kept.count() >= 950);
    let stats = cache.stats();
    assert!(stats.evictions > 100_000 && stats.evicted_unfetched > stats.evictions / 10 * 9);
    check(&cache);
}

#[test]
fn expired_items_are_evicted_before_live_ones() {
    let cache = cache(MIB);
    let expired = Content { expire_at_ms: Some(NonZeroU64::MIN), ..content(&[0; 1000]) };
    for key in 0..5000_u32 {
        put(&cache, &key.to_be_bytes(), &expired).unwrap();
    }
    let stats = cache.stats();
    assert_eq!(stats.evictions, 0);
    assert!(stats.reclaimed > 4000);
}

#[test]
fn an_item_that_cannot_fit_is_refused_and_evicts_nothing() {
    let full = Cache::new(Limits { memory_bytes: 10_000, evict: false });
    put(&full, b"old", &content(&[0; 5000])).unwrap();
    assert_eq!(put(&full, b"new", &content(&[0; 6000])), Err(OutOfMemory));
    assert!(get(&full, b"old").is_some());
    let small = cache(10_000);
    put(&small, b"old", &content(&[0; 5000])).unwrap();
    assert_eq!(put(&small, b"new", &content(&[0; 20_000])), Err(OutOfMemory));
    assert!(get(&small, b"old").is_some(), "evicted for an item that cannot fit");
    check(&small);
}

#[test]
fn cas_values_of_a_key_never_repeat() {
    let cache = cache(MIB);
    let mut last = 0;
    for round in 0..100 {
        let cas = cache.update(b"key", |_, cas| {
            let change = match round % 3 {
                0 => Change::Put(content_of(b"key", b"value")),
                1 => Change::Remove,
                _ => Change::Keep,
            };
            (change, cas)
        });
        let cas = cas.unwrap();
        assert!(cas > last);
        last = cas;
    }
}

#[test]
fn a_delayed_flush_removes_items_stored_meanwhile() {
    let cache = cache(MIB);
    put(&cache, b"before", &content(b"1")).unwrap();
    cache.flush(Some(now_ms() + 1000));
    assert!(get(&cache, b"before").is_some());
    put(&cache, b"meanwhile", &content(b"1")).unwrap();
    let start = now_ms();
    while get(&cache, b"before").is_some() {
        assert!(now_ms() < start + 30_000, "never flushed");
        thread::yield_now();
    }
    assert_eq!(get(&cache, b"meanwhile"), None);
    put(&cache, b"after", &content(b"1")).unwrap();
    assert!(get(&cache, b"after").is_some());
    // An immediate flush cancels a pending one.
    cache.flush(Some(now_ms() + 1_000_000));
    cache.flush(None);
    assert_eq!(get(&cache, b"after"), None);
}

#[test]
fn the_reaper_examines_only_shards_that_may_have_expired_items() {
    let cache = cache(MIB);
    for key in 0..1000_u32 {
        put(&cache, &key.to_be_bytes(), &content(b"stays")).unwrap();
    }
    cache.reap(0);
    assert_eq!(cache.stats().inspected, 0);
    let expires = Content { expire_at_ms: NonZeroU64::new(now_ms()), ..content(b"goes") };
    put(&cache, b"expires", &expires).unwrap();
    cache.reap(0);
    let stats = cache.stats();
    assert_eq!((stats.reaped, cache.len()), (1, 1000));
    assert!((1..100).contains(&stats.inspected), "{}", stats.inspected);
    cache.reap(0);
    assert_eq!(cache.stats().inspected, stats.inspected);
    cache.flush(None);
    cache.reap(0);
    assert_eq!((cache.len(), cache.memory_bytes()), (0, 0));
}

/// Items move to other slots when many go.
#[test]
fn a_walk_visits_what_stays_once_while_others_go() {
    let cache = cache(64 * MIB);
    let keys: Vec<[u8; 4]> = (0..100_000_u32).map(u32::to_be_bytes).collect();
    let stays = |key: &[u8]| key[3].is_multiple_of(16);
    let mut of_shard = vec![Vec::new(); SHARDS];
    for key in &keys {
        put(&cache, key, &content(b"value")).unwrap();
        of_shard[shard_of(key)].push(key);
    }
    let mut seen = HashMap::new();
    cache.for_each(|item| {
        *seen.entry(item.key().to_vec()).or_insert(0) += 1;
        for key in std::mem::take(&mut of_shard[shard_of(item.key())]) {
            if !stays(key) {
                cache.update(key, |_, _| (Change::Remove, ())).unwrap();
            }
        }
    });
    assert!(seen.values().all(|times| *times == 1));
    let missed = (keys.iter()).filter(|key| stays(*key) && !seen.contains_key(&key[..]));
    assert_eq!(missed.count(), 0);
    check(&cache);
}

#[test]
fn threads_share_the_budget() {
    let cache = Arc::new(cache(MIB));
    let threads: Vec<_> = (0..4_u32)
        .map(|thread| {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                for index in 0..20_000_u32 {
                    let key = (index.wrapping_mul(2_654_435_761) % 5000).to_be_bytes();
                    let len = ((index ^ thread) % 3000) as usize;
                    put(&cache, &key, &content(&vec![0; len])).unwrap();
                    assert!(cache.memory_bytes() <= cache.memory_bytes_max());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    check(&cache);
    assert!(cache.memory_bytes() > MIB / 2);
}
