//! Reads single fields of a message in place, without decoding the rest.

use super::varint::Varint;

/// Most fields of a message that are read. A request has four fields: a message with many more is not
/// from a well-meaning client.
pub const FIELDS_MAX: usize = 16;

/// Field number in both messages.
pub(super) const ID: u32 = 1;
pub(super) const PAYLOAD: u32 = 4;

/// Field numbers of requests.
pub(super) const METHOD: u32 = 2;
pub(super) const DEADLINE_US: u32 = 3;

/// Field numbers of responses.
pub(super) const STATUS: u32 = 2;
pub(super) const ERROR: u32 = 3;

/// The wire type of a field; see the [protobuf
/// encoding](https://protobuf.dev/programming-guides/encoding/#structure). Groups are left out: they
/// are obsolete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    Fixed64,
    Len,
    Fixed32,
}

impl WireType {
    /// The tag in front of the value of field `number`.
    pub(super) const fn tag(self, number: u32) -> u64 {
        let bits = match self {
            Self::Varint => 0,
            Self::Fixed64 => 1,
            Self::Len => 2,
            Self::Fixed32 => 5,
        };
        (number as u64) << 3 | bits
    }
}

/// Number and wire type of a field; `None` when the tag is invalid.
#[inline]
pub(super) fn field_of(tag: u64) -> Option<(u32, WireType)> {
    let wire_type = match tag & 7 {
        0 => WireType::Varint,
        1 => WireType::Fixed64,
        2 => WireType::Len,
        5 => WireType::Fixed32,
        _ => return None,
    };
    let number = u32::try_from(tag >> 3).ok()?;
    (1..1 << 29).contains(&number).then_some((number, wire_type))
}

/// The message in `frame`; `None` when `frame` is not exactly one frame.
#[inline]
pub(super) fn message_of(frame: &[u8]) -> Option<&[u8]> {
    let (len, prefix_len) = Varint::read(frame).ok()??;
    let message = &frame[prefix_len..];
    (len == message.len() as u64).then_some(message)
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// The fields of a message, up to the first malformed field.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Whether all bytes were read. If the iteration has ended and this is false, the message is
    /// malformed.
    pub(super) const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes that no field was read from yet.
    pub(super) const fn len_left(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let (number, wire_type) = field_of(self.varint()?)?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(self.varint()?),
            WireType::Len => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            WireType::Fixed64 => self.take(8).map(|_| Value::Fixed)?,
            WireType::Fixed32 => self.take(4).map(|_| Value::Fixed)?,
        };
        Some((number, value))
    }

    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let (value, len) = Varint::read(self.rest).ok()??;
        self.rest = &self.rest[len..];
        Some(value)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut ahead = Self { rest: self.rest };
        let field = ahead.field()?;
        self.rest = ahead.rest;
        Some(field)
    }
}

/// The id of a request or response, without decoding it. `None` when `frame` is not exactly one frame, or
/// when its first [`FIELDS_MAX`] fields are malformed or have no id. Protobuf does not encode zeros: a
/// message with id 0 has no id here, and id 0 when it is decoded.
#[must_use]
pub fn peek_id(frame: &[u8]) -> Option<u64> {
    // Called by its path, because `Fields` has a method `take` of its own.
    let mut fields = Iterator::take(Fields::of(message_of(frame)?), FIELDS_MAX);
    fields.find_map(|(number, value)| match (number, value) {
        (ID, Value::Varint(id)) => Some(id),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        assert_eq!(peek_id(b"\x06\x12\x01M\x08\xac\x02"), Some(300));
        let crowded = [&b"\x22"[..], &b"\x28\x01".repeat(FIELDS_MAX), b"\x08\x05"].concat();
        for frame in [&b""[..], b"\0", b"\x01\x08", b"\x02\x08\x05x", b"\x03\x08\x05", b"\x02\x10\x05", &crowded] {
            assert_eq!(peek_id(frame), None, "{frame:x?}");
        }
    }
}
