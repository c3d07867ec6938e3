//! XREAD and XREADGROUP.

use std::ops::RangeInclusive;
use std::time::Instant;

use psp_store::{Delivery, Stream, StreamId};

use super::super::pace::Pace;
use super::claim::tell_pending;
use super::reply::{self, Found, Which};
use super::{change, count_of, ids, no_group, size};
use crate::blocking::{Blocking, Sharing, deadline_ms};
use crate::command::{Context, ReplyEncoder, Row};
use crate::effects::Told;
use crate::error::CommandError;
use crate::keyspace_events::{Class, Rule};
use crate::parse::{Result, is};
use crate::typed::{expect, read, snapshots};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("xread", xread),
    Row::new("xreadgroup", xreadgroup).effect(Class::Stream, Rule::Consumer),
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
    fn parse(args: &'a [&'a [u8]], is_of_group: bool) -> Result<Self> {
        let (mut count, mut block, mut group) = (None, None, None);
        let mut needs_no_ack = false;
        let mut at = 1;
        let streams = loop {
            match args[at..] {
                [option, timeout, ..] if is(option, "block") => {
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
            return Err(CommandError::line("ERR Missing GROUP option for XREADGROUP"));
        }
        let (keys, ids) = streams.split_at(streams.len() / 2);
        Ok(Self {
            count,
            block,
            group: group.map(|(name, consumer)| GroupOptions { name, consumer, needs_no_ack }),
            keys,
            ids,
        })
    }
}

fn of_group_alone(option: &str) -> CommandError {
    let line = format!("ERR The {option} option is only supported by XREADGROUP. You called XREAD instead.");
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
    let options = Options::parse(args, false)?;
    let streams = snapshots(context.store, options.keys);
    let streams = streams.iter().map(Option::as_ref).map(expect::<Stream>);
    let starts = streams.clone().zip(options.ids);
    let starts: Vec<StreamId> = starts
        .map(|(stream, id)| {
            let stream = stream?;
            let last_id = stream.map_or(StreamId::MIN, Stream::last_id);
            match *id {
                b"$" => Ok(last_id),
                b"+" => Ok(stream.and_then(|stream| stream.entries().last_id()?.previous()).unwrap_or(last_id)),
                b">" => Err(CommandError::line(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> \
                     option.",
                )),
                id => ids::strict(id, 0),
            }
        })
        .collect::<Result<_>>()?;
    let mut found = Vec::new();
    for ((key, after), stream) in options.keys.iter().zip(&starts).zip(streams) {
        let count = options.count.unwrap_or(usize::MAX);
        found.extend(find_above(stream?, *after, count).map(|found| (*key, found)));
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
        let find = |stream: Option<&Stream>| find_above(stream, after, count);
        let found = read(context.store, key, find)?;
        Ok(write_found(out, &found.map_or_else(Vec::new, |found| vec![(key, found)])))
    };
    Blocking::on::<Stream>(options.keys, deadline, null_array, attempt)
        .sharing(Sharing::Read)
        .run(context, out)
}

/// Up to `count` entries above an ID; `None` if there are none.
fn find_above(stream: Option<&Stream>, after: StreamId, count: usize) -> Option<Found> {
    let entries = stream?.entries();
    let is_there = entries.last_id().is_some_and(|last| last > after);
    is_there.then(|| Found {
        entries: entries.clone(),
        which: Which::Range(ids::above(after), count),
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
    let options = Options::parse(args, true)?;
    let Some(group) = options.group else {
        return Err(CommandError::Syntax);
    };
    let froms = options.keys.iter().zip(options.ids);
    let froms: Vec<From> = froms
        .map(|(key, id)| {
            check_group(context, key, group.name)?;
            match *id {
                b">" => Ok(From::New),
                b"$" => Err(meaningless("$")),
                b"+" => Err(meaningless("+")),
                id => Ok(match ids::strict(id, 0)? {
                    StreamId::MAX => From::New,
                    id => From::History(id),
                }),
            }
        })
        .collect::<Result<_>>()?;
    let mut found = Vec::new();
    for (key, from) in options.keys.iter().zip(froms) {
        let read = read_of_group(context, key, group, from, options.count.unwrap_or(usize::MAX));
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
        let group = GroupOptions { name: &name, consumer: &consumer, needs_no_ack };
        let found = read_of_group(context, key, group, From::New, count)?;
        Ok(write_found(out, &found.map_or_else(Vec::new, |found| vec![(key, found)])))
    };
    Blocking::on::<Stream>(options.keys, deadline, null_array, attempt)
        .sharing(Sharing::Group(group.name.into()))
        .run(context, out)
}

/// An ID of XREAD alone.
fn meaningless(id: &str) -> CommandError {
    let line = format!(
        "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
         specifying a proper ID, or use the > ID to get new messages. The {id} ID would just return an empty result set.",
    );
    CommandError::Other(line.into())
}

fn no_group_to_read(key: &[u8], group: &[u8]) -> CommandError {
    no_group(key, group, " in XREADGROUP with GROUP option")
}

/// Both the key and its group have to be there, when the command begins and while its client waits.
fn check_group(context: &Context<'_>, key: &[u8], group: &[u8]) -> Result<()> {
    let has_group = |stream: Option<&Stream>| Some(stream?.group(group).is_some());
    match read(context.store, key, has_group)? {
        Some(true) => Ok(()),
        _ => Err(no_group_to_read(key, group)),
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
fn read_new(context: &Context<'_>, key: &[u8], group: GroupOptions<'_>, count: usize) -> Result<Option<Found>> {
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
    let now_ms = context.now.ms();
    let told = context.told();
    let found = change(context.store.telling(&told), key, unread, |stream, pace| {
        let delivery = Delivery { count, needs_no_ack: group.needs_no_ack, now_ms };
        let ids = stream.deliver(group.name, group.consumer, delivery, &|| pace.step())?;
        tell_delivered(&told, key, group, stream, &ids);
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

/// A consumer has read these entries.
fn tell_delivered(
    told: &Told,
    key: &[u8],
    group: GroupOptions<'_>,
    stream: &Stream,
    delivered: &RangeInclusive<StreamId>,
) {
    let Some(own) = stream.group(group.name).filter(|_| told.is_recorded()) else {
        return;
    };
    let pending: Vec<StreamId> = match group.needs_no_ack || delivered.is_empty() {
        true => Vec::new(),
        false => {
            let pending = own.pending_from(*delivered.start()).map(|pending| pending.id);
            pending.take_while(|id| delivered.contains(id)).collect()
        }
    };
    tell_pending(told, [key, group.name, group.consumer], own, &pending);
    let last_id = ids::text(own.last_id);
    let entries_read = own.entries_read.map_or_else(|| "-1".to_owned(), |read| read.to_string());
    let words: [&[u8]; 7] = [
        b"XGROUP",
        b"SETID",
        key,
        group.name,
        last_id.as_bytes(),
        b"ENTRIESREAD",
        entries_read.as_bytes(),
    ];
    told.adds(&words);
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
    let now_ms = context.now.ms();
    let told = context.told();
    let found = change(context.store.telling(&told), key, pending.unwrap_or(0), |stream, pace| {
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
        tell_pending(&told, [key, group.name, group.consumer], own, &listed);
        Some(Found { entries, which: Which::Listed(listed) })
    })?;
    let found = found.flatten();
    found.ok_or_else(|| no_group_to_read(key, group.name))
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    fn waiting<const N: usize>(session: &Session, commands: [&str; N]) -> [Session; N] {
        commands.map(|command| {
            let mut client = session.beside();
            assert_eq!(client.run(command), "", "{command}");
            assert_eq!(client.late(), None, "{command}");
            client
        })
    }

    fn one(key: &str, id: &str) -> Option<String> {
        Some(format!("*1 *2 ${} {key} *1 *2 ${} {id} *2 $1 f $1 v", key.len(), id.len()))
    }

    #[test]
    fn streams_that_have_something_are_read_at_once() {
        let mut session = Session::new();
        session.expect(&[
            ("XADD s 1 f v", "$3 1-0"),
            ("XADD t 2 f v", "$3 2-0"),
            ("XREAD STREAMS s t 1 1", "*1 *2 $1 t *1 *2 $3 2-0 *2 $1 f $1 v"),
            ("XREAD BLOCK 0 COUNT 1 STREAMS none s 0 0", "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 f $1 v"),
            ("XREAD STREAMS s $", "*-1"),
            ("XREAD COUNT 5 STREAMS t none + +", "*1 *2 $1 t *1 *2 $3 2-0 *2 $1 f $1 v"),
            ("XREAD STREAMS none +", "*-1"),
            ("XREAD STREAMS s", "-ERR wrong number of arguments for 'xread' command"),
            (
                "XREAD NOACK STREAMS s 0",
                "-ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
            ),
            ("XREAD COUNT 1 NOPE 1", "-ERR syntax error"),
            ("XREAD BLOCK x STREAMS s 0", "-ERR timeout is not an integer or out of range"),
        ]);
        let mut resp3 = session.beside().resp3();
        resp3.expect(&[("XREAD STREAMS s 0", "%1 $1 s *1 *2 $3 1-0 *2 $1 f $1 v"), ("XREAD STREAMS s 1", "_")]);
    }

    #[test]
    fn all_readers_get_a_new_entry() {
        let mut session = Session::new();
        session.run("XADD s 1 f v");
        let readers = waiting(
            &session,
            [
                "XREAD BLOCK 0 STREAMS s $",
                "XREAD BLOCK 0 STREAMS none s 0 1",
                "XREAD BLOCK 0 STREAMS s 5",
            ],
        );
        session.run("XADD s 2 f v");
        let got = readers.each_ref().map(Session::late);
        assert_eq!(got, [one("s", "2-0"), one("s", "2-0"), None]);
        session.run("XADD s 6 f v");
        assert_eq!(readers[2].late(), one("s", "6-0"));
        assert!(session.server.clients.blocked.is_empty());
    }

    #[test]
    fn several_streams_are_read_at_one_instant() {
        let mut reader = Session::new();
        let mut writer = reader.beside();
        let add = |writer: &mut Session, id: u32| {
            for line in [
                "MULTI",
                &format!("XADD s MAXLEN 1 {id} f v"),
                &format!("XADD t MAXLEN 1 {id} f v"),
                "EXEC",
            ] {
                writer.run(line);
            }
        };
        add(&mut writer, 1);
        // There is some time between the first and the last stream.
        let between = " none".repeat(1000);
        let read = format!("XREAD STREAMS s{between} t{}", " 0".repeat(1002));
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || (2..3000).for_each(|id| add(&mut writer, id)));
            while !writing.is_finished() {
                let reply = reader.run(&read);
                let ids: Vec<_> = reply.lines().filter(|line| line.ends_with("-0")).collect();
                assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
            }
        });
    }

    #[test]
    fn one_member_of_each_group_gets_a_new_entry_in_the_order_of_their_arrival() {
        let mut session = Session::new();
        session.run("XGROUP CREATE s g $ MKSTREAM");
        session.run("XGROUP CREATE s h $");
        let members = waiting(
            &session,
            [
                "XREADGROUP GROUP g a BLOCK 0 STREAMS s >",
                "XREADGROUP GROUP g b BLOCK 0 STREAMS s >",
                "XREADGROUP GROUP h c BLOCK 0 STREAMS s >",
            ],
        );
        session.run("XADD s 1 f v");
        let got = members.each_ref().map(Session::late);
        assert_eq!(got, [one("s", "1-0"), None, one("s", "1-0")]);
        session.run("XADD s 2 f v");
        assert_eq!(members[1].late(), one("s", "2-0"));
        session.expect(&[("XPENDING s g", "*4 :2 $3 1-0 $3 2-0 *2 *2 $1 a $1 1 *2 $1 b $1 1")]);
    }

    #[test]
    fn members_that_wait_get_an_error_when_their_group_or_the_stream_goes() {
        const GONE: &str = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
        const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        for (end, error) in [
            ("XGROUP DESTROY s g", GONE),
            ("DEL s", GONE),
            ("SET s v", WRONG_TYPE),
            ("EVAL redis.call('del','s')redis.call('lpush','s','v') 0", WRONG_TYPE),
            ("RENAME s t", GONE),
            ("FLUSHALL", GONE),
            ("EVAL redis.call('del','s') 0", GONE),
            ("PEXPIRE s -1", GONE),
        ] {
            let mut session = Session::new();
            session.run("XGROUP CREATE s g $ MKSTREAM");
            let [member, reader] =
                waiting(&session, ["XREADGROUP GROUP g a BLOCK 0 STREAMS s >", "XREAD BLOCK 0 STREAMS s $"]);
            session.run(end);
            assert_eq!(member.late().as_deref(), Some(error), "{end}");
            assert_eq!(reader.late(), None, "{end}");
        }
    }

    #[test]
    fn an_entry_that_is_gone_again_ends_no_wait() {
        let mut session = Session::new();
        session.run("XGROUP CREATE s g $ MKSTREAM");
        let clients = waiting(&session, ["XREADGROUP GROUP g a BLOCK 0 STREAMS s >", "XREAD BLOCK 0 STREAMS s $"]);
        for line in ["MULTI", "XADD s 1 f v", "XDEL s 1", "EXEC"] {
            session.run(line);
        }
        assert_eq!(clients.each_ref().map(Session::late), [None, None]);
        session.run("XADD s 2 f v");
        assert_eq!(clients.map(|client| client.late()), [(); 2].map(|()| one("s", "2-0")));
    }

    #[test]
    fn what_gives_nothing_wakes_nobody() {
        let mut session = Session::new();
        session.run("XADD s 1 f v");
        session.run("XGROUP CREATE s g 0");
        let _reader = waiting(&session, ["XREAD BLOCK 0 STREAMS s $"]);
        for line in [
            "XREADGROUP GROUP g a STREAMS s >",
            "XREADGROUP GROUP g a STREAMS s 0",
            "XCLAIM s g b 0 1",
            "XAUTOCLAIM s g c 0 0",
            "XACK s g 1",
            "XGROUP CREATECONSUMER s g d",
            "XGROUP DELCONSUMER s g d",
            "XGROUP SETID s g $",
            "XDEL s 1",
            "XTRIM s MAXLEN 0",
            "XSETID s 7",
        ] {
            let command = line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
            let reply = session.run_args(&command);
            assert!(!reply.starts_with('-') && !session.server.databases.has_ready(), "{line}: {reply}");
        }
    }

    #[test]
    fn waits_end_by_timeout() {
        let session = Session::new();
        let mut client = session.beside();
        assert_eq!(client.run("XREAD BLOCK 5 STREAMS s $"), "");
        assert_eq!(client.late_soon(), "*-1");
    }

    /// Each entry goes to exactly one member of the group, however adding and waiting overlap.
    #[test]
    fn members_share_entries_while_many_add_and_wait() {
        const ADDED: usize = 400;
        let mut session = Session::new();
        session.run("XGROUP CREATE s g $ MKSTREAM");
        let mut read: Vec<String> = std::thread::scope(|scope| {
            for _ in 0..2 {
                let mut client = session.beside();
                scope.spawn(move || {
                    for _ in 0..ADDED {
                        assert!(client.run("XADD s * f v").starts_with('$'));
                    }
                });
            }
            let readers = ["a", "b"].map(|name| {
                let mut client = session.beside();
                scope.spawn(move || {
                    let line = format!("XREADGROUP GROUP g {name} COUNT 1 BLOCK 0 STREAMS s >");
                    let read = (0..ADDED).map(|_| {
                        let mut reply = client.run(&line).replace("\r\n", " ");
                        if reply.is_empty() {
                            reply = client.late_soon();
                        }
                        let id = reply.split(' ').find(|word| word.contains('-'));
                        id.expect("an ID").to_owned()
                    });
                    read.collect::<Vec<_>>()
                })
            });
            readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
        });
        read.sort();
        read.dedup();
        assert_eq!(read.len(), 2 * ADDED);
    }
}
