//! DUMP and RESTORE: values as payloads that redis-server exchanges with them, too.

use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::growth::Growth;
use crate::keyspace_events::{Class, Rule};
use crate::parse::{self, Result};
use crate::rdb::{self, Damaged, Malformed};

use super::pace::Pace;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("dump", dump),
    Row::new("restore", restore).event(Class::Generic, "restore", Rule::Made(1)),
];

/// The payload has the format of Redis 7.0 in its plainest forms.
fn dump(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let Some(value) = context.store.get(args[1]) else {
        out.null();
        return Ok(());
    };
    // The parts double as they grow.
    let bytes = value.memory_bytes().saturating_mul(2);
    let _reserved = context.server.reserve_for_reply(bytes)?;
    let pace = Pace::new();
    out.bulk_shared(rdb::payload_of(&value, &|| pace.step()).into());
    Ok(())
}

/// What RESTORE does beside storing the value.
#[derive(Debug, Default)]
struct Options {
    replace: bool,
    /// The time to live is a time since the Unix epoch.
    absolute: bool,
    idle_s: Option<u32>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let wants_policy = options.idle_s.is_none() && options.frequency.is_none();
            if parse::is(option, "REPLACE") {
                options.replace = true;
            } else if parse::is(option, "ABSTTL") {
                options.absolute = true;
            } else if parse::is(option, "IDLETIME") && wants_policy {
                let idle = parse::integer(args.next().ok_or(CommandError::Syntax)?)?;
                if idle < 0 {
                    return Err(CommandError::line("ERR Invalid IDLETIME value, must be >= 0"));
                }
                options.idle_s = Some(u32::try_from(idle).unwrap_or(u32::MAX));
            } else if parse::is(option, "FREQ") && wants_policy {
                let frequency = parse::integer(args.next().ok_or(CommandError::Syntax)?)?;
                options.frequency = Some(
                    u8::try_from(frequency)
                        .map_err(|_range| CommandError::line("ERR Invalid FREQ value, must be >= 0 and <= 255"))?,
                );
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

/// The payload is read outside the key's lock.
fn restore(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (key, ttl, payload) = (args[1], args[2], args[3]);
    let options = Options::parse(&args[4..])?;
    if !options.replace && context.store.peek(key, |entry| entry.is_some()) {
        return Err(busy_key());
    }
    let now_ms = context.now.ms();
    let expire_at_ms = match u64::try_from(parse::integer(ttl)?) {
        Err(_negative) => {
            return Err(CommandError::line("ERR Invalid TTL value, must be >= 0"));
        }
        Ok(0) => None,
        Ok(at_ms) if options.absolute => Some(at_ms),
        Ok(ttl_ms) => Some(now_ms.saturating_add(ttl_ms)),
    };
    let pace = Pace::new();
    let visit = || pace.step();
    let growth = Growth::new(context.server);
    let has_room = |len| growth.has_room(len);
    let reader = rdb::open(payload, &visit).map_err(Damaged::into_error)?;
    let value_len_max = context.server.settings.value_len_max();
    let value = rdb::read_value(&mut reader.within(&has_room), value_len_max);
    growth.check()?;
    let value = value.map_err(|Malformed| CommandError::line("ERR Bad data format"))?;
    let is_expired = expire_at_ms.is_some_and(|at_ms| context.store.has_passed(at_ms, &context.now));
    context.store.update(key, |slot| {
        if slot.value().is_some() {
            if !options.replace {
                return Err(busy_key());
            }
            slot.remove();
        }
        if !is_expired {
            slot.insert(value);
            slot.set_expire_at_ms(expire_at_ms);
            if let Some(idle_s) = options.idle_s {
                slot.set_idle_s(idle_s);
            }
            if let Some(frequency) = options.frequency {
                slot.set_frequency(frequency);
            }
        }
        Ok(())
    })?;
    out.simple("OK");
    Ok(())
}

const fn busy_key() -> CommandError {
    CommandError::line("BUSYKEY Target key name already exists.")
}

#[cfg(test)]
mod tests {
    use crate::rdb;
    use crate::testing::Session;

    /// What DUMP says of `key`.
    fn payload(session: &Session, key: &str) -> Vec<u8> {
        let value = session.store().get(key.as_bytes()).expect("a value");
        let mut parts = Vec::new();
        rdb::put_value(&value, &|| {}, &mut parts);
        rdb::seal(parts, &|| {})
    }

    fn restore(session: &mut Session, words: &[&str], payload: &[u8]) -> String {
        let (before, after) = words.split_at(2);
        let mut args = vec![b"RESTORE".as_slice()];
        args.extend(before.iter().map(|word| word.as_bytes()));
        args.push(payload);
        args.extend(after.iter().map(|word| word.as_bytes()));
        session.run_args(&args)
    }

    #[test]
    fn what_was_dumped_is_restored() {
        let mut session = Session::new();
        session.expect(&[
            ("SET s text", "+OK"),
            ("RPUSH l a b c", ":3"),
            ("HSET h f 1 g 2", ":2"),
            ("SADD e x", ":1"),
            ("ZADD z 1.5 m -inf n", ":2"),
            ("DUMP none", "$-1"),
        ]);
        for key in ["s", "l", "h", "e", "z"] {
            let payload = payload(&session, key);
            let text = String::from_utf8_lossy(&payload);
            let reply = session.run(&format!("DUMP {key}"));
            assert_eq!(reply, format!("${}\r\n{text}\r\n", payload.len()));
            let copy = format!("{key}2");
            assert_eq!(restore(&mut session, &[&copy, "0"], &payload), "+OK\r\n");
        }
        session.expect(&[
            ("GET s2", "$4 text"),
            ("TTL s2", ":-1"),
            ("LRANGE l2 0 -1", "*3 $1 a $1 b $1 c"),
            ("HGET h2 g", "$1 2"),
            ("HLEN h2", ":2"),
            ("SMEMBERS e2", "*1 $1 x"),
            ("ZRANGE z2 0 -1 WITHSCORES", "*4 $1 n $4 -inf $1 m $3 1.5"),
        ]);
    }

    #[test]
    fn options_are_those_of_redis() {
        let mut session = Session::new();
        session.run("SET a text");
        let payload = payload(&session, "a");
        for (words, reply) in [
            (&["a", "0"][..], "-BUSYKEY Target key name already exists."),
            (&["b", "x"], "-ERR value is not an integer or out of range"),
            (&["b", "-1"], "-ERR Invalid TTL value, must be >= 0"),
            (&["b", "0", "NOPE"], "-ERR syntax error"),
            (&["b", "0", "IDLETIME"], "-ERR syntax error"),
            (&["b", "0", "IDLETIME", "-1"], "-ERR Invalid IDLETIME value, must be >= 0"),
            (&["b", "0", "FREQ", "256"], "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
            (&["b", "0", "FREQ", "1", "IDLETIME", "1"], "-ERR syntax error"),
            (&["b", "100000", "IDLETIME", "1000"], "+OK"),
            (&["a", "0", "REPLACE", "FREQ", "9"], "+OK"),
            (&["c", "4102444800000", "ABSTTL"], "+OK"),
            // It has expired already.
            (&["a", "1", "ABSTTL", "REPLACE"], "+OK"),
        ] {
            assert_eq!(restore(&mut session, words, &payload).trim_end(), reply, "{words:?}");
        }
        session.expect(&[
            ("OBJECT IDLETIME b", ":1000"),
            ("TTL b", ":100"),
            ("EXPIRETIME c", ":4102444800"),
            ("EXISTS a", ":0"),
        ]);
    }

    #[test]
    fn damaged_payloads_store_nothing() {
        let mut session = Session::new();
        session.run("SET a text");
        let payload = payload(&session, "a");
        let damaged = "-ERR DUMP payload version or checksum are wrong\r\n";
        assert_eq!(restore(&mut session, &["b", "0"], &payload[2..]), damaged);
        assert_eq!(restore(&mut session, &["b", "0"], b""), damaged);
        let sealed = rdb::seal(vec![0, 9], &|| {});
        assert_eq!(restore(&mut session, &["a", "0", "REPLACE"], &sealed), "-ERR Bad data format\r\n");
        session.expect(&[("EXISTS b", ":0"), ("GET a", "$4 text")]);
    }
}
