//! A transport without a network: feeds a byte stream to a framing in pieces. The property tests
//! and the fuzz targets share it.

use psp_protocols::{FrameError, Framing, Step};

/// The frames found in a stream, and what ended it if it was malformed.
pub(crate) type Outcome = (Vec<Vec<u8>>, Option<FrameError>);

/// Feeds `stream`, cut at `cuts`, and returns what was found. Checks what a transport relies on.
pub(crate) fn feed<F: Framing>(framing: &F, stream: &[u8], cuts: &[usize]) -> Outcome {
    let mut frames = Vec::new();
    let mut cursor = F::Cursor::default();
    let mut consumed = 0;
    for end in cuts.iter().copied().chain([stream.len()]) {
        while consumed <= end {
            let input = &stream[consumed..end];
            match framing.next_frame(&mut cursor, input) {
                Ok(Step::Frame { len }) => {
                    assert!(len >= 1 && len <= input.len());
                    let frame = &input[..len];
                    let discard = usize::try_from(framing.discard_after(frame)).unwrap();
                    frames.push(frame.to_vec());
                    consumed = (consumed + len).saturating_add(discard);
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

/// Cuts between any two bytes.
pub(crate) fn every_byte(stream: &[u8]) -> Vec<usize> {
    (0..stream.len()).collect()
}
