//! What the fuzz targets share: a transport without a network.

use psp_protocols::{FrameError, Framing, Step};

/// Feeds `stream` to `framing` in pieces of `piece_len` bytes; returns the frames and what ended
/// the stream if it was malformed.
pub fn frames<'a, F: Framing>(
    framing: &F,
    stream: &'a [u8],
    piece_len: usize,
) -> (Vec<&'a [u8]>, Option<FrameError>) {
    let mut frames = Vec::new();
    let mut cursor = F::Cursor::default();
    let mut consumed = 0;
    let mut available = 0;
    while available < stream.len() {
        available = stream.len().min(available + piece_len);
        loop {
            let input = &stream[consumed..available];
            match framing.next_frame(&mut cursor, input) {
                Ok(Step::Frame { len }) => {
                    assert!(len >= 1);
                    frames.push(&input[..len]);
                    consumed += len;
                }
                Ok(Step::NeedMore { len_min }) => {
                    assert!(len_min > input.len());
                    break;
                }
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}
