//! Commands on keys of any type.

use psp_store::{Entry, Value};
use smallvec::SmallVec;

use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::glob::{Pattern, Steps};
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::{self, Result};

use super::large::LOCKED_ELEMENTS_MAX;
use super::pace::Pace;
use super::scan::ScanOptions;
use super::subcommand::write_help;
use super::walk::{self, Gathered};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("del", del).event(Class::Generic, "del", Rule::Gone),
    Row::new("exists", exists),
    Row::new("keys", keys),
    Row::container("object", OBJECT).flags(&[Flag::Readonly]).reads(Read::Nothing),
    Row::new("randomkey", randomkey),
    Row::new("rename", rename).effect(Class::Generic, Rule::Rename),
    Row::new("renamenx", renamenx).effect(Class::Generic, Rule::Rename),
    Row::new("scan", scan),
    Row::new("touch", touch),
    Row::new("type", type_of),
    Row::new("unlink", del).event(Class::Generic, "del", Rule::Gone),
];

/// Longest string that Redis calls `embstr`.
const EMBSTR_LEN_MAX: usize = 44;

fn del(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (keys, store) = (&args[1..], context.store);
    let removed = match keys {
        [key] => usize::from(store.remove(key)),
        _ if keys.len() <= LOCKED_ELEMENTS_MAX => store.remove_all(keys),
        _ => {
            let pace = Pace::new();
            let removed = keys.iter().filter(|key| {
                pace.step();
                store.remove(key)
            });
            removed.count()
        }
    };
    out.integer(i64::try_from(removed).unwrap_or(i64::MAX));
    Ok(())
}

/// Asking whether a key exists does not touch it.
fn exists(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (pace, mut found) = (Pace::new(), 0);
    context.store.glance_all(&args[1..], |entry| {
        pace.step();
        found += i64::from(entry.is_some());
    });
    out.integer(found);
    Ok(())
}

fn touch(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (pace, mut found) = (Pace::new(), 0);
    context.store.with_all(&args[1..], |value| {
        pace.step();
        found += i64::from(value.is_some());
    });
    out.integer(found);
    Ok(())
}

fn type_of(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    context.store.glance(args[1], |entry| {
        out.simple(entry.map_or("none", |entry| entry.value().type_name()));
    });
    Ok(())
}

fn rename(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    rename_to(context, args, Existing::Replaced)?;
    out.simple("OK");
    Ok(())
}

fn renamenx(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let renamed = rename_to(context, args, Existing::Kept)?;
    out.integer(i64::from(renamed));
    Ok(())
}

/// Whether to replace an existing value of the new name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Kept,
    Replaced,
}

fn rename_to(context: &Context<'_>, args: &[&[u8]], existing: Existing) -> Result<bool> {
    let (source, target) = (args[1], args[2]);
    if source == target {
        let exists = context.store.contains(source);
        return if exists {
            Ok(existing == Existing::Replaced)
        } else {
            Err(CommandError::NoSuchKey)
        };
    }
    context.store.telling(&context.sent(args)).update_pair(source, target, |source, target| {
        let expire_at_ms = source.expire_at_ms();
        if source.value().is_none() {
            return Err(CommandError::NoSuchKey);
        }
        if existing == Existing::Kept && target.value().is_some() {
            return Ok(false);
        }
        if let Some(value) = source.remove() {
            target.insert(value);
            target.set_expire_at_ms(expire_at_ms);
        }
        Ok(true)
    })
}

fn keys(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let pattern = Pattern::new(args[1]);
    let mut found = Gathered::new(out);
    let (pace, steps) = (Pace::new(), Steps::new());
    context.store.for_each(|entry| {
        pace.step();
        if !pace.is_abandoned() && pattern.matches(entry.key(), &steps) {
            found.bulk(entry.key());
        }
    });
    if !pace.is_abandoned() {
        found.write_array();
    }
    Ok(())
}

fn scan(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (options, type_name) = without_type(&args[1..]);
    let options = ScanOptions::parse(&options, false)?;
    let mut found = Vec::new();
    let next = context.store.scan(options.cursor, options.count, |entry| {
        let is_of_type = type_name.is_none_or(|name| parse::is(name, entry.value().type_name()));
        if options.matches(entry.key()) && is_of_type {
            found.push(entry.clone());
        }
    });
    options.head(out, next, found.len());
    walk::batched(out, |out| {
        found.iter().for_each(|entry| out.bulk(entry.key()));
    });
    Ok(())
}

/// The arguments that SCAN shares with its relatives, and TYPE, which only SCAN has.
fn without_type<'a>(args: &[&'a [u8]]) -> (SmallVec<[&'a [u8]; 8]>, Option<&'a [u8]>) {
    let mut others = SmallVec::from_slice(&args[..1]);
    let mut type_name = None;
    for option in args[1..].chunks(2) {
        match *option {
            [name, wanted] if parse::is(name, "TYPE") => type_name = Some(wanted),
            _ => others.extend_from_slice(option),
        }
    }
    (others, type_name)
}

fn randomkey(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match context.store.random_entry() {
        Some(entry) => out.bulk(entry.key()),
        None => out.null(),
    }
    Ok(())
}

const OBJECT: Subcommands = &[
    ("encoding", |context, args, out| {
        inspect(context, args[2], out, |entry, out| {
            out.bulk(encoding(entry.value()).as_bytes());
        })
    }),
    ("freq", freq),
    ("help", |_, _, out| {
        write_help("object", OBJECT_HELP, out);
        Ok(())
    }),
    ("idletime", |context, args, out| {
        let store = context.store;
        if store.counts_accesses() {
            return Err(CommandError::line(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
                 policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        inspect(context, args[2], out, |entry, out| {
            out.integer(i64::from(store.idle_s(entry)));
        })
    }),
    ("refcount", |context, args, out| inspect(context, args[2], out, |_, out| out.integer(1))),
];

/// The text of OBJECT HELP, as in Redis.
const OBJECT_HELP: &[&str] = &[
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
];

/// Nothing counts how often a key is read without an LFU policy.
fn freq(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let store = context.store;
    if store.counts_accesses() {
        return inspect(context, args[2], out, |entry, out| {
            out.integer(store.frequency(entry).into());
        });
    }
    if context.store.peek(args[2], |entry| entry.is_some()) {
        return Err(CommandError::line(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    out.null();
    Ok(())
}

/// Writes what `write` says of a key without touching it; null if there is no such key.
pub(super) fn inspect(
    context: &Context<'_>,
    key: &[u8],
    out: &mut ReplyEncoder<'_>,
    write: impl FnOnce(&Entry, &mut ReplyEncoder<'_>),
) -> Result<()> {
    context.store.peek(key, |entry| match entry {
        Some(entry) => write(entry, out),
        None => out.null(),
    });
    Ok(())
}

/// Redis' name for the encoding that it would give `value`.
pub(super) fn encoding(value: &Value) -> &'static str {
    match value {
        Value::String(string) if string.is_raw() => "raw",
        Value::String(string) if parse::integer(string).is_ok() => "int",
        Value::String(string) if string.len() <= EMBSTR_LEN_MAX => "embstr",
        Value::String(_) => "raw",
        Value::List(_) => "quicklist",
        Value::Hash(hash) if hash.is_packed() && hash.was_timed() => "listpackex",
        Value::Hash(hash) if hash.is_packed() => "listpack",
        Value::Set(set) if set.is_packed() => "intset",
        Value::Hash(_) | Value::Set(_) => "hashtable",
        Value::SortedSet(set) if set.is_packed() => "listpack",
        Value::SortedSet(_) => "skiplist",
        Value::Stream(_) => "stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::testing::Session;

    /// The bulk strings of a reply.
    fn words(reply: &str) -> BTreeSet<String> {
        reply.split("\r\n").filter(|line| line.starts_with('k')).map(str::to_owned).collect()
    }

    #[test]
    fn keys_are_created_and_deleted() {
        Session::new().expect(&[
            ("MSET a 1 b 2 c 3", "+OK"),
            ("EXISTS a a x", ":2"),
            ("TOUCH a x", ":1"),
            ("TYPE a", "+string"),
            ("TYPE x", "+none"),
            ("DEL a x", ":1"),
            ("UNLINK b c", ":2"),
            ("EXISTS a b c", ":0"),
            ("RANDOMKEY", "$-1"),
            ("SET only 1", "+OK"),
            ("RANDOMKEY", "$4 only"),
        ]);
    }

    #[test]
    fn names_change_with_value_and_expiry() {
        Session::new().expect(&[
            ("SET a 1 EX 100", "+OK"),
            ("SET b 2", "+OK"),
            ("RENAMENX a b", ":0"),
            ("RENAME a b", "+OK"),
            ("GET b", "$1 1"),
            ("TTL b", ":100"),
            ("EXISTS a", ":0"),
            ("RENAME a b", "-ERR no such key"),
            ("RENAME a a", "-ERR no such key"),
            ("RENAME b b", "+OK"),
            ("RENAMENX b b", ":0"),
            ("RENAMENX b c", ":1"),
            ("COPY c d", ":1"),
            ("TTL d", ":100"),
            ("SET e 5", "+OK"),
            ("COPY c e", ":0"),
            ("COPY c e REPLACE", ":1"),
            ("GET e", "$1 1"),
            ("COPY none e", ":0"),
            ("COPY c c", "-ERR source and destination objects are the same"),
            ("COPY c e DB 16", "-ERR DB index is out of range"),
        ]);
    }

    #[test]
    fn scan_and_keys_find_the_same() {
        let mut session = Session::new();
        for index in 0..500 {
            session.run(&format!("SET k{index} v"));
        }
        let all = words(&session.run("KEYS *"));
        assert_eq!(all.len(), 500);
        let mut scanned = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = session.run(&format!("SCAN {cursor} COUNT 20 TYPE string"));
            for key in words(&reply) {
                assert!(scanned.insert(key), "returned twice");
            }
            cursor = reply.split("\r\n").nth(2).expect("a cursor").to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(scanned, all);
        assert_eq!(words(&session.run("KEYS k49?")).len(), 10);
        assert_eq!(words(&session.run("SCAN 0 COUNT 1000 MATCH k49?")).len(), 10);
        assert_eq!(session.run("SCAN 0 COUNT 1000 TYPE list"), "*2\r\n$1\r\n0\r\n*0\r\n");
        session.expect(&[
            ("SCAN x", "-ERR invalid cursor"),
            ("SCAN 0 COUNT 0", "-ERR syntax error"),
            ("SCAN 0 COUNT", "-ERR syntax error"),
            ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range"),
        ]);
    }

    #[test]
    fn frequencies_are_counted_under_an_lfu_policy_alone() {
        let mut session = Session::new();
        session.run("SET s text");
        let reply = session.run("OBJECT FREQ s");
        assert!(reply.starts_with("-ERR An LFU maxmemory policy is not selected"));
        session.expect(&[("CONFIG SET maxmemory-policy allkeys-lfu", "+OK")]);
        let freq = |session: &mut Session| {
            let reply = session.run("OBJECT FREQ s");
            reply[1..].trim_end().parse::<u8>().expect("a frequency")
        };
        let before = freq(&mut session);
        for _ in 0..1000 {
            session.run("GET s");
        }
        assert!(freq(&mut session) > before);
        let reply = session.run("OBJECT IDLETIME s");
        assert!(reply.starts_with("-ERR An LFU maxmemory policy is selected"));
        session.expect(&[
            ("OBJECT FREQ none", "$-1"),
            ("CONFIG SET maxmemory-policy noeviction", "+OK"),
            ("OBJECT IDLETIME s", ":0"),
        ]);
    }

    #[test]
    fn encodings_change_at_their_limits_and_never_back() {
        let mut session = Session::new();
        let long = "x".repeat(65);
        let fields: String = (0..512).map(|field| format!(" f{field} v")).collect();
        let numbers: String = (0..512).map(|number| format!(" {number}")).collect();
        let scores: String = (0..128).map(|member| format!(" 1 m{member}")).collect();
        let mut expect = |commands: &[String], key: &str, encoding: &str| {
            for command in commands {
                let reply = session.run(command);
                assert!(!reply.starts_with('-'), "{command}: {reply}");
            }
            let reply = session.run(&format!("OBJECT ENCODING {key}"));
            assert_eq!(reply, format!("${}\r\n{encoding}\r\n", encoding.len()), "{commands:?}");
        };
        expect(&[format!("HSET h{fields}")], "h", "listpack");
        expect(&["HSET h f0 w".into()], "h", "listpack");
        expect(&["HSETNX h more v".into()], "h", "hashtable");
        expect(&["HDEL h more f1 f2 f3".into()], "h", "hashtable");
        expect(&["COPY h h2".into()], "h2", "hashtable");
        expect(&[format!("HSET long f {}", &long[1..])], "long", "listpack");
        expect(&[format!("HSET long f {long}")], "long", "hashtable");
        expect(&["HSET long f short".into()], "long", "hashtable");
        expect(&[format!("HINCRBY name {long} 1")], "name", "hashtable");

        expect(&[format!("SADD i{numbers}")], "i", "intset");
        expect(&["SUNIONSTORE both i i".into()], "both", "intset");
        expect(&["SADD i 512".into()], "i", "hashtable");
        expect(&["SPOP i".into()], "i", "hashtable");
        expect(&["SINTERSTORE again i i".into()], "again", "intset");
        expect(&["SADD text 1 2 x".into()], "text", "hashtable");
        expect(&["SREM text x".into()], "text", "hashtable");
        expect(&["SUNIONSTORE text text".into()], "text", "intset");
        expect(&["SADD zeros 01".into()], "zeros", "hashtable");

        expect(&[format!("ZADD z{scores}")], "z", "listpack");
        expect(&["ZUNIONSTORE sum 1 z".into()], "sum", "listpack");
        expect(&["ZADD z 1 more".into()], "z", "skiplist");
        expect(&["ZREM z more".into()], "z", "skiplist");
        expect(&["ZRANGESTORE part z 0 127".into()], "part", "listpack");
        expect(&[format!("ZINCRBY wide 1 {long}")], "wide", "skiplist");
        expect(&["ZDIFFSTORE wide 1 wide".into()], "wide", "skiplist");

        let settings = [
            "CONFIG SET hash-max-ziplist-entries 1 set-max-intset-entries 1",
            "CONFIG SET zset-max-listpack-value 3 zset-max-ziplist-entries 5",
        ];
        expect(&settings.map(String::from), "again", "intset");
        expect(&["SADD again 1".into()], "again", "hashtable");
        expect(&["HSET two a 1 b 2".into()], "two", "hashtable");
        expect(&["ZADD five 1 abc 1 d 1 e 1 f 1 g".into()], "five", "listpack");
        expect(&["ZADD five 1 abcd".into()], "five", "skiplist");
        // Transactions store their results likewise.
        expect(&["MULTI", "HSET three a 1 b 2", "EXEC"].map(String::from), "three", "hashtable");
    }

    #[test]
    fn a_string_that_was_changed_in_part_is_raw() {
        let mut session = Session::new();
        session.expect(&[
            ("APPEND new 12", ":2"),
            ("OBJECT ENCODING new", "$3 int"),
            ("APPEND new 3", ":3"),
            ("OBJECT ENCODING new", "$3 raw"),
            ("COPY new copy", ":1"),
            ("OBJECT ENCODING copy", "$3 raw"),
            ("INCR new", ":124"),
            ("OBJECT ENCODING new", "$3 int"),
            ("SETRANGE new 0 2", ":3"),
            ("OBJECT ENCODING new", "$3 raw"),
            ("SET new 5", "+OK"),
            ("SETBIT new 7 0", ":1"),
            ("OBJECT ENCODING new", "$3 raw"),
            ("BITOP NOT not copy", ":3"),
            ("OBJECT ENCODING not", "$3 raw"),
            ("PFADD log a", ":1"),
            ("OBJECT ENCODING log", "$3 raw"),
        ]);
    }

    #[test]
    fn object_and_memory_report_encoding_and_size() {
        let mut session = Session::new();
        session.expect(&[
            ("MSET i 17 s text", "+OK"),
            ("OBJECT ENCODING i", "$3 int"),
            ("OBJECT ENCODING s", "$6 embstr"),
            ("OBJECT REFCOUNT s", ":1"),
            ("OBJECT IDLETIME s", ":0"),
            ("OBJECT ENCODING none", "$-1"),
            ("MEMORY USAGE none", "$-1"),
            ("OBJECT NOPE s", "-ERR unknown subcommand 'NOPE'. Try OBJECT HELP."),
        ]);
        let usage = |reply: String| reply[1..].trim_end().parse::<u64>().expect("an integer");
        let small = usage(session.run("MEMORY USAGE s"));
        session.run(&format!("SET s {}", "x".repeat(10_000)));
        assert!(usage(session.run("MEMORY USAGE s")) > small + 9_000);
    }
}
