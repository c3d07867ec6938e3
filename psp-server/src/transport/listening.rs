//! A socket on which a thread accepts connections, and whether they speak TLS.

use std::sync::Arc;

use super::TlsConfig;
use super::socket::ListenerSocket;

/// A socket on which a thread accepts connections.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: Arc<ListenerSocket>,
    /// Whether all threads that receive requests accept its connections. Otherwise each has a socket of its own.
    pub(crate) is_shared: bool,
    /// With this, peers have to speak TLS.
    pub(crate) tls: Option<TlsConfig>,
}
