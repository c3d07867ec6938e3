//! RESP framing: a stream gives the same frames in one piece and byte by byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::resp::Resp;
use psp_protocols_fuzz::frames;

fuzz_target!(|stream: &[u8]| {
    let resp = Resp::default();
    assert_eq!(
        frames(&resp, stream, stream.len().max(1)),
        frames(&resp, stream, 1)
    );
});
