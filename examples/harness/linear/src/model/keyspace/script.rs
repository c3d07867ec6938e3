//! Scripts that read and change two keys in one step.

use std::fmt::Write as _;

use rand::RngExt;
use rand::rngs::StdRng;
use sha1::{Digest as _, Sha1};

use super::draw::Keys;
use super::{Keyspace, Life, Reply, Request, Side, life_ms};
use crate::model::{Key, Operation};

/// Begins each script: its keys may be declared or not.
const KEYS: &str = "local keys = #KEYS > 0 and KEYS or ARGV\n";
/// What [`Script::Transfer`] takes from its first key.
const AMOUNT: i64 = 3;

/// What a script does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Exchanges two strings, of which either may be missing. Returns them.
    Swap,
    /// Takes from one counter and adds to another. Returns the other. If that is no counter, what was taken is gone.
    Transfer,
    /// Moves all elements of a list to the end of another. Returns how many.
    Drain,
    /// Reads a string and a list, and what is wrong with them.
    Read,
    /// Counts in a key that expires, as a rate limiter does. Returns whether another key is there, before and after
    /// that, and the time that the first one has, as 0.
    Limit(Life),
}

/// How a client calls a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calling {
    /// EVAL with declared keys.
    Eval,
    /// EVALSHA of a script that was loaded, with declared keys.
    EvalSha,
    /// EVALSHA without declared keys: they are arguments.
    Undeclared,
}

impl Calling {
    pub(super) fn draw(random: &mut StdRng) -> Self {
        [Self::Eval, Self::EvalSha, Self::Undeclared][random.random_range(0..3)]
    }
}

impl Script {
    /// All scripts.
    pub const ALL: [Self; 7] = [
        Self::Swap,
        Self::Transfer,
        Self::Drain,
        Self::Read,
        // They are of all lengths.
        Self::Limit(0),
        Self::Limit(1),
        Self::Limit(2),
    ];

    pub(super) fn draw(random: &mut StdRng) -> Self {
        match Self::ALL[random.random_range(0..Self::ALL.len() - 2)] {
            Self::Limit(_) => Self::Limit(random.random()),
            script => script,
        }
    }

    /// Two different keys, mostly of what the script works on.
    pub(super) fn draw_keys(self, random: &mut StdRng, keys: &Keys) -> [Key; 2] {
        match self {
            Self::Swap | Self::Transfer => keys.two_texts(random),
            Self::Drain => keys.two_lists(random),
            Self::Read => [keys.text(random), keys.list(random)],
            Self::Limit(_) => keys.two_mortals(random),
        }
    }

    /// Its text.
    #[must_use]
    pub fn body(self) -> String {
        let limit = |life| {
            format!(
                "local before = redis.call('EXISTS', keys[2])
                 local count = redis.call('INCRBY', keys[1], 1)
                 if count == 1 then redis.call('PEXPIRE', keys[1], {}) end
                 return {{before, count, math.min(redis.call('PTTL', keys[1]), 0), redis.call('EXISTS', keys[2])}}",
                life_ms(life)
            )
        };
        let rest = match self {
            Self::Limit(life) => &limit(life),
            Self::Swap => {
                "local function put(key, text)
                   if text then redis.call('SET', key, text) else redis.call('DEL', key) end
                 end
                 local one, other = redis.call('GET', keys[1]), redis.call('GET', keys[2])
                 put(keys[1], other)
                 put(keys[2], one)
                 return {one, other}"
            }
            Self::Transfer => {
                "redis.call('INCRBY', keys[1], -3)
                 return redis.call('INCRBY', keys[2], 3)"
            }
            Self::Drain => {
                "local moved = 0
                 while redis.call('LMOVE', keys[1], keys[2], 'LEFT', 'RIGHT') do moved = moved + 1 end
                 return moved"
            }
            Self::Read => "return {redis.pcall('GET', keys[1]), redis.pcall('LRANGE', keys[2], 0, -1)}",
        };
        format!("{KEYS}{rest}")
    }

    /// The command that calls it, and the arguments in front of its keys.
    pub(super) fn words(self, calling: Calling) -> (&'static str, Vec<String>) {
        let body = self.body();
        let (command, script) = match calling {
            Calling::Eval => ("EVAL", body),
            Calling::EvalSha | Calling::Undeclared => ("EVALSHA", digest(&body)),
        };
        let declared = match calling {
            Calling::Eval | Calling::EvalSha => "2",
            Calling::Undeclared => "0",
        };
        (command, vec![script, declared.to_owned()])
    }

    /// What it does alone.
    pub(super) fn apply(self, [one, other]: [Key; 2], state: &mut Keyspace) -> Reply {
        let call = |state: &mut Keyspace, request: Request| match request.apply(state) {
            error @ Reply::Error(_) => Err(error),
            reply => Ok(reply),
        };
        let run = |state: &mut Keyspace| match self {
            Self::Swap => {
                let texts = [call(state, Request::Get(one))?, call(state, Request::Get(other))?];
                for (key, text) in [(other, &texts[0]), (one, &texts[1])] {
                    match text {
                        Reply::Text(text) => call(state, Request::Set(key, text.clone()))?,
                        _ => call(state, Request::Del(key))?,
                    };
                }
                Ok(Reply::List(texts.into()))
            }
            Self::Transfer => {
                call(state, Request::IncrBy(one, -AMOUNT))?;
                call(state, Request::IncrBy(other, AMOUNT))
            }
            Self::Drain => {
                let mut moved = 0;
                let next = Request::Move(one, Side::Left, other, Side::Right);
                while call(state, next.clone())? != Reply::Nil {
                    moved += 1;
                }
                Ok(Reply::Number(moved))
            }
            Self::Limit(life) => {
                let there = Request::Exists(vec![other]);
                let before = call(state, there.clone())?;
                let count = call(state, Request::IncrBy(one, 1))?;
                if count == Reply::Number(1) {
                    call(state, Request::Pexpire(one, life))?;
                }
                let ttl = call(state, Request::Pttl(one))?;
                Ok(Reply::List(vec![before, count, ttl, call(state, there)?]))
            }
            Self::Read => {
                let replies = [Request::Get(one), Request::Range(other)];
                Ok(Reply::List(replies.map(|request| request.apply(state)).into()))
            }
        };
        run(state).unwrap_or_else(|error| error)
    }
}

/// The name by which EVALSHA knows a script.
fn digest(body: &str) -> String {
    let mut digits = String::new();
    for byte in Sha1::digest(body) {
        write!(digits, "{byte:02x}").expect("strings take all text");
    }
    digits
}
