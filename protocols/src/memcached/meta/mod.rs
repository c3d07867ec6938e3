//! The meta commands `mn`, `mg`, `ms`, `md`, `ma` and `me`.
//!
//! Meta commands are lines of the [text protocol](super::text), which frames them, and parses them
//! as [`text::Request::Meta`](super::text::Request::Meta).

mod encoder;
mod flags;
mod key;
mod request;

pub use encoder::{Code, Reply, debug};
pub use flags::{Flag, Flags};
pub use key::{Key, SPELLED_LEN_MAX};
pub(crate) use request::announced;
pub use request::{Keyed, Request};
