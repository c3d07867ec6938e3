//! psp's RPC: protobuf messages, each behind its length. A response carries the id of its request.
//!
//! ```text
//!   server:  stream ─► Rpc (Framing) ─► frame, RpcHead ─┬► method ─► classifier
//!                                                       └► request ─► handler
//!                                                            ResponseRef::encode_frame ─► Sink
//!   client:  RequestRef::encode_frame ─► stream ... stream ─► RpcSkipper ─► id and status
//!
//!   frame:   length (varint, at most 5 bytes) │ message of that length
//! ```
//!
//! `proto/psp_rpc.proto` is the contract. The structs here are written by hand, so that no build
//! needs a protobuf compiler; a test compares them with that file.
//!
//! **Order.** A response names its request by id, so that the requests of one connection may complete
//! in any order. psp-server has one run of requests per connection in flight, and therefore responds
//! in the order of the requests, unless a handler defers a response. Clients must not rely on that.

mod encode;
mod failure;
mod fields;
mod frame;
mod head;
mod message;
mod replies;
mod status;
mod varint;

pub use failure::Failure;
pub use fields::{FIELDS_MAX, peek_id};
pub use frame::{PREFIX_LEN_MAX, Rpc};
pub use head::RpcHead;
pub use message::{Request, RequestRef, Response, ResponseRef};
pub use replies::{RpcReply, RpcSkipper};
pub use status::Status;
