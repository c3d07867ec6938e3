//! Items with the text commands of psp-memcached that docs/memcached.md promises to be atomic.

use std::collections::BTreeMap;

use rand::RngExt;

use super::{Key, Operation};
use crate::recorder::Draw;

/// An item of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its value.
    pub value: String,
    /// Its CAS value, if a client has seen it.
    unique: Option<u64>,
}

/// All items, and what clients know of their CAS values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cache {
    items: BTreeMap<Key, Item>,
    /// The last CAS value that a client has seen of each key. CAS values of a key rise.
    seen: BTreeMap<Key, u64>,
}

/// How a command stores a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Whatever there is.
    Set,
    /// If there is no item.
    Add,
    /// If there is one.
    Replace,
    /// Behind the value.
    Append,
    /// Before the value.
    Prepend,
}

/// A command of the text protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `get`.
    Get(Key),
    /// `gets`. It enters a history as [`Command::Saw`].
    Gets(Key),
    /// A `gets` that has seen this CAS value.
    Saw(Key, u64),
    /// One of the commands that store.
    Store(Store, Key, String),
    /// `cas` with this CAS value.
    Cas(Key, String, u64),
    /// `incr`.
    Incr(Key, u64),
    /// `decr`.
    Decr(Key, u64),
    /// `delete`.
    Delete(Key),
}

/// What psp-memcached answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The item of `get`.
    Value(String),
    /// The item of `gets` with its CAS value.
    Unique(String, u64),
    /// A line, such as `STORED`, the number of `incr`, or `END` in place of an item.
    Line(String),
}

impl Reply {
    fn line(text: &str) -> Self {
        Self::Line(text.to_owned())
    }
}

/// What `incr` and `decr` answer to a value that is not a number.
const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

impl Command {
    /// A command for one of four keys of a round. `unique` is the last CAS value that the client has seen of a key.
    pub fn draw(draw: Draw<'_>, unique: impl Fn(Key) -> Option<u64>) -> Self {
        let Draw { random, first_key, number } = draw;
        let key = first_key + random.random_range(0..4);
        let value = number.to_string();
        match random.random_range(0..100) {
            0..15 => Self::Get(key),
            15..35 => Self::Gets(key),
            35..55 => match unique(key) {
                Some(unique) => Self::Cas(key, value, unique),
                None => Self::Gets(key),
            },
            55..62 => Self::Store(Store::Set, key, value),
            62..67 => Self::Store(Store::Add, key, value),
            67..71 => Self::Store(Store::Replace, key, value),
            71..76 => Self::Store(Store::Append, key, (1 + number % 9).to_string()),
            76..79 => Self::Store(Store::Prepend, key, (1 + number % 9).to_string()),
            79..88 => Self::Incr(key, random.random_range(1..100)),
            88..94 => Self::Decr(key, random.random_range(1..100)),
            _ => Self::Delete(key),
        }
    }

    /// The bytes of the command. Key 7 is `k7`.
    #[must_use]
    pub fn bytes(&self) -> String {
        match self {
            Self::Get(key) => format!("get k{key}\r\n"),
            Self::Gets(key) | Self::Saw(key, _) => format!("gets k{key}\r\n"),
            Self::Store(store, key, value) => {
                let command = store.command();
                format!("{command} k{key} 0 0 {}\r\n{value}\r\n", value.len())
            }
            Self::Cas(key, value, unique) => {
                format!("cas k{key} 0 0 {} {unique}\r\n{value}\r\n", value.len())
            }
            Self::Incr(key, delta) => format!("incr k{key} {delta}\r\n"),
            Self::Decr(key, delta) => format!("decr k{key} {delta}\r\n"),
            Self::Delete(key) => format!("delete k{key}\r\n"),
        }
    }

    fn key(&self) -> Key {
        match self {
            Self::Get(key) | Self::Gets(key) | Self::Saw(key, _) | Self::Store(_, key, _) => *key,
            Self::Cas(key, ..) | Self::Incr(key, _) | Self::Decr(key, _) | Self::Delete(key) => *key,
        }
    }
}

impl Store {
    fn command(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
        }
    }

    /// The value to store in place of `old`; `None` to store nothing.
    fn value(self, old: Option<&str>, new: &str) -> Option<String> {
        match (self, old) {
            (Self::Set, _) | (Self::Add, None) | (Self::Replace, Some(_)) => Some(new.to_owned()),
            (Self::Append, Some(old)) => Some(format!("{old}{new}")),
            (Self::Prepend, Some(old)) => Some(format!("{new}{old}")),
            _ => None,
        }
    }
}

impl Cache {
    fn value(&self, key: Key) -> Option<&str> {
        self.items.get(&key).map(|item| &*item.value)
    }

    fn store(&mut self, key: Key, value: String) {
        let unique = None;
        self.items.insert(key, Item { value, unique });
    }

    /// A client sees the CAS value of an item, if the item can have it. Returns the one that the item has.
    fn see(&mut self, key: Key, unique: u64) -> Option<u64> {
        let item = self.items.get_mut(&key)?;
        let is_new = self.seen.get(&key).is_none_or(|&last| last < unique);
        if item.unique.is_none() && is_new {
            item.unique = Some(unique);
            self.seen.insert(key, unique);
        }
        item.unique
    }

    /// Changes a number as `incr` and `decr` do.
    fn count(&mut self, key: Key, change: impl Fn(u64) -> u64) -> Reply {
        let Some(value) = self.value(key) else {
            return Reply::line("NOT_FOUND");
        };
        let Ok(old) = value.split(' ').next().unwrap_or_default().parse() else {
            return Reply::line(NOT_A_NUMBER);
        };
        let (new, width) = (change(old).to_string(), value.len());
        // A shorter number keeps the old length.
        self.store(key, format!("{new:<width$}"));
        Reply::Line(new)
    }
}

impl Operation for Command {
    type State = Cache;
    type Reply = Reply;

    fn keys(&self) -> Vec<Key> {
        vec![self.key()]
    }

    fn apply(&self, cache: &mut Cache) -> Reply {
        match self {
            Self::Get(key) => match cache.value(*key) {
                Some(value) => Reply::Value(value.to_owned()),
                None => Reply::line("END"),
            },
            // No client knows what this one has seen.
            Self::Gets(key) => Self::Get(*key).apply(cache),
            Self::Saw(key, unique) => match cache.see(*key, *unique) {
                Some(unique) => Reply::Unique(cache.items[key].value.clone(), unique),
                None => Self::Get(*key).apply(cache),
            },
            Self::Store(store, key, value) => match store.value(cache.value(*key), value) {
                Some(value) => {
                    cache.store(*key, value);
                    Reply::line("STORED")
                }
                None => Reply::line("NOT_STORED"),
            },
            Self::Cas(key, value, unique) => match cache.items.get(key) {
                Some(item) if item.unique == Some(*unique) => {
                    cache.store(*key, value.clone());
                    Reply::line("STORED")
                }
                Some(_) => Reply::line("EXISTS"),
                None => Reply::line("NOT_FOUND"),
            },
            Self::Incr(key, delta) => cache.count(*key, |old| old.wrapping_add(*delta)),
            Self::Decr(key, delta) => cache.count(*key, |old| old.saturating_sub(*delta)),
            Self::Delete(key) => match cache.items.remove(key) {
                Some(_) => Reply::line("DELETED"),
                None => Reply::line("NOT_FOUND"),
            },
        }
    }

    fn parts(self, reply: Option<Reply>) -> Vec<(Self, Option<Reply>)> {
        match (self, reply) {
            (Self::Gets(key), Some(Reply::Unique(value, unique))) => {
                vec![(Self::Saw(key, unique), Some(Reply::Unique(value, unique)))]
            }
            (command, reply) => vec![(command, reply)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, check};

    fn line(text: &str) -> Reply {
        Reply::line(text)
    }

    fn store(store: Store, value: &str) -> Command {
        Command::Store(store, 0, value.to_owned())
    }

    #[test]
    fn commands_one_after_the_other() {
        let value = |text: &str| Reply::Value(text.to_owned());
        let saw = |text: &str, unique| Reply::Unique(text.to_owned(), unique);
        let cas = |unique| Command::Cas(0, "9".to_owned(), unique);
        let cache = &mut Cache::default();
        for (command, reply) in [
            (Command::Get(0), line("END")),
            (store(Store::Append, "1"), line("NOT_STORED")),
            (store(Store::Replace, "1"), line("NOT_STORED")),
            (store(Store::Add, "5"), line("STORED")),
            (store(Store::Add, "6"), line("NOT_STORED")),
            (store(Store::Append, "0"), line("STORED")),
            (store(Store::Prepend, "1"), line("STORED")),
            (Command::Decr(0, 51), line("99")),
            (Command::Get(0), value("99 ")),
            (cas(7), line("EXISTS")),
            (Command::Saw(0, 7), saw("99 ", 7)),
            (cas(7), line("STORED")),
            (cas(7), line("EXISTS")),
            (Command::Incr(0, 1), line("10")),
            (Command::Decr(0, 11), line("0")),
            (store(Store::Set, "x"), line("STORED")),
            (Command::Incr(0, 1), line(NOT_A_NUMBER)),
            (Command::Delete(0), line("DELETED")),
            (Command::Delete(0), line("NOT_FOUND")),
            (cas(7), line("NOT_FOUND")),
        ] {
            assert_eq!(command.apply(cache), reply, "{command:?}");
        }
    }

    fn is_accepted(commands: Vec<(Command, Reply)>) -> bool {
        let call = |(begun, (operation, reply))| Call {
            session: 0,
            sequence: begun,
            begun: 2 * begun,
            ended: 2 * begun + 1,
            operation,
            reply: Some(reply),
        };
        let calls: Vec<_> = (0..).zip(commands).map(call).collect();
        check(&calls).is_ok()
    }

    #[test]
    fn a_cas_value_names_one_store() {
        let saw = |unique| (Command::Saw(0, unique), Reply::Unique("1".to_owned(), unique));
        let set = || (store(Store::Set, "1"), line("STORED"));
        let cas = |reply| (Command::Cas(0, "1".to_owned(), 3), line(reply));
        assert!(is_accepted(vec![set(), saw(3), cas("STORED"), saw(4)]));
        assert!(!is_accepted(vec![set(), saw(3), cas("STORED"), saw(3)]));
        assert!(!is_accepted(vec![set(), saw(3), saw(4)]));
        assert!(!is_accepted(vec![set(), saw(3), set(), saw(2)]));
        assert!(!is_accepted(vec![set(), saw(3), set(), cas("STORED")]), "a lost update");
    }
}
