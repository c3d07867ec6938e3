//! The destination that encoders write to.

use bytes::{Bytes, BytesMut};

/// A destination for reply bytes.
///
/// Encoders take `&mut impl Sink`, so that the same code writes into a `Vec<u8>` in a test, into a
/// connection's output queue, or into the free part of a datagram buffer.
pub trait Sink {
    /// Appends a copy of `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends copies of all pieces, as a [`put`](Self::put) of each would. A destination for which each put costs
    /// something looks for room once.
    fn put_pieces(&mut self, pieces: [&[u8]; 3]) {
        for piece in pieces {
            self.put(piece);
        }
    }

    /// Appends `bytes`. A destination that can hold a reference shares them.
    ///
    /// The default copies. Sharing pays off from payloads of some kilobytes on.
    fn put_shared(&mut self, bytes: Bytes) {
        self.put(&bytes);
    }

    /// Asks for room for `bytes` more bytes, which the caller gathers before it puts them. Returns `false` if there is
    /// none: whatever is put later is lost.
    fn reserve(&mut self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for BytesMut {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    fn put_pieces(&mut self, pieces: [&[u8]; 3]) {
        (**self).put_pieces(pieces);
    }

    fn put_shared(&mut self, bytes: Bytes) {
        (**self).put_shared(bytes);
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        (**self).reserve(bytes)
    }
}
