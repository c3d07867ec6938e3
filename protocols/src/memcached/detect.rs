//! Text, meta and binary requests on one port.

use crate::envelope::Envelope;
use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

use super::binary::{BinaryFraming, MAGIC_REQUEST};
use super::text::{TextCursor, TextFraming};
use super::udp::UdpEnvelope;

/// [`Framing`] that takes a request for a binary one when it starts with the byte 0x80, and
/// otherwise for a line of the text protocol.
///
/// memcached looks at the first byte of a connection and holds on to what that says. This framing
/// looks at the first byte of each request, so that it need not remember anything of a connection;
/// clients that speak one protocol cannot tell the difference.
#[derive(Debug, Clone, Default)]
pub struct MemcachedFraming {
    /// Limits of text and meta requests.
    pub text: TextFraming,
    /// Limits of binary requests.
    pub binary: BinaryFraming,
}

/// Whether `frame`, or the input that starts with it, is of the binary protocol.
#[inline]
#[must_use]
pub fn is_binary(frame: &[u8]) -> bool {
    frame.first() == Some(&MAGIC_REQUEST)
}

impl Framing for MemcachedFraming {
    type Cursor = TextCursor;

    #[inline]
    fn next_frame(&self, cursor: &mut TextCursor, input: &[u8]) -> Result<Step, FrameError> {
        if is_binary(input) {
            self.binary.next_frame(&mut (), input)
        } else {
            self.text.next_frame(cursor, input)
        }
    }

    fn discard_after(&self, frame: &[u8]) -> u64 {
        if is_binary(frame) {
            self.binary.discard_after(frame)
        } else {
            self.text.discard_after(frame)
        }
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
