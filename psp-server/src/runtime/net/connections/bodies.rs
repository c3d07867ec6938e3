//! Room for bodies: requests of which more than 64 KiB are announced. A body reserves room for all that is announced
//! before its rest is read, so that whoever has begun can end. Beyond the budget bodies wait in a line, in which they
//! hold little, and their rest stays in the sockets.
//!
//! ```text
//!   64 KiB have come ── room for all of it ────────────────────► read into place
//!          └── none ──► line ── the first, when there is room ──┘
//!                        └── too many, or none for too long ──► refused
//! ```

use psp_protocols::{Framing, Rejection};

use super::slot::Phase;
use super::table::Connections;
use crate::transport::input::BODY_LEN_MIN;
use crate::transport::request_key::ConnectionIndex;

/// Whether a body may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Reserved,
    /// The connection waits for it in the line.
    Later,
    Never,
}

impl<F: Framing, C> Connections<F, C> {
    /// Reserves a buffer of `len` bytes for the body of a connection at home, or has the connection wait for it.
    #[cold]
    pub(super) fn reserve_body(&mut self, index: ConnectionIndex, len: usize, now_ns: u64) -> Room {
        let Phase::Home(stream) = &self.slots[index.get()].phase else {
            return Room::Later;
        };
        if self.slots[index.get()].awaits_bytes.is_some() && !self.draining {
            return Room::Later;
        }
        // Who holds several bodies of one request must not wait for others, who may wait for him.
        let may_wait = stream.connection.input.held_bytes() <= 2 * BODY_LEN_MIN;
        let room = match self.bodies.is_empty() || !may_wait {
            true => self.try_reserve(index, len, now_ns),
            false => Room::Later,
        };
        if room != Room::Later {
            return room;
        }
        let has_place = self.bodies.has_place(self.shared.config.buffered_bytes());
        if !may_wait || !has_place || self.draining {
            return Room::Never;
        }
        self.slots[index.get()].awaits_bytes = Some(len);
        self.bodies.push(now_ns, index);
        Room::Later
    }

    /// There is no room for a body.
    pub(super) fn refuse_body(&mut self, index: ConnectionIndex) {
        self.net().connections_over_budget.add(1);
        self.refuse(index, &Rejection::OutOfBuffers);
    }

    fn try_reserve(&mut self, index: ConnectionIndex, len: usize, now_ns: u64) -> Room {
        let Phase::Home(stream) = &self.slots[index.get()].phase else {
            return Room::Never;
        };
        if len > self.shared.buffers.share_bytes() {
            return Room::Never;
        }
        let more = len.saturating_sub(stream.connection.input.held_bytes());
        let is_authenticated = stream.connection.is_authenticated;
        if !self.make_room(more, Some(index), is_authenticated, now_ns) {
            return Room::Later;
        }
        let Phase::Home(stream) = &mut self.slots[index.get()].phase else {
            return Room::Never;
        };
        let is_reserved = stream.connection.input.reserve(len);
        stream.connection.count(&self.shared.buffers);
        match is_reserved {
            true => Room::Reserved,
            false => Room::Never,
        }
    }

    /// Reserves room for the bodies that wait for it, as far as there is some. One that has waited for long is refused.
    /// Returns whether any waits no more.
    #[inline]
    pub(in crate::runtime::net) fn admit_bodies(&mut self, now_ns: u64) -> bool {
        !self.bodies.is_empty() && self.admit_first_bodies(now_ns)
    }

    #[cold]
    fn admit_first_bodies(&mut self, now_ns: u64) -> bool {
        let mut any = false;
        while let Some((index, is_out_of_patience)) = self.bodies.first(now_ns) {
            // A connection that was closed meanwhile waits no more.
            if let Some(len) = self.slots[index.get()].awaits_bytes {
                let is_time_to_look = self.bodies.deadline_ns() <= Some(now_ns);
                if !is_time_to_look && !self.shared.buffers.has_room(len) {
                    break;
                }
                self.bodies.looked_ns = now_ns;
                match self.try_reserve(index, len, now_ns) {
                    Room::Later if is_out_of_patience => self.refuse_body(index),
                    Room::Later => break,
                    // Without a buffer it is refused.
                    Room::Reserved | Room::Never => {}
                }
                self.slots[index.get()].awaits_bytes = None;
                self.ready.push(index);
                any = true;
            }
            self.bodies.pop();
        }
        any
    }

    /// When [`admit_bodies`](Self::admit_bodies) has to be called at the latest.
    pub(in crate::runtime::net) fn bodies_deadline_ns(&self) -> Option<u64> {
        self.bodies.deadline_ns()
    }
}
