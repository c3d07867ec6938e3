//! How many elements a command on a stream touches, as far as its arguments and the stream tell at once.

use std::ops::RangeInclusive;

use psp_protocols::resp::parse_integer;
use psp_store::{Entry, Group, Keyspace, Stream, StreamId, Value};

use super::claim::{ATTEMPTS_PER_CLAIM, CLAIMS_DEFAULT};
use super::ids;
use super::info::COUNT_DEFAULT as FULL_COUNT_DEFAULT;
use super::trim::TrimOptions;
use crate::parse::is;

/// Blocks of one stream that are looked at. More of them are long work.
const BLOCKS_MAX: usize = 4;
/// Streams that are looked at.
const STREAMS_MAX: usize = 16;
/// Bytes of an entry that take as long to write as an element of a list.
const BYTES_PER_ELEMENT: usize = 64;

/// What `look` says of the stream of a key; the default if there is none.
pub(super) fn of_stream<R: Default>(store: &Keyspace, key: &[u8], look: impl FnOnce(&Stream) -> R) -> R {
    store.peek(key, |entry| match entry.map(Entry::value) {
        Some(Value::Stream(stream)) => look(stream),
        _ => R::default(),
    })
}

/// How many entries a consumer has to acknowledge.
pub(super) fn pending_of(store: &Keyspace, key: &[u8], group: &[u8], consumer: &[u8]) -> usize {
    let pending = |stream: &Stream| {
        let consumer = stream.group(group)?.consumer(consumer)?;
        Some(consumer.pending_len())
    };
    of_stream(store, key, pending).unwrap_or(0)
}

/// The elements that a command touches with these arguments, which begin behind its name.
type Size = fn(&Keyspace, &[&[u8]]) -> usize;

const SIZES: [(&str, Size); 11] = [
    ("xadd", changed_at_ends),
    ("xautoclaim", autoclaim),
    ("xclaim", claim),
    ("xgroup", group_change),
    ("xinfo", info),
    ("xpending", pending),
    ("xrange", |store, args| range(store, args, false)),
    ("xread", |store, args| read(store, args, false)),
    ("xreadgroup", |store, args| read(store, args, true)),
    ("xrevrange", |store, args| range(store, args, true)),
    ("xtrim", changed_at_ends),
];

/// The elements that the command `args` touches. Commands whose arguments are wrong get an error, which is quick.
pub(crate) fn elements(store: &Keyspace, args: &[&[u8]]) -> usize {
    let Some((name, args)) = args.split_first() else {
        return 0;
    };
    let size = SIZES.iter().find(|(known, _)| is(name, known));
    size.map_or(usize::MAX, |(_, size)| size(store, args))
}

/// The entries in a range and their bytes, as elements.
fn in_range(stream: &Stream, range: &RangeInclusive<StreamId>, count: usize, is_reverse: bool) -> usize {
    let extent = stream.entries().extent(range, count, is_reverse, BLOCKS_MAX);
    extent.map_or(usize::MAX, |(entries, bytes)| entries + bytes / BYTES_PER_ELEMENT)
}

/// COUNT among `options`; `None` without it, and if several arguments could be it.
fn count_in(options: &[&[u8]]) -> Option<usize> {
    let mut places = options.iter().enumerate();
    let (place, _) = places.find(|(_, option)| is(option, "count"))?;
    if places.any(|(_, option)| is(option, "count")) {
        return None;
    }
    let count = parse_integer(options.get(place + 1)?)?;
    usize::try_from(count).ok()
}

fn range(store: &Keyspace, args: &[&[u8]], is_reverse: bool) -> usize {
    let &[key, first, second, ref options @ ..] = args else {
        return 0;
    };
    let [start, end] = if is_reverse { [second, first] } else { [first, second] };
    let (Ok(start), Ok(end)) = (ids::start(start), ids::end(end)) else {
        return 0;
    };
    let count = count_in(options).unwrap_or(usize::MAX);
    of_stream(store, key, |stream| in_range(stream, &(start..=end), count, is_reverse))
}

/// What is added at one end, and removed at the other.
fn changed_at_ends(store: &Keyspace, args: &[&[u8]]) -> usize {
    let [key, rest @ ..] = args else {
        return 0;
    };
    let (mut options, mut rest) = (TrimOptions::default(), rest);
    while let [first, ..] = rest {
        match options.take(rest) {
            Ok(0) if is(first, "nomkstream") => rest = &rest[1..],
            Ok(0) | Err(_) => break,
            Ok(taken) => rest = &rest[taken..],
        }
    }
    let removed = match options.trim(u64::MAX) {
        Ok(Some(trim)) => of_stream(store, key, |stream| stream.entries().trimmed(trim)),
        _ => 0,
    };
    args.len() + removed
}

fn read(store: &Keyspace, args: &[&[u8]], is_of_group: bool) -> usize {
    let place = args.iter().position(|option| is(option, "streams"));
    let Some(place) = place else {
        return 0;
    };
    let (options, streams) = (&args[..place], &args[place + 1..]);
    let (keys, ids) = streams.split_at(streams.len() / 2);
    if keys.len() > STREAMS_MAX {
        return usize::MAX;
    }
    let count = count_in(options).filter(|count| *count > 0).unwrap_or(usize::MAX);
    let names = options.iter().position(|option| is(option, "group"));
    let names = names.and_then(|place| options.get(place + 1..place + 3));
    let of_each = keys.iter().zip(ids).map(|(key, id)| {
        of_stream(store, key, |stream| match (*id, names) {
            (b"$", _) => 0,
            (b">", Some([group, ..])) => {
                let read_to = stream.group(group).map(|group| group.last_id);
                read_to.map_or(0, |id| in_range(stream, &ids::above(id), count, false))
            }
            (id, names) => {
                let Ok(id) = ids::strict(id, 0) else {
                    return 0;
                };
                match names {
                    Some([group, consumer]) if is_of_group => history(stream, group, consumer, id, count),
                    _ => in_range(stream, &ids::above(id), count, false),
                }
            }
        })
    });
    of_each.fold(1, usize::saturating_add)
}

/// What a consumer has to acknowledge. The entries may be in as many blocks.
fn history(stream: &Stream, group: &[u8], consumer: &[u8], after: StreamId, count: usize) -> usize {
    let consumer = stream.group(group).and_then(|group| group.consumer(consumer));
    let pending = consumer.map_or(0, |consumer| consumer.pending_from(*ids::above(after).start()).len());
    listed(stream, pending.min(count))
}

/// The work of finding and writing `count` entries at any places.
fn listed(stream: &Stream, count: usize) -> usize {
    count.saturating_mul(1 + stream.entries().entry_bytes() / BYTES_PER_ELEMENT)
}

fn claim(store: &Keyspace, args: &[&[u8]]) -> usize {
    let Some(key) = args.first() else {
        return 0;
    };
    args.len() + of_stream(store, key, |stream| listed(stream, args.len()))
}

fn autoclaim(store: &Keyspace, args: &[&[u8]]) -> usize {
    let [key, group, _, _, _, options @ ..] = args else {
        return 0;
    };
    let has_count = options.iter().any(|option| is(option, "count"));
    let count = if has_count {
        count_in(options).unwrap_or(usize::MAX)
    } else {
        CLAIMS_DEFAULT
    };
    of_stream(store, key, |stream| {
        let pending = stream.group(group).map_or(0, Group::pending_len);
        let looked_at = pending.min(count.saturating_mul(ATTEMPTS_PER_CLAIM));
        looked_at.saturating_add(listed(stream, pending.min(count)))
    })
}

fn pending(store: &Keyspace, args: &[&[u8]]) -> usize {
    let [key, group, ..] = args else {
        return 0;
    };
    let is_filtered = args.get(2).is_some_and(|option| is(option, "idle"));
    let count = match args.get(4).and_then(|count| parse_integer(count)) {
        Some(count) if !is_filtered => usize::try_from(count).unwrap_or(0),
        _ => usize::MAX,
    };
    of_stream(store, key, |stream| {
        let group = stream.group(group);
        group.map_or(0, |group| match args.len() {
            2 => group.consumers().len(),
            _ => group.pending_len().min(count),
        })
    })
}

fn info(store: &Keyspace, args: &[&[u8]]) -> usize {
    let &[what, key, ref options @ ..] = args else {
        return 0;
    };
    of_stream(store, key, |stream| {
        let groups = stream.groups().len();
        if is(what, "groups") {
            return groups;
        }
        if is(what, "consumers") {
            let group = options.first().and_then(|name| stream.group(name));
            return group.map_or(0, |group| group.consumers().len());
        }
        let all = StreamId::MIN..=StreamId::MAX;
        if options.is_empty() {
            let edges = [false, true].map(|is_end| in_range(stream, &all, 1, is_end));
            return edges[0].saturating_add(edges[1]);
        }
        if groups > STREAMS_MAX {
            return usize::MAX;
        }
        let count = count_in(options).unwrap_or(FULL_COUNT_DEFAULT);
        let count = if count == 0 { usize::MAX } else { count };
        let of_groups = stream.groups().map(|group| {
            let (pending, consumers) = (group.pending_len(), group.consumers().len());
            let of_consumers = pending.min(consumers.saturating_mul(count));
            1 + pending.min(count) + consumers + of_consumers
        });
        let entries = in_range(stream, &all, count, false);
        of_groups.fold(entries, usize::saturating_add)
    })
}

fn group_change(store: &Keyspace, args: &[&[u8]]) -> usize {
    match *args {
        [what, key, group] if is(what, "destroy") => {
            of_stream(store, key, |stream| stream.group(group).map_or(0, Group::pending_len))
        }
        [what, key, group, consumer] if is(what, "delconsumer") => pending_of(store, key, group, consumer),
        _ => 0,
    }
}
