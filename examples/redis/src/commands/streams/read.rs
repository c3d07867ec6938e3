//! XREAD and XREADGROUP.

use std::time::Instant;

use psp_store::{Delivery, Stream, StreamId, unix_time_ms};

use super::super::pace::Pace;
use super::reply::{self, Found, Which};
use super::{change, count_of, ids, no_group, size};
use crate::blocking::{Blocking, Sharing, deadline_ms};
use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{Result, is};
use crate::typed::{expect, read};

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("xread", -4, xread).flags(&[Flag::Readonly, Flag::Blocking]),
    CommandSpec::new("xreadgroup", -7, xreadgroup).flags(&[Flag::Write, Flag::Blocking]),
];

/// Entries that a client gets at most when it has waited and gave no COUNT.
const COUNT_AFTER_WAIT: usize = 1000;

/// What both commands have: options, keys and IDs.
struct Options<'a> {
    count: Option<usize>,
    /// BLOCK, and when it ends.
    block: Option<Option<Instant>>,
    group: Option<GroupOptions<'a>>,
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
}

#[derive(Clone, Copy)]
struct GroupOptions<'a> {
    name: &'a [u8],
    consumer: &'a [u8],
    needs_no_ack: bool,
}

impl<'a> Options<'a> {
    fn parse(context: &Context<'_>, args: &'a [&'a [u8]], is_of_group: bool) -> Result<Self> {
        let (mut count, mut block, mut group) = (None, None, None);
        let mut needs_no_ack = false;
        let mut at = 1;
        let streams = loop {
            match args[at..] {
                [option, timeout, ..] if is(option, "block") => {
                    if context.in_script {
                        let name = String::from_utf8_lossy(args[0]);
                        let line = format!(
                            "ERR {name} command is not allowed with BLOCK option from scripts"
                        );
                        return Err(CommandError::Other(line.into()));
                    }
                    block = Some(deadline_ms(timeout)?);
                    at += 2;
                }
                [option, number, ..] if is(option, "count") => {
                    count = count_of(number)?;
                    at += 2;
                }
                [option, _, ..] if is(option, "streams") => break &args[at + 1..],
                [option, name, consumer, ..] if is(option, "group") => {
                    if !is_of_group {
                        return Err(of_group_alone("GROUP"));
                    }
                    group = Some((name, consumer));
                    at += 3;
                }
                [option, ..] if is(option, "noack") => {
                    if !is_of_group {
                        return Err(of_group_alone("NOACK"));
                    }
                    needs_no_ack = true;
                    at += 1;
                }
                _ => return Err(CommandError::Syntax),
            }
        };
        if !streams.len().is_multiple_of(2) {
            return Err(CommandError::line(
                "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
            ));
        }
        if is_of_group && group.is_none() {
            return Err(CommandError::line(
                "ERR Missing GROUP option for XREADGROUP",
            ));
        }
        let (keys, ids) = streams.split_at(streams.len() / 2);
        Ok(Self {
            count,
            block,
            group: group.map(|(name, consumer)| GroupOptions {
                name,
                consumer,
                needs_no_ack,
            }),
            keys,
            ids,
        })
    }
}

fn of_group_alone(option: &str) -> CommandError {
    let line = format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    );
    CommandError::Other(line.into())
}

fn null_array(out: &mut ReplyEncoder<'_>) {
    out.null_array();
}

/// Writes what the streams have for a reader. Returns whether any of them has something.
fn write_found(out: &mut ReplyEncoder<'_>, found: &[(&[u8], Found)]) -> bool {
    if found.is_empty() {
        return false;
    }
    reply::streams(out, found.iter().map(|(key, found)| (*key, found)));
    true
}

fn xread(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = Options::parse(context, args, false)?;
    let starts = options.keys.iter().zip(options.ids);
    let starts: Vec<StreamId> = starts
        .map(|(key, id)| {
            let last_id = read(context.store, key, |stream: Option<&Stream>| {
                stream.map_or(StreamId::MIN, Stream::last_id)
            })?;
            match *id {
                b"$" => Ok(last_id),
                b">" => Err(CommandError::line(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> \
                     option.",
                )),
                id => ids::strict(id, 0),
            }
        })
        .collect::<Result<_>>()?;
    let mut found = Vec::new();
    for (key, after) in options.keys.iter().zip(&starts) {
        let count = options.count.unwrap_or(usize::MAX);
        found.extend(find_above(context, key, *after, count)?.map(|found| (*key, found)));
    }
    if write_found(out, &found) {
        return Ok(());
    }
    let Some(deadline) = options.block else {
        out.null_array();
        return Ok(());
    };
    let keys = options.keys.iter().map(|key| Box::<[u8]>::from(*key));
    let starts: Vec<_> = keys.zip(starts).collect();
    let count = options.count.unwrap_or(COUNT_AFTER_WAIT);
    let attempt = move |context: &Context<'_>, key: &[u8], out: &mut ReplyEncoder<'_>| {
        let start = starts.iter().find(|(other, _)| **other == *key);
        let after = start.map_or(StreamId::MIN, |(_, after)| *after);
        let found = find_above(context, key, after, count)?;
        Ok(write_found(
            out,
            &found.map_or_else(Vec::new, |found| vec![(key, found)]),
        ))
    };
    Blocking::on::<Stream>(options.keys, deadline, null_array, attempt)
        .sharing(Sharing::Read)
        .run(context, out)
}

/// Up to `count` entries above an ID; `None` if there are none.
fn find_above(
    context: &Context<'_>,
    key: &[u8],
    after: StreamId,
    count: usize,
) -> Result<Option<Found>> {
    read(context.store, key, |stream: Option<&Stream>| {
        let entries = stream?.entries();
        let is_there = entries.last().is_some_and(|last| last.id > after);
        is_there.then(|| Found {
            entries: entries.clone(),
            which: Which::Range(ids::above(after), count),
        })
    })
}

/// What a consumer reads of one stream.
#[derive(Clone, Copy)]
enum From {
    /// What the group has not read.
    New,
    /// What the consumer has not acknowledged, above this ID.
    History(StreamId),
}

fn xreadgroup(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = Options::parse(context, args, true)?;
    let Some(group) = options.group else {
        return Err(CommandError::Syntax);
    };
    let froms = options.keys.iter().zip(options.ids);
    let froms: Vec<From> = froms
        .map(|(key, id)| {
            let has_group = |stream: Option<&Stream>| Some(stream?.group(group.name).is_some());
            if !read(context.store, key, has_group)?.unwrap_or(false) {
                return Err(no_group_to_read(key, group.name));
            }
            match *id {
                b">" => Ok(From::New),
                b"$" => Err(CommandError::line(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this \
                     consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just \
                     return an empty result set.",
                )),
                id => Ok(match ids::strict(id, 0)? {
                    StreamId::MAX => From::New,
                    id => From::History(id),
                }),
            }
        })
        .collect::<Result<_>>()?;
    let mut found = Vec::new();
    for (key, from) in options.keys.iter().zip(froms) {
        let read = read_of_group(
            context,
            key,
            group,
            from,
            options.count.unwrap_or(usize::MAX),
        );
        found.extend(read?.map(|found| (*key, found)));
    }
    if write_found(out, &found) {
        return Ok(());
    }
    let Some(deadline) = options.block else {
        out.null_array();
        return Ok(());
    };
    let [name, consumer] = [group.name, group.consumer].map(Box::<[u8]>::from);
    let needs_no_ack = group.needs_no_ack;
    let count = options.count.unwrap_or(COUNT_AFTER_WAIT);
    let attempt = move |context: &Context<'_>, key: &[u8], out: &mut ReplyEncoder<'_>| {
        check_group(context, key, &name)?;
        let group = GroupOptions {
            name: &name,
            consumer: &consumer,
            needs_no_ack,
        };
        let found = read_of_group(context, key, group, From::New, count)?;
        Ok(write_found(
            out,
            &found.map_or_else(Vec::new, |found| vec![(key, found)]),
        ))
    };
    Blocking::on::<Stream>(options.keys, deadline, null_array, attempt)
        .sharing(Sharing::Group(group.name.into()))
        .run(context, out)
}

fn no_group_to_read(key: &[u8], group: &[u8]) -> CommandError {
    no_group(key, group, " in XREADGROUP with GROUP option")
}

/// What a client that waits has to know of its group.
fn check_group(context: &Context<'_>, key: &[u8], group: &[u8]) -> Result<()> {
    let has_group = |stream: &Stream| stream.group(group).is_some();
    let found = context.store.with(key, |value| {
        let stream = expect::<Stream>(value).ok().flatten();
        stream.map(has_group)
    });
    match found {
        Some(true) => Ok(()),
        Some(false) => Err(CommandError::line(
            "NOGROUP the consumer group this client was blocked on no longer exists",
        )),
        None => Err(CommandError::line(
            "UNBLOCKED the stream key no longer exists",
        )),
    }
}

fn read_of_group(
    context: &Context<'_>,
    key: &[u8],
    group: GroupOptions<'_>,
    from: From,
    count: usize,
) -> Result<Option<Found>> {
    match from {
        From::New => read_new(context, key, group, count),
        From::History(after) => read_history(context, key, group, after, count).map(Some),
    }
}

/// Delivers what the group has not read; `None` if there is nothing.
fn read_new(
    context: &Context<'_>,
    key: &[u8],
    group: GroupOptions<'_>,
    count: usize,
) -> Result<Option<Found>> {
    let pace = Pace::new();
    let unread = size::of_stream(context.store, key, |stream| {
        let read_to = stream.group(group.name).map(|group| group.last_id);
        let count = |id| {
            let entries = stream.entries();
            entries.count(&ids::above(id), count, &|| pace.step())
        };
        read_to.map_or(0, count)
    });
    if unread == 0 {
        return Ok(None);
    }
    let now_ms = unix_time_ms();
    let found = change(context, key, unread, |stream, pace| {
        let delivery = Delivery {
            count,
            needs_no_ack: group.needs_no_ack,
            now_ms,
        };
        let ids = stream.deliver(group.name, group.consumer, delivery, &|| pace.step())?;
        Some(Found {
            entries: stream.entries().clone(),
            which: Which::Range(ids, usize::MAX),
        })
    })?;
    let found = found.flatten();
    let found = found.ok_or_else(|| no_group_to_read(key, group.name))?;
    // Another consumer may have been faster.
    let is_there = matches!(&found.which, Which::Range(ids, _) if !ids.is_empty());
    Ok(is_there.then_some(found))
}

/// What the consumer has not acknowledged.
fn read_history(
    context: &Context<'_>,
    key: &[u8],
    group: GroupOptions<'_>,
    after: StreamId,
    count: usize,
) -> Result<Found> {
    let start = *ids::above(after).start();
    let pending = size::of_stream(context.store, key, |stream| {
        let consumer = stream.group(group.name)?.consumer(group.consumer)?;
        Some(consumer.pending_len().min(count))
    });
    let now_ms = unix_time_ms();
    let found = change(context, key, pending.unwrap_or(0), |stream, pace| {
        let entries = stream.entries().clone();
        let own = stream.group_mut(group.name)?;
        own.see_consumer(group.consumer, now_ms);
        let pending = own.consumer(group.consumer)?.pending_from(start);
        let listed: Vec<_> = pending.take(count).copied().collect();
        for id in &listed {
            pace.step();
            if entries.get(*id).is_some() {
                own.redeliver(*id, now_ms);
            }
        }
        Some(Found {
            entries,
            which: Which::Listed(listed),
        })
    })?;
    let found = found.flatten();
    found.ok_or_else(|| no_group_to_read(key, group.name))
}
