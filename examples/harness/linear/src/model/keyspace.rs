//! Strings, counters and lists with the commands of psp-redis, as docs/redis.md promises them: atomic on one key, and
//! MSET, MGET, MSETNX, RENAME, COPY, LMOVE, transactions and scripts on all of theirs. Commands that wait look at one
//! of their keys after the other, and give up after some milliseconds.
//!
//! Keys that expire are strings of their own. When each of them dies, an operation that no client sends says: a
//! [`Request::Dies`] enters the history with what gives the key its life, and may happen at any time since, or never.
//! It never happens within another operation, so all that a transaction or a script sees of a key is as of one instant.
//!
//! A transaction that EXEC carries out reads its watched key at the same instant, as that has not changed since. One
//! that EXEC does not carry out enters a history as three operations: the watch, the read, and an [`Request::Abort`],
//! before which another client must have done something with the key.

mod draw;
mod script;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Key, Operation};

pub use script::{Calling, Script};

/// The text of a string or of an element.
pub type Text = Arc<str>;

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The head.
    Left,
    /// The tail.
    Right,
}

/// A value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A string or a counter.
    Text(Text),
    /// A list. It is never empty. The states of a search share it until it changes.
    List(Arc<VecDeque<Text>>),
}

/// The life of a key that expires: its number, which no other life has.
pub type Life = u64;

/// The life of keys that outlive the test.
const LONG: Life = 0;

/// How long a life lasts, in milliseconds: so short that keys die under the requests of their round.
fn life_ms(life: Life) -> u64 {
    1 + life % 3
}

/// How long commands wait, in seconds: so short that clients which wait for each other go on soon.
const TIMEOUT: &str = "0.002";

/// All keys that exist, and who watches one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyspace {
    values: BTreeMap<Key, Value>,
    /// Of those that expire.
    lives: BTreeMap<Key, Life>,
    /// By the numbers of watches. Those of transactions that EXEC carries out are not in here.
    watches: BTreeMap<u64, WatchedKey>,
}

#[cfg(test)]
impl Keyspace {
    /// The lives of all keys end that do not outlive the test.
    pub(crate) fn expire(&mut self) {
        for (key, life) in self.lives.clone() {
            if life != LONG {
                Dies(key, life).apply(self);
            }
        }
    }

    pub(crate) fn immortalize(&mut self, key: Key) {
        self.lives.remove(&key);
    }
}

/// A watched key, and whether a command may have changed it since.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WatchedKey {
    key: Key,
    may_have_changed: bool,
}

/// What psp-redis answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// A null.
    Nil,
    /// An integer.
    Number(i64),
    /// A bulk string.
    Text(Text),
    /// An array.
    List(Vec<Reply>),
    /// An error with its text.
    Error(Text),
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// GET.
    Get(Key),
    /// SET.
    Set(Key, Text),
    /// SETNX.
    SetNx(Key, Text),
    /// GETSET.
    GetSet(Key, Text),
    /// APPEND.
    Append(Key, Text),
    /// INCRBY.
    IncrBy(Key, i64),
    /// DEL of one key.
    Del(Key),
    /// SET with PX.
    SetPx(Key, Text, Life),
    /// SET with NX, and an EX so long that the key does not die.
    SetNxEx(Key, Text),
    /// PEXPIRE.
    Pexpire(Key, Life),
    /// PTTL, of which all times count as 0.
    Pttl(Key),
    /// EXISTS.
    Exists(Vec<Key>),
    /// The end of this life. No client sends it.
    Dies(Key, Life),
    /// LPUSH or RPUSH.
    Push(Side, Key, Vec<Text>),
    /// LPOP or RPOP of one element.
    Pop(Side, Key),
    /// BLPOP or BRPOP.
    PopWaiting(Side, Vec<Key>),
    /// BLMPOP of so many elements.
    PopManyWaiting(Side, Vec<Key>, usize),
    /// LRANGE of the whole list.
    Range(Key),
    /// LMOVE from a side of a list to a side of a list; RPOPLPUSH where it means the same.
    Move(Key, Side, Key, Side),
    /// BLMOVE, as [`Request::Move`].
    MoveWaiting(Key, Side, Key, Side),
    /// RENAME of the first to the second.
    Rename(Key, Key),
    /// COPY of the first to the second; with REPLACE or without.
    Copy(Key, Key, bool),
    /// MSETNX.
    MsetNx(Vec<(Key, Text)>),
    /// MSET.
    Mset(Vec<(Key, Text)>),
    /// MGET.
    Mget(Vec<Key>),
    /// MULTI, these commands, and EXEC.
    Transaction(Vec<Request>),
    /// WATCH and GET of the key, and a transaction. The number is the watch's.
    Watched(u64, Key, Vec<Request>),
    /// A script with its keys.
    Run(Script, Calling, [Key; 2]),
    /// The WATCH of a transaction that EXEC does not carry out.
    Watch(u64, Key),
    /// The EXEC that does not carry it out.
    Abort(u64, Key),
    /// A pop that finds another type at one of its keys.
    Mistyped(Vec<Key>),
}

use Request::{
    Abort, Append, Copy, Del, Dies, Exists, Get, GetSet, IncrBy, Mget, Mistyped, Move, MoveWaiting, Mset, MsetNx,
    Pexpire, Pop, PopManyWaiting, PopWaiting, Pttl, Push, Range, Rename, Run, Set, SetNx, SetNxEx, SetPx, Transaction,
    Watch, Watched,
};

impl Request {
    /// The commands of the request, each with its words. Key 7 is `k7`. What the client reads is the last reply; of a
    /// transaction that watches a key it is the replies to GET and EXEC.
    ///
    /// # Panics
    /// When the request is a part of another one.
    #[must_use]
    pub fn commands(&self) -> Vec<Vec<String>> {
        let transaction = |requests: &[Self]| {
            let [begin, end] = ["MULTI", "EXEC"].map(|word| vec![vec![word.to_owned()]]);
            [begin, requests.iter().map(Self::words).collect(), end].concat()
        };
        match self {
            Transaction(requests) => transaction(requests),
            Watched(_, key, requests) => {
                let words = |command: &str| vec![command.to_owned(), name(*key)];
                let before = ["WATCH", "GET"].map(words).to_vec();
                [before, transaction(requests)].concat()
            }
            request => vec![request.words()],
        }
    }

    /// The words of a request of one command.
    fn words(&self) -> Vec<String> {
        let key = |key: &Key| name(*key);
        let pairs = |pairs: &[(Key, Text)]| -> Vec<String> {
            let words = pairs.iter().map(|(name, text)| [key(name), text.to_string()]);
            words.flatten().collect()
        };
        let (command, arguments) = match self {
            Get(name) => ("GET", vec![key(name)]),
            Set(name, text) => ("SET", vec![key(name), text.to_string()]),
            SetNx(name, text) => ("SETNX", vec![key(name), text.to_string()]),
            GetSet(name, text) => ("GETSET", vec![key(name), text.to_string()]),
            Append(name, text) => ("APPEND", vec![key(name), text.to_string()]),
            IncrBy(name, delta) => ("INCRBY", vec![key(name), delta.to_string()]),
            Del(name) => ("DEL", vec![key(name)]),
            SetPx(name, text, life) => {
                let ms = life_ms(*life).to_string();
                ("SET", vec![key(name), text.to_string(), "PX".into(), ms])
            }
            SetNxEx(name, text) => {
                let options = ["NX", "EX", "1000"].map(str::to_owned);
                ("SET", [&[key(name), text.to_string()][..], &options].concat())
            }
            Pexpire(name, life) => ("PEXPIRE", vec![key(name), life_ms(*life).to_string()]),
            Pttl(name) => ("PTTL", vec![key(name)]),
            Exists(names) => ("EXISTS", names.iter().map(key).collect()),
            Push(side, name, elements) => {
                let command = side.choose("LPUSH", "RPUSH");
                let elements = elements.iter().map(ToString::to_string);
                (command, [key(name)].into_iter().chain(elements).collect())
            }
            Pop(side, name) => (side.choose("LPOP", "RPOP"), vec![key(name)]),
            PopWaiting(side, names) => {
                let command = side.choose("BLPOP", "BRPOP");
                let timeout = [TIMEOUT.to_owned()];
                (command, names.iter().map(key).chain(timeout).collect())
            }
            PopManyWaiting(side, names, count) => {
                let before = [TIMEOUT.to_owned(), names.len().to_string()];
                let side = side.choose("LEFT", "RIGHT").to_owned();
                let after = [side, "COUNT".to_owned(), count.to_string()];
                let names = names.iter().map(key);
                ("BLMPOP", before.into_iter().chain(names).chain(after).collect())
            }
            Range(name) => ("LRANGE", vec![key(name), "0".into(), "-1".into()]),
            Move(from, Side::Right, to, Side::Left) => ("RPOPLPUSH", vec![key(from), key(to)]),
            Move(from, from_side, to, to_side) => {
                let sides = [from_side, to_side].map(|side| side.choose("LEFT", "RIGHT").into());
                ("LMOVE", [[key(from), key(to)], sides].concat())
            }
            MoveWaiting(from, from_side, to, to_side) => {
                let sides = [from_side, to_side].map(|side| side.choose("LEFT", "RIGHT").into());
                let keys = [key(from), key(to)];
                ("BLMOVE", [&keys[..], &sides, &[TIMEOUT.into()]].concat())
            }
            Rename(from, to) => ("RENAME", vec![key(from), key(to)]),
            Copy(from, to, replace) => {
                let replace = replace.then(|| "REPLACE".into());
                ("COPY", [key(from), key(to)].into_iter().chain(replace).collect())
            }
            MsetNx(named) => ("MSETNX", pairs(named)),
            Mset(named) => ("MSET", pairs(named)),
            Mget(names) => ("MGET", names.iter().map(key).collect()),
            Run(script, calling, names) => {
                let (command, arguments) = script.words(*calling);
                let names = names.iter().map(key);
                (command, arguments.into_iter().chain(names).collect())
            }
            Transaction(_) | Watched(..) => {
                unreachable!("transactions have several commands, and do not nest")
            }
            Watch(..) | Abort(..) | Mistyped(_) | Dies(..) => {
                unreachable!("parts of other requests")
            }
        };
        [command.to_owned()].into_iter().chain(arguments).collect()
    }
}

impl Request {
    /// The reply without the times that it tells.
    #[must_use]
    pub fn timeless(&self, reply: Reply) -> Reply {
        match (self, reply) {
            (Pttl(_), Reply::Number(ms)) => Reply::Number(ms.min(0)),
            (Transaction(requests), Reply::List(replies)) => {
                let replies = requests.iter().zip(replies);
                Reply::List(replies.map(|(request, reply)| request.timeless(reply)).collect())
            }
            (Watched(_, _, requests), Reply::List(mut replies)) => {
                let done = replies.pop().expect("the replies to GET and EXEC");
                replies.push(Transaction(requests.clone()).timeless(done));
                Reply::List(replies)
            }
            (_, reply) => reply,
        }
    }

    /// The lives that it may give to keys.
    fn lives(&self) -> Vec<(Key, Life)> {
        match self {
            SetPx(key, _, life) | Pexpire(key, life) => vec![(*key, *life)],
            Run(Script::Limit(life), _, keys) => vec![(keys[0], *life)],
            Transaction(requests) | Watched(_, _, requests) => requests.iter().flat_map(Self::lives).collect(),
            _ => Vec::new(),
        }
    }
}

fn name(key: Key) -> String {
    format!("k{key}")
}

impl Side {
    fn choose<T>(self, left: T, right: T) -> T {
        match self {
            Self::Left => left,
            Self::Right => right,
        }
    }

    fn push(self, list: &mut VecDeque<Text>, element: Text) {
        match self {
            Self::Left => list.push_front(element),
            Self::Right => list.push_back(element),
        }
    }

    fn pop(self, list: &mut VecDeque<Text>) -> Option<Text> {
        match self {
            Self::Left => list.pop_front(),
            Self::Right => list.pop_back(),
        }
    }
}

/// An error of a command, which changes nothing.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    WrongType,
    NotAnInteger,
    Overflow,
    NoSuchKey,
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        let text = match refusal {
            Refusal::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Refusal::NotAnInteger => "ERR value is not an integer or out of range",
            Refusal::Overflow => "ERR increment or decrement would overflow",
            Refusal::NoSuchKey => "ERR no such key",
        };
        Self::Error(text.into())
    }
}

impl From<Option<Text>> for Reply {
    fn from(text: Option<Text>) -> Self {
        text.map_or(Self::Nil, Self::Text)
    }
}

impl Operation for Request {
    type State = Keyspace;
    type Reply = Reply;

    fn keys(&self) -> Vec<Key> {
        match self {
            Get(key) | Set(key, _) | SetNx(key, _) | GetSet(key, _) | Append(key, _) => vec![*key],
            IncrBy(key, _) | Del(key) | Push(_, key, _) | Pop(_, key) => vec![*key],
            SetPx(key, _, _) | SetNxEx(key, _) | Pexpire(key, _) => vec![*key],
            Pttl(key) | Dies(key, _) => vec![*key],
            Exists(keys) => keys.clone(),
            Range(key) | Watch(_, key) | Abort(_, key) => vec![*key],
            PopWaiting(_, keys) | PopManyWaiting(_, keys, _) | Mistyped(keys) => keys.clone(),
            Run(_, _, keys) => keys.to_vec(),
            Move(from, _, to, _) | MoveWaiting(from, _, to, _) => vec![*from, *to],
            Rename(from, to) | Copy(from, to, _) => vec![*from, *to],
            MsetNx(pairs) | Mset(pairs) => pairs.iter().map(|(key, _)| *key).collect(),
            Mget(keys) => keys.clone(),
            Transaction(requests) => requests.iter().flat_map(Self::keys).collect(),
            Watched(_, key, requests) => {
                let others = requests.iter().flat_map(Self::keys);
                std::iter::once(*key).chain(others).collect()
            }
        }
    }

    fn apply(&self, state: &mut Keyspace) -> Reply {
        if self.by_itself(state) == Some(false) {
            return Reply::Nil;
        }
        let reply = apply(self, state).unwrap_or_else(Reply::from);
        let Keyspace { values, lives, .. } = state;
        lives.retain(|key, _| values.contains_key(key));
        if !state.watches.is_empty() && self.may_change() {
            let keys = self.keys();
            for watch in state.watches.values_mut() {
                watch.may_have_changed |= keys.contains(&watch.key);
            }
        }
        reply
    }

    fn parts(self, reply: Option<Reply>) -> Vec<(Self, Option<Reply>)> {
        let lives = self.lives().into_iter();
        let deaths = lives.map(|(key, life)| (Dies(key, life), None));
        let mut deaths: Vec<_> = deaths.collect();
        let mut parts = match self {
            Watched(number, key, _) if reply.as_ref().is_some_and(Reply::is_aborted) => {
                let Some(Reply::List(replies)) = reply else {
                    unreachable!("the replies to GET and EXEC");
                };
                let read = replies.into_iter().next();
                let [watch, abort] = [Watch(number, key), Abort(number, key)].map(|part| (part, Some(Reply::Nil)));
                vec![watch, (Get(key), read), abort]
            }
            PopWaiting(side, keys) if keys.len() > 1 => parts_of_pop(keys, reply, |key| PopWaiting(side, vec![key])),
            PopManyWaiting(side, keys, count) if keys.len() > 1 => {
                parts_of_pop(keys, reply, |key| PopManyWaiting(side, vec![key], count))
            }
            request => vec![(request, reply)],
        };
        parts.append(&mut deaths);
        parts
    }

    fn may_be_passed_over(&self) -> bool {
        matches!(self, Watched(..) | PopWaiting(..) | PopManyWaiting(..) | Dies(..))
    }

    fn by_itself(&self, state: &Keyspace) -> Option<bool> {
        match self {
            Dies(key, life) => Some(state.lives.get(key) == Some(life)),
            _ => None,
        }
    }
}

impl Request {
    /// Whether there are states that it changes.
    fn may_change(&self) -> bool {
        !matches!(
            self,
            Get(_)
                | Range(_)
                | Mget(_)
                | Pttl(_)
                | Exists(_)
                | Watch(..)
                | Abort(..)
                | Mistyped(_)
                | Run(Script::Read, ..)
        )
    }
}

impl Reply {
    /// Whether EXEC, the last of several commands, did nothing.
    fn is_aborted(&self) -> bool {
        matches!(self, Self::List(replies) if replies.last() == Some(&Self::Nil))
    }
}

/// A pop that looks at one key after the other found nothing at those before the one that it popped from. Unanswered,
/// it may have popped from any.
fn parts_of_pop(keys: Vec<Key>, reply: Option<Reply>, pop: impl Fn(Key) -> Request) -> Vec<(Request, Option<Reply>)> {
    let popped = match &reply {
        Some(Reply::Error(_)) => return vec![(Mistyped(keys), reply)],
        Some(Reply::List(items)) => items.first().cloned(),
        _ => None,
    };
    let is_popped = |key: Key| popped == Some(Reply::Text(name(key).into()));
    let mut parts = Vec::new();
    for key in keys {
        if is_popped(key) {
            parts.push((pop(key), reply));
            break;
        }
        parts.push((pop(key), reply.as_ref().map(|_| Reply::Nil)));
    }
    parts
}

fn apply(request: &Request, state: &mut Keyspace) -> Result<Reply, Refusal> {
    let number = |count: usize| Reply::Number(i64::try_from(count).expect("a small count"));
    // An old value's expiry stays.
    let change = |state: &mut Keyspace, key: Key, text: &Text| {
        state.values.insert(key, Value::Text(text.clone()));
    };
    let store = |state: &mut Keyspace, key: Key, text: &Text| {
        state.lives.remove(&key);
        change(state, key, text);
    };
    Ok(match request {
        Get(key) => text(state, *key)?.into(),
        Set(key, text) => {
            store(state, *key, text);
            Reply::Ok
        }
        SetNx(key, text) => {
            let is_new = !state.values.contains_key(key);
            if is_new {
                store(state, *key, text);
            }
            number(is_new.into())
        }
        GetSet(key, new) => {
            let old = text(state, *key)?;
            store(state, *key, new);
            old.into()
        }
        Append(key, more) => {
            let old = text(state, *key)?.unwrap_or_default();
            let joined = Text::from(format!("{old}{more}"));
            change(state, *key, &joined);
            number(joined.len())
        }
        IncrBy(key, delta) => {
            let old = text(state, *key)?.map_or(Ok(0), |old| integer(&old))?;
            let new = old.checked_add(*delta).ok_or(Refusal::Overflow)?;
            change(state, *key, &new.to_string().into());
            Reply::Number(new)
        }
        Del(key) => number(state.values.remove(key).is_some().into()),
        SetPx(key, text, life) => {
            store(state, *key, text);
            state.lives.insert(*key, *life);
            Reply::Ok
        }
        SetNxEx(key, text) => {
            if state.values.contains_key(key) {
                return Ok(Reply::Nil);
            }
            store(state, *key, text);
            state.lives.insert(*key, LONG);
            Reply::Ok
        }
        Pexpire(key, life) => {
            let is_there = state.values.contains_key(key);
            if is_there {
                state.lives.insert(*key, *life);
            }
            number(is_there.into())
        }
        Pttl(key) => match (state.values.get(key), state.lives.get(key)) {
            (None, _) => Reply::Number(-2),
            (Some(_), None) => Reply::Number(-1),
            (Some(_), Some(_)) => Reply::Number(0),
        },
        Exists(keys) => {
            let are_there = keys.iter().filter(|key| state.values.contains_key(key));
            number(are_there.count())
        }
        Dies(key, _) => {
            state.values.remove(key);
            Reply::Nil
        }
        Push(side, key, elements) => {
            list(state, *key)?;
            number(push(state, *side, *key, elements))
        }
        Pop(side, key) => pop(state, *side, *key)?.into(),
        PopWaiting(side, keys) => match pop_first(state, *side, keys, 1)? {
            Some((key, elements)) => {
                let words = [name(key).into()].into_iter().chain(elements);
                Reply::List(words.map(Reply::Text).collect())
            }
            None => Reply::Nil,
        },
        PopManyWaiting(side, keys, count) => match pop_first(state, *side, keys, *count)? {
            Some((key, elements)) => {
                let elements = elements.into_iter().map(Reply::Text).collect();
                Reply::List(vec![Reply::Text(name(key).into()), Reply::List(elements)])
            }
            None => Reply::Nil,
        },
        Range(key) => {
            let elements = list(state, *key)?.into_iter().flatten();
            Reply::List(elements.cloned().map(Reply::Text).collect())
        }
        Move(from, from_side, to, to_side) | MoveWaiting(from, from_side, to, to_side) => {
            if list(state, *from)?.is_none() {
                return Ok(Reply::Nil);
            }
            list(state, *to)?;
            let element = pop(state, *from_side, *from)?.expect("lists are not empty");
            push(state, *to_side, *to, std::slice::from_ref(&element));
            Reply::Text(element)
        }
        Rename(from, to) => {
            let value = state.values.remove(from).ok_or(Refusal::NoSuchKey)?;
            state.values.insert(*to, value);
            Reply::Ok
        }
        Copy(from, to, replace) => match state.values.get(from) {
            Some(value) if *replace || !state.values.contains_key(to) => {
                let value = value.clone();
                state.values.insert(*to, value);
                Reply::Number(1)
            }
            _ => Reply::Number(0),
        },
        MsetNx(pairs) => {
            let are_new = pairs.iter().all(|(key, _)| !state.values.contains_key(key));
            for (key, text) in pairs.iter().filter(|_| are_new) {
                store(state, *key, text);
            }
            number(are_new.into())
        }
        Mset(pairs) => {
            for (key, text) in pairs {
                store(state, *key, text);
            }
            Reply::Ok
        }
        Mget(keys) => {
            let item = |key: &Key| text(state, *key).unwrap_or(None).into();
            Reply::List(keys.iter().map(item).collect())
        }
        Transaction(requests) => {
            let replies = requests.iter().map(|request| request.apply(state));
            Reply::List(replies.collect())
        }
        Watched(_, key, requests) => {
            let read = Get(*key).apply(state);
            let replies = requests.iter().map(|request| request.apply(state));
            Reply::List(vec![read, Reply::List(replies.collect())])
        }
        Run(script, _, keys) => script.apply(*keys, state),
        Watch(watch, key) => {
            let (key, may_have_changed) = (*key, false);
            let watched = WatchedKey { key, may_have_changed };
            state.watches.insert(*watch, watched);
            Reply::Nil
        }
        Abort(watch, _) => match state.watches.remove(watch) {
            Some(watch) if watch.may_have_changed => Reply::Nil,
            _ => Reply::List(Vec::new()),
        },
        Mistyped(keys) => {
            for key in keys {
                list(state, *key)?;
            }
            Reply::Nil
        }
    })
}

fn text(state: &Keyspace, key: Key) -> Result<Option<Text>, Refusal> {
    match state.values.get(&key) {
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(Value::List(_)) => Err(Refusal::WrongType),
        None => Ok(None),
    }
}

fn list(state: &Keyspace, key: Key) -> Result<Option<&VecDeque<Text>>, Refusal> {
    match state.values.get(&key) {
        Some(Value::List(list)) => Ok(Some(list)),
        Some(Value::Text(_)) => Err(Refusal::WrongType),
        None => Ok(None),
    }
}

/// Pushes elements one after the other. Returns the new length.
fn push(state: &mut Keyspace, side: Side, key: Key, elements: &[Text]) -> usize {
    let value = state.values.entry(key).or_insert_with(|| Value::List(Arc::default()));
    let Value::List(list) = value else {
        unreachable!("the caller has looked");
    };
    let list = Arc::make_mut(list);
    for element in elements {
        side.push(list, element.clone());
    }
    list.len()
}

fn pop(state: &mut Keyspace, side: Side, key: Key) -> Result<Option<Text>, Refusal> {
    list(state, key)?;
    let Some(Value::List(list)) = state.values.get_mut(&key) else {
        return Ok(None);
    };
    let list = Arc::make_mut(list);
    let element = side.pop(list);
    if list.is_empty() {
        state.values.remove(&key);
    }
    Ok(element)
}

/// Pops up to `count` elements from the first of the keys that has any.
fn pop_first(
    state: &mut Keyspace,
    side: Side,
    keys: &[Key],
    count: usize,
) -> Result<Option<(Key, Vec<Text>)>, Refusal> {
    for key in keys {
        let mut popped = Vec::new();
        while popped.len() < count
            && let Some(element) = pop(state, side, *key)?
        {
            popped.push(element);
        }
        if !popped.is_empty() {
            return Ok(Some((*key, popped)));
        }
    }
    Ok(None)
}

/// The integer that a string spells, as Redis spells integers.
fn integer(text: &str) -> Result<i64, Refusal> {
    let value: i64 = text.parse().map_err(|_| Refusal::NotAnInteger)?;
    match value.to_string() == text {
        true => Ok(value),
        false => Err(Refusal::NotAnInteger),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Reply {
        Reply::Text(text.into())
    }

    #[test]
    fn commands_one_after_the_other() {
        let wrong_type = || Reply::from(Refusal::WrongType);
        let elements = |texts: &[&str]| texts.iter().map(|&text| Text::from(text)).collect::<Vec<_>>();
        let items = |texts: &[&str]| Reply::List(texts.iter().map(|text| word(text)).collect());
        let state = &mut Keyspace::default();
        for (request, reply) in [
            (Get(0), Reply::Nil),
            (IncrBy(0, 41), Reply::Number(41)),
            (Append(0, "2".into()), Reply::Number(3)),
            (GetSet(0, "07".into()), word("412")),
            (IncrBy(0, 1), Refusal::NotAnInteger.into()),
            (SetNx(0, "x".into()), Reply::Number(0)),
            (Set(0, i64::MAX.to_string().into()), Reply::Ok),
            (IncrBy(0, 1), Refusal::Overflow.into()),
            (Push(Side::Left, 0, elements(&["a"])), wrong_type()),
            (Push(Side::Left, 3, elements(&["a", "b"])), Reply::Number(2)),
            (Push(Side::Right, 3, elements(&["c"])), Reply::Number(3)),
            (Range(3), items(&["b", "a", "c"])),
            (Get(3), wrong_type()),
            (Mget(vec![3, 9]), Reply::List(vec![Reply::Nil, Reply::Nil])),
            (Move(3, Side::Right, 3, Side::Left), word("c")),
            (Move(3, Side::Left, 0, Side::Left), wrong_type()),
            (Move(9, Side::Left, 0, Side::Left), Reply::Nil),
            (MoveWaiting(9, Side::Left, 0, Side::Left), Reply::Nil),
            (MoveWaiting(3, Side::Right, 3, Side::Left), word("a")),
            (MoveWaiting(3, Side::Left, 3, Side::Right), word("a")),
            (PopWaiting(Side::Left, vec![9]), Reply::Nil),
            (PopWaiting(Side::Left, vec![0]), wrong_type()),
            (Copy(3, 4, false), Reply::Number(1)),
            (Copy(0, 4, false), Reply::Number(0)),
            (Copy(0, 4, true), Reply::Number(1)),
            (Pop(Side::Left, 3), word("c")),
            (PopWaiting(Side::Left, vec![3]), items(&["k3", "b"])),
            (Pop(Side::Right, 3), word("a")),
            (Pop(Side::Right, 3), Reply::Nil),
            (Rename(3, 5), Refusal::NoSuchKey.into()),
            (Rename(4, 4), Reply::Ok),
            (Rename(4, 5), Reply::Ok),
            (MsetNx(vec![(4, "4".into()), (5, "5".into())]), Reply::Number(0)),
            (Del(5), Reply::Number(1)),
            (MsetNx(vec![(4, "4".into()), (5, "5".into())]), Reply::Number(1)),
            (Mset(vec![(4, "4".into()), (5, "5".into())]), Reply::Ok),
            (Mget(vec![4, 5]), items(&["4", "5"])),
            (
                Transaction(vec![Pop(Side::Left, 4), IncrBy(4, 2), Get(4)]),
                Reply::List(vec![wrong_type(), Reply::Number(6), word("6")]),
            ),
            (
                Watched(1, 4, vec![Append(4, "0".into())]),
                Reply::List(vec![word("6"), Reply::List(vec![Reply::Number(2)])]),
            ),
            (Push(Side::Left, 3, elements(&["a", "b", "c"])), Reply::Number(3)),
            (
                PopManyWaiting(Side::Right, vec![9, 3], 2),
                Reply::List(vec![word("k3"), items(&["a", "b"])]),
            ),
            (PopWaiting(Side::Left, vec![9, 4, 3]), wrong_type()),
            (PopWaiting(Side::Left, vec![9, 3, 4]), items(&["k3", "c"])),
            (PopManyWaiting(Side::Left, vec![9, 3], 2), Reply::Nil),
            (Mistyped(vec![9, 4]), wrong_type()),
            (Mistyped(vec![9, 3]), Reply::Nil),
            (SetPx(6, "1".into(), 7), Reply::Ok),
            (Pttl(6), Reply::Number(0)),
            (Dies(6, 8), Reply::Nil),
            (SetNxEx(6, "5".into()), Reply::Nil),
            (IncrBy(6, 1), Reply::Number(2)),
            (Pttl(6), Reply::Number(0)),
            (Dies(6, 7), Reply::Nil),
            (Pttl(6), Reply::Number(-2)),
            (Pexpire(6, 9), Reply::Number(0)),
            (SetNxEx(6, "5".into()), Reply::Ok),
            (Pttl(6), Reply::Number(0)),
            (Pexpire(6, 10), Reply::Number(1)),
            (GetSet(6, "1".into()), word("5")),
            (Dies(6, 10), Reply::Nil),
            (Pttl(6), Reply::Number(-1)),
            (Exists(vec![6, 7, 6]), Reply::Number(2)),
            (Pexpire(6, 11), Reply::Number(1)),
            (Del(6), Reply::Number(1)),
            (Set(6, "x".into()), Reply::Ok),
            (Pttl(6), Reply::Number(-1)),
        ] {
            assert_eq!(request.apply(state), reply, "{request:?}");
        }
    }
}
