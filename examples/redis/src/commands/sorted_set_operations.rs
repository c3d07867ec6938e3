//! Union, intersection and difference of sorted sets. Members of plain sets have score 1.
//!
//! These commands take snapshots of all operands at one instant, and work on the snapshots. The STORE
//! variants then replace the destination at one instant, which is a later one.

use psp_store::{Aggregate, Operand, SortedSet, Value, Weighted};

use super::counts::intersection_limit;
use super::pace::{self, Pace};
use super::walk;
use super::walk::Pairing;
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::{Result, float, integer, is};
use crate::typed::{Typed, snapshots};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("zunion", |context, args, out| reply_with(Operation::Union, context, args, out)).reads(Read::Counted(1)),
    Row::new("zinter", |context, args, out| reply_with(Operation::Intersection, context, args, out))
        .reads(Read::Counted(1)),
    Row::new("zdiff", |context, args, out| reply_with(Operation::Difference, context, args, out))
        .reads(Read::Counted(1)),
    Row::new("zunionstore", |context, args, out| store_with(Operation::Union, context, args, out))
        .event(Class::SortedSet, "zunionstore", Rule::Stored(1))
        .reads(Read::Counted(2)),
    Row::new("zinterstore", |context, args, out| {
        store_with(Operation::Intersection, context, args, out)
    })
    .event(Class::SortedSet, "zinterstore", Rule::Stored(1))
    .reads(Read::Counted(2)),
    Row::new("zdiffstore", |context, args, out| store_with(Operation::Difference, context, args, out))
        .event(Class::SortedSet, "zdiffstore", Rule::Stored(1))
        .reads(Read::Counted(2)),
    Row::new("zintercard", zintercard).reads(Read::Counted(1)),
];

#[derive(Clone, Copy)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The arguments that a command takes besides its keys.
#[derive(Clone, Copy, Default)]
struct Syntax {
    destination: bool,
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
    /// Parses the arguments, including the command's name, and takes the snapshots.
    fn load(context: &Context<'_>, syntax: Syntax, args: &[&[u8]]) -> Result<Self> {
        let name = args[0];
        let args = &args[1 + usize::from(syntax.destination)..];
        let key_count = integer(args[0])?;
        if key_count < 1 {
            let name = name.to_ascii_lowercase();
            let name = String::from_utf8_lossy(&name);
            let line = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(CommandError::Other(line.into()));
        }
        let rest = &args[1..];
        let key_count = usize::try_from(key_count).ok().filter(|count| *count <= rest.len());
        let (keys, mut options) = rest.split_at(key_count.ok_or(CommandError::Syntax)?);
        let mut query = Self {
            sources: snapshots(context.store, keys).into_iter().map(operand).collect::<Result<_>>()?,
            aggregate: Aggregate::default(),
            pairing: Pairing::Alone,
            limit: usize::MAX,
        };
        while let Some((option, rest)) = options.split_first() {
            options = match *option {
                option if syntax.weights && is(option, "weights") && rest.len() >= keys.len() => {
                    let (weights, rest) = rest.split_at(keys.len());
                    query.set_weights(weights)?;
                    rest
                }
                option if syntax.weights && is(option, "aggregate") && !rest.is_empty() => {
                    query.aggregate = aggregate(rest[0])?;
                    &rest[1..]
                }
                option if syntax.scores && is(option, "withscores") => {
                    query.pairing = Pairing::Paired;
                    rest
                }
                option if syntax.limit && is(option, "limit") && !rest.is_empty() => {
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
            source.weight = float(weight).map_err(|_| CommandError::line("ERR weight value is not a float"))?;
        }
        Ok(())
    }

    /// What the result takes at most, approximately.
    fn bytes_max(&self, operation: Operation) -> usize {
        let bytes = self.sources.iter().map(|source| {
            let value = match source.operand.clone() {
                Operand::SortedSet(set) => set.into_value(),
                Operand::Set(set) => set.into_value(),
            };
            value.memory_bytes()
        });
        match operation {
            Operation::Union => bytes.sum(),
            Operation::Intersection | Operation::Difference => bytes.take(1).sum(),
        }
    }

    fn evaluate(&self, operation: Operation) -> SortedSet {
        let (sources, aggregate) = (&self.sources, self.aggregate);
        pace::begins(sources.iter().map(|source| source.operand.len()).sum());
        let pace = Pace::new();
        let visit = &|| pace.step();
        match operation {
            Operation::Union => SortedSet::union(sources, aggregate, visit),
            Operation::Intersection => SortedSet::intersection(sources, aggregate, visit),
            Operation::Difference => SortedSet::difference(sources, visit),
        }
    }
}

fn operand(value: Option<Value>) -> Result<Weighted> {
    let operand = match value {
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

impl Operation {
    const fn syntax(self) -> Syntax {
        Syntax {
            destination: false,
            weights: !matches!(self, Self::Difference),
            scores: true,
            limit: false,
        }
    }
}

fn reply_with(operation: Operation, context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let query = Query::load(context, operation.syntax(), args)?;
    let _reserved = { context.server }.reserve_for_reply(query.bytes_max(operation))?;
    let result = query.evaluate(operation);
    walk::scored(out, result.iter(), query.pairing);
    context.store.discard(result.into_value());
    Ok(())
}

fn store_with(operation: Operation, context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let syntax = Syntax { destination: true, scores: false, ..operation.syntax() };
    let query = Query::load(context, syntax, args)?;
    let bytes = query.bytes_max(operation);
    let _reserved = context.server.evict_and_reserve(bytes)?;
    let result = query.evaluate(operation);
    let len = result.len();
    context.store.insert(args[1], result.into_value());
    out.integer(len as i64);
    Ok(())
}

fn zintercard(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let syntax = Syntax { limit: true, ..Syntax::default() };
    let query = Query::load(context, syntax, args)?;
    let pace = Pace::new();
    let shared = SortedSet::intersection_len(&query.sources, query.limit, &|| pace.step());
    out.integer(shared as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn unions_intersections_and_differences() {
        Session::new().expect(&[
            ("ZADD a 1 x 2 y", ":2"),
            ("ZADD b 10 y 20 z", ":2"),
            ("SADD plain x z", ":2"),
            ("ZUNION 2 a b WITHSCORES", "*6 $1 x $1 1 $1 y $2 12 $1 z $2 20"),
            ("ZUNION 2 a b", "*3 $1 x $1 y $1 z"),
            ("ZUNION 2 a b WEIGHTS 2 0.5 WITHSCORES", "*6 $1 x $1 2 $1 y $1 9 $1 z $2 10"),
            ("ZUNION 2 a b AGGREGATE MIN WITHSCORES", "*6 $1 x $1 1 $1 y $1 2 $1 z $2 20"),
            ("ZUNION 2 a b WEIGHTS 1 -1 AGGREGATE max WITHSCORES", "*6 $1 z $3 -20 $1 x $1 1 $1 y $1 2"),
            ("ZUNION 2 a plain WITHSCORES", "*6 $1 z $1 1 $1 x $1 2 $1 y $1 2"),
            ("ZINTER 2 a b WITHSCORES", "*2 $1 y $2 12"),
            ("ZINTER 2 a b AGGREGATE MAX", "*1 $1 y"),
            ("ZINTER 2 a missing", "*0"),
            ("ZINTER 2 plain b WITHSCORES", "*2 $1 z $2 21"),
            ("ZDIFF 2 a b WITHSCORES", "*2 $1 x $1 1"),
            ("ZDIFF 2 b plain", "*1 $1 y"),
            ("ZDIFF 1 missing", "*0"),
            ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", ":3"),
            ("ZRANGE d 0 -1 WITHSCORES", "*6 $1 x $1 1 $1 y $2 22 $1 z $2 40"),
            ("ZINTERSTORE d 2 a b", ":1"),
            ("ZRANGE d 0 -1 WITHSCORES", "*2 $1 y $2 12"),
            ("ZDIFFSTORE d 2 a b", ":1"),
            ("ZRANGE d 0 -1 WITHSCORES", "*2 $1 x $1 1"),
            ("ZDIFFSTORE d 2 a a", ":0"),
            ("EXISTS d", ":0"),
            ("ZINTERCARD 2 a b", ":1"),
            ("ZINTERCARD 1 b LIMIT 1", ":1"),
            ("ZINTERCARD 1 b LIMIT 0", ":2"),
            ("ZADD p inf m", ":1"),
            ("ZADD n -inf m", ":1"),
            ("ZUNION 2 p n WITHSCORES", "*2 $1 m $1 0"),
            ("ZUNION 1 p WEIGHTS 0 WITHSCORES", "*2 $1 m $1 0"),
        ]);
    }

    #[test]
    fn invalid_arguments_are_refused() {
        Session::new().expect(&[
            ("ZADD z 1 a", ":1"),
            ("ZUNION 0 z", "-ERR at least 1 input key is needed for 'zunion' command"),
            ("ZINTERSTORE d 0 z", "-ERR at least 1 input key is needed for 'zinterstore' command"),
            ("ZDIFF -1 z", "-ERR at least 1 input key is needed for 'zdiff' command"),
            ("ZINTERCARD 0 z", "-ERR at least 1 input key is needed for 'zintercard' command"),
            ("ZUNION x z", "-ERR value is not an integer or out of range"),
            ("ZUNION 2 z", "-ERR syntax error"),
            ("ZUNION 1 z FOO", "-ERR syntax error"),
            ("ZUNION 1 z WEIGHTS", "-ERR syntax error"),
            ("ZUNION 1 z WEIGHTS 1 2", "-ERR syntax error"),
            ("ZUNION 1 z WEIGHTS x", "-ERR weight value is not a float"),
            ("ZUNION 1 z AGGREGATE", "-ERR syntax error"),
            ("ZUNION 1 z AGGREGATE AVG", "-ERR syntax error"),
            ("ZDIFF 1 z WEIGHTS 1", "-ERR syntax error"),
            ("ZUNIONSTORE d 1 z WITHSCORES", "-ERR syntax error"),
            ("ZINTERCARD 1 z LIMIT", "-ERR syntax error"),
            ("ZINTERCARD 1 z LIMIT -1", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 1 z LIMIT x", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 1 z WITHSCORES", "-ERR syntax error"),
            ("SET s v", "+OK"),
            ("ZUNION 2 z s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZINTER 2 missing s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZDIFFSTORE d 2 z s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZUNIONSTORE s 1 z", ":1"),
            ("TYPE s", "+zset"),
        ]);
    }

    #[test]
    fn resp3_has_pairs_of_member_and_double() {
        Session::new().resp3().expect(&[
            ("ZADD z 1 a 2.5 b", ":2"),
            ("ZUNION 1 z WITHSCORES", "*2 *2 $1 a ,1 *2 $1 b ,2.5"),
            ("ZINTER 1 z WITHSCORES", "*2 *2 $1 a ,1 *2 $1 b ,2.5"),
            ("ZDIFF 1 z WITHSCORES", "*2 *2 $1 a ,1 *2 $1 b ,2.5"),
            ("ZDIFF 1 z", "*2 $1 a $1 b"),
            ("ZUNION 1 missing WITHSCORES", "*0"),
        ]);
    }
}
