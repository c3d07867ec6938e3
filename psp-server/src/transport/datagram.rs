//! UDP: one request in one datagram, its reply in the same buffer.
//!
//! ```text
//!   socket:  | header, request (len) | free: room for a header, and the reply |
//!   port:    | Ethernet .. UDP | header, request | Ethernet .. UDP | free, likewise |      an mbuf
//! ```
//!
//! The protocol's [`Envelope`] has the headers, and cuts a long reply into datagrams.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::UdpSocket;
use psp_policy::{RequestId, RequestType, Sample, WorkerId};
use psp_protocols::envelope::{Envelope, Part, Shape, send_parts};

use super::Packet;
use super::endpoint::{Endpoint, Outlet};
use super::owed::Ticket;
use super::request_key::{DatagramIndex, Names};
use super::run::{Standing, is_late};

/// A request and the room for its reply. Its owner is the pool or a worker; the bytes never move.
pub(crate) struct Datagram<C, D> {
    /// The names of the requests of the port that it belongs to, whichever worker runs its request.
    pub(crate) names: Names,
    /// Its index in the port's pool.
    pub(crate) index: DatagramIndex,
    pub(crate) peer: SocketAddr,
    pub(crate) body: Body,
    /// Where the request came from. A free datagram keeps it, so that requests need not count
    /// references. It outlives a body in a port's buffer.
    pub(crate) endpoint: Option<Arc<Endpoint<C>>>,
    pub(crate) request_type: RequestType,
    /// What the framing learnt about the request.
    pub(crate) head: D,
    pub(crate) arrived_ns: u64,
    /// Until when the request may wait for its turn.
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) standing: Standing,
    pub(crate) sample: Option<Sample>,
    /// The reply that is deferred.
    pub(crate) owed: Option<Ticket>,
}

/// The bytes of a datagram, and how many went back as its reply.
pub(crate) struct Body {
    place: Place,
    replied_bytes: usize,
}

/// Where a datagram's bytes are.
enum Place {
    /// In the datagram's own buffer.
    Buffer {
        bytes: Box<[u8]>,
        /// Bytes of the request.
        len: usize,
    },
    /// In a buffer of a port, while there is a request.
    Packet(Option<Packet>),
}

/// How sending a reply ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes sent.
    pub(crate) bytes: usize,
    /// Replies that were dropped in whole or in part, as the network may drop them.
    pub(crate) dropped: usize,
}

impl Body {
    /// The bytes that were received.
    #[inline]
    fn received(&self) -> &[u8] {
        match &self.place {
            Place::Buffer { bytes, len } => &bytes[..*len],
            Place::Packet(packet) => packet.as_ref().map_or(&[], Packet::request),
        }
    }

    /// The bytes that were received, and the room for a header and the reply.
    #[inline]
    pub(crate) fn split(&mut self) -> (&[u8], &mut [u8]) {
        match &mut self.place {
            Place::Buffer { bytes, len } => {
                let (received, free) = bytes.split_at_mut(*len);
                (received, free)
            }
            Place::Packet(Some(packet)) => packet.split(),
            Place::Packet(None) => (&[], &mut []),
        }
    }

    /// The request behind its header, and the room for the reply.
    #[inline]
    pub(crate) fn request_and_room(&mut self, shape: Shape) -> (&[u8], &mut [u8]) {
        let reply_len_max = self.reply_len_max(shape);
        let (received, free) = self.split();
        let (header_room, room) = free.split_at_mut(shape.header_len.min(free.len()));
        let room_len = match header_room.len() == shape.header_len {
            true => room.len().min(reply_len_max),
            false => 0,
        };
        let request = received.get(shape.header_len..).unwrap_or_default();
        (request, &mut room[..room_len])
    }

    /// Longest reply that an envelope of this shape can carry, and that with its header is as long as the
    /// longest request. A port sends a reply in one piece: the mbuf.
    #[inline]
    pub(crate) fn reply_len_max(&self, shape: Shape) -> usize {
        match &self.place {
            Place::Buffer { bytes, .. } => {
                let with_header = bytes_max(bytes.len());
                let reply_len = with_header.saturating_sub(shape.header_len);
                reply_len.min(shape.reply_len_max())
            }
            Place::Packet(_) => shape.datagram_len_max.saturating_sub(shape.header_len),
        }
    }

    /// Sends, as `worker`, the reply of `len` bytes that was written behind the room for a header. A port
    /// may keep it for a moment unless `at_once` is set.
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
            Outlet::Port(transmitters) => {
                let whole = Part { sequence: 0, count: 1 };
                envelope.encode_header(header, whole, &mut free[..header_len]);
                if let Place::Packet(packet) = &mut self.place
                    && let Some(packet) = packet.take()
                {
                    let len = header_len + len;
                    sent.dropped = transmitters.send(worker, packet, len, at_once);
                    sent.bytes = if sent.dropped == 0 { len } else { 0 };
                }
            }
        }
        self.replied_bytes = sent.bytes;
        sent
    }

    /// Bytes that were sent as the reply, with its headers.
    pub(crate) fn replied_bytes(&self) -> usize {
        self.replied_bytes
    }
}

/// Bytes of the buffer for a request and a reply of up to `bytes_max` bytes each. One byte more shows that a
/// request is longer.
pub(crate) fn buffer_len(bytes_max: usize) -> usize {
    2 * bytes_max + 1
}

/// The longest request, and the longest reply, for which a buffer of this length is made.
fn bytes_max(buffer_len: usize) -> usize {
    buffer_len / 2
}

/// All datagrams of a port, made at the start: first the datagrams of sockets, then those of polled ports.
pub(crate) struct DatagramPool<C, D> {
    /// `None` while the datagram is lent.
    all: Vec<Option<Box<Datagram<C, D>>>>,
    /// Free datagrams of sockets.
    free: Vec<DatagramIndex>,
    /// Free datagrams of ports.
    free_packets: Vec<DatagramIndex>,
    buffers: usize,
    bytes_max: usize,
}

impl<C, D: Default> DatagramPool<C, D> {
    /// `buffers` datagrams with a buffer for a request and a reply of up to `bytes_max` bytes each; and
    /// `packets` datagrams for requests in buffers of polled ports. Their requests have `names`.
    pub(crate) fn new(names: Names, buffers: usize, bytes_max: usize, packets: usize) -> Self {
        let index = |index| DatagramIndex::new(index).expect("fewer datagrams than indices");
        let datagram = |number| {
            let place = if number < buffers {
                Place::Buffer {
                    bytes: vec![0; buffer_len(bytes_max)].into_boxed_slice(),
                    len: 0,
                }
            } else {
                Place::Packet(None)
            };
            Some(Box::new(Datagram {
                names,
                index: index(number),
                peer: SocketAddr::from(([0, 0, 0, 0], 0)),
                body: Body { place, replied_bytes: 0 },
                endpoint: None,
                request_type: RequestType::UNKNOWN,
                head: D::default(),
                arrived_ns: 0,
                deadline_ns: None,
                standing: Standing::default(),
                sample: None,
                owed: None,
            }))
        };
        let count = buffers + packets;
        Self {
            all: (0..count).map(datagram).collect(),
            free: (0..buffers).rev().map(index).collect(),
            free_packets: (buffers..count).rev().map(index).collect(),
            buffers,
            bytes_max,
        }
    }

    /// Whether there is a buffer for a socket's datagram.
    pub(crate) fn has_buffers(&self) -> bool {
        !self.free.is_empty()
    }

    /// How many datagrams hold requests.
    pub(crate) fn in_use(&self) -> usize {
        self.all.len() - self.free.len() - self.free_packets.len()
    }

    /// Receives one datagram from an endpoint's `socket`. `Ok(None)`: a datagram came that is longer than
    /// allowed, and is dropped. The buffer stays the pool's until [`take`](Self::take).
    ///
    /// # Errors
    /// The socket's errors; `WouldBlock` when nothing waits, `OutOfMemory` when every buffer is in
    /// use.
    pub(crate) fn receive(
        &mut self,
        endpoint: &Arc<Endpoint<C>>,
        socket: &UdpSocket,
    ) -> io::Result<Option<&mut Datagram<C, D>>> {
        let index = *self.free.last().ok_or(io::ErrorKind::OutOfMemory)?;
        let datagram = self.all[index.get()].as_mut().expect("a free buffer is in the pool");
        let Place::Buffer { bytes, len } = &mut datagram.body.place else {
            unreachable!("a socket's datagram has a buffer");
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

    /// Makes a port's request a datagram. The packet is dropped when every datagram is in use.
    #[inline]
    pub(crate) fn hold(&mut self, endpoint: &Arc<Endpoint<C>>, packet: Packet) -> Option<&mut Datagram<C, D>> {
        let index = self.free_packets.pop()?;
        let datagram = self.all[index.get()].as_mut().expect("a free datagram is in the pool");
        datagram.peer = packet.peer();
        datagram.body.place = Place::Packet(Some(packet));
        datagram.set_endpoint(endpoint);
        Some(datagram)
    }

    /// A received datagram that is not lent.
    pub(crate) fn held(&mut self, index: DatagramIndex) -> Option<&mut Datagram<C, D>> {
        self.all[index.get()].as_deref_mut()
    }

    /// Lends a received datagram to a worker. `None` when it is lent already.
    #[inline]
    pub(crate) fn take(&mut self, index: DatagramIndex) -> Option<Box<Datagram<C, D>>> {
        self.all[index.get()].take()
    }

    /// Frees a received datagram that is not lent.
    pub(crate) fn discard(&mut self, index: DatagramIndex) {
        if let Some(datagram) = self.take(index) {
            self.give(datagram);
        }
    }

    /// Takes a lent datagram back whose reply is deferred.
    pub(crate) fn keep(&mut self, datagram: Box<Datagram<C, D>>) {
        let index = datagram.index.get();
        self.all[index] = Some(datagram);
    }

    /// Takes a lent datagram back and frees it.
    #[inline]
    pub(crate) fn give(&mut self, mut datagram: Box<Datagram<C, D>>) {
        datagram.release();
        let index = datagram.index;
        self.all[index.get()] = Some(datagram);
        if index.get() < self.buffers {
            self.free.push(index);
        } else {
            self.free_packets.push(index);
        }
    }
}

impl<C, D> Datagram<C, D> {
    /// The scheduler's name for the request.
    #[inline]
    pub(crate) fn request_id(&self) -> RequestId {
        self.names.of_datagram(self.index)
    }

    /// Sends the replies that its polled port has kept for `worker`. Returns how many were dropped because the port
    /// took no more.
    pub(crate) fn flush(&self, worker: WorkerId) -> usize {
        let outlet = self.endpoint.as_ref().map(|endpoint| &endpoint.outlet);
        match outlet {
            Some(Outlet::Port(transmitters)) => transmitters.flush(worker),
            Some(Outlet::Socket(_)) | None => 0,
        }
    }

    /// Whether the request has waited for too long.
    #[inline]
    pub(crate) fn is_late(&self, now_ns: u64) -> bool {
        is_late(self.deadline_ns, now_ns)
    }

    /// The request behind the header of a received datagram. `None` if the envelope is not that of a request.
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

    /// Forgets the reply. Gives a port its buffer back, if the request had none.
    #[inline]
    fn release(&mut self) {
        self.body.replied_bytes = 0;
        self.owed = None;
        if let Place::Packet(packet) = &mut self.body.place {
            *packet = None;
        }
    }
}
