//! Commands on strings.

use std::ops::Range;

use psp_protocols::resp::SHARED_LEN_MIN;
use psp_store::{Databases, Element, Now, Slot, Value};

use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::expire_time::TimeForm;
use crate::keyspace_events::{Class, Read, Rule};
use crate::long_double;
use crate::parse::{self, Result};
use crate::transaction::TransactionState;
use crate::typed::{self, expect};

use super::bytes;
use super::large::LOCKED_ELEMENTS_MAX;
use super::pace::Pace;
use super::walk::element_or_null;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("append", append).event(Class::String, "append", Rule::Always),
    Row::new("decr", decr).event(Class::String, "incrby", Rule::Always),
    Row::new("decrby", decrby).event(Class::String, "incrby", Rule::Always),
    Row::new("delifeq", delifeq).event(Class::Generic, "del", Rule::Gone),
    Row::new("get", get),
    Row::new("getdel", getdel)
        .event(Class::Generic, "del", Rule::Gone)
        .reads(Read::Between(1, 1)),
    Row::new("getex", getex).effect(Class::Generic, Rule::Lifetime).reads(Read::Between(1, 1)),
    Row::new("getrange", getrange),
    Row::new("getset", getset)
        .event(Class::String, "set", Rule::Always)
        .reads(Read::Between(1, 1)),
    Row::new("incr", incr).event(Class::String, "incrby", Rule::Always),
    Row::new("incrby", incrby).event(Class::String, "incrby", Rule::Always),
    Row::new("incrbyfloat", incrbyfloat).event(Class::String, "incrbyfloat", Rule::Always),
    Row::new("mget", mget),
    Row::new("mset", mset).event(Class::String, "set", Rule::Each(2)),
    Row::new("msetnx", msetnx).event(Class::String, "set", Rule::Each(2)),
    Row::new("psetex", psetex).event(Class::String, "set", Rule::Set),
    Row::new("set", set).event(Class::String, "set", Rule::Set),
    Row::new("setex", setex).event(Class::String, "set", Rule::Set),
    Row::new("setnx", setnx).event(Class::String, "set", Rule::Replied),
    Row::new("setrange", setrange).event(Class::String, "setrange", Rule::NonEmpty(3)),
    Row::new("strlen", strlen),
    Row::new("substr", getrange),
];

fn get(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    typed::read(context.store, args[1], |string: Option<&Element>| {
        element_or_null(out, string);
    })
}

fn mget(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.array(args.len() - 1);
    let pace = Pace::new();
    // A key of another type counts as missing.
    context.store.with_all(&args[1..], |value| {
        pace.step();
        element_or_null(out, expect::<Element>(value).unwrap_or_default());
    });
    Ok(())
}

fn strlen(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = typed::read(context.store, args[1], |string: Option<&Element>| string.map_or(0, |string| string.len()))?;
    write_len(len, out);
    Ok(())
}

fn getrange(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (start, end) = (parse::integer(args[2])?, parse::integer(args[3])?);
    typed::read(context.store, args[1], |string: Option<&Element>| {
        let Some(string) = string else {
            out.bulk(b"");
            return;
        };
        let range = byte_range(start, end, string.len());
        if range.len() >= SHARED_LEN_MIN {
            out.bulk_shared(string.to_bytes().slice(range));
        } else {
            out.bulk(&string[range]);
        }
    })
}

/// Bytes from `start` to `end`, both inclusive. Unlike in an index range of a list, an end before
/// the first byte means the first byte, unless both are negative and in the wrong order.
fn byte_range(start: i64, end: i64, len: usize) -> Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let len_signed = i64::try_from(len).unwrap_or(i64::MAX);
    let end = if end < 0 {
        end.saturating_add(len_signed).max(0)
    } else {
        end
    };
    parse::index_range(start, end, len)
}

/// The effects of SET and its relatives besides storing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SetOptions<'a> {
    only_if: Option<Condition<'a>>,
    reply_old: bool,
    keep_ttl: bool,
    expire_at_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition<'a> {
    Absent,
    Present,
    /// The key holds this string.
    Equal(&'a [u8]),
}

impl<'a> SetOptions<'a> {
    fn parse(options: &[&'a [u8]], now: &Now) -> Result<Self> {
        let mut parsed = Self::default();
        let mut deadline = None;
        let mut options = options.iter();
        while let Some(option) = options.next() {
            if parse::is(option, "NX") && parsed.only_if.is_none() {
                parsed.only_if = Some(Condition::Absent);
            } else if parse::is(option, "XX") && parsed.only_if.is_none() {
                parsed.only_if = Some(Condition::Present);
            } else if parse::is(option, "IFEQ") && parsed.only_if.is_none() {
                parsed.only_if = Some(Condition::Equal(options.next().ok_or(CommandError::Syntax)?));
            } else if parse::is(option, "GET") {
                parsed.reply_old = true;
            } else if parse::is(option, "KEEPTTL") && deadline.is_none() {
                parsed.keep_ttl = true;
            } else if let Some(form) = TimeForm::of_option(option)
                && deadline.is_none()
                && !parsed.keep_ttl
            {
                deadline = Some((form, options.next().ok_or(CommandError::Syntax)?));
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if let Some((form, arg)) = deadline {
            parsed.expire_at_ms = Some(form.deadline_ms(arg, now, "set")?);
        }
        Ok(parsed)
    }
}

fn set(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = SetOptions::parse(&args[3..], &context.now)?;
    let value = new_value(context, args[2])?;
    let (stored, old) = store(context, args[1], value, options)?;
    if options.reply_old {
        element_or_null(out, old.as_ref());
    } else if stored {
        out.simple("OK");
    } else {
        out.null();
    }
    Ok(())
}

fn setnx(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let stored = store_absent(context, args[1], args[2])?;
    out.integer(i64::from(stored));
    Ok(())
}

/// Stores a string, unless the key exists. Returns whether it did.
pub(super) fn store_absent(context: &Context<'_>, key: &[u8], bytes: &[u8]) -> Result<bool> {
    let options = SetOptions { only_if: Some(Condition::Absent), ..SetOptions::default() };
    let value = new_value(context, bytes)?;
    let (stored, _) = store(context, key, value, options)?;
    Ok(stored)
}

fn getset(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = SetOptions { reply_old: true, ..SetOptions::default() };
    let value = new_value(context, args[2])?;
    let (_, old) = store(context, args[1], value, options)?;
    element_or_null(out, old.as_ref());
    Ok(())
}

fn setex(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_for(context, args, "setex", TimeForm { unit_ms: 1000, relative: true }, out)
}

fn psetex(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_for(context, args, "psetex", TimeForm { unit_ms: 1, relative: true }, out)
}

fn set_for(
    context: &Context<'_>,
    args: &[&[u8]],
    name: &'static str,
    form: TimeForm,
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let expire_at_ms = Some(form.deadline_ms(args[2], &context.now, name)?);
    let value = new_value(context, args[3])?;
    store(context, args[1], value, SetOptions { expire_at_ms, ..SetOptions::default() })?;
    out.simple("OK");
    Ok(())
}

/// Stores `value` if the options allow it. Returns whether it did, and the old string if requested.
fn store(context: &Context<'_>, key: &[u8], value: Value, options: SetOptions<'_>) -> Result<(bool, Option<Element>)> {
    context.store.update(key, |slot| {
        let old = if options.reply_old {
            expect(slot.value())?.cloned()
        } else {
            None
        };
        let stored = match options.only_if {
            None => true,
            Some(Condition::Absent) => slot.value().is_none(),
            Some(Condition::Present) => slot.value().is_some(),
            Some(Condition::Equal(wanted)) => holds(slot, wanted)?,
        };
        if stored {
            let kept = if options.keep_ttl { slot.expire_at_ms() } else { None };
            slot.insert(value);
            if let Some(expire_at_ms) = options.expire_at_ms.or(kept) {
                slot.set_expire_at_ms(Some(expire_at_ms));
            }
        }
        Ok((stored, old))
    })
}

/// Whether the key has this string. No key has none.
fn holds(slot: &Slot<'_>, wanted: &[u8]) -> Result<bool> {
    Ok(expect::<Element>(slot.value())?.is_some_and(|string| **string == *wanted))
}

/// `DELIFEQ key value`, as in Valkey: removes the key if it has this string.
fn delifeq(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let removed = context.store.update(args[1], |slot| {
        let is_equal = holds(slot, args[2])?;
        if is_equal {
            slot.remove();
        }
        Ok(is_equal)
    })?;
    out.integer(i64::from(removed));
    Ok(())
}

fn mset(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let pairs = pairs(args, "mset")?;
    let pace = Pace::new();
    for (_, value) in pairs.clone() {
        pace.step();
        check_len(context, value.len())?;
    }
    let pairs = pairs.map(|(key, value)| (key, Value::string(value)));
    if args.len() / 2 <= LOCKED_ELEMENTS_MAX {
        context.store.insert_all(pairs);
    } else {
        for (key, value) in pairs {
            pace.step();
            context.store.insert(key, value);
        }
    }
    out.simple("OK");
    Ok(())
}

fn msetnx(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let pairs = pairs(args, "msetnx")?;
    let pace = Pace::new();
    for (_, value) in pairs.clone() {
        pace.step();
        check_len(context, value.len())?;
    }
    let pairs = pairs.map(|(key, value)| (key, Value::string(value)));
    let is_few = args.len() / 2 <= LOCKED_ELEMENTS_MAX;
    let stored = if is_few || context.store.is_fork() {
        context.store.insert_all_if_absent(pairs)
    } else {
        // A transaction holds the locks for a shorter time.
        let number = context.database;
        let store = |fork: &Databases| fork.get(number).insert_all_if_absent(pairs.clone());
        TransactionState::commit(&context.server.databases, &[], store).unwrap_or(false)
    };
    out.integer(i64::from(stored));
    Ok(())
}

/// The arguments as keys with values.
fn pairs<'a>(args: &'a [&'a [u8]], name: &'static str) -> Result<impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone> {
    let (pairs, rest) = args[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CommandError::Arity(name.into()));
    }
    Ok(pairs.iter().map(|[key, value]| (*key, *value)))
}

fn getdel(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let old = context.store.update(args[1], |slot| {
        let old = expect::<Element>(slot.value())?.cloned();
        slot.remove();
        Ok(old)
    })?;
    element_or_null(out, old.as_ref());
    Ok(())
}

fn getex(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let deadline = match args[2..] {
        [] => return get(context, args, out),
        [option] if parse::is(option, "PERSIST") => None,
        [option, time] => {
            let form = TimeForm::of_option(option).ok_or(CommandError::Syntax)?;
            Some((form, time))
        }
        _ => return Err(CommandError::Syntax),
    };
    let now = &context.now;
    let told = context.told();
    let string = context.store.telling(&told).update(args[1], |slot| {
        let string = expect::<Element>(slot.value())?.cloned();
        if string.is_some() {
            let at_ms = deadline.map(|(form, time)| form.deadline_ms(time, now, "getex"));
            match at_ms.transpose()? {
                Some(at_ms) if at_ms <= now.ms() => drop(slot.remove()),
                at_ms => {
                    slot.set_expire_at_ms(at_ms);
                    told.says_expiry(args[1], at_ms);
                }
            }
        }
        Ok(string)
    })?;
    element_or_null(out, string.as_ref());
    Ok(())
}

fn append(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = bytes::append(context, args)?;
    write_len(len, out);
    Ok(())
}

fn setrange(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let offset = usize::try_from(parse::integer(args[2])?).map_err(|_negative| CommandError::OffsetOutOfRange)?;
    let patch = args[3];
    let len = if patch.is_empty() {
        typed::read(context.store, args[1], |string: Option<&Element>| string.map_or(0, |string| string.len()))?
    } else {
        let end = offset.saturating_add(patch.len());
        bytes::change(context, args, end, bytes::changes_of(patch), |bytes, _| {
            bytes[offset..end].copy_from_slice(patch);
            bytes.len()
        })?
    };
    write_len(len, out);
    Ok(())
}

fn incr(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    add(context, args[1], 1, out)
}

fn decr(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    add(context, args[1], -1, out)
}

fn incrby(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    add(context, args[1], parse::integer(args[2])?, out)
}

fn decrby(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let decrement = parse::integer(args[2])?
        .checked_neg()
        .ok_or(CommandError::line("ERR decrement would overflow"))?;
    add(context, args[1], decrement, out)
}

fn add(context: &Context<'_>, key: &[u8], step: i64, out: &mut ReplyEncoder<'_>) -> Result<()> {
    let sum = context.store.update(key, |slot| {
        let old = match expect::<Element>(slot.value())? {
            None => 0,
            Some(string) => parse::integer(string)?,
        };
        let sum = old.checked_add(step).ok_or(CommandError::Overflow)?;
        replace(slot, itoa::Buffer::new().format(sum).as_bytes());
        Ok(sum)
    })?;
    out.integer(sum);
    Ok(())
}

fn incrbyfloat(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let sum = context.store.update(args[1], |slot| {
        let old = expect::<Element>(slot.value())?.map(Element::as_slice);
        let sum = long_double::sum(old, args[2], CommandError::NotFloat)?;
        replace(slot, sum.as_bytes());
        Ok(sum)
    })?;
    out.bulk(sum.as_bytes());
    Ok(())
}

/// The slot's string; empty if there is none.
pub(super) fn current<'s>(slot: &'s Slot<'_>) -> Result<&'s [u8]> {
    Ok(expect::<Element>(slot.value())?.map_or(&[][..], Element::as_slice))
}

/// Changes the slot's string to one that has changed in part, which Redis keeps `raw`. The key keeps its expiry.
pub(super) fn replace_part(slot: &mut Slot<'_>, bytes: impl Into<Element>) {
    let mut string: Element = bytes.into();
    string.make_raw();
    replace_value(slot, Value::String(string));
}

/// Changes the slot's string. The key keeps its expiry.
fn replace(slot: &mut Slot<'_>, bytes: &[u8]) {
    replace_value(slot, Value::string(bytes));
}

fn replace_value(slot: &mut Slot<'_>, string: Value) {
    match slot.value_mut() {
        Some(value) => *value = string,
        None => slot.insert(string),
    }
}

fn new_value(context: &Context<'_>, bytes: &[u8]) -> Result<Value> {
    check_len(context, bytes.len())?;
    Ok(Value::String(context.string(bytes)))
}

pub(super) fn check_len(context: &Context<'_>, len: usize) -> Result<()> {
    if len > context.server.settings.value_len_max() {
        return Err(CommandError::StringTooLong);
    }
    Ok(())
}

pub(super) fn write_len(len: usize, out: &mut ReplyEncoder<'_>) {
    out.integer(i64::try_from(len).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn strings_are_set_and_removed_if_they_are_as_expected() {
        let mut session = Session::new();
        session.expect(&[
            ("SET k new IFEQ old", "$-1"),
            ("EXISTS k", ":0"),
            ("SET k old", "+OK"),
            ("SET k new IFEQ other", "$-1"),
            ("SET k new IFEQ old EX 100", "+OK"),
            ("SET k newer GET IFEQ new KEEPTTL", "$3 new"),
            ("TTL k", ":100"),
            ("SET k newest IFEQ new GET", "$5 newer"),
            ("SET k x IFEQ", "-ERR syntax error"),
            ("SET k x NX IFEQ newer", "-ERR syntax error"),
            ("DELIFEQ k new", ":0"),
            ("DELIFEQ k newer", ":1"),
            ("DELIFEQ k newer", ":0"),
            ("SET n 12", "+OK"),
            ("SET n 13 IFEQ 12", "+OK"),
            ("DELIFEQ n 13", ":1"),
            ("RPUSH l a", ":1"),
            ("SET l x IFEQ a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("DELIFEQ l a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn set_obeys_its_options() {
        Session::new().expect(&[
            ("SET a 1", "+OK"),
            ("GET a", "$1 1"),
            ("SET a 2 NX", "$-1"),
            ("SET b 2 XX", "$-1"),
            ("SET a 2 XX GET", "$1 1"),
            ("SET c 3 GET", "$-1"),
            ("SET c 4 NX GET", "$1 3"),
            ("GET c", "$1 3"),
            ("SET a 1 EX 100", "+OK"),
            ("TTL a", ":100"),
            ("SET a 2 KEEPTTL", "+OK"),
            ("TTL a", ":100"),
            ("SET a 3", "+OK"),
            ("TTL a", ":-1"),
            ("SET a 1 PXAT 1", "+OK"),
            ("GET a", "$-1"),
            ("SET a 1 NX XX", "-ERR syntax error"),
            ("SET a 1 EX 10 KEEPTTL", "-ERR syntax error"),
            ("SET a 1 EX 1 PX 1", "-ERR syntax error"),
            ("SET a 1 EX", "-ERR syntax error"),
            ("SET a 1 EX x", "-ERR value is not an integer or out of range"),
            ("SET a 1 EX 0", "-ERR invalid expire time in 'set' command"),
            ("SET a 1 EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
            ("SETEX a 0 v", "-ERR invalid expire time in 'setex' command"),
            ("PSETEX a 100000 v", "+OK"),
            ("TTL a", ":100"),
            ("SETNX a 1", ":0"),
            ("SETNX n 1", ":1"),
            ("GETSET n 2", "$1 1"),
        ]);
    }

    #[test]
    fn set_with_get_refuses_other_types_and_plain_set_replaces_them() {
        let mut session = Session::new();
        let list = psp_store::Value::List(psp_store::List::default());
        session.store().update(b"l", |slot| {
            slot.insert(list);
            slot.insert(psp_store::Value::string(b""));
        });
        session.expect(&[("STRLEN l", ":0"), ("SET l x", "+OK"), ("TYPE l", "+string")]);
    }

    #[test]
    fn several_keys_at_once() {
        Session::new().expect(&[
            ("MSET a 1 b 2", "+OK"),
            ("MGET a x b", "*3 $1 1 $-1 $1 2"),
            ("MSETNX c 3 a 9", ":0"),
            ("EXISTS c", ":0"),
            ("MSETNX c 3 d 4 c 5", ":1"),
            ("MGET c d", "*2 $1 5 $1 4"),
            ("MSET a", "-ERR wrong number of arguments for 'mset' command"),
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ]);
    }

    #[test]
    fn counters_count_within_their_range() {
        Session::new().expect(&[
            ("INCR n", ":1"),
            ("INCRBY n 41", ":42"),
            ("DECR n", ":41"),
            ("DECRBY n 1", ":40"),
            ("SET n 9223372036854775807", "+OK"),
            ("INCR n", "-ERR increment or decrement would overflow"),
            ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
            ("SET n x", "+OK"),
            ("INCR n", "-ERR value is not an integer or out of range"),
            ("SET f 10.5", "+OK"),
            ("INCRBYFLOAT f 0.1", "$4 10.6"),
            ("INCRBYFLOAT f -5", "$3 5.6"),
            ("SET f 5.0e3", "+OK"),
            ("INCRBYFLOAT f 2.0e2", "$4 5200"),
            ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"),
            ("INCRBYFLOAT f x", "-ERR value is not a valid float"),
            ("SET t 1 EX 100", "+OK"),
            ("INCR t", ":2"),
            ("TTL t", ":100"),
        ]);
    }

    #[test]
    fn parts_of_strings() {
        Session::new().expect(&[
            ("APPEND s Hello", ":5"),
            ("APPEND s World", ":10"),
            ("STRLEN s", ":10"),
            ("GETRANGE s 0 4", "$5 Hello"),
            ("GETRANGE s -5 -1", "$5 World"),
            ("GETRANGE s 8 100", "$2 ld"),
            ("GETRANGE s 5 2", "$0"),
            ("GETRANGE s 0 -100", "$1 H"),
            ("GETRANGE s -1 -5", "$0"),
            ("SUBSTR s 0 0", "$1 H"),
            ("GETRANGE none 0 -1", "$0"),
            ("SETRANGE s 5 There", ":10"),
            ("GET s", "$10 HelloThere"),
            ("SETRANGE s -1 x", "-ERR offset is out of range"),
            ("SETRANGE s 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
            ("SETRANGE z 2 x", ":3"),
            ("GET z", "$3 \0\0x"),
        ]);
    }

    #[test]
    fn reads_that_change_the_expiry() {
        Session::new().expect(&[
            ("SET a 1", "+OK"),
            ("GETEX a EX 100", "$1 1"),
            ("TTL a", ":100"),
            ("GETEX a", "$1 1"),
            ("TTL a", ":100"),
            ("GETEX a PERSIST", "$1 1"),
            ("TTL a", ":-1"),
            ("GETEX a EX 0", "-ERR invalid expire time in 'getex' command"),
            ("GETEX a FOO", "-ERR syntax error"),
            ("GETDEL a", "$1 1"),
            ("GETDEL a", "$-1"),
            ("SET a 2", "+OK"),
            ("GETEX a PXAT 1", "$1 2"),
            ("DBSIZE", ":0"),
        ]);
    }

    #[test]
    fn values_are_limited() {
        let mut session = Session::new();
        session.server.settings.set_value_len_max(4);
        let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
        session.expect(&[
            ("SET a 1234", "+OK"),
            ("SET a 12345", too_long),
            ("APPEND a 5", too_long),
            ("GET a", "$4 1234"),
        ]);
    }
}
