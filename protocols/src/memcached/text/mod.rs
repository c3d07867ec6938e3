//! The text protocol: command lines. The line of a storage command is followed by a data block.
//!
//! ```text
//!   stream ─► TextFraming ─► frame ─► Request::parse ─┬► Request ─► handler ─► status, value, ...
//!                                                     └► RequestError::encode
//! ```
//!
//! Meta commands are lines of this protocol, and share its framing and its requests.

mod encoder;
mod error;
mod framing;
mod line;
mod number;
mod request;
mod storage;

pub use encoder::{Status, client_error, number, server_error, stat, status, value, value_shared, version};
pub use error::RequestError;
pub(crate) use error::{BAD_FORMAT, ERROR};
pub use framing::{TextCursor, TextFraming};
pub use line::Words;
pub(crate) use line::split_line;
pub(crate) use number::parse_number;
pub use request::{Get, Request};
pub use storage::{Store, StoreMode};
pub(crate) use storage::{data_of_block, parse_data_len};
