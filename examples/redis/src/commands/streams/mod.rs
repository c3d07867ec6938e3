//! Commands on streams.
//!
//! Reads walk a snapshot. A command that delivers entries to a consumer group changes the group under the key's lock,
//! and writes the entries from a snapshot.

pub(super) mod claim;
pub(super) mod groups;
mod ids;
pub(super) mod info;
pub(super) mod pending;
pub(super) mod read;
mod reply;
pub(crate) mod size;
mod trim;

use psp_store::{NewId, Stream, StreamId, Trim, unix_time_ms};

use super::large;
use super::pace::Pace;
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{self, Result, integer, is};
use crate::typed::{expect, expect_mut, expect_or_default, read};
use trim::TrimOptions;

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("xadd", -5, xadd)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .key(),
    CommandSpec::new("xdel", -3, xdel)
        .flags(&[Flag::Write, Flag::Fast])
        .key(),
    CommandSpec::new("xlen", 2, xlen)
        .flags(&[Flag::Readonly, Flag::Fast])
        .key(),
    CommandSpec::new("xrange", -4, |context, args, out| {
        range(context, args, out, false)
    })
    .flags(&[Flag::Readonly])
    .key(),
    CommandSpec::new("xrevrange", -4, |context, args, out| {
        range(context, args, out, true)
    })
    .flags(&[Flag::Readonly])
    .key(),
    CommandSpec::new("xsetid", -3, xsetid)
        .flags(&[Flag::Write, Flag::DenyOom, Flag::Fast])
        .key(),
    CommandSpec::new("xtrim", -4, xtrim)
        .flags(&[Flag::Write])
        .key(),
];

/// The arguments of XADD.
struct NewEntry<'a> {
    makes_stream: bool,
    trim: TrimOptions,
    id: NewId,
    /// Names and values.
    pairs: &'a [&'a [u8]],
}

impl<'a> NewEntry<'a> {
    fn parse(args: &'a [&'a [u8]]) -> Result<Self> {
        let mut trim = TrimOptions::default();
        let (mut makes_stream, mut at) = (true, 2);
        let id = loop {
            let arg = args.get(at).copied();
            let arg = arg.ok_or(CommandError::Arity("xadd".into()))?;
            if arg == b"*" {
                break NewId::At {
                    now_ms: unix_time_ms(),
                };
            }
            match trim.take(&args[at..])? {
                0 if is(arg, "nomkstream") => {
                    makes_stream = false;
                    at += 1;
                }
                0 => {
                    break match ids::with_any_seq(arg, 0)? {
                        (StreamId { ms, .. }, true) => NewId::Within { ms },
                        (id, false) => NewId::Exactly(id),
                    };
                }
                taken => at += taken,
            }
        };
        Ok(Self {
            makes_stream,
            trim,
            id,
            pairs: &args[at + 1..],
        })
    }
}

fn xadd(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let settings = &context.server.settings;
    let entry = NewEntry::parse(args)?;
    let trim = entry.trim.trim(settings.stream_node_entries_max())?;
    if entry.pairs.is_empty() || !entry.pairs.len().is_multiple_of(2) {
        return Err(CommandError::Arity("xadd".into()));
    }
    if entry.id == NewId::Exactly(StreamId::MIN) {
        return Err(CommandError::line(
            "ERR The ID specified in XADD must be greater than 0-0",
        ));
    }
    let limits = settings.stream_block();
    let work = large::work(entry.pairs) + trimmed(context, args[1], trim);
    let added = large::update(context.store, args[1], work, |slot, pace| {
        let stream = expect::<Stream>(slot.value())?;
        match stream {
            None if !entry.makes_stream => return Ok(None),
            None => {}
            Some(stream) => drop(stream.id_for(entry.id).map_err(|_taken| no_id(stream))?),
        }
        let stream = expect_or_default::<Stream>(slot)?;
        let id = stream.push(entry.id, entry.pairs, limits);
        let id = id.map_err(|_taken| no_id(stream))?;
        if let Some(trim) = trim {
            stream.trim(trim, &|| pace.step());
        }
        Ok(Some(id))
    })?;
    match added {
        Some(id) => ids::write(out, id),
        None => out.null(),
    }
    Ok(())
}

/// Why an entry gets no ID.
fn no_id(stream: &Stream) -> CommandError {
    CommandError::line(if stream.last_id() == StreamId::MAX {
        "ERR The stream has exhausted the last possible ID, unable to add more items"
    } else {
        "ERR The ID specified in XADD is equal or smaller than the target stream top item"
    })
}

/// About how many entries of the key go.
fn trimmed(context: &Context<'_>, key: &[u8], trim: Option<Trim>) -> usize {
    trim.map_or(0, |trim| {
        size::of_stream(context.store, key, |stream| stream.entries().trimmed(trim))
    })
}

fn xtrim(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let mut options = TrimOptions::default();
    let mut at = 2;
    while at < args.len() {
        match options.take(&args[at..])? {
            0 => return Err(CommandError::Syntax),
            taken => at += taken,
        }
    }
    let trim = options.trim(context.server.settings.stream_node_entries_max())?;
    let trim = trim.ok_or(CommandError::line(
        "ERR syntax error, XTRIM must be called with a trimming strategy",
    ))?;
    let work = trimmed(context, args[1], Some(trim));
    let removed = change(context, args[1], work, |stream, pace| {
        stream.trim(trim, &|| pace.step())
    })?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

/// Changes the stream of the key, if there is one, so that nobody who waits gets anything.
fn change<R>(
    context: &Context<'_>,
    key: &[u8],
    elements: usize,
    mut change: impl FnMut(&mut Stream, &Pace) -> R,
) -> Result<Option<R>> {
    large::update(context.store, key, elements, |slot, pace| {
        if expect::<Stream>(slot.value())?.is_none() {
            return Ok(None);
        }
        slot.wake_nobody();
        Ok(expect_mut::<Stream>(slot)?.map(|stream| change(stream, pace)))
    })
}

fn xdel(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |_: Option<&Stream>| ())?;
    let ids: Vec<_> = args[2..]
        .iter()
        .map(|id| ids::strict(id, 0))
        .collect::<Result<_>>()?;
    let removed = change(context, args[1], ids.len(), |stream, pace| {
        let removed = ids.iter().filter(|id| {
            pace.step();
            stream.remove(**id)
        });
        removed.count()
    })?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn xlen(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let len = read(context.store, args[1], |stream: Option<&Stream>| {
        stream.map_or(0, Stream::len)
    })?;
    out.integer(len as i64);
    Ok(())
}

/// COUNT among the `options` of XRANGE; `None` without it.
fn range_count(options: &[&[u8]]) -> Result<Option<usize>> {
    let mut count = None;
    for option in options.chunks(2) {
        match *option {
            [name, value] if is(name, "count") => {
                count = Some(usize::try_from(integer(value)?).unwrap_or(0));
            }
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(count)
}

fn range(
    context: &mut Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    is_reverse: bool,
) -> Result<()> {
    let [start, end] = if is_reverse {
        [args[3], args[2]]
    } else {
        [args[2], args[3]]
    };
    let ids = ids::start(start)?..=ids::end(end)?;
    let count = range_count(&args[4..])?;
    read(context.store, args[1], |stream: Option<&Stream>| {
        match (stream, count) {
            (None, _) => out.array(0),
            (Some(_), Some(0)) => out.null_array(),
            (Some(stream), count) => {
                let count = count.unwrap_or(usize::MAX);
                reply::range(out, stream.entries(), &ids, count, is_reverse);
            }
        }
    })
}

fn xsetid(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let id = ids::strict(args[2], 0)?;
    let (mut entries_added, mut removed_id_max) = (None, StreamId::MIN);
    for option in args[3..].chunks(2) {
        match *option {
            [name, count] if is(name, "entriesadded") => {
                let count = u64::try_from(integer(count)?);
                let error = CommandError::line("ERR entries_added must be positive");
                entries_added = Some(count.map_err(|_negative| error)?);
            }
            [name, removed] if is(name, "maxdeletedid") => {
                removed_id_max = ids::strict(removed, 0)?;
                if removed_id_max > id {
                    return Err(CommandError::line(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                    ));
                }
            }
            _ => return Err(CommandError::Syntax),
        }
    }
    let outcome = change(context, args[1], 0, |stream, _| {
        if stream.entries().last().is_some_and(|last| id < last.id) {
            return Err(CommandError::line(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if entries_added.is_some_and(|added| added < stream.len() as u64) {
            return Err(CommandError::line(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
        stream.set_last_id(id);
        if let Some(added) = entries_added {
            stream.set_entries_added(added);
        }
        if removed_id_max != StreamId::MIN {
            stream.set_removed_id_max(removed_id_max);
        }
        Ok(())
    })?;
    outcome.ok_or(CommandError::NoSuchKey)??;
    out.simple("OK");
    Ok(())
}

/// The error of a command for a group that is not there.
fn no_group(key: &[u8], group: &[u8], place: &str) -> CommandError {
    let [key, group] = [key, group].map(crate::error::quotable);
    let line = format!("NOGROUP No such key '{key}' or consumer group '{group}'{place}");
    CommandError::Other(line.into())
}

/// COUNT of a command, which zero and numbers below it do not bound.
fn count_of(arg: &[u8]) -> Result<Option<usize>> {
    let count = usize::try_from(parse::integer(arg)?).unwrap_or(0);
    Ok((count > 0).then_some(count))
}
