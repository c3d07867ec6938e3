//! Cost of single operations on a keyspace of 100 000 keys, of pipelines of reads, and of transactions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use parking_lot::Mutex;
use psp_store::{Databases, Keyspace, Value};

const KEYS: usize = 100_000;

fn keys() -> Vec<Vec<u8>> {
    (0..KEYS).map(|index| format!("key:{index:012}").into_bytes()).collect()
}

fn filled(keys: &[Vec<u8>]) -> Keyspace {
    let store = Keyspace::new();
    for key in keys {
        store.insert(key, Value::string(b"value"));
    }
    store
}

fn single_operations(criterion: &mut Criterion) {
    let keys = keys();
    let store = filled(&keys);
    let mut group = criterion.benchmark_group("keyspace");
    let mut index = 0;
    let mut next = || {
        index = (index + 7919) % KEYS;
        &keys[index][..]
    };
    group.bench_function("get", |bencher| {
        bencher.iter(|| store.with(next(), |value| value.map(Value::cardinality)));
    });
    // The baseline. The machine's speed drifts; the ratio to the baseline does not.
    let plain: Mutex<HashMap<Box<[u8]>, Arc<Value>>> = Mutex::new(
        keys.iter()
            .map(|key| (key.as_slice().into(), Arc::new(Value::string(b"value"))))
            .collect(),
    );
    group.bench_function("get from a HashMap behind one lock", |bencher| {
        bencher.iter(|| {
            let found = plain.lock().get(next()).cloned();
            found.map(|value| value.cardinality())
        });
    });
    group.bench_function("overwrite", |bencher| {
        bencher.iter(|| store.insert(next(), Value::string(b"other")));
    });
    group.bench_function("insert and remove", |bencher| {
        let fresh: Vec<u8> = b"a key that is new".to_vec();
        bencher.iter(|| {
            store.insert(&fresh, Value::string(b"value"));
            store.remove(&fresh)
        });
    });
    group.bench_function("snapshot of one shard and overwrite", |bencher| {
        bencher.iter(|| {
            let key = next();
            let mut first = true;
            store.scan(0, 1, |_| {
                if std::mem::take(&mut first) {
                    store.insert(key, Value::string(b"other"));
                }
            })
        });
    });
    group.bench_function("walk all keys", |bencher| {
        bencher.iter(|| {
            let mut bytes = 0;
            store.for_each(|entry| bytes += entry.key().len());
            bytes
        });
    });
    group.finish();
}

/// `key:` and 12 digits, as in [`keys`].
fn key(mut index: usize) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    for digit in key[4..].iter_mut().rev() {
        *digit += (index % 10) as u8;
        index /= 10;
    }
    key
}

/// Random keys, as many as one pipeline has. Their bytes are in the caches, as those of requests are.
fn pipelines(criterion: &mut Criterion) {
    const PIPELINE: usize = 16;
    for (size, count) in [("100 000 keys", 100_000), ("a million keys", 1_000_000)] {
        for (value, text) in [("short", &b"value"[..]), ("64 bytes long", &[b'v'; 64])] {
            let store = Keyspace::new();
            (0..count).for_each(|index| store.insert(&key(index), Value::string(text)));
            let mut state = 88_172_645_463_325_252_u64;
            let mut draw = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                key(state as usize % count)
            };
            let get = |key: &[u8; 16]| {
                store.with(key, |value| match value {
                    Some(Value::String(text)) => text.as_slice().iter().map(|&byte| u64::from(byte)).sum(),
                    _ => 0_u64,
                })
            };
            let name = format!("keyspace, 16 of {size}, values {value}");
            let mut group = criterion.benchmark_group(name);
            group.throughput(Throughput::Elements(PIPELINE as u64));
            group.bench_function("get each", |bencher| {
                bencher.iter(|| {
                    let keys: [_; PIPELINE] = std::array::from_fn(|_| draw());
                    keys.iter().map(get).sum::<u64>()
                });
            });
            group.bench_function("prefetch all and get each", |bencher| {
                bencher.iter(|| {
                    let keys: [_; PIPELINE] = std::array::from_fn(|_| draw());
                    store.prefetch(keys.iter().map(|key| &key[..]));
                    keys.iter().map(get).sum::<u64>()
                });
            });
            group.finish();
        }
    }
}

/// For how long commits have held the locks of many shards.
static HELD_NS: AtomicU64 = AtomicU64::new(0);

/// A transaction of 10 000 writes: all of it, and how long it keeps others from their keys.
fn transactions(criterion: &mut Criterion) {
    const WRITES: usize = 10_000;
    let keys = keys();
    let databases = Arc::new(Databases::new(1));
    databases.hold_locks_by(|section| {
        let began = Instant::now();
        section();
        let held_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        HELD_NS.fetch_add(held_ns, Ordering::Relaxed);
    });
    let store = databases.get(0);
    for key in &keys {
        store.insert(key, Value::string(b"value"));
    }
    let mut start = 0;
    let mut write = || {
        start = (start + WRITES) % KEYS;
        let done = databases.transact(&[], |fork| {
            for key in &keys[start..start + WRITES] {
                fork.get(0).insert(key, Value::string(b"value"));
            }
        });
        assert_eq!(done, Some(()));
    };
    let mut group = criterion.benchmark_group("transaction of 10 000 writes");
    group.sample_size(20);
    group.bench_function("all", |bencher| bencher.iter(&mut write));
    group.bench_function("its locks", |bencher| {
        bencher.iter_custom(|times| {
            let before_ns = HELD_NS.load(Ordering::Relaxed);
            (0..times).for_each(|_| write());
            Duration::from_nanos(HELD_NS.load(Ordering::Relaxed) - before_ns)
        });
    });
    group.finish();
}

criterion_group!(benches, single_operations, pipelines, transactions);
criterion_main!(benches);
