//! Framings that many protocols have: lines, a length before each message, messages of one length, and any `Decoder` of
//! the crate tokio-util.
//!
//! | a request is | framing | a refusal is, unless told otherwise |
//! | --- | --- | --- |
//! | a line, with its end | [`Lines`] | the line `ERROR` and the reason |
//! | a header with a length, and what follows | [`LengthDelimited`] | such a message with this text |
//! | so many bytes | [`FixedSize`] | nothing |
//! | what a decoder makes an item of | `Decoded`, with the feature `codec` | nothing |
//!
//! Where a client tells replies apart by their order, a refusal of nothing leaves it waiting: `refusals` sets what the
//! client gets.

#[cfg(feature = "codec")]
mod decoded;
mod fixed_size;
mod length_delimited;
mod lines;

#[cfg(feature = "codec")]
pub use decoded::{Decoded, Item};
pub use fixed_size::FixedSize;
pub use length_delimited::LengthDelimited;
pub use lines::Lines;

use crate::framing::Rejection;
use crate::sink::Sink;

/// Writes the reply to a request that is refused, as
/// [`Framing::encode_rejection`](crate::Framing::encode_rejection) does.
pub type Refuse = fn(&Rejection<'_>, &[u8], &mut dyn Sink);

/// Longest request unless another length is set.
const LEN_MAX: usize = 64 * 1024;

/// The reason in one line.
fn reason(rejection: &Rejection<'_>) -> String {
    format!("ERROR {rejection}").replace(char::is_control, " ")
}
