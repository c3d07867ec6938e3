//! Requests in mbufs: how they come in, and how their replies go out.

use std::iter;
use std::net::{SocketAddr, SocketAddrV4};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use psp_policy::WorkerId;
use psp_protocols::packet::arp::{self, Arp};
use psp_protocols::packet::udp::{self, HEADERS_LEN};
use psp_protocols::packet::{Checksums, DropReason, End, Flow, Frame, Interface, icmp};

use super::config::DpdkConfig;
use super::eal::{self, Eal};
use super::mempool::Mbuf;
use super::open_port::OpenPort;
use super::port::PortSetup;
use super::queue::{RxQueue, TxQueue};
use crate::error::DpdkError;
use crate::telemetry::PacketCounters;

/// Mbufs beyond those of requests, queues and caches, for bursts between two states.
const MBUFS_SPARE: usize = 1024;

/// A request in an mbuf. The sender's address stays in the frame: here it would be copied from thread to thread.
#[derive(Debug)]
pub(crate) struct Packet {
    mbuf: Mbuf,
    /// Where the request ends in the frame. It begins behind the headers.
    end: u16,
    /// Longest reply that a frame of the port holds.
    reply_len_max: u16,
}

impl Packet {
    /// The sender.
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

/// Who polls the receive queues of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolledBy {
    /// The net thread polls all, and has a transmit queue beside those of the workers.
    NetThread,
    /// Each worker polls queues of its own, and has a transmit queue.
    Workers,
}

/// A port that a server will serve, opened and started.
pub(crate) struct PacketPort {
    open: OpenPort,
    /// Threads that poll it.
    pollers: usize,
    /// The transmit queue of worker 0.
    first_tx: usize,
    interface: Interface,
    rx_burst: usize,
    idle_sleep: Option<Duration>,
}

impl PacketPort {
    /// Opens the port for `workers` workers, with `requests` requests waiting or in flight for each thread that polls
    /// it.
    ///
    /// # Errors
    /// When a setting is out of its range, there are too few queues, or DPDK or the port refuses.
    pub(crate) fn open(
        config: &DpdkConfig,
        polled_by: PolledBy,
        workers: usize,
        requests: usize,
    ) -> Result<Self, DpdkError> {
        config.validate()?;
        let eal = Eal::init(&config.eal)?;
        let (pollers, threads, queues_min) = match polled_by {
            PolledBy::NetThread => (1, workers + 1, 1),
            PolledBy::Workers => (workers, workers, workers),
        };
        let mbufs = pollers * requests + MBUFS_SPARE;
        let setup = PortSetup {
            queues_min,
            ..PortSetup::new(config, threads, mbufs, threads)
        };
        let open = OpenPort::start(eal, &setup)?;
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
        if open.tx.len() < threads {
            tracing::warn!(queues = open.tx.len(), workers, "there are too few transmit queues; workers share them");
        }
        if pollers > 1 && !port.spreads_flows() {
            tracing::warn!(
                device = port.name(),
                "the port does not spread requests over its receive queues; a worker whose queue gets none runs what \
                 others leave to it"
            );
        }
        let interface = Interface { mac: port.mac(), ip: config.ip, port: config.port };
        let idle_sleep = Duration::from_micros(config.idle_sleep_us);
        Ok(Self {
            pollers,
            first_tx: threads - workers,
            interface,
            rx_burst: config.rx_burst,
            idle_sleep: (!idle_sleep.is_zero()).then_some(idle_sleep),
            open,
        })
    }

    /// The address that it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddrV4::new(self.interface.ip, self.interface.port).into()
    }

    /// The side of each thread that polls the port, in the order of the workers, and the queues on which all threads
    /// send. Receive queues beyond those of the workers go round.
    pub(crate) fn serve(self) -> (Vec<Packets>, Transmitters) {
        let OpenPort { port, rx, tx } = self.open;
        let queues = tx.into_iter().map(Mutex::new).collect();
        let transmitters = Transmitters { queues, first: self.first_tx };
        let mut of_pollers: Vec<_> = iter::repeat_with(Vec::new).take(self.pollers).collect();
        for (at, queue) in rx.into_iter().enumerate() {
            of_pollers[at % self.pollers].push(queue);
        }
        let packets = of_pollers.into_iter().enumerate().map(|(at, rx)| Packets {
            burst: Vec::with_capacity(self.rx_burst * rx.len()),
            rx_burst: self.rx_burst,
            reply_len_max: udp::payload_len_max(port.mtu()) as u16,
            rx,
            transmitters: transmitters.clone(),
            // A net thread sends its replies as worker 0, too.
            own_tx: at..at + 1 + self.first_tx,
            interface: self.interface,
            idle_sleep: self.idle_sleep,
        });
        (packets.collect(), transmitters)
    }
}

/// The transmit queues of a port: the first is the net thread's, if there is one, and the others are the workers'.
///
/// A worker may be a team of threads, another worker may drive its port, and workers share queues if the port has few.
/// So each queue has a lock, which is free whenever a worker with a queue of its own takes it.
#[derive(Debug, Clone)]
pub(crate) struct Transmitters {
    queues: Arc<[Mutex<TxQueue>]>,
    /// The queue of worker 0.
    first: usize,
}

impl Transmitters {
    /// Turns a packet into its reply, whose first `len` bytes of room are written, and sends it: `at_once`, or
    /// with the next [`Packets::flush`] at the latest. Returns the number of replies that were dropped because
    /// the queue was full.
    pub(crate) fn send(&self, worker: WorkerId, packet: Packet, len: usize, at_once: bool) -> usize {
        let Packet { mut mbuf, .. } = packet;
        let flow = Flow::of(mbuf.frame()).reversed();
        mbuf.advance(HEADERS_LEN + len);
        self.with(self.first + worker.index(), |queue| {
            let checksums = queue.checksums();
            flow.write_headers(mbuf.frame_mut(), checksums);
            let unsent = queue.push(mbuf, checksums);
            unsent + if at_once { queue.flush() } else { 0 }
        })
    }

    /// Sends the replies that wait on a worker's queue. Returns the number of replies that were dropped because the
    /// queue was full.
    pub(crate) fn flush(&self, worker: WorkerId) -> usize {
        self.with(self.first + worker.index(), TxQueue::flush)
    }

    fn with<T>(&self, index: usize, action: impl FnOnce(&mut TxQueue) -> T) -> T {
        // A division costs as much as half a lock.
        let own = self.queues.get(index);
        let queue = own.unwrap_or_else(|| &self.queues[index % self.queues.len()]);
        // A panic between two frames leaves a queue intact.
        action(&mut queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The side of a port that one thread polls: the net thread, or whichever worker drives the port of a worker.
pub(crate) struct Packets {
    /// Frames that were taken from queues and not read yet; room for a burst of each queue.
    burst: Vec<Mbuf>,
    rx_burst: usize,
    rx: Vec<RxQueue>,
    transmitters: Transmitters,
    /// The transmit queues of this thread. The first sends answers.
    own_tx: Range<usize>,
    interface: Interface,
    reply_len_max: u16,
    idle_sleep: Option<Duration>,
}

impl Packets {
    /// How long its thread may sleep while nothing comes.
    pub(crate) fn idle_sleep(&self) -> Option<Duration> {
        self.idle_sleep
    }

    /// Whether frames of the bursts are not read yet.
    #[inline]
    pub(crate) fn has_unread(&self) -> bool {
        !self.burst.is_empty()
    }

    /// Takes a burst from each queue. The caller has [read](Self::read) all frames of the burst before. Returns
    /// whether any frame came.
    pub(crate) fn poll(&mut self, counters: &PacketCounters) -> bool {
        let odd: usize = self.rx.iter_mut().map(|queue| queue.receive(&mut self.burst, self.rx_burst)).sum();
        let frames = self.burst.len() + odd;
        if frames > 0 {
            counters.frames.add(frames as u64);
            counters.dropped[DropReason::WrongLength as usize].add(odd as u64);
        }
        frames > 0
    }

    /// Reads up to `frames` frames of the bursts: answers ARP and echoes itself, and hands each request to
    /// `accept`. Returns whether there were any frames.
    pub(crate) fn read(&mut self, frames: usize, counters: &PacketCounters, mut accept: impl FnMut(Packet)) -> bool {
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
                    accept(packet);
                }
                Ok(frame) => {
                    let (transmitters, queue) = (&self.transmitters, self.own_tx.start);
                    answer(&self.interface, transmitters, queue, mbuf, &frame, counters);
                }
                Err(reason) => counters.dropped[reason as usize].add(1),
            }
        }
        frames > 0
    }

    /// Sends the frames that wait on this thread's queues: its answers, and its replies as a worker.
    pub(crate) fn flush(&self, counters: &PacketCounters) {
        let own_tx = self.own_tx.clone();
        let unsent: usize = own_tx.map(|index| self.transmitters.with(index, TxQueue::flush)).sum();
        if unsent > 0 {
            counters.unsent.add(unsent as u64);
        }
    }
}

fn read(interface: &Interface, mbuf: &Mbuf) -> Result<Frame, DropReason> {
    let verified = mbuf.checksums().ok_or(DropReason::BadChecksum)?;
    interface.receive(mbuf.frame(), verified)
}

/// Answers a frame that is not a datagram, on this transmit queue.
fn answer(
    interface: &Interface,
    transmitters: &Transmitters,
    queue: usize,
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
        // The server asks no questions: replies go to where requests came from.
        Frame::Arp(Arp::Reply(_)) | Frame::Datagram(_) => return,
    };
    mbuf.resize(len);
    let unsent = transmitters.with(queue, |queue| {
        // The checksums of these answers are right.
        queue.push(mbuf, Checksums::Software)
    });
    if unsent > 0 {
        counters.unsent.add(unsent as u64);
    }
}
