//! Receives datagrams from sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::{Interest, Registry};
use psp_protocols::Framing;

use super::intake::Intake;
use super::tokens::Tokens;
use crate::classifier::Classifier;
use crate::transport::datagram::DatagramPool;
use crate::transport::endpoint::{Endpoint, Outlet};

/// The datagram sockets of a server.
pub(super) struct DatagramSockets<C> {
    sockets: Vec<DatagramSocket<C>>,
    /// The addresses of all sockets.
    own: Vec<SocketAddr>,
}

struct DatagramSocket<C> {
    endpoint: Arc<Endpoint<C>>,
    /// Datagrams may wait to be received.
    readable: bool,
}

impl<C> DatagramSockets<C> {
    pub(super) fn new(
        endpoints: Vec<Arc<Endpoint<C>>>,
        registry: &Registry,
        tokens: Tokens,
    ) -> io::Result<Self> {
        let mut sockets = Vec::with_capacity(endpoints.len());
        let mut own = Vec::with_capacity(endpoints.len());
        for (index, mut endpoint) in endpoints.into_iter().enumerate() {
            let owned = Arc::get_mut(&mut endpoint).expect("not shared before the start");
            if let Outlet::Socket(socket) = &mut owned.outlet {
                let token = tokens.datagram_socket(index);
                registry.register(socket, token, Interest::READABLE)?;
                own.push(socket.local_addr()?);
            }
            let readable = true;
            sockets.push(DatagramSocket { endpoint, readable });
        }
        Ok(Self { sockets, own })
    }

    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// The event queue has an event of this socket.
    pub(super) fn on_event(&mut self, index: usize) {
        if let Some(socket) = self.sockets.get_mut(index) {
            socket.readable = true;
        }
    }

    /// Whether datagrams may wait to be received.
    pub(super) fn has_readable(&self) -> bool {
        self.sockets.iter().any(|socket| socket.readable)
    }

    /// Tries all sockets again.
    pub(super) fn retry(&mut self) {
        for socket in &mut self.sockets {
            socket.readable = true;
        }
    }

    /// Receives nothing any more. Workers still send through the sockets.
    pub(super) fn close(&mut self) {
        for socket in &mut self.sockets {
            socket.readable = false;
        }
    }

    /// Receives a datagram from a socket. Returns whether there may be another.
    pub(super) fn receive<F: Framing, K: Classifier<F::Head>>(
        &mut self,
        index: usize,
        pool: &mut DatagramPool<C, F::Head>,
        mut intake: Intake<'_, F, K>,
    ) -> bool {
        let DatagramSocket { endpoint, readable } = &mut self.sockets[index];
        let Outlet::Socket(socket) = &endpoint.outlet else {
            return false;
        };
        if !*readable {
            return false;
        }
        match pool.receive(endpoint, socket) {
            Ok(Some(datagram)) if is_own(&self.own, datagram.peer) => {
                let index = datagram.index;
                intake.count_own();
                pool.discard(index);
            }
            Ok(Some(datagram)) => {
                let index = datagram.index;
                if !intake.admit(datagram) {
                    pool.discard(index);
                }
            }
            Ok(None) => intake.count_too_long(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => *readable = false,
            // Every buffer is in use: the kernel queues, and then drops.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => return false,
            // An earlier reply could not be delivered. That does not concern this request.
            Err(_) => {}
        }
        *readable
    }
}

/// Whether `source` is the address of one of the server's sockets, whose reply would come back as a request. A
/// socket on all addresses has any address with its port.
fn is_own(own: &[SocketAddr], source: SocketAddr) -> bool {
    let ip = source.ip().to_canonical();
    own.iter().any(|own| {
        let on_all = own.ip().is_unspecified();
        own.port() == source.port() && (on_all || own.ip().to_canonical() == ip || ip.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_those_of_sockets() {
        let own = ["10.0.0.1:11211", "[::]:11212"].map(|own| own.parse().expect("an address"));
        for (source, expected) in [
            ("10.0.0.1:11211", true),
            ("127.0.0.1:11211", true),
            ("10.0.0.2:11211", false),
            ("10.0.0.1:40000", false),
            ("10.0.0.1:11212", true),
            ("[::ffff:192.0.2.1]:11212", true),
            ("[2001:db8::1]:11212", true),
            ("[2001:db8::1]:11211", false),
            ("[::ffff:10.0.0.1]:11211", true),
        ] {
            let source = source.parse().expect("an address");
            assert_eq!(is_own(&own, source), expected, "{source}");
        }
    }
}
