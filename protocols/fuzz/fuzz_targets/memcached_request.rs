//! memcached requests: parses arbitrary bytes, without a framing, as requests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::memcached::{KEY_LEN_MAX, binary, meta, text};

fuzz_target!(|frame: &[u8]| {
    if let Some(Ok(request)) = binary::Request::parse(frame) {
        assert!(request.key.len() <= KEY_LEN_MAX);
    }
    match text::Request::parse(frame) {
        Ok(text::Request::Get(get)) => assert!(get.keys.count() <= frame.len()),
        Ok(text::Request::Store(store)) => assert!(store.data.len() <= frame.len()),
        Ok(text::Request::Meta(meta::Request::Get(keyed))) => {
            let mut buffer = [0; KEY_LEN_MAX];
            assert!(keyed.key.decode(&mut buffer).is_some());
            for flag in keyed.flags.in_order() {
                assert!(keyed.flags.has(flag.code));
            }
        }
        _ => {}
    }
});
