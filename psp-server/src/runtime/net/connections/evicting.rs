//! Makes room in the budget for buffered bytes: closes connections that hold much and wait for nothing. Much is more
//! than 64 KiB, and little suffices when all of them together hold a quarter more than the budget.

use psp_protocols::Framing;

use super::memory::Memory;
use super::readiness::Condition;
use super::slot::{Phase, Slot};
use super::table::Connections;
use crate::transport::budget::EXEMPT_BYTES;
use crate::transport::request_key::ConnectionIndex;

/// A peer without progress for this long may lose its connection to one that needs room. A peer that has not
/// authenticated may lose it at any time to one that has.
const STALE_NS: u64 = 1_000_000_000;
/// The same for a peer for which messages wait: they come whether it reads or not.
const STALE_LISTENER_NS: u64 = 10_000_000;

impl<F: Framing, C> Connections<F, C> {
    /// Counts what a connection holds by now. If that is too much for the budget, connections of other peers are closed
    /// that have made no progress. `false` if this connection has to be closed all the same.
    pub(super) fn may_hold(&mut self, index: ConnectionIndex, now_ns: u64) -> bool {
        let Phase::Home(stream) = &mut self.slots[index.get()].phase else {
            return true;
        };
        let connection = &mut stream.connection;
        if Memory::account(connection, &self.shared) {
            return true;
        }
        let (held_bytes, is_authenticated) = (connection.counted_bytes, connection.is_authenticated);
        let is_within_share = held_bytes <= self.shared.buffers.share_bytes();
        let may_hold = is_within_share
            && (self.make_room(0, Some(index), is_authenticated, now_ns)
                || held_bytes <= self.shared.buffers.exempt_bytes());
        self.net().connections_over_budget.add(u64::from(!may_hold));
        may_hold
    }

    /// Makes room for replies that found none, if there are any. Their own connections are at their workers.
    #[inline]
    pub(in crate::runtime::net) fn make_room_for_replies(&mut self, now_ns: u64) {
        if let Some(asked) = self.shared.buffers.room.asked() {
            self.make_room(asked.bytes, None, true, now_ns);
            self.shared.buffers.room.answer(asked);
        }
    }

    /// Makes room for messages that found none.
    #[inline]
    pub(super) fn make_room_for_messages(&mut self, now_ns: u64) {
        let wanted_bytes = self.shared.deferrals().announcements().take_wanted_bytes();
        if wanted_bytes > 0 {
            self.make_room(wanted_bytes, None, true, now_ns);
        }
    }

    /// Closes connections until the budget is kept and has room for `bytes` more: those first that have not
    /// authenticated, and then those that have held the most for the longest time without progress. Returns whether it
    /// has.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        bytes: usize,
        asking: Option<ConnectionIndex>,
        is_authenticated: bool,
        now_ns: u64,
    ) -> bool {
        while !self.shared.buffers.has_room(bytes) {
            let exempt_bytes = self.shared.buffers.exempt_bytes();
            let indices = (0..self.slots.len()).map_while(ConnectionIndex::new);
            let stale = indices.filter_map(|index| {
                let rank = self.slots[index.get()].rank_to_close(exempt_bytes, is_authenticated, now_ns)?;
                (Some(index) != asking).then_some((rank, index))
            });
            let Some(((is_stranger, _), index)) = stale.max_by_key(|(rank, _)| *rank) else {
                return false;
            };
            let is_of_less_worth = is_authenticated && is_stranger;
            if !is_of_less_worth && self.listens(index, now_ns) {
                continue;
            }
            self.net().connections_over_budget.add(1);
            self.close_for_budget(index, now_ns);
        }
        true
    }

    /// Whether messages wait for the peer of a connection, and it reads: the event queue tells of room in a socket only
    /// once much of it is free.
    fn listens(&mut self, index: ConnectionIndex, now_ns: u64) -> bool {
        let slot = &mut self.slots[index.get()];
        let waits = slot.phase.home_mut().is_some_and(|stream| {
            let connection = &stream.connection;
            connection.common.pushes.has_any() && connection.has_unsent()
        });
        if !waits {
            return false;
        }
        slot.readiness.set(Condition::Blocked, false);
        slot.send_some(self.shared.net());
        let stream = slot.phase.home_mut();
        let moves = stream.is_some_and(|stream| stream.connection.uptake.look(now_ns) == now_ns);
        if moves {
            slot.last_active_ns = now_ns;
            self.ready.push_answered(index);
        }
        moves
    }

    /// Closes a connection for what it holds.
    pub(super) fn close_for_budget(&mut self, index: ConnectionIndex, now_ns: u64) {
        if let Some(stream) = self.slots[index.get()].phase.stream() {
            let connection = &stream.connection;
            let held_bytes = connection.counted_bytes + connection.common.pushes.held_bytes();
            let limit_bytes = self.shared.config.buffered_bytes();
            let why = "over the budget for buffered bytes";
            self.closed_log.say(connection.peer, held_bytes, limit_bytes, why, now_ns);
        }
        self.close(index);
    }
}

impl<F: Framing, C> Slot<F, C> {
    /// The peer has sent `count` bytes. Of a body fewer than 64 KiB are no progress.
    pub(super) fn note_progress(&mut self, count: usize, is_body: bool, now_ns: u64) {
        self.since_progress_bytes += count;
        if !is_body || self.since_progress_bytes >= EXEMPT_BYTES {
            (self.progress_ns, self.since_progress_bytes) = (now_ns, 0);
        }
    }

    /// The higher, the earlier the connection is closed when others need its memory. `None`: not at all, as one that
    /// holds `exempt_bytes` or less.
    fn rank_to_close(&self, exempt_bytes: usize, for_authenticated: bool, now_ns: u64) -> Option<(bool, u128)> {
        let Phase::Home(stream) = &self.phase else {
            return None;
        };
        let connection = &stream.connection;
        let progress_ns = match connection.has_unsent() {
            true => connection.uptake.moved_ns(now_ns),
            false => self.last_active_ns.max(self.progress_ns),
        };
        let (for_ns, listens) = (now_ns.saturating_sub(progress_ns), connection.common.pushes.has_any());
        let is_stale = for_ns > if listens { STALE_LISTENER_NS } else { STALE_NS };
        let is_of_less_worth = for_authenticated && !connection.is_authenticated;
        let waits_for_nothing = self.detached_from.is_none() && (!self.owes() || connection.has_unsent());
        let held_bytes =
            connection.counted_bytes.max(connection.unsent_bytes()) + connection.common.pushes.held_bytes();
        (waits_for_nothing
            && self.awaits_bytes.is_none()
            && held_bytes > exempt_bytes
            && (is_stale || is_of_less_worth))
            .then_some((!connection.is_authenticated, held_bytes as u128 * u128::from(for_ns)))
    }
}
