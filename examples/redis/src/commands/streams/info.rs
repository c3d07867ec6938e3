//! XINFO.

use psp_protocols::Sink;
use psp_protocols::resp::Encoder;
use psp_store::{Consumer, Group, Pending, Stream, StreamId};

use super::super::pace::Pace;
use super::super::subcommand;
use super::super::walk;
use super::groups::no_such_group;
use super::{ids, reply};
use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::parse::{Result, integer, is};
use crate::typed::read;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::container("xinfo", SUBCOMMANDS).flags(&[Flag::Readonly])];

const SUBCOMMANDS: Subcommands = &[("consumers", consumers), ("groups", groups), ("help", help), ("stream", stream)];

/// The text of XINFO HELP, as in Redis.
const HELP: &[&str] = &[
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
];

/// COUNT of a full listing without it.
pub(super) const COUNT_DEFAULT: usize = 10;

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subcommand::write_help("xinfo", HELP, out);
    Ok(())
}

/// Reads the stream of a key that must have one.
fn of<R>(context: &Context<'_>, key: &[u8], write: impl FnOnce(&Stream) -> R) -> Result<R> {
    read(context.store, key, |stream: Option<&Stream>| {
        stream.map(write).ok_or(CommandError::NoSuchKey)
    })?
}

fn integer_or_null<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, number: Option<i64>) {
    match number {
        Some(number) => out.integer(number),
        None => out.null(),
    }
}

/// What GROUPS and STREAM FULL say of what a group has read.
fn progress<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, stream: &Stream, group: &Group) {
    out.bulk(b"last-delivered-id");
    ids::write(out, group.last_id);
    out.bulk(b"entries-read");
    integer_or_null(out, group.entries_read.map(|read| read as i64));
    out.bulk(b"lag");
    integer_or_null(out, stream.lag(group));
}

fn groups(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    of(context, args[2], |stream| {
        out.array(stream.groups().len());
        walk::batched(out, |out| {
            for group in stream.groups() {
                out.map(6);
                out.bulk(b"name");
                walk::element(out, group.name());
                out.bulk(b"consumers");
                out.integer(group.consumers().len() as i64);
                out.bulk(b"pending");
                out.integer(group.pending_len() as i64);
                progress(out, stream, group);
            }
        });
    })
}

fn consumers(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    of(context, args[2], |stream| {
        let group = stream.group(args[3]);
        let group = group.ok_or_else(|| no_such_group(args[2], args[3]))?;
        let now_ms = context.now.ms();
        out.array(group.consumers().len());
        walk::batched(out, |out| {
            for consumer in group.consumers() {
                out.map(4);
                out.bulk(b"name");
                walk::element(out, consumer.name());
                out.bulk(b"pending");
                out.integer(consumer.pending_len() as i64);
                out.bulk(b"idle");
                out.integer(now_ms.saturating_sub(consumer.seen_ms()) as i64);
                out.bulk(b"inactive");
                let since = |active_ms| now_ms.saturating_sub(active_ms) as i64;
                out.integer(consumer.active_ms().map_or(-1, since));
            }
        });
        Ok(())
    })?
}

/// COUNT of `STREAM key FULL`; `None` without FULL.
fn full_count(args: &[&[u8]]) -> Result<Option<usize>> {
    match args[3..] {
        [] => Ok(None),
        [full] if is(full, "full") => Ok(Some(COUNT_DEFAULT)),
        [full, option, count] if is(full, "full") && is(option, "count") => {
            let count = usize::try_from(integer(count)?);
            Ok(Some(match count {
                Ok(0) => usize::MAX,
                Ok(count) => count,
                Err(_negative) => COUNT_DEFAULT,
            }))
        }
        _ => Err(subcommand::wrong_arguments("xinfo", args[1])),
    }
}

fn stream(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    of(context, args[2], |stream| {
        let full = full_count(args)?;
        out.map(if full.is_some() { 9 } else { 10 });
        out.bulk(b"length");
        out.integer(stream.len() as i64);
        // A block is a key of the tree in Redis.
        out.bulk(b"radix-tree-keys");
        out.integer(stream.entries().block_count() as i64);
        out.bulk(b"radix-tree-nodes");
        out.integer(stream.entries().block_count() as i64 + 1);
        for (name, id) in [("last-generated-id", stream.last_id()), ("max-deleted-entry-id", stream.removed_id_max())] {
            out.bulk(name.as_bytes());
            ids::write(out, id);
        }
        out.bulk(b"entries-added");
        out.integer(stream.entries_added() as i64);
        out.bulk(b"recorded-first-entry-id");
        ids::write(out, stream.first_id());
        match full {
            None => brief(stream, out),
            Some(count) => all(stream, count, out),
        }
        Ok(())
    })?
}

fn brief(stream: &Stream, out: &mut ReplyEncoder<'_>) {
    out.bulk(b"groups");
    out.integer(stream.groups().len() as i64);
    let entries = stream.entries();
    for (name, entry) in [("first-entry", entries.first()), ("last-entry", entries.last())] {
        out.bulk(name.as_bytes());
        match entry {
            Some(entry) => reply::entry(out, &entry),
            None => out.null(),
        }
    }
}

/// Up to `count` of the entries, and of what is pending in each group and at each consumer.
fn all(stream: &Stream, count: usize, out: &mut ReplyEncoder<'_>) {
    out.bulk(b"entries");
    let ids = StreamId::MIN..=StreamId::MAX;
    reply::range(out, stream.entries(), &ids, count, false);
    out.bulk(b"groups");
    out.array(stream.groups().len());
    let pace = Pace::new();
    walk::batched(out, |out| {
        for group in stream.groups() {
            out.map(7);
            out.bulk(b"name");
            walk::element(out, group.name());
            progress(out, stream, group);
            out.bulk(b"pel-count");
            out.integer(group.pending_len() as i64);
            out.bulk(b"pending");
            let pending = group.pending_from(StreamId::MIN);
            out.array(pending.len().min(count));
            for pending in pending.take(count) {
                pace.step();
                out.array(4);
                ids::write(out, pending.id);
                walk::element(out, &pending.consumer);
                times(out, pending);
            }
            out.bulk(b"consumers");
            out.array(group.consumers().len());
            for consumer in group.consumers() {
                pace.step();
                of_consumer(out, group, consumer, count, &pace);
            }
        }
    });
}

fn of_consumer<S: Sink + ?Sized>(
    out: &mut Encoder<'_, S>,
    group: &Group,
    consumer: &Consumer,
    count: usize,
    pace: &Pace,
) {
    out.map(5);
    out.bulk(b"name");
    walk::element(out, consumer.name());
    out.bulk(b"seen-time");
    out.integer(consumer.seen_ms() as i64);
    out.bulk(b"active-time");
    out.integer(consumer.active_ms().map_or(-1, |active_ms| active_ms as i64));
    out.bulk(b"pel-count");
    out.integer(consumer.pending_len() as i64);
    out.bulk(b"pending");
    let pending = consumer.pending_from(StreamId::MIN);
    let pending: Vec<_> = pending.take(count).inspect(|_| pace.step()).filter_map(|id| group.pending(*id)).collect();
    out.array(pending.len());
    for pending in pending {
        out.array(3);
        ids::write(out, pending.id);
        times(out, pending);
    }
}

fn times<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, pending: &Pending) {
    out.integer(pending.delivered_ms);
    out.integer(pending.deliveries as i64);
}
