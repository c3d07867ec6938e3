//! Sends messages that were pushed to connections.

use psp_protocols::Framing;

use super::slot::{Phase, READ_BYTES_MAX, SEND_BYTES_MAX};
use super::table::Connections;
use crate::classifier::Classifier;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::transport::connection::Connection;
use crate::transport::request_key::ConnectionIndex;

impl<F: Framing, C> Connections<F, C> {
    /// Learns to which connections something was pushed, and makes room for what had none. Returns how many there are.
    #[inline]
    pub(in crate::runtime::net) fn note_pushed(&mut self, now_ns: u64) -> usize {
        self.make_room_for_messages(now_ns);
        let announcements = self.shared.deferrals().announcements();
        announcements.take(&mut self.pushed)
    }

    /// Sends the messages to one of the connections that have new ones. Returns whether there was one.
    #[inline]
    pub(in crate::runtime::net) fn send_pushed<K: Classifier<F::Head>>(
        &mut self,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        let Some(index) = self.pushed.pop_front() else {
            return false;
        };
        self.send_pushed_to(index, dispatcher, now_ns);
        true
    }

    fn send_pushed_to<K: Classifier<F::Head>>(
        &mut self,
        index: ConnectionIndex,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        let slot = &mut self.slots[index.get()];
        if slot.detached_from.is_some() {
            // Its connection has gone, and the index is another's.
            return;
        }
        match &mut slot.phase {
            Phase::Home(_) => self.advance(index, READ_BYTES_MAX, dispatcher, now_ns),
            Phase::Backpressured(stream) | Phase::Queued(stream) => {
                // Its requests wait for a worker, maybe for long.
                let connection = &mut stream.connection;
                if connection.may_send_pushed() && !connection.has_unsent() {
                    connection.take_pushed(SEND_BYTES_MAX);
                    self.send_meanwhile(index);
                }
            }
            // The worker that has the connection sends them, or they are not sent.
            Phase::Lent { .. } | Phase::Lingering { .. } | Phase::Free => {}
        }
    }
}

impl<C> Connection<C> {
    /// Whether messages wait that may be sent now.
    #[inline]
    pub(super) fn may_send_pushed(&self) -> bool {
        self.common.pushes.has_any() && !self.closing && !self.is_within_a_reply()
    }

    /// Whether a part of a reply was sent whose rest is deferred.
    fn is_within_a_reply(&self) -> bool {
        self.socket.handshake().is_some() || self.owed.iter().any(|owed| owed.is_committed)
    }
}
