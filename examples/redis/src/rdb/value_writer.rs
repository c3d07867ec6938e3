//! Writes values in the plain forms, which every Redis since version 4 reads.

use psp_store::Value;

use super::kind::{Kind, StreamVersion};
use super::stream_writer::put_stream;
use super::{Out, put_len};

/// Appends the type of a value and the value. Calls `visit` for each part of the work.
pub(crate) fn put_value(value: &Value, visit: &dyn Fn(), out: &mut impl Out) {
    out.put(&[kind_of(value).byte()]);
    put_value_of(value, visit, out);
}

/// The type of the form in which a value is written.
pub(crate) fn kind_of(value: &Value) -> Kind {
    match value {
        Value::String(_) => Kind::String,
        Value::List(_) => Kind::List,
        Value::Hash(_) => Kind::Hash,
        Value::Set(_) => Kind::Set,
        Value::SortedSet(_) => Kind::SortedSet,
        Value::Stream(_) => Kind::Stream(StreamVersion::Second),
    }
}

/// Appends a value whose type has been written.
pub(crate) fn put_value_of(value: &Value, visit: &dyn Fn(), out: &mut impl Out) {
    match value {
        Value::String(string) => out.put_text(string, visit),
        Value::List(list) => {
            put_len(list.len(), out);
            list.iter().for_each(|element| out.put_text(&element, visit));
        }
        Value::Hash(hash) => {
            put_len(hash.len(), out);
            for (field, value) in hash.in_order() {
                out.put_text(&field, visit);
                out.put_text(&value, visit);
            }
        }
        Value::Set(set) => {
            put_len(set.len(), out);
            set.iter().for_each(|member| out.put_text(&member, visit));
        }
        Value::SortedSet(set) => {
            put_len(set.len(), out);
            for scored in set.iter() {
                out.put_text(&scored.member, visit);
                out.put(&scored.score.to_le_bytes());
            }
        }
        Value::Stream(stream) => put_stream(stream, visit, out),
    }
}
