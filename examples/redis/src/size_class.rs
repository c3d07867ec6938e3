//! How much work a request is, judged by the sizes of its keys: what the names of commands cannot
//! tell.
//!
//! `HGETALL` of a session with ten fields and `HGETALL` of a million are one command and two kinds
//! of work. The classifier asks here before it puts a request into a queue; the answer takes one
//! short look at each of a few keys.

use std::sync::Arc;

use psp_protocols::resp::ArgsIter;
use psp_server::{Classifier, RequestType};
use psp_store::{Entry, Keyspace, Value};

use psp_classifiers::resp::RespClassifier;

use crate::command::{CommandTable, KeyPositions};

/// Elements up to which work counts as small.
const SMALL_ELEMENTS_MAX: usize = 128;
/// Keys that are looked at before work counts as large unseen.
const KEYS_MAX: usize = 16;

/// Bytes up to which copying them counts as small.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// Commands that copy the string they change.
const WHOLE_STRINGS: [&[u8]; 2] = [b"append", SETRANGE];

const SETRANGE: &[u8] = b"setrange";

/// Commands whose work grows with the size of their keys, whatever their other arguments are.
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

/// The work of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeClass {
    /// At most a hundred or so elements.
    Small,
    /// More, or unknown.
    Large,
}

/// The classifier of Redis commands, with those of unclear cost judged by the sizes of their keys
/// in `store`: such a request is a `range` if it is small and a `scan` otherwise.
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
        .refine("scan", move |frame| {
            type_of_size(size_of_scan(&store_of_scans, frame))
        })
        .refine("range", move |frame| {
            type_of_size(size_of_range(&store_of_ranges, frame))
        })
        .refine("write", move |frame| {
            match size_of_write(&store_of_writes, frame) {
                SizeClass::Small => write,
                SizeClass::Large => scan,
            }
        })
}

/// The work of a request that is unbounded by its name and arguments.
#[must_use]
pub fn size_of_scan(store: &Keyspace, frame: &[u8]) -> SizeClass {
    let mut args = ArgsIter::new(frame);
    let spec = args.next().and_then(|name| CommandTable::get().find(name));
    let Some(spec) = spec else {
        return SizeClass::Large;
    };
    match spec.keys {
        KeyPositions { first: 0, .. } if spec.name == "keys" => size_class(store.len()),
        KeyPositions { first: 0, .. } => SizeClass::Large,
        keys => size_class(elements(store, keys, frame)),
    }
}

/// The work of a request that is commonly small.
#[must_use]
pub fn size_of_range(store: &Keyspace, frame: &[u8]) -> SizeClass {
    let spec = ArgsIter::new(frame)
        .next()
        .and_then(|name| CommandTable::get().find(name));
    match spec {
        Some(spec) if WHOLE_KEYS.contains(&spec.name) => {
            size_class(elements(store, spec.keys, frame))
        }
        _ => SizeClass::Small,
    }
}

/// The work of a request that stores one value: the bytes that it copies.
#[must_use]
pub fn size_of_write(store: &Keyspace, frame: &[u8]) -> SizeClass {
    let mut args = ArgsIter::new(frame);
    let name = args.next().unwrap_or_default();
    let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
    let copies_old = WHOLE_STRINGS.iter().any(is);
    let old = match args.next() {
        Some(key) if copies_old => store.peek(key, |entry| match entry.map(Entry::value) {
            Some(Value::String(bytes)) => bytes.len(),
            _ => 0,
        }),
        _ => 0,
    };
    // Zeroes are put before what it stores.
    let offset = match args.next().filter(|_| is(&SETRANGE)) {
        Some(offset) => std::str::from_utf8(offset).map_or(0, |text| text.parse().unwrap_or(0)),
        None => 0,
    };
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
fn elements(store: &Keyspace, keys: KeyPositions, frame: &[u8]) -> usize {
    let args = ArgsIter::new(frame);
    let count = args.count_left();
    let first = usize::try_from(keys.first).unwrap_or(usize::MAX);
    let step = usize::try_from(keys.step).unwrap_or(1).max(1);
    let last = match usize::try_from(keys.last) {
        Ok(last) => last,
        Err(_from_the_end) => count.saturating_sub(keys.last.unsigned_abs() as usize),
    };
    if last < first || last >= count {
        // Too few arguments: an error, which is quick.
        return 0;
    }
    if (last - first) / step >= KEYS_MAX {
        return usize::MAX;
    }
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
        for (line, size) in [
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
            assert_eq!(
                size_of_scan(session.store(), line.as_bytes()),
                size,
                "{line}"
            );
        }
        let many_keys = format!("SUNION {}", "none ".repeat(100));
        assert_eq!(
            size_of_scan(session.store(), many_keys.as_bytes()),
            SizeClass::Large
        );
    }

    #[test]
    fn ranges_are_large_only_when_they_cover_large_keys() {
        let session = filled();
        for (line, size) in [
            ("HGETALL little", SizeClass::Small),
            ("HGETALL large", SizeClass::Large),
            ("LRANGE long 0 9", SizeClass::Small),
            ("HGETALL", SizeClass::Small),
            ("LREM short 0 a", SizeClass::Small),
            ("LREM long 0 a", SizeClass::Large),
            ("LPOS long a", SizeClass::Large),
            ("LINSERT long BEFORE a b", SizeClass::Large),
        ] {
            assert_eq!(
                size_of_range(session.store(), line.as_bytes()),
                size,
                "{line}"
            );
        }
    }

    #[test]
    fn keys_of_many_is_large() {
        let mut session = filled();
        for index in 0..200 {
            session.run(&format!("SET k{index} v"));
        }
        assert_eq!(size_of_scan(session.store(), b"KEYS *"), SizeClass::Large);
    }

    #[test]
    fn writes_are_large_when_they_copy_many_bytes() {
        let mut session = filled();
        let megabyte = "x".repeat(1 << 20);
        session.run(&format!("SET big {megabyte}"));
        for (line, size) in [
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
            assert_eq!(
                size_of_write(session.store(), line.as_bytes()),
                size,
                "{line:.20}"
            );
        }
    }

    #[test]
    fn every_command_has_a_type() {
        let session = Session::new();
        let classifier = classifier(&session.server.store);
        for spec in CommandTable::get().specs() {
            let line = format!("{} a 1 b\r\n", spec.name);
            let ty = classifier.classify(line.as_bytes());
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
            let slot = types.slot(classifier.classify(format!("{line}\r\n").as_bytes()));
            assert_eq!(types.name_of_slot(slot), name, "{line}");
        }
    }
}
