//! UDP: one request in one datagram, its reply in the same buffer.
//!
//! ```text
//!   buffer:  | request (len) | free: the reply is written here |
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::UdpSocket;

use crate::policy::Sample;
use crate::request_type::RequestType;

/// A bound socket and the handler's state for it. Workers send through it themselves.
#[derive(Debug)]
pub(crate) struct Endpoint<C> {
    pub(crate) socket: UdpSocket,
    pub(crate) state: C,
}

/// A buffer with a request in it. It belongs to the pool, to the typed queue's owner or to a
/// worker; the buffer itself never moves.
pub(crate) struct Datagram<C> {
    /// Its place in the pool.
    pub(crate) slot: u32,
    pub(crate) endpoint: Option<Arc<Endpoint<C>>>,
    pub(crate) peer: SocketAddr,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) len: usize,
    pub(crate) request_type: RequestType,
    pub(crate) sample: Option<Sample>,
}

/// All datagram buffers of a server, made at its start.
pub(crate) struct DatagramPool<C> {
    all: Vec<Option<Box<Datagram<C>>>>,
    free: Vec<u32>,
    bytes_max: usize,
}

impl<C> DatagramPool<C> {
    /// `count` buffers, each for a request of up to `bytes_max` bytes and a reply of at least as
    /// many.
    pub(crate) fn new(count: usize, bytes_max: usize) -> Self {
        let count = u32::try_from(count).expect("fewer than 2^32 datagrams");
        let datagram = |slot| {
            Some(Box::new(Datagram {
                slot,
                endpoint: None,
                peer: SocketAddr::from(([0, 0, 0, 0], 0)),
                bytes: vec![0; 2 * bytes_max + 1].into_boxed_slice(),
                len: 0,
                request_type: RequestType::UNKNOWN,
                sample: None,
            }))
        };
        Self {
            all: (0..count).map(datagram).collect(),
            free: (0..count).rev().collect(),
            bytes_max,
        }
    }

    /// Buffers that are not in the pool.
    pub(crate) fn in_use(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Receives one datagram. `Ok(None)`: one came that is longer than allowed, and is dropped.
    /// The buffer stays the pool's until [`take`](Self::take).
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` when nothing waits, `OutOfMemory` when every buffer is in
    /// use.
    pub(crate) fn receive(
        &mut self,
        endpoint: &Arc<Endpoint<C>>,
    ) -> io::Result<Option<&mut Datagram<C>>> {
        let slot = *self.free.last().ok_or(io::ErrorKind::OutOfMemory)?;
        let datagram = self.all[slot as usize]
            .as_mut()
            .expect("a free buffer is in the pool");
        let (len, peer) = endpoint
            .socket
            .recv_from(&mut datagram.bytes[..=self.bytes_max])?;
        if len > self.bytes_max {
            return Ok(None);
        }
        (datagram.len, datagram.peer) = (len, peer);
        datagram.endpoint = Some(endpoint.clone());
        self.free.pop();
        Ok(Some(datagram))
    }

    /// Lends a received datagram to a worker. `None` when it is lent already.
    pub(crate) fn take(&mut self, slot: u32) -> Option<Box<Datagram<C>>> {
        self.all[slot as usize].take()
    }

    /// Frees a received datagram that was not lent.
    pub(crate) fn discard(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Takes a lent datagram back and frees it.
    pub(crate) fn give(&mut self, datagram: Box<Datagram<C>>) {
        let slot = datagram.slot;
        self.all[slot as usize] = Some(datagram);
        self.free.push(slot);
    }
}
