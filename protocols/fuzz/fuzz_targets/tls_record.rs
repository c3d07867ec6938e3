#![no_main]
//! Bytes of records do not depend on how many came before: what is whole stays whole, and what follows is a part of a
//! record.

use libfuzzer_sys::fuzz_target;

// The server's own file, which needs nothing else of the server.
#[path = "../../../psp-server/src/transport/tls/record.rs"]
mod record;

fuzz_target!(|stream: &[u8]| {
    let whole = record::whole_len(stream);
    assert_eq!(record::whole_len(&stream[..whole]), whole);
    assert_eq!(record::whole_len(&stream[whole..]), 0);
    let mut last = 0;
    for len in 0..=stream.len().min(256) {
        let now = record::whole_len(&stream[..len]);
        assert!((last..=len).contains(&now), "{now} of {len} bytes");
        last = now;
    }
});
