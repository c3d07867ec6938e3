//! Commands on single members and ends of sorted sets. Reads work on a snapshot.
//!
//! ZMPOP checks its keys one after the other and pops from the first that has members at that
//! moment.

use psp_protocols::resp::format_double;
use psp_store::{Scored, ScoredMember, SortedSet};

use super::counts::{pick_count, picks, pop_count};
use super::lists::MultiPop;
use super::pace::Pace;
use super::scan;
use super::walk::Pairing;
use super::{large, walk};
use crate::command::{Context, ReplyEncoder, Row};
use crate::effects::Sent;
use crate::error::CommandError;
use crate::keyspace_events::{Class, Rule};
use crate::parse::{Result, float, is};
use crate::typed::{change, change_or_create, read, snapshot};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("zadd", zadd).event(Class::SortedSet, "zadd", Rule::Scores),
    Row::new("zincrby", zincrby).event(Class::SortedSet, "zincr", Rule::Always),
    Row::new("zrem", zrem).event(Class::SortedSet, "zrem", Rule::Replied),
    Row::new("zscore", zscore),
    Row::new("zmscore", zmscore),
    Row::new("zcard", zcard),
    Row::new("zrank", |context, args, out| rank(context, args, out, From::Lowest)),
    Row::new("zrevrank", |context, args, out| rank(context, args, out, From::Highest)),
    Row::new("zpopmin", |context, args, out| pop(context, args, out, From::Lowest)).event(
        Class::SortedSet,
        "zpopmin",
        Rule::Replied,
    ),
    Row::new("zpopmax", |context, args, out| pop(context, args, out, From::Highest)).event(
        Class::SortedSet,
        "zpopmax",
        Rule::Replied,
    ),
    Row::new("zmpop", zmpop).effect(Class::SortedSet, Rule::CountedFirst(1)),
    Row::new("zrandmember", zrandmember),
    Row::new("zscan", zscan),
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
    /// Removes the options from `args`, which leaves pairs of score and member.
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
        if args.is_empty() || !args.len().is_multiple_of(2) {
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

    /// The new score of `member`, or `None` if the options leave it unchanged.
    fn score(&self, old: Option<f64>, score: f64) -> Option<f64> {
        let Some(old) = old else {
            return (!self.only_existing).then_some(score);
        };
        let score = if self.increment { old + score } else { score };
        let kept = self.only_new || (self.only_greater && score <= old) || (self.only_less && score >= old);
        (!kept).then_some(score)
    }
}

fn not_a_number() -> CommandError {
    CommandError::line("ERR resulting score is not a number (NaN)")
}

pub(super) fn zadd(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (addition, pairs) = Addition::parse(&args[2..])?;
    let pace = Pace::new();
    let scores = pairs.iter().step_by(2).inspect(|_| pace.step());
    let scores: Vec<f64> = scores.map(|score| float(score)).collect::<Result<_>>()?;
    let members = pairs.iter().skip(1).step_by(2);
    let outcome = large::change_or_create(
        context.store.telling(&context.sent(args)),
        args[1],
        large::work(pairs),
        |set: &mut SortedSet, pace| {
            let (mut added, mut changed, mut last) = (0, 0, None);
            for (member, score) in members.clone().zip(&scores) {
                pace.step();
                let old = set.set(member, |old| {
                    last = addition.score(old, *score);
                    last
                });
                let old = old.map_err(|_| not_a_number())?;
                let Some(score) = last else { continue };
                added += i64::from(old.is_none());
                changed += i64::from(old.is_some_and(|old| old != score));
            }
            Ok((added, changed, last))
        },
    )?;
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
    let score = change_or_create(context.store.telling(&context.sent(args)), args[1], |set: &mut SortedSet| {
        let mut score = increment;
        let sum = |old: Option<f64>| {
            // A new member keeps the sign of zero.
            score = old.map_or(increment, |old| old + increment);
            Some(score)
        };
        set.set(args[3], sum).map_err(|_| not_a_number())?;
        Ok(score)
    })?;
    out.double(score?);
    Ok(())
}

fn zrem(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let members = &args[2..];
    let removed = large::change(
        context.store.telling(&context.sent(args)),
        args[1],
        members.len(),
        |set: &mut SortedSet, pace| {
            members
                .iter()
                .inspect(|_| pace.step())
                .filter(|member| set.remove(member).is_some())
                .count()
        },
    )?;
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
        let pace = Pace::new();
        for member in &args[2..] {
            pace.step();
            double_or_null(out, set.and_then(|set| set.score(member)));
        }
    })
}

fn zcard(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = read(context.store, args[1], |set: Option<&SortedSet>| set.map_or(0, SortedSet::len))?;
    out.integer(len as i64);
    Ok(())
}

/// The end of a sorted set that counts as its first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Lowest,
    Highest,
}

fn rank(context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, from: From) -> Result<()> {
    let with_score = match args[3..] {
        [] => false,
        [option] if is(option, "withscore") => true,
        _ => return Err(CommandError::Syntax),
    };
    read(context.store, args[1], |set: Option<&SortedSet>| {
        let found = set.and_then(|set| {
            let (rank, score) = set.rank(args[2])?;
            Some((
                if from == From::Lowest {
                    rank
                } else {
                    set.len() - 1 - rank
                },
                score,
            ))
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

/// Removes up to `count` members from one end. Returns them in the order of removal.
pub(super) fn pop_many(
    context: &Context<'_>,
    key: &[u8],
    count: usize,
    from: From,
) -> Result<Option<Vec<ScoredMember>>> {
    let elements = large::touched(context.store, key, count);
    let mut digits = itoa::Buffer::new();
    let name: &[u8] = match from {
        From::Lowest => b"ZPOPMIN",
        From::Highest => b"ZPOPMAX",
    };
    let sent: [&[u8]; 3] = [name, key, digits.format(count).as_bytes()];
    large::change(context.store.telling(&Sent::of(&sent)), key, elements, |set: &mut SortedSet, pace| {
        let len = set.len();
        let taken = count.min(len);
        let ranks = if from == From::Lowest {
            0..taken
        } else {
            len - taken..len
        };
        let members = set.range(ranks.clone()).inspect(|_| pace.step());
        let mut popped: Vec<_> = members.map(|scored| scored.to_member()).collect();
        if from == From::Highest {
            popped.reverse();
        }
        set.remove_range(ranks, &|| pace.step());
        popped
    })
}

fn pop(context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, from: From) -> Result<()> {
    let count = match args[2..] {
        [] => None,
        [count] => Some(pop_count(count)?),
        _ => return Err(CommandError::Syntax),
    };
    let Some(count) = count else {
        match pop_one(context, args[1], from)? {
            // Without a count, RESP3 has no nested array either.
            Some(scored) => {
                out.array(2);
                walk::element(out, &scored.member);
                out.double(scored.score);
            }
            None => out.array(0),
        }
        return Ok(());
    };
    let popped = pop_many(context, args[1], count, from)?.unwrap_or_default();
    walk::scored(out, popped.iter().map(ScoredMember::scored), Pairing::Paired);
    Pace::new().drop_all(popped);
    Ok(())
}

/// Removes the member at one end.
fn pop_one(context: &Context<'_>, key: &[u8], from: From) -> Result<Option<ScoredMember>> {
    let popped = change(context.store, key, |set: &mut SortedSet| {
        let rank = match from {
            From::Lowest => 0,
            From::Highest => set.len().checked_sub(1)?,
        };
        set.remove_at(rank)
    })?;
    Ok(popped.flatten())
}

fn zmpop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let MultiPop { keys, end, count } = MultiPop::parse(args)?;
    let from = parse_from(end)?;
    for key in keys {
        if multi_pop(context, key, count, from, out)? {
            return Ok(());
        }
    }
    out.null_array();
    Ok(())
}

/// MIN or MAX.
pub(super) fn parse_from(arg: &[u8]) -> Result<From> {
    match arg {
        arg if is(arg, "min") => Ok(From::Lowest),
        arg if is(arg, "max") => Ok(From::Highest),
        _ => Err(CommandError::Syntax),
    }
}

/// Pops from one of the keys of ZMPOP. Returns whether it had members.
pub(super) fn multi_pop(
    context: &Context<'_>,
    key: &[u8],
    count: usize,
    from: From,
    out: &mut ReplyEncoder<'_>,
) -> Result<bool> {
    let Some(popped) = pop_many(context, key, count, from)? else {
        return Ok(false);
    };
    out.array(2);
    out.bulk(key);
    walk::scored(out, popped.iter().map(ScoredMember::scored), Pairing::PairedAlways);
    Pace::new().drop_all(popped);
    Ok(true)
}

fn zrandmember(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (count, pairing) = match args[2..] {
        [] => (None, Pairing::Alone),
        [count] => (Some(pick_count(count, false)?), Pairing::Alone),
        [count, option] if is(option, "withscores") => (Some(pick_count(count, true)?), Pairing::Paired),
        _ => return Err(CommandError::Syntax),
    };
    let set: SortedSet = snapshot(context.store, args[1])?.unwrap_or_default();
    let pace = Pace::new();
    let picked = picks(set.len(), count.unwrap_or(-1), &pace);
    let mut members = picked.filter_map(|rank| set.at(rank));
    if count.is_some() {
        let members: Vec<_> = members.inspect(|_| pace.step()).collect();
        walk::scored(out, members.into_iter(), pairing);
    } else {
        walk::element_or_null(out, members.next().map(|scored| scored.member));
    }
    Ok(())
}

fn zscan(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let Some((set, options)) = scan::open::<SortedSet>(context, args, out)? else {
        return Ok(());
    };
    let scan = set.scan(options.cursor, options.count);
    let found: Vec<_> = scan.entries.filter(|scored| options.matches(&scored.member)).collect();
    options.head(out, scan.cursor, found.len() * 2);
    walk::batched(out, |out| {
        for Scored { score, member } in found {
            walk::element(out, member);
            out.bulk(format_double(score).as_bytes());
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn zadd_obeys_its_options() {
        Session::new().expect(&[
            ("ZADD z 1 a 2 b", ":2"),
            ("ZADD z 3 a 4 c", ":1"),
            ("ZADD z CH 5 a 6 d 2 b", ":2"),
            ("ZADD z NX 9 a 9 e", ":1"),
            ("ZADD z XX 7 a 7 nope", ":0"),
            ("ZADD z GT CH 1 a 8 b 3 f", ":2"),
            ("ZADD z LT CH 1 a 9 b", ":1"),
            ("ZADD z xx gt ch 10 a", ":1"),
            (
                "ZRANGE z 0 -1 WITHSCORES",
                "*12 $1 f $1 3 $1 c $1 4 $1 d $1 6 $1 b $1 8 $1 e $1 9 $1 a $2 10",
            ),
            ("ZADD z INCR 2.5 a", "$4 12.5"),
            ("ZADD z INCR 1 g", "$1 1"),
            ("ZADD z NX INCR 1 a", "$-1"),
            ("ZADD z XX INCR 1 nope", "$-1"),
            ("ZADD z GT INCR -1 a", "$-1"),
            ("ZADD missing XX 1 a", ":0"),
            ("EXISTS missing", ":0"),
            ("ZADD z +inf i -inf j", ":2"),
            ("ZADD z INCR -inf i", "-ERR resulting score is not a number (NaN)"),
            ("ZADD new INCR -inf i", "$4 -inf"),
            ("ZADD z", "-ERR wrong number of arguments for 'zadd' command"),
            ("ZADD z 1", "-ERR wrong number of arguments for 'zadd' command"),
            ("ZADD z 1 a 2", "-ERR syntax error"),
            ("ZADD z NX 1", "-ERR syntax error"),
            ("ZADD z FOO 1 a", "-ERR syntax error"),
            ("ZADD z x a", "-ERR value is not a valid float"),
            ("ZADD z nan a", "-ERR value is not a valid float"),
            ("ZADD z 1 a x b", "-ERR value is not a valid float"),
            ("ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible"),
            ("ZADD z GT LT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
            ("ZADD z GT NX 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
            ("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
            ("SET s v", "+OK"),
            ("ZADD s 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn scores_and_ranks() {
        Session::new().expect(&[
            ("ZADD z 1 a 2.5 b 3 c", ":3"),
            ("ZSCORE z b", "$3 2.5"),
            ("ZSCORE z nope", "$-1"),
            ("ZSCORE missing a", "$-1"),
            ("ZMSCORE z a nope b", "*3 $1 1 $-1 $3 2.5"),
            ("ZMSCORE missing a", "*1 $-1"),
            ("ZINCRBY z 2 a", "$1 3"),
            ("ZINCRBY z -1.5 new", "$4 -1.5"),
            ("ZINCRBY z x a", "-ERR value is not a valid float"),
            ("ZINCRBY z nan a", "-ERR value is not a valid float"),
            ("ZADD z +inf i", ":1"),
            ("ZINCRBY z -inf i", "-ERR resulting score is not a number (NaN)"),
            ("ZCARD z", ":5"),
            ("ZCARD missing", ":0"),
            ("ZRANK z new", ":0"),
            ("ZRANK z a", ":2"),
            ("ZREVRANK z a", ":2"),
            ("ZRANK z nope", "$-1"),
            ("ZREVRANK missing a", "$-1"),
            ("ZRANK z a WITHSCORE", "*2 :2 $1 3"),
            ("ZREVRANK z a WITHSCORE", "*2 :2 $1 3"),
            ("ZRANK z nope WITHSCORE", "*-1"),
            ("ZRANK z a FOO", "-ERR syntax error"),
            ("ZREM z a nope c", ":2"),
            ("ZREM missing a", ":0"),
            ("ZREM z b new i", ":3"),
            ("EXISTS z", ":0"),
            ("SET s v", "+OK"),
            ("ZSCORE s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZMSCORE s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZINCRBY s 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZCARD s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZRANK s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZREM s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn pops_from_both_ends() {
        Session::new().expect(&[
            ("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5"),
            ("ZPOPMIN z", "*2 $1 a $1 1"),
            ("ZPOPMAX z", "*2 $1 e $1 5"),
            ("ZPOPMIN z 2", "*4 $1 b $1 2 $1 c $1 3"),
            ("ZPOPMAX z 0", "*0"),
            ("ZPOPMAX z 9", "*2 $1 d $1 4"),
            ("EXISTS z", ":0"),
            ("ZPOPMIN z", "*0"),
            ("ZPOPMIN z 2", "*0"),
            ("ZPOPMIN z -1", "-ERR value is out of range, must be positive"),
            ("ZPOPMIN z x", "-ERR value is out of range, must be positive"),
            ("ZPOPMIN z 1 2", "-ERR syntax error"),
            ("ZADD z 1 a 2 b 3 c", ":3"),
            ("ZMPOP 2 missing z MIN", "*2 $1 z *1 *2 $1 a $1 1"),
            ("ZMPOP 1 z MAX COUNT 5", "*2 $1 z *2 *2 $1 c $1 3 *2 $1 b $1 2"),
            ("ZMPOP 1 z MIN", "*-1"),
            ("ZMPOP 0 z MIN", "-ERR numkeys should be greater than 0"),
            ("ZMPOP 1 z MID", "-ERR syntax error"),
            ("ZMPOP 2 z MIN", "-ERR syntax error"),
            ("ZMPOP 1 z MIN COUNT 0", "-ERR count should be greater than 0"),
            ("SET s v", "+OK"),
            ("ZPOPMIN s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZPOPMAX s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZMPOP 1 s MIN", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn picks_random_members_and_scans() {
        Session::new().expect(&[
            ("ZADD z 1.5 a", ":1"),
            ("ZRANDMEMBER z", "$1 a"),
            ("ZRANDMEMBER z 3", "*1 $1 a"),
            ("ZRANDMEMBER z -2 WITHSCORES", "*4 $1 a $3 1.5 $1 a $3 1.5"),
            ("ZRANDMEMBER z 0", "*0"),
            ("ZRANDMEMBER missing", "$-1"),
            ("ZRANDMEMBER missing 3", "*0"),
            ("ZRANDMEMBER z x", "-ERR value is not an integer or out of range"),
            ("ZRANDMEMBER z 1 FOO", "-ERR syntax error"),
            (
                "ZRANDMEMBER z -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("ZRANDMEMBER z 9223372036854775807 WITHSCORES", "-ERR value is out of range"),
            ("ZSCAN z 0", "*2 $1 0 *2 $1 a $3 1.5"),
            ("ZSCAN z 0 MATCH b*", "*2 $1 0 *0"),
            ("ZSCAN missing 0", "*2 $1 0 *0"),
            ("ZSCAN z x", "-ERR invalid cursor"),
            ("SET s v", "+OK"),
            ("ZRANDMEMBER s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZSCAN s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn resp3_has_doubles_and_pairs() {
        Session::new().resp3().expect(&[
            ("ZADD z 1 a 2.5 b 3 c", ":3"),
            ("ZSCORE z b", ",2.5"),
            ("ZMSCORE z a nope", "*2 ,1 _"),
            ("ZADD z INCR 1 a", ",2"),
            ("ZADD z NX INCR 1 a", "_"),
            ("ZINCRBY z -1 a", ",1"),
            ("ZRANDMEMBER missing 1 WITHSCORES", "*0"),
            ("ZSCAN missing 0", "*2 $1 0 *0"),
            ("ZPOPMIN z", "*2 $1 a ,1"),
            ("ZPOPMAX z 1", "*1 *2 $1 c ,3"),
            ("ZRANDMEMBER z 1 WITHSCORES", "*1 *2 $1 b ,2.5"),
            ("ZMPOP 1 z MIN", "*2 $1 z *1 *2 $1 b ,2.5"),
            ("ZPOPMIN z", "*0"),
            ("ZMPOP 1 z MIN", "_"),
            ("ZRANK z nope", "_"),
            ("ZADD z inf a", ":1"),
            ("ZSCAN z 0", "*2 $1 0 *2 $1 a $3 inf"),
        ]);
    }

    #[test]
    fn changes_of_many_members_have_the_replies_of_small_ones() {
        let mut session = Session::new();
        let pairs: Vec<String> = (0..500).map(|score| format!("{score} member:{score}")).collect();
        assert_eq!(session.run(&format!("ZADD z {}", pairs.join(" "))), ":500\r\n");
        let popped = session.run("ZPOPMAX z 200");
        assert!(popped.starts_with("*400\r\n$10\r\nmember:499\r\n$3\r\n499\r\n"));
        session.expect(&[
            ("ZREMRANGEBYSCORE z 100 249", ":150"),
            ("ZCARD z", ":150"),
            ("ZRANK z member:250", ":100"),
            ("ZRANK z member:100", "$-1"),
        ]);
    }
}
