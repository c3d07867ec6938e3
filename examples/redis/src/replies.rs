//! CLIENT REPLY: replies that a client does not want are not sent.

use bytes::Bytes;
use psp_protocols::Sink;
use psp_server::DeferredReply;

use crate::blocking::LateReply;
use crate::client::{ClientInfo, Replies};

/// A reply that is dropped as long as the client does not want it. `CLIENT REPLY ON` writes its own reply.
pub(crate) struct Wanted<'a> {
    client: &'a ClientInfo,
    reply: &'a mut dyn Sink,
}

impl<'a> Wanted<'a> {
    /// The reply to the next command of `client`.
    pub(crate) fn of(client: &'a ClientInfo, reply: &'a mut dyn Sink) -> Self {
        if client.replies() == Replies::SkipNext {
            client.set_replies(Replies::SkipThis);
        }
        Self { client, reply }
    }
}

impl Sink for Wanted<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if self.client.replies() == Replies::All {
            self.reply.put(bytes);
        }
    }

    fn put_pieces(&mut self, pieces: [&[u8]; 3]) {
        if self.client.replies() == Replies::All {
            self.reply.put_pieces(pieces);
        }
    }

    fn put_shared(&mut self, bytes: Bytes) {
        if self.client.replies() == Replies::All {
            self.reply.put_shared(bytes);
        }
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        self.client.replies() == Replies::All && self.reply.reserve(bytes)
    }
}

/// A reply that comes later, or none if the client does not want it. A client that ends its side of the connection
/// until then has left.
pub(crate) fn wanted_later(client: &ClientInfo, mut reply: DeferredReply) -> Box<dyn LateReply> {
    reply.require_peer();
    let reply = Box::new(reply);
    match client.replies() {
        Replies::All => reply,
        _ => Box::new(Unwanted(reply)),
    }
}

/// A reply that is not sent. The client's next request waits for it all the same.
struct Unwanted(Box<dyn LateReply>);

impl Sink for Unwanted {
    fn put(&mut self, _: &[u8]) {}

    fn put_shared(&mut self, _: Bytes) {}

    fn reserve(&mut self, _: usize) -> bool {
        false
    }
}

impl LateReply for Unwanted {
    fn finish(self: Box<Self>) {
        self.0.finish();
    }

    fn close(&mut self) {
        self.0.close();
    }

    fn discard(self: Box<Self>) {
        self.0.discard();
    }

    fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}
