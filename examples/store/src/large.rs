//! Long strings: received into place, changed in place, with room to grow.

use bytes::{Bytes, BytesMut};

/// Strings from this length on may be [`Large`].
pub(crate) const LARGE_LEN_MIN: usize = 64 * 1024;

/// A long string.
#[derive(Debug)]
pub(crate) enum Large {
    /// A part of what came in, which others may still read.
    Received(Bytes),
    /// A string of its own.
    Own(BytesMut),
}

impl Large {
    /// Whether others read the bytes at this moment.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Received(bytes) if !bytes.is_unique())
    }

    /// The string, to be changed in place; `None` if others read it.
    pub(crate) fn get_mut(&mut self) -> Option<&mut BytesMut> {
        if let Self::Received(bytes) = self {
            match std::mem::take(bytes).try_into_mut() {
                Ok(own) => *self = Self::Own(own),
                Err(shared) => *bytes = shared,
            }
        }
        match self {
            Self::Received(_) => None,
            Self::Own(own) => Some(own),
        }
    }

    /// How long the string can be in its memory, as far as is known.
    pub(crate) fn capacity(&self) -> usize {
        match self {
            Self::Received(bytes) => bytes.len(),
            Self::Own(own) => own.capacity(),
        }
    }
}

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Received(bytes) => bytes,
            Self::Own(own) => own,
        }
    }
}
