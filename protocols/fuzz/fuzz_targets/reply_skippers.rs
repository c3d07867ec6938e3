//! Skippers: a stream has the same replies in one piece and byte by byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::http::HttpSkipper;
use psp_protocols::memcached::MemcachedSkipper;
use psp_protocols::resp::RespSkipper;

#[path = "../../tests/stream/replies.rs"]
mod replies;

use replies::skip_all;

fuzz_target!(|stream: &[u8]| {
    let whole_len = stream.len().max(1);
    assert_eq!(
        skip_all::<RespSkipper>(stream, &[1]),
        skip_all::<RespSkipper>(stream, &[whole_len])
    );
    assert_eq!(
        skip_all::<MemcachedSkipper>(stream, &[1]),
        skip_all::<MemcachedSkipper>(stream, &[whole_len])
    );
    assert_eq!(
        skip_all::<HttpSkipper>(stream, &[1]),
        skip_all::<HttpSkipper>(stream, &[whole_len])
    );
});
