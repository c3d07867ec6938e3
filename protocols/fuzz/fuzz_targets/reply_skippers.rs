//! Skippers: a stream has the same replies in one piece and byte by byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use psp_protocols::memcached::MemcachedSkipper;
use psp_protocols::resp::RespSkipper;
use psp_protocols::skip::{NotAReply, Outcome, ReplySkipper, Skipped};

/// Ends and outcomes of the replies in `stream`, which arrives in pieces of `piece_len` bytes.
fn replies<S: ReplySkipper + Default>(
    stream: &[u8],
    piece_len: usize,
) -> (Vec<(usize, Outcome)>, Option<NotAReply>) {
    let mut skipper = S::default();
    let mut found = Vec::new();
    let mut consumed = 0;
    for piece in stream.chunks(piece_len) {
        let end = consumed + piece.len();
        while consumed < end {
            match skipper.skip(&stream[consumed..end]) {
                Ok(Skipped::Reply { len, outcome }) => {
                    consumed += len;
                    found.push((consumed, outcome));
                }
                Ok(Skipped::NeedMore) => consumed = end,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fuzz_target!(|stream: &[u8]| {
    let whole_len = stream.len().max(1);
    assert_eq!(
        replies::<RespSkipper>(stream, 1),
        replies::<RespSkipper>(stream, whole_len)
    );
    assert_eq!(
        replies::<MemcachedSkipper>(stream, 1),
        replies::<MemcachedSkipper>(stream, whole_len)
    );
});
