//! Compares the keyspace with a `HashMap` under random operations.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use psp_store::{Keyspace, List, ListEnd, Value, unix_time_ms};

/// An expiry time that no test reaches.
const LATER_MS: u64 = 1 << 50;

#[derive(Debug, Clone)]
enum Operation {
    Insert(u8, u8),
    InsertAllIfAbsent(Vec<(u8, u8)>),
    InsertAll(Vec<(u8, u8)>),
    RemoveAll(Vec<u8>),
    ReadAll(Vec<u8>),
    Remove(u8),
    Rename(u8, u8),
    Push(u8, u8),
    Pop(u8),
    PushLarge(u8, u8),
    Expire(u8, bool),
    Persist(u8),
    RemoveExpired,
    Clear,
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || 0..40u8;
    prop_oneof![
        8 => (key(), any::<u8>()).prop_map(|(key, value)| Operation::Insert(key, value)),
        2 => prop::collection::vec((key(), any::<u8>()), 1..4)
            .prop_map(Operation::InsertAllIfAbsent),
        2 => prop::collection::vec((key(), any::<u8>()), 1..4).prop_map(Operation::InsertAll),
        2 => prop::collection::vec(key(), 1..4).prop_map(Operation::RemoveAll),
        2 => prop::collection::vec(key(), 1..100).prop_map(Operation::ReadAll),
        4 => key().prop_map(Operation::Remove),
        2 => (key(), key()).prop_map(|(from, to)| Operation::Rename(from, to)),
        4 => (key(), any::<u8>()).prop_map(|(key, value)| Operation::Push(key, value)),
        4 => key().prop_map(Operation::Pop),
        2 => (key(), any::<u8>()).prop_map(|(key, value)| Operation::PushLarge(key, value)),
        3 => (key(), any::<bool>()).prop_map(|(key, past)| Operation::Expire(key, past)),
        2 => key().prop_map(Operation::Persist),
        1 => Just(Operation::RemoveExpired),
        1 => Just(Operation::Clear),
    ]
}

#[derive(Debug, Clone, PartialEq)]
struct Expected {
    value: ExpectedValue,
    expires: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum ExpectedValue {
    String(u8),
    List(Vec<u8>),
}

type Model = HashMap<u8, Expected>;

fn name(key: u8) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

fn push(slot: &mut psp_store::Slot<'_>, value: u8) {
    let list = slot.value_or_insert_with(|| Value::List(List::default()));
    if let Value::List(list) = list {
        list.push(ListEnd::Right, [value].as_slice());
    }
}

fn model_push(model: &mut Model, key: u8, value: u8) {
    let entry = model
        .entry(key)
        .or_insert_with(|| Expected { value: ExpectedValue::List(Vec::new()), expires: false });
    if let ExpectedValue::List(list) = &mut entry.value {
        list.push(value);
    }
}

fn apply(store: &Keyspace, model: &mut Model, operation: Operation) {
    match operation {
        Operation::Insert(key, value) => {
            store.insert(&name(key), Value::string(&[value]));
            let value = ExpectedValue::String(value);
            model.insert(key, Expected { value, expires: false });
        }
        Operation::InsertAllIfAbsent(pairs) => {
            let names: Vec<_> = pairs.iter().map(|(key, _)| name(*key)).collect();
            let values = pairs.iter().map(|(_, value)| Value::string(&[*value]));
            let inserted = store.insert_all_if_absent(names.iter().map(Vec::as_slice).zip(values));
            assert_eq!(inserted, pairs.iter().all(|(key, _)| !model.contains_key(key)));
            if inserted {
                for (key, value) in pairs {
                    let value = ExpectedValue::String(value);
                    model.insert(key, Expected { value, expires: false });
                }
            }
        }
        Operation::InsertAll(pairs) => {
            let names: Vec<_> = pairs.iter().map(|(key, _)| name(*key)).collect();
            let values = pairs.iter().map(|(_, value)| Value::string(&[*value]));
            store.insert_all(names.iter().map(Vec::as_slice).zip(values));
            model.extend(pairs.into_iter().map(|(key, value)| {
                let value = ExpectedValue::String(value);
                let expires = false;
                (key, Expected { value, expires })
            }));
        }
        Operation::RemoveAll(keys) => {
            let names: Vec<_> = keys.iter().map(|key| name(*key)).collect();
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let existed = keys.iter().filter(|key| model.remove(key).is_some());
            assert_eq!(store.remove_all(&names), existed.count());
        }
        Operation::ReadAll(keys) => {
            let names: Vec<_> = keys.iter().map(|key| name(*key)).collect();
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let mut found = Vec::new();
            store.with_all(&names, |value| found.push(value.map(content)));
            let expected = keys.iter().map(|key| Some(model.get(key)?.value.clone()));
            assert_eq!(found, expected.collect::<Vec<_>>());
            let mut exist = found.iter().map(Option::is_some);
            store.glance_all(&names, |entry| {
                assert_eq!(Some(entry.is_some()), exist.next());
            });
        }
        Operation::Remove(key) => {
            assert_eq!(store.remove(&name(key)), model.remove(&key).is_some());
        }
        Operation::Rename(from, to) if from == to => {}
        Operation::Rename(from, to) => {
            let renamed = store.update_pair(&name(from), &name(to), |from, to| {
                let expire_at_ms = from.expire_at_ms();
                let value = from.remove();
                let found = value.is_some();
                if let Some(value) = value {
                    to.insert(value);
                    to.set_expire_at_ms(expire_at_ms);
                }
                found
            });
            let moved = model.remove(&from);
            assert_eq!(renamed, moved.is_some());
            model.extend(moved.map(|entry| (to, entry)));
        }
        Operation::Push(key, value) => {
            store.update(&name(key), |slot| push(slot, value));
            model_push(model, key, value);
        }
        Operation::PushLarge(key, value) => {
            store.update_large(&name(key), |slot| push(slot, value));
            model_push(model, key, value);
        }
        Operation::Pop(key) => {
            store.update(&name(key), |slot| {
                if let Some(Value::List(list)) = slot.value_mut() {
                    list.pop(ListEnd::Left);
                }
            });
            if let Some(Expected { value: ExpectedValue::List(list), .. }) = model.get_mut(&key) {
                list.remove(0);
                if list.is_empty() {
                    model.remove(&key);
                }
            }
        }
        Operation::Expire(key, past) => {
            let at_ms = if past { unix_time_ms() - 1 } else { LATER_MS };
            store.update(&name(key), |slot| slot.set_expire_at_ms(Some(at_ms)));
            if past {
                model.remove(&key);
            } else if let Some(entry) = model.get_mut(&key) {
                entry.expires = true;
            }
        }
        Operation::Persist(key) => {
            store.update(&name(key), |slot| slot.set_expire_at_ms(None));
            if let Some(entry) = model.get_mut(&key) {
                entry.expires = false;
            }
        }
        Operation::RemoveExpired => {
            store.remove_expired();
            assert_eq!(store.len(), model.len());
            let volatile = model.values().filter(|entry| entry.expires).count();
            assert_eq!(store.volatile_len(), volatile);
        }
        Operation::Clear => {
            store.clear();
            model.clear();
        }
    }
}

fn content(value: &Value) -> ExpectedValue {
    match value {
        Value::String(string) => ExpectedValue::String(string[0]),
        Value::List(list) => ExpectedValue::List(list.iter().map(|element| element[0]).collect()),
        other => panic!("no operation stores {other:?}"),
    }
}

fn contents(store: &Keyspace) -> BTreeMap<Vec<u8>, Expected> {
    let mut found = BTreeMap::new();
    store.for_each(|entry| {
        let expected = Expected {
            value: content(entry.value()),
            expires: entry.expire_at_ms().is_some(),
        };
        assert!(found.insert(entry.key().to_vec(), expected).is_none(), "visited twice");
    });
    found
}

proptest! {
    #[test]
    fn behaves_as_a_map(operations in prop::collection::vec(operation(), 1..200)) {
        let store = Keyspace::new();
        let mut model = Model::new();
        for operation in operations {
            apply(&store, &mut model, operation);
            for key in 0..40u8 {
                let found = store.get(&name(key)).map(|value| content(&value));
                prop_assert_eq!(found, model.get(&key).map(|entry| entry.value.clone()));
            }
        }
        let expected: BTreeMap<_, _> =
            model.iter().map(|(key, entry)| (name(*key), entry.clone())).collect();
        prop_assert_eq!(contents(&store), expected);
        store.remove_expired();
        prop_assert_eq!(store.len(), model.len());
        let random = store.random_entry().map(|entry| entry.key().to_vec());
        prop_assert_eq!(random.is_some(), !model.is_empty());
    }

    /// A scan visits a key that stays exactly once, whatever is added or removed between its steps.
    #[test]
    fn a_scan_visits_a_key_that_stays_exactly_once(
        operations in prop::collection::vec(operation(), 1..100),
        count in 1..20usize,
    ) {
        let store = Keyspace::new();
        let stays: Vec<_> = (0..100).map(|index| format!("stays {index}").into_bytes()).collect();
        for key in &stays {
            store.insert(key, Value::string(b"x"));
        }
        let mut model = Model::new();
        let mut visits: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut operations =
            operations.into_iter().filter(|operation| !matches!(operation, Operation::Clear));
        let mut cursor = 0;
        loop {
            let mut visited = 0;
            cursor = store.scan(cursor, count, |entry| {
                visited += 1;
                *visits.entry(entry.key().to_vec()).or_default() += 1;
            });
            prop_assert!(visited <= count, "{} for {}", visited, count);
            if cursor == 0 {
                break;
            }
            if let Some(operation) = operations.next()
                && !matches!(operation, Operation::RemoveExpired)
            {
                apply(&store, &mut model, operation);
            }
        }
        for key in &stays {
            prop_assert_eq!(visits.get(key), Some(&1));
        }
        prop_assert!(visits.values().all(|times| *times == 1));
    }
}
