//! memcached framing: a stream gives the same frames in one piece and byte by byte. Every frame is a
//! request or has an error for the peer. The data of a storage command never become a frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::Framing;
use psp_protocols::memcached::{MemcachedFraming, binary, is_binary, text};

#[path = "../../tests/stream/feed.rs"]
mod feed;

/// The length of data that the line of a storage command announces, read in the simplest way.
fn announced_len(line: &[u8]) -> Option<u64> {
    let mut words = text::Words::new(line);
    let place = match words.next()? {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => 3,
        b"ms" => 1,
        _ => return None,
    };
    str::from_utf8(words.nth(place)?).ok()?.parse().ok()
}

fn strip_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

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
            continue;
        }
        let line_len = 1 + frame.iter().position(|byte| *byte == b'\n').expect("a line");
        if let Some(data_len) = announced_len(strip_end(&frame[..line_len])) {
            let end = frame.len() as u64 + framing.discard_after(frame, &());
            assert_eq!(end, line_len as u64 + data_len + 2);
        }
        if let Err(error) = text::Request::parse(frame) {
            error.encode(&mut out);
            assert_eq!(out.is_empty(), error.noreply);
        }
    }
});
