//! RESP heads: they say what an independent parser finds, and arguments survive being encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::resp::{Args, Resp, RespHead, encode_command};
use psp_protocols::Framing;

#[path = "../../tests/stream/feed.rs"]
#[allow(dead_code)]
mod feed;
#[path = "../../tests/stream/resp_oracle.rs"]
mod oracle;

fuzz_target!(|stream: &[u8]| {
    let mut head = RespHead::default();
    let (frames, _) = feed::feed(&Resp::default(), stream, &[]);
    for frame in frames {
        // The head of another frame may find anything, but must not panic.
        let _ = Args::new(&frame, &head, &mut Vec::new());
        oracle::check_head(&frame);
        head = Resp::default().head_of(&frame).expect("the framing found it");
        let mut unescaped = Vec::new();
        let args = Args::new(&frame, &head, &mut unescaped);
        let mut encoded = Vec::new();
        encode_command(&args, &mut encoded);
        assert_eq!(oracle::arguments(&encoded), *args);
    }
    let _ = Args::new(stream, &head, &mut Vec::new());
});
