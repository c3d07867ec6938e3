//! psp's RPC: protobuf messages behind their length, with the ids of requests.
//!
//! ```text
//!   server:  stream ─► Rpc (Framing) ─► frame ─┬► peek_method ─► classifier
//!                                              └► RequestRef::from_frame ─► handler
//!                                                     ResponseRef::encode_frame ─► Sink
//!   client:  RequestRef::encode_frame ─► stream ... stream ─► RpcSkipper ─► id and status
//!
//!   frame:   length (varint, at most 5 bytes) │ message of that length
//! ```
//!
//! `proto/psp_rpc.proto` is the contract. The structs here are written by hand, so that no build
//! needs a protobuf compiler; a test holds them against that file.
//!
//! **Order.** A response names its request by id, so that the protocol lets requests of one
//! connection complete in any order. psp-server has one run of requests per connection in flight
//! and so answers in the order of the requests; clients must not rely on it.

mod encode;
mod failure;
mod fields;
mod frame;
mod message;
mod replies;
mod status;
mod varint;

pub use failure::Failure;
pub use fields::{FIELDS_MAX, peek_id, peek_method};
pub use frame::{PREFIX_LEN_MAX, Rpc};
pub use message::{Request, RequestRef, Response, ResponseRef};
pub use replies::{RpcReply, RpcSkipper};
pub use status::Status;
