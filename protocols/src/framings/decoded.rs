//! Requests that a decoder of the crate tokio-util finds.

use std::fmt;

use bytes::BytesMut;
use tokio_util::codec::Decoder;

use super::{LEN_MAX, Refuse};
use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

/// How many bytes a decoder gets at a time: what it has of the requests behind the one that it returns is copied again.
const PIECE: usize = 4096;

/// Each request is what a [`Decoder`] makes one item of. The handler gets the bytes as `request.payload` and the item
/// as `request.head`.
///
/// Each request has a clone of the decoder, which must know nothing of earlier ones: the server may decode a request
/// again. Each connection has a copy of a request that is not complete, beside the server's buffers, and what the
/// decoder reserves for it: its own limit of length shall not be above [`len_max`](field@Self::len_max). Keep items
/// small: up to 64 travel with one connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Decoded<D> {
    /// What finds the requests.
    pub decoder: D,
    /// Longest request, in bytes. A longer one breaks the protocol.
    pub len_max: usize,
    /// What a refused request gets: by default nothing.
    pub refusals: Refuse,
}

impl<D> Decoded<D> {
    /// Requests that `decoder` finds, of 64 KiB at most.
    pub const fn new(decoder: D) -> Self {
        Self { decoder, len_max: LEN_MAX, refusals: |_, _, _| {} }
    }

    /// Sets [`len_max`](field@Self::len_max).
    #[must_use]
    pub fn len_max(mut self, len_max: usize) -> Self {
        self.len_max = len_max;
        self
    }

    /// Sets [`refusals`](field@Self::refusals).
    #[must_use]
    pub fn refusals(mut self, refusals: Refuse) -> Self {
        self.refusals = refusals;
        self
    }
}

/// What a decoder made of a request. A server makes an empty one for a place that no request has yet.
#[derive(Debug, Clone, Copy)]
pub struct Item<T>(pub Option<T>);

impl<T> Default for Item<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// How far a decoder is with a connection's stream.
pub struct Decoding<D> {
    decoder: Option<D>,
    /// What it has of the request that is not complete, without what it has taken.
    buffer: BytesMut,
    /// Bytes of that request that it got.
    fed: usize,
}

impl<D> Default for Decoding<D> {
    fn default() -> Self {
        Self { decoder: None, buffer: BytesMut::new(), fed: 0 }
    }
}

impl<D> fmt::Debug for Decoding<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Decoding").field("fed", &self.fed).finish_non_exhaustive()
    }
}

impl<D> Framing for Decoded<D>
where
    D: Decoder + Clone + Send + Sync + 'static,
    D::Item: Send + 'static,
    D::Error: fmt::Display,
{
    type Cursor = Decoding<D>;
    type Head = Item<D::Item>;

    fn next_frame(&self, cursor: &mut Decoding<D>, input: &[u8]) -> Result<Step<Self::Head>, FrameError> {
        let Decoding { decoder: own, buffer, fed } = cursor;
        let decoder = own.get_or_insert_with(|| self.decoder.clone());
        while let Some(rest) = input.get(*fed..).filter(|rest| !rest.is_empty()) {
            let piece = &rest[..rest.len().min(PIECE)];
            buffer.extend_from_slice(piece);
            *fed += piece.len();
            let item = decoder.decode(buffer).map_err(|error| FrameError { reason: error.to_string().into() })?;
            if let Some(item) = item {
                let len = *fed - buffer.len();
                (*own, *fed) = (None, 0);
                buffer.clear();
                if buffer.capacity() > 2 * PIECE {
                    *buffer = BytesMut::new();
                }
                return match len {
                    0 => Err(FrameError::new("the decoder has taken nothing")),
                    len if len > self.len_max => Err(FrameError::new("the request is too long")),
                    len => Ok(Step::Frame { len, head: Item(Some(item)) }),
                };
            }
        }
        match input.len() < self.len_max {
            true => Ok(Step::NeedMore { len_min: input.len() + 1 }),
            false => Err(FrameError::new("the request is too long")),
        }
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        (self.refusals)(rejection, request, out);
    }
}
