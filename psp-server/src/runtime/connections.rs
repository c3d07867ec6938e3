//! The net worker's table of connections, and what a connection does next.
//!
//! ```text
//!            ┌──────── output waits: send it ◄─────────────┐
//!            ▼                                             │
//!   Home ── frames in the input ──► Queued ──► Lent ──► Home again
//!     │ └── none: read ──► (blocked: wait for the socket)
//!     └── closing, end of input ──► Lingering ──► Free
//! ```
//!
//! One run of requests per connection is in flight at a time, and a connection with unsent output
//! starts no new one: replies keep their order, and a slow reader holds back only itself.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::{Shutdown as Half, SocketAddr};
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use psp_protocols::{FrameError, Framing, Rejection, Step};

use super::dispatcher::Dispatcher;
use super::shared::Shared;
use crate::classifier::Classifier;
use crate::policy::RequestId;
use crate::request_type::RequestType;
use crate::telemetry::NetCounters;
use crate::transport::input::{BufferPool, Fill, POOLED_LEN};
use crate::transport::output::Flush;
use crate::transport::stream::{Frame, RUN_LEN_MAX, Stream};

/// Output that the net worker sends in one go, in bytes; others wait meanwhile.
const SEND_BYTES_MAX: usize = 256 * 1024;
/// Unsent output of a worker's reply from which on its rest is sent by a worker again.
const BACKGROUND_FLUSH_BYTES_MIN: usize = 32 * 1024;
/// Output buffers that are kept when nobody needs them.
const OUTPUT_BUFFERS_KEEP: usize = 256;
/// Input that is read from one connection before others have their turn, in bytes.
const READ_BYTES_MAX: usize = 256 * 1024;
/// A connection that holds no more than this is not closed for the memory that others hold.
const HELD_BYTES_EXEMPT: usize = 64 * 1024;
/// How long a closed connection is kept so that its peer can read the last reply.
const LINGER_NS: u64 = 1_000_000_000;
/// The same while the server is stopping.
const LINGER_DRAIN_NS: u64 = 200_000_000;
/// Input that a lingering connection may still send, in bytes.
const LINGER_BYTES_MAX: usize = 4 << 20;

/// All connections of one net worker.
pub(crate) struct Connections<F: Framing, C> {
    framing: Arc<F>,
    shared: Arc<Shared>,
    slots: Vec<Slot<F::Cursor, C>>,
    free: Vec<u32>,
    ready: VecDeque<u32>,
    pool: BufferPool,
    /// Buffers for the output of connections that have requests in flight.
    output_buffers: Vec<Vec<u8>>,
    held_bytes: usize,
    lingering: usize,
    draining: bool,
}

struct Slot<U, C> {
    /// `None` while the slot is free or its connection is lent.
    stream: Option<Box<Stream<C>>>,
    phase: Phase,
    cursor: U,
    /// The socket may have input.
    readable: bool,
    /// The peer closed its half; what it sent before is still served.
    peer_closed: bool,
    /// The last read found the end of the input.
    ended: bool,
    /// The socket took no more output when it was last tried.
    blocked: bool,
    /// The socket became writable while the connection was lent.
    writable: bool,
    in_ready: bool,
    /// The last run was done by a worker other than the net thread.
    ran_remotely: bool,
    /// A worker's queue had no place for the rest of the output.
    flush_refused: bool,
    last_type: RequestType,
    last_active_ns: u64,
    held_bytes: usize,
    /// Input that is still read while the server drains, in bytes: a peer that never pauses must
    /// not keep it from stopping.
    drain_read_left: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Free,
    Home,
    Queued,
    Lent,
    /// The last reply is sent; the peer may read it until then.
    Lingering {
        until_ns: u64,
        bytes_left: usize,
    },
}

/// What the input of a connection holds.
enum Parsed {
    Run(RequestType),
    NeedMore { len_min: usize },
}

impl<F: Framing, C> Connections<F, C> {
    pub(crate) fn new(framing: Arc<F>, shared: Arc<Shared>) -> Self {
        Self {
            framing,
            shared,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            pool: BufferPool::new(),
            output_buffers: Vec::with_capacity(OUTPUT_BUFFERS_KEEP),
            held_bytes: 0,
            lingering: 0,
            draining: false,
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn has_lingering(&self) -> bool {
        self.lingering > 0
    }

    /// Takes a new connection in. `state` is the handler's for it.
    pub(crate) fn accept(
        &mut self,
        mut socket: TcpStream,
        peer: SocketAddr,
        registry: &Registry,
        token_of: impl Fn(u32) -> Token,
        state: C,
        now_ns: u64,
    ) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::free());
            u32::try_from(self.slots.len() - 1).expect("connections_max is below 2^30")
        });
        let interest = Interest::READABLE | Interest::WRITABLE;
        let setup = socket
            .set_nodelay(true)
            .and_then(|()| registry.register(&mut socket, token_of(slot), interest));
        if let Err(error) = setup {
            tracing::debug!(%peer, %error, "connection lost at once");
            self.free.push(slot);
            return;
        }
        let stream = Box::new(Stream::new(slot, socket, peer, state));
        let place = &mut self.slots[slot as usize];
        *place = Slot::free();
        place.stream = Some(stream);
        place.phase = Phase::Home;
        place.readable = true;
        place.last_active_ns = now_ns;
        self.net().connections_accepted.add(1);
        self.net().connections_open.set(self.open() as u64);
        self.push_ready(slot);
    }

    /// The socket of `slot` has something to say.
    pub(crate) fn on_event(&mut self, slot: u32, readable: bool, writable: bool, closed: bool) {
        let Some(place) = self.slots.get_mut(slot as usize) else {
            return;
        };
        if place.phase == Phase::Free {
            return;
        }
        place.readable |= readable;
        place.peer_closed |= closed;
        if writable {
            place.blocked = false;
            place.writable = true;
            place.flush_refused = false;
        }
        if matches!(place.phase, Phase::Home | Phase::Lingering { .. }) {
            self.push_ready(slot);
        }
    }

    /// Lends the connection whose run the scheduler dispatched. `None` when it is lent already:
    /// its run yielded.
    pub(crate) fn lend(&mut self, slot: u32) -> Option<Box<Stream<C>>> {
        let place = &mut self.slots[slot as usize];
        let mut stream = place.stream.take()?;
        debug_assert_eq!(place.phase, Phase::Queued);
        place.phase = Phase::Lent;
        place.writable = false;
        stream.output.lend_buffer(&mut self.output_buffers);
        Some(stream)
    }

    /// Takes a connection back after its run.
    pub(crate) fn give_back<K: Classifier>(
        &mut self,
        mut stream: Box<Stream<C>>,
        remote: bool,
        dispatcher: &Dispatcher<K>,
        now_ns: u64,
    ) {
        let slot = stream.slot;
        let place = &mut self.slots[slot as usize];
        debug_assert_eq!(place.phase, Phase::Lent);
        place.phase = Phase::Home;
        place.ran_remotely = remote;
        place.blocked = stream.flush == Flush::Blocked && !place.writable;
        place.last_active_ns = now_ns;
        if stream.done < stream.run.len() {
            for frame in &stream.run[stream.done..] {
                dispatcher.uncount_arrival(frame.request_type);
            }
            // The rest of the run is framed again from its start.
            place.cursor = F::Cursor::default();
        } else {
            let beyond = std::mem::take(&mut stream.discard_after_run);
            stream.input.discard(beyond);
        }
        place.stream = Some(stream);
        self.push_ready(slot);
    }

    /// Refuses the run that the scheduler rejected.
    pub(crate) fn reject<K: Classifier>(&mut self, slot: u32, dispatcher: &Dispatcher<K>) {
        let place = &mut self.slots[slot as usize];
        debug_assert_eq!(place.phase, Phase::Queued);
        place.phase = Phase::Home;
        let Some(stream) = &mut place.stream else {
            return;
        };
        place.flush_refused = stream.run.is_empty();
        for frame in std::mem::take(&mut stream.run) {
            let rejection = Rejection::Busy {
                type_name: dispatcher.type_name(frame.request_type),
            };
            let request = &stream.input.data()[..frame.len];
            self.framing
                .encode_rejection(&rejection, request, &mut stream.output);
            stream.input.consume(frame.len);
            dispatcher.count_rejection(frame.request_type);
        }
        let beyond = std::mem::take(&mut stream.discard_after_run);
        stream.input.discard(beyond);
        self.push_ready(slot);
    }

    /// Lets up to `count` connections that have something to do get on with it.
    pub(crate) fn advance_ready<K: Classifier>(
        &mut self,
        count: usize,
        dispatcher: &mut Dispatcher<K>,
        now_ns: u64,
    ) {
        for _ in 0..count {
            let Some(slot) = self.ready.pop_front() else {
                break;
            };
            self.slots[slot as usize].in_ready = false;
            match self.slots[slot as usize].phase {
                Phase::Home => self.advance(slot, dispatcher, now_ns),
                Phase::Lingering { .. } => self.linger(slot),
                Phase::Free | Phase::Queued | Phase::Lent => {}
            }
        }
    }

    fn advance<K: Classifier>(&mut self, slot: u32, dispatcher: &mut Dispatcher<K>, now_ns: u64) {
        let mut read_left = READ_BYTES_MAX;
        loop {
            let place = &mut self.slots[slot as usize];
            let Some(stream) = place.stream.as_mut() else {
                return;
            };
            if stream.failed {
                return self.close(slot);
            }
            if !stream.output.is_empty() {
                if place.blocked {
                    return self.settle(slot);
                }
                let background = place.ran_remotely
                    && !place.flush_refused
                    && stream.output.len() >= BACKGROUND_FLUSH_BYTES_MIN;
                if background {
                    // Sending a long reply takes as long as making it: the same workers do it.
                    stream.run.clear();
                    place.phase = Phase::Queued;
                    let request_type = place.last_type;
                    self.net().background_flushes.add(1);
                    dispatcher.arrived(now_ns, RequestId(slot), request_type);
                    return;
                }
                let sent = stream.send(SEND_BYTES_MAX);
                self.shared.telemetry.net.0.bytes_sent.add(sent as u64);
                place.blocked = stream.flush == Flush::Blocked;
                place.last_active_ns = now_ns;
                if stream.flush == Flush::Budget && !stream.failed {
                    return self.push_ready(slot);
                }
                continue;
            }
            if stream.closing {
                return self.start_lingering(slot, now_ns);
            }
            match parse(
                &*self.framing,
                &mut place.cursor,
                stream,
                dispatcher,
                now_ns,
            ) {
                Ok(Parsed::Run(request_type)) => {
                    place.phase = Phase::Queued;
                    place.last_type = request_type;
                    place.last_active_ns = now_ns;
                    dispatcher.arrived(now_ns, RequestId(slot), request_type);
                    return;
                }
                Ok(Parsed::NeedMore { .. }) if place.ended => {
                    if self.draining {
                        self.start_lingering(slot, now_ns);
                    } else {
                        self.close(slot);
                    }
                    return;
                }
                Ok(Parsed::NeedMore { .. })
                    if !place.readable || (self.draining && place.drain_read_left == 0) =>
                {
                    if self.draining {
                        place.ended = true;
                        continue;
                    }
                    return self.settle(slot);
                }
                Ok(Parsed::NeedMore { len_min }) => {
                    if read_left == 0 {
                        return self.push_ready(slot);
                    }
                    stream.input.make_room(len_min, &mut self.pool);
                    match stream.input.read_from(&mut stream.socket) {
                        Ok(Fill::Read { count, drained }) => {
                            // A short read has emptied the socket; its next input is a new event.
                            // The end of the input is none, when it came before this read.
                            place.readable = !drained || place.peer_closed;
                            read_left = read_left.saturating_sub(count);
                            if self.draining {
                                place.drain_read_left = place.drain_read_left.saturating_sub(count);
                            }
                            self.shared.telemetry.net.0.bytes_received.add(count as u64);
                            let large = stream.held_bytes().max(place.held_bytes) > POOLED_LEN;
                            if large && !self.account(slot) {
                                self.refuse(slot, &Rejection::OutOfBuffers);
                            }
                        }
                        Ok(Fill::Blocked) => place.readable = false,
                        Ok(Fill::End) => place.ended = true,
                        Err(_) => stream.failed = true,
                    }
                }
                Err(error) => {
                    self.net().malformed.add(1);
                    self.refuse(slot, &Rejection::Malformed(&error));
                }
            }
        }
    }

    /// Tells the peer why, and closes once that is sent.
    fn refuse(&mut self, slot: u32, rejection: &Rejection<'_>) {
        let Some(stream) = self.slots[slot as usize].stream.as_mut() else {
            return;
        };
        self.framing
            .encode_rejection(rejection, &[], &mut stream.output);
        stream.closing = true;
        stream.input.consume(stream.input.data().len());
        stream.input.settle(&mut self.pool);
    }

    /// The connection waits for its peer.
    fn settle(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if let Some(stream) = place.stream.as_mut() {
            stream.input.settle(&mut self.pool);
            stream.output.return_buffer(&mut self.output_buffers);
        }
        if !self.account(slot) {
            let place = &self.slots[slot as usize];
            let peer = place.stream.as_ref().map(|stream| stream.peer);
            tracing::debug!(
                ?peer,
                held_bytes = place.held_bytes,
                "closed: over the buffer budget"
            );
            self.close(slot);
        }
    }

    /// Brings the sum of held bytes up to date; false when this connection shall go for it.
    fn account(&mut self, slot: u32) -> bool {
        let place = &mut self.slots[slot as usize];
        let held_bytes = place
            .stream
            .as_ref()
            .map_or(0, |stream| stream.held_bytes());
        if held_bytes == place.held_bytes {
            return true;
        }
        self.held_bytes = self.held_bytes - place.held_bytes + held_bytes;
        place.held_bytes = held_bytes;
        let within = held_bytes <= HELD_BYTES_EXEMPT
            || self.held_bytes <= self.shared.config.buffered_bytes_max;
        if !within {
            self.net().connections_over_budget.add(1);
        }
        self.net().buffered_bytes.set(self.held_bytes as u64);
        within
    }

    fn start_lingering(&mut self, slot: u32, now_ns: u64) {
        let place = &mut self.slots[slot as usize];
        let Some(stream) = place.stream.as_mut() else {
            return;
        };
        if place.ended && !self.draining || stream.socket.shutdown(Half::Write).is_err() {
            return self.close(slot);
        }
        let linger_ns = if self.draining {
            LINGER_DRAIN_NS
        } else {
            LINGER_NS
        };
        place.phase = Phase::Lingering {
            until_ns: now_ns + linger_ns,
            bytes_left: LINGER_BYTES_MAX,
        };
        place.readable = true;
        stream.input = Default::default();
        stream.output.return_buffer(&mut self.output_buffers);
        self.lingering += 1;
        // It holds next to nothing now; others shall have the room.
        self.account(slot);
        self.push_ready(slot);
    }

    /// Discards what the peer still sends, so that the reset which unread input would cause does
    /// not overtake the last reply.
    fn linger(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let (Phase::Lingering { bytes_left, .. }, Some(stream)) =
            (&mut place.phase, place.stream.as_mut())
        else {
            return;
        };
        let mut discard = self.pool.take();
        let done = loop {
            match stream.socket.read(&mut discard) {
                Ok(0) => break true,
                Ok(count) => {
                    *bytes_left = bytes_left.saturating_sub(count);
                    if *bytes_left == 0 {
                        break true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break true,
            }
        };
        self.pool.give(discard);
        if done {
            self.close(slot);
        }
    }

    fn close(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if matches!(place.phase, Phase::Lingering { .. }) {
            self.lingering -= 1;
        }
        self.held_bytes -= place.held_bytes;
        *place = Slot::free();
        self.free.push(slot);
        self.net().connections_open.set(self.open() as u64);
        self.net().buffered_bytes.set(self.held_bytes as u64);
    }

    /// Closes what has been idle, stuck or lingering for too long.
    pub(crate) fn sweep(&mut self, idle_timeout_s: u64, now_ns: u64) {
        let over = |timeout_s: u64, since_ns: u64| {
            timeout_s > 0
                && now_ns.saturating_sub(since_ns) > timeout_s.saturating_mul(1_000_000_000)
        };
        for slot in 0..self.slots.len() as u32 {
            let place = &self.slots[slot as usize];
            let timed_out = match (place.phase, &place.stream) {
                (Phase::Home, Some(stream)) if stream.output.is_empty() => {
                    over(idle_timeout_s, place.last_active_ns)
                }
                (Phase::Home, Some(_)) => {
                    over(self.shared.config.output_timeout_s, place.last_active_ns)
                }
                (Phase::Lingering { until_ns, .. }, _) if now_ns >= until_ns => {
                    self.close(slot);
                    continue;
                }
                _ => false,
            };
            if timed_out {
                self.net().connections_timed_out.add(1);
                self.close(slot);
            }
        }
    }

    /// Takes no more requests: what has been received is served, then connections close.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
        for slot in 0..self.slots.len() as u32 {
            let place = &mut self.slots[slot as usize];
            // Its input may have come in without having been seen.
            place.readable = true;
            if place.phase == Phase::Home {
                self.push_ready(slot);
            }
        }
    }

    fn push_ready(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if !place.in_ready {
            place.in_ready = true;
            self.ready.push_back(slot);
        }
    }

    fn net(&self) -> &NetCounters {
        &self.shared.telemetry.net.0
    }
}

impl<U: Default, C> Slot<U, C> {
    fn free() -> Self {
        Self {
            stream: None,
            phase: Phase::Free,
            cursor: U::default(),
            readable: false,
            peer_closed: false,
            ended: false,
            blocked: false,
            writable: false,
            in_ready: false,
            ran_remotely: false,
            flush_refused: false,
            last_type: RequestType::UNKNOWN,
            last_active_ns: 0,
            held_bytes: 0,
            drain_read_left: READ_BYTES_MAX,
        }
    }
}

/// Frames and classifies what the input holds: as many requests as may travel together.
fn parse<F: Framing, C, K: Classifier>(
    framing: &F,
    cursor: &mut F::Cursor,
    stream: &mut Stream<C>,
    dispatcher: &Dispatcher<K>,
    now_ns: u64,
) -> Result<Parsed, FrameError> {
    stream.run.clear();
    stream.done = 0;
    stream.discard_after_run = 0;
    let data = stream.input.data();
    let mut offset = 0;
    let mut len_min = 1;
    while offset < data.len() && stream.run.len() < RUN_LEN_MAX {
        match framing.next_frame(cursor, &data[offset..]) {
            Ok(Step::Frame { len }) => {
                let frame = &data[offset..offset + len];
                let request_type = dispatcher.classify(frame);
                if let Some(first) = stream.run.first()
                    && !dispatcher.same_run(first.request_type, request_type)
                {
                    break;
                }
                stream.run.push(Frame {
                    len,
                    request_type,
                    arrived_ns: now_ns,
                });
                dispatcher.count_arrival(request_type);
                offset += len;
                stream.discard_after_run = framing.discard_after(frame);
                if stream.discard_after_run > 0 {
                    break;
                }
            }
            Ok(Step::NeedMore { len_min: needed }) => {
                len_min = needed;
                break;
            }
            Err(error) => {
                *cursor = F::Cursor::default();
                if stream.run.is_empty() {
                    return Err(error);
                }
                // The requests before it are served; then the error is found again.
                break;
            }
        }
    }
    match stream.run.first() {
        Some(first) => Ok(Parsed::Run(first.request_type)),
        None => Ok(Parsed::NeedMore { len_min }),
    }
}
