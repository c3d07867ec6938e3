//! A client on a port: the other end of a server's port, for load generators and tests.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use psp_protocols::packet::arp::{self, Arp, Neighbour};
use psp_protocols::packet::udp::{self, HEADERS_LEN};
use psp_protocols::packet::{Checksums, End, Flow, Frame, Interface, MacAddr};

use super::config::{BURST_MAX, DpdkConfig};
use super::eal::Eal;
use super::mempool::Mbuf;
use super::open_port::OpenPort;
use super::port::{Port, PortSetup};
use super::queue::{RxQueue, TxQueue};
use crate::error::DpdkError;

/// Mbufs of a client beyond those in queues and caches.
const MBUFS_SPARE: usize = 1024;

/// How long to wait for the answer to an ARP question: RFC 1122, section 2.3.2.1, allows one question a second.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Like sockets that send datagrams to one server, one for each queue. One thread uses it, and polls.
///
/// ```text
///   send ── in turn ─┬─► transmit queue 0, from UDP port p ─────┬─► the server's port spreads them over its
///                    └─► transmit queue 1, from UDP port p + 1 ─┘   receive queues, by flow or by queue
/// ```
///
/// A NIC of the server spreads flows. Over a memory interface (`net_memif`) each transmit queue ends in the receive
/// queue of the same number.
#[derive(Debug)]
pub struct DpdkClient {
    burst: Vec<Mbuf>,
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
    /// The transmit queue whose turn it is.
    next: usize,
    port: Arc<Port>,
    /// With the UDP port of the first queue.
    interface: Interface,
    server: SocketAddrV4,
    /// Where datagrams of the first queue go, once the server's MAC address is known.
    flow: Option<Flow>,
    /// The last ARP question for it.
    asked: Option<Asked>,
}

/// An ARP question for the server's MAC address.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Instant,
    /// Whether the port had a link.
    linked: bool,
}

/// Why a datagram was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// The server's MAC address is not known, see [`DpdkClient::resolve`].
    #[error("the server's MAC address is not known")]
    Unresolved,
    /// The payload does not fit into a frame.
    #[error("longer than a frame")]
    TooLong,
    /// The client has no such queue.
    #[error("no such queue")]
    NoQueue,
    /// The transmit queue or the pool has no room for it.
    #[error("no room")]
    NoRoom,
}

impl DpdkClient {
    /// Opens the port that `config` describes, with its address as the client's own, to talk to `server`. Its UDP port,
    /// and those that follow, are the client's own, one for each queue.
    ///
    /// # Errors
    /// When a setting is out of its range, or DPDK or the port refuses.
    pub fn open(config: &DpdkConfig, server: SocketAddrV4) -> Result<Self, DpdkError> {
        config.validate()?;
        let eal = Eal::init(&config.eal)?;
        let setup = PortSetup::new(config, 1, MBUFS_SPARE, 1);
        let ports = usize::from(u16::MAX - config.port) + 1;
        if setup.queues > ports {
            return Err(DpdkError::Setting(format!(
                "there are {ports} UDP ports from {} on, fewer than queues",
                config.port
            )));
        }
        let OpenPort { port, rx, tx } = OpenPort::start(eal, &setup)?;
        Ok(Self {
            burst: Vec::with_capacity(config.rx_burst),
            rx,
            tx,
            next: 0,
            interface: Interface { mac: port.mac(), ip: config.ip, port: config.port },
            port,
            server,
            flow: None,
            asked: None,
        })
    }

    /// The client's own address, with the UDP port of its first queue.
    #[must_use]
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// The server's MAC address, once it is known.
    #[must_use]
    pub fn server_mac(&self) -> Option<MacAddr> {
        self.flow.map(|flow| flow.destination.mac)
    }

    /// The number of queues of each kind.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.tx.len()
    }

    /// Whether the port has a link.
    #[must_use]
    pub fn link_is_up(&self) -> bool {
        self.port.link_is_up()
    }

    /// Mbufs that are not in the client's pool.
    #[must_use]
    pub fn mbufs_in_use(&self) -> usize {
        self.port.pool().in_use()
    }

    /// Longest payload that a frame holds, in bytes.
    #[must_use]
    pub fn payload_len_max(&self) -> usize {
        udp::payload_len_max(self.port.mtu())
    }

    /// Looks for the server's answer to an earlier ARP question. Asks again if there was no answer for a
    /// second, or the port had no link then. Call it now and then until it returns true.
    pub fn resolve(&mut self) -> bool {
        self.receive(|_| {});
        if self.flow.is_none() && self.may_ask() {
            let request = arp::request(&self.interface, *self.server.ip());
            let linked = self.link_is_up();
            if self.send_frame(&request) && self.flush() == 0 {
                let at = Instant::now();
                self.asked = Some(Asked { at, linked });
            }
        }
        self.flow.is_some()
    }

    fn may_ask(&self) -> bool {
        self.asked
            .is_none_or(|Asked { at, linked }| at.elapsed() >= ANSWER_TIMEOUT || !linked && self.link_is_up())
    }

    /// Sends a datagram with the next burst of a queue, or [`flush`](Self::flush). Queues take turns.
    ///
    /// # Errors
    /// When the datagram cannot be sent.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), NotSent> {
        let queue = self.next;
        self.next = (queue + 1) % self.tx.len();
        self.send_on(queue, payload)
    }

    /// The same on this queue, below [`queues`](Self::queues).
    ///
    /// # Errors
    /// When the datagram cannot be sent.
    pub fn send_on(&mut self, queue: usize, payload: &[u8]) -> Result<(), NotSent> {
        let mut flow = self.flow.ok_or(NotSent::Unresolved)?;
        let tx = self.tx.get_mut(queue).ok_or(NotSent::NoQueue)?;
        // There is such a port, see `open`.
        flow.source.port += queue as u16;
        if payload.len() > udp::payload_len_max(self.port.mtu()) {
            return Err(NotSent::TooLong);
        }
        let mut mbuf = self.port.pool().alloc().ok_or(NotSent::NoRoom)?;
        mbuf.resize(HEADERS_LEN + payload.len());
        let frame = mbuf.frame_mut();
        frame
            .get_mut(HEADERS_LEN..)
            .filter(|room| room.len() == payload.len())
            .ok_or(NotSent::TooLong)?
            .copy_from_slice(payload);
        let checksums = tx.checksums();
        flow.write_headers(frame, checksums);
        match tx.push(mbuf, checksums) {
            0 => Ok(()),
            _ => Err(NotSent::NoRoom),
        }
    }

    /// Sends a frame unchanged, with the next burst of the first queue or [`flush`](Self::flush). Returns whether there
    /// was room for it.
    pub fn send_frame(&mut self, frame: &[u8]) -> bool {
        let Some(mut mbuf) = self.port.pool().alloc() else {
            return false;
        };
        mbuf.resize(frame.len());
        if mbuf.frame().len() != frame.len() {
            return false;
        }
        mbuf.frame_mut().copy_from_slice(frame);
        self.tx[0].push(mbuf, Checksums::Software) == 0
    }

    /// Sends the waiting frames. Returns the number of frames that were dropped because a queue was full.
    pub fn flush(&mut self) -> usize {
        self.tx.iter_mut().map(TxQueue::flush).sum()
    }

    /// Hands the payload of each datagram of a burst from each queue to `take`, and handles ARP.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) {
        for queue in 0..self.rx.len() {
            self.rx[queue].receive(&mut self.burst, BURST_MAX);
            self.read_burst(&mut take);
        }
    }

    fn read_burst(&mut self, take: &mut impl FnMut(&[u8])) {
        for mut mbuf in self.burst.drain(..) {
            let Some(verified) = mbuf.checksums() else {
                continue;
            };
            let interface = interface_of(self.interface, self.tx.len(), mbuf.frame());
            match interface.receive(mbuf.frame(), verified) {
                Ok(Frame::Datagram(datagram)) if datagram.peer() == self.server => {
                    take(&mbuf.frame()[datagram.payload]);
                }
                Ok(Frame::Arp(Arp::Reply(Neighbour { ip, mac }))) if ip == *self.server.ip() => {
                    self.flow = Some(flow(&self.interface, self.server, mac));
                }
                Ok(Frame::Arp(Arp::Request(asker))) => {
                    let len = arp::answer(mbuf.frame_mut(), &self.interface, asker);
                    mbuf.resize(len);
                    self.tx[0].push(mbuf, Checksums::Software);
                    self.tx[0].flush();
                }
                _ => {}
            }
        }
    }

    /// Hands each frame of a burst from each queue to `take`, of whatever kind.
    pub fn receive_frames(&mut self, mut take: impl FnMut(&[u8])) {
        for queue in &mut self.rx {
            queue.receive(&mut self.burst, BURST_MAX);
            for mbuf in self.burst.drain(..) {
                take(mbuf.frame());
            }
        }
    }
}

/// The interface of the queue to whose UDP port a frame comes, if it is a datagram. `first` is that of the first queue.
fn interface_of(first: Interface, queues: usize, frame: &[u8]) -> Interface {
    if frame.len() < HEADERS_LEN {
        return first;
    }
    let port = Flow::of(frame).destination.port;
    let is_own = usize::from(port.wrapping_sub(first.port)) < queues;
    Interface { port: if is_own { port } else { first.port }, ..first }
}

fn flow(interface: &Interface, server: SocketAddrV4, server_mac: MacAddr) -> Flow {
    let end = |mac: MacAddr, ip: Ipv4Addr, port: u16| End { mac, ip, port };
    Flow {
        source: end(interface.mac, interface.ip, interface.port),
        destination: end(server_mac, *server.ip(), server.port()),
    }
}
