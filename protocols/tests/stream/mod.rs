//! Byte streams and the places to cut them at.

mod feed;

use proptest::prelude::*;

pub(crate) use feed::{every_byte, feed};

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
