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

use psp_store::{NewId, Now, Stream, StreamId, Trim, Writer};

use super::large;
use super::pace::Pace;
use crate::command::{Context, ReplyEncoder, Row};
use crate::effects::Told;
use crate::error::CommandError;
use crate::keyspace_events::{Class, Rule};
use crate::parse::{self, Result, integer, is};
use crate::typed::{expect, expect_mut, expect_or_default, read};
use trim::TrimOptions;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("xadd", xadd).event(Class::Stream, "xadd", Rule::AddEntry),
    Row::new("xdel", xdel).event(Class::Stream, "xdel", Rule::Replied),
    Row::new("xlen", xlen),
    Row::new("xrange", |context, args, out| range(context, args, out, false)),
    Row::new("xrevrange", |context, args, out| range(context, args, out, true)),
    Row::new("xsetid", xsetid).event(Class::Stream, "xsetid", Rule::Always),
    Row::new("xtrim", xtrim).event(Class::Stream, "xtrim", Rule::Replied),
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
    fn parse(args: &'a [&'a [u8]], now: &Now) -> Result<Self> {
        let mut trim = TrimOptions::default();
        let (mut makes_stream, mut at) = (true, 2);
        let id = loop {
            let arg = args.get(at).copied();
            let arg = arg.ok_or(CommandError::Arity("xadd".into()))?;
            if arg == b"*" {
                break NewId::At { now_ms: now.ms() };
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
        trim.check_limit()?;
        Ok(Self { makes_stream, trim, id, pairs: &args[at + 1..] })
    }
}

fn xadd(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let settings = &context.server.settings;
    let entry = NewEntry::parse(args, &context.now)?;
    let trim = entry.trim.trim(settings.stream_node_entries_max())?;
    if entry.pairs.is_empty() || !entry.pairs.len().is_multiple_of(2) {
        return Err(CommandError::Arity("xadd".into()));
    }
    if entry.id == NewId::Exactly(StreamId::MIN) {
        return Err(CommandError::line("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let limits = settings.stream_block();
    let work = large::work(entry.pairs) + trimmed(context, args[1], trim);
    let told = context.told();
    let added = large::update(context.store.telling(&told), args[1], work, |slot, pace| {
        let stream = expect::<Stream>(slot.value())?;
        match stream {
            None if !entry.makes_stream => return Ok(None),
            None => {}
            Some(stream) => drop(stream.id_for(entry.id).map_err(|_taken| no_id(stream))?),
        }
        let stream = expect_or_default::<Stream>(slot)?;
        let id = stream.push(entry.id, entry.pairs, limits);
        let id = id.map_err(|_taken| no_id(stream))?;
        if told.is_recorded() {
            let id = ids::text(id);
            let mut words: Vec<&[u8]> = vec![b"XADD", args[1], id.as_bytes()];
            words.extend(entry.pairs);
            told.says(&words);
        }
        if let Some(trim) = trim {
            stream.trim(trim, &|| pace.step());
            tell_len(&told, args[1], stream);
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
    trim.map_or(0, |trim| size::of_stream(context.store, key, |stream| stream.entries().trimmed(trim)))
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
    let trim = trim.ok_or(CommandError::line("ERR syntax error, XTRIM must be called with a trimming strategy"))?;
    let work = trimmed(context, args[1], Some(trim));
    let told = context.told();
    let removed = change(context.store.telling(&told), args[1], work, |stream, pace| {
        let removed = stream.trim(trim, &|| pace.step());
        told.says_nothing();
        tell_len(&told, args[1], stream);
        removed
    })?;
    out.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

/// The oldest entries have gone, as many as there are too many now.
fn tell_len(told: &Told, key: &[u8], stream: &Stream) {
    let mut digits = itoa::Buffer::new();
    told.adds(&[b"XTRIM", key, b"MAXLEN", b"=", digits.format(stream.len()).as_bytes()]);
}

/// Changes the stream of the key, if there is one, so that no client that waits gets anything.
fn change<'s, R>(
    store: impl Into<Writer<'s>>,
    key: &[u8],
    elements: usize,
    mut change: impl FnMut(&mut Stream, &Pace) -> R,
) -> Result<Option<R>> {
    large::update(store, key, elements, |slot, pace| {
        if expect::<Stream>(slot.value())?.is_none() {
            return Ok(None);
        }
        slot.wake_nobody();
        Ok(expect_mut::<Stream>(slot)?.map(|stream| change(stream, pace)))
    })
}

fn xdel(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !read(context.store, args[1], |stream: Option<&Stream>| stream.is_some())? {
        out.integer(0);
        return Ok(());
    }
    let ids: Vec<_> = args[2..].iter().map(|id| ids::strict(id, 0)).collect::<Result<_>>()?;
    let removed = change(context.store.telling(&context.sent(args)), args[1], ids.len(), |stream, pace| {
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
    let len = read(context.store, args[1], |stream: Option<&Stream>| stream.map_or(0, Stream::len))?;
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

fn range(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, is_reverse: bool) -> Result<()> {
    let [start, end] = if is_reverse {
        [args[3], args[2]]
    } else {
        [args[2], args[3]]
    };
    let ids = ids::start(start)?..=ids::end(end)?;
    let count = range_count(&args[4..])?;
    read(context.store, args[1], |stream: Option<&Stream>| match (stream, count) {
        (None, _) => out.array(0),
        (Some(_), Some(0)) => out.null_array(),
        (Some(stream), count) => {
            let count = count.unwrap_or(usize::MAX);
            reply::range(out, stream.entries(), &ids, count, is_reverse);
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
    let outcome = change(context.store.telling(&context.sent(args)), args[1], 0, |stream, _| {
        if stream.entries().last_id().is_some_and(|last| id < last) {
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

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

    #[test]
    fn entries_are_added_with_ids_that_ascend() {
        let mut session = Session::new();
        session.expect(&[
            ("XADD s 1-1 a 1", "$3 1-1"),
            ("XADD s 1-* b 2", "$3 1-2"),
            ("XADD s 2 c 3", "$3 2-0"),
            (
                "XADD s 2 c 3",
                "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
            ),
            ("XADD s 0-0 c 3", "-ERR The ID specified in XADD must be greater than 0-0"),
            ("XADD none NOMKSTREAM * a 1", "$-1"),
            ("EXISTS none", ":0"),
            ("XADD s MAXLEN 2 3 d 4", "$3 3-0"),
            ("XRANGE s - +", "*2 *2 $3 2-0 *2 $1 c $1 3 *2 $3 3-0 *2 $1 d $1 4"),
            ("XADD s MINID 3 4 e 5", "$3 4-0"),
            ("XLEN s", ":2"),
            (
                "XADD s 18446744073709551615-18446744073709551615 f 6",
                "$41 18446744073709551615-18446744073709551615",
            ),
            (
                "XADD s * f 6",
                "-ERR The stream has exhausted the last possible ID, unable to add more items",
            ),
            ("TYPE s", "+stream"),
            ("OBJECT ENCODING s", "$6 stream"),
            ("SORT s", WRONG_TYPE),
            ("SET string v", "+OK"),
            ("XADD string * a 1", WRONG_TYPE),
            ("XLEN string", WRONG_TYPE),
        ]);
        let arity = "-ERR wrong number of arguments for 'xadd' command\r\n";
        for line in ["XADD s * a", "XADD s * a 1 b", "XADD s MAXLEN 1 *", "XADD s NOMKSTREAM LIMIT 1"] {
            assert_eq!(session.run(line), arity, "{line}");
        }
        for (options, error) in [
            ("MAXLEN -1 *", "The MAXLEN argument"),
            ("MAXLEN 1 MINID 1 *", "syntax error, MAXLEN and MINID"),
            ("LIMIT 1 *", "syntax error, LIMIT cannot be used without specifying"),
            ("LIMIT 0 *", "syntax error, LIMIT cannot be used without the special ~"),
            ("MAXLEN 1 LIMIT 1 *", "syntax error, LIMIT cannot be used without the special ~"),
            ("MAXLEN ~ 1 LIMIT -1 *", "The LIMIT argument"),
            ("1-x", "Invalid stream ID"),
        ] {
            let reply = session.run(&format!("XADD s {options} a 1"));
            assert!(reply.starts_with(&format!("-ERR {error}")), "{options}: {reply}");
        }
    }

    #[test]
    fn a_stream_stays_when_its_last_entry_goes() {
        Session::new().expect(&[
            ("XADD s 1 a 1", "$3 1-0"),
            ("XDEL s 1 1 9", ":1"),
            ("XLEN s", ":0"),
            ("EXISTS s", ":1"),
            (
                "XADD s 1 a 1",
                "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
            ),
            ("XSETID s 5", "+OK"),
            ("XADD s 5-* a 1", "$3 5-1"),
            ("XSETID s 4", "-ERR The ID specified in XSETID is smaller than the target stream top item"),
            ("XSETID none 4", "-ERR no such key"),
            ("XTRIM s MAXLEN 0", ":1"),
            ("XTRIM none MAXLEN 0", ":0"),
            ("XDEL none x", ":0"),
            ("XDEL s x", "-ERR Invalid stream ID specified as stream command argument"),
            ("SCAN 0 TYPE stream COUNT 100", "*2 $1 0 *1 $1 s"),
            ("COPY s t", ":1"),
            ("RENAME s u", "+OK"),
            ("XADD t 5-* a 1", "$3 5-2"),
            ("DEL t u", ":2"),
        ]);
    }

    #[test]
    fn ranges_have_open_ends_counts_and_both_directions() {
        let mut session = Session::new();
        for id in 1..=5 {
            session.run(&format!("XADD s {id} f {id}"));
        }
        let entry = |id| format!("*2 $3 {id}-0 *2 $1 f $1 {id}");
        let entries = |ids: &[u32]| {
            let entries: Vec<_> = ids.iter().map(|id| entry(*id)).collect();
            format!("*{} {}", ids.len(), entries.join(" ")).trim_end().to_owned()
        };
        for (line, ids) in [
            ("XRANGE s - +", &[1, 2, 3, 4, 5][..]),
            ("XRANGE s (1 (5", &[2, 3, 4, 5]),
            ("XRANGE s (1-0 (5-0", &[2, 3, 4]),
            ("XRANGE s 2 4 COUNT 2", &[2, 3]),
            ("XRANGE s 2 4 COUNT 1 COUNT 9", &[2, 3, 4]),
            ("XREVRANGE s + - COUNT 2", &[5, 4]),
            ("XREVRANGE s (3-0 1", &[2, 1]),
            ("XRANGE s 4 2", &[]),
            ("XRANGE none - +", &[]),
        ] {
            session.expect(&[(line, &entries(ids))]);
        }
        session.expect(&[
            ("XRANGE s - + COUNT 0", "*-1"),
            ("XRANGE s - + COUNT", "-ERR syntax error"),
            ("XRANGE s (- +", "-ERR Invalid stream ID specified as stream command argument"),
        ]);
    }

    #[test]
    fn a_range_is_of_one_instant_while_another_client_adds_pairs() {
        let mut reader = Session::new();
        let mut writer = reader.beside();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for id in 1..1000 {
                    writer.run("MULTI");
                    writer.run(&format!("XADD s {id}-1 f a"));
                    writer.run(&format!("XADD s {id}-2 f b"));
                    writer.run("EXEC");
                }
            });
            for _ in 0..100 {
                let reply = reader.run("XRANGE s - +");
                let values = reply.lines().filter(|line| ["a", "b"].contains(line));
                let values: Vec<_> = values.collect();
                assert!(values.chunks(2).all(|pair| pair == ["a", "b"]));
            }
        });
    }

    #[test]
    fn streams_in_transactions_and_scripts_are_as_outside() {
        let mut session = Session::new();
        let mut other = session.beside();
        session.expect(&[
            ("XADD s 1 a 1", "$3 1-0"),
            ("WATCH s", "+OK"),
            ("MULTI", "+OK"),
            ("XADD s 2 a 1", "+QUEUED"),
        ]);
        other.expect(&[("XADD s 3 a 1", "$3 3-0")]);
        session.expect(&[
            ("EXEC", "*-1"),
            ("MULTI", "+OK"),
            ("XADD s 4 a 1", "+QUEUED"),
            ("XREAD BLOCK 0 STREAMS s $", "+QUEUED"),
            ("XREAD BLOCK 0 STREAMS s 3", "+QUEUED"),
            ("EXEC", "*3 $3 4-0 *-1 *1 *2 $1 s *1 *2 $3 4-0 *2 $1 a $1 1"),
            ("EVAL return(redis.call('xlen','s')) 0", ":3"),
        ]);
        session.expect(&[("EVAL return(redis.call('xread','block',0,'streams','s','$')) 0", "$-1")]);
    }

    #[test]
    fn the_sizes_of_blocks_can_be_set() {
        let mut session = Session::new();
        session.expect(&[
            ("CONFIG SET stream-node-max-entries 2 stream-node-max-bytes 100", "+OK"),
            (
                "CONFIG GET stream-node-max-*",
                "*4 $21 stream-node-max-bytes $3 100 $23 stream-node-max-entries $1 2",
            ),
        ]);
        for id in 1..=5 {
            session.run(&format!("XADD s {id} f {id}"));
        }
        session.expect(&[
            ("XTRIM s MAXLEN ~ 2", ":2"),
            ("XTRIM s MAXLEN ~ 0 LIMIT 1", ":0"),
            ("XTRIM s LIMIT 0", "-ERR syntax error, XTRIM must be called with a trimming strategy"),
            ("XLEN s", ":3"),
            ("CONFIG SET stream-node-max-entries 0", "+OK"),
        ]);
    }
}
