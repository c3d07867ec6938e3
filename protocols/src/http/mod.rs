//! HTTP/1.0 and HTTP/1.1: framing, a view of requests, and responses.
//!
//! | file | job |
//! | --- | --- |
//! | `framing.rs` | [`Http`]: where a request ends, limits, `100 Continue` |
//! | `lines.rs` | finds lines and blocks of lines in input that arrives in pieces |
//! | `head.rs`, `target.rs`, `method.rs` | [`HttpHead`]: method, path and offsets of one request |
//! | `fields.rs` | header fields that decide how a body is framed and whether the connection stays open |
//! | `chunks.rs` | the chunked transfer coding |
//! | `request.rs` | [`HttpRequest`]: method, path, query, headers and body for a handler |
//! | `response.rs`, `status.rs` | [`Response`]: writes one response |
//! | `violation.rs`, `rejection.rs` | why a request is refused, and the response that says so |
//! | `replies.rs` | [`HttpSkipper`]: where each response ends, for clients |
//!
//! # What is refused
//!
//! A server and a proxy in front of it must agree on where each request ends. [`Http`] refuses a request that
//! they could read in two ways: `Content-Length` beside `Transfer-Encoding`, lengths that differ or are not
//! digits, a coding other than `chunked`, chunk sizes that are not hexadecimal, folded header lines, white space
//! before a colon, and lines that end without a carriage return.
//!
//! Not supported: upgrades, trailers (they are checked and dropped), transfer codings other than `chunked`, and
//! a `Date` field, because this crate reads no clock.

mod chunks;
mod fields;
mod framing;
mod head;
mod lines;
mod method;
mod rejection;
mod replies;
mod request;
mod response;
mod status;
mod target;
mod violation;

pub use chunks::BodyPieces;
pub use framing::{Http, HttpCursor};
pub use head::HttpHead;
pub use method::Method;
pub use replies::{HttpReplies, HttpSkipper};
pub use request::{Headers, HttpRequest, QueryPairs};
pub use response::Response;
pub use status::Status;
