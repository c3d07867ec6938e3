//! Cost of single operations on a keyspace of 100 000 keys, and of pipelines of reads.

use std::collections::HashMap;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use parking_lot::Mutex;
use psp_store::{Keyspace, Value};

const KEYS: usize = 100_000;

fn keys() -> Vec<Vec<u8>> {
    (0..KEYS)
        .map(|index| format!("key:{index:012}").into_bytes())
        .collect()
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
                    Some(Value::String(text)) => {
                        text.as_slice().iter().map(|&byte| u64::from(byte)).sum()
                    }
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

criterion_group!(benches, single_operations, pipelines);
criterion_main!(benches);
