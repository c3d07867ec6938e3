//! Cost of single operations on a keyspace of 100 000 keys.

use std::collections::HashMap;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
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

criterion_group!(benches, single_operations);
criterion_main!(benches);
