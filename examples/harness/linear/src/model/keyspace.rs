//! Strings, counters and lists with the commands of psp-redis, as docs/redis.md promises them: atomic on one key, and
//! RENAME, COPY, LMOVE, MSETNX and transactions on all of theirs. MSET and MGET are atomic key by key. Commands that wait
//! give up after some milliseconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand::RngExt;
use rand::rngs::StdRng;

use super::{Key, Operation};
use crate::recorder::Draw;

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

/// How long commands wait, in seconds: so short that clients which wait for each other go on soon.
const TIMEOUT: &str = "0.002";

/// All keys that exist.
pub type Keyspace = BTreeMap<Key, Value>;

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
    /// LPUSH or RPUSH.
    Push(Side, Key, Vec<Text>),
    /// LPOP or RPOP of one element.
    Pop(Side, Key),
    /// BLPOP or BRPOP of one key.
    PopWaiting(Side, Key),
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
}

use Request::{
    Append, Copy, Del, Get, GetSet, IncrBy, Mget, Move, MoveWaiting, Mset, MsetNx, Pop, PopWaiting,
    Push, Range, Rename, Set, SetNx, Transaction,
};

impl Request {
    /// A request for keys of a round: mostly a command on strings for one of three keys, or a command on lists for one of
    /// three others. Now and then the key is any of the six, or the request is a transaction of such commands.
    pub fn draw(draw: Draw<'_>) -> Self {
        let Draw {
            random,
            first_key,
            number,
        } = draw;
        let keys = Keys { first_key };
        match random.random_ratio(1, 25) {
            true => {
                let len = random.random_range(2..=3);
                Transaction(
                    (0..len)
                        .map(|_| Self::command(random, &keys, number))
                        .collect(),
                )
            }
            false => Self::command(random, &keys, number),
        }
    }

    fn command(random: &mut StdRng, keys: &Keys, number: u64) -> Self {
        let text = || Text::from(number.to_string());
        match random.random_range(0..100) {
            0..14 => Get(keys.text(random)),
            14..23 => Set(keys.text(random), text()),
            23..27 => SetNx(keys.text(random), text()),
            27..31 => GetSet(keys.text(random), text()),
            31..36 => Append(keys.text(random), Text::from((1 + number % 9).to_string())),
            36..44 => IncrBy(keys.text(random), random.random_range(-99..100)),
            44..48 => Del(keys.any(random)),
            48..60 => Push(side(random), keys.list(random), elements(random, number)),
            60..67 => Pop(side(random), keys.list(random)),
            67..72 => PopWaiting(side(random), keys.list(random)),
            72..80 => Range(keys.list(random)),
            80..83 => {
                let [(from, from_side), (to, to_side)] = keys.ends(random);
                Move(from, from_side, to, to_side)
            }
            83..85 => {
                let [(from, from_side), (to, to_side)] = keys.ends(random);
                MoveWaiting(from, from_side, to, to_side)
            }
            85..88 => Rename(keys.any(random), keys.any(random)),
            88..92 => {
                let [from, to] = keys.two(random);
                Copy(from, to, random.random())
            }
            92..95 => MsetNx(keys.two(random).map(|key| (key, text())).into()),
            95..97 => Mset(keys.two(random).map(|key| (key, text())).into()),
            _ => Mget(keys.two(random).into()),
        }
    }

    /// The commands of the request, each with its words. Key 7 is `k7`.
    #[must_use]
    pub fn commands(&self) -> Vec<Vec<String>> {
        match self {
            Transaction(requests) => {
                let [begin, end] = ["MULTI", "EXEC"].map(|word| vec![vec![word.to_owned()]]);
                [begin, requests.iter().map(Self::words).collect(), end].concat()
            }
            request => vec![request.words()],
        }
    }

    /// The words of a request of one command.
    fn words(&self) -> Vec<String> {
        let key = |key: &Key| format!("k{key}");
        let pairs = |pairs: &[(Key, Text)]| -> Vec<String> {
            let words = pairs
                .iter()
                .map(|(name, text)| [key(name), text.to_string()]);
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
            Push(side, name, elements) => {
                let command = side.choose("LPUSH", "RPUSH");
                let elements = elements.iter().map(ToString::to_string);
                (command, [key(name)].into_iter().chain(elements).collect())
            }
            Pop(side, name) => (side.choose("LPOP", "RPOP"), vec![key(name)]),
            PopWaiting(side, name) => {
                let command = side.choose("BLPOP", "BRPOP");
                (command, vec![key(name), TIMEOUT.into()])
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
                (
                    "COPY",
                    [key(from), key(to)].into_iter().chain(replace).collect(),
                )
            }
            MsetNx(named) => ("MSETNX", pairs(named)),
            Mset(named) => ("MSET", pairs(named)),
            Mget(names) => ("MGET", names.iter().map(key).collect()),
            Transaction(_) => unreachable!("transactions have several commands, and do not nest"),
        };
        [command.to_owned()].into_iter().chain(arguments).collect()
    }
}

/// The keys of one round.
struct Keys {
    first_key: Key,
}

impl Keys {
    fn text(&self, random: &mut StdRng) -> Key {
        self.of(random, 0)
    }

    fn list(&self, random: &mut StdRng) -> Key {
        self.of(random, 3)
    }

    /// One of three keys, or sometimes any.
    fn of(&self, random: &mut StdRng, start: Key) -> Key {
        match random.random_ratio(1, 20) {
            true => self.any(random),
            false => self.first_key + start + random.random_range(0..3),
        }
    }

    /// Ends of two lists, which may be the same list.
    fn ends(&self, random: &mut StdRng) -> [(Key, Side); 2] {
        [(); 2].map(|()| (self.list(random), side(random)))
    }

    fn any(&self, random: &mut StdRng) -> Key {
        self.first_key + random.random_range(0..6)
    }

    /// Two different keys.
    fn two(&self, random: &mut StdRng) -> [Key; 2] {
        let first = random.random_range(0..6);
        let second = (first + random.random_range(1..6)) % 6;
        [first, second].map(|key| self.first_key + key)
    }
}

fn side(random: &mut StdRng) -> Side {
    match random.random() {
        true => Side::Left,
        false => Side::Right,
    }
}

/// Up to three elements, or sometimes so many that the command takes long.
fn elements(random: &mut StdRng, number: u64) -> Vec<Text> {
    let len = match random.random_ratio(1, 50) {
        true => 200,
        false => random.random_range(1..=3),
    };
    let name = |index: u32| Text::from(format!("{number}.{index}"));
    (0..len).map(name).collect()
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
            Refusal::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            }
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
            PopWaiting(_, key) | Range(key) => vec![*key],
            Move(from, _, to, _) | MoveWaiting(from, _, to, _) => vec![*from, *to],
            Rename(from, to) | Copy(from, to, _) => vec![*from, *to],
            MsetNx(pairs) | Mset(pairs) => pairs.iter().map(|(key, _)| *key).collect(),
            Mget(keys) => keys.clone(),
            Transaction(requests) => requests.iter().flat_map(Self::keys).collect(),
        }
    }

    fn apply(&self, state: &mut Keyspace) -> Reply {
        apply(self, state).unwrap_or_else(Reply::from)
    }
}

fn apply(request: &Request, state: &mut Keyspace) -> Result<Reply, Refusal> {
    let number = |count: usize| Reply::Number(i64::try_from(count).expect("a small count"));
    let store =
        |state: &mut Keyspace, key: Key, text: &Text| state.insert(key, Value::Text(text.clone()));
    Ok(match request {
        Get(key) => text(state, *key)?.into(),
        Set(key, text) => {
            store(state, *key, text);
            Reply::Ok
        }
        SetNx(key, text) => {
            let is_new = !state.contains_key(key);
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
            store(state, *key, &joined);
            number(joined.len())
        }
        IncrBy(key, delta) => {
            let old = text(state, *key)?.map_or(Ok(0), |old| integer(&old))?;
            let new = old.checked_add(*delta).ok_or(Refusal::Overflow)?;
            store(state, *key, &new.to_string().into());
            Reply::Number(new)
        }
        Del(key) => number(state.remove(key).is_some().into()),
        Push(side, key, elements) => {
            list(state, *key)?;
            number(push(state, *side, *key, elements))
        }
        Pop(side, key) => pop(state, *side, *key)?.into(),
        PopWaiting(side, key) => pop(state, *side, *key)?.map_or(Reply::Nil, |element| {
            let name = Text::from(format!("k{key}"));
            Reply::List([name, element].map(Reply::Text).into())
        }),
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
            let value = state.remove(from).ok_or(Refusal::NoSuchKey)?;
            state.insert(*to, value);
            Reply::Ok
        }
        Copy(from, to, replace) => match state.get(from) {
            Some(value) if *replace || !state.contains_key(to) => {
                let value = value.clone();
                state.insert(*to, value);
                Reply::Number(1)
            }
            _ => Reply::Number(0),
        },
        MsetNx(pairs) => {
            let are_new = pairs.iter().all(|(key, _)| !state.contains_key(key));
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
    })
}

fn text(state: &Keyspace, key: Key) -> Result<Option<Text>, Refusal> {
    match state.get(&key) {
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(Value::List(_)) => Err(Refusal::WrongType),
        None => Ok(None),
    }
}

fn list(state: &Keyspace, key: Key) -> Result<Option<&VecDeque<Text>>, Refusal> {
    match state.get(&key) {
        Some(Value::List(list)) => Ok(Some(list)),
        Some(Value::Text(_)) => Err(Refusal::WrongType),
        None => Ok(None),
    }
}

/// Pushes elements one after the other. Returns the new length.
fn push(state: &mut Keyspace, side: Side, key: Key, elements: &[Text]) -> usize {
    let value = state
        .entry(key)
        .or_insert_with(|| Value::List(Arc::default()));
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
    let Some(Value::List(list)) = state.get_mut(&key) else {
        return Ok(None);
    };
    let list = Arc::make_mut(list);
    let element = side.pop(list);
    if list.is_empty() {
        state.remove(&key);
    }
    Ok(element)
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
        let elements = |texts: &[&str]| {
            texts
                .iter()
                .map(|&text| Text::from(text))
                .collect::<Vec<_>>()
        };
        let items = |texts: &[&str]| Reply::List(texts.iter().map(|text| word(text)).collect());
        let state = &mut Keyspace::new();
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
            (PopWaiting(Side::Left, 9), Reply::Nil),
            (PopWaiting(Side::Left, 0), wrong_type()),
            (Copy(3, 4, false), Reply::Number(1)),
            (Copy(0, 4, false), Reply::Number(0)),
            (Copy(0, 4, true), Reply::Number(1)),
            (Pop(Side::Left, 3), word("c")),
            (PopWaiting(Side::Left, 3), items(&["k3", "b"])),
            (Pop(Side::Right, 3), word("a")),
            (Pop(Side::Right, 3), Reply::Nil),
            (Rename(3, 5), Refusal::NoSuchKey.into()),
            (Rename(4, 4), Reply::Ok),
            (Rename(4, 5), Reply::Ok),
            (
                MsetNx(vec![(4, "4".into()), (5, "5".into())]),
                Reply::Number(0),
            ),
            (Del(5), Reply::Number(1)),
            (
                MsetNx(vec![(4, "4".into()), (5, "5".into())]),
                Reply::Number(1),
            ),
            (Mset(vec![(4, "4".into()), (5, "5".into())]), Reply::Ok),
            (Mget(vec![4, 5]), items(&["4", "5"])),
            (
                Transaction(vec![Pop(Side::Left, 4), IncrBy(4, 2), Get(4)]),
                Reply::List(vec![wrong_type(), Reply::Number(6), word("6")]),
            ),
        ] {
            assert_eq!(request.apply(state), reply, "{request:?}");
        }
    }
}
