//! Replies of many elements. They are encoded from a snapshot, with a checkpoint after each batch.

use bytes::Bytes;
use psp_protocols::Sink;
use psp_protocols::resp::{Encoder, SHARED_LEN_MIN, Version};
use psp_server::checkpoint;
use psp_store::{ElementRef, Hash, Scored};

use super::pace;
use crate::command::ReplyEncoder;

/// What a bulk string has around its bytes: a marker, a length and two line ends.
const BULK_FRAME_LEN_MAX: usize = 1 + 20 + 2 + 2;

/// Bytes gathered before they are written to the reply.
const BATCH_BYTES: usize = 2048;

/// Gathers many small writes into a few larger ones, because each write to a reply is a virtual
/// call.
pub(super) struct Batch<'b, 'o> {
    out: &'b mut ReplyEncoder<'o>,
    bytes: [u8; BATCH_BYTES],
    len: usize,
}

impl Batch<'_, '_> {
    fn flush(&mut self) {
        self.out.raw(&self.bytes[..self.len]);
        self.len = 0;
        checkpoint();
    }
}

/// Copies a few bytes to the beginning of `to`, without a call for up to 16.
#[inline]
fn copy(to: &mut [u8], bytes: &[u8]) {
    let to = &mut to[..bytes.len()];
    // The first and the last of them, which may overlap.
    macro_rules! copied {
        ($n:literal) => {
            if let (Some(first), Some(last)) = (bytes.first_chunk::<$n>(), bytes.last_chunk::<$n>())
                && bytes.len() <= 2 * $n
            {
                *to.first_chunk_mut().expect("as long") = *first;
                *to.last_chunk_mut().expect("as long") = *last;
                return;
            }
        };
    }
    copied!(2);
    copied!(4);
    copied!(8);
    to.copy_from_slice(bytes);
}

impl Sink for Batch<'_, '_> {
    #[inline]
    fn put_pieces(&mut self, pieces: [&[u8]; 3]) {
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if len > BATCH_BYTES {
            return pieces.iter().for_each(|piece| self.put(piece));
        }
        if len > BATCH_BYTES - self.len {
            self.flush();
        }
        for piece in pieces {
            copy(&mut self.bytes[self.len..], piece);
            self.len += piece.len();
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > BATCH_BYTES - self.len {
            self.flush();
            if bytes.len() > BATCH_BYTES {
                self.out.raw(bytes);
                return;
            }
        }
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn put_shared(&mut self, bytes: Bytes) {
        self.flush();
        self.out.raw_shared(bytes);
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        self.out.reserve(self.len + bytes)
    }
}

/// Writes a part of a reply in batches.
pub(super) fn batched(out: &mut ReplyEncoder<'_>, write: impl FnOnce(&mut Encoder<'_, Batch<'_, '_>>)) {
    let version = out.version();
    let mut batch = Batch { out, bytes: [0; BATCH_BYTES], len: 0 };
    write(&mut Encoder::new(&mut batch, version));
    batch.flush();
}

/// Length of a piece of [`Gathered`].
const PIECE_BYTES: usize = 32 * 1024;

/// Bulk strings of an array whose length is known only after the last one.
pub(super) struct Gathered<'b, 'o> {
    out: &'b mut ReplyEncoder<'o>,
    pieces: Vec<Bytes>,
    last: Vec<u8>,
    len: usize,
    /// Those of `pieces`.
    bytes: usize,
    /// The reply is too large.
    is_refused: bool,
}

impl<'b, 'o> Gathered<'b, 'o> {
    pub(super) fn new(out: &'b mut ReplyEncoder<'o>) -> Self {
        Self {
            out,
            pieces: Vec::new(),
            last: Vec::new(),
            len: 0,
            bytes: 0,
            is_refused: false,
        }
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        let needed = bytes.len() + BULK_FRAME_LEN_MAX;
        if self.last.capacity() - self.last.len() < needed && !self.begin_piece(needed) {
            return;
        }
        // Both versions write bulk strings alike.
        Encoder::new(&mut self.last, Version::Resp2).bulk(bytes);
        self.len += 1;
    }

    /// Begins a piece of at least `needed` bytes, if the reply may have it.
    fn begin_piece(&mut self, needed: usize) -> bool {
        self.bytes += self.last.len();
        if self.is_refused || !self.out.reserve(self.bytes + needed) {
            self.is_refused = true;
            self.pieces.clear();
            self.last = Vec::new();
            return false;
        }
        let next = Vec::with_capacity(needed.max(PIECE_BYTES));
        let last = std::mem::replace(&mut self.last, next);
        self.pieces.push(last.into());
        true
    }

    pub(super) fn write_array(mut self) {
        self.out.array(self.len);
        self.pieces.push(self.last.into());
        for piece in self.pieces {
            self.out.raw_shared(piece);
            checkpoint();
        }
    }
}

/// An element as a bulk string. A long element is shared with the store, not copied.
pub(super) fn element<'e, S: Sink + ?Sized>(out: &mut Encoder<'_, S>, element: impl Into<ElementRef<'e>>) {
    let element = element.into();
    if element.len() < SHARED_LEN_MIN {
        out.bulk(&element);
    } else {
        out.bulk_shared(element.to_bytes());
    }
}

/// An element, or null if there is none.
pub(super) fn element_or_null<'e>(out: &mut ReplyEncoder<'_>, value: Option<impl Into<ElementRef<'e>>>) {
    match value {
        Some(value) => element(out, value),
        None => out.null(),
    }
}

/// Elements without a header.
pub(super) fn elements<'e>(out: &mut ReplyEncoder<'_>, elements: impl Iterator<Item = impl Into<ElementRef<'e>>>) {
    batched(out, |out| elements.for_each(|item| element(out, item)));
}

/// An array of elements.
pub(super) fn array<'e>(out: &mut ReplyEncoder<'_>, items: impl ExactSizeIterator<Item = impl Into<ElementRef<'e>>>) {
    pace::begins(items.len());
    out.array(items.len());
    elements(out, items);
}

/// A set of elements; an array in RESP2.
pub(super) fn set<'e>(out: &mut ReplyEncoder<'_>, items: impl ExactSizeIterator<Item = impl Into<ElementRef<'e>>>) {
    pace::begins(items.len());
    out.set(items.len());
    elements(out, items);
}

/// All fields of a hash with their values; a flat array in RESP2.
pub(super) fn map(out: &mut ReplyEncoder<'_>, hash: &Hash) {
    pace::begins(hash.len());
    out.map(hash.len());
    batched(out, |out| {
        hash.in_order().for_each(|(field, value)| {
            element(out, field);
            element(out, value);
        });
    });
}

/// Whether and how a reply pairs its members with scores or values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pairing {
    /// Members only.
    #[default]
    Alone,
    /// RESP3: an array of two per member. RESP2: a flat array.
    Paired,
    /// An array of two per member in both versions.
    PairedAlways,
}

impl Pairing {
    /// Writes the header of a reply of `len` members. Returns whether each member is its own array.
    pub(super) fn head<S: Sink + ?Sized>(self, out: &mut Encoder<'_, S>, len: usize) -> bool {
        let nested = match self {
            Self::Alone => false,
            Self::Paired => out.version() == psp_protocols::resp::Version::Resp3,
            Self::PairedAlways => true,
        };
        out.array(if self == Self::Paired && !nested { len * 2 } else { len });
        nested
    }
}

/// Members of a sorted set, with their scores if `pairing` asks for them.
pub(super) fn scored<'e>(
    out: &mut ReplyEncoder<'_>,
    members: impl ExactSizeIterator<Item = Scored<'e>>,
    pairing: Pairing,
) {
    pace::begins(members.len());
    let nested = pairing.head(out, members.len());
    batched(out, |out| {
        members.for_each(|scored| {
            if nested {
                out.array(2);
            }
            element(out, scored.member);
            if pairing != Pairing::Alone {
                out.double(scored.score);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use psp_store::Element;

    use super::*;

    #[test]
    fn batches_give_the_same_bytes_as_single_writes() {
        for len in [0, 1, 21, 22, 23, BATCH_BYTES - 9, BATCH_BYTES, SHARED_LEN_MIN, 10_000] {
            let items = vec![Element::from(vec![b'x'; len].as_slice()); 300];
            let mut batched = Vec::new();
            array(&mut Encoder::new(&mut batched as &mut dyn Sink, Version::Resp2), items.iter());
            let mut single = Vec::new();
            let mut encoder = Encoder::new(&mut single, Version::Resp2);
            encoder.array(items.len());
            for item in &items {
                encoder.bulk(item);
            }
            assert!(batched == single, "elements of {len} bytes");
        }
    }

    #[test]
    fn gathered_strings_give_the_same_bytes_as_an_array_of_them() {
        for len in [0, 1, 100, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES] {
            let items = vec![Element::from(vec![b'x'; len].as_slice()); 300];
            let (mut gathered, mut single) = (Vec::new(), Vec::new());
            let mut out = Encoder::new(&mut gathered as &mut dyn Sink, Version::Resp3);
            let mut all = Gathered::new(&mut out);
            items.iter().for_each(|item| all.bulk(item));
            all.write_array();
            array(&mut Encoder::new(&mut single as &mut dyn Sink, Version::Resp3), items.iter());
            assert!(gathered == single, "elements of {len} bytes");
        }
    }

    /// Takes so many bytes.
    struct Small(usize);

    impl Sink for Small {
        fn put(&mut self, _bytes: &[u8]) {}

        fn reserve(&mut self, bytes: usize) -> bool {
            bytes <= self.0
        }
    }

    #[test]
    fn a_reply_that_is_too_large_is_not_gathered() {
        let mut sink = Small(2 * PIECE_BYTES);
        let mut out = Encoder::new(&mut sink as &mut dyn Sink, Version::Resp2);
        let mut all = Gathered::new(&mut out);
        (0..100).for_each(|_| all.bulk(&[b'x'; PIECE_BYTES / 2]));
        assert!(all.is_refused && all.pieces.is_empty() && all.last.is_empty());
        all.write_array();
    }
}
