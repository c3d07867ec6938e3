//! Where datagrams come in and replies go out.

use mio::net::UdpSocket;

use super::Transmitters;

/// An outlet for replies, and the handler's state for it. Workers send through it themselves.
#[derive(Debug)]
pub(crate) struct Endpoint<C> {
    pub(crate) outlet: Outlet,
    pub(crate) state: C,
}

/// What an endpoint sends through.
#[derive(Debug)]
pub(crate) enum Outlet {
    Socket(UdpSocket),
    Port(Transmitters),
}
