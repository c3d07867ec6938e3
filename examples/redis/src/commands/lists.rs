//! Commands on lists.
//!
//! Reads walk a snapshot. LMOVE and RPOPLPUSH change both keys at one instant. LMPOP checks its
//! keys one after the other and pops from the first that has elements at that moment.

use psp_store::{Element, List, ListEnd, Slot};

use super::counts::{above_zero, key_count, pop_count};
use super::pace::Pace;
use super::{large, walk};
use crate::command::{Context, ReplyEncoder, Row};
use crate::effects::Sent;
use crate::error::CommandError;
use crate::keyspace_events::{Class, Rule};
use crate::parse::{Result, index_range, integer, is};
use crate::typed::{change, expect, expect_mut, expect_or_default, read};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("lpush", |context, args, out| push(context, args, out, ListEnd::Left)).event(
        Class::List,
        "lpush",
        Rule::Replied,
    ),
    Row::new("rpush", |context, args, out| push(context, args, out, ListEnd::Right)).event(
        Class::List,
        "rpush",
        Rule::Replied,
    ),
    Row::new("lpushx", |context, args, out| push_existing(context, args, out, ListEnd::Left)).event(
        Class::List,
        "lpush",
        Rule::Replied,
    ),
    Row::new("rpushx", |context, args, out| push_existing(context, args, out, ListEnd::Right)).event(
        Class::List,
        "rpush",
        Rule::Replied,
    ),
    Row::new("lpop", |context, args, out| pop(context, args, out, ListEnd::Left)).event(
        Class::List,
        "lpop",
        Rule::Replied,
    ),
    Row::new("rpop", |context, args, out| pop(context, args, out, ListEnd::Right)).event(
        Class::List,
        "rpop",
        Rule::Replied,
    ),
    Row::new("llen", llen),
    Row::new("lrange", lrange),
    Row::new("lindex", lindex),
    Row::new("lset", lset).event(Class::List, "lset", Rule::Always),
    Row::new("linsert", linsert).event(Class::List, "linsert", Rule::Replied),
    Row::new("lrem", lrem).event(Class::List, "lrem", Rule::Replied),
    Row::new("ltrim", ltrim).event(Class::List, "ltrim", Rule::Existing),
    Row::new("lpos", lpos),
    Row::new("lmove", lmove).effect(Class::List, Rule::MoveElement),
    Row::new("rpoplpush", rpoplpush).effect(Class::List, Rule::MoveElement),
    Row::new("lmpop", lmpop).effect(Class::List, Rule::CountedFirst(1)),
];

fn push(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, end: ListEnd) -> Result<()> {
    let len = large::change_or_create(
        context.store.telling(&context.sent(args)),
        args[1],
        large::work(&args[2..]),
        |list: &mut List, pace| push_all(list, &args[2..], end, pace),
    )?;
    out.integer(len as i64);
    Ok(())
}

fn push_existing(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, end: ListEnd) -> Result<()> {
    let len = large::change(
        context.store.telling(&context.sent(args)),
        args[1],
        large::work(&args[2..]),
        |list: &mut List, pace| push_all(list, &args[2..], end, pace),
    )?;
    out.integer(len.unwrap_or(0) as i64);
    Ok(())
}

fn push_all(list: &mut List, elements: &[&[u8]], end: ListEnd, pace: &Pace) -> usize {
    for element in elements {
        pace.step();
        list.push(end, *element);
    }
    list.len()
}

fn pop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, end: ListEnd) -> Result<()> {
    match args[2..] {
        [] => walk::element_or_null(out, pop_one(context, args[1], end)?.as_ref()),
        [count] => match pop_many(context, args[1], pop_count(count)?, end)? {
            Some(popped) => write_popped(out, &popped, end),
            None => out.null_array(),
        },
        _ => {
            let name = if end == ListEnd::Left { "lpop" } else { "rpop" };
            return Err(CommandError::Arity(name.into()));
        }
    }
    Ok(())
}

const fn pop_name(end: ListEnd) -> &'static [u8] {
    match end {
        ListEnd::Left => b"LPOP",
        ListEnd::Right => b"RPOP",
    }
}

/// Removes the element at `end`.
pub(super) fn pop_one(context: &Context<'_>, key: &[u8], end: ListEnd) -> Result<Option<Element>> {
    let sent: [&[u8]; 2] = [pop_name(end), key];
    let popped = change(context.store.telling(&Sent::of(&sent)), key, |list: &mut List| list.pop(end))?;
    Ok(popped.flatten())
}

/// Removes up to `count` elements from `end`. Returns them in the order of the list.
fn pop_many(context: &Context<'_>, key: &[u8], count: usize, end: ListEnd) -> Result<Option<List>> {
    let elements = large::touched(context.store, key, count);
    let mut digits = itoa::Buffer::new();
    let sent: [&[u8]; 3] = [pop_name(end), key, digits.format(count).as_bytes()];
    large::change(context.store.telling(&Sent::of(&sent)), key, elements, |list: &mut List, _| {
        let len = list.len();
        let taken = match end {
            ListEnd::Left => 0..count.min(len),
            ListEnd::Right => len - count.min(len)..len,
        };
        let mut popped = list.clone();
        popped.retain_range(taken.clone());
        list.remove_range(taken);
        popped
    })
}

fn write_popped(out: &mut ReplyEncoder<'_>, popped: &List, end: ListEnd) {
    match end {
        ListEnd::Left => walk::array(out, popped.iter()),
        ListEnd::Right => walk::array(out, popped.iter().rev()),
    }
}

fn llen(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = read(context.store, args[1], |list: Option<&List>| list.map_or(0, List::len))?;
    out.integer(len as i64);
    Ok(())
}

fn lrange(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    read(context.store, args[1], |list: Option<&List>| match list {
        Some(list) => walk::array(out, list.range(index_range(start, stop, list.len()))),
        None => out.array(0),
    })
}

/// An index within `len` elements. A negative index counts from the end.
fn index_within(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add_unsigned(len as u64)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < len)
}

fn lindex(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |list: Option<&List>| {
        let Some(list) = list else {
            out.null();
            return Ok(());
        };
        let index = index_within(integer(args[2])?, list.len());
        walk::element_or_null(out, index.and_then(|index| list.get(index)));
        Ok(())
    })?
}

fn lset(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let index = integer(args[2]);
    let outcome = large::change(
        context.store.telling(&context.sent(args)),
        args[1],
        large::work(&args[3..]),
        |list: &mut List, _| {
            let index = index_within(index.clone()?, list.len()).ok_or(CommandError::IndexOutOfRange)?;
            list.set(index, args[3]);
            Ok(())
        },
    )?;
    outcome.ok_or(CommandError::NoSuchKey)??;
    out.simple("OK");
    Ok(())
}

fn linsert(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let after = match args[2] {
        place if is(place, "before") => false,
        place if is(place, "after") => true,
        _ => return Err(CommandError::Syntax),
    };
    let elements = large::cardinality(context.store, args[1]) + large::work(&args[4..]);
    let outcome =
        large::change(context.store.telling(&context.sent(args)), args[1], elements, |list: &mut List, pace| {
            let mut matches = list.matches(args[3]).inspect(|_| pace.step());
            let Some(pivot) = matches.position(|is_pivot| is_pivot) else {
                return -1;
            };
            drop(matches);
            list.insert(pivot + usize::from(after), args[4]);
            list.len() as i64
        })?;
    out.integer(outcome.unwrap_or(0));
    Ok(())
}

fn lrem(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let count = integer(args[2])?;
    let limit = match count {
        0 => usize::MAX,
        count => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let end = if count < 0 { ListEnd::Right } else { ListEnd::Left };
    let elements = large::cardinality(context.store, args[1]);
    let removed =
        large::change(context.store.telling(&context.sent(args)), args[1], elements, |list: &mut List, pace| {
            list.remove_equal(args[3], end, limit, &|| pace.step())
        })?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn ltrim(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let len = large::cardinality(context.store, args[1]);
    let removed = len - index_range(start, stop, len).len();
    large::change(context.store.telling(&context.sent(args)), args[1], removed, |list: &mut List, _| {
        list.retain_range(index_range(start, stop, list.len()));
    })?;
    out.simple("OK");
    Ok(())
}

/// Options of LPOS.
struct Search {
    end: ListEnd,
    /// Matches to skip.
    skipped: usize,
    /// Matches to return in an array; `None` returns one match without an array.
    count: Option<usize>,
    /// Elements to compare.
    compared: usize,
}

impl Search {
    fn parse(options: &[&[u8]]) -> Result<Self> {
        let mut search = Self {
            end: ListEnd::Left,
            skipped: 0,
            count: None,
            compared: usize::MAX,
        };
        let not_negative = |arg, error| {
            let number = integer(arg).ok().and_then(|number| usize::try_from(number).ok());
            number.ok_or(CommandError::line(error))
        };
        for option in options.chunks(2) {
            match *option {
                [name, value] if is(name, "rank") => {
                    let rank = integer(value)?;
                    if rank == 0 {
                        return Err(CommandError::line(
                            "ERR RANK can't be zero: use 1 to start from the first match, 2 from \
                             the second ... or use negative to start from the end of the list",
                        ));
                    }
                    search.end = if rank < 0 { ListEnd::Right } else { ListEnd::Left };
                    search.skipped = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
                }
                [name, value] if is(name, "count") => {
                    let count = not_negative(value, "ERR COUNT can't be negative")?;
                    search.count = Some(if count == 0 { usize::MAX } else { count });
                }
                [name, value] if is(name, "maxlen") => {
                    let compared = not_negative(value, "ERR MAXLEN can't be negative")?;
                    search.compared = if compared == 0 { usize::MAX } else { compared };
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(search)
    }

    fn matches(&self, list: &List, wanted: &[u8]) -> Vec<usize> {
        let pace = Pace::new();
        let places = list.matches(wanted).enumerate();
        let places = places.inspect(|_| pace.step());
        let found = |places: &mut dyn Iterator<Item = (usize, bool)>| {
            let equal = places.take(self.compared).filter(|(_, is_equal)| *is_equal);
            let indices = equal.map(|(index, _)| index).skip(self.skipped);
            indices.take(self.count.unwrap_or(1)).collect()
        };
        match self.end {
            ListEnd::Left => found(&mut { places }),
            ListEnd::Right => found(&mut places.rev()),
        }
    }
}

fn lpos(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let search = Search::parse(&args[3..])?;
    let found = read(context.store, args[1], |list: Option<&List>| {
        list.map_or_else(Vec::new, |list| search.matches(list, args[2]))
    })?;
    if search.count.is_some() {
        out.array(found.len());
        walk::batched(out, |out| {
            found.iter().for_each(|index| out.integer(*index as i64));
        });
    } else if let Some(index) = found.first() {
        out.integer(*index as i64);
    } else {
        out.null();
    }
    Ok(())
}

pub(super) fn parse_end(arg: &[u8]) -> Result<ListEnd> {
    match arg {
        end if is(end, "left") => Ok(ListEnd::Left),
        end if is(end, "right") => Ok(ListEnd::Right),
        _ => Err(CommandError::Syntax),
    }
}

fn lmove(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let ends = [parse_end(args[3])?, parse_end(args[4])?];
    let moved = move_element(context, [args[1], args[2]], ends)?;
    walk::element_or_null(out, moved.as_ref());
    Ok(())
}

fn rpoplpush(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let ends = [ListEnd::Right, ListEnd::Left];
    let moved = move_element(context, [args[1], args[2]], ends)?;
    walk::element_or_null(out, moved.as_ref());
    Ok(())
}

/// Moves an element from one end of `source` to one end of `destination`, and returns it.
pub(super) fn move_element(
    context: &Context<'_>,
    [source, destination]: [&[u8]; 2],
    [from, to]: [ListEnd; 2],
) -> Result<Option<Element>> {
    let sent: [&[u8]; 5] = [b"LMOVE", source, destination, end_name(from), end_name(to)];
    let sent = Sent::of(&sent);
    let store = context.store.telling(&sent);
    if source == destination {
        let moved = change(store, source, |list: &mut List| {
            let element = list.pop(from)?;
            list.push(to, &element);
            Some(element)
        })?;
        Ok(moved.flatten())
    } else {
        store.update_pair(source, destination, |source, destination| move_between(source, destination, from, to))
    }
}

const fn end_name(end: ListEnd) -> &'static [u8] {
    match end {
        ListEnd::Left => b"LEFT",
        ListEnd::Right => b"RIGHT",
    }
}

fn move_between(
    source: &mut Slot<'_>,
    destination: &mut Slot<'_>,
    from: ListEnd,
    to: ListEnd,
) -> Result<Option<Element>> {
    if expect::<List>(source.value())?.is_none() {
        return Ok(None);
    }
    expect::<List>(destination.value())?;
    let Some(element) = expect_mut::<List>(source)?.and_then(|list| list.pop(from)) else {
        return Ok(None);
    };
    expect_or_default::<List>(destination)?.push(to, &element);
    Ok(Some(element))
}

/// `numkeys key ... <end> [COUNT count]`, the arguments of LMPOP and ZMPOP.
pub(super) struct MultiPop<'a> {
    pub(super) keys: &'a [&'a [u8]],
    /// The end to pop from, in the client's words.
    pub(super) end: &'a [u8],
    pub(super) count: usize,
}

impl<'a> MultiPop<'a> {
    pub(super) fn parse(args: &'a [&'a [u8]]) -> Result<Self> {
        let keys = key_count(args[1])?;
        let rest = &args[2..];
        if keys >= rest.len() {
            return Err(CommandError::Syntax);
        }
        let (keys, rest) = rest.split_at(keys);
        let count = match *rest {
            [_] => 1,
            [_, name, count] if is(name, "count") => above_zero(count, "ERR count should be greater than 0")?,
            _ => return Err(CommandError::Syntax),
        };
        Ok(Self { keys, end: rest[0], count })
    }
}

fn lmpop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let MultiPop { keys, end, count } = MultiPop::parse(args)?;
    let end = parse_end(end)?;
    for key in keys {
        if multi_pop(context, key, count, end, out)? {
            return Ok(());
        }
    }
    out.null_array();
    Ok(())
}

/// Pops from one of the keys of LMPOP. Returns whether it had elements.
pub(super) fn multi_pop(
    context: &Context<'_>,
    key: &[u8],
    count: usize,
    end: ListEnd,
    out: &mut ReplyEncoder<'_>,
) -> Result<bool> {
    let Some(popped) = pop_many(context, key, count, end)? else {
        return Ok(false);
    };
    out.array(2);
    out.bulk(key);
    write_popped(out, &popped, end);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn pushes_pops_and_lengths() {
        Session::new().expect(&[
            ("LPUSH l a b c", ":3"),
            ("RPUSH l d e", ":5"),
            ("LRANGE l 0 -1", "*5 $1 c $1 b $1 a $1 d $1 e"),
            ("LLEN l", ":5"),
            ("LLEN missing", ":0"),
            ("LPUSHX missing a", ":0"),
            ("RPUSHX missing a", ":0"),
            ("EXISTS missing", ":0"),
            ("LPUSHX l x", ":6"),
            ("RPUSHX l y z", ":8"),
            ("LPOP l", "$1 x"),
            ("RPOP l", "$1 z"),
            ("LPOP l 2", "*2 $1 c $1 b"),
            ("RPOP l 2", "*2 $1 y $1 e"),
            ("LRANGE l 0 -1", "*2 $1 a $1 d"),
            ("LPOP l 0", "*0"),
            ("LPOP l 100", "*2 $1 a $1 d"),
            ("EXISTS l", ":0"),
            ("LPOP missing", "$-1"),
            ("LPOP missing 2", "*-1"),
            ("RPOP missing 0", "*-1"),
            ("LPOP l -1", "-ERR value is out of range, must be positive"),
            ("LPOP l x", "-ERR value is out of range, must be positive"),
            ("LPOP l 1 2", "-ERR wrong number of arguments for 'lpop' command"),
            ("RPOP l 1 2", "-ERR wrong number of arguments for 'rpop' command"),
            ("LPUSH l", "-ERR wrong number of arguments for 'lpush' command"),
            ("SET s v", "+OK"),
            ("LPUSH s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("RPUSHX s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LPOP s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("RPOP s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LLEN s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn ranges_and_indices() {
        Session::new().expect(&[
            ("RPUSH l a b c d", ":4"),
            ("LRANGE l 1 2", "*2 $1 b $1 c"),
            ("LRANGE l -2 -1", "*2 $1 c $1 d"),
            ("LRANGE l -100 100", "*4 $1 a $1 b $1 c $1 d"),
            ("LRANGE l 3 1", "*0"),
            ("LRANGE l 4 9", "*0"),
            ("LRANGE missing 0 -1", "*0"),
            ("LRANGE l x 1", "-ERR value is not an integer or out of range"),
            ("LRANGE l 0 x", "-ERR value is not an integer or out of range"),
            ("LINDEX l 0", "$1 a"),
            ("LINDEX l -1", "$1 d"),
            ("LINDEX l 4", "$-1"),
            ("LINDEX l -5", "$-1"),
            ("LINDEX missing 0", "$-1"),
            ("LINDEX l x", "-ERR value is not an integer or out of range"),
            ("LSET l 1 B", "+OK"),
            ("LSET l -1 D", "+OK"),
            ("LRANGE l 0 -1", "*4 $1 a $1 B $1 c $1 D"),
            ("LSET l 4 x", "-ERR index out of range"),
            ("LSET l -5 x", "-ERR index out of range"),
            ("LSET l x y", "-ERR value is not an integer or out of range"),
            ("LSET missing 0 x", "-ERR no such key"),
            ("LTRIM l 1 -2", "+OK"),
            ("LRANGE l 0 -1", "*2 $1 B $1 c"),
            ("LTRIM missing 0 1", "+OK"),
            ("LTRIM l x 1", "-ERR value is not an integer or out of range"),
            ("LTRIM l 5 9", "+OK"),
            ("EXISTS l", ":0"),
            ("SET s v", "+OK"),
            ("LRANGE s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LINDEX s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LSET s 0 x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LTRIM s 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn insertions_removals_and_positions() {
        Session::new().expect(&[
            ("RPUSH l a b a c a", ":5"),
            ("LINSERT l BEFORE a x", ":6"),
            ("LINSERT l after c y", ":7"),
            ("LINSERT l BEFORE zz w", ":-1"),
            ("LINSERT missing BEFORE a b", ":0"),
            ("LINSERT l ABOVE a b", "-ERR syntax error"),
            ("LRANGE l 0 -1", "*7 $1 x $1 a $1 b $1 a $1 c $1 y $1 a"),
            ("LPOS l a", ":1"),
            ("LPOS l a RANK 2", ":3"),
            ("LPOS l a RANK -1", ":6"),
            ("LPOS l a COUNT 2", "*2 :1 :3"),
            ("LPOS l a COUNT 0", "*3 :1 :3 :6"),
            ("LPOS l a COUNT 0 RANK -2", "*2 :3 :1"),
            ("LPOS l a COUNT 0 MAXLEN 3", "*1 :1"),
            ("LPOS l a MAXLEN 1", "$-1"),
            ("LPOS l zz", "$-1"),
            ("LPOS l zz COUNT 0", "*0"),
            ("LPOS missing a", "$-1"),
            ("LPOS missing a COUNT 1", "*0"),
            ("LPOS l a RANK 0", "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list"),
            ("LPOS l a RANK x", "-ERR value is not an integer or out of range"),
            ("LPOS l a COUNT -1", "-ERR COUNT can't be negative"),
            ("LPOS l a MAXLEN -1", "-ERR MAXLEN can't be negative"),
            ("LPOS l a FOO 1", "-ERR syntax error"),
            ("LPOS l a RANK", "-ERR syntax error"),
            ("LREM l 1 a", ":1"),
            ("LREM l -1 a", ":1"),
            ("LRANGE l 0 -1", "*5 $1 x $1 b $1 a $1 c $1 y"),
            ("LREM l 0 a", ":1"),
            ("LREM l 0 a", ":0"),
            ("LREM missing 0 a", ":0"),
            ("LREM l x a", "-ERR value is not an integer or out of range"),
            ("SET s v", "+OK"),
            ("LINSERT s BEFORE a b", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LREM s 0 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LPOS s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn moves_between_lists() {
        Session::new().expect(&[
            ("RPUSH from a b c", ":3"),
            ("LMOVE from to LEFT RIGHT", "$1 a"),
            ("LMOVE from to RIGHT LEFT", "$1 c"),
            ("RPOPLPUSH from to", "$1 b"),
            ("EXISTS from", ":0"),
            ("LRANGE to 0 -1", "*3 $1 b $1 c $1 a"),
            ("RPOPLPUSH to to", "$1 a"),
            ("LMOVE to to LEFT RIGHT", "$1 a"),
            ("LRANGE to 0 -1", "*3 $1 b $1 c $1 a"),
            ("LMOVE missing to LEFT RIGHT", "$-1"),
            ("RPOPLPUSH missing to", "$-1"),
            ("LMOVE to from LEFT UP", "-ERR syntax error"),
            ("SET s v", "+OK"),
            (
                "LMOVE s to LEFT LEFT",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            (
                "LMOVE to s LEFT LEFT",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("LMOVE missing s LEFT LEFT", "$-1"),
            ("LRANGE to 0 -1", "*3 $1 b $1 c $1 a"),
        ]);
    }

    #[test]
    fn pops_from_the_first_list_that_has_elements() {
        Session::new().expect(&[
            ("RPUSH l a b c d", ":4"),
            ("LMPOP 2 missing l LEFT", "*2 $1 l *1 $1 a"),
            ("LMPOP 2 missing l RIGHT COUNT 2", "*2 $1 l *2 $1 d $1 c"),
            ("LMPOP 1 l LEFT COUNT 10", "*2 $1 l *1 $1 b"),
            ("EXISTS l", ":0"),
            ("LMPOP 1 l LEFT", "*-1"),
            ("LMPOP 0 l LEFT", "-ERR numkeys should be greater than 0"),
            ("LMPOP x l LEFT", "-ERR numkeys should be greater than 0"),
            ("LMPOP 2 l LEFT", "-ERR syntax error"),
            ("LMPOP 1 l UP", "-ERR syntax error"),
            ("LMPOP 1 l LEFT COUNT 0", "-ERR count should be greater than 0"),
            ("LMPOP 1 l LEFT COUNT x", "-ERR count should be greater than 0"),
            ("LMPOP 1 l LEFT COUNT", "-ERR syntax error"),
            ("LMPOP 1 l LEFT FOO 1", "-ERR syntax error"),
            ("LMPOP 1 l LEFT COUNT 1 COUNT 1", "-ERR syntax error"),
            ("SET s v", "+OK"),
            ("LMPOP 1 s LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn resp3_has_one_null() {
        Session::new().resp3().expect(&[
            ("LPOP missing", "_"),
            ("LPOP missing 2", "_"),
            ("LINDEX missing 0", "_"),
            ("LPOS missing a", "_"),
            ("LMPOP 1 missing LEFT", "_"),
            ("RPUSH l a", ":1"),
            ("LRANGE l 0 -1", "*1 $1 a"),
        ]);
    }

    fn numbered(command: &str, key: &str, numbers: std::ops::Range<u32>) -> String {
        let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
        format!("{command} {key} {}", numbers.join(" "))
    }

    #[test]
    fn changes_of_many_elements_have_the_replies_of_small_ones() {
        let mut session = Session::new();
        assert_eq!(session.run(&numbered("RPUSH", "l", 0..1000)), ":1000\r\n");
        assert_eq!(session.run(&numbered("LPUSH", "l", 0..100)), ":1100\r\n");
        assert!(session.run("LPOP l 200").starts_with("*200\r\n$2\r\n99\r\n$2\r\n98\r\n"));
        assert!(session.run("RPOP l 200").starts_with("*200\r\n$3\r\n999\r\n$3\r\n998\r\n"));
        session.expect(&[
            ("LLEN l", ":700"),
            ("LINSERT l AFTER 400 new", ":701"),
            ("LPOS l new", ":301"),
            ("LREM l 0 new", ":1"),
            ("LTRIM l 100 -101", "+OK"),
            ("LLEN l", ":500"),
            ("LINDEX l 0", "$3 200"),
            ("LINDEX l -1", "$3 699"),
        ]);
    }

    #[test]
    fn a_range_is_of_one_instant_while_another_client_pushes_pairs() {
        let mut reader = Session::new();
        let mut writer = reader.beside();
        writer.run("RPUSH l a b");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..500 {
                    writer.run("RPUSH l a b");
                }
            });
            for _ in 0..100 {
                let reply = reader.run("LRANGE l 0 -1");
                let elements = reply.lines().skip(1).filter(|line| !line.starts_with('$'));
                let elements: Vec<_> = elements.collect();
                assert!(elements.len() % 2 == 0 && elements.chunks(2).all(|pair| pair == ["a", "b"]));
            }
        });
    }
}
