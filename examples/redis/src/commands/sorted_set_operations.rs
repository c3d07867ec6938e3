//! Union, intersection and difference of sorted sets, in which plain sets take part with scores of 1.
//!
//! These commands take a snapshot of each operand, one after the other, and work on those: each is seen as
//! it was at one instant, not all at the same. The STORE variants then replace the destination at
//! one instant.

use psp_store::{Aggregate, Operand, SortedSet, Value, Weighted};

use super::counts::intersection_limit;
use super::walk;
use super::walk::Pairing;
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{Result, float, integer, is};
use crate::typed::Typed;

const READ: &[Flag] = &[Flag::Readonly];
const STORE: &[Flag] = &[Flag::Write, Flag::DenyOom];

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("zunion", -3, zunion).flags(READ),
    CommandSpec::new("zinter", -3, zinter).flags(READ),
    CommandSpec::new("zdiff", -3, zdiff).flags(READ),
    CommandSpec::new("zunionstore", -4, zunionstore).flags(STORE).key(),
    CommandSpec::new("zinterstore", -4, zinterstore).flags(STORE).key(),
    CommandSpec::new("zdiffstore", -4, zdiffstore).flags(STORE).key(),
    CommandSpec::new("zintercard", -3, zintercard).flags(READ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// Which options a command takes beside its keys.
#[derive(Clone, Copy, Default)]
struct Allowed {
    weights: bool,
    scores: bool,
    limit: bool,
}

/// `numkeys key ... [WEIGHTS weight ...] [AGGREGATE how] [WITHSCORES] [LIMIT limit]`.
struct Query {
    sources: Vec<Weighted>,
    aggregate: Aggregate,
    pairing: Pairing,
    limit: usize,
}

impl Query {
    /// Parses what comes after the command's name and destination, and takes the snapshots.
    fn load(context: &Context<'_>, name: &str, allowed: Allowed, args: &[&[u8]]) -> Result<Self> {
        let key_count = integer(args[0])?;
        if key_count < 1 {
            let line = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(CommandError::Other(line.into()));
        }
        let rest = &args[1..];
        let key_count = usize::try_from(key_count).ok().filter(|count| *count <= rest.len());
        let (keys, mut options) = rest.split_at(key_count.ok_or(CommandError::Syntax)?);
        let mut query = Self {
            sources: keys.iter().map(|key| operand(context, key)).collect::<Result<_>>()?,
            aggregate: Aggregate::default(),
            pairing: Pairing::Alone,
            limit: usize::MAX,
        };
        while let Some((option, rest)) = options.split_first() {
            options = match *option {
                option if allowed.weights && is(option, "weights") && rest.len() >= keys.len() => {
                    let (weights, rest) = rest.split_at(keys.len());
                    query.set_weights(weights)?;
                    rest
                }
                option if allowed.weights && is(option, "aggregate") && !rest.is_empty() => {
                    query.aggregate = aggregate(rest[0])?;
                    &rest[1..]
                }
                option if allowed.scores && is(option, "withscores") => {
                    query.pairing = Pairing::Paired;
                    rest
                }
                option if allowed.limit && is(option, "limit") && !rest.is_empty() => {
                    query.limit = intersection_limit(rest[0])?;
                    &rest[1..]
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        Ok(query)
    }

    fn set_weights(&mut self, weights: &[&[u8]]) -> Result<()> {
        for (source, weight) in self.sources.iter_mut().zip(weights) {
            source.weight = float(weight)
                .map_err(|_| CommandError::line("ERR weight value is not a float"))?;
        }
        Ok(())
    }

    fn evaluate(&self, operation: Operation) -> SortedSet {
        match operation {
            Operation::Union => SortedSet::union(&self.sources, self.aggregate),
            Operation::Intersection => SortedSet::intersection(&self.sources, self.aggregate),
            Operation::Difference => SortedSet::difference(&self.sources),
        }
    }
}

fn operand(context: &Context<'_>, key: &[u8]) -> Result<Weighted> {
    let operand = match context.store.get(key) {
        None => Operand::SortedSet(SortedSet::new()),
        Some(Value::SortedSet(set)) => Operand::SortedSet(set),
        Some(Value::Set(set)) => Operand::Set(set),
        Some(_) => return Err(CommandError::WrongType),
    };
    Ok(Weighted { operand, weight: 1.0 })
}

fn aggregate(arg: &[u8]) -> Result<Aggregate> {
    match arg {
        how if is(how, "sum") => Ok(Aggregate::Sum),
        how if is(how, "min") => Ok(Aggregate::Min),
        how if is(how, "max") => Ok(Aggregate::Max),
        _ => Err(CommandError::Syntax),
    }
}

fn zunion(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    reply_with(Operation::Union, "zunion", context, args, out)
}

fn zinter(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    reply_with(Operation::Intersection, "zinter", context, args, out)
}

fn zdiff(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    reply_with(Operation::Difference, "zdiff", context, args, out)
}

fn reply_with(
    operation: Operation,
    name: &str,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let weights = operation != Operation::Difference;
    let allowed = Allowed { weights, scores: true, limit: false };
    let query = Query::load(context, name, allowed, &args[1..])?;
    walk::scored(out, query.evaluate(operation).iter(), query.pairing);
    Ok(())
}

fn zunionstore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    store_with(Operation::Union, "zunionstore", context, args, out)
}

fn zinterstore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    store_with(Operation::Intersection, "zinterstore", context, args, out)
}

fn zdiffstore(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    store_with(Operation::Difference, "zdiffstore", context, args, out)
}

fn store_with(
    operation: Operation,
    name: &str,
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let weights = operation != Operation::Difference;
    let allowed = Allowed { weights, ..Allowed::default() };
    let result = Query::load(context, name, allowed, &args[2..])?.evaluate(operation);
    let len = result.len();
    context.store.insert(args[1], result.into_value());
    out.integer(len as i64);
    Ok(())
}

fn zintercard(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let allowed = Allowed { limit: true, ..Allowed::default() };
    let query = Query::load(context, "zintercard", allowed, &args[1..])?;
    out.integer(SortedSet::intersection_len(&query.sources, query.limit) as i64);
    Ok(())
}
