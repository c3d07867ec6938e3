//! Ready-made classifiers: they find the type of a request for the scheduler of psp-server.
//!
//! | classifier              | looks at                                  | answers                     |
//! |-------------------------|-------------------------------------------|-----------------------------|
//! | [`RespClassifier`]      | command name, if necessary arguments      | type of the command's group |
//! | [`RpcClassifier`]       | method of the RPC message                 | type of the method's group  |
//! | [`HttpClassifier`]      | method and path of the HTTP request       | type of the first route     |
//! | [`MemcachedClassifier`] | command or opcode, number of keys         | type of the command's group |
//! | [`PspHeaderClassifier`] | type field of the psp header              | that type                   |
//! | [`PrefixClassifier`]    | the key that a function finds             | type of its longest prefix  |
//! | [`SizeClassifier`]      | length of the frame, or a function of it  | type of the size            |
//! | [`RandomClassifier`]    | nothing                                   | any type, uniformly         |
//! | [`ChainClassifier`]     | the same as its two classifiers           | the first known type        |
//!
//! Classifiers run on the net worker's path for every request. None of them allocates or locks.
//! `docs/classifiers.md` says what each costs.

mod chain;
mod http;
mod memcached;
pub mod prefix;
mod psp_header;
mod random;
mod registry;
pub mod resp;
mod rpc;
mod size;
mod thresholds;

pub use chain::ChainClassifier;
pub use http::HttpClassifier;
pub use memcached::MemcachedClassifier;
pub use prefix::PrefixClassifier;
pub use psp_header::PspHeaderClassifier;
pub use random::RandomClassifier;
pub use resp::RespClassifier;
pub use rpc::RpcClassifier;
pub use size::{FrameLen, SizeClassifier};
