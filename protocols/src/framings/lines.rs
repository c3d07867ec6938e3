//! Requests that are lines.

use memchr::memchr;

use super::{LEN_MAX, Refuse, reason};
use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

/// Each request is a line, its `\n` or `\r\n` included: a handler of text calls `trim_ascii_end`.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Lines {
    /// Longest line, in bytes with its end. A longer one breaks the protocol.
    pub len_max: usize,
    /// What a refused request gets: by default `ERROR`, the reason, and `\n`.
    pub refusals: Refuse,
    /// The client tells replies apart by their order; else each names its request. See [`Framing::replies_in_order`].
    pub replies_in_order: bool,
}

limits!(Lines: len_max: usize, refusals: Refuse, replies_in_order: bool);

impl Default for Lines {
    fn default() -> Self {
        Self {
            len_max: LEN_MAX,
            refusals: |rejection, _, out| {
                out.put(reason(rejection).as_bytes());
                out.put(b"\n");
            },
            replies_in_order: true,
        }
    }
}

impl Framing for Lines {
    type Cursor = usize;
    type Head = ();

    fn next_frame(&self, searched: &mut usize, input: &[u8]) -> Result<Step, FrameError> {
        let found = memchr(b'\n', &input[*searched..]).map(|at| *searched + at + 1);
        *searched = if found.is_some() { 0 } else { input.len() };
        match found {
            Some(len) if len <= self.len_max => Ok(Step::Frame { len, head: () }),
            None if input.len() < self.len_max => Ok(Step::NeedMore { len_min: input.len() + 1 }),
            _ => Err(FrameError::new("the line is too long")),
        }
    }

    fn replies_in_order(&self) -> bool {
        self.replies_in_order
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        (self.refusals)(rejection, request, out);
    }
}
