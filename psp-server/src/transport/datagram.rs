//! UDP: one request in one datagram, its reply in the same buffer.
//!
//! ```text
//!   buffer:  | header, request (len) | free: room for a header, and the reply |
//! ```
//!
//! The headers are those of the protocol's [`Envelope`], which also cuts a long reply into datagrams.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::UdpSocket;
use psp_protocols::envelope::{Envelope, send_parts};

use crate::policy::Sample;
use crate::request_type::RequestType;

/// A bound socket and the handler's state for it. Workers send through it themselves.
#[derive(Debug)]
pub(crate) struct Endpoint<C> {
    pub(crate) socket: UdpSocket,
    pub(crate) state: C,
}

impl<C> Endpoint<C> {
    /// Sends the reply that lies in `buffer` behind the room for its header, and returns the bytes that
    /// left. A full socket buffer drops what is left of it, as the network may.
    pub(crate) fn send_reply(
        &self,
        envelope: &dyn Envelope,
        request_header: &[u8],
        buffer: &mut [u8],
        peer: SocketAddr,
    ) -> usize {
        let mut sent = 0;
        send_parts(envelope, request_header, buffer, |datagram| {
            let result = self.socket.send_to(datagram, peer);
            sent += result.as_ref().copied().unwrap_or(0);
            result.is_ok()
        });
        sent
    }
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

impl<C> Datagram<C> {
    /// The request behind the header of a datagram that has been received. `None` when the envelope
    /// is not one of a request.
    pub(crate) fn request(&self, envelope: &dyn Envelope) -> Option<&[u8]> {
        let header_len = envelope.shape().header_len;
        let (header, request) = self.bytes[..self.len].split_at_checked(header_len)?;
        envelope.accepts(header).then_some(request)
    }
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
