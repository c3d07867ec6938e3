//! A port: an event queue with everything that requests come from, and the requests themselves.
//!
//! ```text
//!   event queue ──► listeners ──► connections ─┐
//!        │ ───────► datagram sockets ──────────┼─► dispatcher of the net worker that drives the port
//!                   polled port ───────────────┘
//! ```
//!
//! A port belongs to no thread for good: nothing in it is a thread's own. Whichever net worker has it drives it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::Poll;
use psp_policy::RequestId;
use psp_protocols::Framing;

use super::accepting::Acceptor;
use super::commons::Commons;
use super::connections::Connections;
use super::connections::peer_end::EventTime;
use super::datagram_sockets::DatagramSockets;
use super::intake::Intake;
use super::polled_port::{Polled, PolledPort};
use super::requests::Requests;
use super::tokens::{ALARM, Source, Tokens};
use crate::classifier::Classifier;
use crate::guarded_framing::GuardedFraming;
use crate::handler::Handler;
use crate::runtime::channel::doorbell::Doorbell;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::host::alarm::Alarm;
use crate::runtime::host::event::Event;
use crate::runtime::host::event_queue::EventQueue;
use crate::shared::Receiver;
use crate::telemetry::{NetCounters, Turning};
use crate::transport::datagram::DatagramPool;
use crate::transport::endpoint::Endpoint;
use crate::transport::listening::Listening;
use crate::transport::request_key::PortNumber;

const EVENTS_PER_TURN: usize = 512;
/// How often the event queue of a port that is polled for frames is looked at.
const EVENTS_INTERVAL_NS: u64 = 20_000;
const SWEEP_INTERVAL_NS: u64 = 1_000_000_000;
const SWEEP_INTERVAL_LINGER_NS: u64 = 50_000_000;

/// What a port starts with.
pub(crate) struct PortParts<F: Framing, H: Handler<F::Head>> {
    pub(crate) poll: Poll,
    pub(crate) doorbell: Arc<Doorbell>,
    pub(crate) listeners: Vec<Listening>,
    pub(crate) endpoints: Vec<Arc<Endpoint<H::Connection>>>,
    /// What to poll.
    pub(crate) polled: Option<Polled<H::Connection>>,
    pub(crate) handler: Arc<H>,
    pub(crate) framing: Arc<GuardedFraming<F>>,
    pub(crate) shared: Receiver,
    /// What all ports of the server have in common.
    pub(crate) commons: Arc<Commons<H::Connection, F::Head>>,
    /// Datagrams of sockets, and of the polled port, that may wait or be in flight.
    pub(crate) datagrams: usize,
}

/// See the [module](self).
pub(crate) struct Port<F: Framing, H: Handler<F::Head>> {
    queue: EventQueue,
    tokens: Tokens,
    pub(super) alarm: Alarm,
    doorbell: Arc<Doorbell>,
    acceptor: Acceptor<F, H>,
    sockets: DatagramSockets<H::Connection>,
    polled: Option<PolledPort<H::Connection>>,
    pub(super) requests: Requests<F, H::Connection>,
    framing: Arc<GuardedFraming<F>>,
    shared: Receiver,
    sweep_at_ns: u64,
    events_at_ns: u64,
    /// When the event queue was asked last.
    looked_ns: u64,
    /// The event queue may have more than was taken.
    has_more: bool,
    /// Where one request at a time is taken in: the last one came as a datagram.
    received_last: bool,
    draining_until_ns: Option<u64>,
}

/// What the event queue had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// Any event.
    pub(super) any: bool,
    /// One of the arbiter.
    pub(super) arbiter: bool,
}

impl<F: Framing, H: Handler<F::Head>> Port<F, H> {
    /// It is `now_ns`.
    pub(super) fn new(parts: PortParts<F, H>, now_ns: u64) -> io::Result<Self> {
        let PortParts {
            poll,
            doorbell,
            listeners,
            endpoints,
            polled,
            handler,
            framing,
            shared,
            commons,
            datagrams,
        } = parts;
        let registry = poll.registry();
        let tokens = Tokens::new(listeners.len(), endpoints.len());
        let buffers = if endpoints.is_empty() { 0 } else { datagrams };
        let packets = if polled.is_none() { 0 } else { datagrams };
        let sockets = DatagramSockets::new(endpoints, registry, tokens)?;
        let requests = Requests {
            names: shared.names(),
            connections: Connections::new(framing.clone(), shared.clone()),
            datagrams: DatagramPool::new(shared.names(), buffers, shared.config.datagram_bytes_max, packets),
            completed: Vec::new(),
            commons: commons.clone(),
            returned: Vec::new(),
        };
        Ok(Self {
            alarm: Alarm::new(registry, ALARM)?,
            acceptor: Acceptor::new(listeners, registry, tokens, framing.clone(), handler, shared.clone(), commons)?,
            sockets,
            polled: polled.map(PolledPort::new),
            requests,
            sweep_at_ns: 0,
            events_at_ns: 0,
            looked_ns: now_ns,
            has_more: false,
            received_last: false,
            draining_until_ns: None,
            queue: EventQueue::new(poll, EVENTS_PER_TURN),
            tokens,
            doorbell,
            framing,
            shared,
        })
    }

    /// Its number.
    #[inline]
    pub(super) fn number(&self) -> PortNumber {
        self.requests.connections.port()
    }

    /// Whether a request came from here.
    #[inline]
    pub(super) fn has(&self, request: RequestId) -> bool {
        self.requests.names.port_of(request) == self.number()
    }

    /// The event queue.
    pub(super) fn queue(&self) -> &EventQueue {
        &self.queue
    }

    /// Wakes whoever drives the port.
    pub(super) fn doorbell(&self) -> &Arc<Doorbell> {
        &self.doorbell
    }

    /// When the event queue was asked last.
    pub(super) fn looked_ns(&self) -> u64 {
        self.looked_ns
    }

    /// Whether the event queue need not be looked at yet: the port is polled more often than the event queue can be.
    pub(super) fn skips_events(&mut self, now_ns: u64) -> bool {
        if self.polled.is_none() {
            return false;
        }
        let skips = now_ns < self.events_at_ns;
        if !skips {
            self.events_at_ns = now_ns + EVENTS_INTERVAL_NS;
        }
        skips
    }

    /// Waits for events. Returns whether the wait was not interrupted.
    pub(super) fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        self.queue.wait(timeout)
    }

    /// Passes the events on to their sources. It is `latest_ns`. `slept` says that the net worker waited for the first
    /// of them.
    pub(super) fn note_events(&mut self, slept: bool, latest_ns: u64) -> Noted {
        let looked_ns = std::mem::replace(&mut self.looked_ns, latest_ns);
        let at = EventTime {
            earliest_ns: if slept { latest_ns } else { looked_ns },
            latest_ns,
        };
        let receives = self.draining_until_ns.is_none();
        let mut noted = Noted::default();
        let mut count = 0;
        for Event { token, about } in self.queue.events() {
            count += 1;
            match self.tokens.source(token) {
                Some(Source::Connection(index)) => {
                    let connections = &mut self.requests.connections;
                    connections.on_event(index, about, at);
                }
                Some(Source::Listener(index)) if receives => self.acceptor.on_event(index),
                Some(Source::DatagramSocket(index)) if receives => self.sockets.on_event(index),
                Some(Source::Alarm) => self.alarm.rang(),
                Some(Source::Arbiter) => noted.arbiter = true,
                Some(Source::Listener(_) | Source::DatagramSocket(_) | Source::Waker) | None => {}
            }
        }
        noted.any = count > 0;
        self.has_more = count == EVENTS_PER_TURN;
        noted
    }

    /// Whether the port has something to do without any further event.
    pub(super) fn is_ready(&self) -> bool {
        self.has_more || self.acceptor.has_readable() || self.has_ready() || self.has_pushed()
    }

    /// Whether messages wait to be sent.
    #[inline]
    pub(super) fn has_pushed(&self) -> bool {
        self.requests.connections.has_pushed()
    }

    /// Whether requests may wait at connections, or as datagrams.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        self.requests.connections.has_ready() || self.receives_datagrams()
    }

    #[inline]
    fn receives_datagrams(&self) -> bool {
        self.has_unread_frames() || self.sockets.has_readable() && self.requests.datagrams.has_buffers()
    }

    #[inline]
    fn has_unread_frames(&self) -> bool {
        self.polled.as_ref().is_some_and(PolledPort::has_unread)
    }

    /// When the periodic work is due.
    pub(super) fn sweep_at_ns(&self) -> u64 {
        let unread_ns = self.requests.connections.unread_deadline_ns();
        unread_ns.map_or(self.sweep_at_ns, |at_ns| at_ns.min(self.sweep_at_ns))
    }

    /// Whether frames come here without events.
    pub(super) fn is_polled(&self) -> bool {
        self.polled.is_some()
    }

    /// How long the net worker may sleep while no frames come; `None` if it has to poll, or gets events of all.
    pub(super) fn idle_sleep(&self) -> Option<Duration> {
        self.polled.as_ref()?.idle_sleep()
    }

    /// Accepts connections.
    pub(super) fn accept(&mut self, now_ns: u64) {
        let connections = &mut self.requests.connections;
        let registry = self.queue.poll().registry();
        self.acceptor.accept(connections, registry, self.tokens, now_ns);
    }

    /// The number of datagram sockets.
    pub(super) fn datagram_sockets(&self) -> usize {
        self.sockets.len()
    }

    /// Receives a datagram from a socket. Returns whether there may be another.
    pub(super) fn receive_datagram<K: Classifier<F::Head>>(
        &mut self,
        index: usize,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        let intake = Intake {
            framing: &*self.framing,
            dispatcher,
            net: self.shared.net(),
            now_ns,
        };
        let Requests { datagrams, commons, .. } = &mut self.requests;
        self.sockets.receive(index, datagrams, &commons.sources, intake)
    }

    /// Has a connection do what is next, or receives a datagram, in turn where both wait. Returns whether it has sent
    /// messages beside that.
    pub(super) fn advance_one<K: Classifier<F::Head>>(&mut self, dispatcher: &mut Dispatcher<K>, now_ns: u64) -> bool {
        let receives = self.receives_datagrams();
        let connections = &mut self.requests.connections;
        let others_wait = connections.has_ready() || connections.has_pushed();
        let is_their_turn = receives && !(self.received_last && others_wait);
        self.received_last = is_their_turn;
        if is_their_turn {
            let has_read = self.read_frames(1, dispatcher, now_ns);
            if let Some(index) = self.sockets.next_readable().filter(|_| !has_read) {
                self.receive_datagram(index, dispatcher, now_ns);
            }
            return false;
        }
        let has_sent = connections.send_pushed(dispatcher, now_ns);
        if !dispatcher.any_waiting() {
            connections.advance_next(dispatcher, now_ns);
        }
        has_sent
    }

    /// Takes a burst of frames, if frames come here. Returns whether there are any to read.
    pub(super) fn receive_burst(&mut self) -> bool {
        let packets = &self.shared.net().packets;
        self.polled.as_mut().is_some_and(|polled| polled.poll(packets))
    }

    /// Reads up to `frames` frames of the burst. Returns whether there were any.
    pub(super) fn read_frames<K: Classifier<F::Head>>(
        &mut self,
        frames: usize,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) -> bool {
        let intake = Intake {
            framing: &*self.framing,
            dispatcher,
            net: self.shared.net(),
            now_ns,
        };
        let Requests { datagrams, commons, .. } = &mut self.requests;
        match &mut self.polled {
            Some(polled) => polled.read(frames, datagrams, &commons.sources, intake),
            None => false,
        }
    }

    /// Sends the frames that wait on the queues of the port's thread.
    pub(super) fn flush(&self) {
        if let Some(polled) = &self.polled {
            polled.flush(&self.net().packets);
        }
    }

    /// Whether [`receive_mail`](Self::receive_mail) would find something.
    pub(super) fn has_mail(&self) -> bool {
        let (number, commons) = (self.number(), &self.requests.commons);
        self.shared.deferrals().has_some()
            || commons.returns.has_some(number)
            || (!self.is_draining() && commons.newcomers.has_some(number))
    }

    /// Takes back connections and datagrams that other workers had, and connections that other ports accepted for this
    /// one, sends deferred replies, and learns what was pushed. Returns the number of all.
    pub(super) fn receive_mail<K>(&mut self, dispatcher: &Dispatcher<K>, now_ns: u64) -> usize {
        let returned = self.requests.receive_returned(dispatcher, now_ns);
        // Behind the reports: their connections are here.
        let (framing, shared) = (&*self.framing, &self.shared);
        let deferred = self.requests.send_deferred(framing, shared, now_ns);
        let newcomers = match self.is_draining() {
            true => 0,
            false => self.acceptor.receive_newcomers(),
        };
        returned + deferred + newcomers + self.requests.connections.note_pushed(now_ns)
    }

    /// Does the periodic work, if it is due.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        let connections = &mut self.requests.connections;
        connections.look_at_unread(now_ns);
        if now_ns < self.sweep_at_ns {
            return;
        }
        let idle_timeout_s = self.shared.idle_timeout_s.load(Ordering::Relaxed);
        // What has come since the last look at events is not known here.
        connections.sweep(idle_timeout_s, now_ns.min(self.looked_ns));
        let draining = self.draining_until_ns.is_some();
        if !draining {
            self.acceptor.retry();
            self.sockets.retry();
        }
        let interval_ns = if connections.has_lingering() || draining {
            SWEEP_INTERVAL_LINGER_NS
        } else {
            SWEEP_INTERVAL_NS
        };
        self.sweep_at_ns = now_ns + interval_ns;
    }

    /// Whether nothing new is received any more.
    pub(super) fn is_draining(&self) -> bool {
        self.draining_until_ns.is_some()
    }

    /// Stops listening. `in_flight` requests run.
    pub(super) fn start_draining(&mut self, in_flight: usize, now_ns: u64) {
        let connections = self.requests.connections.open();
        tracing::info!(connections, in_flight, "draining");
        let drain_ms = self.shared.config.drain_timeout_ms;
        let drain_ns = drain_ms.saturating_mul(1_000_000);
        self.draining_until_ns = Some(now_ns.saturating_add(drain_ns));
        self.sweep_at_ns = now_ns;
        self.acceptor.close(self.queue.poll().registry());
        self.sockets.close();
        self.requests.connections.drain(now_ns);
    }

    /// Whether the port drains, and everything in flight is answered.
    pub(super) fn is_drained(&self) -> bool {
        self.is_draining() && self.requests.open() == 0 && !self.has_unread_frames()
    }

    /// Whether the drain timeout is over.
    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        self.draining_until_ns.is_some_and(|until_ns| now_ns >= until_ns)
    }

    /// What the port's driver tells the watchdog.
    #[inline]
    pub(super) fn turning(&self) -> &Turning {
        self.shared.turning()
    }

    fn net(&self) -> &NetCounters {
        self.shared.net()
    }
}
