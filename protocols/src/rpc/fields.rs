//! Reads single fields of a message where it lies, without decoding the rest.

use super::varint::Varint;

/// Fields of a message that are looked at. A request has four, so that one with many more is not of
/// a client that means well.
pub const FIELDS_MAX: usize = 16;

/// Numbers of the fields of both messages.
pub(super) const ID: u32 = 1;
pub(super) const PAYLOAD: u32 = 4;

/// Those of requests.
pub(super) const METHOD: u32 = 2;
pub(super) const DEADLINE_US: u32 = 3;

/// Those of responses.
pub(super) const STATUS: u32 = 2;
pub(super) const ERROR: u32 = 3;

/// What a field's value looks like on the wire; see the [protobuf
/// encoding](https://protobuf.dev/programming-guides/encoding/#structure). Groups are not among
/// them: nobody sends those any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    Fixed64,
    Len,
    Fixed32,
}

impl WireType {
    /// What stands in front of the value of field `number`.
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

/// Number and wire type of a field; `None` when its tag is no valid one.
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
    (1..1 << 29)
        .contains(&number)
        .then_some((number, wire_type))
}

/// The message of a whole frame; `None` when `frame` is not one.
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

/// The fields of a message, up to the first that is malformed.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Whether the message has no more; otherwise, once the iteration has ended, it is malformed.
    pub(super) const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
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

fn first<'a, T>(frame: &'a [u8], wanted: impl Fn(u32, Value<'a>) -> Option<T>) -> Option<T> {
    // By name, for `Fields` takes bytes by a method of that name.
    let mut fields = Iterator::take(Fields::of(message_of(frame)?), FIELDS_MAX);
    fields.find_map(|(number, value)| wanted(number, value))
}

/// The method of a request, without decoding it; `None` when `frame` is no whole frame, or when its
/// first [`FIELDS_MAX`] fields are malformed or have no method.
///
/// Where a peer gives several methods this is the first, while decoding takes the last. Text that
/// is not UTF-8 is returned as it is.
#[must_use]
#[inline]
pub fn peek_method(frame: &[u8]) -> Option<&[u8]> {
    first(frame, |number, value| match (number, value) {
        (METHOD, Value::Bytes(method)) => Some(method),
        _ => None,
    })
}

/// The id of a request or response, found like its method in [`peek_method`]. Protobuf does not
/// send zeros: a message without an id has none here, and 0 when it is decoded.
#[must_use]
pub fn peek_id(frame: &[u8]) -> Option<u64> {
    first(frame, |number, value| match (number, value) {
        (ID, Value::Varint(id)) => Some(id),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let len = u8::try_from(message.len()).unwrap();
        [&[len][..], message].concat()
    }

    #[test]
    fn method_and_id_are_found_wherever_they_stand() {
        let request = Request {
            id: 300,
            method: "Get".to_owned(),
            deadline_us: 7,
            payload: vec![b'x'; 200].into(),
        };
        let mut frame = Vec::new();
        request.encode_frame(&mut frame);
        assert_eq!(peek_method(&frame), Some(&b"Get"[..]));
        assert_eq!(peek_id(&frame), Some(300));
        // Unknown fields of all wire types, then method and id.
        let message = [
            &[0x28, 1][..],
            b"\x39\0\0\0\0\0\0\0\0",
            b"\x45\0\0\0\0",
            b"\x4a\x02hi",
            b"\x12\x01M",
            b"\x08\x05",
        ];
        let frame = framed(&message.concat());
        assert_eq!(
            (peek_method(&frame), peek_id(&frame)),
            (Some(&b"M"[..]), Some(5))
        );
    }

    #[test]
    fn what_has_none_has_none() {
        let crowded = [&b"\x28\x01".repeat(FIELDS_MAX)[..], b"\x12\x01M"].concat();
        for message in [
            &b""[..],
            b"\x12",
            b"\x12\x02M",
            b"\x10\x05",
            b"\x02\x01M",
            b"\x13\x12\x01M",
            &crowded,
        ] {
            assert_eq!(peek_method(&framed(message)), None, "{message:x?}");
        }
        assert_eq!(peek_method(b"\x04\x12\x01M"), None, "a part of a frame");
        assert_eq!(peek_method(b"\x03\x12\x01Mx"), None, "more than a frame");
        assert_eq!(peek_id(b""), None);
    }
}
