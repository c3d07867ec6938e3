//! What an event of the event queue is about.
//!
//! ```text
//!   0 waker, 1 alarm, 2 arbiter, then listeners, datagram sockets, connections
//! ```

use mio::Token;

use crate::transport::request_key::ConnectionIndex;

/// Wakes the net worker.
pub(crate) const WAKER: Token = Token(0);
/// The scheduler's deadline has come.
pub(crate) const ALARM: Token = Token(1);
/// The arbiter has told something.
pub(super) const ARBITER: Token = Token(2);
const LISTENER_FIRST: usize = 3;

/// The source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Waker,
    Alarm,
    Arbiter,
    Listener(usize),
    DatagramSocket(usize),
    Connection(ConnectionIndex),
}

/// The tokens of a net worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens {
    datagram_socket_first: usize,
    connection_first: usize,
}

impl Tokens {
    pub(crate) fn new(listeners: usize, datagram_sockets: usize) -> Self {
        let datagram_socket_first = LISTENER_FIRST + listeners;
        Self {
            datagram_socket_first,
            connection_first: datagram_socket_first + datagram_sockets,
        }
    }

    pub(crate) fn listener(self, index: usize) -> Token {
        Token(LISTENER_FIRST + index)
    }

    pub(super) fn datagram_socket(self, index: usize) -> Token {
        Token(self.datagram_socket_first + index)
    }

    pub(super) fn connection(self, index: ConnectionIndex) -> Token {
        Token(self.connection_first + index.get())
    }

    /// `None` for a token that was not made here.
    #[inline]
    pub(super) fn source(self, token: Token) -> Option<Source> {
        let Token(token) = token;
        if token >= self.connection_first {
            ConnectionIndex::new(token - self.connection_first).map(Source::Connection)
        } else if token >= self.datagram_socket_first {
            Some(Source::DatagramSocket(token - self.datagram_socket_first))
        } else if token >= LISTENER_FIRST {
            Some(Source::Listener(token - LISTENER_FIRST))
        } else {
            Some(match Token(token) {
                ALARM => Source::Alarm,
                ARBITER => Source::Arbiter,
                _ => Source::Waker,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_source() {
        let tokens = Tokens::new(2, 1);
        assert_eq!(tokens.source(WAKER), Some(Source::Waker));
        assert_eq!(tokens.source(ALARM), Some(Source::Alarm));
        for index in 0..2 {
            let source = tokens.source(tokens.listener(index));
            assert_eq!(source, Some(Source::Listener(index)));
        }
        let source = tokens.source(tokens.datagram_socket(0));
        assert_eq!(source, Some(Source::DatagramSocket(0)));
        let index = ConnectionIndex::new(9).unwrap();
        let source = tokens.source(tokens.connection(index));
        assert_eq!(source, Some(Source::Connection(index)));
    }
}
