//! Commands on ranges of sorted sets, by rank, score or member.
//!
//! Reads walk a snapshot. ZRANGESTORE takes a snapshot of its source and then replaces the
//! destination at one instant.

use std::ops::Range;

use psp_store::{LexBound, ScoreBound, SortedSet};

use super::pace::Pace;
use super::walk::Pairing;
use super::{large, walk};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::{Result, float, index_range, integer, is};
use crate::typed::{Typed, read, snapshot};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("zrange", |context, args, out| reply_range(context, args, out, Shape::ANY)),
    Row::new("zrangebyscore", |context, args, out| {
        reply_range(context, args, out, Shape::of(By::Score, false))
    }),
    Row::new("zrangebylex", |context, args, out| {
        reply_range(context, args, out, Shape::of(By::Lex, false))
    }),
    Row::new("zrevrange", |context, args, out| {
        reply_range(context, args, out, Shape::of(By::Rank, true))
    }),
    Row::new("zrevrangebyscore", |context, args, out| {
        reply_range(context, args, out, Shape::of(By::Score, true))
    }),
    Row::new("zrevrangebylex", |context, args, out| {
        reply_range(context, args, out, Shape::of(By::Lex, true))
    }),
    Row::new("zrangestore", zrangestore)
        .event(Class::SortedSet, "zrangestore", Rule::Stored(1))
        .reads(Read::Between(2, 2)),
    Row::new("zcount", |context, args, out| count(context, args, out, By::Score)),
    Row::new("zlexcount", |context, args, out| count(context, args, out, By::Lex)),
    Row::new("zremrangebyrank", |context, args, out| remove_range(context, args, out, By::Rank)).event(
        Class::SortedSet,
        "zremrangebyrank",
        Rule::Replied,
    ),
    Row::new("zremrangebyscore", |context, args, out| remove_range(context, args, out, By::Score)).event(
        Class::SortedSet,
        "zremrangebyscore",
        Rule::Replied,
    ),
    Row::new("zremrangebylex", |context, args, out| remove_range(context, args, out, By::Lex)).event(
        Class::SortedSet,
        "zremrangebylex",
        Rule::Replied,
    ),
];

/// The kind of a range's ends.
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
    if score.is_empty() {
        // As `strtod` reads it.
        return Ok(ScoreBound { score: 0.0, exclusive });
    }
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

/// The arguments of a range command. The older commands fix some of them in their names.
struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    offset: i64,
    /// Most members; negative means no limit.
    count: i64,
    pairing: Pairing,
}

/// The choices that the name of a range command fixes.
#[derive(Clone, Copy)]
struct Shape {
    /// `None` if BYSCORE and BYLEX choose.
    by: Option<By>,
    /// `None` if REV chooses.
    reverse: Option<bool>,
    scores_allowed: bool,
}

impl Shape {
    /// ZRANGE fixes nothing.
    const ANY: Self = Self { by: None, reverse: None, scores_allowed: true };

    const fn of(by: By, reverse: bool) -> Self {
        Self { by: Some(by), reverse: Some(reverse), scores_allowed: true }
    }
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
            return Err(CommandError::line("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        // In reverse the higher score or member comes first.
        let swapped = reverse && by != By::Rank;
        let (min, max) = if swapped { (second, first) } else { (first, second) };
        Ok(Self {
            bounds: Bounds::parse(by, min, max)?,
            reverse,
            offset,
            count,
            pairing,
        })
    }

    /// The ranks of the members, to be walked from the end in reverse.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let ranks = self.bounds.ranks(set);
        if let Bounds::Ranks(..) = self.bounds {
            let len = set.len();
            return if self.reverse {
                len - ranks.end..len - ranks.start
            } else {
                ranks
            };
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

fn reply_range(context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, shape: Shape) -> Result<()> {
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

fn zrangestore(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let query = Query::parse(Shape { scores_allowed: false, ..Shape::ANY }, &args[3..])?;
    let source: SortedSet = snapshot(context.store, args[2])?.unwrap_or_default();
    let bytes = source.clone().into_value().memory_bytes();
    let _reserved = context.server.evict_and_reserve(bytes)?;
    let pace = Pace::new();
    let result = source.slice(query.ranks(&source), &|| pace.step());
    let len = result.len();
    context.store.insert(args[1], result.into_value());
    out.integer(len as i64);
    Ok(())
}

fn count(context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, by: By) -> Result<()> {
    let bounds = Bounds::parse(by, args[2], args[3])?;
    let len = members_within(context, args[1], &bounds)?;
    out.integer(len as i64);
    Ok(())
}

fn members_within(context: &Context<'_>, key: &[u8], bounds: &Bounds<'_>) -> Result<usize> {
    read(context.store, key, |set: Option<&SortedSet>| set.map_or(0, |set| bounds.ranks(set).len()))
}

fn remove_range(context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, by: By) -> Result<()> {
    let bounds = Bounds::parse(by, args[2], args[3])?;
    let elements = members_within(context, args[1], &bounds)?;
    let removed = large::change(
        context.store.telling(&context.sent(args)),
        args[1],
        elements,
        |set: &mut SortedSet, pace| {
            let ranks = bounds.ranks(set);
            set.remove_range(ranks.clone(), &|| pace.step());
            ranks.len()
        },
    )?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn ranges_by_rank() {
        Session::new().expect(&[
            ("ZADD z 1 a 2 b 3 c", ":3"),
            ("ZRANGE z 0 -1", "*3 $1 a $1 b $1 c"),
            ("ZRANGE z 0 1 WITHSCORES", "*4 $1 a $1 1 $1 b $1 2"),
            ("ZRANGE z 0 0 REV", "*1 $1 c"),
            ("ZRANGE z -1 -1 REV WITHSCORES", "*2 $1 a $1 1"),
            ("ZREVRANGE z 0 1", "*2 $1 c $1 b"),
            ("ZREVRANGE z 1 2 WITHSCORES", "*4 $1 b $1 2 $1 a $1 1"),
            ("ZRANGE z 2 1", "*0"),
            ("ZRANGE z 5 9", "*0"),
            ("ZRANGE missing 0 -1", "*0"),
            ("ZRANGE z x -1", "-ERR value is not an integer or out of range"),
            ("ZRANGE missing x y", "-ERR value is not an integer or out of range"),
            (
                "ZRANGE z 0 -1 LIMIT 0 1",
                "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ),
            ("ZRANGE z 0 -1 FOO", "-ERR syntax error"),
            ("ZREVRANGE z 0 -1 BYSCORE", "-ERR syntax error"),
            ("ZREVRANGE z 0 -1 REV", "-ERR syntax error"),
            ("SET s v", "+OK"),
            ("ZRANGE s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZREVRANGE s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn ranges_by_score() {
        Session::new().expect(&[
            ("ZADD z 1 a 2 b 3 c 3 d", ":4"),
            ("ZRANGE z 2 3 BYSCORE", "*3 $1 b $1 c $1 d"),
            ("ZRANGE z (1 (3 BYSCORE WITHSCORES", "*2 $1 b $1 2"),
            ("ZRANGE z 3 2 BYSCORE REV", "*3 $1 d $1 c $1 b"),
            ("ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2", "*2 $1 c $1 b"),
            ("ZRANGE z -inf +inf BYSCORE LIMIT 1 -1", "*3 $1 b $1 c $1 d"),
            ("ZRANGE z -inf +inf BYSCORE LIMIT -1 2", "*0"),
            ("ZRANGE z -inf +inf BYSCORE LIMIT 9 2", "*0"),
            ("ZRANGE z 3 2 BYSCORE", "*0"),
            ("ZRANGEBYSCORE z -inf (3 WITHSCORES LIMIT 1 5", "*2 $1 b $1 2"),
            ("ZREVRANGEBYSCORE z 3 (1", "*3 $1 d $1 c $1 b"),
            ("ZREVRANGEBYSCORE z 3 1 LIMIT 1 1 WITHSCORES", "*2 $1 c $1 3"),
            ("ZRANGEBYSCORE missing 1 2", "*0"),
            ("ZCOUNT z (1 3", ":3"),
            ("ZCOUNT z -inf +inf", ":4"),
            ("ZCOUNT z 9 1", ":0"),
            ("ZCOUNT missing 1 2", ":0"),
            ("ZRANGE z x 1 BYSCORE", "-ERR min or max is not a float"),
            ("ZRANGE z 1 nan BYSCORE", "-ERR min or max is not a float"),
            ("ZRANGE z 1 2 BYSCORE BYLEX", "-ERR syntax error"),
            ("ZRANGEBYSCORE z 1 2 REV", "-ERR syntax error"),
            ("ZRANGEBYSCORE z 1 2 LIMIT 1", "-ERR syntax error"),
            ("ZRANGEBYSCORE z 1 2 LIMIT x 1", "-ERR value is not an integer or out of range"),
            ("ZCOUNT missing x 1", "-ERR min or max is not a float"),
            ("SET s v", "+OK"),
            (
                "ZRANGEBYSCORE s 1 2",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("ZCOUNT s 1 2", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn ranges_by_member() {
        Session::new().expect(&[
            ("ZADD z 0 a 0 b 0 c 0 d", ":4"),
            ("ZRANGE z [b (d BYLEX", "*2 $1 b $1 c"),
            ("ZRANGE z + - BYLEX REV LIMIT 1 2", "*2 $1 c $1 b"),
            ("ZRANGEBYLEX z - [b", "*2 $1 a $1 b"),
            ("ZRANGEBYLEX z - + LIMIT 2 5", "*2 $1 c $1 d"),
            ("ZREVRANGEBYLEX z (d [b", "*2 $1 c $1 b"),
            ("ZRANGEBYLEX z + -", "*0"),
            ("ZRANGEBYLEX missing - +", "*0"),
            ("ZLEXCOUNT z - +", ":4"),
            ("ZLEXCOUNT z (a [c", ":2"),
            ("ZLEXCOUNT missing - +", ":0"),
            ("ZRANGEBYLEX z a b", "-ERR min or max not valid string range item"),
            ("ZRANGE z 0 -1 BYLEX", "-ERR min or max not valid string range item"),
            (
                "ZRANGE z - + BYLEX WITHSCORES",
                "-ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ),
            ("ZLEXCOUNT missing x +", "-ERR min or max not valid string range item"),
            ("SET s v", "+OK"),
            ("ZRANGEBYLEX s - +", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZLEXCOUNT s - +", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn removes_and_stores_ranges() {
        Session::new().expect(&[
            ("ZADD z 1 a 2 b 3 c 4 d 5 e 6 f", ":6"),
            ("ZRANGESTORE d z 0 1", ":2"),
            ("ZRANGE d 0 -1 WITHSCORES", "*4 $1 a $1 1 $1 b $1 2"),
            ("ZRANGESTORE d z (2 +inf BYSCORE LIMIT 1 2", ":2"),
            ("ZRANGE d 0 -1 WITHSCORES", "*4 $1 d $1 4 $1 e $1 5"),
            ("ZRANGESTORE d z 0 0 REV", ":1"),
            ("ZRANGE d 0 -1 WITHSCORES", "*2 $1 f $1 6"),
            ("ZRANGESTORE d missing 0 -1", ":0"),
            ("EXISTS d", ":0"),
            ("ZRANGESTORE d z 0 -1 WITHSCORES", "-ERR syntax error"),
            ("ZREMRANGEBYRANK z 0 0", ":1"),
            ("ZREMRANGEBYRANK z -1 -1", ":1"),
            ("ZREMRANGEBYSCORE z (2 3", ":1"),
            ("ZRANGE z 0 -1", "*3 $1 b $1 d $1 e"),
            ("ZREMRANGEBYRANK z 9 10", ":0"),
            ("ZREMRANGEBYSCORE z -inf +inf", ":3"),
            ("EXISTS z", ":0"),
            ("ZADD z 0 a 0 b 0 c", ":3"),
            ("ZREMRANGEBYLEX z [a (c", ":2"),
            ("ZRANGE z 0 -1", "*1 $1 c"),
            ("ZREMRANGEBYRANK missing 0 -1", ":0"),
            ("ZREMRANGEBYRANK z x 1", "-ERR value is not an integer or out of range"),
            ("ZREMRANGEBYSCORE z x 1", "-ERR min or max is not a float"),
            ("ZREMRANGEBYLEX z x 1", "-ERR min or max not valid string range item"),
            ("SET s v", "+OK"),
            (
                "ZREMRANGEBYRANK s 0 1",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            (
                "ZRANGESTORE d s 0 -1",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("ZRANGESTORE s z 0 -1", ":1"),
            ("TYPE s", "+zset"),
        ]);
    }

    #[test]
    fn resp3_has_pairs_of_member_and_double() {
        Session::new().resp3().expect(&[
            ("ZADD z 1 a 2.5 b", ":2"),
            ("ZRANGE z 0 -1", "*2 $1 a $1 b"),
            ("ZRANGE z 0 -1 WITHSCORES", "*2 *2 $1 a ,1 *2 $1 b ,2.5"),
            ("ZREVRANGE z 0 0 WITHSCORES", "*1 *2 $1 b ,2.5"),
            ("ZRANGEBYSCORE z 1 2 WITHSCORES", "*1 *2 $1 a ,1"),
            ("ZRANGE missing 0 -1 WITHSCORES", "*0"),
        ]);
    }
}
