//! The next step of a connection: send output, frame requests, or read.

use psp_protocols::{Framing, Rejection};

use super::bodies::Room;
use super::parse::{Parsed, parse};
use super::readiness::Condition;
use super::slot::{Phase, READ_BYTES_MAX, RanOn, SEND_BYTES_MAX};
use super::table::Connections;
use crate::classifier::Classifier;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::transport::budget::EXEMPT_BYTES;
use crate::transport::input::{Fill, InputBuffer, POOLED_LEN};
use crate::transport::request_key::ConnectionIndex;
use crate::transport::run::Stream;

/// Unsent output of a worker's reply from which on a worker sends the rest, too.
const BACKGROUND_FLUSH_BYTES_MIN: usize = 32 * 1024;

impl<F: Framing, C> Connections<F, C> {
    /// Advances up to `count` connections that have something to do, each once: one that has more to do is behind the
    /// others, and behind what has come meanwhile. Of those that receive long requests one has its turn, behind the
    /// others.
    pub(in crate::runtime::net) fn advance_ready<K: Classifier<F::Head>>(
        &mut self,
        count: usize,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        for _ in 0..count.min(self.ready.in_order()) {
            self.advance_first(dispatcher, now_ns);
        }
        self.advance_put_off(dispatcher, now_ns);
    }

    /// Advances one connection that has something to do.
    pub(in crate::runtime::net) fn advance_next<K: Classifier<F::Head>>(
        &mut self,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        match self.ready.is_time_for_put_off() {
            true => self.advance_put_off(dispatcher, now_ns),
            false => self.advance_first(dispatcher, now_ns),
        }
    }

    /// Advances the first one in order, or puts it off.
    fn advance_first<K: Classifier<F::Head>>(&mut self, dispatcher: &mut Dispatcher<K>, now_ns: u64) {
        let Some(index) = self.ready.pop() else {
            return;
        };
        match (self.ready.is_empty(), self.reads_long(index)) {
            (true, true) => self.advance_long(index, dispatcher, now_ns),
            (true, false) => self.advance_one(index, READ_BYTES_MAX, dispatcher, now_ns),
            (false, true) => self.ready.put_off(index),
            (false, false) => self.advance_one(index, POOLED_LEN, dispatcher, now_ns),
        }
    }

    /// Advances a connection that is in the middle of a long request.
    fn advance_long<K: Classifier<F::Head>>(
        &mut self,
        index: ConnectionIndex,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        // The kernel may have woken the peer on this core, where it would wait until the next tick.
        if self.ready.take_has_sent() {
            std::thread::yield_now();
        }
        self.advance_one(index, READ_BYTES_MAX, dispatcher, now_ns);
    }

    /// Whether the connection is in the middle of a long request, of which it may read much, and has nothing else to
    /// do.
    fn reads_long(&self, index: ConnectionIndex) -> bool {
        let slot = &self.slots[index.get()];
        let Phase::Home(stream) = &slot.phase else {
            return false;
        };
        let connection = &stream.connection;
        let input = &connection.input;
        let reads = !input.is_empty() && input.held_bytes() > POOLED_LEN;
        reads && !connection.has_unsent() && !connection.closing && slot.detached_from.is_none()
    }

    /// Advances the first one that was put off. It is one at a time, as others may have come meanwhile.
    fn advance_put_off<K: Classifier<F::Head>>(&mut self, dispatcher: &mut Dispatcher<K>, now_ns: u64) {
        if let Some(index) = self.ready.pop_put_off() {
            self.advance_long(index, dispatcher, now_ns);
        }
    }

    fn advance_one<K: Classifier<F::Head>>(
        &mut self,
        index: ConnectionIndex,
        read_bytes_max: usize,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        if let Some(home) = self.slots[index.get()].detached_from {
            return self.go_on(index, home, dispatcher, now_ns);
        }
        match self.slots[index.get()].phase {
            Phase::Home(_) => self.advance(index, read_bytes_max, dispatcher, now_ns),
            Phase::Lingering { .. } => self.linger(index),
            // Its requests wait for a worker, maybe for long.
            Phase::Backpressured(_) | Phase::Queued(_) => self.send_meanwhile(index),
            Phase::Free | Phase::Lent { .. } => {}
        }
    }

    /// Sends output of a connection whose requests wait.
    pub(super) fn send_meanwhile(&mut self, index: ConnectionIndex) {
        if self.slots[index.get()].send_some(self.shared.net()) {
            self.ready.push_answered(index);
        }
    }

    /// Sends the replies of connections that have something to do.
    pub(in crate::runtime::net) fn send_replies(&mut self) {
        let Self { ready, slots, shared, .. } = self;
        ready.send_answered(|index| {
            slots[index.get()].send_some(shared.net());
        });
    }

    /// Whether more than `count` connections have something to do, or any of them has something to read.
    pub(in crate::runtime::net) fn may_read(&self, count: usize) -> bool {
        let has_something = |index: ConnectionIndex| {
            let slot = &self.slots[index.get()];
            let Phase::Home(stream) = &slot.phase else {
                return false;
            };
            let has_input = !stream.connection.input.data().is_empty();
            has_input || slot.readiness.has(Condition::Readable)
        };
        self.ready.len() > count || self.ready.iter().any(has_something)
    }

    pub(super) fn advance<K: Classifier<F::Head>>(
        &mut self,
        index: ConnectionIndex,
        read_bytes_max: usize,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        let mut read_left = read_bytes_max;
        while self.step(index, &mut read_left, dispatcher, now_ns) {}
    }

    /// The next step of a connection: sends, or goes on with its input. Returns whether another one follows at once.
    fn step<K: Classifier<F::Head>>(
        &mut self,
        index: ConnectionIndex,
        read_left: &mut usize,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return false;
        };
        let connection = &mut stream.connection;
        if connection.failed || connection.common.pushes.is_cut_off() {
            self.close(index);
            return false;
        }
        if !connection.has_unsent() {
            if connection.may_send_pushed() {
                connection.lend_buffers(&mut self.memory.output);
                connection.take_pushed(SEND_BYTES_MAX);
                return true;
            }
            return self.step_of_input(index, read_left, dispatcher, now_ns);
        }
        if !slot.readiness.has(Condition::Blocked) {
            return self.step_of_output(index, dispatcher, now_ns);
        }
        if self.runs_on(index, now_ns) {
            return self.step_of_input(index, read_left, dispatcher, now_ns);
        }
        if self.discard_meanwhile(index) {
            self.wait_for_peer(index, now_ns);
        }
        false
    }

    /// Sends some of the output, or has a worker send it. Returns what [`step`](Self::step) does.
    fn step_of_output<K: Classifier<F::Head>>(
        &mut self,
        index: ConnectionIndex,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return false;
        };
        let Stream { connection, run } = &mut **stream;
        // A run of a peer that has gone is dropped, and its output would come here again.
        let background = slot.last_run.ran_on == RanOn::Worker
            && !slot.readiness.has(Condition::FlushRefused)
            && connection.output.len() >= BACKGROUND_FLUSH_BYTES_MIN
            && !connection.is_abandoned();
        if background {
            // Sending a long reply takes as long as making it: the same workers do it.
            run.clear();
            slot.phase.queue();
            let request_type = slot.last_run.request_type;
            self.net().background_flushes.add(1);
            dispatcher.entered(now_ns, self.names.of_run(index), request_type);
            return false;
        }
        slot.last_active_ns = now_ns;
        self.ready.note_sent();
        let is_answered = slot.send_some(self.shared.net());
        if is_answered {
            self.ready.push_answered(index);
        }
        !is_answered
    }

    /// Frames the input into a run, or reads more of it. Says goodbye on a connection that is to be closed.
    fn step_of_input<K: Classifier<F::Head>>(
        &mut self,
        index: ConnectionIndex,
        read_left: &mut usize,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return false;
        };
        let Stream { connection, run } = &mut **stream;
        if connection.closing && connection.owed.is_empty() && slot.detached.count == 0 {
            if connection.socket.say_goodbye() {
                return true;
            }
            self.start_lingering(index, now_ns);
            return false;
        }
        if connection.is_abandoned() {
            self.close(index);
            return false;
        }
        if connection.closing || connection.owed.len() + slot.detached.count >= self.owed_max {
            self.wait_for_peer(index, now_ns);
            return false;
        }
        if let Some(stage) = connection.socket.handshake() {
            return self.advance_handshake(index, stage, dispatcher, now_ns);
        }
        let (input, is_authenticated) = (connection.input.data(), connection.is_authenticated);
        match parse(&self.framing, &mut slot.cursor, input, is_authenticated, run, dispatcher, now_ns) {
            Ok(Parsed::Run(request_type)) => {
                slot.last_active_ns = now_ns;
                self.enter_or_detach(index, request_type, dispatcher, now_ns);
                false
            }
            Ok(Parsed::NeedMore { len_min }) => self.step_of_reading(index, len_min, read_left, now_ns),
            Err(error) => {
                self.net().malformed.add(1);
                self.refuse(index, &Rejection::Malformed(&error));
                true
            }
        }
    }

    /// Reads, if there is something to read. `len_min` bytes of the next request are announced.
    fn step_of_reading(&mut self, index: ConnectionIndex, len_min: usize, read_left: &mut usize, now_ns: u64) -> bool {
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return false;
        };
        let connection = &mut stream.connection;
        if slot.readiness.has(Condition::InputEnded) {
            connection.closing = true;
            return true;
        }
        if !slot.readiness.has(Condition::Readable) || (self.draining && slot.drain_read_left == 0) {
            if self.draining {
                slot.readiness.set(Condition::InputEnded, true);
                return true;
            }
            let before = connection.output.len();
            if slot.detached.count == 0 {
                self.framing.encode_interim(&mut slot.cursor, &mut connection.output);
            }
            let has_interim = connection.output.len() > before;
            if !has_interim {
                self.wait_for_peer(index, now_ns);
            }
            return has_interim;
        }
        if *read_left == 0 {
            self.ready.push(index);
            return false;
        }
        if let Some(len) = connection.input.wants_body(len_min) {
            match self.reserve_body(index, len, now_ns) {
                Room::Reserved => {}
                Room::Later => return false,
                Room::Never => {
                    self.refuse_body(index);
                    return true;
                }
            }
        }
        *read_left = self.read(index, len_min, *read_left, now_ns);
        true
    }

    /// Reads once. `len_min` bytes of the next request are announced. Returns what is left of `read_left`, the
    /// input that the connection may have read in its turn.
    pub(super) fn read(&mut self, index: ConnectionIndex, len_min: usize, read_left: usize, now_ns: u64) -> usize {
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return 0;
        };
        let connection = &mut stream.connection;
        match connection.receive(len_min, &mut self.memory.input) {
            Ok(Fill::Read { count, drained }) => {
                // A short read has emptied the socket; further input is a new event. The end of the input is not
                // a new event if it came before this read.
                let readable = !drained || slot.readiness.has(Condition::PeerClosed);
                slot.readiness.set(Condition::Readable, readable);
                slot.received_ns = now_ns;
                if self.draining {
                    slot.drain_read_left = slot.drain_read_left.saturating_sub(count);
                }
                let net = self.shared.net();
                net.bytes_received.add(count as u64);
                let held_bytes = connection.held_bytes().max(connection.counted_bytes);
                let large = held_bytes > POOLED_LEN;
                let begins = connection.input.data().len() <= count;
                slot.note_progress(count, held_bytes > EXEMPT_BYTES, now_ns);
                slot.note_heard(count, begins, now_ns);
                if large && !self.may_hold(index, now_ns) {
                    self.refuse(index, &Rejection::OutOfBuffers);
                }
                return read_left.saturating_sub(count);
            }
            Ok(Fill::Blocked) => slot.readiness.set(Condition::Readable, false),
            Ok(Fill::End) => slot.readiness.set(Condition::InputEnded, true),
            Ok(Fill::Broken) => {
                self.shared.net().malformed.add(1);
                connection.closing = true;
                connection.input = InputBuffer::default();
            }
            Err(_) => connection.failed = true,
        }
        read_left
    }

    /// Tells the peer the reason, and closes once that is sent.
    pub(super) fn refuse(&mut self, index: ConnectionIndex, rejection: &Rejection<'_>) {
        let Phase::Home(stream) = &mut self.slots[index.get()].phase else {
            return;
        };
        let connection = &mut stream.connection;
        self.framing.encode_rejection(rejection, &[], &mut connection.output);
        connection.closing = true;
        connection.input.consume(connection.input.data().len());
        connection.input.return_buffer(&mut self.memory.input);
    }

    /// The connection waits for its peer, with as little memory as it can.
    pub(super) fn wait_for_peer(&mut self, index: ConnectionIndex, now_ns: u64) {
        let Phase::Home(stream) = &mut self.slots[index.get()].phase else {
            return;
        };
        self.memory.take_back(&mut stream.connection);
        if !self.may_hold(index, now_ns) {
            self.close_for_budget(index, now_ns);
        }
    }
}
