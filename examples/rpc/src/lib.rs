//! A protobuf RPC server on psp-server, with methods that take from a microsecond to seconds.
//!
//! ```text
//!   frame ─┬► classify: method, requested duration ─► typed queue
//!          └► RpcHandler (psp-rpc-service) ─► RpcService ─► methods ─┬► work      Echo, Spin, Sleep
//!                envelope, deadline, status                          ├► numbers   Sum, Sort
//!                                                                    ├► stats     Stats
//!                                                                    └► gather    Gather ─► upstreams
//! ```
//!
//! `proto/psp_rpc_methods.proto` has the messages of the methods. `docs/rpc.md` says how to use the server.

pub mod classify;
pub mod config;
pub mod messages;
pub mod methods;
pub mod service;
pub mod startup;
pub mod upstreams;
