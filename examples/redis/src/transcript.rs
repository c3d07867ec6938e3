//! Replies that are kept until the commit: what EXEC runs, and what scripts return.

use bytes::Bytes;
use psp_protocols::Sink;
use psp_protocols::resp::SHARED_LEN_MIN;

use crate::command::ReplyEncoder;

/// Replies of work that may have to run again.
#[derive(Debug)]
pub(crate) struct Transcript {
    parts: Vec<Part>,
    len: usize,
    limit_bytes: usize,
}

#[derive(Debug)]
enum Part {
    Own(Vec<u8>),
    Shared(Bytes),
}

impl Transcript {
    pub(crate) const fn new(limit_bytes: usize) -> Self {
        Self { parts: Vec::new(), len: 0, limit_bytes }
    }

    pub(crate) const fn is_too_long(&self) -> bool {
        self.len > self.limit_bytes
    }

    /// Counts `len` more bytes. `false` if there is no room for them.
    fn admit(&mut self, len: usize) -> bool {
        self.len = self.len.saturating_add(len);
        if self.is_too_long() {
            self.parts = Vec::new();
        }
        !self.is_too_long()
    }

    pub(crate) fn copy_to(self, out: &mut ReplyEncoder<'_>) {
        for part in self.parts {
            match part {
                Part::Own(bytes) if bytes.len() < SHARED_LEN_MIN => out.raw(&bytes),
                Part::Own(bytes) => out.raw_shared(bytes.into()),
                Part::Shared(bytes) => out.raw_shared(bytes),
            }
        }
    }
}

impl Sink for Transcript {
    fn put(&mut self, bytes: &[u8]) {
        if !self.admit(bytes.len()) {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Own(own)) => own.extend_from_slice(bytes),
            _ => self.parts.push(Part::Own(bytes.to_vec())),
        }
    }

    fn put_shared(&mut self, bytes: Bytes) {
        if self.admit(bytes.len()) {
            self.parts.push(Part::Shared(bytes));
        }
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        self.len.saturating_add(bytes) <= self.limit_bytes || self.admit(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_without_room_is_too_long_before_it_is_made() {
        let mut replies = Transcript::new(100);
        replies.put(b"ten bytes!");
        assert!(replies.reserve(90) && !replies.is_too_long());
        assert!(!replies.reserve(91) && replies.is_too_long());
        assert!(!replies.reserve(1), "its work has to stop");
    }
}
