//! Byte streams, and places to cut them.

mod feed;
pub(crate) mod replies;
pub(crate) mod resp_oracle;

use proptest::prelude::*;

pub(crate) use feed::{every_byte, feed};

/// Places to cut a stream of `len` bytes, in order.
pub(crate) fn cuts(len: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..=len, 0..12).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts
    })
}

/// A stream together with places to cut it.
pub(crate) fn with_cuts(stream: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    stream.prop_flat_map(|stream| {
        let len = stream.len();
        (Just(stream), cuts(len))
    })
}
