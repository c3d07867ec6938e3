//! Compares both engines with the standard library's map.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use proptest::prelude::*;
use psp_rocksdb::engine::{Engine, Storage};

#[derive(Debug, Clone)]
enum Operation {
    Get(Vec<u8>),
    Put(Vec<u8>, Vec<u8>),
    Fill(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Scan(Vec<u8>, usize),
    /// A scan from the start that sets and deletes these keys on its way.
    Disturbed(Vec<(Vec<u8>, bool)>),
}

/// A key out of few, so that operations meet.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, b'a', b'b', 0xff]), 1..4)
}

fn operation() -> impl Strategy<Value = Operation> {
    let value = || prop::collection::vec(any::<u8>(), 0..20);
    let start = prop_oneof![Just(Vec::new()), key()];
    prop_oneof![
        2 => key().prop_map(Operation::Get),
        3 => (key(), value()).prop_map(|(key, value)| Operation::Put(key, value)),
        1 => (key(), value()).prop_map(|(key, value)| Operation::Fill(key, value)),
        2 => key().prop_map(Operation::Delete),
        2 => (start, 1_usize..20).prop_map(|(start, count)| Operation::Scan(start, count)),
        1 => prop::collection::vec((key(), any::<bool>()), 0..9).prop_map(Operation::Disturbed),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let is_there = engine.get(key, &mut |found| value = Some(found.to_vec()));
    assert_eq!(is_there, Ok(value.is_some()));
    value
}

fn scan(engine: &dyn Engine, start: &[u8], count: usize, mut between: impl FnMut()) -> Pairs {
    let mut pairs = Vec::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        between();
        pairs.push((key.to_vec(), value.to_vec()));
        if pairs.len() == count {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    engine.scan(start, visit).unwrap();
    pairs
}

fn run(engine: &dyn Engine, model: &mut Model, operation: Operation) {
    match operation {
        Operation::Get(key) => assert_eq!(get(engine, &key), model.get(&key).cloned()),
        Operation::Put(key, value) => {
            engine.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        Operation::Fill(key, value) => {
            engine.fill(&key, &value).unwrap();
            model.insert(key, value);
        }
        Operation::Delete(key) => {
            engine.delete(&key).unwrap();
            model.remove(&key);
        }
        Operation::Scan(start, count) => {
            let expected = model.range(start.clone()..).take(count);
            let expected: Pairs = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(scan(engine, &start, count, || ()), expected);
        }
        Operation::Disturbed(changes) => {
            let before: Pairs = model.clone().into_iter().collect();
            let mut changes = changes.into_iter();
            let found = scan(engine, b"", usize::MAX, || match changes.next() {
                Some((key, true)) => run(engine, model, Operation::Put(key, b"new".to_vec())),
                Some((key, false)) => run(engine, model, Operation::Delete(key)),
                None => {}
            });
            assert_eq!(found, before);
        }
    }
}

/// Opens RocksDB in `directory`, or memory if there is none.
fn open(directory: Option<&tempfile::TempDir>) -> Arc<dyn Engine> {
    let storage = directory.map_or(Storage::Memory, |directory| Storage::RocksDb {
        directory: directory.path().to_owned(),
        sync: false,
        block_cache_mb: Some(1),
    });
    storage.open().unwrap()
}

fn agrees(engine: &dyn Engine, operations: Vec<Operation>) {
    let mut model = Model::new();
    for operation in operations {
        run(engine, &mut model, operation);
    }
    let all: Pairs = model.into_iter().collect();
    assert_eq!(scan(engine, b"", usize::MAX, || ()), all);
}

proptest! {
    #[test]
    fn memory_is_an_ordered_map(operations in prop::collection::vec(operation(), 0..60)) {
        agrees(&*open(None), operations);
    }
}

#[cfg(feature = "rocksdb")]
proptest! {
    // Each case creates a database.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn rocksdb_is_an_ordered_map(operations in prop::collection::vec(operation(), 0..200)) {
        let directory = tempfile::tempdir().unwrap();
        agrees(&*open(Some(&directory)), operations);
    }
}
