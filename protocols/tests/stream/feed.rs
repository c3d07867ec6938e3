//! A transport without a network: feeds a byte stream to a framing in pieces. The property tests
//! and the fuzz targets share it.

use psp_protocols::{FrameError, Framing, Step};

/// The frames in a stream, and the error if it was malformed.
pub(crate) type Outcome = (Vec<Vec<u8>>, Option<FrameError>);

/// Feeds `stream`, which is cut at `cuts`. Checks the promises of a framing that transports rely on, and
/// that a frame has the same head whole and in pieces.
pub(crate) fn feed<F>(framing: &F, stream: &[u8], cuts: &[usize]) -> Outcome
where
    F: Framing,
    F::Head: PartialEq + std::fmt::Debug,
{
    let mut frames = Vec::new();
    let mut cursor = F::Cursor::default();
    let mut consumed = 0;
    for end in cuts.iter().copied().chain([stream.len()]) {
        while consumed <= end {
            let input = &stream[consumed..end];
            match framing.next_frame(&mut cursor, input) {
                Ok(Step::Frame { len, head }) => {
                    assert!(len >= 1 && len <= input.len());
                    let frame = &input[..len];
                    let discard = usize::try_from(framing.discard_after(frame, &head)).unwrap();
                    assert_eq!(framing.head_of(frame), Some(head));
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

/// Cuts between all bytes.
pub(crate) fn every_byte(stream: &[u8]) -> Vec<usize> {
    (0..stream.len()).collect()
}
