//! A socket that accepts connections, and whether they speak TLS.

use super::TlsConfig;
use super::socket::ListenerSocket;

/// A socket that accepts connections.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: ListenerSocket,
    /// With this, peers have to speak TLS.
    pub(crate) tls: Option<TlsConfig>,
}

impl From<ListenerSocket> for Listening {
    fn from(socket: ListenerSocket) -> Self {
        Self { socket, tls: None }
    }
}
