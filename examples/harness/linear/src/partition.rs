//! Calls that share no key cannot see each other, and are checked apart.

use std::collections::HashMap;

use crate::history::Call;
use crate::model::{Key, Operation};

/// Splits a history into the parts that share no key, also not through other calls. Each is in the order of begins.
#[must_use]
pub fn partitions<O: Operation>(calls: Vec<Call<O>>) -> Vec<Vec<Call<O>>> {
    let mut groups = Groups::default();
    for call in &calls {
        let keys = call.operation.keys();
        for pair in keys.windows(2) {
            groups.join(pair[0], pair[1]);
        }
    }
    let mut parts: HashMap<Key, Vec<Call<O>>> = HashMap::new();
    for call in calls {
        if let Some(&key) = call.operation.keys().first() {
            parts.entry(groups.find(key)).or_default().push(call);
        }
    }
    let mut parts: Vec<_> = parts.into_values().collect();
    for part in &mut parts {
        part.sort_by_key(|call| (call.begun, call.sequence));
    }
    parts.sort_by_key(|part| part[0].begun);
    parts
}

/// Sets of keys, each named by one of its keys.
#[derive(Default)]
struct Groups {
    parents: HashMap<Key, Key>,
}

impl Groups {
    fn find(&mut self, key: Key) -> Key {
        let mut root = key;
        while let Some(&parent) = self.parents.get(&root) {
            root = parent;
        }
        if root != key {
            self.parents.insert(key, root);
        }
        root
    }

    fn join(&mut self, one: Key, other: Key) {
        let (one, other) = (self.find(one), self.find(other));
        if one != other {
            self.parents.insert(one, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Reply, Request};

    #[test]
    fn calls_meet_through_the_keys_of_others() {
        let call = |begun, operation| Call {
            session: 0,
            sequence: begun,
            begun,
            ended: begun + 1,
            operation,
            reply: Some(Reply::Ok),
        };
        let calls = vec![
            call(0, Request::Get(1)),
            call(2, Request::Get(2)),
            call(4, Request::Get(3)),
            call(6, Request::Rename(3, 1)),
            call(8, Request::Get(2)),
        ];
        let begins: Vec<Vec<u64>> = partitions(calls)
            .iter()
            .map(|part| part.iter().map(|call| call.begun).collect())
            .collect();
        assert_eq!(begins, [vec![0, 4, 6], vec![2, 8]]);
    }
}
