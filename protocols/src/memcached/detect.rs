//! Text, meta and binary requests on one port.

use crate::envelope::Envelope;
use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;
use crate::skip::ReplyGrammar;

use super::binary::{BinaryFraming, MAGIC_REPLY, MAGIC_REQUEST};
use super::replies::MemcachedReplies;
use super::text::{TextCursor, TextFraming, split_line};
use super::udp::UdpEnvelope;

/// Length of a request that a client may send before it has authenticated: a name and a password need less.
const UNAUTHENTICATED_LEN_MAX: usize = 4096;

/// [`Framing`] of all memcached protocols. A request that starts with the byte 0x80 is a binary
/// request; any other is a line of the text protocol.
///
/// memcached chooses the protocol of a connection by its first byte. This framing looks at the first
/// byte of each request, so that it need not remember anything about a connection. Clients that speak
/// one protocol see no difference.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MemcachedFraming {
    /// Limits of text and meta requests.
    pub text: TextFraming,
    /// Limits of binary requests.
    pub binary: BinaryFraming,
}

limits! {
    MemcachedFraming: text: TextFraming, binary: BinaryFraming,
}

/// Whether `frame`, or input with an incomplete frame, is of the binary protocol.
#[inline]
#[must_use]
pub fn is_binary(frame: &[u8]) -> bool {
    frame.first() == Some(&MAGIC_REQUEST)
}

impl Framing for MemcachedFraming {
    type Cursor = TextCursor;
    type Head = ();

    #[inline]
    fn next_frame(&self, cursor: &mut TextCursor, input: &[u8]) -> Result<Step, FrameError> {
        if is_binary(input) {
            self.binary.next_frame(&mut (), input)
        } else {
            self.text.next_frame(cursor, input)
        }
    }

    fn next_frame_unauthenticated(&self, cursor: &mut TextCursor, input: &[u8]) -> Result<Step, FrameError> {
        match self.next_frame(cursor, input)? {
            Step::NeedMore { len_min } if len_min > UNAUTHENTICATED_LEN_MAX => {
                Err(FrameError::new("too long before authentication"))
            }
            step => Ok(step),
        }
    }

    fn discard_after(&self, frame: &[u8], _head: &()) -> u64 {
        if is_binary(frame) {
            self.binary.discard_after(frame, &())
        } else {
            self.text.discard_after(frame, &())
        }
    }

    fn is_reply(&self, message: &[u8], _head: &()) -> bool {
        message.first() == Some(&MAGIC_REPLY) || MemcachedReplies::default().line(split_line(message).0).is_ok()
    }

    fn envelope(&self) -> &dyn Envelope {
        &UdpEnvelope
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        if is_binary(request) {
            self.binary.encode_rejection(rejection, request, out);
        } else {
            self.text.encode_rejection(rejection, request, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_may_send_a_password_and_no_item() {
        let framing = MemcachedFraming::default();
        let next = |input: &[u8]| framing.next_frame_unauthenticated(&mut TextCursor::default(), input);
        assert!(next(b"set user 0 0 4000\r\n").is_ok());
        assert!(next(b"set user 0 0 5000\r\n").is_err());
        let mut binary = [0; 24];
        (binary[0], binary[1]) = (MAGIC_REQUEST, 0x21);
        for (len, is_ok) in [(4096 - 24_u32, true), (4097 - 24, false)] {
            binary[8..12].copy_from_slice(&len.to_be_bytes());
            assert_eq!(next(&binary).is_ok(), is_ok, "{len}");
        }
    }

    #[test]
    fn replies_are_told_from_requests() {
        let framing = MemcachedFraming::default();
        for reply in [
            &b"ERROR\r\n"[..],
            b"CLIENT_ERROR bad command line format\r\n",
            b"END\r\n",
            b"STORED\r\n",
            b"VALUE k 0 1\r\n",
            b"HD c1\r\n",
            b"MN\r\n",
            b"17\r\n",
            b"\x81\0\0\n",
        ] {
            assert!(framing.is_reply(reply, &()), "{}", reply.escape_ascii());
        }
        for request in [
            &b"mn\r\n"[..],
            b"get END\r\n",
            b"set STORED 0 0 1\r\nx\r\n",
            b"version\r\n",
            b"hello\r\n",
            b"\r\n",
            b"\x80\n",
        ] {
            assert!(!framing.is_reply(request, &()), "{}", request.escape_ascii());
        }
    }
}
