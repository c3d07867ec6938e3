//! The contract between a transport and a protocol: where does the next request end?

use std::borrow::Cow;

use crate::envelope::{Bare, Envelope};
use crate::sink::Sink;

/// Splits a byte stream (or a datagram) into requests.
///
/// A framing is shared by all connections; what it must remember about one stream between two
/// reads lives in its [`Cursor`](Framing::Cursor).
pub trait Framing: Send + Sync + 'static {
    /// How far into the current, incomplete frame the stream has been scanned. It makes a frame
    /// that arrives byte by byte cost linear time in total.
    type Cursor: Default + Send + 'static;

    /// Looks for one complete frame at the start of `input`.
    ///
    /// `input` starts at a frame boundary and, while the answer is [`Step::NeedMore`], each later
    /// call sees the same bytes with more appended. After [`Step::Frame`] the cursor is as new.
    ///
    /// # Errors
    /// [`FrameError`] when no continuation of `input` can be a valid frame, or when a limit is
    /// exceeded. The stream cannot be resynchronised: the transport sends
    /// [`Rejection::Malformed`] to the peer and closes the connection.
    fn next_frame(&self, cursor: &mut Self::Cursor, input: &[u8]) -> Result<Step, FrameError>;

    /// How many bytes after `frame`, one that [`next_frame`](Self::next_frame) found, belong to it
    /// but not to its frame: what it announced is too long to be held, and its handler says so
    /// without having seen it.
    ///
    /// The transport runs the frame like any other, drops that many bytes of the stream as they
    /// come, and looks for the next frame after them.
    fn discard_after(&self, frame: &[u8]) -> u64 {
        let _ = frame;
        0
    }

    /// What is around messages in datagrams; nothing, unless the protocol says so. Streams have none of it.
    fn envelope(&self) -> &dyn Envelope {
        &Bare
    }

    /// Writes the reply for a request that the server refuses.
    ///
    /// `request` is the refused frame (empty for [`Rejection::Malformed`] and
    /// [`Rejection::TooManyConnections`]). A protocol that has no way to say so writes nothing.
    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink);
}

/// What [`Framing::next_frame`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The first `len` bytes are one request. `len` is at least 1.
    Frame {
        /// Bytes of the frame, its header included.
        len: usize,
    },
    /// The frame is not complete. It will be at least `len_min` bytes long, which is more than the
    /// input held; a lower bound that a transport may use to size its buffer.
    NeedMore {
        /// Lower bound of the frame's length in bytes.
        len_min: usize,
    },
}

/// Why bytes are not a request. Carries the text for the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FrameError {
    /// The reason in the protocol's usual words, e.g. `Protocol error: invalid bulk length`.
    pub reason: Cow<'static, str>,
}

impl FrameError {
    /// An error with a fixed text.
    pub const fn new(reason: &'static str) -> Self {
        Self {
            reason: Cow::Borrowed(reason),
        }
    }
}

/// Why the server answers a request without running it to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection<'a> {
    /// The typed queue of the request is full; `type_name` says which. Servers drop a datagram
    /// without saying so: the client's timeout tells it the same.
    Busy {
        /// Name under which the request's type was registered.
        type_name: &'a str,
    },
    /// The handler panicked while it ran the request.
    HandlerFailed,
    /// The handler's reply exceeded the limit in bytes.
    ReplyTooLarge {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// The bytes are not a request.
    Malformed(&'a FrameError),
    /// The connection limit is reached.
    TooManyConnections,
    /// The server's budget for buffered bytes is exhausted.
    OutOfBuffers,
    /// The server is draining and takes no new requests.
    ShuttingDown,
}
