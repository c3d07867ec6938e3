//! Why a reply is not sent.

use std::fmt::{self, Display, Write as _};

/// Longest text of a failure, in bytes. The rest is cut off.
pub(super) const FAILURE_BYTES_MAX: usize = 1024;

/// Why a reply that was written is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// It is longer than the limit.
    TooLarge,
    /// The budget for all peers has no room for it.
    OutOfBuffers,
}

/// The text of a failure: at most [`FAILURE_BYTES_MAX`] bytes of `text`.
pub(super) fn failure_text(text: impl Display) -> String {
    let mut line = FailureText(String::new());
    // It refuses what is beyond its length.
    let _ = write!(line, "{text}");
    line.0
}

struct FailureText(String);

impl fmt::Write for FailureText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = FAILURE_BYTES_MAX - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=room).rev().find(|&end| text.is_char_boundary(end));
        self.0.push_str(&text[..end.unwrap_or(0)]);
        Err(fmt::Error)
    }
}
