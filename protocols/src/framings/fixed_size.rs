//! Requests of one length.

use super::Refuse;
use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

/// Each request has so many bytes.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FixedSize {
    /// Bytes of a request. None is 0 bytes long.
    pub len: usize,
    /// What a refused request gets: by default nothing.
    pub refusals: Refuse,
}

limits!(FixedSize: refusals: Refuse);

impl FixedSize {
    /// Requests of `len` bytes.
    #[must_use]
    pub const fn new(len: usize) -> Self {
        Self { len, refusals: |_, _, _| {} }
    }
}

impl Framing for FixedSize {
    type Cursor = ();
    type Head = ();

    fn next_frame(&self, (): &mut (), input: &[u8]) -> Result<Step, FrameError> {
        match input.len() {
            _ if self.len == 0 => Err(FrameError::new("requests have no length")),
            len if len < self.len => Ok(Step::NeedMore { len_min: self.len }),
            _ => Ok(Step::Frame { len: self.len, head: () }),
        }
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        (self.refusals)(rejection, request, out);
    }
}
