//! RESP, the protocol of Redis, in versions 2 and 3.
//!
//! ```text
//!   server:  stream ─► Resp (Framing) ─► frame, RespHead ─► CommandId, arguments ─► classifier
//!                                             └───────────► Args ─► handler ─► Encoder ─► Sink
//!   client:  encode_command ─► stream ... stream ─► ReplyParser ─► length and kind of one reply
//!                                                 └► RespSkipper ─► end and outcome of one reply
//! ```
//!
//! Requests are arrays of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or inline commands
//! (`GET k\r\n`), see the [Redis serialization protocol
//! specification](https://redis.io/docs/latest/develop/reference/protocol-spec/).

mod args;
mod command;
mod command_id;
mod double;
mod encoder;
mod facts;
mod frame;
mod head;
mod header;
mod inline;
mod number;
mod rejection;
mod replies;
mod reply_parser;
mod violation;

pub use args::Args;
pub use command::encode_command;
pub use command_id::CommandId;
pub use double::{DoubleText, format_double};
pub use encoder::{Encoder, SHARED_LEN_MIN, Version};
pub use facts::{Begin, CATEGORIES, Facts, Find, Flag, Flags, KeyPositions, KeySpec};
pub use frame::{Resp, RespCursor};
pub use head::{ArgsIter, RespHead};
pub use inline::split_words;
pub use number::parse_integer;
pub use replies::{RespReplies, RespSkipper};
pub use reply_parser::{ReplyKind, ReplyParser, ReplyStep};
