//! A protobuf RPC server on psp-server, with methods that take from a microsecond to seconds.
//!
//! ```text
//!   frame ─┬► classify: method, and duration asked for ─► typed queue
//!          └► RpcHandler (psp-program) ─► RpcService ─► methods ─┬► work      Echo, Spin, Sleep
//!                envelope, deadline, status                      ├► numbers   Sum, Sort
//!                                                                └► stats     Stats
//! ```
//!
//! `proto/psp_rpc_methods.proto` says what the methods take and return, and `docs/rpc.md` how to use the
//! server.

pub mod classify;
pub mod config;
pub mod messages;
pub mod methods;
pub mod service;
pub mod startup;
