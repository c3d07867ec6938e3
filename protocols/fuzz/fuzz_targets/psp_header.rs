//! The psp header: decoding inverts encoding, and framing does not depend on how a stream is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::psp_header::{HEADER_LEN, Header, PspFraming, decode_wait, encode_wait};

#[path = "../../tests/stream/feed.rs"]
mod feed;

fuzz_target!(|stream: &[u8]| {
    if let Ok(header) = Header::decode(stream) {
        assert_eq!(header.encode(), stream[..HEADER_LEN]);
    }
    let wait_ns = decode_wait(stream);
    assert!(wait_ns == 0 || encode_wait(wait_ns) == stream);
    let framing = PspFraming::default();
    assert_eq!(
        feed::feed(&framing, stream, &[]),
        feed::feed(&framing, stream, &feed::every_byte(stream))
    );
});
