//! The methods. Each function appends its message to the context's payload. Methods that can take long
//! have checkpoints.

pub mod gather;
pub mod numbers;
pub mod stats;
pub mod work;

use prost::Message;
use psp_protocols::rpc::Failure;

/// Reads the request's message into `message`, whose memory is reused.
fn read(message: &mut impl Message, payload: &[u8]) -> Result<(), Failure> {
    message.merge(payload).map_err(|error| Failure::invalid(error.to_string()))
}
