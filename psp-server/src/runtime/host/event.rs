//! What an event queue tells, of a real system or a simulated one.

use mio::Token;

/// What an event queue tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) token: Token,
    pub(crate) about: SocketEvent,
}

/// What an event says about a connection's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SocketEvent {
    /// There may be input.
    pub(crate) readable: bool,
    /// There may be room for output.
    pub(crate) writable: bool,
    /// The peer has ended its side.
    pub(crate) ended: bool,
    /// Neither side can send any more.
    pub(crate) hung_up: bool,
    /// The connection was reset.
    pub(crate) failed: bool,
}

impl SocketEvent {
    /// Whether it says more than that there may be room for output.
    #[inline]
    pub(crate) fn is_about_input(&self) -> bool {
        self.readable || self.ended || self.hung_up || self.failed
    }
}
