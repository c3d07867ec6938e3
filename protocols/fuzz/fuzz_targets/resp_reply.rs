//! RESP replies: a reply has the same length in one piece and byte by byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::resp::{ReplyParser, ReplyStep};

fuzz_target!(|stream: &[u8]| {
    let whole = ReplyParser::new().next_reply(stream);
    let mut parser = ReplyParser::new();
    let mut step = Ok(ReplyStep::NeedMore);
    for end in 0..=stream.len() {
        step = parser.next_reply(&stream[..end]);
        if step != Ok(ReplyStep::NeedMore) {
            break;
        }
    }
    assert_eq!(step, whole);
    if let Ok(ReplyStep::Reply { len, .. }) = whole {
        assert!(len <= stream.len());
    }
});
