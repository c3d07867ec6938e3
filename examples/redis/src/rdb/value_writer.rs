//! Writes values in the plain forms, which every Redis since version 4 reads. Hashes whose fields expire need 7.4.

use psp_store::Value;

use super::kind::{FieldTimes, Kind, StreamVersion};
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
        Value::Hash(hash) if hash.next_due_ms().is_some() => Kind::HashWithTimes(FieldTimes::Relative),
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
            let first_ms = hash.next_due_ms();
            if let Some(first_ms) = first_ms {
                out.put(&first_ms.to_le_bytes());
            }
            put_len(hash.len(), out);
            for (field, held) in hash.in_order().timed() {
                if let Some(first_ms) = first_ms {
                    let later = held.expire_at_ms.map_or(0, |at_ms| at_ms - first_ms + 1);
                    put_len(later as usize, out);
                }
                out.put_text(&field, visit);
                out.put_text(&held.value, visit);
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
