//! Commands on ranges of sorted sets, by rank, score or member.
//!
//! Reads walk a snapshot. ZRANGESTORE takes a snapshot of its source and then replaces the destination at one
//! instant.

use std::ops::Range;

use psp_store::{LexBound, ScoreBound, SortedSet};

use super::walk::Pairing;
use super::{large, walk};
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{Result, float, index_range, integer, is};
use crate::typed::{Typed, read, snapshot};

const READ: &[Flag] = &[Flag::Readonly];
const READ_FAST: &[Flag] = &[Flag::Readonly, Flag::Fast];
const WRITE: &[Flag] = &[Flag::Write];

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("zrange", -4, zrange).flags(READ).key(),
    CommandSpec::new("zrangebyscore", -4, zrangebyscore).flags(READ).key(),
    CommandSpec::new("zrangebylex", -4, zrangebylex).flags(READ).key(),
    CommandSpec::new("zrevrange", -4, zrevrange).flags(READ).key(),
    CommandSpec::new("zrevrangebyscore", -4, zrevrangebyscore).flags(READ).key(),
    CommandSpec::new("zrevrangebylex", -4, zrevrangebylex).flags(READ).key(),
    CommandSpec::new("zrangestore", -5, zrangestore)
        .flags(&[Flag::Write, Flag::DenyOom])
        .keys(1, 2, 1),
    CommandSpec::new("zcount", 4, zcount).flags(READ_FAST).key(),
    CommandSpec::new("zlexcount", 4, zlexcount).flags(READ_FAST).key(),
    CommandSpec::new("zremrangebyrank", 4, zremrangebyrank).flags(WRITE).key(),
    CommandSpec::new("zremrangebyscore", 4, zremrangebyscore).flags(WRITE).key(),
    CommandSpec::new("zremrangebylex", 4, zremrangebylex).flags(WRITE).key(),
];

/// What the ends of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// The ends of a range.
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Bounds<'a> {
    fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self> {
        Ok(match by {
            By::Rank => Self::Ranks(integer(min)?, integer(max)?),
            By::Score => Self::Scores(score_bound(min)?, score_bound(max)?),
            By::Lex => Self::Lex(lex_bound(min)?, lex_bound(max)?),
        })
    }

    /// The ranks of the members between the bounds.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        match *self {
            Self::Ranks(start, stop) => index_range(start, stop, set.len()),
            Self::Scores(min, max) => set.ranks_by_score(min, max),
            Self::Lex(min, max) => set.ranks_by_lex(min, max),
        }
    }
}

fn score_bound(arg: &[u8]) -> Result<ScoreBound> {
    let (exclusive, score) = match arg {
        [b'(', score @ ..] => (true, score),
        score => (false, score),
    };
    let score = float(score).map_err(|_| CommandError::line("ERR min or max is not a float"))?;
    Ok(ScoreBound { score, exclusive })
}

fn lex_bound(arg: &[u8]) -> Result<LexBound<'_>> {
    match arg {
        b"-" => Ok(LexBound::Lowest),
        b"+" => Ok(LexBound::Highest),
        [b'[', member @ ..] => Ok(LexBound::Inclusive(member)),
        [b'(', member @ ..] => Ok(LexBound::Exclusive(member)),
        _ => Err(CommandError::line("ERR min or max not valid string range item")),
    }
}

/// What a range command has been given; the older commands fix some of it in their names.
struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    offset: i64,
    /// Most members; negative for no limit.
    count: i64,
    pairing: Pairing,
}

/// What the name of a range command leaves open.
#[derive(Clone, Copy)]
struct Shape {
    /// `None` when BYSCORE and BYLEX choose.
    by: Option<By>,
    /// `None` when REV chooses.
    reverse: Option<bool>,
    scores_allowed: bool,
}

impl<'a> Query<'a> {
    /// Parses `start stop [options]`.
    fn parse(shape: Shape, args: &[&'a [u8]]) -> Result<Self> {
        let (first, second) = (args[0], args[1]);
        let mut options = &args[2..];
        let mut by = shape.by;
        let mut reverse = shape.reverse;
        let (mut offset, mut count, mut pairing) = (0, -1, Pairing::Alone);
        while let Some((name, rest)) = options.split_first() {
            options = rest;
            match *name {
                name if shape.scores_allowed && is(name, "withscores") => pairing = Pairing::Paired,
                name if is(name, "limit") && rest.len() >= 2 => {
                    (offset, count) = (integer(rest[0])?, integer(rest[1])?);
                    options = &rest[2..];
                }
                name if shape.reverse.is_none() && is(name, "rev") => reverse = Some(true),
                name if by.is_none() && is(name, "byscore") => by = Some(By::Score),
                name if by.is_none() && is(name, "bylex") => by = Some(By::Lex),
                _ => return Err(CommandError::Syntax),
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if count != -1 && by == By::Rank {
            return Err(CommandError::line(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if pairing != Pairing::Alone && by == By::Lex {
            return Err(CommandError::line(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        // In reverse the higher score or member is given first.
        let swapped = reverse && by != By::Rank;
        let (min, max) = if swapped { (second, first) } else { (first, second) };
        Ok(Self { bounds: Bounds::parse(by, min, max)?, reverse, offset, count, pairing })
    }

    /// The ranks of the members, to be walked from the end if in reverse.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let ranks = self.bounds.ranks(set);
        if let Bounds::Ranks(..) = self.bounds {
            let len = set.len();
            return if self.reverse { len - ranks.end..len - ranks.start } else { ranks };
        }
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX).min(ranks.len());
        let left = ranks.len() - offset;
        let taken = usize::try_from(self.count).map_or(left, |count| count.min(left));
        if self.reverse {
            let end = ranks.end - offset;
            end - taken..end
        } else {
            let start = ranks.start + offset;
            start..start + taken
        }
    }
}

const ANY: Shape = Shape { by: None, reverse: None, scores_allowed: true };

fn zrange(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    reply_range(context, args, out, ANY)
}

fn zrangebyscore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    reply_range(context, args, out, Shape { by: Some(By::Score), reverse: Some(false), ..ANY })
}

fn zrangebylex(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    reply_range(context, args, out, Shape { by: Some(By::Lex), reverse: Some(false), ..ANY })
}

fn zrevrange(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    reply_range(context, args, out, Shape { by: Some(By::Rank), reverse: Some(true), ..ANY })
}

fn zrevrangebyscore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    reply_range(context, args, out, Shape { by: Some(By::Score), reverse: Some(true), ..ANY })
}

fn zrevrangebylex(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    reply_range(context, args, out, Shape { by: Some(By::Lex), reverse: Some(true), ..ANY })
}

fn reply_range(
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    shape: Shape,
) -> Result<()> {
    let query = Query::parse(shape, &args[2..])?;
    read(context.store, args[1], |set: Option<&SortedSet>| {
        let Some(set) = set else { return out.array(0) };
        let members = set.range(query.ranks(set));
        if query.reverse {
            walk::scored(out, members.rev(), query.pairing);
        } else {
            walk::scored(out, members, query.pairing);
        }
    })
}

fn zrangestore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let query = Query::parse(Shape { scores_allowed: false, ..ANY }, &args[3..])?;
    let source: SortedSet = snapshot(context.store, args[2])?.unwrap_or_default();
    let result = source.slice(query.ranks(&source));
    let len = result.len();
    context.store.insert(args[1], result.into_value());
    out.integer(len as i64);
    Ok(())
}

fn zcount(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    count(context, args, out, By::Score)
}

fn zlexcount(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    count(context, args, out, By::Lex)
}

fn count(
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    by: By,
) -> Result<()> {
    let bounds = Bounds::parse(by, args[2], args[3])?;
    let len = members_within(context, args[1], &bounds)?;
    out.integer(len as i64);
    Ok(())
}

fn members_within(context: &Context<'_>, key: &[u8], bounds: &Bounds<'_>) -> Result<usize> {
    read(context.store, key, |set: Option<&SortedSet>| {
        set.map_or(0, |set| bounds.ranks(set).len())
    })
}

fn zremrangebyrank(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    remove_range(context, args, out, By::Rank)
}

fn zremrangebyscore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    remove_range(context, args, out, By::Score)
}

fn zremrangebylex(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    remove_range(context, args, out, By::Lex)
}

fn remove_range(
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    by: By,
) -> Result<()> {
    let bounds = Bounds::parse(by, args[2], args[3])?;
    let elements = members_within(context, args[1], &bounds)?;
    let removed = large::change(context.store, args[1], elements, |set: &mut SortedSet| {
        let ranks = bounds.ranks(set);
        set.remove_range(ranks.clone());
        ranks.len()
    })?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}
