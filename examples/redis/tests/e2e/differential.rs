//! Random commands, sent to psp-redis and to redis-server: both give the same replies.
//!
//! `.ci/run` sends a few thousand. `PSP_DIFFERENTIAL_COMMANDS` sends more:
//!
//! ```sh
//! PSP_DIFFERENTIAL_COMMANDS=1000000 cargo test -p psp-redis --test e2e differential -- --ignored
//! ```

use std::env;

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::common::{Connection, Options, Reply, Server};

/// Commands without `PSP_DIFFERENTIAL_COMMANDS`.
const COMMANDS: usize = 20_000;
/// Commands on one state. Then both servers forget all keys.
const COMMANDS_PER_STATE: usize = 500;

/// The forms of commands. `{k}` is a key, `{s}`, `{l}`, `{h}`, `{e}` and `{z}` are keys that mostly hold a string, a list,
/// a hash, a set or a sorted set; `{a}` is one that mostly holds a stream, whose IDs are `{u}`, and `{j}` is one above them
/// all, `{n}` an end of a range of them; `{y}` is one that holds a sorted set with equal scores alone; `{p}` one that holds a HyperLogLog; `{q}` one that holds places; `{v}` is a value, `{m}` a member or field, `{i}` an integer, `{c}` a small count,
/// `{f}` a number whose sums are exact, `{d}` any number, `{b}` and `{x}` bounds of scores and of names, `{t}` seconds, `{o}` an offset, `{w}` a longitude and a latitude, `{r}` a distance with its unit, `{g}` a pattern. `?a|b,c` is one of
/// these alternatives, whose words are separated by commas, or nothing; `!a|b` is one of them; `*{m},{v}` is repeated
/// one to three times.
const FORMS: &[&str] = &[
    "APPEND {s} {v}",
    "DECR {s}",
    "DECRBY {s} {i}",
    "GET {s}",
    "GET {s}",
    "GETDEL {s}",
    "GETEX {s} ?EX,{t}|PERSIST|PX,{t}000|EX",
    "GETRANGE {s} {i} {i}",
    "GETSET {s} {v}",
    "INCR {s}",
    "INCRBY {s} {i}",
    "INCRBYFLOAT {s} {d}",
    "MGET *{k}",
    "MSET *{s},{v}",
    "MSETNX *{s},{v}",
    "SET {s} {v}",
    "SET {s} {v} ?NX|XX ?GET ?EX,{t}|KEEPTTL",
    "SETEX {s} {t} {v}",
    "SETNX {s} {v}",
    "SETRANGE {s} {c} {v}",
    "STRLEN {s}",
    "SUBSTR {s} {i} {i}",
    "SETBIT {s} {o} !0|1",
    "GETBIT {s} {o}",
    "BITCOUNT {s}",
    "BITCOUNT {s} {i} {i} ?BIT|BYTE",
    "BITPOS {s} !0|1 ?{i}",
    "BITPOS {s} !0|1 {i} {i} ?BIT|BYTE",
    "BITOP !AND|OR|XOR {s} *{s}",
    "BITOP NOT {s} {s}",
    "BITFIELD {s} *GET,u8,{o}|SET,i5,{o},{i}|INCRBY,u3,#1,{i}|INCRBY,i64,#1,{i}|OVERFLOW,SAT|OVERFLOW,FAIL",
    "BITFIELD_RO {s} *GET,u8,{o}|GET,i64,#{c}|GET,u63,{o}",
    "PFADD {p} *{m}",
    "PFCOUNT *{p}",
    "PFMERGE {p} *{p}",
    "GET {p}",
    "GEOADD {q} ?NX|XX ?CH *{w},{m}",
    "GEODIST {q} {m} {m} ?m|km|ft|mi",
    "GEOHASH {q} *{m}",
    "GEOPOS {q} *{m}",
    "GEORADIUS {q} {w} {r} ?WITHDIST ?WITHCOORD ?ASC|DESC ?COUNT,{c}|STORE,q2",
    "GEORADIUS_RO {q} {w} {r} ?WITHHASH",
    "GEORADIUSBYMEMBER {q} {m} {r} ?WITHDIST ?ASC|DESC ?COUNT,{c}",
    "GEORADIUSBYMEMBER_RO {q} {m} {r} ?WITHHASH",
    "GEOSEARCH {q} !FROMMEMBER,{m}|FROMLONLAT,{w} !BYRADIUS,{r}|BYBOX,300,{r} ?WITHDIST ?WITHCOORD ?WITHHASH ?ASC|DESC",
    "GEOSEARCHSTORE {q} {q} !FROMMEMBER,{m}|FROMLONLAT,{w} !BYRADIUS,{r}|BYBOX,300,{r} ?COUNT,{c}",
    "GEOSEARCHSTORE qd {q} FROMLONLAT {w} BYRADIUS {r} STOREDIST",
    "LCS {s} {s} ?LEN ?IDX,WITHMATCHLEN|IDX,MINMATCHLEN,{i}",
    "ZRANGE !qd|{q} 0 -1",
    "LINDEX {l} {i}",
    "LINSERT {l} !BEFORE|AFTER {v} {v}",
    "LLEN {l}",
    "LPUSH {l} *{v}",
    "RPUSH {l} *{v}",
    "LMOVE {l} {l} !LEFT|RIGHT !LEFT|RIGHT",
    "LMPOP {c} {l} {l} !LEFT|RIGHT ?COUNT,{c}",
    "LPOP {l} ?{c}",
    "LPOS {l} {v} ?RANK,{i} ?COUNT,{c} ?MAXLEN,{c}",
    "LPUSHX {l} *{v}",
    "LRANGE {l} {i} {i}",
    "LREM {l} {i} {v}",
    "LSET {l} {i} {v}",
    "LTRIM {l} {i} {i}",
    "RPOP {l} ?{c}",
    "RPOPLPUSH {l} {l}",
    "RPUSHX {l} *{v}",
    "BLMOVE {l} {l} !LEFT|RIGHT !LEFT|RIGHT 0.001",
    "BLMPOP 0.001 {c} {l} {l} !LEFT|RIGHT ?COUNT,{c}",
    "BLPOP *{l} 0.001",
    "BRPOP *{l} 0.001",
    "BRPOPLPUSH {l} {l} 0.001",
    "HDEL {h} *{m}",
    "HEXISTS {h} {m}",
    "HGET {h} {m}",
    "HGETALL {h}",
    "HINCRBY {h} {m} {i}",
    "HINCRBYFLOAT {h} {m} {d}",
    "HKEYS {h}",
    "HLEN {h}",
    "HMGET {h} *{m}",
    "HMSET {h} *{m},{v}",
    "HSET {h} *{m},{v}",
    "HSET {h} *{m},{i}",
    "HSETNX {h} {m} {v}",
    "HSTRLEN {h} {m}",
    "HVALS {h}",
    "SADD {e} *{m}",
    "SADD {e} *{m}",
    "SCARD {e}",
    "SDIFF *{e}",
    "SDIFFSTORE {e} *{e}",
    "SINTER *{e}",
    "SINTERCARD {c} {e} {e} ?LIMIT,{i}",
    "SINTERSTORE {e} *{e}",
    "SISMEMBER {e} {m}",
    "SMEMBERS {e}",
    "SMISMEMBER {e} *{m}",
    "SMOVE {e} {e} {m}",
    "SREM {e} *{m}",
    "SUNION *{e}",
    "SUNIONSTORE {e} *{e}",
    "BZMPOP 0.001 {c} {z} {z} !MIN|MAX ?COUNT,{c}",
    "BZPOPMAX *{z} 0.001",
    "BZPOPMIN *{z} 0.001",
    "ZADD {z} ?NX|XX ?GT|LT ?CH *{f},{m}",
    "ZADD {z} *{f},{m}",
    "ZADD {z} ?NX|XX|GT|LT INCR {f} {m}",
    "ZADD {y} *0,{m}",
    "ZCARD {z}",
    "ZCOUNT {z} {b} {b}",
    "ZDIFF {c} {z} {z} ?WITHSCORES",
    "ZDIFFSTORE {z} {c} {z} {z}",
    "ZINCRBY {z} {f} {m}",
    "ZINTER {c} {z} {z} ?WEIGHTS,{f},{f} ?AGGREGATE,SUM|AGGREGATE,MIN|AGGREGATE,MAX ?WITHSCORES",
    "ZINTERCARD {c} {z} {z} ?LIMIT,{i}",
    "ZINTERSTORE {z} {c} {z} {e} ?WEIGHTS,{f},{f}",
    "ZLEXCOUNT {y} {x} {x}",
    "ZMPOP {c} {z} {z} !MIN|MAX ?COUNT,{c}",
    "ZMSCORE {z} *{m}",
    "ZPOPMAX {z} ?{c}",
    "ZPOPMIN {z} ?{c}",
    "ZRANGE {z} {i} {i} ?REV ?WITHSCORES",
    "ZRANGE {z} {b} {b} BYSCORE ?REV ?LIMIT,{i},{i} ?WITHSCORES",
    "ZRANGE {y} {x} {x} BYLEX ?REV ?LIMIT,{i},{i}",
    "ZRANGEBYLEX {y} {x} {x} ?LIMIT,{i},{i}",
    "ZRANGEBYSCORE {z} {b} {b} ?WITHSCORES ?LIMIT,{i},{i}",
    "ZRANGESTORE {z} {z} {i} {i} ?REV",
    "ZRANK {z} {m}",
    "ZREM {z} *{m}",
    "ZREMRANGEBYLEX {y} {x} {x}",
    "ZREMRANGEBYRANK {z} {i} {i}",
    "ZREMRANGEBYSCORE {z} {b} {b}",
    "ZREVRANGE {z} {i} {i} ?WITHSCORES",
    "ZREVRANGEBYLEX {y} {x} {x}",
    "ZREVRANGEBYSCORE {z} {b} {b} ?WITHSCORES ?LIMIT,{i},{i}",
    "ZREVRANK {z} {m}",
    "ZSCORE {z} {m}",
    "ZUNION {c} {z} {e} ?WEIGHTS,{f},{f} ?AGGREGATE,SUM|AGGREGATE,MIN|AGGREGATE,MAX ?WITHSCORES",
    "ZUNIONSTORE {z} {c} {z} {z} ?WEIGHTS,{f},{f} ?AGGREGATE,SUM|AGGREGATE,MIN|AGGREGATE,MAX",
    "XADD {a} {j} *{m},{v}",
    "XADD {a} ?NOMKSTREAM ?MAXLEN,{c}|MAXLEN,=,{i}|MAXLEN,~,{i}|MINID,{u}|MINID,~,{u},LIMIT,{c} {j} {m} {v}",
    "XADD {a} {u} {m} {v}",
    "XLEN {a}",
    "XRANGE {a} {n} {n} ?COUNT,{i}",
    "XREVRANGE {a} {n} {n} ?COUNT,{i}",
    "XDEL {a} *{u}",
    "XTRIM {a} !MAXLEN,{i}|MAXLEN,~,{i}|MINID,{u}|MINID,=,{u}|MAXLEN,~,{i},LIMIT,{c}|LIMIT,{c}",
    "XSETID {a} {j} ?ENTRIESADDED,{i} ?MAXDELETEDID,{u}",
    "XREAD ?COUNT,{i} STREAMS {a} {u}",
    "XREAD ?COUNT,{c} ?BLOCK,1 STREAMS {a} {a} !{u}|$ !{u}|$|>",
    "XGROUP CREATE {a} g{c} !{u}|$ ?MKSTREAM ?ENTRIESREAD,{i}",
    "XGROUP CREATE {a} g{c} !{u}|$ ?MKSTREAM",
    "XGROUP SETID {a} g{c} !{n}|$ ?ENTRIESREAD,{i}",
    "XGROUP CREATECONSUMER {a} g{c} {m}",
    "XGROUP DELCONSUMER {a} g{c} {m}",
    "XGROUP !DESTROY|DESTROY|HELP|NOPE {a} g{c}",
    "XREADGROUP GROUP g{c} {m} ?COUNT,{c} ?NOACK STREAMS {a} >",
    "XREADGROUP GROUP g{c} {m} ?COUNT,{c} ?BLOCK,1 STREAMS {a} >",
    "XREADGROUP GROUP g{c} {m} COUNT 1 STREAMS {a} >",
    "XREADGROUP GROUP g{c} {m} ?COUNT,{c} STREAMS {a} {u}",
    "XREADGROUP GROUP g{c} {m} STREAMS {a} {a} !{u}|>|$ >",
    "XACK {a} g{c} *{u}",
    "XPENDING {a} g{c}",
    "XPENDING {a} g{c} ?IDLE,0|IDLE,900000 {n} {n} {i} ?{m}",
    "XCLAIM {a} g{c} {m} !0|900000 *{u} ?IDLE,{i} ?RETRYCOUNT,{i} ?FORCE ?JUSTID ?LASTID,{u}",
    "XCLAIM {a} g{c} {m} 0 *{u} ?TIME,{i}|NOPE,1",
    "XAUTOCLAIM {a} g{c} {m} !0|900000 {n} ?COUNT,{i} ?JUSTID",
    "XAUTOCLAIM {a} g{c} {m} 0 - ?COUNT,{c}",
    "XINFO STREAM {a}",
    "XINFO STREAM {a} FULL ?COUNT,{c}|NOPE",
    "XINFO GROUPS {a}",
    "XINFO CONSUMERS {a} g{c}",
    "COPY {k} {k} ?REPLACE",
    "COPY {k} {k} !DB,0|DB,1|DB,2|DB,16 ?REPLACE",
    "DBSIZE",
    "DEL *{k}",
    "EXISTS *{k}",
    "EXPIRE {k} {t} ?NX|XX|GT|LT",
    "EXPIREAT {k} 99999999999",
    "EXPIRETIME {k}",
    "KEYS {g}",
    "PERSIST {k}",
    "PEXPIRE {k} {t}000 ?NX|XX|GT|LT",
    "PTTL {k}",
    "RENAME {k} {k}",
    "RENAMENX {k} {k}",
    "SORT {l} ?LIMIT,{i},{i} ?ASC|DESC ?ALPHA",
    "SORT {e} ALPHA ?LIMIT,{c},{c} ?ASC|DESC",
    "SORT {l} ALPHA STORE {l}",
    "SORT_RO {z} ALPHA ?LIMIT,{c},{c}",
    "TOUCH *{k}",
    "TTL {k}",
    "TYPE {k}",
    "UNLINK *{k}",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH *{k}",
    "UNWATCH",
    "EVAL return(redis.call(unpack(ARGV))) 0 GET {s}",
    "EVAL return(redis.call(unpack(ARGV))) 0 INCRBY {s} {i}",
    "EVAL return(redis.pcall(unpack(ARGV))) 0 LRANGE {l} {i} {i}",
    "EVAL_RO return(redis.pcall(unpack(ARGV))) 0 SET {s} {v}",
    "FCALL call 0 GET {s}",
    "FCALL call 0 LPUSH {l} *{v}",
    "FCALL call 0 INCR {k}",
    "FCALL call 0 MULTI",
    "FCALL try 0 SET {s} {v}",
    "FCALL_RO peek 1 {s}",
    "FCALL_RO call 1 {s}",
    "FCALL nosuch 0",
    "FUNCTION DELETE nosuch",
    "FUNCTION LIST LIBRARYNAME !s0|S*|nothing ?WITHCODE",
    "FUNCTION STATS",
    "ECHO {v}",
    "PING ?{v}",
    "SELECT !0|0|0|1|2|16|-1",
    "MOVE {k} !0|1|1|2|16",
    "SWAPDB !0|1 !0|1|2|16",
    "HELLO !2|3",
    "OBJECT ENCODING {k}",
    "OBJECT ENCODING {h}",
    "OBJECT ENCODING {e}",
    "OBJECT NOPE {k}",
    "CONFIG NOPE",
];

/// Libraries for FCALL, with one function each: redis-server lists several ones in no order.
const LIBRARIES: [&str; 3] = [
    "#!lua name=s0
    redis.register_function('call', function(keys, args) return redis.call(unpack(args)) end)",
    "#!lua name=tries
    redis.register_function('try', function(keys, args) return redis.pcall(unpack(args)) end)",
    "#!lua name=reads
    redis.register_function{function_name = 'peek', flags = {'no-writes'}, callback = function(keys)
        return redis.call('get', keys[1]) end}",
];

/// Commands whose replies have no order.
const UNORDERED: &[&str] = &[
    "HGETALL", "HKEYS", "HVALS", "KEYS", "SDIFF", "SINTER", "SMEMBERS", "SUNION",
];
/// Commands whose replies depend on the clock or the connection. Only their kind is compared.
const BY_CLOCK: &[&str] = &["EXPIRETIME", "HELLO", "PTTL", "TTL"];

/// Commands that have arguments which redis-server 7.0 does not know.
const NEWER: &[&str] = &["ZRANK", "ZREVRANK"];

/// Commands that could wait for long if another argument came to stand in the place of their timeout.
const BLOCKING: &[&str] = &[
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "XREAD",
    "XREADGROUP",
];

/// Limits of encodings that random keys exceed.
const LIMITS: &str = "CONFIG SET hash-max-listpack-entries 4 hash-max-ziplist-value 8 set-max-intset-entries 3 \
    zset-max-ziplist-entries 4 zset-max-listpack-value 8";

/// Names of what XINFO says that depends on the clock, or on how Redis holds a stream.
const INFO_OF_NOW: &[&str] = &["idle", "seen-time", "radix-tree-nodes"];
/// Numbers above are times in milliseconds since the Unix epoch.
const TIMES_MIN: i64 = 1_000_000_000_000;

struct Generator {
    rng: Xoshiro256PlusPlus,
    /// The first number of the highest ID of all streams, about.
    last_ms: u64,
}

impl Generator {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.choose(&mut self.rng).expect("alternatives")
    }

    /// A command, as words, and whether something may be wrong with it.
    fn command(&mut self) -> (Vec<String>, bool) {
        let form = self.pick(FORMS);
        let mut words = Vec::new();
        for token in form.split(' ') {
            let (times, alternatives) = match token.split_at(1) {
                ("?", rest) => (usize::from(self.rng.random_bool(0.4)), rest),
                ("!", rest) => (1, rest),
                ("*", rest) => (self.rng.random_range(1..4), rest),
                _ => (1, token),
            };
            for _ in 0..times {
                let alternatives: Vec<_> = alternatives.split('|').collect();
                let chosen = self.pick(&alternatives);
                words.extend(chosen.split(',').flat_map(|word| self.fill_words(word)));
            }
        }
        let name = words[0].as_str();
        let is_spoilt =
            self.rng.random_bool(0.03) && !NEWER.contains(&name) && !BLOCKING.contains(&name);
        if is_spoilt {
            self.spoil(&mut words);
        }
        (words, is_spoilt)
    }

    /// The arguments that `word` stands for, mostly one.
    fn fill_words(&mut self, word: &str) -> Vec<String> {
        let filled = self.fill(word);
        match word {
            "{w}" | "{r}" => filled.split(' ').map(str::to_owned).collect(),
            _ => vec![filled],
        }
    }

    /// Puts an argument in the place of `{x}`.
    fn fill(&mut self, word: &str) -> String {
        let (Some(at), Some(end)) = (word.find('{'), word.find('}')) else {
            return word.to_owned();
        };
        let kind = &word[at + 1..end];
        let filling = match kind {
            "k" | "s" | "l" | "h" | "e" | "z" | "a" => self.key(kind),
            "j" => {
                self.last_ms += self.rng.random_range(0..3);
                let seq = self.any(&["", "-*", "-*", "-1", "-7"]);
                format!("{}{seq}", self.last_ms)
            }
            "u" => {
                let ms = self.last_ms.saturating_sub(self.rng.random_range(0..40));
                format!("{ms}{}", self.any(&["", "-0", "-0", "-1", "-7", "-x"]))
            }
            "n" => match self.any(&["-", "+", "", "("]).as_str() {
                open if open.len() == 1 && open != "(" => open.to_owned(),
                open => format!("{open}{}", self.fill("{u}")),
            },
            "y" => self.any(&["y0", "y1"]),
            "q" => self.any(&["q0", "q1", "q2"]),
            "w" => self.any(&[
                "13.4 38.1",
                "15.1 37.5",
                "12.8 38.8",
                "-179.9 -10",
                "180 85",
                "0 0",
            ]),
            "r" => self.any(&["0 m", "150 km", "200 mi", "9e9 ft", "10000 km"]),
            "p" => self.any(&["p0", "p1", "p2"]),
            "v" => self.any(&[
                "a", "b", "1", "2", "3", "10", "-5", "3.5", "hello", "", "x y",
            ]),
            "m" => self.any(&["a", "b", "c", "d", "1", "2", "member"]),
            "i" => self.any(&["0", "1", "2", "-1", "-2", "5", "100", "-100"]),
            "c" => self.any(&["0", "1", "2", "2", "3"]),
            "f" => self.any(&[
                "0", "1", "1.5", "-2", "3", "0.5", "1e3", "-0.25", "0x10", "10",
            ]),
            "d" => self.any(&[
                "0",
                "1.5",
                "-2",
                "0.1",
                "1e3",
                "0x10",
                "0.30000000000000004",
                "1234567890.12345678",
                "-1e-17",
                "0x1.8p-3",
            ]),
            "b" => self.any(&["-inf", "+inf", "0", "(1", "1", "(3", "10", "1.5"]),
            "x" => self.any(&["-", "+", "[a", "(a", "[c", "(c", "[member"]),
            "o" => self.any(&["0", "1", "7", "8", "13", "63", "100"]),
            "t" => self.any(&["100", "200", "1000"]),
            "g" => self.any(&["*", "s*", "?1", "[lh]*", "z[0-1]", "nothing"]),
            _ => panic!("no kind of argument: {kind}"),
        };
        [&word[..at], &filling, &word[end + 1..]].concat()
    }

    fn any(&mut self, from: &[&str]) -> String {
        self.pick(from).to_owned()
    }

    fn key(&mut self, kind: &str) -> String {
        let kinds = ["s", "l", "h", "e", "z", "a"];
        let is_other = kind == "k" || self.rng.random_bool(0.04);
        let kind = if is_other { self.pick(&kinds) } else { kind };
        format!("{kind}{}", self.rng.random_range(0..3))
    }

    /// Makes a command wrong in most cases.
    fn spoil(&mut self, words: &mut Vec<String>) {
        let place = self.rng.random_range(0..words.len());
        match self.rng.random_range(0..3) {
            0 if words.len() > 1 => drop(words.pop()),
            1 => words.push(self.any(&["x", "1", "COUNT", "LIMIT"])),
            _ if place > 0 => words[place] = self.any(&["x", "", "99999999999", "nan", "-"]),
            _ => {}
        }
    }
}

/// The reply of a command on streams without what depends on the clock.
fn without_times(name: &str, reply: Reply) -> Reply {
    match reply {
        Reply::Integer(number) if number >= TIMES_MIN => Reply::Integer(TIMES_MIN),
        // How long an entry has been pending.
        Reply::Array(mut items) => {
            if name == "XPENDING"
                && matches!(items[..], [_, _, Reply::Integer(_), Reply::Integer(_)])
            {
                items.remove(2);
            }
            let mut of_now = false;
            let items = items.into_iter().map(|item| {
                let is_left_out = std::mem::replace(&mut of_now, is_of_now(&item));
                if is_left_out {
                    Reply::Nil
                } else {
                    without_times(name, item)
                }
            });
            Reply::Array(items.collect())
        }
        Reply::Map(pairs) => {
            let pairs = pairs.into_iter().filter(|(key, _)| !is_of_now(key));
            Reply::Map(
                pairs
                    .map(|(key, value)| (key, without_times(name, value)))
                    .collect(),
            )
        }
        other => other,
    }
}

fn is_of_now(name: &Reply) -> bool {
    INFO_OF_NOW
        .iter()
        .any(|known| *name == Reply::Bulk(known.as_bytes().to_vec()))
}

/// What of a reply has to be the same.
fn essence(words: &[String], reply: Reply) -> String {
    let name = words[0].as_str();
    let reply = match name {
        "XPENDING" | "XINFO" => without_times(name, reply),
        _ => reply,
    };
    match reply {
        Reply::Integer(number) if BY_CLOCK.contains(&name) => number.signum().to_string(),
        Reply::Map(_) | Reply::Array(_) if BY_CLOCK.contains(&name) => String::new(),
        Reply::Array(items) | Reply::Set(items) if UNORDERED.contains(&name) => {
            let mut items: Vec<_> = match name {
                "HGETALL" => items.chunks(2).map(|pair| format!("{pair:?}")).collect(),
                _ => items.iter().map(Reply::to_string).collect(),
            };
            items.sort();
            items.join(" ")
        }
        Reply::Map(pairs) => {
            let mut pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| format!("{key} {value}"))
                .collect();
            pairs.sort();
            pairs.join(" ")
        }
        // Redis keeps a sum of INCRBYFLOAT as text, and SORT unpacks a sorted set.
        Reply::Bulk(encoding) if name == "OBJECT" => {
            let encoding = String::from_utf8_lossy(&encoding);
            let encoding = encoding.replace("embstr", "int");
            encoding.replace("skiplist", "listpack")
        }
        // The replies of a transaction, some of which have no order or depend on the clock.
        Reply::Array(items) if name == "EXEC" => items.len().to_string(),
        // The sign of a zero depends on how Redis holds the set.
        other => other
            .to_string()
            .replace("\"-0\"", "\"0\"")
            .replace(",-0", ",0"),
    }
}

fn ask(client: &mut Connection, words: &[String]) -> String {
    essence(words, client.request(words))
}

/// Both servers forget all keys, and the connections their states.
fn forget(clients: &mut [Connection; 2]) {
    for line in ["RESET", "FLUSHALL"] {
        let _ = clients.each_mut().map(|client| client.ask(line));
    }
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn random_commands_get_the_replies_of_redis_server() {
    let count = env::var("PSP_DIFFERENTIAL_COMMANDS");
    let count = count.map_or(COMMANDS, |count| count.parse().expect("a number"));
    let seed = rand::random();
    let mut generator = Generator {
        rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        last_ms: 0,
    };
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    for client in &mut clients {
        assert_eq!(client.ask(LIMITS), "+OK");
        for code in LIBRARIES {
            client.request(&["FUNCTION", "LOAD", code]);
        }
    }
    let (mut history, mut stopped) = (Vec::new(), 0);
    for step in 0..count {
        if step % COMMANDS_PER_STATE == 0 {
            forget(&mut clients);
            history.clear();
        }
        let (words, is_spoilt) = generator.command();
        let [ours, redis] = clients.each_mut().map(|client| ask(client, &words));
        history.push(words.join(" "));
        // Redis stops a transaction for a watched key that came and went, and carries it out if a command left the key
        // as it was. psp-redis does neither.
        if words[0] == "EXEC" && (ours == "nil") != (redis == "nil") {
            stopped += 1;
            forget(&mut clients);
            continue;
        }
        // Which of several errors is told first does not matter.
        if is_spoilt && [&ours, &redis].iter().all(|reply| reply.starts_with('-')) {
            continue;
        }
        let last = &history[history.len().saturating_sub(25)..];
        assert_eq!(
            ours,
            redis,
            "seed {seed}, command {step}, after:\n{}",
            last.join("\n")
        );
    }
    println!("{count} commands, seed {seed}; {stopped} transactions stopped on one side alone");
    assert!(
        stopped <= count / 1000,
        "{stopped} transactions stopped on one side alone"
    );
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn hyperloglogs_are_those_of_redis_server() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut same = |words: &[String]| {
        let [ours, redis] = clients.each_mut().map(|client| ask(client, words));
        assert_eq!(ours, redis, "{:.60}", words.join(" "));
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    // From a few members in the sparse form to many in the dense one.
    for step in 0..400 {
        let key = ["p", "q"][step % 2];
        let members = (0..step + 1).map(|_| rng.random_range(0..1_000_000_u32).to_string());
        let added = words(&format!("PFADD {key}")).into_iter();
        same(&added.chain(members).collect::<Vec<_>>());
        for line in [
            format!("GET {key}"),
            format!("PFCOUNT {key}"),
            format!("GET {key}"),
        ] {
            same(&words(&line));
        }
        if step % 20 == 0 {
            for line in [
                "PFCOUNT p q",
                "PFMERGE r p",
                "GET r",
                "PFMERGE s p q",
                "GET s",
                "PFCOUNT s",
            ] {
                same(&words(line));
            }
        }
    }
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn searches_of_places_find_those_of_redis_server() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    let seed = rand::random();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut same = |line: String| {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let [ours, redis] = clients.each_mut().map(|client| ask(client, &words));
        assert_eq!(ours, redis, "seed {seed}: {line}");
    };
    // Some places are near each other, near a pole, or near the date line.
    let mut place = |wide: bool| {
        let (longitude, latitude) = if wide { (180.0, 85.0) } else { (1.0, 1.0) };
        let longitude = rng.random_range(-longitude..longitude);
        format!("{longitude} {}", rng.random_range(-latitude..latitude))
    };
    for member in 0..500 {
        same(format!("GEOADD g {} m{member}", place(member % 2 == 0)));
    }
    for index in 0..2000 {
        let centre = match index % 3 {
            0 => format!("FROMMEMBER m{}", index % 500),
            _ => format!("FROMLONLAT {}", place(index % 2 == 0)),
        };
        let reach = 1.03_f64.powi(index % 600);
        let shape = match index % 4 {
            0 => format!("BYBOX {reach} {} m", reach * f64::from(index % 7)),
            _ => format!("BYRADIUS {reach} m"),
        };
        let order = ["ASC", "DESC", "COUNT 5", "COUNT 3 ANY", "WITHHASH"][index as usize % 5];
        same(format!(
            "GEOSEARCH g {centre} {shape} WITHDIST WITHCOORD {order}"
        ));
    }
}

/// The servers read each other's payloads.
#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn libraries_go_to_redis_server_and_come_back() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    // Long enough for redis-server to compress it, and so long that its length takes four bytes.
    let long = format!(
        "#!lua name=long\nredis.register_function('len', function(keys, args) return #args[1] end)\n--{}",
        "text ".repeat(10_000)
    );
    let codes = LIBRARIES.into_iter().chain([&*long]);
    for from in 0..2 {
        let [source, target] = &mut clients;
        let (source, target) = if from == 0 {
            (source, target)
        } else {
            (target, source)
        };
        source.ask("FUNCTION FLUSH");
        for code in codes.clone() {
            source.request(&["FUNCTION", "LOAD", code]);
        }
        let payload = source.request(&["FUNCTION", "DUMP"]).into_bytes();
        target.ask("FUNCTION FLUSH");
        let restored = target.request(&[b"FUNCTION", b"RESTORE".as_slice(), &payload]);
        assert_eq!(restored.to_string(), "+OK");
        assert_eq!(target.ask("FCALL len 0 four"), "4");
        assert_eq!(target.ask("FCALL call 0 PING"), "+PONG");
        let listed = clients.each_mut().map(|client| {
            let list = ["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "long"];
            client.request(&list).to_string()
        });
        assert_eq!(listed[0], listed[1]);
    }
}

/// Requests about functions that go wrong, one after the other.
const WRONG: &[&[&str]] = &[
    &["FUNCTION"],
    &["FUNCTION", "NOPE"],
    &["FUNCTION", "LOAD"],
    &["FUNCTION", "LOAD", "x"],
    &["FUNCTION", "LOAD", "REPLACE"],
    &["FUNCTION", "LOAD", "REPLACE", "x", "y"],
    &["FUNCTION", "LOAD", "#!lua"],
    &["FUNCTION", "LOAD", "#!lua\n"],
    &["FUNCTION", "LOAD", "#!\n"],
    &["FUNCTION", "LOAD", "#! name=a\n"],
    &["FUNCTION", "LOAD", "#!js name=a\n"],
    &["FUNCTION", "LOAD", "#!lua name=a.b\n"],
    &["FUNCTION", "LOAD", "#!lua name=\"a\n"],
    &["FUNCTION", "LOAD", "#!lua name=a name=b\n"],
    &["FUNCTION", "LOAD", "#!lua name=a b=c\n"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nx y"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nreturn 1"],
    &["FUNCTION", "LOAD", "#!lua name=lib\na = 1"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nmath.random()"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nredis.call('ping')"],
    &["FUNCTION", "LOAD", "#!lua name=lib\nredis.log(9, 'x')"],
    &[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('a', 1)",
    ],
    &[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function{function_name = 'a'}",
    ],
    &[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function{flags = {'x'}}",
    ],
    &[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function(keys, args)\n\
       if args[1] == 'error' then error('oh') end\n\
       if args[1] == 'global' then x = 1 end\n\
       if args[1] == 'keys' then return KEYS end\n\
       if args[1] == 'object' then error({err = 'MY oh'}) end\n\
       if args[1] == 'register' then redis.register_function('g', 1) end\n\
       return redis.call(unpack(args)) end)",
    ],
    &["FUNCTION", "LOAD", "#!lua name=lib\n"],
    &[
        "FUNCTION",
        "LOAD",
        "#!lua name=other\nredis.register_function('F', function() end)",
    ],
    &["FCALL", "f", "0", "error"],
    &["FCALL", "f", "0", "global"],
    &["FCALL", "f", "0", "keys"],
    &["FCALL", "f", "0", "object"],
    &["FCALL", "f", "0", "register"],
    &["FCALL", "f", "0", "NOPE"],
    &["FCALL", "f", "0", "GET"],
    &["FCALL", "f", "0", "CONFIG", "NOPE"],
    &["FCALL", "f", "0", "FCALL", "f", "0"],
    &["FCALL", "f", "0"],
    &["FCALL", "f", "x"],
    &["FCALL", "f", "-1"],
    &["FCALL", "f", "1"],
    &["FCALL", "f"],
    &["FCALL_RO", "f", "0", "PING"],
    &["FCALL", "nosuch", "0"],
    &["FUNCTION", "LIST", "x"],
    &["FUNCTION", "LIST", "LIBRARYNAME"],
    &["FUNCTION", "LIST", "WITHCODE", "WITHCODE"],
    &["FUNCTION", "DELETE"],
    &["FUNCTION", "DELETE", "nosuch"],
    &["FUNCTION", "FLUSH", "x"],
    &["FUNCTION", "FLUSH", "SYNC", "x"],
    &["FUNCTION", "KILL"],
    &["FUNCTION", "KILL", "x"],
    &["FUNCTION", "RESTORE"],
    &["FUNCTION", "RESTORE", "x"],
    &["FUNCTION", "RESTORE", "x", "y"],
    &["FUNCTION", "RESTORE", "x", "y", "z"],
    &["FUNCTION", "HELP"],
    &["FUNCTION", "LIST", "WITHCODE"],
    &["EVAL_RO", "#!lua\nreturn 1", "0"],
    &[
        "EVAL_RO",
        "#!lua flags=no-writes\nreturn redis.call('set', 'x', 1)",
        "0",
    ],
    &["EVAL", "#!lua flags=no-writes,\nreturn 1", "0"],
    &["EVAL", "#!LUA\nreturn 1", "0"],
    &["EVAL", "#!lua \"\nreturn 1", "0"],
    &["EVAL", "return redis.call('config', 'nope')", "0"],
    &["EVAL", "return redis.set_repl(9)", "0"],
    &["EVAL", "return redis.acl_check_cmd()", "0"],
    &["EVAL", "return 1/0", "0"],
    &["SCRIPT", "HELP"],
    &["SCRIPT", "DEBUG", "x"],
    &["SCRIPT", "FLUSH", "x"],
];

/// Wrong arguments, and limits of arguments, in turn on one state.
const MISTAKES: &[&str] = &[
    "CONFIG SET maxmemory 100mb",
    "CONFIG GET maxmemory",
    "CONFIG SET maxmemory 0",
    "SET k v",
    "OBJECT nosuch k",
    "OBJECT",
    "OBJECT ENCODING",
    "CONFIG nosuch",
    "CLIENT nosuch",
    "COMMAND nosuch",
    "MEMORY nosuch",
    "XINFO nosuch",
    "XGROUP nosuch",
    "SCRIPT nosuch",
    "FUNCTION nosuch",
    "PUBSUB nosuch",
    "SELECT abc",
    "SELECT -1",
    "GETEX nosuch PX -1",
    "GETEX nosuch EX 0",
    "GETEX nosuch EX abc",
    "LINDEX nosuch abc",
    "LPUSH l a b c",
    "LINDEX l abc",
    "LINDEX k abc",
    "HSET h a 1",
    "EXPIRE h abc NX GT",
    "EXPIRE h 100 NX GT",
    "EXPIRE h 100 GT LT",
    "EXPIRE nosuch 100 FOO",
    "EXPIRE nosuch abc",
    "LMPOP 1 l LEFT COUNT 0",
    "LMPOP 0 l LEFT",
    "LMPOP abc l LEFT",
    "ZMPOP 1 l MIN COUNT 0",
    "BLMPOP 0 1 l LEFT COUNT 0",
    "BLMPOP -1 1 l LEFT",
    "SSCAN nosuch 0 COUNT",
    "SSCAN nosuch 0 COUNT 0",
    "SSCAN nosuch 0 COUNT abc",
    "SSCAN nosuch abc",
    "HSCAN nosuch 0 COUNT 0",
    "SCAN 0 COUNT 0",
    "SCAN 0 COUNT",
    "SCAN abc",
    "SSCAN k 0 COUNT",
    "ZADD z 1 a 2 b",
    "ZRANGEBYSCORE z ( 2",
    "ZRANGEBYSCORE z 1 (",
    "ZRANGEBYSCORE z (a 2",
    "ZRANGEBYSCORE nosuch ( 2",
    "ZCOUNT z ( 2",
    "ZRANGE z ( 2 BYSCORE",
    "SET f 1",
    "INCRBYFLOAT f 0x10",
    "INCRBYFLOAT f 0.12345678901234567",
    "INCRBYFLOAT f 1234567890.1234567",
    "INCRBYFLOAT f 1e300",
    "INCRBYFLOAT f -1e300",
    "SET f 10.5",
    "INCRBYFLOAT f 0.1",
    "INCRBYFLOAT f 3.0e3",
    "HINCRBYFLOAT h x 0x10",
    "HINCRBYFLOAT h x 1.23456789012345678",
    "ZADD z 0 zero",
    "ZINCRBY z -0 zero",
    "ZINCRBY z -0 newzero",
    "ZADD z -0 neg",
    "ZSCORE z neg",
    "ZSCORE z newzero",
    "CONFIG SET timeout 1 timeout 2",
    "CONFIG SET maxmemory abc",
    "OBJECT IDLETIME nosuch",
    "GETRANGE k abc 1",
    "SETRANGE k -1 x",
    "SETRANGE nosuch -1 x",
    "SETRANGE nosuch 0",
    "LSET l 10 x",
    "LSET nosuch 0 x",
    "LINSERT l foo a b",
    "LPOS l a RANK 0",
    "LPOS l a COUNT -1",
    "LPOP l -1",
    "LPOP l abc",
    "LPOP nosuch abc",
    "SPOP nosuch -1",
    "SPOP nosuch abc",
    "SRANDMEMBER nosuch abc",
    "SINTERCARD 0 a",
    "SINTERCARD abc a",
    "SINTERCARD 1 nosuch LIMIT -1",
    "ZINTERCARD 1 nosuch LIMIT -1",
    "ZRANDMEMBER nosuch abc",
    "HRANDFIELD nosuch abc",
    "ZRANGESTORE d nosuch 0 abc",
    "ZRANGE nosuch abc 1",
    "ZRANGE z 0 1 LIMIT 0 1",
    "ZADD z NX XX 1 a",
    "ZADD z GT LT 1 a",
    "ZADD z INCR 1 a 2 b",
    "ZADD z abc a",
    "ZADD z nan a",
    "ZINCRBY z nan a",
    "EXPIRE k 9223372036854775807",
    "PEXPIRE k 9223372036854775807",
    "EXPIREAT k -1",
    "EXISTS k",
    "SETEX s 0 v",
    "SETEX s -1 v",
    "PSETEX s 0 v",
    "SET s v EX 0",
    "SET s v EX abc",
    "SET s v PX 9223372036854775807 EX 1",
    "SET s v NX XX",
    "SET s v KEEPTTL EX 1",
    "SET s v GET NX",
    "GETDEL",
    "BITCOUNT k 0",
    "BITCOUNT k 0 1 FOO",
    "BITPOS k 2",
    "SETBIT k -1 1",
    "SETBIT k 1 2",
    "GETBIT k abc",
    "BITOP NOT d a b",
    "BITOP FOO d a",
    "GEOADD g 200 100 a",
    "GEODIST g a b foo",
    "COPY k k",
    "COPY k d2 DB abc",
    "SORT l BY",
    "SORT l LIMIT 0",
    "SORT l",
    "XADD s2 0-0 a b",
    "XADD s2 abc a b",
    "XRANGE s2 abc +",
    "XREAD COUNT abc STREAMS s2 0",
    "XGROUP CREATE nosuch g $",
    "XLEN k",
    "LCS k l",
    "LCS a b LEN IDX",
    "HINCRBY h a abc",
    "HSETNX h",
    "HMGET l a",
    "INCRBY k 1",
    "INCR l",
    "DECRBY n -9223372036854775808",
    "INCRBY n 9223372036854775807",
    "INCRBY n 9223372036854775807",
    "APPEND l x",
    "MSETNX a",
    "MSET a",
    "RENAME nosuch b",
    "RESTORE a b c",
    "SUBSTR k 0 -1",
    "GETSET l v",
    "TYPE",
    "RANDOMKEY x",
    "PFADD k a",
    "PFMERGE k k",
    "PFCOUNT l",
];

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn mistakes_are_answered_as_redis_server_answers_them() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    for line in MISTAKES {
        let [ours, redis] = clients.each_mut().map(|client| client.ask(line));
        assert_eq!(ours, redis, "after {line}");
    }
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn what_goes_wrong_with_functions_is_said_as_redis_server_says_it() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    for words in WRONG {
        let [ours, redis] = clients
            .each_mut()
            .map(|client| client.request(words).to_string());
        assert_eq!(ours, redis, "after {words:?}");
    }
}
