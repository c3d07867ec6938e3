//! What all ports of a server have in common.

use std::net::SocketAddr;
use std::sync::Arc;

use super::connections::per_address::PerAddress;
use super::newcomers::Newcomers;
use super::returns::Returns;
use super::sources::Sources;
use crate::config::Config;
use crate::fiber::Bell;

/// See the [module](self).
pub(crate) struct Commons<C, D> {
    /// The ways of connections and datagrams back to their ports.
    pub(super) returns: Returns<C, D>,
    /// The ways of new connections to their ports.
    pub(super) newcomers: Newcomers,
    /// From which sources datagrams are taken.
    pub(super) sources: Sources,
    /// How many connections each address has.
    pub(super) per_address: Arc<PerAddress>,
}

impl<C, D> Commons<C, D> {
    /// There are as many ports as `bells`, which wake those who drive them. `own` has the addresses of the server's
    /// datagram sockets.
    pub(crate) fn new<B: Bell + 'static>(bells: &[Arc<B>], own: Vec<SocketAddr>, config: &Config) -> Self {
        Self {
            returns: Returns::new(bells.iter().cloned()),
            newcomers: Newcomers::new(bells.iter().cloned()),
            sources: Sources::new(own, config.datagram_bytes_per_source_per_s),
            per_address: Arc::new(PerAddress::new(config.connections_per_address_max)),
        }
    }
}
