//! Ready-made classifiers: they name the type of a request for the scheduler of psp-server.
//!
//! | classifier              | looks at                                  | answers                     |
//! |-------------------------|-------------------------------------------|-----------------------------|
//! | [`RespClassifier`]      | command name, if need be arguments        | type of the command's group |
//! | [`RpcClassifier`]       | method of the RPC message                 | type of the method's group  |
//! | [`MemcachedClassifier`] | command or opcode, number of keys         | type of the command's group |
//! | [`PspHeaderClassifier`] | type field of the psp header              | that type                   |
//! | [`PrefixClassifier`]    | the key, as a function finds it           | type of its longest prefix  |
//! | [`SizeClassifier`]      | length of the frame, or a function of it  | type of the size            |
//! | [`RandomClassifier`]    | nothing                                   | any type, uniformly         |
//! | [`ChainClassifier`]     | what two others look at                   | the first that names a type |
//!
//! They run on the net worker's path for every request: none of them allocates or locks.
//! `docs/classifiers.md` says what each costs.

mod chain;
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
pub use memcached::MemcachedClassifier;
pub use prefix::PrefixClassifier;
pub use psp_header::PspHeaderClassifier;
pub use random::RandomClassifier;
pub use resp::RespClassifier;
pub use rpc::RpcClassifier;
pub use size::SizeClassifier;
