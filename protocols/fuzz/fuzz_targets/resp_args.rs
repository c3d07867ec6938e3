//! RESP arguments: every frame parses, and its arguments survive being encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::resp::{Args, ArgsIter, Resp, encode_command};

#[path = "../../tests/stream/feed.rs"]
#[allow(dead_code)]
mod feed;

fuzz_target!(|stream: &[u8]| {
    let mut unescaped = Vec::new();
    // What is not a frame may be refused, but must not panic.
    let _ = Args::parse(stream, &mut unescaped);
    assert!(ArgsIter::new(stream).count() <= stream.len());

    let (frames, _) = feed::feed(&Resp::default(), stream, &[]);
    for frame in frames {
        let mut unescaped = Vec::new();
        let args = Args::parse(&frame, &mut unescaped).expect("the framing found it");
        let mut encoded = Vec::new();
        encode_command(&args, &mut encoded);
        let mut unused = Vec::new();
        let again = Args::parse(&encoded, &mut unused).expect("the encoder wrote it");
        assert_eq!(args[..], again[..]);
    }
});
