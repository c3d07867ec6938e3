//! memcached framing: a stream gives the same frames in one piece and byte by byte. Every frame is a
//! request or has an error for the peer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::memcached::{MemcachedFraming, binary, is_binary, text};

#[path = "../../tests/stream/feed.rs"]
mod feed;

fuzz_target!(|stream: &[u8]| {
    let framing = MemcachedFraming::default();
    let whole = feed::feed(&framing, stream, &[]);
    assert_eq!(
        whole,
        feed::feed(&framing, stream, &feed::every_byte(stream))
    );
    for frame in &whole.0 {
        let mut out = Vec::new();
        if is_binary(frame) {
            if let Err(error) = binary::Request::parse(frame).expect("the framing found it") {
                error.encode(&mut out);
                assert_eq!(out[0], binary::MAGIC_REPLY);
            }
        } else if let Err(error) = text::Request::parse(frame) {
            error.encode(&mut out);
            assert_eq!(out.is_empty(), error.noreply);
        }
    }
});
