//! Commands on sets.
//!
//! Reads walk a snapshot. Commands on several sets take a snapshot of each, one after the other, and work on
//! those: each set is seen as it was at one instant, not all at the same. The STORE variants then
//! replace the destination at one instant. SMOVE changes both of its sets at one instant.

use psp_store::{Element, Set, SetOperation, Slot};

use super::counts::{intersection_limit, key_count, pick_count, picks, pop_count};
use super::scan::ScanOptions;
use super::{large, walk};
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{Result, is};
use crate::typed::{Typed, change, expect, expect_mut, expect_or_default, read, snapshot};

const READ_FAST: &[Flag] = &[Flag::Readonly, Flag::Fast];
const WRITE_FAST: &[Flag] = &[Flag::Write, Flag::Fast];
const GROW: &[Flag] = &[Flag::Write, Flag::DenyOom];

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("sadd", -3, sadd).flags(&[Flag::Write, Flag::DenyOom, Flag::Fast]).key(),
    CommandSpec::new("srem", -3, srem).flags(WRITE_FAST).key(),
    CommandSpec::new("smembers", 2, smembers).flags(&[Flag::Readonly]).key(),
    CommandSpec::new("sismember", 3, sismember).flags(READ_FAST).key(),
    CommandSpec::new("smismember", -3, smismember).flags(READ_FAST).key(),
    CommandSpec::new("scard", 2, scard).flags(READ_FAST).key(),
    CommandSpec::new("spop", -2, spop).flags(WRITE_FAST).key(),
    CommandSpec::new("srandmember", -2, srandmember).flags(&[Flag::Readonly]).key(),
    CommandSpec::new("smove", 4, smove).flags(WRITE_FAST).keys(1, 2, 1),
    CommandSpec::new("sunion", -2, sunion).flags(&[Flag::Readonly]).keys(1, -1, 1),
    CommandSpec::new("sinter", -2, sinter).flags(&[Flag::Readonly]).keys(1, -1, 1),
    CommandSpec::new("sdiff", -2, sdiff).flags(&[Flag::Readonly]).keys(1, -1, 1),
    CommandSpec::new("sunionstore", -3, sunionstore).flags(GROW).keys(1, -1, 1),
    CommandSpec::new("sinterstore", -3, sinterstore).flags(GROW).keys(1, -1, 1),
    CommandSpec::new("sdiffstore", -3, sdiffstore).flags(GROW).keys(1, -1, 1),
    CommandSpec::new("sintercard", -3, sintercard).flags(&[Flag::Readonly]),
    CommandSpec::new("sscan", -3, sscan).flags(&[Flag::Readonly]).key(),
];

fn sadd(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let members = &args[2..];
    let added =
        large::change_or_create(context.store, args[1], members.len(), |set: &mut Set| {
            members.iter().filter(|member| set.insert(member)).count()
        })?;
    out.integer(added as i64);
    Ok(())
}

fn srem(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let members = &args[2..];
    let removed = large::change(context.store, args[1], members.len(), |set: &mut Set| {
        members.iter().filter(|member| set.remove(member)).count()
    })?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn smembers(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |set: Option<&Set>| match set {
        Some(set) => walk::set(out, set.iter()),
        None => out.set(0),
    })
}

fn sismember(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |set: Option<&Set>| {
        out.integer(i64::from(set.is_some_and(|set| set.contains(args[2]))));
    })
}

fn smismember(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |set: Option<&Set>| {
        out.array(args.len() - 2);
        for member in &args[2..] {
            out.integer(i64::from(set.is_some_and(|set| set.contains(member))));
        }
    })
}

fn scard(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = read(context.store, args[1], |set: Option<&Set>| set.map_or(0, Set::len))?;
    out.integer(len as i64);
    Ok(())
}

fn spop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match args[2..] {
        [] => {
            let popped = change(context.store, args[1], |set: &mut Set| {
                let rank = picks(set.len(), -1).next()?;
                set.remove_at(rank)
            })?;
            walk::element_or_null(out, popped.flatten().as_ref());
        }
        [count] => {
            let count = pop_count(count)?;
            let elements = count.min(large::cardinality(context.store, args[1]));
            let popped = large::change(context.store, args[1], elements, |set: &mut Set| {
                pop_random(set, count)
            })?;
            walk::set(out, popped.unwrap_or_default().iter());
        }
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

fn pop_random(set: &mut Set, count: usize) -> Vec<Element> {
    if count >= set.len() {
        return std::mem::take(set).iter().cloned().collect();
    }
    let mut ranks: Vec<usize> = picks(set.len(), count as i64).collect();
    // From the highest down, so that a removal does not move the ranks still to come.
    ranks.sort_unstable_by(|left, right| right.cmp(left));
    ranks.into_iter().filter_map(|rank| set.remove_at(rank)).collect()
}

fn srandmember(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let count = match args[2..] {
        [] => None,
        [count] => Some(pick_count(count, false)?),
        _ => return Err(CommandError::Syntax),
    };
    let set: Set = snapshot(context.store, args[1])?.unwrap_or_default();
    let picked = picks(set.len(), count.unwrap_or(-1));
    if count.is_some() {
        out.array(picked.len());
        walk::elements(out, picked.filter_map(|rank| set.at(rank)));
    } else {
        walk::element_or_null(out, picked.filter_map(|rank| set.at(rank)).next());
    }
    Ok(())
}

fn smove(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (source, destination, member) = (args[1], args[2], args[3]);
    let moved = if source == destination {
        read(context.store, source, |set: Option<&Set>| {
            set.is_some_and(|set| set.contains(member))
        })?
    } else {
        context.store.update_pair(source, destination, |source, destination| {
            move_between(source, destination, member)
        })?
    };
    out.integer(i64::from(moved));
    Ok(())
}

fn move_between(source: &mut Slot<'_>, destination: &mut Slot<'_>, member: &[u8]) -> Result<bool> {
    let Some(set) = expect::<Set>(source.value())? else { return Ok(false) };
    expect::<Set>(destination.value())?;
    if !set.contains(member) {
        return Ok(false);
    }
    expect_mut::<Set>(source)?.map(|set| set.remove(member));
    expect_or_default::<Set>(destination)?.insert(member);
    Ok(true)
}

fn snapshots(context: &Context<'_>, keys: &[&[u8]]) -> Result<Vec<Set>> {
    let sets = keys.iter().map(|key| Ok(snapshot(context.store, key)?.unwrap_or_default()));
    sets.collect()
}

fn sunion(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    reply_with(SetOperation::Union, context, args, out)
}

fn sinter(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    reply_with(SetOperation::Intersection, context, args, out)
}

fn sdiff(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    reply_with(SetOperation::Difference, context, args, out)
}

fn reply_with(
    operation: SetOperation,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let result = operation.apply(&snapshots(context, &args[1..])?);
    walk::set(out, result.iter());
    Ok(())
}

fn sunionstore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    store_with(SetOperation::Union, context, args, out)
}

fn sinterstore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    store_with(SetOperation::Intersection, context, args, out)
}

fn sdiffstore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    store_with(SetOperation::Difference, context, args, out)
}

fn store_with(
    operation: SetOperation,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let result = operation.apply(&snapshots(context, &args[2..])?);
    let len = result.len();
    // Storing an empty collection removes the key.
    context.store.insert(args[1], result.into_value());
    out.integer(len as i64);
    Ok(())
}

fn sintercard(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let keys = key_count(args[1])?;
    let rest = &args[2..];
    if keys > rest.len() {
        let line = "ERR Number of keys can't be greater than number of args";
        return Err(CommandError::line(line));
    }
    let (keys, options) = rest.split_at(keys);
    let mut limit = usize::MAX;
    for option in options.chunks(2) {
        match *option {
            [name, value] if is(name, "limit") => limit = intersection_limit(value)?,
            _ => return Err(CommandError::Syntax),
        }
    }
    let sets = snapshots(context, keys)?;
    out.integer(Set::intersection(&sets).take(limit).count() as i64);
    Ok(())
}

fn sscan(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = ScanOptions::parse(&args[2..])?;
    let set: Set = snapshot(context.store, args[1])?.unwrap_or_default();
    let scan = set.scan(options.cursor, options.count);
    let found: Vec<_> = scan.entries.filter(|member| options.matches(member)).collect();
    options.head(out, scan.cursor, found.len());
    walk::elements(out, found.into_iter());
    Ok(())
}
