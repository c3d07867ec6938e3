//! Random requests for the keys of a round.

use rand::RngExt;
use rand::rngs::StdRng;

use super::Request::{
    self, Append, Copy, Del, Exists, Get, GetSet, IncrBy, Mget, Move, MoveWaiting, Mset, MsetNx, Pexpire, Pop,
    PopManyWaiting, PopWaiting, Pttl, Push, Range, Rename, Run, Set, SetNx, SetNxEx, SetPx, Transaction, Watched,
};
use super::{Calling, Script, Side, Text};
use crate::model::Key;
use crate::recorder::Draw;

impl Request {
    /// A request for keys of a round: mostly a command on strings for one of three keys, or a command on lists for one
    /// of three others. Now and then the key is any of the six, or the request is a script, or a transaction of such
    /// commands. Some commands, and whole transactions, are about keys that expire, of which there are two more.
    pub fn draw(draw: Draw<'_>) -> Self {
        let Draw { random, first_key, number } = draw;
        let keys = Keys { first_key };
        match random.random_range(0..100) {
            0..4 => Transaction(Self::commands_of_transaction(random, &keys, number)),
            4..6 => {
                let key = keys.text(random);
                Watched(number, key, Self::commands_of_transaction(random, &keys, number))
            }
            6..10 => Transaction(Self::commands_on_mortals(random, &keys, number)),
            10..12 => {
                let commands = Self::commands_on_mortals(random, &keys, number);
                Watched(number, keys.mortal(random), commands)
            }
            12..26 => Self::on_mortals(random, &keys, number),
            26..33 => {
                let script = Script::draw(random);
                Run(script, Calling::draw(random), script.draw_keys(random, &keys))
            }
            _ => Self::command(random, &keys, number),
        }
    }

    fn commands_of_transaction(random: &mut StdRng, keys: &Keys, number: u64) -> Vec<Self> {
        let len = random.random_range(2..=3);
        (0..len).map(|_| Self::command(random, keys, number)).collect()
    }

    fn commands_on_mortals(random: &mut StdRng, keys: &Keys, number: u64) -> Vec<Self> {
        let len = random.random_range(2..=4);
        (0..len).map(|_| Self::on_mortals(random, keys, number)).collect()
    }

    /// A command on keys that expire.
    fn on_mortals(random: &mut StdRng, keys: &Keys, number: u64) -> Self {
        let key = keys.mortal(random);
        let text = Text::from((number % 1000).to_string());
        match random.random_range(0..100) {
            0..20 => SetPx(key, text, random.random()),
            20..32 => SetNxEx(key, text),
            32..44 => Pexpire(key, random.random()),
            44..56 => IncrBy(key, 1),
            56..68 => Pttl(key),
            68..78 => Get(key),
            78..86 => Exists(keys.two_mortals(random).into()),
            86..92 => Mget(keys.two_mortals(random).into()),
            92..96 => Set(key, text),
            _ => Del(key),
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
            67..71 => PopWaiting(side(random), keys.lists(random)),
            71..73 => {
                let count = random.random_range(1..=3);
                PopManyWaiting(side(random), keys.lists(random), count)
            }
            73..80 => Range(keys.list(random)),
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
}

/// The keys of one round.
pub(super) struct Keys {
    first_key: Key,
}

impl Keys {
    pub(super) fn text(&self, random: &mut StdRng) -> Key {
        self.of(random, 0)
    }

    pub(super) fn list(&self, random: &mut StdRng) -> Key {
        self.of(random, 3)
    }

    /// One of two keys that expire.
    pub(super) fn mortal(&self, random: &mut StdRng) -> Key {
        self.two_mortals(random)[0]
    }

    pub(super) fn two_mortals(&self, random: &mut StdRng) -> [Key; 2] {
        let keys = [6, 7].map(|key| self.first_key + key);
        match random.random() {
            true => keys,
            false => [keys[1], keys[0]],
        }
    }

    /// One list, or two.
    fn lists(&self, random: &mut StdRng) -> Vec<Key> {
        match random.random_ratio(1, 2) {
            true => vec![self.list(random)],
            false => self.two_lists(random).into(),
        }
    }

    /// Two different keys of lists, or sometimes any.
    pub(super) fn two_lists(&self, random: &mut StdRng) -> [Key; 2] {
        self.two_of(random, 3)
    }

    /// Two different keys of strings, or sometimes any.
    pub(super) fn two_texts(&self, random: &mut StdRng) -> [Key; 2] {
        self.two_of(random, 0)
    }

    fn two_of(&self, random: &mut StdRng, start: Key) -> [Key; 2] {
        if random.random_ratio(1, 20) {
            return self.two(random);
        }
        let first = random.random_range(0..3);
        let second = (first + random.random_range(1..3)) % 3;
        [first, second].map(|key| self.first_key + start + key)
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
