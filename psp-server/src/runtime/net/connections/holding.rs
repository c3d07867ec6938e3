//! Back-pressure: runs that wait for a place in their typed queue. Until a run has one, nothing more is read from its
//! connection, so its peer's requests stay in the sockets.
//!
//! ```text
//!   Home ── run ── the queue has room ────────────────────────► Queued
//!             └─── full ──► Backpressured ── a place is free ──► Queued
//!                                └───── for backpressure_ms ───► refused
//! ```
//!
//! Where there is admission, it turns a run away that has a place and would not be answered in time.
//!
//! Runs of one type get places in the order in which they came, and those of other types do not wait for them.

use psp_policy::RequestType;
use psp_policy::admission::Arrival;
use psp_protocols::Framing;

use super::slot::Phase;
use super::table::Connections;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::transport::request_key::ConnectionIndex;
use crate::transport::run::Stream;

impl<F: Framing, C> Connections<F, C> {
    /// The run of a connection at home enters its typed queue, or waits for a place there.
    #[inline]
    pub(super) fn enter_queue<K>(
        &mut self,
        index: ConnectionIndex,
        request_type: RequestType,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        if let Some(len_max) = dispatcher.run_len_max(request_type) {
            self.put_back(index, len_max, dispatcher);
        }
        let slot = &mut self.slots[index.get()];
        slot.last_run.request_type = request_type;
        let of_type = dispatcher.slot(request_type);
        let is_full = self.held.has(of_type) || !dispatcher.has_room(of_type);
        if is_full && self.held.wait_ns_max > 0 {
            return self.hold(index, request_type, dispatcher, now_ns);
        }
        slot.phase.queue();
        self.enter(index, request_type, dispatcher, now_ns);
    }

    /// A run with a place in its typed queue enters it, unless admission turns it away. Returns whether it did.
    #[inline]
    fn enter<K>(
        &mut self,
        index: ConnectionIndex,
        request_type: RequestType,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        let Some(Stream { run, .. }) = self.slots[index.get()].phase.stream() else {
            return false;
        };
        let request = self.names.of_run(index);
        let arrival = || {
            let arrival = Arrival::new(request, request_type, run.arrived_ns);
            run.standing.of(arrival).count(run.frames.len().max(1) as u32)
        };
        let arrived = dispatcher.arrived(now_ns, (request, request_type), run.deadline_ns, arrival);
        arrived.err().map(|refusal| self.turn_away(index, refusal, dispatcher)).is_none()
    }

    /// The run waits for a place, with as little memory as its connection can have.
    #[cold]
    fn hold<K>(&mut self, index: ConnectionIndex, request_type: RequestType, dispatcher: &Dispatcher<K>, now_ns: u64) {
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return;
        };
        self.memory.take_back(&mut stream.connection);
        for frame in &stream.run.frames {
            dispatcher.count_held(frame.request_type);
        }
        if stream.run.frames.is_empty() {
            // A step of a handshake.
            dispatcher.count_held(request_type);
        }
        if self.may_hold(index, now_ns) {
            self.slots[index.get()].phase.hold();
            self.held.push(dispatcher.slot(request_type), index);
        } else {
            self.slots[index.get()].phase.queue();
            self.reject(index, dispatcher);
        }
    }

    /// Gives free places to the runs that wait for them, and refuses runs that have waited for too long. Returns
    /// whether any run entered its queue.
    #[inline]
    pub(in crate::runtime::net) fn admit_held<K>(&mut self, dispatcher: &mut Dispatcher<K>, now_ns: u64) -> bool {
        !self.held.is_empty() && self.admit_in_order(dispatcher, now_ns)
    }

    #[cold]
    fn admit_in_order<K>(&mut self, dispatcher: &mut Dispatcher<K>, now_ns: u64) -> bool {
        let mut have_entered = false;
        for of_type in 0..self.held.slots() {
            while let Some(index) = self.held.first(of_type) {
                let has_room = dispatcher.has_room(of_type);
                if !has_room && now_ns <= self.held_until_ns(index) {
                    break;
                }
                self.held.pop(of_type);
                let slot = &mut self.slots[index.get()];
                let request_type = slot.last_run.request_type;
                slot.phase.queue();
                if self.drop_unwanted(index, now_ns, dispatcher) {
                    continue;
                }
                if has_room {
                    have_entered |= self.enter(index, request_type, dispatcher, now_ns);
                } else {
                    self.reject(index, dispatcher);
                }
            }
        }
        have_entered
    }

    /// Until when a run may wait for a place.
    fn held_until_ns(&self, index: ConnectionIndex) -> u64 {
        let stream = self.slots[index.get()].phase.stream();
        stream.map_or(0, |stream| {
            let until_ns = stream.run.arrived_ns.saturating_add(self.held.wait_ns_max);
            stream.run.deadline_ns.map_or(until_ns, |at_ns| until_ns.min(at_ns))
        })
    }

    /// When [`admit_held`](Self::admit_held) has to be called at the latest.
    pub(in crate::runtime::net) fn held_deadline_ns(&self) -> Option<u64> {
        if self.held.is_empty() {
            return None;
        }
        let first = { 0..self.held.slots() }.filter_map(|slot| self.held.first(slot));
        first.map(|index| self.held_until_ns(index).saturating_add(1)).min()
    }
}
