//! Receives datagrams from sockets.

use std::io;
use std::sync::Arc;

use mio::Registry;
use psp_protocols::Framing;

use super::intake::Intake;
use super::sources::Sources;
use super::tokens::Tokens;
use crate::classifier::Classifier;
use crate::runtime::host::event_queue;
use crate::transport::datagram::DatagramPool;
use crate::transport::endpoint::{Endpoint, Outlet};

/// The datagram sockets of a port. Other ports may have some of them, too.
pub(super) struct DatagramSockets<C> {
    sockets: Vec<DatagramSocket<C>>,
    /// The socket that is next, where one datagram at a time is read.
    next: usize,
}

struct DatagramSocket<C> {
    endpoint: Arc<Endpoint<C>>,
    /// Datagrams may wait to be received.
    readable: bool,
}

impl<C> DatagramSockets<C> {
    pub(super) fn new(endpoints: Vec<Arc<Endpoint<C>>>, registry: &Registry, tokens: Tokens) -> io::Result<Self> {
        let mut sockets = Vec::with_capacity(endpoints.len());
        for (index, endpoint) in endpoints.into_iter().enumerate() {
            if let Outlet::Socket(socket) = &endpoint.outlet {
                event_queue::watch(registry, socket, tokens.datagram_socket(index))?;
            }
            let readable = true;
            sockets.push(DatagramSocket { endpoint, readable });
        }
        Ok(Self { sockets, next: 0 })
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

    /// The socket to receive the next datagram from, each in its turn. `None` if nothing waits.
    pub(super) fn next_readable(&mut self) -> Option<usize> {
        let count = self.sockets.len();
        let at = { self.next..self.next + count }.map(|at| at % count);
        let at = { at }.find(|&at| self.sockets[at].readable)?;
        self.next = at + 1;
        Some(at)
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
        sources: &Sources,
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
            Ok(Some(datagram)) => {
                let index = datagram.index;
                if !intake.admit(sources, datagram) {
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
