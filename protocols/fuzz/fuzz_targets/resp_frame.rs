//! RESP framing: a stream gives the same frames in one piece and byte by byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::resp::Resp;

#[path = "../../tests/stream/feed.rs"]
mod feed;

fuzz_target!(|stream: &[u8]| {
    let resp = Resp::default();
    assert_eq!(
        feed::feed(&resp, stream, &[]),
        feed::feed(&resp, stream, &feed::every_byte(stream))
    );
});
