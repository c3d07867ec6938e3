//! Requests in mbufs: how they come in, and how their replies go out.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use psp_protocols::packet::arp::{self, Arp};
use psp_protocols::packet::udp::{self, HEADERS_LEN};
use psp_protocols::packet::{DropReason, End, Flow, Frame, Interface, icmp};

use super::config::DpdkConfig;
use super::eal::{self, Eal};
use super::error::DpdkError;
use super::mempool::Mbuf;
use super::port::{OpenPort, Port};
use super::queue::{RxQueue, TxQueue};
use crate::policy::WorkerId;
use crate::telemetry::PacketCounters;
use crate::transport::datagram::{Endpoint, Outlet};

/// Mbufs beyond requests, queues and caches: bursts between two states.
const MBUFS_SPARE: usize = 1024;

/// A request in an mbuf. Who sent it is in the frame: it would be copied with this from hand to hand.
#[derive(Debug)]
pub(crate) struct Packet {
    mbuf: Mbuf,
    /// Where the frame has the end of the request, which begins behind the headers.
    end: u16,
    /// Longest reply that a frame of the port holds.
    reply_len_max: u16,
}

impl Packet {
    /// Who sent it.
    #[inline]
    pub(crate) fn peer(&self) -> SocketAddr {
        let End { ip, port, .. } = Flow::of(self.mbuf.frame()).source;
        SocketAddrV4::new(ip, port).into()
    }

    /// The request.
    #[inline]
    pub(crate) fn request(&self) -> &[u8] {
        &self.mbuf.frame()[HEADERS_LEN..self.end.into()]
    }

    /// The request, and the room for its reply.
    #[inline]
    pub(crate) fn split(&mut self) -> (&[u8], &mut [u8]) {
        let (frame, free) = self.mbuf.split();
        let room = free.get_mut(HEADERS_LEN..).unwrap_or_default();
        let len = room.len().min(self.reply_len_max.into());
        (&frame[HEADERS_LEN..self.end.into()], &mut room[..len])
    }
}

/// A port that a server will serve, opened and started.
pub(crate) struct PacketPort {
    open: OpenPort,
    interface: Interface,
    rx_burst: usize,
    idle_sleep: Option<Duration>,
}

impl PacketPort {
    /// Opens the port for `workers` workers, with `requests` requests waiting or in flight.
    ///
    /// # Errors
    /// When a setting is out of its range, or DPDK or the port refuses.
    pub(crate) fn open(
        config: &DpdkConfig,
        workers: usize,
        requests: usize,
    ) -> Result<Self, DpdkError> {
        config.validate()?;
        let eal = Eal::init(&config.eal)?;
        let setup = config.setup(workers + 1, requests + MBUFS_SPARE, workers + 1);
        let open = Port::start(eal, &setup)?;
        open.port.pool().fill(&config.initial_frame);
        let port = &open.port;
        tracing::info!(
            dpdk = eal::version(),
            device = port.name(),
            mac = %port.mac(),
            mtu = port.mtu(),
            queues = open.tx.len(),
            link = port.link_is_up(),
            "port started"
        );
        if open.tx.len() <= workers {
            tracing::warn!(
                queues = open.tx.len(),
                workers,
                "there are too few transmit queues; workers share them"
            );
        }
        let interface = Interface {
            mac: port.mac(),
            ip: config.ip,
            port: config.port,
        };
        let idle_sleep = Duration::from_micros(config.idle_sleep_us);
        Ok(Self {
            interface,
            rx_burst: config.rx_burst,
            idle_sleep: (!idle_sleep.is_zero()).then_some(idle_sleep),
            open,
        })
    }

    /// The address it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddrV4::new(self.interface.ip, self.interface.port).into()
    }

    /// Makes it ready to serve, with the handler's state for it.
    pub(crate) fn serve<C>(self, state: C) -> Packets<C> {
        let OpenPort { port, rx, tx } = self.open;
        let queues = tx.into_iter().map(Mutex::new).collect();
        Packets {
            burst: Vec::with_capacity(self.rx_burst * rx.len()),
            rx_burst: self.rx_burst,
            reply_len_max: udp::payload_len_max(port.mtu()) as u16,
            rx,
            endpoint: Arc::new(Endpoint {
                outlet: Outlet::Packets(Transmitters { queues }),
                state,
            }),
            interface: self.interface,
            idle_sleep: self.idle_sleep,
        }
    }
}

/// The transmit queues of a port: the first is the net thread's, the others are the workers'.
///
/// A worker may be a team of threads, and ports with few queues have workers share them. So each queue
/// has a lock, which is free whenever a worker with a queue of its own takes it.
#[derive(Debug)]
pub(crate) struct Transmitters {
    queues: Vec<Mutex<TxQueue>>,
}

impl Transmitters {
    /// Makes a packet its reply, whose first `len` bytes of room are written, and sends it, `at_once` or
    /// with the next [`Packets::flush`] if not before. Returns how many replies were dropped because
    /// the queue was full.
    pub(crate) fn send(
        &self,
        worker: WorkerId,
        packet: Packet,
        len: usize,
        at_once: bool,
    ) -> usize {
        let Packet { mut mbuf, .. } = packet;
        let flow = Flow::of(mbuf.frame()).reversed();
        mbuf.advance(HEADERS_LEN + len);
        self.with(worker.index() + 1, |queue| {
            let checksums = queue.checksums();
            flow.write_headers(mbuf.frame_mut(), checksums);
            let unsent = queue.push(mbuf, checksums);
            unsent + if at_once { queue.flush() } else { 0 }
        })
    }

    fn with<T>(&self, index: usize, action: impl FnOnce(&mut TxQueue) -> T) -> T {
        // A division costs as much as half a lock.
        let own = self.queues.get(index);
        let queue = own.unwrap_or_else(|| &self.queues[index % self.queues.len()]);
        // A panic between two frames leaves a queue as good as it was.
        action(&mut queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The net thread's side of a port.
pub(crate) struct Packets<C> {
    /// What was taken from queues and not read yet; room for a burst of each.
    burst: Vec<Mbuf>,
    rx_burst: usize,
    rx: Vec<RxQueue>,
    endpoint: Arc<Endpoint<C>>,
    interface: Interface,
    reply_len_max: u16,
    idle_sleep: Option<Duration>,
}

impl<C> Packets<C> {
    /// How long the net thread may sleep when nothing comes.
    pub(crate) fn idle_sleep(&self) -> Option<Duration> {
        self.idle_sleep
    }

    /// Takes a burst from each queue; what there was is to be [read](Self::read) before. Returns whether anything
    /// came.
    pub(crate) fn poll(&mut self, counters: &PacketCounters) -> bool {
        let odd: usize = self
            .rx
            .iter_mut()
            .map(|queue| queue.receive(&mut self.burst, self.rx_burst))
            .sum();
        let frames = self.burst.len() + odd;
        if frames > 0 {
            counters.frames.add(frames as u64);
            counters.dropped[DropReason::WrongLength as usize].add(odd as u64);
        }
        frames > 0
    }

    /// Reads up to `frames` frames of the bursts: answers what it can itself, and hands each request to
    /// `accept` with the endpoint it is for. Returns whether there were any.
    pub(crate) fn read(
        &mut self,
        frames: usize,
        counters: &PacketCounters,
        mut accept: impl FnMut(Packet, &Arc<Endpoint<C>>),
    ) -> bool {
        let frames = frames.min(self.burst.len());
        for mbuf in self.burst.drain(..frames) {
            match read(&self.interface, &mbuf) {
                Ok(Frame::Datagram(datagram)) => {
                    let packet = Packet {
                        mbuf,
                        // Frames are as long as `u16` can count.
                        end: datagram.payload.end as u16,
                        reply_len_max: self.reply_len_max,
                    };
                    accept(packet, &self.endpoint);
                }
                Ok(frame) => answer(&self.interface, &self.endpoint, mbuf, &frame, counters),
                Err(reason) => counters.dropped[reason as usize].add(1),
            }
        }
        frames > 0
    }

    /// Sends what the net thread has ready: its own answers, and replies of the worker that it is.
    pub(crate) fn flush(&self, counters: &PacketCounters) {
        if let Outlet::Packets(transmitters) = &self.endpoint.outlet {
            let unsent: usize = (0..2)
                .map(|index| transmitters.with(index, TxQueue::flush))
                .sum();
            if unsent > 0 {
                counters.unsent.add(unsent as u64);
            }
        }
    }
}

fn read(interface: &Interface, mbuf: &Mbuf) -> Result<Frame, DropReason> {
    let verified = mbuf.checksums().ok_or(DropReason::BadChecksum)?;
    interface.receive(mbuf.frame(), verified)
}

/// Answers a frame that is no datagram, on the net thread's queue.
fn answer<C>(
    interface: &Interface,
    endpoint: &Endpoint<C>,
    mut mbuf: Mbuf,
    frame: &Frame,
    counters: &PacketCounters,
) {
    let len = match frame {
        Frame::Arp(Arp::Request(asker)) => {
            counters.arp_answered.add(1);
            arp::answer(mbuf.frame_mut(), interface, *asker)
        }
        Frame::Echo(echo) => {
            counters.echoes_answered.add(1);
            icmp::answer(mbuf.frame_mut(), interface, echo)
        }
        // Nobody here asked: replies go to where requests came from.
        Frame::Arp(Arp::Reply(_)) | Frame::Datagram(_) => return,
    };
    mbuf.resize(len);
    if let Outlet::Packets(transmitters) = &endpoint.outlet {
        let unsent = transmitters.with(0, |queue| {
            // Their checksums are right.
            queue.push(mbuf, psp_protocols::packet::Checksums::Software)
        });
        if unsent > 0 {
            counters.unsent.add(unsent as u64);
        }
    }
}
