//! Connections whose peers do not read their replies: which run on, which wait, and which are closed.
//!
//! ```text
//!   unsent output
//!     up to output_high_water_bytes ──► runs on
//!     more ───────────────────────────► waits: TCP holds the peer back, and memory stays small
//!       neither direction moves ──────► runs on: the peer may be one that writes all before it reads
//!     the limit of output ────────────► waits
//!       neither direction moves ──────► closed
//! ```
//!
//! A peer that could authenticate and has not is at its limit with the first step.
//!
//! Neither direction moves if the socket takes no output and is full of input that was not read: a peer with less there
//! is free to read. A peer that is about to read looks the same for a moment, so the net worker looks again after a
//! while. It tries to send then: the event queue tells of room in a socket only once much of it is free.

use psp_protocols::Framing;

use super::readiness::Condition;
use super::slot::{Phase, READ_BYTES_MAX};
use super::table::Connections;
use super::watched::FULL_BYTES;
use crate::shared::Shared;
use crate::transport::connection::Connection;
use crate::transport::request_key::ConnectionIndex;

/// How long a connection waits before it is looked at.
const LOOK_NS: u64 = 10_000_000;
/// So much longer for each other one that is looked at: it costs the net worker no more than a part of its time.
const LOOK_NS_EACH: u64 = 10_000;
/// Input that is read of a peer whose socket is not full, before it counts as one that cannot write on.
const AHEAD_BYTES_MAX: usize = 128 * 1024;
/// How long nothing moves before a connection is closed at the limit.
const PATIENCE_AT_LIMIT_NS: u64 = 1_000_000_000;

impl<F: Framing, C> Connections<F, C> {
    /// Whether requests of a connection run on though its socket takes no more output.
    pub(super) fn runs_on(&mut self, index: ConnectionIndex, now_ns: u64) -> bool {
        let Phase::Home(stream) = &mut self.slots[index.get()].phase else {
            return false;
        };
        let connection = &mut stream.connection;
        let limit_bytes = limit_bytes(connection, &self.shared);
        connection.uptake.look(now_ns);
        let may_not = connection.closing || connection.is_abandoned() || connection.socket.handshake().is_some();
        let unsent_bytes = connection.unsent_bytes();
        if may_not || unsent_bytes <= self.shared.config.output_high_water_bytes.min(limit_bytes) {
            return !may_not;
        }
        if !connection.uptake.is_stalled() || unsent_bytes >= limit_bytes {
            self.watch(index, now_ns);
            return false;
        }
        let may_hold = self.may_hold(index, now_ns);
        if !may_hold {
            self.close_for_budget(index, now_ns);
        }
        may_hold
    }

    /// Looks at a connection later.
    fn watch(&mut self, index: ConnectionIndex, now_ns: u64) {
        if !std::mem::replace(&mut self.slots[index.get()].is_watched, true) {
            let in_ns = LOOK_NS + LOOK_NS_EACH * self.watched.len() as u64;
            self.watched.push(now_ns + in_ns, index);
        }
    }

    /// When [`look_at_unread`](Self::look_at_unread) has to be called at the latest.
    #[inline]
    pub(in crate::runtime::net) fn unread_deadline_ns(&self) -> Option<u64> {
        self.watched.next_ns()
    }

    /// Looks at the connections that have waited for long enough.
    pub(in crate::runtime::net) fn look_at_unread(&mut self, now_ns: u64) {
        while let Some(index) = self.watched.pop_due(now_ns) {
            if std::mem::take(&mut self.slots[index.get()].is_watched) {
                self.look_at(index, now_ns);
            }
        }
    }

    #[cold]
    fn look_at(&mut self, index: ConnectionIndex, now_ns: u64) {
        let slot = &mut self.slots[index.get()];
        slot.readiness.set(Condition::Blocked, false);
        let has_room = slot.send_some(self.shared.net());
        let Phase::Home(stream) = &mut slot.phase else {
            return;
        };
        let connection = &mut stream.connection;
        let moved_ns = connection.uptake.look(now_ns);
        if has_room || moved_ns == now_ns || connection.failed {
            slot.last_active_ns = now_ns;
            return self.ready.push_answered(index);
        }
        let unread_bytes = connection.unread(self.watched.room());
        if unread_bytes == 0 {
            // The peer is free to read.
            return;
        }
        let is_full = unread_bytes >= FULL_BYTES || connection.input.data().len() >= AHEAD_BYTES_MAX;
        let is_at_limit = connection.unsent_bytes() >= limit_bytes(connection, &self.shared);
        let waited_ns = now_ns.saturating_sub(moved_ns);
        let patience_ns = match is_at_limit {
            true => PATIENCE_AT_LIMIT_NS,
            false => LOOK_NS,
        };
        if !is_full {
            // Many small packets fill a socket, too. Once these are read, the peer can write on if it has more.
            slot.last_active_ns = now_ns;
            self.read(index, 1, READ_BYTES_MAX, now_ns);
            self.ready.push(index);
        } else if waited_ns < patience_ns {
            self.watch(index, now_ns);
        } else if is_at_limit {
            self.close_for_limit(index, now_ns);
        } else {
            connection.uptake.stall();
            self.ready.push(index);
        }
    }

    /// Closes a connection that has no end of output.
    fn close_for_limit(&mut self, index: ConnectionIndex, now_ns: u64) {
        if let Some(stream) = self.slots[index.get()].phase.stream() {
            let connection = &stream.connection;
            let (unsent_bytes, limit_bytes) = (connection.unsent_bytes(), limit_bytes(connection, &self.shared));
            let why = "its peer sends requests and reads no replies";
            self.closed_log.say(connection.peer, unsent_bytes, limit_bytes, why, now_ns);
        }
        self.net().connections_over_output_limit.add(1);
        self.close(index);
    }
}

/// How much unsent output a connection may have. That of a peer that could authenticate and has not is small.
fn limit_bytes<C>(connection: &Connection<C>, shared: &Shared) -> usize {
    let limit_bytes = shared.output_limit_bytes();
    match connection.is_authenticated {
        true => limit_bytes,
        false => limit_bytes.min(shared.config.output_high_water_bytes),
    }
}
