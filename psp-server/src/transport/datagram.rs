//! UDP: one request in one datagram, its reply in the same buffer.
//!
//! ```text
//!   socket:  | request (len) | free: the reply is written here |
//!   port:    | headers | request | headers | free: the reply is written here |      an mbuf
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::UdpSocket;

use super::{Packet, Transmitters};
use crate::policy::{Sample, WorkerId};
use crate::request_type::RequestType;

/// What UDP over IPv4 can carry.
const REPLY_BYTES_MAX: usize = 65_507;

/// Where requests come in and replies go out, and the handler's state for it. Workers send through it
/// themselves.
#[derive(Debug)]
pub(crate) struct Endpoint<C> {
    pub(crate) outlet: Outlet,
    pub(crate) state: C,
}

/// What an endpoint sends through.
#[derive(Debug)]
pub(crate) enum Outlet {
    Socket(UdpSocket),
    #[cfg_attr(
        not(feature = "dpdk"),
        expect(dead_code, reason = "no such transport is there")
    )]
    Packets(Transmitters),
}

/// A request and the room for its reply. It belongs to the pool, to the typed queue's owner or to a
/// worker; the bytes never move.
pub(crate) struct Datagram<C> {
    /// Its place in the pool.
    pub(crate) slot: u32,
    pub(crate) peer: SocketAddr,
    pub(crate) body: Body,
    /// Where it came from. It stays when the datagram is free, so that requests need not count
    /// references; and it outlives a body that is a port's.
    pub(crate) endpoint: Option<Arc<Endpoint<C>>>,
    pub(crate) request_type: RequestType,
    pub(crate) sample: Option<Sample>,
}

/// Where the bytes are.
pub(crate) enum Body {
    /// In a buffer of this slot.
    Buffer {
        bytes: Box<[u8]>,
        /// Bytes of the request.
        len: usize,
    },
    /// In a buffer of a port, if there is a request.
    Packet(Option<Packet>),
}

impl Body {
    /// The request.
    pub(crate) fn request(&self) -> &[u8] {
        match self {
            Self::Buffer { bytes, len } => &bytes[..*len],
            Self::Packet(packet) => packet.as_ref().map_or(&[], Packet::request),
        }
    }

    /// The request, and the room for its reply.
    pub(crate) fn split(&mut self) -> (&[u8], &mut [u8]) {
        match self {
            Self::Buffer { bytes, len } => {
                let (request, free) = bytes.split_at_mut(*len);
                let room = free.len().min(REPLY_BYTES_MAX);
                (request, &mut free[..room])
            }
            Self::Packet(Some(packet)) => packet.split(),
            Self::Packet(None) => (&[], &mut []),
        }
    }

    /// Sends the first `len` bytes of the room as `worker`; a port may keep them for a moment unless they
    /// go `at_once`. Returns how many replies were dropped, as the network may drop them.
    pub(crate) fn send(
        &mut self,
        len: usize,
        outlet: &Outlet,
        peer: SocketAddr,
        worker: WorkerId,
        at_once: bool,
    ) -> usize {
        match (self, outlet) {
            (Self::Buffer { bytes, len: start }, Outlet::Socket(socket)) => {
                let reply = &bytes[*start..*start + len];
                usize::from(socket.send_to(reply, peer).is_err())
            }
            (Self::Packet(packet), Outlet::Packets(transmitters)) => packet
                .take()
                .map_or(0, |packet| transmitters.send(worker, packet, len, at_once)),
            _ => unreachable!("a datagram is answered where it came from"),
        }
    }
}

/// All datagrams of a server, made at its start: first those of sockets, then those of ports.
pub(crate) struct DatagramPool<C> {
    all: Vec<Option<Box<Datagram<C>>>>,
    /// Free ones of sockets.
    free: Vec<u32>,
    /// Free ones of ports.
    free_packets: Vec<u32>,
    buffers: usize,
    bytes_max: usize,
}

impl<C> DatagramPool<C> {
    /// `buffers` buffers, each for a request of up to `bytes_max` bytes and a reply of at least as
    /// many; and places for `packets` requests that are in buffers of ports.
    pub(crate) fn new(buffers: usize, bytes_max: usize, packets: usize) -> Self {
        let place = |slot| u32::try_from(slot).expect("fewer than 2^32 datagrams");
        let datagram = |slot| {
            let body = if slot < buffers {
                Body::Buffer {
                    bytes: vec![0; 2 * bytes_max + 1].into_boxed_slice(),
                    len: 0,
                }
            } else {
                Body::Packet(None)
            };
            Some(Box::new(Datagram {
                slot: place(slot),
                peer: SocketAddr::from(([0, 0, 0, 0], 0)),
                body,
                endpoint: None,
                request_type: RequestType::UNKNOWN,
                sample: None,
            }))
        };
        let count = buffers + packets;
        Self {
            all: (0..count).map(datagram).collect(),
            free: (0..place(buffers)).rev().collect(),
            free_packets: (place(buffers)..place(count)).rev().collect(),
            buffers,
            bytes_max,
        }
    }

    /// Whether a socket's datagram would find a buffer.
    pub(crate) fn has_buffers(&self) -> bool {
        !self.free.is_empty()
    }

    /// Those that hold requests.
    pub(crate) fn in_use(&self) -> usize {
        self.all.len() - self.free.len() - self.free_packets.len()
    }

    /// Receives one datagram from an endpoint's `socket`. `Ok(None)`: one came that is longer than
    /// allowed, and is dropped. The buffer stays the pool's until [`take`](Self::take).
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` when nothing waits, `OutOfMemory` when every buffer is in
    /// use.
    pub(crate) fn receive(
        &mut self,
        endpoint: &Arc<Endpoint<C>>,
        socket: &UdpSocket,
    ) -> io::Result<Option<&mut Datagram<C>>> {
        let slot = *self.free.last().ok_or(io::ErrorKind::OutOfMemory)?;
        let datagram = self.all[slot as usize]
            .as_mut()
            .expect("a free buffer is in the pool");
        let Body::Buffer { bytes, len } = &mut datagram.body else {
            unreachable!("a socket's slot has a buffer");
        };
        let (received, peer) = socket.recv_from(&mut bytes[..=self.bytes_max])?;
        if received > self.bytes_max {
            return Ok(None);
        }
        (*len, datagram.peer) = (received, peer);
        datagram.set_endpoint(endpoint);
        self.free.pop();
        Ok(Some(datagram))
    }

    /// Gives a port's request a place. The packet is dropped when every place is in use.
    pub(crate) fn hold(
        &mut self,
        endpoint: &Arc<Endpoint<C>>,
        packet: Packet,
    ) -> Option<&mut Datagram<C>> {
        let slot = self.free_packets.pop()?;
        let datagram = self.all[slot as usize]
            .as_mut()
            .expect("a free place is in the pool");
        datagram.peer = packet.peer();
        datagram.body = Body::Packet(Some(packet));
        datagram.set_endpoint(endpoint);
        Some(datagram)
    }

    /// Lends a received datagram to a worker. `None` when it is lent already.
    pub(crate) fn take(&mut self, slot: u32) -> Option<Box<Datagram<C>>> {
        self.all[slot as usize].take()
    }

    /// Frees a received datagram that was not lent.
    pub(crate) fn discard(&mut self, slot: u32) {
        if let Some(datagram) = self.take(slot) {
            self.give(datagram);
        }
    }

    /// Takes a lent datagram back and frees it.
    pub(crate) fn give(&mut self, mut datagram: Box<Datagram<C>>) {
        datagram.release();
        let slot = datagram.slot;
        self.all[slot as usize] = Some(datagram);
        if (slot as usize) < self.buffers {
            self.free.push(slot);
        } else {
            self.free_packets.push(slot);
        }
    }
}

impl<C> Datagram<C> {
    fn set_endpoint(&mut self, endpoint: &Arc<Endpoint<C>>) {
        let same = |held: &Arc<Endpoint<C>>| Arc::ptr_eq(held, endpoint);
        if !self.endpoint.as_ref().is_some_and(same) {
            self.endpoint = Some(endpoint.clone());
        }
    }

    /// Gives a port its buffer back, where the request had no reply.
    fn release(&mut self) {
        if let Body::Packet(packet) = &mut self.body {
            *packet = None;
        }
    }
}
