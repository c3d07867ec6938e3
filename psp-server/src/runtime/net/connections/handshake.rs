//! TLS handshakes: the net worker collects bytes, and a worker takes each step.

use psp_protocols::Framing;

use super::readiness::Condition;
use super::slot::Phase;
use super::table::Connections;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::transport::connection::Connection;
use crate::transport::handshake::HandshakeStage;
use crate::transport::input::Fill;
use crate::transport::request_key::ConnectionIndex;
use crate::transport::run::Stream;

impl<F: Framing, C> Connections<F, C> {
    /// The next step of a connection that has no output and whose handshake is not over. Returns whether there may
    /// be another.
    pub(super) fn advance_handshake<K>(
        &mut self,
        index: ConnectionIndex,
        stage: HandshakeStage,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        let net = self.shared.net();
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return false;
        };
        let Stream { connection, run } = &mut **stream;
        let Some((session, socket)) = connection.socket.session() else {
            return false;
        };
        match stage {
            HandshakeStage::Open => {
                net.handshakes.add(1);
                session.open(&mut connection.input, &mut self.memory.input);
                slot.last_active_ns = now_ns;
                slot.stranger_since_ns = slot.stranger_since_ns.map(|_| now_ns);
                // The peer's end of its session may have come with the last bytes, too.
                slot.readiness.set(Condition::Readable, true);
            }
            HandshakeStage::Fail => {
                net.handshakes_failed.add(1);
                connection.closing = true;
            }
            HandshakeStage::Step => {
                run.clear();
                run.arrived_ns = now_ns;
                let request_type = dispatcher.handshake_type();
                dispatcher.count_arrival(request_type);
                self.enter_queue(index, request_type, dispatcher, now_ns);
                return false;
            }
            // No request has come yet.
            HandshakeStage::Receive if self.draining || slot.readiness.has(Condition::InputEnded) => {
                self.close(index);
                return false;
            }
            HandshakeStage::Receive if !slot.readiness.has(Condition::Readable) => {
                self.wait_for_peer(index, now_ns);
                return false;
            }
            HandshakeStage::Receive => match session.receive_handshake(socket) {
                Ok(Fill::Read { count, drained }) => {
                    net.bytes_received.add(count as u64);
                    let readable = !drained || slot.readiness.has(Condition::PeerClosed);
                    slot.readiness.set(Condition::Readable, readable);
                }
                Ok(Fill::Blocked) => slot.readiness.set(Condition::Readable, false),
                Ok(Fill::End) => slot.readiness.set(Condition::InputEnded, true),
                Ok(Fill::Broken) | Err(_) => connection.failed = true,
            },
        }
        true
    }

    /// Refuses a connection whose handshake waits for a worker, because the queue is full: its next step closes the
    /// connection. The peer has no session in which it could be told. Returns whether its handshake waited.
    pub(super) fn refuse_handshake(&mut self, index: ConnectionIndex) -> bool {
        let slot = &mut self.slots[index.get()];
        let Phase::Queued(stream) = &mut slot.phase else {
            return false;
        };
        let connection = &mut stream.connection;
        if connection.socket.handshake().is_none() {
            return false;
        }
        connection.failed = true;
        slot.phase.unqueue();
        self.ready.push(index);
        true
    }

    /// Takes leave of a peer whose connection is about to close. Counts a handshake that did not come to its end.
    pub(super) fn part_from(&self, connection: &mut Connection<C>) {
        let net = self.shared.net();
        if connection.socket.handshake().is_some() {
            net.handshakes_failed.add(u64::from(!connection.closing));
        } else if !connection.failed && !connection.has_unsent() && connection.socket.say_goodbye() {
            // Best effort: the socket has room for a record this short.
            let sent = connection.send(usize::MAX);
            net.bytes_sent.add(sent as u64);
        }
    }
}
