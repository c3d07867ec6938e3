//! What the methods do. Each function appends its message to the context's payload, and those that can
//! take long give way now and then.

pub mod numbers;
pub mod stats;
pub mod work;

use prost::Message;
use psp_protocols::rpc::Failure;

/// Reads the request's message into `message`, whose memory is used again.
fn read(message: &mut impl Message, payload: &[u8]) -> Result<(), Failure> {
    message
        .merge(payload)
        .map_err(|error| Failure::invalid(error.to_string()))
}
