//! The contract between a transport and a protocol: where does the next request end?

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::envelope::{Bare, Envelope};
use crate::sink::Sink;

/// Splits a byte stream (or a datagram) into requests.
///
/// All connections share one framing. The [`Cursor`](Framing::Cursor) of a connection holds what the
/// framing must remember about its stream between two reads.
pub trait Framing: Send + Sync + 'static {
    /// How far the current, incomplete frame has been scanned. With it, a frame that arrives byte by
    /// byte costs linear time in total.
    type Cursor: Default + Send + 'static;

    /// What the framing learns about a request while it looks for the end, such as the command. The
    /// classifier and the handler get the head, so that they need not parse the request again. A
    /// framing that learns nothing has `()`.
    ///
    /// A head holds numbers and offsets into its frame, never references, because the frame moves to
    /// a worker with its connection's buffer. Up to 64 heads travel with one connection: keep heads small.
    type Head: Default + Send + 'static;

    /// Looks for one complete frame at the start of `input`.
    ///
    /// `input` starts at a frame boundary. While the answer is [`Step::NeedMore`], each later call
    /// sees the same bytes with more appended. [`Step::Frame`] resets the cursor.
    ///
    /// # Errors
    /// [`FrameError`] when no continuation of `input` can be a valid frame, or when a limit is
    /// exceeded. The stream cannot be resynchronised: the transport sends the reply for
    /// [`Rejection::Malformed`] and closes the connection.
    fn next_frame(&self, cursor: &mut Self::Cursor, input: &[u8]) -> Result<Step<Self::Head>, FrameError>;

    /// The same for a peer that has not authenticated, for whom a framing may have lower limits. By default it has not.
    ///
    /// The transport frames the rest of a pipeline again when an earlier request of it has authenticated the peer.
    ///
    /// # Errors
    /// As [`next_frame`](Self::next_frame).
    fn next_frame_unauthenticated(
        &self,
        cursor: &mut Self::Cursor,
        input: &[u8],
    ) -> Result<Step<Self::Head>, FrameError> {
        self.next_frame(cursor, input)
    }

    /// The head of `message` if that is one whole frame and nothing else, such as a datagram.
    fn head_of(&self, message: &[u8]) -> Option<Self::Head> {
        match self.next_frame(&mut Self::Cursor::default(), message) {
            Ok(Step::Frame { len, head }) if len == message.len() => Some(head),
            _ => None,
        }
    }

    /// How many bytes to discard after `frame`, which [`next_frame`](Self::next_frame) found. It is
    /// above 0 when the request announces a payload that is too long to hold: the handler replies
    /// with an error without seeing the payload.
    ///
    /// The transport runs the frame like any other, drops that many bytes of the stream as they
    /// arrive, and looks for the next frame after them.
    fn discard_after(&self, frame: &[u8], head: &Self::Head) -> u64 {
        let _ = (frame, head);
        0
    }

    /// Whether `frame` is the last request of its connection.
    ///
    /// The transport looks for no frame after it, and closes the connection when the reply is sent, also
    /// when the reply is a refusal. Datagrams have nothing to close.
    fn closes_after(&self, frame: &[u8], head: &Self::Head) -> bool {
        let _ = (frame, head);
        false
    }

    /// How long the peer waits for the reply, if the request says so: from the arrival of the request.
    ///
    /// A request that waits longer for its turn is not run: the peer gets [`Rejection::Expired`]. By default
    /// requests say nothing.
    fn deadline(&self, head: &Self::Head) -> Option<Duration> {
        let _ = head;
        None
    }

    /// Whether a peer tells replies apart by their order. So it is by default: the replies of a connection come in the
    /// order of its requests.
    ///
    /// `false` if replies name their requests. Then a reply that a server defers does not hold up those to later
    /// requests.
    fn replies_in_order(&self) -> bool {
        true
    }

    /// Whether `message`, a whole frame that came in a datagram, has the shape of a reply. By default none has.
    ///
    /// The transport drops such a datagram. With the forged source of one datagram an attacker could otherwise make
    /// two servers, or one with itself, answer each other's replies without end.
    fn is_reply(&self, message: &[u8], head: &Self::Head) -> bool {
        let _ = (message, head);
        false
    }

    /// Writes what the peer waits for before it sends the rest of a request, once: `100 Continue` of HTTP.
    ///
    /// The transport calls it after [`Step::NeedMore`], when all earlier requests of the connection are
    /// answered and the socket has no more input. By default nothing is written.
    fn encode_interim(&self, cursor: &mut Self::Cursor, out: &mut dyn Sink) {
        let _ = (cursor, out);
    }

    /// The header around messages in datagrams; [`Bare`] by default. Messages in streams have none.
    fn envelope(&self) -> &dyn Envelope {
        &Bare
    }

    /// Writes the reply for a request that the server refuses.
    ///
    /// `request` is the refused frame (empty for [`Rejection::Malformed`],
    /// [`Rejection::TooManyConnections`] and [`Rejection::Refused`]). A protocol without such a reply writes nothing.
    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink);
}

/// What [`Framing::next_frame`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<H = ()> {
    /// The first `len` bytes are one request. `len` is at least 1.
    Frame {
        /// Bytes of the frame, its header included.
        len: usize,
        /// What is known of the request, see [`Framing::Head`].
        head: H,
    },
    /// The frame is not complete. It will be at least `len_min` bytes long, which is more than the
    /// length of the input. A transport may size its buffer by this lower bound.
    NeedMore {
        /// Lower bound of the frame's length in bytes.
        len_min: usize,
    },
}

/// Why bytes are not a request, with the text for the peer.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FrameError {
    /// The reason in the protocol's usual words, e.g. `Protocol error: invalid bulk length`.
    pub reason: Cow<'static, str>,
}

impl FrameError {
    /// An error with a fixed text.
    pub const fn new(reason: &'static str) -> Self {
        Self { reason: Cow::Borrowed(reason) }
    }
}

/// As it displays, since the standard library prints this of what `main` returns.
impl fmt::Debug for FrameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

/// Why the server refuses a request, or does not run it to its end.
///
/// Its `Display` is a text for the peer, for protocols that have no better words. A framing that
/// matches on the reasons that it knows can use it for all others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection<'a> {
    /// The typed queue of the request is full. For a datagram, servers send no reply: the client
    /// notices by its timeout.
    #[error("typed queue of '{type_name}' is full")]
    Busy {
        /// Name under which the request's type was registered.
        type_name: &'a str,
    },
    /// The request had waited longer than it may when its turn came, and did not run. For a datagram,
    /// servers send no reply.
    #[error("the request waited too long")]
    Expired,
    /// The server is overloaded: it does not let the request in, because that would not end in time, or because others
    /// come first. For a datagram, servers send no reply.
    #[error("overloaded: no further requests of type '{type_name}' for now")]
    Overloaded {
        /// Name under which the request's type was registered.
        type_name: &'a str,
        /// After this time another attempt may have better luck.
        retry_after: Duration,
    },
    /// The handler panicked while it ran the request.
    #[error("the handler failed")]
    HandlerFailed,
    /// The handler failed and gave this text for the peer, which may have any characters.
    #[error("{0}")]
    Failed(&'a str),
    /// The handler's reply exceeded the limit in bytes.
    #[error("the response is larger than the limit of {limit_bytes} bytes")]
    ReplyTooLarge {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// The bytes are not a request.
    #[error("{0}")]
    Malformed(&'a FrameError),
    /// The connection limit is reached, or that of the peer's address.
    #[error("too many connections")]
    TooManyConnections,
    /// The handler refuses the connection. The text says why.
    #[error("{0}")]
    Refused(&'a str),
    /// The server's budget for buffered bytes is exhausted.
    #[error("out of buffers")]
    OutOfBuffers,
    /// The server is draining and takes no new requests.
    #[error("shutting down")]
    ShuttingDown,
}
