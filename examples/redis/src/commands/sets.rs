//! Commands on sets.
//!
//! Reads walk a snapshot. A command on several sets takes snapshots of all of them at one instant.
//! The STORE variants then replace the destination at one instant, which is a later one. SMOVE changes
//! both of its sets at one instant.

use psp_store::{Element, Set, SetOperation, Slot};

use super::counts::{intersection_limit, key_count, pick_count, picks, pop_count};
use super::pace::{self, Pace};
use super::scan;
use super::{large, walk};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::{Result, is};
use crate::typed::{self, Typed, change, expect, expect_mut, expect_or_default, read, snapshot};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("sadd", sadd).event(Class::Set, "sadd", Rule::Replied),
    Row::new("srem", srem).event(Class::Set, "srem", Rule::Replied),
    Row::new("smembers", smembers),
    Row::new("sismember", sismember),
    Row::new("smismember", smismember),
    Row::new("scard", scard),
    Row::new("spop", spop).event(Class::Set, "spop", Rule::Replied),
    Row::new("srandmember", srandmember),
    Row::new("smove", smove).effect(Class::Set, Rule::MoveMember),
    Row::new("sunion", |context, args, out| reply_with(SetOperation::Union, context, args, out)),
    Row::new("sinter", |context, args, out| reply_with(SetOperation::Intersection, context, args, out)),
    Row::new("sdiff", |context, args, out| reply_with(SetOperation::Difference, context, args, out)),
    Row::new("sunionstore", |context, args, out| store_with(SetOperation::Union, context, args, out))
        .event(Class::Set, "sunionstore", Rule::Stored(1))
        .reads(Read::Between(2, -1)),
    Row::new("sinterstore", |context, args, out| {
        store_with(SetOperation::Intersection, context, args, out)
    })
    .event(Class::Set, "sinterstore", Rule::Stored(1))
    .reads(Read::Between(2, -1)),
    Row::new("sdiffstore", |context, args, out| {
        store_with(SetOperation::Difference, context, args, out)
    })
    .event(Class::Set, "sdiffstore", Rule::Stored(1))
    .reads(Read::Between(2, -1)),
    Row::new("sintercard", sintercard).reads(Read::Counted(1)),
    Row::new("sscan", sscan),
];

fn sadd(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let members = &args[2..];
    let added = large::change_or_create(
        context.store.telling(&context.sent(args)),
        args[1],
        large::work(members),
        |set: &mut Set, pace| {
            let members = members.iter().inspect(|_| pace.step());
            members.filter(|member| set.insert(member)).count()
        },
    )?;
    out.integer(added as i64);
    Ok(())
}

fn srem(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let members = &args[2..];
    let removed = large::change(
        context.store.telling(&context.sent(args)),
        args[1],
        members.len(),
        |set: &mut Set, pace| {
            let members = members.iter().inspect(|_| pace.step());
            members.filter(|member| set.remove(member)).count()
        },
    )?;
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
        let pace = Pace::new();
        for member in &args[2..] {
            pace.step();
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
    let told = context.told();
    match args[2..] {
        [] => {
            let popped = change(context.store.telling(&told), args[1], |set: &mut Set| {
                let rank = picks(set.len(), -1, &Pace::new()).next()?;
                let popped = set.remove_at(rank)?;
                told.says(&[b"SREM", args[1], &popped]);
                Some(popped)
            })?;
            walk::element_or_null(out, popped.flatten().as_ref());
        }
        [count] => {
            let count = pop_count(count)?;
            let elements = large::touched(context.store, args[1], count);
            let popped = large::change(context.store.telling(&told), args[1], elements, |set: &mut Set, pace| {
                let popped = pop_random(set, count, pace);
                if told.is_recorded() {
                    let mut words: Vec<&[u8]> = vec![b"SREM", args[1]];
                    words.extend(popped.iter().map(Element::as_slice));
                    told.says_nothing();
                    if !popped.is_empty() {
                        told.adds(&words);
                    }
                }
                popped
            })?;
            let popped = popped.unwrap_or_default();
            walk::set(out, popped.iter());
            Pace::new().drop_all(popped);
        }
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

fn pop_random(set: &mut Set, count: usize, pace: &Pace) -> Vec<Element> {
    if count >= set.len() {
        let all = std::mem::take(set);
        let members = all.iter().inspect(|_| pace.step());
        return members.map(|member| member.to_element()).collect();
    }
    let mut ranks: Vec<usize> = picks(set.len(), count as i64, pace).collect();
    // From the highest rank down, so that a removal does not shift the ranks still to be removed.
    ranks.sort_unstable_by(|left, right| {
        pace.step();
        right.cmp(left)
    });
    ranks
        .into_iter()
        .inspect(|_| pace.step())
        .filter_map(|rank| set.remove_at(rank))
        .collect()
}

fn srandmember(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let count = match args[2..] {
        [] => None,
        [count] => Some(pick_count(count, false)?),
        _ => return Err(CommandError::Syntax),
    };
    let set: Set = snapshot(context.store, args[1])?.unwrap_or_default();
    let picked = picks(set.len(), count.unwrap_or(-1), &Pace::new());
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
        read(context.store, source, |set: Option<&Set>| set.is_some_and(|set| set.contains(member)))?
    } else {
        context
            .store
            .telling(&context.sent(args))
            .update_pair(source, destination, |source, destination| move_between(source, destination, member))?
    };
    out.integer(i64::from(moved));
    Ok(())
}

fn move_between(source: &mut Slot<'_>, destination: &mut Slot<'_>, member: &[u8]) -> Result<bool> {
    let Some(set) = expect::<Set>(source.value())? else {
        return Ok(false);
    };
    expect::<Set>(destination.value())?;
    if !set.contains(member) {
        return Ok(false);
    }
    expect_mut::<Set>(source)?.map(|set| set.remove(member));
    // WATCH looks whether the destination has changed.
    let is_there = expect::<Set>(destination.value())?.is_some_and(|set| set.contains(member));
    if !is_there {
        expect_or_default::<Set>(destination)?.insert(member);
    }
    Ok(true)
}

fn snapshots(context: &Context<'_>, keys: &[&[u8]]) -> Result<Vec<Set>> {
    let values = typed::snapshots(context.store, keys);
    let sets = values.iter().map(|value| Ok(expect(value.as_ref())?.cloned().unwrap_or_default()));
    let sets: Vec<Set> = sets.collect::<Result<_>>()?;
    pace::begins(sets.iter().map(Set::len).sum());
    Ok(sets)
}

/// What the result takes at most, approximately.
fn bytes_max(operation: SetOperation, sets: &[Set]) -> usize {
    let bytes = sets.iter().map(|set| set.clone().into_value().memory_bytes());
    match operation {
        SetOperation::Union => bytes.sum(),
        SetOperation::Intersection | SetOperation::Difference => bytes.take(1).sum(),
    }
}

fn reply_with(
    operation: SetOperation,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let pace = Pace::new();
    let sets = snapshots(context, &args[1..])?;
    let _reserved = { context.server }.reserve_for_reply(bytes_max(operation, &sets))?;
    let result = operation.apply(&sets, &|| pace.step());
    walk::set(out, result.iter());
    context.store.discard(result.into_value());
    Ok(())
}

fn store_with(
    operation: SetOperation,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let pace = Pace::new();
    let sets = snapshots(context, &args[2..])?;
    let bytes = bytes_max(operation, &sets);
    let _reserved = context.server.evict_and_reserve(bytes)?;
    let result = operation.apply(&sets, &|| pace.step());
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
    let pace = Pace::new();
    let shared = Set::intersection_len(&sets, limit, &|| pace.step());
    out.integer(shared as i64);
    Ok(())
}

fn sscan(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let Some((set, options)) = scan::open::<Set>(context, args, out)? else {
        return Ok(());
    };
    let scan = set.scan(options.cursor, options.count);
    let found: Vec<_> = scan.entries.filter(|member| options.matches(member)).collect();
    options.head(out, scan.cursor, found.len());
    walk::elements(out, found.into_iter());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn adds_removes_and_looks_up_members() {
        Session::new().expect(&[
            ("SADD s a b c", ":3"),
            ("SADD s a d", ":1"),
            ("SCARD s", ":4"),
            ("SCARD missing", ":0"),
            ("SISMEMBER s a", ":1"),
            ("SISMEMBER s x", ":0"),
            ("SISMEMBER missing a", ":0"),
            ("SMISMEMBER s a x b", "*3 :1 :0 :1"),
            ("SMISMEMBER missing a", "*1 :0"),
            ("SREM s a b c x", ":3"),
            ("SMEMBERS s", "*1 $1 d"),
            ("SREM s d", ":1"),
            ("EXISTS s", ":0"),
            ("SREM missing a", ":0"),
            ("SMEMBERS missing", "*0"),
            ("SADD s", "-ERR wrong number of arguments for 'sadd' command"),
            ("SET string v", "+OK"),
            ("SADD string a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SREM string a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SCARD string", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SISMEMBER string a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            (
                "SMISMEMBER string a",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("SMEMBERS string", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn pops_and_picks_random_members() {
        Session::new().expect(&[
            ("SADD s a", ":1"),
            ("SRANDMEMBER s", "$1 a"),
            ("SRANDMEMBER s 3", "*1 $1 a"),
            ("SRANDMEMBER s -2", "*2 $1 a $1 a"),
            ("SRANDMEMBER s 0", "*0"),
            ("SRANDMEMBER missing", "$-1"),
            ("SRANDMEMBER missing 3", "*0"),
            ("SRANDMEMBER missing -3", "*0"),
            ("SRANDMEMBER s x", "-ERR value is not an integer or out of range"),
            ("SRANDMEMBER s 1 2", "-ERR syntax error"),
            ("SPOP s 0", "*0"),
            ("SPOP s", "$1 a"),
            ("EXISTS s", ":0"),
            ("SPOP s", "$-1"),
            ("SPOP s 2", "*0"),
            ("SADD s a", ":1"),
            ("SPOP s 2", "*1 $1 a"),
            ("EXISTS s", ":0"),
            ("SPOP s -1", "-ERR value is out of range, must be positive"),
            ("SPOP s x", "-ERR value is out of range, must be positive"),
            ("SPOP s 1 2", "-ERR syntax error"),
            ("SET string v", "+OK"),
            ("SPOP string", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SPOP string 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SRANDMEMBER string", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn moves_members() {
        Session::new().expect(&[
            ("SADD s a b", ":2"),
            ("SMOVE s t a", ":1"),
            ("SMOVE s t a", ":0"),
            ("SMOVE s s b", ":1"),
            ("SMOVE s s x", ":0"),
            ("SMOVE s t b", ":1"),
            ("EXISTS s", ":0"),
            ("SCARD t", ":2"),
            ("SMOVE missing t a", ":0"),
            ("SET string v", "+OK"),
            ("SMOVE t string a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SMOVE string t a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SMOVE missing string a", ":0"),
            ("SISMEMBER t a", ":1"),
        ]);
    }

    #[test]
    fn combines_sets() {
        Session::new().expect(&[
            ("SADD a 1 2", ":2"),
            ("SADD b 2", ":1"),
            ("SADD c 1 2 3", ":3"),
            ("SINTER a b c", "*1 $1 2"),
            ("SINTER a missing", "*0"),
            ("SDIFF c a", "*1 $1 3"),
            ("SDIFF a b", "*1 $1 1"),
            ("SDIFF missing a", "*0"),
            ("SUNION b b", "*1 $1 2"),
            ("SUNION missing", "*0"),
            ("SUNIONSTORE d a b c missing", ":3"),
            ("SCARD d", ":3"),
            ("SINTERSTORE d a b", ":1"),
            ("SMEMBERS d", "*1 $1 2"),
            ("SDIFFSTORE c c a", ":1"),
            ("SMEMBERS c", "*1 $1 3"),
            ("SET string v", "+OK"),
            ("SUNIONSTORE string b", ":1"),
            ("SMEMBERS string", "*1 $1 2"),
            ("SINTERSTORE string a missing", ":0"),
            ("EXISTS string", ":0"),
            ("SET string v", "+OK"),
            ("SUNION a string", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            (
                "SINTER missing string",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            (
                "SDIFF a missing string",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            (
                "SINTERSTORE d missing string",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("SMEMBERS d", "*1 $1 2"),
        ]);
    }

    #[test]
    fn counts_intersections() {
        Session::new().expect(&[
            ("SADD a 1 2 3", ":3"),
            ("SADD b 2 3 4", ":3"),
            ("SINTERCARD 2 a b", ":2"),
            ("SINTERCARD 2 a b LIMIT 1", ":1"),
            ("SINTERCARD 2 a b LIMIT 0", ":2"),
            ("SINTERCARD 2 a missing", ":0"),
            ("SINTERCARD 1 a", ":3"),
            ("SINTERCARD 0 a", "-ERR numkeys should be greater than 0"),
            ("SINTERCARD x a", "-ERR numkeys should be greater than 0"),
            ("SINTERCARD 3 a b", "-ERR Number of keys can't be greater than number of args"),
            ("SINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative"),
            ("SINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative"),
            ("SINTERCARD 1 a LIMIT", "-ERR syntax error"),
            ("SINTERCARD 1 a b", "-ERR syntax error"),
            ("SET string v", "+OK"),
            (
                "SINTERCARD 2 a string",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
        ]);
    }

    #[test]
    fn scans_members() {
        Session::new().expect(&[
            ("SADD s one", ":1"),
            ("SSCAN s 0", "*2 $1 0 *1 $3 one"),
            ("SSCAN s 0 MATCH o* COUNT 100", "*2 $1 0 *1 $3 one"),
            ("SSCAN s 0 MATCH x*", "*2 $1 0 *0"),
            ("SSCAN missing 0", "*2 $1 0 *0"),
            ("SSCAN s x", "-ERR invalid cursor"),
            ("SSCAN s 0 COUNT 0", "-ERR syntax error"),
            ("SET string v", "+OK"),
            ("SSCAN string 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn resp3_has_sets() {
        Session::new().resp3().expect(&[
            ("SADD s a", ":1"),
            ("SMEMBERS s", "~1 $1 a"),
            ("SMEMBERS missing", "~0"),
            ("SUNION s missing", "~1 $1 a"),
            ("SINTER s missing", "~0"),
            ("SDIFF s missing", "~1 $1 a"),
            ("SRANDMEMBER s 2", "*1 $1 a"),
            ("SMISMEMBER s a", "*1 :1"),
            ("SPOP s 1", "~1 $1 a"),
            ("SPOP s 1", "~0"),
            ("SPOP s", "_"),
        ]);
    }

    #[test]
    fn pops_of_several_members_take_each_once() {
        let mut session = Session::new();
        let members: Vec<String> = (1000..1300).map(|member| member.to_string()).collect();
        session.run(&format!("SADD s {}", members.join(" ")));
        let mut popped = Vec::new();
        for count in [1, 10, 100] {
            let reply = session.run(&format!("SPOP s {count}"));
            let taken = reply.lines().skip(2).step_by(2).map(str::to_owned);
            let before = popped.len();
            popped.extend(taken);
            assert_eq!(popped.len(), before + count);
        }
        for member in &members {
            let left = session.run(&format!("SISMEMBER s {member}")) == ":1\r\n";
            assert_eq!(popped.iter().filter(|taken| *taken == member).count(), usize::from(!left));
        }
        assert_eq!(session.run("SCARD s"), ":189\r\n");
    }

    #[test]
    fn a_scan_in_steps_returns_each_member_once() {
        let mut session = Session::new();
        let members: Vec<String> = (1000..1300).map(|member| member.to_string()).collect();
        session.run(&format!("SADD s {}", members.join(" ")));
        let mut found = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = session.run(&format!("SSCAN s {cursor} COUNT 7"));
            let mut lines = reply.lines().skip(2);
            lines.next().expect("a cursor").clone_into(&mut cursor);
            found.extend(lines.skip(2).step_by(2).map(str::to_owned));
            if cursor == "0" {
                break;
            }
        }
        found.sort();
        assert_eq!(found, members);
    }
}
