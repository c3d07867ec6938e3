//! Runs that leave their connection, so that its other requests need not wait for them: only where replies name their
//! requests ([`Framing::replies_in_order`]).
//!
//! ```text
//!   connection   input: [long] [short] [long] ..               output
//!                  │ detach: the run and its bytes               ▲ rejoin: its replies
//!                  ▼                                             │
//!   a slot of its own, without a socket ──► typed queue ──► worker
//! ```
//!
//! A run whose type is known to take less than [`long_us`](crate::Config::long_us) stays: it is back soon, and the
//! worker that ran it sends its reply. A detached request that waits for another turn is framed again from its own
//! bytes.

use psp_policy::RequestType;
use psp_protocols::{Framing, Rejection};

use super::memory::Memory;
use super::parse::{Parsed, parse};
use super::slot::{Phase, Slot};
use super::table::Connections;
use crate::classifier::Classifier;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::transport::input::BODY_LEN_MIN;
use crate::transport::request_key::ConnectionIndex;
use crate::transport::run::{Run, Stream};

/// Streams that a connection keeps for its next detached runs.
const IDLE_MAX: usize = 4;

impl<F: Framing, C> Connections<F, C> {
    /// The run of a connection at home enters its typed queue: detached, unless it is short, or there is no place in
    /// the queue, for which the connection waits itself. Then the connection has its next turn behind the others: a
    /// port that moves leaves no more than one run in the dispatcher. With as many detached runs as may be, it waits
    /// for one to end.
    #[inline]
    pub(super) fn enter_or_detach<K>(
        &mut self,
        index: ConnectionIndex,
        request_type: RequestType,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        if self.detached_max == 0 || dispatcher.keeps_briefly(request_type) {
            return self.enter_queue(index, request_type, dispatcher, now_ns);
        }
        if self.slots[index.get()].detached.count >= self.detached_max {
            self.put_back(index, 0, dispatcher);
            return self.wait_for_peer(index, now_ns);
        }
        let of_type = dispatcher.slot(request_type);
        let has_place = !self.held.has(of_type) && dispatcher.has_room(of_type);
        let own = has_place.then(|| self.detach(index, dispatcher, now_ns)).flatten();
        if own.is_some() {
            self.ready.push(index);
        }
        self.enter_queue(own.unwrap_or(index), request_type, dispatcher, now_ns);
    }

    /// Takes all but the first `kept` requests out of the run of a connection at home. They are framed again.
    #[cold]
    pub(super) fn put_back<K>(&mut self, index: ConnectionIndex, kept: usize, dispatcher: &Dispatcher<K>) {
        let slot = &mut self.slots[index.get()];
        if let Some(Stream { run, .. }) = slot.phase.home_mut()
            && run.frames.len() > kept
        {
            let others = run.frames.drain(kept..);
            others.for_each(|frame| dispatcher.uncount_arrival(frame.request_type));
            (run.len_max, run.discard_after, run.closes) = (2, 0, false);
            slot.cursor = F::Cursor::default();
        }
    }

    /// Moves the first request of the run of a connection at home to a slot of its own. `None` if there is no slot, or
    /// the peer has not authenticated: it has one request at a time.
    #[cold]
    fn detach<K>(
        &mut self,
        index: ConnectionIndex,
        dispatcher: &Dispatcher<K>,
        now_ns: u64,
    ) -> Option<ConnectionIndex> {
        let is_authenticated = { self.slots[index.get()].phase.stream()? }.connection.is_authenticated;
        let own = is_authenticated.then(|| self.vacant()).flatten()?;
        // The others need not wait for the first.
        self.put_back(index, 1, dispatcher);
        let slot = &mut self.slots[index.get()];
        let idle = slot.detached.idle.pop();
        let Stream { connection, run } = slot.phase.home_mut().expect("it was there");
        let mut stream = idle.unwrap_or_else(|| {
            let connection = connection.detached(own);
            Box::new(Stream { connection, run: Run::default() })
        });
        stream.run.len_max = run.len_max;
        std::mem::swap(run, &mut stream.run);
        (stream.connection.index, stream.connection.is_authenticated) = (own, true);
        let len = stream.run.frames[0].len;
        connection.input.detach(len, &mut stream.connection.input);
        // What follows the last request is not its bytes.
        connection.input.discard(std::mem::take(&mut stream.run.discard_after));
        connection.closing |= std::mem::take(&mut stream.run.closes);
        if len >= BODY_LEN_MIN {
            connection.count(&self.shared.buffers);
            stream.connection.count(&self.shared.buffers);
        }
        slot.detached.count += 1;
        self.shared.net().runs_detached.add(1);
        self.detached += 1;
        self.slots[own.get()] = Slot {
            peer: slot.peer,
            presence: slot.presence.clone(),
            phase: Phase::Home(stream),
            last_active_ns: now_ns,
            detached_from: Some(index),
            ..Slot::free()
        };
        Some(own)
    }

    /// A connection has something to send, or a detached run has for its connection.
    #[inline]
    pub(super) fn push_answered(&mut self, index: ConnectionIndex) {
        match self.slots[index.get()].detached_from {
            None => {
                self.ready.push_answered(index);
                self.rejoin_done(index);
            }
            Some(home) => self.rejoin(index, home),
        }
    }

    /// A connection may be back from its worker: the detached runs that were done meanwhile rejoin it.
    #[inline]
    fn rejoin_done(&mut self, index: ConnectionIndex) {
        let done = &mut self.slots[index.get()].detached.done;
        if !done.is_empty() {
            let mut done = std::mem::take(done);
            done.drain(..).for_each(|own| self.rejoin(own, index));
            self.slots[index.get()].detached.done = done;
        }
    }

    /// Takes the replies of the detached run at `own` to its connection. With all of them answered, its slot is free.
    #[cold]
    fn rejoin(&mut self, own: ConnectionIndex, home: ConnectionIndex) {
        let Ok([slot, of_home]) = self.slots.get_disjoint_mut([own.get(), home.get()]) else {
            return;
        };
        let is_there = slot.shares_connection(of_home);
        let is_own = slot.detached_from == Some(home);
        let Some(stream) = slot.phase.stream_mut().filter(|_| is_own) else {
            return;
        };
        let is_lent = matches!(of_home.phase, Phase::Lent { .. });
        if is_there && is_lent {
            if !stream.connection.input.is_empty() && matches!(slot.phase, Phase::Home(_)) {
                self.ready.push(own);
            } else if !of_home.detached.done.contains(&own) {
                of_home.detached.done.push(own);
            }
            return;
        }
        let connection = &mut stream.connection;
        if is_there {
            of_home.last_active_ns = of_home.last_active_ns.max(slot.last_active_ns);
        }
        if let Some(of_home) = of_home.phase.stream_mut().filter(|_| is_there) {
            let to = &mut of_home.connection;
            if to.common.pushes.has_any() {
                // Those came before the reply.
                to.take_pushed(usize::MAX);
            }
            to.output.absorb(&mut connection.output);
            to.reserved_bytes += std::mem::take(&mut connection.counted_bytes);
            to.reserved_bytes += std::mem::take(&mut connection.reserved_bytes);
            to.closing |= std::mem::take(&mut connection.closing);
            to.is_authenticated &= connection.is_authenticated;
        }
        let (has_input, owes) = (!connection.input.is_empty(), !connection.owed.is_empty());
        if !has_input && owes {
            connection.input.empty();
            connection.return_buffers(&mut self.memory.output);
        }
        if has_input || owes {
            connection.count(&self.shared.buffers);
        }
        if matches!(slot.phase, Phase::Home(_)) {
            match (is_there, has_input) {
                (true, true) => self.ready.push(own),
                (true, false) if owes => {}
                _ => self.free_detached(own, home),
            }
        }
        if is_there {
            match self.slots[home.get()].phase {
                Phase::Home(_) => self.ready.push_answered(home),
                _ => self.send_meanwhile(home),
            }
        }
    }

    /// The next step of a detached run that is not at a worker: its rest enters a queue, unless its peer is gone.
    pub(super) fn go_on<K: Classifier<F::Head>>(
        &mut self,
        own: ConnectionIndex,
        home: ConnectionIndex,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        let slot = &mut self.slots[own.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return;
        };
        let Stream { connection, run } = &mut **stream;
        if connection.is_abandoned() {
            return self.free_detached(own, home);
        }
        let (input, is_authenticated) = (connection.input.data(), connection.is_authenticated);
        if input.is_empty() {
            return self.rejoin(own, home);
        }
        match parse(&self.framing, &mut slot.cursor, input, is_authenticated, run, dispatcher, now_ns) {
            Ok(Parsed::Run(request_type)) => {
                // Its connection knows what follows.
                (run.discard_after, run.closes) = (0, false);
                self.enter_queue(own, request_type, dispatcher, now_ns);
            }
            // A framing that finds other frames than it found before.
            Ok(Parsed::NeedMore { .. }) => {
                self.refuse(own, &Rejection::HandlerFailed);
                self.rejoin(own, home);
            }
            Err(error) => {
                self.net().malformed.add(1);
                self.refuse(own, &Rejection::Malformed(&error));
                self.rejoin(own, home);
            }
        }
    }

    /// Frees the slots of the runs that were detached from a connection which is closed, and that are at no worker and
    /// in no queue. The others end when their turns come.
    #[cold]
    pub(super) fn free_detached_of(&mut self, home: ConnectionIndex) {
        for own in (0..self.slots.len()).map_while(ConnectionIndex::new) {
            let slot = &self.slots[own.get()];
            let is_left = slot.detached_from == Some(home) && matches!(slot.phase, Phase::Home(_));
            if is_left && !slot.shares_connection(&self.slots[home.get()]) {
                self.free_detached(own, home);
            }
        }
    }

    /// Frees the slot of a detached run, which is at no worker and in no queue.
    fn free_detached(&mut self, own: ConnectionIndex, home: ConnectionIndex) {
        let slot = std::mem::replace(&mut self.slots[own.get()], Slot::free());
        self.free_slot(own);
        self.detached -= 1;
        if let Some(stream) = slot.phase.stream() {
            Memory::release(&stream.connection, &self.shared);
        }
        let of_home = &mut self.slots[home.get()];
        if !slot.shares_connection(of_home) {
            return;
        }
        let Phase::Home(mut stream) = slot.phase else {
            return;
        };
        of_home.detached.count -= 1;
        of_home.detached.done.retain(|done| *done != own);
        if of_home.detached.idle.len() < IDLE_MAX && stream.connection.owed.is_empty() {
            (stream.connection.counted_bytes, stream.connection.reserved_bytes) = (0, 0);
            stream.connection.return_buffers(&mut self.memory.output);
            stream.connection.input.empty();
            of_home.detached.idle.push(stream);
        }
        self.ready.push(home);
    }
}
