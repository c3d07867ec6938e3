//! Commands on HyperLogLogs.
//!
//! PFCOUNT and PFMERGE take snapshots of all sources at one instant.

use psp_store::{Element, Slot, Writer};

use super::pace::Pace;
use super::strings::replace_part;
use crate::command::{Context, Flag, ReplyEncoder, Row};
use crate::hyperloglog::{DENSE_BYTES, HyperLogLog, Sketch, Union, add_in_place};
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::Result;
use crate::typed::{expect, expect_mut, read, snapshots};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("pfadd", pfadd).event(Class::String, "pfadd", Rule::Replied),
    Row::new("pfcount", pfcount).flags(&[Flag::MayReplicate]),
    Row::new("pfmerge", pfmerge)
        .event(Class::String, "pfadd", Rule::Always)
        .reads(Read::Between(1, -1)),
];

/// Most members that are added under the key's lock.
const LOCKED_MEMBERS_MAX: usize = 64;

fn pfadd(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let members = &args[2..];
    let is_changed = match add_to_dense(context.store.telling(&context.sent(args)), args[1], members)? {
        Some(is_changed) => is_changed,
        None => context
            .store
            .telling(&context.sent(args))
            .update_large(args[1], |slot| add(slot, members))?,
    };
    out.integer(i64::from(is_changed));
    Ok(())
}

/// Adds a few members in place, to a dense HyperLogLog that no other request reads. Returns whether one of its
/// registers changed, or `None` if there is no such HyperLogLog.
fn add_to_dense(store: Writer<'_>, key: &[u8], members: &[&[u8]]) -> Result<Option<bool>> {
    if members.is_empty() || members.len() > LOCKED_MEMBERS_MAX {
        return Ok(None);
    }
    store.update(key, |slot| {
        let is_dense = expect::<Element>(slot.value())?.is_some_and(|string| string.len() == DENSE_BYTES);
        if !is_dense {
            return Ok(None);
        }
        let Some(bytes) = expect_mut::<Element>(slot)?.and_then(Element::get_mut) else {
            return Ok(None);
        };
        let mut is_changed = Some(false);
        for member in members {
            let is_raised = add_in_place(bytes, member);
            is_changed = is_changed.zip(is_raised).map(|(some, this)| some | this);
        }
        Ok(is_changed)
    })
}

/// Adds `members` to the slot's HyperLogLog, which it makes if there is none. Returns whether anything changed.
fn add(slot: &mut Slot<'_>, members: &[&[u8]]) -> Result<bool> {
    let (mut log, mut is_changed) = open(slot)?;
    let pace = Pace::of(slot);
    for member in members {
        pace.step();
        is_changed |= log.add(member)?;
    }
    if is_changed {
        log.forget_count();
        replace_part(slot, log.as_bytes());
    }
    Ok(is_changed)
}

/// A copy of the slot's HyperLogLog, or an empty one, and whether it is new.
fn open(slot: &Slot<'_>) -> Result<(HyperLogLog, bool)> {
    Ok(match expect::<Element>(slot.value())? {
        Some(string) => (HyperLogLog::from_sketch(Sketch::of(string)?), false),
        None => (HyperLogLog::new(), true),
    })
}

fn pfcount(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let count = match args[1..] {
        [key] => count_one(context, key)?,
        ref keys => union(context, keys)?.count(),
    };
    out.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

/// The count of one HyperLogLog, which remembers it.
fn count_one(context: &Context<'_>, key: &[u8]) -> Result<u64> {
    let cached = read(context.store, key, |string: Option<&Element>| {
        string.map_or(Ok(Some(0)), |string| Ok(Sketch::of(string)?.cached_count()))
    })??;
    if let Some(count) = cached {
        return Ok(count);
    }
    context.store.update_large(key, |slot| {
        let (mut log, is_new) = open(slot)?;
        let count = Sketch::of(log.as_bytes())?.count()?;
        if !is_new {
            log.cache_count(count);
            replace_part(slot, log.as_bytes());
        }
        Ok(count)
    })
}

fn union(context: &Context<'_>, keys: &[&[u8]]) -> Result<Union> {
    let pace = Pace::new();
    let mut union = Union::default();
    for value in snapshots(context.store, keys) {
        pace.pause();
        if let Some(string) = expect::<Element>(value.as_ref())? {
            union.add(Sketch::of(string)?)?;
        }
    }
    Ok(union)
}

fn pfmerge(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let union = union(context, &args[1..])?;
    context.store.update_large(args[1], |slot| {
        let (mut log, _) = open(slot)?;
        if union.has_dense() {
            log.make_dense()?;
        }
        let pace = Pace::of(slot);
        for (register, value) in union.registers() {
            pace.step();
            log.raise(register, value)?;
        }
        log.forget_count();
        replace_part(slot, log.as_bytes());
        Ok(())
    })?;
    out.simple("OK");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn members_are_counted() {
        let mut session = Session::new();
        session.expect(&[
            ("PFADD p a b c", ":1"),
            ("PFADD p a c", ":0"),
            ("PFADD p", ":0"),
            ("PFCOUNT p", ":3"),
            ("PFCOUNT p", ":3"),
            ("PFADD p d", ":1"),
            ("PFCOUNT p", ":4"),
            ("PFADD empty", ":1"),
            ("PFCOUNT empty", ":0"),
            ("PFCOUNT none", ":0"),
            ("EXISTS none", ":0"),
            ("PFADD q d e", ":1"),
            ("PFCOUNT p q none", ":5"),
            ("PFMERGE u p q none", "+OK"),
            ("PFCOUNT u", ":5"),
            ("PFMERGE u", "+OK"),
            ("PFMERGE new", "+OK"),
            ("PFCOUNT new", ":0"),
            ("SET t 1 EX 100", "+OK"),
        ]);
        let many: Vec<String> = (0..5000).map(|member| format!("m{member}")).collect();
        session.expect(&[
            (&format!("PFADD large {}", many.join(" ")), ":1"),
            ("STRLEN large", ":12304"),
            ("PFADD large m1 m2", ":0"),
            ("PFMERGE u large", "+OK"),
            ("STRLEN u", ":12304"),
            ("PFADD u new-member-1 new-member-2", ":1"),
        ]);
        let count = session.run("PFCOUNT large");
        let count: i64 = count[1..].trim_end().parse().unwrap();
        assert!((4900..5100).contains(&count), "{count}");
    }

    #[test]
    fn other_strings_are_no_hyperloglogs() {
        let none = "-WRONGTYPE Key is not a valid HyperLogLog string value.";
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        Session::new().expect(&[
            ("SET s hello", "+OK"),
            ("LPUSH l a", ":1"),
            ("PFADD s a", none),
            ("PFCOUNT s", none),
            ("PFCOUNT s none", none),
            ("PFMERGE d s", none),
            ("PFMERGE s none", none),
            ("PFADD l a", wrong_type),
            ("PFCOUNT l", wrong_type),
            ("PFMERGE d l", wrong_type),
            ("EXISTS d", ":0"),
            ("PFADD c a", ":1"),
            ("APPEND c hello", ":26"),
            ("PFCOUNT c", "-INVALIDOBJ Corrupted HLL object detected"),
            ("PFMERGE d c", "-INVALIDOBJ Corrupted HLL object detected"),
        ]);
    }
}
