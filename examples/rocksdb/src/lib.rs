//! A key-value server over psp's RPC, on RocksDB or in memory: the storage workload of the papers, in
//! which GETs of microseconds stand beside SCANs of a millisecond.
//!
//! ```text
//!   psp-loadgen ── rpc: GET, SCAN, PUT, DELETE ──► net worker, classifier by method
//!        ▲                                              │ typed queues, policy
//!        │                                              ▼
//!        └────────────── response ◄── RpcHandler ◄─ KeyValue ─► Engine: Memory or RocksDb
//!                                                      │
//!                                                      └ checkpoint every so many entries of a SCAN
//! ```
//!
//! The messages are those of [`psp_protocols::kv`], within [`limits`].

pub mod closing;
pub mod config;
pub mod engine;
pub mod limits;
pub mod preload;
pub mod service;
pub mod startup;
