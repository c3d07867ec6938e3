//! What the traits do unless a protocol says otherwise, and encoders that write to any sink.

use bytes::{Bytes, BytesMut};
use psp_protocols::envelope::Bare;
use psp_protocols::memcached::meta;
use psp_protocols::resp::{Encoder, Version};
use psp_protocols::{Envelope, FrameError, Framing, Rejection, Sink, Step};

struct Pairs;

impl Framing for Pairs {
    type Cursor = ();
    type Head = ();

    fn next_frame(&self, (): &mut (), input: &[u8]) -> Result<Step, FrameError> {
        Ok(if input.len() < 2 {
            Step::NeedMore { len_min: 2 }
        } else {
            Step::Frame { len: 2, head: () }
        })
    }

    fn encode_rejection(&self, _: &Rejection<'_>, _: &[u8], _: &mut dyn Sink) {}
}

#[test]
fn a_framing_has_defaults() {
    assert_eq!((Pairs.head_of(b"a"), Pairs.head_of(b"ab"), Pairs.head_of(b"abc")), (None, Some(()), None));
    assert!(Pairs.replies_in_order() && !Pairs.closes_after(b"ab", &()) && !Pairs.is_reply(b"ab", &()));
    assert_eq!((Pairs.discard_after(b"ab", &()), Pairs.deadline(&())), (0, None));
    assert!(Bare.accepts(b""));
}

/// It has room for four bytes, and knows what it could share.
#[derive(Default)]
struct Tight {
    copied: Vec<u8>,
    shared: Vec<Bytes>,
}

impl Sink for Tight {
    fn put(&mut self, bytes: &[u8]) {
        self.copied.put(bytes);
    }

    fn put_shared(&mut self, bytes: Bytes) {
        self.shared.push(bytes);
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        bytes <= 4
    }
}

#[test]
fn encoders_write_to_the_sink_behind_a_reference() {
    let mut sink = Tight::default();
    let mut reference = &mut sink;
    let mut encoder = Encoder::new(&mut reference, Version::Resp3);
    assert_eq!(encoder.version(), Version::Resp3);
    assert!(encoder.reserve(4) && !encoder.reserve(5));
    encoder.raw(b"copied");
    encoder.raw_shared(Bytes::from_static(b"one"));
    meta::Reply::value(&mut reference, 3).data_shared(Bytes::from_static(b"two"));
    assert_eq!(sink.copied, b"copiedVA 3\r\n\r\n");
    assert_eq!(sink.shared, ["one", "two"]);
}

#[test]
fn buffers_have_room_and_copy() {
    let mut buffer = BytesMut::new();
    assert!(Sink::reserve(&mut buffer, usize::MAX));
    buffer.put_shared(Bytes::from_static(b"ab"));
    assert_eq!(&buffer[..], b"ab");
}
