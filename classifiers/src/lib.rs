//! Ready-made classifiers: they name the type of a request for the scheduler of psp-server.
//!
//! | classifier              | looks at                                  | answers                     |
//! |-------------------------|-------------------------------------------|-----------------------------|
//! | [`RespClassifier`]      | command name, if need be arguments        | type of the command's group |
//! | [`RpcClassifier`]       | method of the RPC message                 | type of the method's group  |
//! | [`PspHeaderClassifier`] | type field of the psp header              | that type                   |
//! | [`RandomClassifier`]    | nothing                                   | any type, uniformly         |
//!
//! They run on the net worker's path for every request: none of them allocates or locks.

mod psp_header;
mod random;
pub mod resp;
mod rpc;

pub use psp_header::PspHeaderClassifier;
pub use random::RandomClassifier;
pub use resp::RespClassifier;
pub use rpc::RpcClassifier;
