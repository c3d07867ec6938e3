//! Writes values in the plain forms, which every Redis since version 4 reads.

use psp_store::Value;

use super::kind::{Kind, StreamVersion};
use super::stream_writer::put_stream;
use super::{BYTES_PER_VISIT, put_len};

/// Appends the type of a value and the value. Calls `visit` for each part of the work.
pub(crate) fn put_value(value: &Value, visit: &dyn Fn(), out: &mut Vec<u8>) {
    let mut writer = Writer { out, visit };
    match value {
        Value::String(string) => {
            writer.out.push(Kind::String.byte());
            writer.string(string);
        }
        Value::List(list) => {
            writer.head(Kind::List, list.len());
            list.iter().for_each(|element| writer.string(&element));
        }
        Value::Hash(hash) => {
            writer.head(Kind::Hash, hash.len());
            for (field, value) in hash.in_order() {
                writer.string(&field);
                writer.string(&value);
            }
        }
        Value::Set(set) => {
            writer.head(Kind::Set, set.len());
            set.iter().for_each(|member| writer.string(&member));
        }
        Value::SortedSet(set) => {
            writer.head(Kind::SortedSet, set.len());
            for scored in set.iter() {
                writer.string(&scored.member);
                writer.out.extend(scored.score.to_le_bytes());
            }
        }
        Value::Stream(stream) => {
            writer.out.push(Kind::Stream(StreamVersion::Second).byte());
            put_stream(stream, visit, out);
        }
    }
}

struct Writer<'w> {
    out: &'w mut Vec<u8>,
    visit: &'w dyn Fn(),
}

impl Writer<'_> {
    fn head(&mut self, kind: Kind, len: usize) {
        self.out.push(kind.byte());
        put_len(len, self.out);
    }

    fn string(&mut self, bytes: &[u8]) {
        put_len(bytes.len(), self.out);
        self.out.reserve(bytes.len());
        (self.visit)();
        for chunk in bytes.chunks(BYTES_PER_VISIT) {
            (self.visit)();
            self.out.extend_from_slice(chunk);
        }
    }
}
