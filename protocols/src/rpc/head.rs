//! The head of a request: its numbers, and where its method and payload are.

use std::time::Duration;

use crate::framing::FrameError;

use super::fields::{DEADLINE_US, FIELDS_MAX, Fields, ID, METHOD, PAYLOAD, Value};
use super::message::{RequestRef, text_of};

/// The fields of a request: numbers as values, the others as places in the frame.
///
/// [`Rpc`](super::Rpc) makes it when a frame is complete, from the first [`FIELDS_MAX`] fields. A message with
/// more, or one that is malformed, is decoded again by [`request`](Self::request).
///
/// The methods take the frame that the head was made for. With another frame the parts are wrong, and nothing
/// worse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RpcHead {
    id: u64,
    deadline_us: u64,
    method: Place,
    payload: Place,
    /// The message is well-formed up to its end, and these are its fields.
    complete: bool,
}

/// The range of a field in its frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    start: u32,
    end: u32,
}

impl Place {
    /// Of the last `len` bytes before `end`; empty where offsets have more than 32 bits.
    fn before(end: usize, len: usize) -> Self {
        let place = |at: usize| u32::try_from(at).ok();
        match (place(end - len), place(end)) {
            (Some(start), Some(end)) => Self { start, end },
            _ => Self::default(),
        }
    }

    #[inline]
    fn of(self, frame: &[u8]) -> &[u8] {
        let bytes = frame.get(self.start as usize..self.end as usize);
        bytes.unwrap_or_default()
    }
}

impl RpcHead {
    /// The head of `frame`, whose message begins at `message_start`.
    #[inline]
    pub(super) fn read(frame: &[u8], message_start: usize) -> Self {
        let mut head = Self::default();
        // A message with several methods is well-formed if all of them are text.
        let mut one_method = true;
        let mut fields = Fields::of(&frame[message_start..]);
        for _ in 0..FIELDS_MAX {
            let Some((number, value)) = fields.next() else {
                break;
            };
            let end = frame.len() - fields.len_left();
            match (number, value) {
                (ID, Value::Varint(id)) => head.id = id,
                (METHOD, Value::Bytes(method)) => {
                    one_method &= head.method == Place::default();
                    head.method = Place::before(end, method.len());
                }
                (DEADLINE_US, Value::Varint(deadline_us)) => head.deadline_us = deadline_us,
                (PAYLOAD, Value::Bytes(payload)) => {
                    head.payload = Place::before(end, payload.len());
                }
                (ID | METHOD | DEADLINE_US | PAYLOAD, _) => return head,
                _ => {}
            }
        }
        head.complete = one_method && fields.is_at_end() && u32::try_from(frame.len()).is_ok();
        head
    }

    /// The method's name; `None` where the first [`FIELDS_MAX`] fields have none. Text that is not UTF-8 is
    /// returned as it is.
    #[inline]
    #[must_use]
    pub fn method<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        Some(self.method.of(frame)).filter(|method| !method.is_empty())
    }

    /// How long the client waits for the response; `None` if it does not say, or the message has to be decoded
    /// again for it.
    #[inline]
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let is_known = self.complete && self.deadline_us > 0;
        is_known.then(|| Duration::from_micros(self.deadline_us))
    }

    /// The request in `frame`, as [`RequestRef::from_frame`] decodes it.
    ///
    /// # Errors
    /// When the message of the frame is no `Request`.
    #[inline]
    pub fn request<'a>(&self, frame: &'a [u8]) -> Result<RequestRef<'a>, FrameError> {
        if !self.complete {
            return RequestRef::from_frame(frame);
        }
        Ok(RequestRef {
            id: self.id,
            method: text_of(self.method.of(frame))?,
            deadline_us: self.deadline_us,
            payload: self.payload.of(frame),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Request, Rpc};
    use super::*;
    use crate::framing::Framing;

    fn head_of(frame: &[u8]) -> RpcHead {
        Rpc::default().head_of(frame).expect("a whole frame")
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let len = u8::try_from(message.len()).unwrap();
        [&[len][..], message].concat()
    }

    #[test]
    fn parts_are_found_wherever_they_stand() {
        let request = Request {
            id: 300,
            method: "Get".to_owned(),
            deadline_us: 7,
            payload: vec![b'x'; 200].into(),
        };
        let mut frame = Vec::new();
        request.encode_frame(&mut frame);
        let head = head_of(&frame);
        assert_eq!(head.method(&frame), Some(&b"Get"[..]));
        assert!(head.complete);
        assert_eq!(head.deadline(), Some(Duration::from_micros(7)));
        assert_eq!(head.request(&frame), RequestRef::from_frame(&frame));
        // Unknown fields of all wire types, then a method that another replaces, and the id.
        let message = [
            &[0x28, 1][..],
            b"\x39\0\0\0\0\0\0\0\0",
            b"\x45\0\0\0\0",
            b"\x4a\x02hi",
            b"\x12\x01K",
            b"\x12\x01M",
            b"\x08\x05",
        ];
        let frame = framed(&message.concat());
        let head = head_of(&frame);
        assert_eq!(head.method(&frame), Some(&b"M"[..]));
        assert_eq!(head.request(&frame).map(|request| request.id), Ok(5));
        assert_eq!(head.deadline(), None, "it has none");
    }

    #[test]
    fn messages_without_a_method_have_none() {
        let crowded = [&b"\x28\x01".repeat(FIELDS_MAX)[..], b"\x12\x01M"].concat();
        for message in [
            &b""[..],
            b"\x12",
            b"\x12\0",
            b"\x12\x02M",
            b"\x10\x05",
            b"\x02\x01M",
            b"\x13\x12\x01M",
            &crowded,
        ] {
            let frame = framed(message);
            let head = head_of(&frame);
            assert_eq!(head.method(&frame), None, "{message:x?}");
            assert_eq!(head.request(&frame), RequestRef::from_frame(&frame));
        }
        assert_eq!(RpcHead::default().method(b"\0"), None);
    }

    #[test]
    fn the_head_of_another_frame_does_no_harm() {
        let frame = framed(b"\x12\x05Reset\x22\x01x");
        for other in [&b""[..], b"\0", &frame[..4], b"\x03\x12\x01M"] {
            assert_eq!(head_of(&frame).method(other).map(<[u8]>::len).unwrap_or(0), 0);
            let _ = head_of(&frame).request(other);
        }
    }
}
