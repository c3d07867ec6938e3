//! A transport without a network: feeds a byte stream to a framing in pieces.

use proptest::prelude::*;
use psp_protocols::{FrameError, Framing, Step};

/// The frames found in a stream, and what ended it if it was malformed.
pub(crate) type Outcome = (Vec<Vec<u8>>, Option<FrameError>);

/// Feeds `stream`, cut at `cuts`, and returns what was found. Checks what a transport relies on.
pub(crate) fn feed<F: Framing>(framing: &F, stream: &[u8], cuts: &[usize]) -> Outcome {
    let mut frames = Vec::new();
    let mut cursor = F::Cursor::default();
    let mut consumed = 0;
    for end in cuts.iter().copied().chain([stream.len()]) {
        loop {
            let input = &stream[consumed..end];
            match framing.next_frame(&mut cursor, input) {
                Ok(Step::Frame { len }) => {
                    assert!(len >= 1 && len <= input.len());
                    frames.push(input[..len].to_vec());
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

/// Places to cut a stream of `len` bytes at, in order.
pub(crate) fn cuts(len: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..=len, 0..12).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts
    })
}

/// A stream together with places to cut it at.
pub(crate) fn with_cuts(
    stream: impl Strategy<Value = Vec<u8>>,
) -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    stream.prop_flat_map(|stream| {
        let len = stream.len();
        (Just(stream), cuts(len))
    })
}

/// Cuts between any two bytes.
pub(crate) fn every_byte(stream: &[u8]) -> Vec<usize> {
    (0..stream.len()).collect()
}
