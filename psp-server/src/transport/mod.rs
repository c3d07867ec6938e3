//! How bytes come in and go out: TCP streams and UDP datagrams on kernel sockets.
//!
//! A connection, or a datagram, travels as a whole: the net worker reads and frames, lends it to
//! the worker that the policy picked, and gets it back when the replies are sent.
//!
//! ```text
//!             net worker                                      worker
//!   socket ──► InputBuffer ──► frames ──► typed queue ──► Handler ──► OutputQueue ──► socket
//!      ▲                                                                   │
//!      └────────── what the socket did not take is sent later ◄────────────┘
//! ```

pub(crate) mod datagram;
pub(crate) mod input;
pub(crate) mod listener;
pub(crate) mod output;
pub(crate) mod stream;
