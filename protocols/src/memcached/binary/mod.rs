//! The binary protocol: 24 bytes of header, then extras, key and value; memcached's
//! `doc/protocol-binary.xml`.
//!
//! ```text
//!   stream ─► BinaryFraming ─► frame ─► Request::parse ─┬► Request ─► handler ─► reply, error
//!                                                       └► RequestError::encode
//! ```

mod client;
mod encoder;
mod framing;
mod header;
mod opcode;
mod request;

pub use client::{RequestParts, encode_request};
pub use encoder::{ReplyHead, error, reply, reply_shared};
pub use framing::BinaryFraming;
pub use header::{HEADER_LEN, Header, MAGIC_REPLY, MAGIC_REQUEST};
pub use opcode::{Command, Opcode, Status};
pub use request::{Extras, Request, RequestError};
