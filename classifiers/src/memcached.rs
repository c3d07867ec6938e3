//! Types of memcached requests, from the command and the number of keys.
//!
//! ```text
//!   frame ─┬─ binary: opcode, key? ──► table ───────────────────────────────────────────► type
//!          └─ text, meta: first word ──► family of the command ─┬─ gets: number of keys ─► type
//!                                                               └─ others ──────────────► type
//! ```
//!
//! The table of the binary protocol is built from the same families. It is rebuilt when types change, so
//! that a binary request costs one look at its header and one look-up.

use std::time::Duration;

use psp_protocols::memcached::binary::{Command, Header, Opcode};
use psp_protocols::memcached::is_binary;
use psp_protocols::memcached::text::Words;
use psp_server::{Classifier, RequestType, TypeSpec, TypeTable};

use crate::registry::register;
use crate::thresholds::Thresholds;

/// Fewest keys of a request of type `multiget`.
const MULTIGET_KEYS_MIN: usize = 9;

/// Number of opcodes of the binary protocol, including unused ones.
const OPCODES: usize = 256;

/// Classifies requests of the text, meta and binary protocols of memcached.
///
/// | type       | requests                                                        | expected |
/// |------------|-----------------------------------------------------------------|----------|
/// | `health`   | `version`, `mn`, noop, `stats` alone, `verbosity`, `quit`, ..   | 1 us     |
/// | `read`     | `get`, `gets`, `gat`, `gats` of up to 8 keys, `mg`, `me`        | 1 us     |
/// | `write`    | `set` and its kin, `delete`, `incr`, `touch`, `ms`, `md`, `ma`  | 1.5 us   |
/// | `multiget` | gets of 9 keys and more                                         | 20 us    |
/// | `scan`     | `flush_all`, `lru_crawler`, `stats` with arguments              | 1 ms     |
///
/// Other commands and gets without a key are `UNKNOWN`. A command of the binary protocol has the type
/// of its text command. A binary get has one key.
///
/// ```
/// use psp_classifiers::MemcachedClassifier;
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = MemcachedClassifier::new()
///     .gets(2, TypeSpec::new("multiget"))
///     .gets(100, TypeSpec::new("bulk"));
///
/// let types = classifier.types();
/// assert_eq!(classifier.classify(b"get a b c\r\n", &()), types.by_name("multiget").unwrap());
/// assert_eq!(classifier.classify(b"mn\r\n", &()), types.by_name("health").unwrap());
/// ```
#[derive(Debug, Clone)]
pub struct MemcachedClassifier {
    types: TypeTable,
    health: RequestType,
    write: RequestType,
    scan: RequestType,
    gets: Thresholds,
    /// Types of binary requests by opcode, without a key and with one.
    binary: Box<[[RequestType; 2]; OPCODES]>,
}

/// Commands of similar cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Health,
    /// A get of one key.
    Get,
    /// A get of any number of keys, which follow some other words after the command.
    MultiGet {
        words_before_keys: usize,
    },
    Write,
    Scan,
    /// With arguments like [`Self::Scan`], without like [`Self::Health`].
    Stats,
}

impl Family {
    #[inline]
    fn of_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"get" | b"gets" | b"bget" => Self::MultiGet { words_before_keys: 0 },
            b"gat" | b"gats" => Self::MultiGet { words_before_keys: 1 },
            b"mg" | b"me" => Self::Get,
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" | b"ms" | b"md" | b"ma" | b"delete"
            | b"incr" | b"decr" | b"touch" => Self::Write,
            b"mn" | b"version" | b"verbosity" | b"quit" | b"shutdown" | b"cache_memlimit" | b"watch" => Self::Health,
            b"flush_all" | b"lru_crawler" | b"refresh_certs" => Self::Scan,
            b"stats" => Self::Stats,
            _ => return None,
        })
    }

    #[inline]
    fn of_command(command: Command) -> Self {
        match command {
            Command::Get | Command::GetKey | Command::GetAndTouch | Command::GetKeyAndTouch => Self::Get,
            Command::Set
            | Command::Add
            | Command::Replace
            | Command::Append
            | Command::Prepend
            | Command::Delete
            | Command::Increment
            | Command::Decrement
            | Command::Touch => Self::Write,
            Command::Noop
            | Command::Version
            | Command::Verbosity
            | Command::Quit
            | Command::SaslList
            | Command::SaslAuth
            | Command::SaslStep => Self::Health,
            Command::Flush => Self::Scan,
            Command::Stat => Self::Stats,
        }
    }
}

impl Default for MemcachedClassifier {
    fn default() -> Self {
        Self::new()
    }
}

impl MemcachedClassifier {
    /// A classifier with the types in the table above.
    #[must_use]
    pub fn new() -> Self {
        let mut types = TypeTable::new();
        let mut typical = |name, service_time_ns| {
            let service_time = Duration::from_nanos(service_time_ns);
            types.register(TypeSpec::new(name).service_time(service_time))
        };
        let health = typical("health", 1_000);
        let read = typical("read", 1_000);
        let write = typical("write", 1_500);
        let multiget = typical("multiget", 20_000);
        let scan = typical("scan", 1_000_000);
        let mut gets = Thresholds::default();
        gets.set(1, read);
        gets.set(MULTIGET_KEYS_MIN, multiget);
        Self {
            types,
            health,
            write,
            scan,
            gets,
            binary: Box::new([[RequestType::UNKNOWN; 2]; OPCODES]),
        }
        .tabulated()
    }

    /// Gets of at least `keys_min` keys are of the type `spec`, up to the next threshold.
    ///
    /// A type that is already registered under this name keeps its number and takes the hints of
    /// `spec`. A type of gets moves to this threshold. The classifier counts keys up to the highest
    /// threshold.
    #[must_use]
    pub fn gets(mut self, keys_min: usize, spec: TypeSpec) -> Self {
        let request_type = register(&mut self.types, spec);
        self.gets.set(keys_min, request_type);
        self.tabulated()
    }

    /// Rebuilds the table of binary requests.
    fn tabulated(mut self) -> Self {
        for number in 0..=u8::MAX {
            let Some(opcode) = Opcode::from_number(number) else {
                continue;
            };
            let family = Family::of_command(opcode.command);
            let types = [false, true].map(|has_key| self.type_of(family, || has_key));
            self.binary[usize::from(number)] = types;
        }
        self
    }

    fn classify_text(&self, frame: &[u8]) -> RequestType {
        // The line end is not searched for: it is part of the last word, or a word by itself.
        let mut words = Words::new(frame).map(<[u8]>::trim_ascii_end).filter(|word| !word.is_empty());
        match words.next().and_then(Family::of_name) {
            Some(Family::MultiGet { words_before_keys }) => {
                let keys = words.skip(words_before_keys);
                self.gets.type_of(keys.take(self.gets.highest()).count())
            }
            Some(family) => self.type_of(family, || words.next().is_some()),
            None => RequestType::UNKNOWN,
        }
    }

    #[inline]
    fn classify_binary(&self, frame: &[u8]) -> RequestType {
        let Some(header) = Header::decode(frame) else {
            return RequestType::UNKNOWN;
        };
        let types = self.binary[usize::from(header.opcode)];
        types[usize::from(header.key_len > 0)]
    }

    #[inline]
    fn type_of(&self, family: Family, has_arguments: impl FnOnce() -> bool) -> RequestType {
        match family {
            Family::Health => self.health,
            Family::Get | Family::MultiGet { .. } => self.gets.type_of(1),
            Family::Write => self.write,
            Family::Scan => self.scan,
            Family::Stats if has_arguments() => self.scan,
            Family::Stats => self.health,
        }
    }
}

impl Classifier for MemcachedClassifier {
    #[inline]
    fn classify(&self, request: &[u8], (): &()) -> RequestType {
        if is_binary(request) {
            self.classify_binary(request)
        } else {
            self.classify_text(request)
        }
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::memcached::binary::MAGIC_REQUEST;

    use super::*;

    fn name_of(classifier: &MemcachedClassifier, frame: &[u8]) -> String {
        let types = classifier.types();
        let slot = types.slot(classifier.classify(frame, &()));
        types.name_of_slot(slot).to_owned()
    }

    fn get_of(keys: usize) -> String {
        format!("get{}", " key".repeat(keys))
    }

    #[test]
    fn commands_have_types() {
        let classifier = MemcachedClassifier::new();
        for (line, name) in [
            ("version", "health"),
            ("mn", "health"),
            ("verbosity 1", "health"),
            ("quit", "health"),
            ("stats", "health"),
            ("stats items", "scan"),
            ("get k", "read"),
            ("gets a b", "read"),
            ("gat 0 k", "read"),
            ("mg k v", "read"),
            ("me k", "read"),
            ("set k 0 0 1", "write"),
            ("cas k 0 0 1 1", "write"),
            ("ms k 1", "write"),
            ("md k", "write"),
            ("ma k", "write"),
            ("delete k", "write"),
            ("incr k 1", "write"),
            ("touch k 0", "write"),
            (&get_of(8), "read"),
            (&get_of(9), "multiget"),
            (&get_of(1000), "multiget"),
            ("gat 1 2 3 4 5 6 7 8 9", "read"),
            ("gats 0 1 2 3 4 5 6 7 8 9", "multiget"),
            ("flush_all", "scan"),
            ("lru_crawler metadump all", "scan"),
            ("refresh_certs", "scan"),
            ("cache_memlimit 100", "health"),
            ("watch fetchers", "health"),
            ("get", "UNKNOWN"),
            ("gat 0", "UNKNOWN"),
            ("GET k", "UNKNOWN"),
            ("getx k", "UNKNOWN"),
            ("", "UNKNOWN"),
        ] {
            for end in ["\r\n", "\n", " \r\n"] {
                let frame = format!("{line}{end}");
                assert_eq!(name_of(&classifier, frame.as_bytes()), name, "{frame:?}");
            }
        }
    }

    #[test]
    fn binary_commands_have_the_type_of_their_text_command() {
        let classifier = MemcachedClassifier::new();
        for (opcodes, name) in [
            (&[0x07, 0x0a, 0x0b, 0x10, 0x17, 0x1b, 0x20, 0x21, 0x22][..], "health"),
            (&[0x00, 0x09, 0x0c, 0x0d, 0x1d, 0x1e, 0x23, 0x24], "read"),
            (
                &[
                    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0e, 0x0f, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x19, 0x1a,
                    0x1c,
                ],
                "write",
            ),
            (&[0x08, 0x18], "scan"),
            (&[0x1f, 0x25, 0xff], "UNKNOWN"),
        ] {
            for &opcode in opcodes {
                let mut frame = [0; 24];
                (frame[0], frame[1]) = (MAGIC_REQUEST, opcode);
                assert_eq!(name_of(&classifier, &frame), name, "{opcode:#x}");
                assert_eq!(name_of(&classifier, &frame[..23]), "UNKNOWN");
            }
        }
        let mut stat = [0; 29];
        (stat[0], stat[1], stat[3]) = (MAGIC_REQUEST, 0x10, 5);
        assert_eq!(name_of(&classifier, &stat), "scan");
        let mut get = [0; 25];
        (get[0], get[3]) = (MAGIC_REQUEST, 1);
        assert_eq!(name_of(&classifier, &get), "read");
        let one_key = classifier.gets(1, TypeSpec::new("single"));
        assert_eq!(name_of(&one_key, &get), "single");
    }

    #[test]
    fn thresholds_can_be_added_and_moved() {
        let classifier = MemcachedClassifier::new()
            .gets(2, TypeSpec::new("multiget").share(0.1))
            .gets(100, TypeSpec::new("bulk"));
        let types = classifier.types();
        assert_eq!(types.len(), 6);
        assert_eq!(types.by_name("multiget"), Some(RequestType::new(3)));
        assert_eq!(types.specs()[3].share, Some(0.1));
        for (keys, name) in [(1, "read"), (2, "multiget"), (99, "multiget"), (100, "bulk"), (5000, "bulk")] {
            let frame = get_of(keys) + "\r\n";
            assert_eq!(name_of(&classifier, frame.as_bytes()), name, "{keys}");
        }
    }
}
