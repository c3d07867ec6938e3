//! What a handler writes its reply into.

use bytes::{Bytes, BytesMut};
use psp_protocols::Sink;

/// The reply to one request: a [`Sink`] with a limit.
pub struct Reply<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) flags: ReplyFlags,
}

pub(crate) enum Target<'a> {
    /// Output of a connection.
    Stream(&'a mut BytesMut),
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReplyFlags {
    pub(crate) close: bool,
}

impl Reply<'_> {
    /// Closes the connection once the reply is sent. Datagrams have nothing to close.
    pub fn close(&mut self) {
        self.flags.close = true;
    }
}

impl Sink for Reply<'_> {
    fn put(&mut self, bytes: &[u8]) {
        match &mut self.target {
            Target::Stream(out) => out.put(bytes),
        }
    }

    fn put_shared(&mut self, bytes: Bytes) {
        self.put(&bytes);
    }
}
