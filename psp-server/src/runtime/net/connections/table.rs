//! The table: accepts connections, lends them, takes them back, closes them.

use std::collections::VecDeque;
use std::sync::Arc;

use mio::{Interest, Registry};
use psp_protocols::Framing;

use super::super::tokens::Tokens;
use super::backpressured::Backpressured;
use super::body_line::BodyLine;
use super::closed_log::ClosedLog;
use super::memory::Memory;
use super::peer_end::EventTime;
use super::per_address::Counted;
use super::readiness::{Condition, Readiness};
use super::ready_queue::ReadyQueue;
use super::slot::{Phase, RanOn, Slot};
use super::watched::Watched;
use crate::guarded_framing::GuardedFraming;
use crate::peer::Peer;
use crate::presence::State;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::host::event::SocketEvent;
use crate::shared::Receiver;
use crate::telemetry::NetCounters;
use crate::transport::connection::{Accepted, Connection};
use crate::transport::output::Flush;
use crate::transport::owed::{detached_max, owed_max};
use crate::transport::request_key::{ConnectionIndex, Names, PortNumber};
use crate::transport::run::{Run, Stream};

/// A connection that has taken nothing of what waits for it for this long is closed in a drain.
const UNREAD_DRAIN_S: u64 = 2;

/// All connections of one net worker.
pub(in crate::runtime::net) struct Connections<F: Framing, C> {
    pub(super) framing: Arc<GuardedFraming<F>>,
    pub(super) shared: Receiver,
    pub(super) names: Names,
    pub(super) slots: Vec<Slot<F, C>>,
    free: Vec<ConnectionIndex>,
    pub(super) ready: ReadyQueue,
    /// Connections that have new messages.
    pub(super) pushed: VecDeque<ConnectionIndex>,
    pub(super) memory: Memory,
    /// Connections whose runs wait for places in typed queues.
    pub(super) held: Backpressured,
    /// Connections whose peers may read later.
    pub(super) watched: Watched,
    pub(super) closed_log: ClosedLog,
    /// Connections whose bodies wait for room in the budget.
    pub(super) bodies: BodyLine,
    pub(super) lingering: usize,
    pub(super) draining: bool,
    /// How many replies a connection may owe before its next request has to wait.
    pub(super) owed_max: usize,
    /// How many runs of a connection may be detached.
    pub(super) detached_max: usize,
    /// How many runs are detached.
    pub(super) detached: usize,
}

impl<F: Framing, C> Connections<F, C> {
    pub(in crate::runtime::net) fn new(framing: Arc<GuardedFraming<F>>, shared: Receiver) -> Self {
        let backpressure_ns = shared.config.backpressure_ms.saturating_mul(1_000_000);
        Self {
            owed_max: owed_max(framing.replies_in_order()),
            detached_max: detached_max(framing.replies_in_order(), &shared.config),
            detached: 0,
            framing,
            slots: Vec::new(),
            free: Vec::new(),
            ready: ReadyQueue::default(),
            pushed: VecDeque::new(),
            memory: Memory::new(),
            held: Backpressured::new(shared.types.len() + 1, backpressure_ns),
            watched: Watched::default(),
            closed_log: ClosedLog::default(),
            bodies: BodyLine::default(),
            lingering: 0,
            draining: false,
            names: shared.names(),
            shared,
        }
    }

    pub(in crate::runtime::net) fn open(&self) -> usize {
        self.in_use() - self.detached
    }

    /// Slots of connections and of detached runs.
    fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Connections and detached runs that have something left to do. A lingering connection has not.
    pub(in crate::runtime::net) fn unfinished(&self) -> usize {
        self.in_use() - self.lingering
    }

    /// Whether connections have something to do, beside messages.
    #[inline]
    pub(in crate::runtime::net) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether messages wait to be sent.
    #[inline]
    pub(in crate::runtime::net) fn has_pushed(&self) -> bool {
        !self.pushed.is_empty()
    }

    pub(in crate::runtime::net) fn has_lingering(&self) -> bool {
        self.lingering > 0
    }

    /// Who is at the other end of a connection.
    pub(in crate::runtime::net) fn peer(&self, index: ConnectionIndex) -> Option<Peer> {
        self.slots[index.get()].peer
    }

    /// Whether there may be another connection.
    pub(in crate::runtime::net) fn is_full(&self) -> bool {
        self.in_use() >= self.names.connections_max()
    }

    /// A free slot, which is the caller's. `None` if there are as many as have names.
    pub(super) fn vacant(&mut self) -> Option<ConnectionIndex> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = ConnectionIndex::new(self.slots.len()).filter(|_| !self.is_full())?;
        self.slots.push(Slot::free());
        Some(index)
    }

    /// Gives a slot back that is [free](Slot::free).
    pub(super) fn free_slot(&mut self, index: ConnectionIndex) {
        self.ready.forget_put_off(index);
        self.free.push(index);
    }

    /// Takes a new connection in, which is `counted` for its address.
    pub(in crate::runtime::net) fn accept(
        &mut self,
        mut accepted: Accepted<C>,
        counted: Counted,
        registry: &Registry,
        tokens: Tokens,
        now_ns: u64,
    ) {
        let index = self.vacant().expect("it was asked before whether there may be another one");
        let interest = Interest::READABLE | Interest::WRITABLE;
        let Accepted { socket, peer, .. } = &mut accepted;
        let peer = *peer;
        let setup = socket
            .send_at_once()
            .and_then(|()| registry.register(socket, tokens.connection(index), interest));
        if let Err(error) = setup {
            tracing::debug!(%peer, %error, "connection lost at once");
            self.free.push(index);
            return;
        }
        let connection = Connection::new(self.port(), index, accepted);
        let is_stranger = !connection.is_authenticated;
        self.slots[index.get()] = Slot {
            peer: Some(peer),
            presence: Some(connection.presence.clone()),
            phase: Phase::Home(Box::new(Stream { connection, run: Run::default() })),
            received_ns: now_ns,
            progress_ns: now_ns,
            readiness: Readiness::of(&[Condition::Readable]),
            last_active_ns: now_ns,
            stranger_since_ns: is_stranger.then_some(now_ns),
            _counted: counted,
            ..Slot::free()
        };
        self.net().connections_accepted.add(1);
        self.net().connections_open.set(self.open() as u64);
        self.ready.push(index);
    }

    /// The event queue has an event of a connection's socket.
    pub(in crate::runtime::net) fn on_event(&mut self, index: ConnectionIndex, event: SocketEvent, at: EventTime) {
        let Some(slot) = self.slots.get_mut(index.get()) else {
            return;
        };
        if slot.phase.is_free() {
            return;
        }
        let grace_ms = self.shared.config.half_close_grace_ms;
        if slot.note_peer(event, at, grace_ms.saturating_mul(1_000_000)) && slot.has_request() {
            self.shared.net().connections_abandoned.add(1);
        }
        let SocketEvent { writable, .. } = event;
        // A Unix socket says that it is writable whenever its peer has read.
        let is_news = event.is_about_input()
            || slot.readiness.has(Condition::Blocked)
            || slot.readiness.has(Condition::FlushRefused);
        if event.readable || event.ended || event.failed {
            slot.readiness.set(Condition::Readable, true);
        }
        if event.ended || event.failed {
            slot.readiness.set(Condition::PeerClosed, true);
        }
        if writable || event.failed {
            slot.readiness.set(Condition::Blocked, false);
            slot.readiness.set(Condition::FlushRefused, false);
        }
        match &mut slot.phase {
            Phase::Home(_) if !is_news => {}
            Phase::Home(stream) | Phase::Backpressured(stream) | Phase::Queued(stream)
                if stream.connection.has_unsent() =>
            {
                self.ready.push_answered(index);
            }
            Phase::Home(_) | Phase::Lingering { .. } => self.ready.push(index),
            Phase::Lent { became_writable } => *became_writable |= writable || event.failed,
            Phase::Free | Phase::Backpressured(_) | Phase::Queued(_) => {}
        }
    }

    /// Lends the connection whose run the scheduler dispatched. `None` if it is lent already:
    /// its run yielded.
    #[inline]
    pub(in crate::runtime::net) fn lend(&mut self, index: ConnectionIndex) -> Option<Box<Stream<C, F::Head>>> {
        let mut stream = self.slots[index.get()].phase.lend()?;
        stream.connection.lend_buffers(&mut self.memory.output);
        Some(stream)
    }

    /// Takes a connection back after its run. `remote` says that another thread than the net thread ran it.
    pub(in crate::runtime::net) fn take_back<K>(
        &mut self,
        mut stream: Box<Stream<C, F::Head>>,
        remote: bool,
        dispatcher: &Dispatcher<K>,
        now_ns: u64,
    ) {
        let Stream { connection, run } = &mut *stream;
        let index = connection.index;
        let slot = &mut self.slots[index.get()];
        debug_assert!(matches!(slot.phase, Phase::Lent { .. }));
        let writable = matches!(slot.phase, Phase::Lent { became_writable: true });
        let blocked = connection.flush == Flush::Blocked && !writable;
        slot.readiness.set(Condition::Blocked, blocked);
        slot.last_run.ran_on = if remote { RanOn::Worker } else { RanOn::NetThread };
        slot.last_active_ns = now_ns;
        slot.stranger_since_ns = match connection.is_authenticated {
            true => None,
            false => slot.stranger_since_ns.or(Some(now_ns)),
        };
        run.learn_len();
        if run.unfinished().is_empty() {
            stream.end_run();
        } else {
            let is_abandoned = connection.is_abandoned();
            for frame in run.unfinished() {
                if is_abandoned {
                    dispatcher.count_abandoned(frame.request_type);
                } else {
                    dispatcher.uncount_arrival(frame.request_type);
                }
            }
            // The rest of the run is framed again from its start.
            slot.cursor = F::Cursor::default();
        }
        slot.phase = Phase::Home(stream);
        self.push_answered(index);
    }

    pub(super) fn close(&mut self, index: ConnectionIndex) {
        let mut slot = std::mem::replace(&mut self.slots[index.get()], Slot::free());
        if slot.owes() {
            // For those who write the replies.
            slot.presence.as_ref().map(|presence| presence.set(State::Gone));
        }
        if let Phase::Home(stream) = &mut slot.phase {
            self.part_from(&mut stream.connection);
        }
        self.lingering -= usize::from(slot.phase.is_lingering());
        self.free_slot(index);
        if let Some(stream) = slot.phase.stream() {
            Memory::release(&stream.connection, &self.shared);
            if slot.detached.count > 0 {
                // Its detached runs, which have it, too, may end later.
                stream.connection.common.pushes.end();
            }
        }
        if slot.detached.count > 0 {
            self.free_detached_of(index);
        }
        // Before others see that it is gone: its address may have another one.
        drop(slot);
        self.net().connections_open.set(self.open() as u64);
    }

    /// Closes connections that have been idle, stuck or lingering for too long.
    pub(in crate::runtime::net) fn sweep(&mut self, idle_timeout_s: u64, now_ns: u64) {
        let over = |timeout_s: u64, since_ns: u64| {
            timeout_s > 0 && now_ns.saturating_sub(since_ns) > timeout_s.saturating_mul(1_000_000_000)
        };
        for index in (0..self.slots.len()).map_while(ConnectionIndex::new) {
            let slot = &mut self.slots[index.get()];
            if slot.detached_from.is_some() {
                continue;
            }
            if self.draining && slot.has_been_read() {
                slot.last_active_ns = now_ns;
            }
            let config = &self.shared.config;
            let (timeout_s, since_ns) = match &slot.phase {
                Phase::Home(_) if slot.detached.count > 0 && !self.draining => continue,
                Phase::Home(stream)
                    if !stream.connection.has_unsent()
                        && (slot.owes() || stream.connection.common.pushes.has_senders()) =>
                {
                    continue;
                }
                Phase::Home(stream) => match stream.connection.socket.handshake_since_ns() {
                    Some(since_ns) => (config.handshake_timeout_s, since_ns),
                    None if !stream.connection.has_unsent() => (idle_timeout_s, slot.last_active_ns.max(slot.heard_ns)),
                    None if self.draining => (UNREAD_DRAIN_S, slot.last_active_ns),
                    None => (config.output_timeout_s, slot.last_active_ns),
                },
                Phase::Lingering { until_ns, .. } if now_ns >= *until_ns => {
                    self.close(index);
                    continue;
                }
                _ => continue,
            };
            let is_late_stranger = slot.stranger_since_ns.is_some_and(|since_ns| over(config.auth_timeout_s, since_ns));
            if is_late_stranger || over(timeout_s, since_ns) {
                self.net().connections_timed_out.add(1);
                self.close(index);
            }
        }
    }

    /// Takes no more requests: received requests are served, then connections close.
    pub(in crate::runtime::net) fn drain(&mut self, now_ns: u64) {
        self.draining = true;
        for index in (0..self.slots.len()).map_while(ConnectionIndex::new) {
            let slot = &mut self.slots[index.get()];
            // Input may have come in without an event yet.
            slot.readiness.set(Condition::Readable, true);
            if let Phase::Home(stream) = &slot.phase {
                // Replies are owed, messages are not: only replies wait from the drain on.
                if stream.connection.has_unsent() && !stream.connection.has_had_pushes() {
                    slot.last_active_ns = now_ns;
                }
                self.ready.push(index);
            }
        }
    }

    /// The number of the port of these connections.
    #[inline]
    pub(in crate::runtime::net) fn port(&self) -> PortNumber {
        self.shared.port()
    }

    pub(in crate::runtime::net) fn net(&self) -> &NetCounters {
        self.shared.net()
    }
}
