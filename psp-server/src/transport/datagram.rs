//! UDP: one request in one datagram, its reply in the same buffer.
//!
//! ```text
//!   socket:  | header, request (len) | free: room for a header, and the reply |
//!   port:    | Ethernet .. UDP | header, request | Ethernet .. UDP | free, likewise |      an mbuf
//! ```
//!
//! The headers are those of the protocol's [`Envelope`], which also cuts a long reply into datagrams.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::UdpSocket;
use psp_protocols::envelope::{Envelope, Part, Shape, send_parts};

use super::{Packet, Transmitters};
use crate::policy::{Sample, WorkerId};
use crate::request_type::RequestType;

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
    pub(crate) arrived_ns: u64,
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

/// What became of a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes that left.
    pub(crate) bytes: usize,
    /// Replies that were dropped, in whole or in part, as the network may drop them.
    pub(crate) dropped: usize,
}

impl Body {
    /// The bytes that were received.
    #[inline]
    fn received(&self) -> &[u8] {
        match self {
            Self::Buffer { bytes, len } => &bytes[..*len],
            Self::Packet(packet) => packet.as_ref().map_or(&[], Packet::request),
        }
    }

    /// The bytes that were received, and the room for a header and the reply.
    #[inline]
    pub(crate) fn split(&mut self) -> (&[u8], &mut [u8]) {
        match self {
            Self::Buffer { bytes, len } => {
                let (received, free) = bytes.split_at_mut(*len);
                (received, free)
            }
            Self::Packet(Some(packet)) => packet.split(),
            Self::Packet(None) => (&[], &mut []),
        }
    }

    /// Longest reply that an envelope of this shape can carry, were there room: a port sends a reply in
    /// one piece, that of the mbuf.
    #[inline]
    pub(crate) fn reply_len_max(&self, shape: Shape) -> usize {
        match self {
            Self::Buffer { .. } => shape.reply_len_max(),
            Self::Packet(_) => shape.datagram_len_max.saturating_sub(shape.header_len),
        }
    }

    /// Sends the reply of `len` bytes that was written behind the room for a header as `worker`; a port
    /// may keep it for a moment unless it goes `at_once`.
    #[inline]
    pub(crate) fn send(
        &mut self,
        len: usize,
        envelope: &dyn Envelope,
        outlet: &Outlet,
        peer: SocketAddr,
        worker: WorkerId,
        at_once: bool,
    ) -> Sent {
        let header_len = envelope.shape().header_len;
        let mut sent = Sent::default();
        let (received, free) = self.split();
        let header = &received[..header_len];
        match outlet {
            Outlet::Socket(socket) => {
                let reply = &mut free[..header_len + len];
                send_parts(envelope, header, reply, |part| {
                    let result = socket.send_to(part, peer);
                    sent.bytes += result.as_ref().copied().unwrap_or(0);
                    sent.dropped += usize::from(result.is_err());
                    result.is_ok()
                });
            }
            Outlet::Packets(transmitters) => {
                let whole = Part {
                    sequence: 0,
                    count: 1,
                };
                envelope.encode_header(header, whole, &mut free[..header_len]);
                if let Self::Packet(packet) = self
                    && let Some(packet) = packet.take()
                {
                    let len = header_len + len;
                    sent.dropped = transmitters.send(worker, packet, len, at_once);
                    sent.bytes = if sent.dropped == 0 { len } else { 0 };
                }
            }
        }
        sent
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
                arrived_ns: 0,
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
    #[inline]
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

    /// A received datagram that was not lent.
    #[cfg(feature = "dpdk")]
    pub(crate) fn held(&mut self, slot: u32) -> Option<&mut Datagram<C>> {
        self.all[slot as usize].as_deref_mut()
    }

    /// Lends a received datagram to a worker. `None` when it is lent already.
    #[inline]
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
    #[inline]
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
    /// The request behind the header of a datagram that has been received. `None` when the envelope
    /// is not one of a request.
    #[inline]
    pub(crate) fn request(&self, envelope: &dyn Envelope) -> Option<&[u8]> {
        let header_len = envelope.shape().header_len;
        let (header, request) = self.body.received().split_at_checked(header_len)?;
        envelope.accepts(header).then_some(request)
    }

    #[inline]
    fn set_endpoint(&mut self, endpoint: &Arc<Endpoint<C>>) {
        let same = |held: &Arc<Endpoint<C>>| Arc::ptr_eq(held, endpoint);
        if !self.endpoint.as_ref().is_some_and(same) {
            self.endpoint = Some(endpoint.clone());
        }
    }

    /// Gives a port its buffer back, where the request had no reply.
    #[inline]
    fn release(&mut self) {
        if let Body::Packet(packet) = &mut self.body {
            *packet = None;
        }
    }
}
