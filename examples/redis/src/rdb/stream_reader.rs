//! Reads streams as Redis 5 to 7.2 writes them; `stream_writer` has their form.
//!
//! An entry of a node with many or long names takes few bytes in the payload. So the names of a node are stored once
//! for what it has beside them, and a payload never grows by more than a constant factor.

use psp_protocols::resp::parse_integer;
use psp_store::{BlockLimits, Element, Group, NewId, Pending, Stream, StreamId};

use super::kind::StreamVersion;
use super::packed::{Entry, Listpack};
use super::reader::{Malformed, Reader};
use super::stream_writer::{SAME_FIELDS, UNKNOWN};

/// The entry was removed.
const REMOVED: i64 = 1;

/// The stream of a payload, whose strings are of up to `len_max` bytes.
pub(super) fn read_stream(
    reader: &mut Reader<'_>,
    version: StreamVersion,
    len_max: usize,
) -> Result<Stream, Malformed> {
    let mut stream = Stream::new();
    let nodes = reader.plain_length()?;
    for _ in 0..nodes {
        let first = reader.string(len_max)?;
        let first = <[u8; 16]>::try_from(&*first).map_err(|_len| Malformed)?;
        let pack = reader.string(len_max)?;
        Node::read(id_of(first), &pack)?.put_entries(&mut stream, reader.visitor())?;
    }
    if reader.plain_length()? != stream.len() as u64 {
        return Err(Malformed);
    }
    let last_id = read_id(reader)?;
    if last_id < stream.last_id() {
        return Err(Malformed);
    }
    stream.set_last_id(last_id);
    if version >= StreamVersion::Second {
        let _first = read_id(reader)?;
        stream.set_removed_id_max(read_id(reader)?);
        stream.set_entries_added(reader.plain_length()?);
    }
    let groups = reader.plain_length()?;
    for _ in 0..groups {
        read_group(&mut stream, reader, version, len_max)?;
    }
    Ok(stream)
}

fn id_of(raw: [u8; 16]) -> StreamId {
    let raw = u128::from_be_bytes(raw);
    StreamId { ms: (raw >> 64) as u64, seq: raw as u64 }
}

fn read_id(reader: &mut Reader<'_>) -> Result<StreamId, Malformed> {
    Ok(StreamId { ms: reader.plain_length()?, seq: reader.plain_length()? })
}

/// A listpack of entries.
struct Node<'p> {
    first: StreamId,
    pack: Listpack<'p>,
    /// Entries as the node says.
    len: i64,
    removed: i64,
    names: Vec<Entry<'p>>,
}

impl<'p> Node<'p> {
    fn read(first: StreamId, pack: &'p [u8]) -> Result<Self, Malformed> {
        let mut pack = Listpack::new(pack)?;
        let (len, removed) = (integer(&mut pack)?, integer(&mut pack)?);
        let fields = integer(&mut pack)?;
        let mut names = Vec::new();
        for _ in 0..fields {
            names.push(text(&mut pack)?);
        }
        if integer(&mut pack)? != 0 || fields < 1 {
            return Err(Malformed);
        }
        Ok(Self { first, pack, len, removed, names })
    }

    /// Adds the entries in blocks of their own.
    fn put_entries(mut self, stream: &mut Stream, visit: &dyn Fn()) -> Result<(), Malformed> {
        let names_bytes = self.names.iter().map(|name| name.len()).sum();
        let mut block = Filling::new(names_bytes);
        let mut texts: Vec<Entry<'p>> = Vec::new();
        while let Some(flags) = self.pack.next()? {
            visit();
            let flags = parse_integer(&flags).ok_or(Malformed)?;
            let ms = integer(&mut self.pack)? as u64;
            let seq = integer(&mut self.pack)? as u64;
            let id = StreamId {
                ms: self.first.ms.wrapping_add(ms),
                seq: self.first.seq.wrapping_add(seq),
            };
            let is_same = flags & SAME_FIELDS != 0;
            texts.clear();
            let (strings, fixed_parts) = if is_same {
                (self.names.len() as i64, 3)
            } else {
                let strings = integer(&mut self.pack)?.checked_mul(2).ok_or(Malformed)?;
                (strings, 4)
            };
            for _ in 0..strings {
                texts.push(text(&mut self.pack)?);
            }
            if strings < 1 || integer(&mut self.pack)? != strings + fixed_parts {
                return Err(Malformed);
            }
            if flags & REMOVED != 0 {
                self.removed -= 1;
                continue;
            }
            self.len -= 1;
            let bytes = texts.iter().map(|text| text.len()).sum();
            let limits = block.limits_for(is_same, bytes);
            let pairs: Vec<&[u8]> = if is_same {
                let pairs = self.names.iter().zip(&texts);
                pairs.flat_map(|(name, value)| [&**name, &**value]).collect()
            } else {
                texts.iter().map(|text| &**text).collect()
            };
            let pushed = stream.push(NewId::Exactly(id), &pairs, limits);
            pushed.map_err(|_descends| Malformed)?;
        }
        if (self.len, self.removed) == (0, 0) {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// How full a block is that a node fills.
struct Filling {
    names_bytes: usize,
    bytes: usize,
    entries: usize,
    /// The block has the names of the node.
    has_names: bool,
}

impl Filling {
    /// A block that holds less goes on.
    const ENOUGH: BlockLimits = BlockLimits { bytes: 64 * 1024, entries: 4096 };

    /// The first entry begins a block.
    const fn new(names_bytes: usize) -> Self {
        Self {
            names_bytes,
            bytes: usize::MAX,
            entries: usize::MAX,
            has_names: false,
        }
    }

    /// Limits that let the next entry begin a block or not. It has the names of its node, or others, and `bytes` beside
    /// the names of the node.
    fn limits_for(&mut self, is_same: bool, bytes: usize) -> BlockLimits {
        let is_enough = self.bytes >= Self::ENOUGH.bytes || self.entries >= Self::ENOUGH.entries;
        let lacks_names = is_same && !self.has_names;
        let begins = lacks_names || (is_enough && self.bytes >= self.names_bytes);
        if begins {
            (self.bytes, self.entries, self.has_names) = (0, 0, is_same);
        }
        self.bytes += bytes;
        self.entries += 1;
        let most = if begins { 0 } else { usize::MAX };
        BlockLimits { bytes: most, entries: most }
    }
}

fn text<'p>(pack: &mut Listpack<'p>) -> Result<Entry<'p>, Malformed> {
    pack.next()?.ok_or(Malformed)
}

fn integer(pack: &mut Listpack<'_>) -> Result<i64, Malformed> {
    parse_integer(&text(pack)?).ok_or(Malformed)
}

/// An entry that a group has delivered: when, and how often.
struct Delivered {
    id: StreamId,
    delivered_ms: i64,
    deliveries: u64,
    has_consumer: bool,
}

fn read_group(
    stream: &mut Stream,
    reader: &mut Reader<'_>,
    version: StreamVersion,
    len_max: usize,
) -> Result<(), Malformed> {
    let name = reader.string(len_max)?;
    let last_id = read_id(reader)?;
    let entries_read = match version {
        StreamVersion::First => stream.entries_up_to(last_id),
        _ => Some(reader.plain_length()?).filter(|count| *count != UNKNOWN),
    };
    if !stream.add_group(&name, last_id, entries_read) {
        return Err(Malformed);
    }
    let group = stream.group_mut(&name).ok_or(Malformed)?;
    let mut pending: Vec<Delivered> = Vec::new();
    let count = reader.plain_length()?;
    for _ in 0..count {
        (reader.visitor())();
        let item = Delivered {
            id: id_of(reader.array()?),
            delivered_ms: i64::from_le_bytes(reader.array()?),
            deliveries: reader.plain_length()?,
            has_consumer: false,
        };
        if pending.last().is_some_and(|last| last.id >= item.id) {
            return Err(Malformed);
        }
        pending.push(item);
    }
    let consumers = reader.plain_length()?;
    for _ in 0..consumers {
        read_consumer(group, &mut pending, reader, version, len_max)?;
    }
    if pending.iter().all(|item| item.has_consumer) {
        Ok(())
    } else {
        Err(Malformed)
    }
}

fn read_consumer(
    group: &mut Group,
    pending: &mut [Delivered],
    reader: &mut Reader<'_>,
    version: StreamVersion,
    len_max: usize,
) -> Result<(), Malformed> {
    let name = reader.string(len_max)?;
    let seen_ms = u64::from_le_bytes(reader.array()?);
    if !group.see_consumer(&name, seen_ms) {
        return Err(Malformed);
    }
    // Before, nobody knew when it got entries: that is estimated.
    let active_ms = match version >= StreamVersion::Third {
        true => u64::try_from(i64::from_le_bytes(reader.array()?)).ok(),
        false => Some(seen_ms),
    };
    group.set_active(&name, active_ms);
    let name = Element::from(&*name);
    let count = reader.plain_length()?;
    for _ in 0..count {
        (reader.visitor())();
        let id = id_of(reader.array()?);
        let place = pending.binary_search_by_key(&id, |item| item.id);
        let item = &mut pending[place.map_err(|_missing| Malformed)?];
        if std::mem::replace(&mut item.has_consumer, true) {
            return Err(Malformed);
        }
        group.assign(Pending {
            id,
            consumer: name.clone(),
            delivered_ms: item.delivered_ms,
            deliveries: item.deliveries,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use psp_store::{Delivery, Text, Value};

    use super::super::kind::Kind;
    use super::super::listpack_writer::ListpackWriter;
    use super::super::{elements_max, open, put_len, put_string, put_value, read_value, seal};
    use super::*;

    const LEN_MAX: usize = 1 << 20;

    fn read(parts: &[u8]) -> Result<Stream, Malformed> {
        let payload = seal(parts.to_vec(), &|| {});
        let mut reader = open(&payload, &|| {}).unwrap();
        match read_value(&mut reader, LEN_MAX)? {
            Value::Stream(stream) => Ok(stream),
            other => panic!("{}", other.type_name()),
        }
    }

    fn written(stream: &Stream) -> Vec<u8> {
        let mut parts = Vec::new();
        put_value(&Value::Stream(stream.clone()), &|| {}, &mut parts);
        parts
    }

    fn entries(stream: &Stream) -> Vec<(StreamId, Vec<Vec<u8>>)> {
        let entries = stream.entries().range(StreamId::MIN..=StreamId::MAX);
        let texts = |text: Text<'_>| text.as_slice().to_vec();
        entries.map(|entry| (entry.id, entry.texts().map(texts).collect())).collect()
    }

    /// Streams of entries with a few names, some of them removed, and groups that have read some of them.
    fn streams() -> impl Strategy<Value = Stream> {
        let name = prop_oneof![Just(b"a".to_vec()), Just(b"b".to_vec()), vec(any::<u8>(), 0..300)];
        let pairs = vec((name, vec(any::<u8>(), 0..80)), 1..4);
        let entry = (1_u64..u64::MAX / 200, pairs, any::<bool>());
        let group = (0_usize..60, 0_usize..60, any::<bool>());
        (vec(entry, 0..120), vec(group, 0..4)).prop_map(|(entries, groups)| {
            let mut stream = Stream::new();
            let (mut ms, mut removed) = (0, Vec::new());
            for (step, pairs, is_removed) in &entries {
                ms += step;
                let id = StreamId { ms, seq: step % 7 };
                let pairs: Vec<&[u8]> = pairs.iter().flat_map(|(name, value)| [&**name, &**value]).collect();
                stream.push(NewId::Exactly(id), &pairs, BlockLimits::default()).unwrap();
                removed.extend(is_removed.then_some(id));
            }
            for (index, (first, second, needs_no_ack)) in groups.into_iter().enumerate() {
                let group = format!("group{index}");
                stream.add_group(group.as_bytes(), StreamId::MIN, Some(0));
                for (consumer, count) in [(b"alice".as_slice(), first), (b"bob", second)] {
                    let delivery = Delivery { count, needs_no_ack, now_ms: 7 };
                    stream.deliver(group.as_bytes(), consumer, delivery, &|| {});
                }
            }
            for id in removed {
                stream.remove(id);
            }
            stream
        })
    }

    proptest! {
        #[test]
        fn streams_are_read_as_they_are_written(
            stream in streams(), cut: prop::sample::Index, byte: u8,
        ) {
            let parts = written(&stream);
            let again = read(&parts).unwrap();
            prop_assert_eq!(entries(&again), entries(&stream));
            prop_assert_eq!(written(&again), parts.clone());
            prop_assert!(stream.len() as u64 <= elements_max(&parts).0);

            let cut = cut.index(parts.len());
            prop_assert!(read(&parts[..cut]).is_err() || cut == 0);
            let mut damaged = parts;
            damaged[cut] = byte;
            if cut > 0 && let Ok(damaged) = read(&damaged) {
                entries(&damaged);
            }
        }
    }

    /// A payload of one node, and no groups.
    fn of_node(names: &[&[u8]], fill: impl FnOnce(&mut ListpackWriter) -> i64) -> Vec<u8> {
        let mut pack = ListpackWriter::default();
        let len = fill(&mut pack);
        let mut head = ListpackWriter::default();
        [len, 0, names.len() as i64].into_iter().for_each(|integer| head.integer(integer));
        names.iter().for_each(|name| head.string(name));
        head.integer(0);
        let mut parts = vec![Kind::Stream(StreamVersion::First).byte(), 1];
        put_string(&[0; 16], &mut parts);
        put_string(&head.finish(&pack), &mut parts);
        put_len(len as usize, &mut parts);
        put_len(1 << 40, &mut parts);
        parts.extend([0, 0]);
        parts
    }

    #[test]
    fn names_of_a_node_are_not_stored_for_each_entry() {
        let name = [b'n'; 200_000];
        let count = 3000;
        let parts = of_node(&[&name], |pack| {
            for index in 1..=count {
                // Some entries have other names.
                let is_same = index % 3 != 1;
                pack.integer(if is_same { SAME_FIELDS } else { 0 });
                pack.integer(index);
                pack.integer(0);
                if is_same {
                    pack.string(b"v");
                    pack.integer(4);
                } else {
                    pack.integer(1);
                    pack.string(b"a");
                    pack.string(b"v");
                    pack.integer(6);
                }
            }
            count
        });
        let stream = read(&parts).unwrap();
        assert_eq!(stream.len() as i64, count);
        let bytes = stream.memory_bytes(usize::MAX);
        assert!(bytes < 4 * parts.len(), "{bytes} of {}", parts.len());
        let read = entries(&stream);
        assert_eq!(read[1].1, [name.to_vec(), b"v".to_vec()]);
        assert_eq!(read[3].1, [b"a", b"v"]);
    }

    #[test]
    fn what_redis_would_not_write_is_refused() {
        let one = |flags: i64, parts: i64, len: i64| {
            of_node(&[b"name"], |pack| {
                for integer in [flags, 1, 0] {
                    pack.integer(integer);
                }
                pack.string(b"value");
                pack.integer(parts);
                len
            })
        };
        assert!(read(&one(SAME_FIELDS, 4, 1)).is_ok());
        for parts in [
            one(SAME_FIELDS, 5, 1),
            one(SAME_FIELDS, 4, 2),
            one(SAME_FIELDS | REMOVED, 4, 1),
            one(0, 4, 1),
            of_node(&[], |_| 0),
            // An ID twice.
            of_node(&[b"name"], |pack| {
                for _ in 0..2 {
                    for integer in [SAME_FIELDS, 1, 0] {
                        pack.integer(integer);
                    }
                    pack.string(b"value");
                    pack.integer(4);
                }
                2
            }),
        ] {
            assert!(read(&parts).is_err(), "{parts:?}");
        }
    }

    #[test]
    fn every_pending_entry_has_one_consumer() {
        let mut stream = Stream::new();
        let (name, value): (&[u8], &[u8]) = (b"name", b"value");
        let limits = BlockLimits::default();
        let id = StreamId { ms: 1, seq: 1 };
        stream.push(NewId::Exactly(id), &[name, value], limits).unwrap();
        stream.add_group(b"g", StreamId::MIN, None);
        let delivery = Delivery { count: 1, needs_no_ack: false, now_ms: 9 };
        stream.deliver(b"g", b"alice", delivery, &|| {}).unwrap();
        let parts = written(&stream);
        let again = read(&parts).unwrap();
        assert_eq!(again.group(b"g").unwrap().pending(id), stream.group(b"g").unwrap().pending(id));

        // The consumer's entries come last: their count, and one ID.
        let mut none = parts[..parts.len() - 17].to_vec();
        none.push(0);
        assert!(read(&none).is_err());
        let mut twice = parts.clone();
        let count_at = parts.len() - 17;
        twice[count_at] = 2;
        twice.extend_from_slice(&parts[count_at + 1..]);
        assert!(read(&twice).is_err());
        let mut other = parts;
        *other.last_mut().unwrap() ^= 1;
        assert!(read(&other).is_err());
    }
}
