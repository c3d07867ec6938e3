//! Commands on lists.
//!
//! Reads walk a snapshot. LMOVE and RPOPLPUSH change both keys at one instant. LMPOP looks at its keys
//! one after the other and pops from the first that has elements at that moment.

use psp_store::{Element, List, ListEnd, Slot};

use super::counts::{above_zero, key_count, pop_count};
use super::{large, walk};
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{Result, index_range, integer, is};
use crate::typed::{change, expect, expect_mut, expect_or_default, read};

const WRITE_FAST: &[Flag] = &[Flag::Write, Flag::Fast];
const GROW_FAST: &[Flag] = &[Flag::Write, Flag::DenyOom, Flag::Fast];
const GROW: &[Flag] = &[Flag::Write, Flag::DenyOom];

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("lpush", -3, lpush).flags(GROW_FAST).key(),
    CommandSpec::new("rpush", -3, rpush).flags(GROW_FAST).key(),
    CommandSpec::new("lpushx", -3, lpushx).flags(GROW_FAST).key(),
    CommandSpec::new("rpushx", -3, rpushx).flags(GROW_FAST).key(),
    CommandSpec::new("lpop", -2, lpop).flags(WRITE_FAST).key(),
    CommandSpec::new("rpop", -2, rpop).flags(WRITE_FAST).key(),
    CommandSpec::new("llen", 2, llen).flags(&[Flag::Readonly, Flag::Fast]).key(),
    CommandSpec::new("lrange", 4, lrange).flags(&[Flag::Readonly]).key(),
    CommandSpec::new("lindex", 3, lindex).flags(&[Flag::Readonly]).key(),
    CommandSpec::new("lset", 4, lset).flags(GROW).key(),
    CommandSpec::new("linsert", 5, linsert).flags(GROW).key(),
    CommandSpec::new("lrem", 4, lrem).flags(&[Flag::Write]).key(),
    CommandSpec::new("ltrim", 4, ltrim).flags(&[Flag::Write]).key(),
    CommandSpec::new("lpos", -3, lpos).flags(&[Flag::Readonly]).key(),
    CommandSpec::new("lmove", 5, lmove).flags(GROW).keys(1, 2, 1),
    CommandSpec::new("rpoplpush", 3, rpoplpush).flags(GROW).keys(1, 2, 1),
    CommandSpec::new("lmpop", -4, lmpop).flags(&[Flag::Write]),
];

fn lpush(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    push(context, args, out, ListEnd::Left)
}

fn rpush(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    push(context, args, out, ListEnd::Right)
}

fn push(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    end: ListEnd,
) -> Result<()> {
    let len = large::change_or_create(context.store, args[1], args.len(), |list: &mut List| {
        push_all(list, &args[2..], end)
    })?;
    out.integer(len as i64);
    Ok(())
}

fn lpushx(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    push_existing(context, args, out, ListEnd::Left)
}

fn rpushx(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    push_existing(context, args, out, ListEnd::Right)
}

fn push_existing(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    end: ListEnd,
) -> Result<()> {
    let len = large::change(context.store, args[1], args.len(), |list: &mut List| {
        push_all(list, &args[2..], end)
    })?;
    out.integer(len.unwrap_or(0) as i64);
    Ok(())
}

fn push_all(list: &mut List, elements: &[&[u8]], end: ListEnd) -> usize {
    for element in elements {
        list.push(end, Element::from(*element));
    }
    list.len()
}

fn lpop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    pop(context, args, out, ListEnd::Left)
}

fn rpop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    pop(context, args, out, ListEnd::Right)
}

fn pop(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    end: ListEnd,
) -> Result<()> {
    match args[2..] {
        [] => {
            let popped = change(context.store, args[1], |list: &mut List| list.pop(end))?;
            walk::element_or_null(out, popped.flatten().as_ref());
        }
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

/// Takes up to `count` elements off `end`; they are in the order of the list.
fn pop_many(
    context: &Context<'_>,
    key: &[u8],
    count: usize,
    end: ListEnd,
) -> Result<Option<List>> {
    let elements = count.min(large::cardinality(context.store, key));
    large::change(context.store, key, elements, |list: &mut List| {
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

/// The index within `len` elements, negative ones counted from the end.
fn index_within(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add_unsigned(len as u64)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

fn lindex(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let index = integer(args[2])?;
    read(context.store, args[1], |list: Option<&List>| {
        let element = list.and_then(|list| list.get(index_within(index, list.len())?));
        walk::element_or_null(out, element);
    })
}

fn lset(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let index = integer(args[2]);
    let outcome = change(context.store, args[1], |list: &mut List| {
        let index = index_within(index?, list.len()).ok_or(CommandError::IndexOutOfRange)?;
        list.set(index, Element::from(args[3]));
        Ok(())
    })?;
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
    let elements = large::cardinality(context.store, args[1]);
    let outcome = large::change(context.store, args[1], elements, |list: &mut List| {
        let Some(pivot) = list.iter().position(|element| **element == *args[3]) else {
            return -1;
        };
        list.insert(pivot + usize::from(after), Element::from(args[4]));
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
    let removed = large::change(context.store, args[1], elements, |list: &mut List| {
        list.remove_equal(args[3], end, limit)
    })?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn ltrim(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let len = large::cardinality(context.store, args[1]);
    let removed = len - index_range(start, stop, len).len();
    large::change(context.store, args[1], removed, |list: &mut List| {
        list.retain_range(index_range(start, stop, list.len()));
    })?;
    out.simple("OK");
    Ok(())
}

/// Options of LPOS.
struct Search {
    end: ListEnd,
    /// Matches to pass over.
    skipped: usize,
    /// Matches to return; `None` for one, not in an array.
    count: Option<usize>,
    /// Elements to compare.
    compared: usize,
}

impl Search {
    fn parse(options: &[&[u8]]) -> Result<Self> {
        let mut search =
            Self { end: ListEnd::Left, skipped: 0, count: None, compared: usize::MAX };
        let not_negative = |arg, error| {
            usize::try_from(integer(arg)?).map_err(|_negative| CommandError::line(error))
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
        let places = list.iter().enumerate();
        let found = |places: &mut dyn Iterator<Item = (usize, &Element)>| {
            let equal = places.take(self.compared).filter(|(_, element)| ***element == *wanted);
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
        walk::batched(out, |out| found.iter().for_each(|index| out.integer(*index as i64)));
    } else if let Some(index) = found.first() {
        out.integer(*index as i64);
    } else {
        out.null();
    }
    Ok(())
}

fn parse_end(arg: &[u8]) -> Result<ListEnd> {
    match arg {
        end if is(end, "left") => Ok(ListEnd::Left),
        end if is(end, "right") => Ok(ListEnd::Right),
        _ => Err(CommandError::Syntax),
    }
}

fn lmove(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (from, to) = (parse_end(args[3])?, parse_end(args[4])?);
    move_element(context, [args[1], args[2]], [from, to], out)
}

fn rpoplpush(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    move_element(context, [args[1], args[2]], [ListEnd::Right, ListEnd::Left], out)
}

fn move_element(
    context: &Context<'_>,
    [source, destination]: [&[u8]; 2],
    [from, to]: [ListEnd; 2],
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let moved = if source == destination {
        change(context.store, source, |list: &mut List| {
            let element = list.pop(from)?;
            list.push(to, element.clone());
            Some(element)
        })?
        .flatten()
    } else {
        context.store.update_pair(source, destination, |source, destination| {
            move_between(source, destination, from, to)
        })?
    };
    walk::element_or_null(out, moved.as_ref());
    Ok(())
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
    expect_or_default::<List>(destination)?.push(to, element.clone());
    Ok(Some(element))
}

/// `numkeys key ... <end> [COUNT count]`: the keys, the argument after them, and the count.
pub(super) fn parse_multi_pop<'a>(args: &'a [&'a [u8]]) -> Result<(&'a [&'a [u8]], &'a [u8], usize)> {
    let keys = key_count(args[1])?;
    let rest = &args[2..];
    if keys >= rest.len() {
        return Err(CommandError::Syntax);
    }
    let (keys, rest) = rest.split_at(keys);
    let count = match *rest {
        [_] => 1,
        [_, name, count] if is(name, "count") => {
            above_zero(count, "ERR count should be greater than 0")?
        }
        _ => return Err(CommandError::Syntax),
    };
    Ok((keys, rest[0], count))
}

fn lmpop(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (keys, end, count) = parse_multi_pop(args)?;
    let end = parse_end(end)?;
    for key in keys {
        if let Some(popped) = pop_many(context, key, count, end)? {
            out.array(2);
            out.bulk(key);
            write_popped(out, &popped, end);
            return Ok(());
        }
    }
    out.null_array();
    Ok(())
}
