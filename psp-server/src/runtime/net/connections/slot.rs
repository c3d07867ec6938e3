//! One connection as the table knows it.

use psp_policy::RequestType;
use psp_protocols::Framing;

use super::per_address::Counted;
use super::readiness::{Condition, Readiness};
use crate::peer::Peer;
use crate::presence::Presence;
use crate::telemetry::NetCounters;
use crate::transport::output::Flush;
use crate::transport::request_key::ConnectionIndex;
use crate::transport::run::Stream;

/// Input that one connection may have read before others have their turn, in bytes.
pub(super) const READ_BYTES_MAX: usize = 64 * 1024;
/// So much of a request shows that its peer is not idle.
const HEARD_BYTES_MIN: usize = 1024;
/// Input of a connection that a drain still reads: what its socket has received, up to this many bytes.
const DRAIN_READ_BYTES_MAX: usize = 256 * 1024;
/// Output that the net worker sends in one go, in bytes; other connections wait meanwhile.
pub(super) const SEND_BYTES_MAX: usize = 256 * 1024;

/// Input that a connection which closes may still send, in bytes.
const DISCARDED_BYTES_MAX: usize = 4 << 20;

/// An entry of the table.
pub(super) struct Slot<F: Framing, C> {
    pub(super) phase: Phase<C, F::Head>,
    /// How far the framing has looked into the next request.
    pub(super) cursor: F::Cursor,
    pub(super) readiness: Readiness,
    /// Who is at the other end; `None` without a connection.
    pub(super) peer: Option<Peer>,
    /// Whether the peer is still there; `None` without a connection.
    pub(super) presence: Option<Presence>,
    /// When the peer's last bytes came, as far as the net worker knows.
    pub(super) received_ns: u64,
    pub(super) last_run: LastRun,
    pub(super) last_active_ns: u64,
    /// Since when the peer could have authenticated and has not.
    pub(super) stranger_since_ns: Option<u64>,
    /// When the peer last sent so much of a request that it is not idle.
    pub(super) heard_ns: u64,
    /// What the peer has sent since.
    pub(super) since_heard_bytes: usize,
    /// When the peer last sent so much that it counts as progress.
    pub(super) progress_ns: u64,
    /// What the peer has sent since.
    pub(super) since_progress_bytes: usize,
    /// The length of a body that waits for room in the budget.
    pub(super) awaits_bytes: Option<usize>,
    /// The connection counts for its address.
    pub(super) _counted: Counted,
    /// Input that is still read while the server drains, in bytes: a peer that never pauses must
    /// not keep the server from stopping.
    pub(super) drain_read_left: usize,
    /// Input that the peer may still send once the connection closes, in bytes.
    pub(super) discard_left: usize,
    /// What the kernel held for the peer when a drain looked last.
    pub(super) queued_bytes: usize,
    /// It is looked at later, if its peer has not read by then.
    pub(super) is_watched: bool,
    /// The connection of a detached run; `None` for a connection.
    pub(super) detached_from: Option<ConnectionIndex>,
    /// The runs that are detached from this connection.
    pub(super) detached: Detached<C, F::Head>,
}

/// Where a connection is on its way.
pub(super) enum Phase<C, D> {
    /// The slot has no connection.
    Free,
    /// The net worker reads from it and writes to it.
    Home(Box<Stream<C, D>>),
    /// Its run waits for a place in a typed queue.
    Backpressured(Box<Stream<C, D>>),
    /// Its run waits in a typed queue.
    Queued(Box<Stream<C, D>>),
    /// A worker has it.
    Lent {
        /// The socket became writable meanwhile.
        became_writable: bool,
    },
    /// The last reply is sent. The peer may read it until then.
    Lingering { stream: Box<Stream<C, D>>, until_ns: u64 },
}

/// What a connection knows of its detached runs.
pub(super) struct Detached<C, D> {
    /// How many there are.
    pub(super) count: usize,
    /// Those that are done, while a worker has the connection.
    pub(super) done: Vec<ConnectionIndex>,
    /// Streams for the next ones.
    pub(super) idle: Vec<Box<Stream<C, D>>>,
}

impl<C, D> Default for Detached<C, D> {
    fn default() -> Self {
        Self { count: 0, done: Vec::new(), idle: Vec::new() }
    }
}

/// The last run of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastRun {
    pub(super) request_type: RequestType,
    pub(super) ran_on: RanOn,
}

/// The thread that ran a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RanOn {
    NetThread,
    Worker,
}

impl<F: Framing, C> Slot<F, C> {
    pub(super) fn free() -> Self {
        Self {
            phase: Phase::Free,
            cursor: F::Cursor::default(),
            readiness: Readiness::default(),
            peer: None,
            presence: None,
            received_ns: 0,
            last_run: LastRun { request_type: RequestType::UNKNOWN, ran_on: RanOn::NetThread },
            last_active_ns: 0,
            stranger_since_ns: None,
            heard_ns: 0,
            since_heard_bytes: 0,
            progress_ns: 0,
            since_progress_bytes: 0,
            awaits_bytes: None,
            _counted: Counted::default(),
            drain_read_left: DRAIN_READ_BYTES_MAX,
            discard_left: DISCARDED_BYTES_MAX,
            queued_bytes: 0,
            is_watched: false,
            detached_from: None,
            detached: Detached::default(),
        }
    }

    /// The peer has sent `count` bytes, which `begin` a request or not. One that sends a few bytes of a request now and
    /// then is idle.
    pub(super) fn note_heard(&mut self, count: usize, begin: bool, now_ns: u64) {
        self.since_heard_bytes += count;
        if begin || self.since_heard_bytes >= HEARD_BYTES_MIN {
            (self.heard_ns, self.since_heard_bytes) = (now_ns, 0);
        }
    }

    /// Whether both are of the same connection.
    pub(super) fn shares_connection(&self, other: &Self) -> bool {
        let presences = self.presence.as_ref().zip(other.presence.as_ref());
        presences.is_some_and(|(one, other)| one.is_of(other))
    }

    /// Whether requests of the connection wait or run, or replies are deferred.
    pub(super) fn has_request(&self) -> bool {
        self.phase.is_away_or_waits() || self.owes()
    }

    /// Whether the connection, which the net worker has, owes replies to requests that do not wait or run with it.
    pub(super) fn owes(&self) -> bool {
        let stream = self.phase.stream();
        self.detached.count > 0 || stream.is_some_and(|stream| !stream.connection.owed.is_empty())
    }

    /// Whether output waits, and the kernel holds less for the peer than when this was last asked.
    pub(super) fn has_been_read(&mut self) -> bool {
        let Phase::Home(stream) = &self.phase else {
            return false;
        };
        let connection = &stream.connection;
        let queued_bytes = { connection.has_unsent() }.then(|| connection.socket.queued_bytes());
        let Some(queued_bytes) = queued_bytes.flatten() else {
            return false;
        };
        std::mem::replace(&mut self.queued_bytes, queued_bytes) > queued_bytes
    }

    /// Sends output that waits, if the net worker has the connection and its socket has room. Returns whether there is
    /// more, and room for it.
    pub(super) fn send_some(&mut self, net: &NetCounters) -> bool {
        let (Phase::Home(stream) | Phase::Backpressured(stream) | Phase::Queued(stream)) = &mut self.phase else {
            return false;
        };
        let connection = &mut stream.connection;
        if !connection.has_unsent() || self.readiness.has(Condition::Blocked) {
            return false;
        }
        let sent = connection.send(SEND_BYTES_MAX);
        let blocked = connection.flush == Flush::Blocked;
        self.readiness.set(Condition::Blocked, blocked);
        net.bytes_sent.add(sent as u64);
        connection.flush == Flush::Budget && !connection.failed
    }
}

impl<C, D> Phase<C, D> {
    /// The connection, if the net worker has it.
    pub(super) fn stream(&self) -> Option<&Stream<C, D>> {
        match self {
            Self::Home(stream)
            | Self::Backpressured(stream)
            | Self::Queued(stream)
            | Self::Lingering { stream, .. } => Some(stream),
            Self::Free | Self::Lent { .. } => None,
        }
    }

    /// The same, to be changed, of one at home.
    pub(super) fn home_mut(&mut self) -> Option<&mut Stream<C, D>> {
        match self {
            Self::Home(stream) => Some(stream),
            _ => None,
        }
    }

    pub(super) fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    /// The same, to be changed, if its run may be in a queue.
    pub(super) fn stream_mut(&mut self) -> Option<&mut Stream<C, D>> {
        match self {
            Self::Home(stream) | Self::Backpressured(stream) | Self::Queued(stream) => Some(stream),
            Self::Free | Self::Lent { .. } | Self::Lingering { .. } => None,
        }
    }

    /// Whether a run of the connection waits or runs.
    fn is_away_or_waits(&self) -> bool {
        matches!(self, Self::Backpressured(_) | Self::Queued(_) | Self::Lent { .. })
    }

    pub(super) fn is_lingering(&self) -> bool {
        matches!(self, Self::Lingering { .. })
    }

    /// `Home` or `Backpressured` becomes `Queued`.
    #[inline]
    pub(super) fn queue(&mut self) {
        *self = match std::mem::replace(self, Self::Free) {
            Self::Home(stream) | Self::Backpressured(stream) => Self::Queued(stream),
            other => other,
        };
    }

    /// `Home` becomes `Backpressured`.
    pub(super) fn hold(&mut self) {
        *self = match std::mem::replace(self, Self::Free) {
            Self::Home(stream) => Self::Backpressured(stream),
            other => other,
        };
    }

    /// `Queued` becomes `Home`.
    pub(super) fn unqueue(&mut self) {
        *self = match std::mem::replace(self, Self::Free) {
            Self::Queued(stream) => Self::Home(stream),
            other => other,
        };
    }

    /// `Home` becomes `Lingering`.
    pub(super) fn linger(&mut self, until_ns: u64) {
        *self = match std::mem::replace(self, Self::Free) {
            Self::Home(stream) => Self::Lingering { stream, until_ns },
            other => other,
        };
    }

    /// `Queued` becomes `Lent`. `None` in another phase.
    #[inline]
    pub(super) fn lend(&mut self) -> Option<Box<Stream<C, D>>> {
        let lent = Self::Lent { became_writable: false };
        match std::mem::replace(self, lent) {
            Self::Queued(stream) => Some(stream),
            other => {
                *self = other;
                None
            }
        }
    }
}
