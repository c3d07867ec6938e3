//! The size of a request's work, judged by the sizes of its keys.
//!
//! A command's name alone does not tell its cost: `HGETALL` of a session with ten fields and
//! `HGETALL` of a million are one command and two kinds of work. The classifier therefore checks
//! the size class before it queues a request. The check takes one short look at each of a few keys.

use std::sync::Arc;

use psp_protocols::resp::{CommandId, RespHead, parse_integer};
use psp_server::{Classifier, RequestType};
use psp_store::{Entry, Keyspace, Value};

use psp_classifiers::resp::RespClassifier;

use crate::command::{CommandTable, KeyPositions};

/// Work on up to this many elements counts as small.
const SMALL_ELEMENTS_MAX: usize = 128;
/// Keys to check. Work on more keys counts as large without a check.
const KEYS_MAX: usize = 16;

/// Copying up to this many bytes counts as small.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// Commands that copy the string they change.
const APPEND: CommandId = CommandId::of(b"append");
const SETRANGE: CommandId = CommandId::of(b"setrange");

const KEYS: CommandId = CommandId::of(b"keys");

/// Commands whose work grows with the size of their keys, whatever the other arguments are.
const WHOLE_KEYS: &[&str] = &[
    "hgetall",
    "hkeys",
    "hvals",
    "smembers",
    "sort",
    "sort_ro",
    "sinter",
    "sunion",
    "sdiff",
    "linsert",
    "lpos",
    "lrem",
    "ltrim",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
];

/// The size of a request's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeClass {
    /// At most about a hundred elements.
    Small,
    /// More elements, or an unknown number.
    Large,
}

/// The classifier of Redis commands. It judges commands of unclear cost by the sizes of their keys
/// in `store`: a small request is a `range`, a large one a `scan`.
#[must_use]
pub fn classifier(store: &Arc<Keyspace>) -> RespClassifier {
    let by_name = RespClassifier::redis();
    let types = by_name.types();
    let type_of = |name| types.by_name(name).unwrap_or(RequestType::UNKNOWN);
    let (write, range, scan) = (type_of("write"), type_of("range"), type_of("scan"));
    let type_of_size = move |size| match size {
        SizeClass::Small => range,
        SizeClass::Large => scan,
    };
    let store_of_writes = Arc::clone(store);
    let (store_of_scans, store_of_ranges) = (Arc::clone(store), Arc::clone(store));
    by_name
        .refine("scan", move |frame, head| {
            type_of_size(size_of_scan(&store_of_scans, frame, head))
        })
        .refine("range", move |frame, head| {
            type_of_size(size_of_range(&store_of_ranges, frame, head))
        })
        .refine("write", move |frame, head| {
            match size_of_write(&store_of_writes, frame, head) {
                SizeClass::Small => write,
                SizeClass::Large => scan,
            }
        })
}

/// The size class of a request whose name and arguments do not bound its work.
#[must_use]
pub fn size_of_scan(store: &Keyspace, frame: &[u8], head: &RespHead) -> SizeClass {
    let Some(spec) = CommandTable::get().find(head.command()) else {
        return SizeClass::Large;
    };
    match spec.keys {
        KeyPositions { first: 0, .. } if head.command() == KEYS => size_class(store.len()),
        KeyPositions { first: 0, .. } => SizeClass::Large,
        keys => size_class(elements(store, keys, frame, head)),
    }
}

/// The size class of a request that is usually small.
#[must_use]
pub fn size_of_range(store: &Keyspace, frame: &[u8], head: &RespHead) -> SizeClass {
    match CommandTable::get().find(head.command()) {
        Some(spec) if WHOLE_KEYS.contains(&spec.name) => {
            size_class(elements(store, spec.keys, frame, head))
        }
        _ => SizeClass::Small,
    }
}

/// The size class of a request that stores one value, by the bytes that it copies.
#[must_use]
pub fn size_of_write(store: &Keyspace, frame: &[u8], head: &RespHead) -> SizeClass {
    let copied_key = match head.command() {
        APPEND | SETRANGE => head.arg(frame, 1),
        _ => None,
    };
    let old = copied_key.map_or(0, |key| {
        store.peek(key, |entry| match entry.map(Entry::value) {
            Some(Value::String(bytes)) => bytes.len(),
            _ => 0,
        })
    });
    // Zeroes are put before what it stores.
    let offset = match head.command() {
        SETRANGE => head.arg(frame, 2).and_then(parse_integer).unwrap_or(0),
        _ => 0,
    };
    let offset = usize::try_from(offset).unwrap_or(0);
    if frame.len() + old.max(offset) <= SMALL_BYTES_MAX {
        SizeClass::Small
    } else {
        SizeClass::Large
    }
}

fn size_class(elements: usize) -> SizeClass {
    if elements <= SMALL_ELEMENTS_MAX {
        SizeClass::Small
    } else {
        SizeClass::Large
    }
}

/// Elements of all keys of the request; more than any bound when there are too many keys to look.
fn elements(store: &Keyspace, keys: KeyPositions, frame: &[u8], head: &RespHead) -> usize {
    let count = head.arg_count();
    let first = usize::try_from(keys.first).unwrap_or(usize::MAX);
    let step = usize::try_from(keys.step).unwrap_or(1).max(1);
    let last = match usize::try_from(keys.last) {
        Ok(last) => last,
        Err(_from_the_end) => count.saturating_sub(keys.last.unsigned_abs() as usize),
    };
    if last < first || last >= count {
        // Too few arguments give an error, which is quick.
        return 0;
    }
    if (last - first) / step >= KEYS_MAX {
        return usize::MAX;
    }
    let args = head.args(frame);
    let keys = args.skip(first).take(last - first + 1).step_by(step);
    keys.map(|key| {
        store.peek(key, |entry| {
            entry.map_or(0, |entry| entry.value().cardinality())
        })
    })
    .fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Session;
    use psp_protocols::Framing;
    use psp_protocols::resp::Resp;

    type SizeOf = fn(&Keyspace, &[u8], &RespHead) -> SizeClass;

    /// What `size_of` says of an inline command.
    fn size(session: &Session, size_of: SizeOf, line: &str) -> SizeClass {
        // MiB of value do not fit on a line.
        let resp = Resp::default().inline_len_max(4 << 20);
        let frame = format!("{line}\r\n");
        let head = resp.head_of(frame.as_bytes()).expect("a whole frame");
        size_of(session.store(), frame.as_bytes(), &head)
    }

    fn filled() -> Session {
        let mut session = Session::new();
        for index in 0..200 {
            session.run(&format!("RPUSH long {index}"));
            session.run(&format!("HSET large {index} v"));
            session.run(&format!("SADD set{} {index}", index % 2));
        }
        session.expect(&[("RPUSH short a b c", ":3"), ("HSET little f v", ":1")]);
        session
    }

    #[test]
    fn unbounded_commands_are_small_on_small_keys() {
        let session = filled();
        for (line, expected) in [
            ("LRANGE short 0 -1", SizeClass::Small),
            ("LRANGE long 0 -1", SizeClass::Large),
            ("LRANGE none 0 -1", SizeClass::Small),
            ("SORT short ALPHA", SizeClass::Small),
            ("SORT long", SizeClass::Large),
            ("SUNION set0", SizeClass::Small),
            ("SUNION set0 set1", SizeClass::Large),
            ("KEYS *", SizeClass::Small),
            ("FLUSHALL", SizeClass::Large),
            ("NOPE", SizeClass::Large),
            ("SORT", SizeClass::Small),
        ] {
            assert_eq!(size(&session, size_of_scan, line), expected, "{line}");
        }
        let many_keys = format!("SUNION {}", "none ".repeat(100));
        assert_eq!(size(&session, size_of_scan, &many_keys), SizeClass::Large);
    }

    #[test]
    fn ranges_are_large_only_when_they_cover_large_keys() {
        let session = filled();
        for (line, expected) in [
            ("HGETALL little", SizeClass::Small),
            ("HGETALL large", SizeClass::Large),
            ("LRANGE long 0 9", SizeClass::Small),
            ("HGETALL", SizeClass::Small),
            ("LREM short 0 a", SizeClass::Small),
            ("LREM long 0 a", SizeClass::Large),
            ("LPOS long a", SizeClass::Large),
            ("LINSERT long BEFORE a b", SizeClass::Large),
        ] {
            assert_eq!(size(&session, size_of_range, line), expected, "{line}");
        }
    }

    #[test]
    fn the_keys_command_is_large_over_many_keys() {
        let mut session = filled();
        for index in 0..200 {
            session.run(&format!("SET k{index} v"));
        }
        assert_eq!(size(&session, size_of_scan, "KEYS *"), SizeClass::Large);
    }

    #[test]
    fn writes_are_large_when_they_copy_many_bytes() {
        let mut session = filled();
        let megabyte = "x".repeat(1 << 20);
        session.run(&format!("SET big {megabyte}"));
        for (line, expected) in [
            ("SET big v", SizeClass::Small),
            ("APPEND little v", SizeClass::Small),
            ("append big v", SizeClass::Large),
            ("SETRANGE big 0 v", SizeClass::Large),
            ("SETRANGE none 100 v", SizeClass::Small),
            ("SETRANGE none 100000 v", SizeClass::Large),
            ("SETRANGE none -1 v", SizeClass::Small),
            ("SET none 100000", SizeClass::Small),
            ("APPEND long v", SizeClass::Small),
            ("APPEND", SizeClass::Small),
            (&*format!("SET k {megabyte}"), SizeClass::Large),
        ] {
            assert_eq!(size(&session, size_of_write, line), expected, "{line:.20}");
        }
    }

    #[test]
    fn every_command_has_a_type() {
        let session = Session::new();
        let classifier = classifier(&session.server.store);
        for spec in CommandTable::get().specs() {
            let line = format!("{} a 1 b\r\n", spec.name);
            let head = Resp::default().head_of(line.as_bytes());
            let ty = classifier.classify(line.as_bytes(), &head.expect("a whole frame"));
            assert_ne!(ty, RequestType::UNKNOWN, "{}", spec.name);
        }
    }

    #[test]
    fn the_classifier_uses_the_sizes() {
        let mut session = filled();
        session.run(&format!("SET big {}", "x".repeat(100_000)));
        let classifier = classifier(&session.server.store);
        let types = classifier.types();
        for (line, name) in [
            ("GET a", "read"),
            ("LRANGE short 0 -1", "range"),
            ("LRANGE long 0 -1", "scan"),
            ("HGETALL little", "range"),
            ("HGETALL large", "scan"),
            ("SET a b", "write"),
            ("APPEND big v", "scan"),
        ] {
            let frame = format!("{line}\r\n");
            let head = Resp::default().head_of(frame.as_bytes());
            let head = head.expect("a whole frame");
            let slot = types.slot(classifier.classify(frame.as_bytes(), &head));
            assert_eq!(types.name_of_slot(slot), name, "{line}");
        }
    }
}
