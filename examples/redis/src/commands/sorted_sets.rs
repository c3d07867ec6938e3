//! Commands on single members and ends of sorted sets. Reads work on a snapshot.
//!
//! ZMPOP looks at its keys one after the other and pops from the first that has members at that
//! moment.

use psp_protocols::resp::format_double;
use psp_store::{ScoredMember, SortedSet};

use super::counts::{pick_count, picks, pop_count};
use super::lists::parse_multi_pop;
use super::scan::ScanOptions;
use super::walk::Pairing;
use super::{large, walk};
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{Result, float, is};
use crate::typed::{change_or_create, read, snapshot};

const READ_FAST: &[Flag] = &[Flag::Readonly, Flag::Fast];
const WRITE_FAST: &[Flag] = &[Flag::Write, Flag::Fast];
const GROW_FAST: &[Flag] = &[Flag::Write, Flag::DenyOom, Flag::Fast];

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("zadd", -4, zadd).flags(GROW_FAST).key(),
    CommandSpec::new("zincrby", 4, zincrby).flags(GROW_FAST).key(),
    CommandSpec::new("zrem", -3, zrem).flags(WRITE_FAST).key(),
    CommandSpec::new("zscore", 3, zscore).flags(READ_FAST).key(),
    CommandSpec::new("zmscore", -3, zmscore).flags(READ_FAST).key(),
    CommandSpec::new("zcard", 2, zcard).flags(READ_FAST).key(),
    CommandSpec::new("zrank", -3, zrank).flags(READ_FAST).key(),
    CommandSpec::new("zrevrank", -3, zrevrank).flags(READ_FAST).key(),
    CommandSpec::new("zpopmin", -2, zpopmin).flags(WRITE_FAST).key(),
    CommandSpec::new("zpopmax", -2, zpopmax).flags(WRITE_FAST).key(),
    CommandSpec::new("zmpop", -4, zmpop).flags(&[Flag::Write]),
    CommandSpec::new("zrandmember", -2, zrandmember).flags(&[Flag::Readonly]).key(),
    CommandSpec::new("zscan", -3, zscan).flags(&[Flag::Readonly]).key(),
];

/// Options of ZADD.
#[derive(Default)]
struct Addition {
    only_new: bool,
    only_existing: bool,
    only_greater: bool,
    only_less: bool,
    count_changed: bool,
    increment: bool,
}

impl Addition {
    /// Takes the options off `args`; the rest are pairs of score and member.
    fn parse<'a, 'b>(mut args: &'a [&'b [u8]]) -> Result<(Self, &'a [&'b [u8]])> {
        let mut addition = Self::default();
        while let Some((arg, rest)) = args.split_first() {
            let option = match *arg {
                name if is(name, "nx") => &mut addition.only_new,
                name if is(name, "xx") => &mut addition.only_existing,
                name if is(name, "gt") => &mut addition.only_greater,
                name if is(name, "lt") => &mut addition.only_less,
                name if is(name, "ch") => &mut addition.count_changed,
                name if is(name, "incr") => &mut addition.increment,
                _ => break,
            };
            *option = true;
            args = rest;
        }
        if args.is_empty() || args.len() % 2 != 0 {
            return Err(CommandError::Syntax);
        }
        addition.check(args.len() / 2)?;
        Ok((addition, args))
    }

    fn check(&self, pairs: usize) -> Result<()> {
        let exclusive = [self.only_new, self.only_greater, self.only_less];
        let line = if self.only_new && self.only_existing {
            "ERR XX and NX options at the same time are not compatible"
        } else if exclusive.iter().filter(|set| **set).count() > 1 {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if self.increment && pairs > 1 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok(());
        };
        Err(CommandError::line(line))
    }

    /// The score that `member` gets, or `None` when the options leave it as it is.
    fn score(&self, old: Option<f64>, score: f64) -> Option<f64> {
        let Some(old) = old else {
            return (!self.only_existing).then_some(score);
        };
        let score = if self.increment { old + score } else { score };
        let kept = self.only_new
            || (self.only_greater && score <= old)
            || (self.only_less && score >= old);
        (!kept).then_some(score)
    }
}

fn not_a_number() -> CommandError {
    CommandError::line("ERR resulting score is not a number (NaN)")
}

fn zadd(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (addition, pairs) = Addition::parse(&args[2..])?;
    let scores: Vec<f64> =
        pairs.iter().step_by(2).map(|score| float(score)).collect::<Result<_>>()?;
    let members = pairs.iter().skip(1).step_by(2);
    let outcome =
        large::change_or_create(context.store, args[1], scores.len(), |set: &mut SortedSet| {
            let (mut added, mut changed, mut last) = (0, 0, None);
            for (member, score) in members.clone().zip(&scores) {
                let old = set.score(member);
                last = addition.score(old, *score);
                let Some(score) = last else { continue };
                set.insert(member, score).map_err(|_| not_a_number())?;
                added += i64::from(old.is_none());
                changed += i64::from(old.is_some_and(|old| old != score));
            }
            Ok((added, changed, last))
        })?;
    let (added, changed, last) = outcome?;
    match last {
        _ if !addition.increment => {
            out.integer(added + if addition.count_changed { changed } else { 0 });
        }
        Some(score) => out.double(score),
        None => out.null(),
    }
    Ok(())
}

fn zincrby(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let increment = float(args[2])?;
    let score = change_or_create(context.store, args[1], |set: &mut SortedSet| {
        let score = set.score(args[3]).unwrap_or(0.0) + increment;
        set.insert(args[3], score).map_err(|_| not_a_number())?;
        Ok(score)
    })?;
    out.double(score?);
    Ok(())
}

fn zrem(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let members = &args[2..];
    let removed = large::change(context.store, args[1], members.len(), |set: &mut SortedSet| {
        members.iter().filter(|member| set.remove(member).is_some()).count()
    })?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn double_or_null(out: &mut ReplyEncoder<'_>, score: Option<f64>) {
    match score {
        Some(score) => out.double(score),
        None => out.null(),
    }
}

fn zscore(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |set: Option<&SortedSet>| {
        double_or_null(out, set.and_then(|set| set.score(args[2])));
    })
}

fn zmscore(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |set: Option<&SortedSet>| {
        out.array(args.len() - 2);
        for member in &args[2..] {
            double_or_null(out, set.and_then(|set| set.score(member)));
        }
    })
}

fn zcard(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = read(context.store, args[1], |set: Option<&SortedSet>| {
        set.map_or(0, SortedSet::len)
    })?;
    out.integer(len as i64);
    Ok(())
}

/// Which end of a sorted set counts as its first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Lowest,
    Highest,
}

fn zrank(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    rank(context, args, out, From::Lowest)
}

fn zrevrank(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    rank(context, args, out, From::Highest)
}

fn rank(
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    from: From,
) -> Result<()> {
    let with_score = match args[3..] {
        [] => false,
        [option] if is(option, "withscore") => true,
        _ => return Err(CommandError::Syntax),
    };
    read(context.store, args[1], |set: Option<&SortedSet>| {
        let found = set.and_then(|set| {
            let (rank, score) = set.rank(args[2])?;
            Some((if from == From::Lowest { rank } else { set.len() - 1 - rank }, score))
        });
        match (found, with_score) {
            (Some((rank, _)), false) => out.integer(rank as i64),
            (Some((rank, score)), true) => {
                out.array(2);
                out.integer(rank as i64);
                out.double(score);
            }
            (None, false) => out.null(),
            (None, true) => out.null_array(),
        }
    })
}

/// Takes up to `count` members off one end, in the order in which they are taken.
fn pop_many(
    context: &Context<'_>,
    key: &[u8],
    count: usize,
    from: From,
) -> Result<Option<Vec<ScoredMember>>> {
    let elements = count.min(large::cardinality(context.store, key));
    large::change(context.store, key, elements, |set: &mut SortedSet| {
        let len = set.len();
        let taken = count.min(len);
        let ranks = if from == From::Lowest { 0..taken } else { len - taken..len };
        let mut popped: Vec<_> = set.range(ranks.clone()).cloned().collect();
        if from == From::Highest {
            popped.reverse();
        }
        set.remove_range(ranks);
        popped
    })
}

fn zpopmin(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    pop(context, args, out, From::Lowest)
}

fn zpopmax(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    pop(context, args, out, From::Highest)
}

fn pop(
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    from: From,
) -> Result<()> {
    let count = match args[2..] {
        [] => None,
        [count] => Some(pop_count(count)?),
        _ => return Err(CommandError::Syntax),
    };
    let popped = pop_many(context, args[1], count.unwrap_or(1), from)?.unwrap_or_default();
    match (count, popped.first()) {
        // Without a count RESP3 has no nested array either.
        (None, Some(scored)) => {
            out.array(2);
            walk::element(out, &scored.member);
            out.double(scored.score);
        }
        _ => walk::scored(out, popped.iter(), Pairing::Paired),
    }
    Ok(())
}

fn zmpop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (keys, end, count) = parse_multi_pop(args)?;
    let from = match end {
        end if is(end, "min") => From::Lowest,
        end if is(end, "max") => From::Highest,
        _ => return Err(CommandError::Syntax),
    };
    for key in keys {
        if let Some(popped) = pop_many(context, key, count, from)? {
            out.array(2);
            out.bulk(key);
            walk::scored(out, popped.iter(), Pairing::PairedAlways);
            return Ok(());
        }
    }
    out.null_array();
    Ok(())
}

fn zrandmember(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let (count, pairing) = match args[2..] {
        [] => (None, Pairing::Alone),
        [count] => (Some(pick_count(count, false)?), Pairing::Alone),
        [count, option] if is(option, "withscores") => {
            (Some(pick_count(count, true)?), Pairing::Paired)
        }
        _ => return Err(CommandError::Syntax),
    };
    let set: SortedSet = snapshot(context.store, args[1])?.unwrap_or_default();
    let picked = picks(set.len(), count.unwrap_or(-1));
    let mut members = picked.filter_map(|rank| set.at(rank));
    if count.is_some() {
        let members: Vec<_> = members.collect();
        walk::scored(out, members.into_iter(), pairing);
    } else {
        walk::element_or_null(out, members.next().map(|scored| &scored.member));
    }
    Ok(())
}

fn zscan(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = ScanOptions::parse(&args[2..])?;
    let set: SortedSet = snapshot(context.store, args[1])?.unwrap_or_default();
    let scan = set.scan(options.cursor, options.count);
    let found: Vec<_> = scan.entries.filter(|(member, _)| options.matches(member)).collect();
    options.head(out, scan.cursor, found.len() * 2);
    for (member, score) in found {
        walk::element(out, member);
        out.bulk(format_double(score).as_bytes());
    }
    Ok(())
}
