//! Commands on hashes. Reads walk a snapshot.

use psp_store::{Element, ElementRef, Hash, Held};

use super::counts::{pick_count, picks};
use super::pace::Pace;
use super::scan;
use super::walk::Pairing;
use super::{large, walk};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::keyspace_events::{Class, Rule};
use crate::long_double::{self, LongDouble};
use crate::parse::{Result, integer, is};
use crate::typed::{change_or_create, read, snapshot};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("hset", hset).event(Class::Hash, "hset", Rule::Always),
    Row::new("hmset", hmset).event(Class::Hash, "hset", Rule::Always),
    Row::new("hsetnx", hsetnx).event(Class::Hash, "hset", Rule::Replied),
    Row::new("hget", hget),
    Row::new("hmget", hmget),
    Row::new("hgetall", hgetall),
    Row::new("hdel", hdel).event(Class::Hash, "hdel", Rule::Replied),
    Row::new("hexists", hexists),
    Row::new("hlen", hlen),
    Row::new("hkeys", hkeys),
    Row::new("hvals", hvals),
    Row::new("hstrlen", hstrlen),
    Row::new("hincrby", hincrby).event(Class::Hash, "hincrby", Rule::Always),
    Row::new("hincrbyfloat", hincrbyfloat).event(Class::Hash, "hincrbyfloat", Rule::Always),
    Row::new("hscan", hscan),
    Row::new("hrandfield", hrandfield),
];

/// Whether a field is to be gone: none is while a log is read.
pub(super) fn is_due(context: &Context<'_>, held: &Held<'_>) -> bool {
    held.expire_at_ms.is_some_and(|at_ms| context.store.has_passed(at_ms, &context.now))
}

/// What a command finds of a field.
pub(super) enum Found<'h> {
    Nothing,
    /// The field is due, and nobody sees it any more.
    Due,
    Value(ElementRef<'h>),
}

impl<'h> Found<'h> {
    pub(super) fn of(context: &Context<'_>, hash: Option<&'h Hash>, field: &[u8]) -> Self {
        match hash.and_then(|hash| hash.find(field)) {
            None => Self::Nothing,
            Some(held) if is_due(context, &held) => Self::Due,
            Some(held) => Self::Value(held.value),
        }
    }

    pub(super) fn value(self) -> Option<ElementRef<'h>> {
        match self {
            Self::Nothing | Self::Due => None,
            Self::Value(value) => Some(value),
        }
    }
}

/// Reads one field. One that is due goes.
fn read_field(
    context: &Context<'_>,
    (key, field): (&[u8], &[u8]),
    read_value: impl FnOnce(Option<ElementRef<'_>>),
) -> Result<()> {
    let is_due = read(context.store, key, |hash: Option<&Hash>| {
        let found = Found::of(context, hash, field);
        let is_due = matches!(found, Found::Due);
        read_value(found.value());
        is_due
    })?;
    if is_due {
        context.store.expire_fields(key, &[field], &context.now);
    }
    Ok(())
}

/// A snapshot of the hash without what is due.
fn live(context: &Context<'_>, key: &[u8]) -> Result<Hash> {
    let hash: Hash = snapshot(context.store, key)?.unwrap_or_default();
    let pace = Pace::new();
    Ok(hash.without_due(&context.now, || pace.step()))
}

/// The same. Fields that are due go, a few of many.
fn live_and_expired(context: &Context<'_>, key: &[u8]) -> Result<Hash> {
    let hash: Hash = snapshot(context.store, key)?.unwrap_or_default();
    if hash.next_due_ms().is_none_or(|at_ms| !context.store.has_passed(at_ms, &context.now)) {
        return Ok(hash);
    }
    drop(hash);
    context.store.expire_due_fields(key, &context.now, large::LOCKED_ELEMENTS_MAX);
    live(context, key)
}

/// Sets the fields among `args`. Returns how many are new.
fn set_fields(context: &Context<'_>, args: &[&[u8]], name: &'static str) -> Result<usize> {
    let pairs = &args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(CommandError::Arity(name.into()));
    }
    large::change_or_create(
        context.store.telling(&context.sent(args)),
        args[1],
        large::work(pairs),
        |hash: &mut Hash, pace| {
            let before = hash.len();
            for pair in pairs.chunks_exact(2) {
                pace.step();
                hash.insert(pair[0], Element::from(pair[1]));
            }
            hash.len() - before
        },
    )
}

fn hset(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let added = set_fields(context, args, "hset")?;
    out.integer(added as i64);
    Ok(())
}

fn hmset(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_fields(context, args, "hmset")?;
    out.simple("OK");
    Ok(())
}

fn hsetnx(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let told = context.told();
    let set = large::change_or_create(
        context.store.telling(&told),
        args[1],
        large::work(&args[2..]),
        |hash: &mut Hash, _| {
            told.says_nothing();
            let absent = Found::of(context, Some(hash), args[2]).value().is_none();
            if absent {
                hash.insert(args[2], Element::from(args[3]));
                told.says(&[b"HSET", args[1], args[2], args[3]]);
            }
            absent
        },
    )?;
    out.integer(i64::from(set));
    Ok(())
}

fn hget(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read_field(context, (args[1], args[2]), |value| walk::element_or_null(out, value))
}

fn hmget(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let any_due = read(context.store, args[1], |hash: Option<&Hash>| {
        out.array(args.len() - 2);
        let pace = Pace::new();
        let mut any_due = false;
        for field in &args[2..] {
            pace.step();
            let found = Found::of(context, hash, field);
            any_due |= matches!(found, Found::Due);
            walk::element_or_null(out, found.value());
        }
        any_due
    })?;
    if any_due {
        for fields in args[2..].chunks(large::LOCKED_ELEMENTS_MAX) {
            context.store.expire_fields(args[1], fields, &context.now);
        }
    }
    Ok(())
}

fn hgetall(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    walk::map(out, &live(context, args[1])?);
    Ok(())
}

fn hdel(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let fields = &args[2..];
    let removed = large::change(
        context.store.telling(&context.sent(args)),
        args[1],
        fields.len(),
        |hash: &mut Hash, pace| fields.iter().inspect(|_| pace.step()).filter(|field| hash.remove(field)).count(),
    )?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn hexists(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read_field(context, (args[1], args[2]), |value| out.integer(i64::from(value.is_some())))
}

fn hlen(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = read(context.store, args[1], |hash: Option<&Hash>| hash.map_or(0, Hash::len))?;
    out.integer(len as i64);
    Ok(())
}

fn hkeys(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    walk::array(out, live(context, args[1])?.in_order().map(|(field, _)| field));
    Ok(())
}

fn hvals(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    walk::array(out, live(context, args[1])?.in_order().map(|(_, value)| value));
    Ok(())
}

fn hstrlen(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read_field(context, (args[1], args[2]), |value| {
        out.integer(value.map_or(0, |value| value.len() as i64));
    })
}

fn hincrby(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let increment = integer(args[3])?;
    let told = context.told();
    let sum = change_or_create(context.store.telling(&told), args[1], |hash: &mut Hash| {
        let found = hash.find(args[2]);
        let held = found.filter(|held| !is_due(context, held));
        let is_anew = found.is_some() && held.is_none();
        let value = match held {
            Some(held) => integer(&held.value).map_err(|_| CommandError::line("ERR hash value is not an integer"))?,
            None => 0,
        };
        let expire_at_ms = held.and_then(|held| held.expire_at_ms);
        let sum = value.checked_add(increment).ok_or(CommandError::Overflow)?;
        let mut digits = itoa::Buffer::new();
        let text = digits.format(sum).as_bytes();
        hash.insert_expiring(args[2], Element::from(text), expire_at_ms);
        if is_anew {
            told.says(&[b"HSET", args[1], args[2], text]);
        } else {
            told.says(args);
        }
        Ok(sum)
    })??;
    out.integer(sum);
    Ok(())
}

fn hincrbyfloat(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !LongDouble::parse(args[3])?.is_finite() {
        return Err(CommandError::line("ERR value is NaN or Infinity"));
    }
    let told = context.told();
    let sum = change_or_create(context.store.telling(&told), args[1], |hash: &mut Hash| {
        let held = hash.find(args[2]).filter(|held| !is_due(context, held));
        let expire_at_ms = held.and_then(|held| held.expire_at_ms);
        let wrong = CommandError::line("ERR hash value is not a float");
        let value = held.map(|held| held.value);
        let sum = Element::from(long_double::sum(value.as_deref(), args[3], wrong)?.as_bytes());
        hash.insert_expiring(args[2], sum.clone(), expire_at_ms);
        told.says(&[b"HSET", args[1], args[2], &sum]);
        told.adds_field_times(args[1], expire_at_ms, expire_at_ms.map_or(&[], |_| &args[2..3]));
        Ok::<_, CommandError>(sum)
    })??;
    out.bulk(&sum);
    Ok(())
}

fn hscan(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let Some((hash, options)) = scan::open::<Hash>(context, args, out)? else {
        return Ok(());
    };
    let scan = hash.scan(options.cursor, options.count);
    let live = scan.entries.timed().filter(|(_, held)| !is_due(context, held));
    let found: Vec<_> = live.filter(|(field, _)| options.matches(field)).collect();
    options.head(out, scan.cursor, found.len() * if options.without_values { 1 } else { 2 });
    walk::batched(out, |out| {
        for (field, held) in found {
            walk::element(out, field);
            if !options.without_values {
                walk::element(out, held.value);
            }
        }
    });
    Ok(())
}

fn hrandfield(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (count, pairing) = match args[2..] {
        [] => {
            let hash = live_and_expired(context, args[1])?;
            let field = picks(hash.len(), -1, &Pace::new()).next().and_then(|rank| hash.at(rank));
            walk::element_or_null(out, field.map(|(field, _)| field));
            return Ok(());
        }
        [count] => (pick_count(count, false)?, Pairing::Alone),
        [count, option] if is(option, "withvalues") => (pick_count(count, true)?, Pairing::Paired),
        _ => return Err(CommandError::Syntax),
    };
    let hash = live_and_expired(context, args[1])?;
    let picked = picks(hash.len(), count, &Pace::new());
    // In RESP3, too, an empty reply contains no pairs.
    let nested = pairing.head(out, picked.len());
    walk::batched(out, |out| {
        for (field, value) in picked.filter_map(|rank| hash.at(rank)) {
            if nested {
                out.array(2);
            }
            walk::element(out, field);
            if pairing != Pairing::Alone {
                walk::element(out, value);
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn fields_of_small_hashes_keep_their_order() {
        let mut session = Session::new();
        session.expect(&[
            ("HSET h zeta 1 alpha 2 mu 3", ":3"),
            ("HSET h alpha 4 beta 5", ":1"),
            ("HKEYS h", "*4 $4 zeta $5 alpha $2 mu $4 beta"),
            ("HVALS h", "*4 $1 1 $1 4 $1 3 $1 5"),
            ("HDEL h zeta", ":1"),
            ("HSETNX h zeta 6", ":1"),
            ("HGETALL h", "*8 $5 alpha $1 4 $2 mu $1 3 $4 beta $1 5 $4 zeta $1 6"),
            ("COPY h copy", ":1"),
            ("HKEYS copy", "*4 $5 alpha $2 mu $4 beta $4 zeta"),
        ]);
    }

    #[test]
    fn sets_and_gets_fields() {
        Session::new().expect(&[
            ("HSET h a 1 b 2", ":2"),
            ("HSET h a 3 c 4", ":1"),
            ("HGET h a", "$1 3"),
            ("HGET h nope", "$-1"),
            ("HGET missing a", "$-1"),
            ("HMSET h d 5", "+OK"),
            ("HMGET h a nope d", "*3 $1 3 $-1 $1 5"),
            ("HMGET missing a b", "*2 $-1 $-1"),
            ("HSETNX h a 9", ":0"),
            ("HSETNX h e 9", ":1"),
            ("HEXISTS h a", ":1"),
            ("HEXISTS h nope", ":0"),
            ("HEXISTS missing a", ":0"),
            ("HLEN h", ":5"),
            ("HLEN missing", ":0"),
            ("HSTRLEN h a", ":1"),
            ("HSTRLEN h nope", ":0"),
            ("HDEL h b c d e nope", ":4"),
            ("HGETALL h", "*2 $1 a $1 3"),
            ("HKEYS h", "*1 $1 a"),
            ("HVALS h", "*1 $1 3"),
            ("HDEL h a", ":1"),
            ("EXISTS h", ":0"),
            ("HDEL missing a", ":0"),
            ("HGETALL missing", "*0"),
            ("HKEYS missing", "*0"),
            ("HVALS missing", "*0"),
            ("HSET h a", "-ERR wrong number of arguments for 'hset' command"),
            ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command"),
            ("HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command"),
            ("HSET h", "-ERR wrong number of arguments for 'hset' command"),
            ("SET s v", "+OK"),
            ("HSET s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HSETNX s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HGET s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HMGET s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HGETALL s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HDEL s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HKEYS s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HVALS s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HLEN s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HEXISTS s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HSTRLEN s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn increments_fields() {
        Session::new().expect(&[
            ("HINCRBY h n 5", ":5"),
            ("HINCRBY h n -7", ":-2"),
            ("HGET h n", "$2 -2"),
            ("HINCRBY h n x", "-ERR value is not an integer or out of range"),
            ("HSET h text abc big 9223372036854775807", ":2"),
            ("HINCRBY h text 1", "-ERR hash value is not an integer"),
            ("HINCRBY h big 1", "-ERR increment or decrement would overflow"),
            ("HINCRBYFLOAT h f 1.5", "$3 1.5"),
            ("HINCRBYFLOAT h f 0.1", "$3 1.6"),
            ("HINCRBYFLOAT h f -1.6", "$1 0"),
            ("HINCRBYFLOAT h e 3.0e3", "$4 3000"),
            ("HINCRBYFLOAT h g 1e20", "$21 100000000000000000000"),
            ("HINCRBYFLOAT h text 1", "-ERR hash value is not a float"),
            ("HINCRBYFLOAT h f x", "-ERR value is not a valid float"),
            ("HINCRBYFLOAT h f nan", "-ERR value is not a valid float"),
            ("HINCRBYFLOAT h f inf", "-ERR value is NaN or Infinity"),
            ("EXISTS other", ":0"),
            ("HINCRBY other n x", "-ERR value is not an integer or out of range"),
            ("EXISTS other", ":0"),
            ("SET s v", "+OK"),
            ("HINCRBY s n 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HINCRBYFLOAT s n 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn scans_fields() {
        Session::new().expect(&[
            ("HSET h one 1", ":1"),
            ("HSCAN h 0", "*2 $1 0 *2 $3 one $1 1"),
            ("HSCAN h 0 MATCH o*", "*2 $1 0 *2 $3 one $1 1"),
            ("HSCAN h 0 MATCH x* COUNT 5", "*2 $1 0 *0"),
            ("HSCAN h 0 NOVALUES MATCH o*", "*2 $1 0 *1 $3 one"),
            ("HSCAN missing 0", "*2 $1 0 *0"),
            ("HSCAN h x", "-ERR invalid cursor"),
            ("HSCAN missing x", "-ERR invalid cursor"),
            ("HSCAN h 0 COUNT 0", "-ERR syntax error"),
            ("HSCAN h 0 COUNT x", "-ERR value is not an integer or out of range"),
            ("HSCAN h 0 MATCH", "-ERR syntax error"),
            ("HSCAN h 0 FOO 1", "-ERR syntax error"),
            ("SET s v", "+OK"),
            ("HSCAN s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn picks_random_fields() {
        Session::new().expect(&[
            ("HSET h one 1", ":1"),
            ("HRANDFIELD h", "$3 one"),
            ("HRANDFIELD h 5", "*1 $3 one"),
            ("HRANDFIELD h -2", "*2 $3 one $3 one"),
            ("HRANDFIELD h 1 WITHVALUES", "*2 $3 one $1 1"),
            ("HRANDFIELD h -2 WITHVALUES", "*4 $3 one $1 1 $3 one $1 1"),
            ("HRANDFIELD h 0", "*0"),
            ("HRANDFIELD missing", "$-1"),
            ("HRANDFIELD missing 1", "*0"),
            ("HRANDFIELD missing -3", "*0"),
            ("HRANDFIELD h x", "-ERR value is not an integer or out of range"),
            ("HRANDFIELD h 1 FOO", "-ERR syntax error"),
            ("HRANDFIELD h 1 WITHVALUES FOO", "-ERR syntax error"),
            (
                "HRANDFIELD h -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("HRANDFIELD h 9223372036854775807 WITHVALUES", "-ERR value is out of range"),
            ("SET s v", "+OK"),
            ("HRANDFIELD s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HRANDFIELD s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn resp3_has_maps_and_pairs() {
        Session::new().resp3().expect(&[
            ("HSET h one 1", ":1"),
            ("HGETALL h", "%1 $3 one $1 1"),
            ("HGETALL missing", "%0"),
            ("HKEYS h", "*1 $3 one"),
            ("HVALS h", "*1 $1 1"),
            ("HMGET h one nope", "*2 $1 1 _"),
            ("HRANDFIELD h 1 WITHVALUES", "*1 *2 $3 one $1 1"),
            ("HRANDFIELD h -2 WITHVALUES", "*2 *2 $3 one $1 1 *2 $3 one $1 1"),
            ("HRANDFIELD missing 1 WITHVALUES", "*0"),
            ("HSCAN h 0", "*2 $1 0 *2 $3 one $1 1"),
            ("HINCRBYFLOAT h one 0.5", "$3 1.5"),
        ]);
    }
}
