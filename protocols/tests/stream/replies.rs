//! A client without a network: feeds a reply stream to a skipper in pieces. The property tests and
//! the fuzz targets share it.

use psp_protocols::skip::{NotAReply, Outcome, ReplySkipper, Skipped};

/// The end and the outcome of each reply, and the error if the stream was malformed.
pub(crate) type Replies = (Vec<(usize, Outcome)>, Option<NotAReply>);

/// Feeds `stream` to a new skipper, in pieces of `piece_lens`, which are repeated.
pub(crate) fn skip_all<S: ReplySkipper + Default>(stream: &[u8], piece_lens: &[usize]) -> Replies {
    let mut skipper = S::default();
    let mut found = Vec::new();
    let mut consumed = 0;
    let mut piece_lens = piece_lens.iter().cycle();
    while consumed < stream.len() {
        let piece_len = piece_lens.next().expect("there are pieces");
        let end = stream.len().min(consumed + piece_len);
        while consumed < end {
            let input = &stream[consumed..end];
            match skipper.skip(input) {
                Ok(Skipped::Reply { len, outcome }) => {
                    assert!(len >= 1 && len <= input.len());
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
