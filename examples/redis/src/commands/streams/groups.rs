//! XGROUP and XACK.

use psp_store::{Stream, StreamId};

use super::super::subcommand;
use super::{change, ids, size};
use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::{CommandError, quotable};
use crate::keyspace_events::{Class, Rule};
use crate::parse::{Result, integer, is};
use crate::typed::{expect, expect_mut, expect_or_default, read};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("xack", xack).effect(Class::Stream, Rule::Never),
    Row::container("xgroup", SUBCOMMANDS)
        .flags(&[Flag::Write])
        .effect(Class::Stream, Rule::Group),
];

const SUBCOMMANDS: Subcommands = &[
    ("create", create),
    ("createconsumer", create_consumer),
    ("delconsumer", delete_consumer),
    ("destroy", destroy),
    ("help", help),
    ("setid", set_id),
];

/// The text of XGROUP HELP, as in Redis.
const HELP: &[&str] = &[
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
];

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subcommand::write_help("xgroup", HELP, out);
    Ok(())
}

/// The options of CREATE and SETID.
#[derive(Default)]
struct Options {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(args: &[&[u8]], may_make_stream: bool) -> Result<Self> {
        let mut options = Self::default();
        let mut at = 5;
        while at < args.len() {
            match args[at..] {
                [name, ..] if may_make_stream && is(name, "mkstream") => {
                    options.makes_stream = true;
                    at += 1;
                }
                [name, count, ..] if is(name, "entriesread") => {
                    options.entries_read = entries_read(count)?;
                    at += 2;
                }
                _ => return Err(subcommand::wrong_arguments("xgroup", args[1])),
            }
        }
        Ok(options)
    }
}

/// A number of entries; `None` for -1, which says that it is not known.
fn entries_read(arg: &[u8]) -> Result<Option<u64>> {
    match integer(arg)? {
        -1 => Ok(None),
        count => match u64::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_negative) => Err(CommandError::line("ERR value for ENTRIESREAD must be positive or -1")),
        },
    }
}

/// `$` or an ID. `parse` reads the ID.
fn group_id(arg: &[u8], stream: Option<&Stream>, parse: fn(&[u8], u64) -> Result<StreamId>) -> Result<StreamId> {
    match arg {
        b"$" => Ok(stream.map_or(StreamId::MIN, Stream::last_id)),
        id => parse(id, 0),
    }
}

const NO_STREAM: CommandError = CommandError::line(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM \
     option to create an empty stream automatically.",
);

fn create(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = Options::parse(args, true)?;
    context.store.telling(&context.sent(args)).update(args[2], |slot| {
        slot.wake_nobody();
        let stream = expect::<Stream>(slot.value())?;
        if stream.is_none() && !options.makes_stream {
            return Err(NO_STREAM);
        }
        let id = group_id(args[4], stream, ids::strict)?;
        if stream.is_some_and(|stream| stream.group(args[3]).is_some()) {
            return Err(CommandError::line("BUSYGROUP Consumer Group name already exists"));
        }
        let stream = expect_or_default::<Stream>(slot)?;
        stream.add_group(args[3], id, options.entries_read);
        Ok(())
    })?;
    out.simple("OK");
    Ok(())
}

/// Checks that the key has a stream, and the stream the group.
fn check(context: &Context<'_>, key: &[u8], group: &[u8]) -> Result<()> {
    read(context.store, key, |stream: Option<&Stream>| {
        let stream = stream.ok_or(NO_STREAM)?;
        let group_is_there = stream.group(group).is_some();
        group_is_there.then_some(()).ok_or_else(|| no_such_group(key, group))
    })?
}

/// The error for a group that an existing stream does not have.
pub(super) fn no_such_group(key: &[u8], group: &[u8]) -> CommandError {
    let [key, group] = [key, group].map(quotable);
    let line = format!("NOGROUP No such consumer group '{group}' for key name '{key}'");
    CommandError::Other(line.into())
}

fn set_id(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = Options::parse(args, false)?;
    check(context, args[2], args[3])?;
    let outcome = change(context.store.telling(&context.sent(args)), args[2], 0, |stream, _| {
        let id = group_id(args[4], Some(stream), ids::any)?;
        let group = stream.group_mut(args[3]);
        let group = group.ok_or_else(|| no_such_group(args[2], args[3]))?;
        group.last_id = id;
        group.entries_read = options.entries_read;
        Ok(())
    })?;
    outcome.ok_or(NO_STREAM)??;
    out.simple("OK");
    Ok(())
}

fn destroy(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    // Those who wait in the group get an error.
    let removed = context.store.telling(&context.sent(args)).update(args[2], |slot| {
        let stream = expect::<Stream>(slot.value())?.ok_or(NO_STREAM)?;
        if stream.group(args[3]).is_none() {
            return Ok(None);
        }
        Ok(expect_mut::<Stream>(slot)?.and_then(|stream| stream.remove_group(args[3])))
    })?;
    // What was pending is dropped here, without the lock.
    out.integer(i64::from(removed.is_some()));
    Ok(())
}

fn create_consumer(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check(context, args[2], args[3])?;
    let is_new = change(context.store.telling(&context.sent(args)), args[2], 0, |stream, _| {
        let group = stream.group_mut(args[3])?;
        let is_known = group.consumer(args[4]).is_some();
        Some(!is_known && group.see_consumer(args[4], context.now.ms()))
    })?;
    let is_new = is_new.ok_or(NO_STREAM)?;
    let is_new = is_new.ok_or_else(|| no_such_group(args[2], args[3]))?;
    out.integer(i64::from(is_new));
    Ok(())
}

fn delete_consumer(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check(context, args[2], args[3])?;
    let pending = size::pending_of(context.store, args[2], args[3], args[4]);
    let removed = change(context.store.telling(&context.sent(args)), args[2], pending, |stream, pace| {
        let group = stream.group_mut(args[3])?;
        Some(group.remove_consumer(args[4], &|| pace.step()))
    })?;
    out.integer(removed.flatten().unwrap_or(0) as i64);
    Ok(())
}

fn xack(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let has_group = |stream: Option<&Stream>| Some(stream?.group(args[2]).is_some());
    if !read(context.store, args[1], has_group)?.unwrap_or(false) {
        out.integer(0);
        return Ok(());
    }
    let ids: Vec<_> = args[3..].iter().map(|id| ids::strict(id, 0)).collect::<Result<_>>()?;
    let acknowledged = change(context.store.telling(&context.sent(args)), args[1], ids.len(), |stream, pace| {
        let group = stream.group_mut(args[2])?;
        let acknowledged = ids.iter().filter(|id| {
            pace.step();
            group.acknowledge(**id)
        });
        Some(acknowledged.count())
    })?;
    out.integer(acknowledged.flatten().unwrap_or(0) as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    /// A stream with entries 1 to 5 and a group `g` that has read nothing.
    fn grouped() -> Session {
        let mut session = Session::new();
        for id in 1..=5 {
            session.run(&format!("XADD s {id} f {id}"));
        }
        session.expect(&[("XGROUP CREATE s g 0", "+OK")]);
        session
    }

    #[test]
    fn members_of_a_group_share_its_entries() {
        grouped().expect(&[
            ("XREADGROUP GROUP g a COUNT 1 STREAMS s >", "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 f $1 1"),
            ("XREADGROUP GROUP g b COUNT 1 STREAMS s >", "*1 *2 $1 s *1 *2 $3 2-0 *2 $1 f $1 2"),
            ("XREADGROUP GROUP g a STREAMS s 0", "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 f $1 1"),
            ("XREADGROUP GROUP g c STREAMS s 0", "*1 *2 $1 s *0"),
            ("XPENDING s g", "*4 :2 $3 1-0 $3 2-0 *2 *2 $1 a $1 1 *2 $1 b $1 1"),
            ("XACK s g 1 1 7", ":1"),
            ("XPENDING s g", "*4 :1 $3 2-0 $3 2-0 *1 *2 $1 b $1 1"),
            ("XDEL s 2", ":1"),
            ("XREADGROUP GROUP g b STREAMS s 0", "*1 *2 $1 s *1 *2 $3 2-0 *-1"),
            ("XGROUP DELCONSUMER s g b", ":1"),
            ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
            (
                "XREADGROUP GROUP g a NOACK COUNT 2 STREAMS s >",
                "*1 *2 $1 s *2 *2 $3 3-0 *2 $1 f $1 3 *2 $3 4-0 *2 $1 f $1 4",
            ),
            ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
            ("XGROUP SETID s g $", "+OK"),
            ("XREADGROUP GROUP g a STREAMS s >", "*-1"),
            ("XGROUP DESTROY s g", ":1"),
            ("XGROUP DESTROY s g", ":0"),
        ]);
    }

    #[test]
    fn groups_are_made_once_and_of_streams_alone() {
        let mut session = grouped();
        session.expect(&[
            ("XGROUP CREATE s g 0", "-BUSYGROUP Consumer Group name already exists"),
            ("XGROUP CREATE new g $ MKSTREAM", "+OK"),
            ("XLEN new", ":0"),
            ("XGROUP CREATECONSUMER s g a", ":1"),
            ("XGROUP CREATECONSUMER s g a", ":0"),
            (
                "XGROUP CREATECONSUMER s none a",
                "-NOGROUP No such consumer group 'none' for key name 's'",
            ),
            (
                "XREADGROUP GROUP none a STREAMS s >",
                "-NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP option",
            ),
            ("XPENDING s none", "-NOGROUP No such key 's' or consumer group 'none'"),
            ("XACK s none 1", ":0"),
            (
                "XGROUP CREATE s h 0 NOPE",
                "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.",
            ),
            ("XGROUP CREATE s h 0 ENTRIESREAD -2", "-ERR value for ENTRIESREAD must be positive or -1"),
        ]);
        let missing = session.run("XGROUP CREATE none g 0");
        assert!(missing.starts_with("-ERR The XGROUP subcommand requires the key"), "{missing}");
    }

    #[test]
    fn consumers_are_inactive_until_they_get_entries() {
        let inactive = |session: &mut Session| {
            let listed = session.run("XINFO CONSUMERS s g").replace("\r\n", " ");
            let (_, inactive) = listed.split_once(" $8 inactive :").expect("a consumer");
            inactive.trim().parse::<i64>().expect("a number")
        };
        let mut session = grouped();
        session.run("XGROUP CREATECONSUMER s g a");
        assert_eq!(inactive(&mut session), -1);
        assert!(session.run("XINFO STREAM s FULL").contains("$11\r\nactive-time\r\n:-1\r\n"));
        session.run("XREADGROUP GROUP g a STREAMS s 0");
        assert_eq!(inactive(&mut session), -1, "it had nothing pending");
        session.run("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
        assert!(inactive(&mut session) >= 0);
        session.run("XGROUP CREATECONSUMER s g b");
        session.run("XCLAIM s g b 0 1");
        let both = session.run("XINFO STREAM s FULL");
        assert_eq!(both.matches("active-time\r\n:-1").count(), 0, "{both}");
    }

    #[test]
    fn lags_are_told_while_they_are_known() {
        grouped().expect(&[
            (
                "XINFO GROUPS s",
                "*1 *12 $4 name $1 g $9 consumers :0 $7 pending :0 $17 last-delivered-id $3 0-0 $12 entries-read $-1 $3 lag :5",
            ),
            (
                "XREADGROUP GROUP g a COUNT 1 STREAMS s >",
                "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 f $1 1",
            ),
            ("XDEL s 3", ":1"),
            (
                "XINFO GROUPS s",
                "*1 *12 $4 name $1 g $9 consumers :1 $7 pending :1 $17 last-delivered-id $3 1-0 $12 entries-read :1 $3 lag $-1",
            ),
        ]);
    }
}
