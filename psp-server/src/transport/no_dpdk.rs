//! Stands for polled ports in builds without DPDK: types without values.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use psp_policy::WorkerId;

use crate::telemetry::PacketCounters;

/// A request in a buffer of a port.
#[derive(Debug)]
pub(crate) struct Packet(Infallible);

impl Packet {
    pub(crate) fn peer(&self) -> SocketAddr {
        match self.0 {}
    }

    pub(crate) fn request(&self) -> &[u8] {
        match self.0 {}
    }

    pub(crate) fn split(&mut self) -> (&[u8], &mut [u8]) {
        match self.0 {}
    }
}

/// A port that a server will serve.
pub(crate) struct PacketPort(Infallible);

impl PacketPort {
    pub(crate) fn address(&self) -> SocketAddr {
        match self.0 {}
    }

    pub(crate) fn serve(self) -> (Vec<Packets>, Transmitters) {
        match self.0 {}
    }
}

/// The transmit queues of a port.
#[derive(Debug)]
pub(crate) struct Transmitters(Infallible);

impl Transmitters {
    pub(crate) fn send(&self, _worker: WorkerId, _packet: Packet, _len: usize, _at_once: bool) -> usize {
        match self.0 {}
    }

    pub(crate) fn flush(&self, _worker: WorkerId) -> usize {
        match self.0 {}
    }
}

/// The side of a port that one thread polls.
pub(crate) struct Packets(Infallible);

impl Packets {
    pub(crate) fn idle_sleep(&self) -> Option<Duration> {
        match self.0 {}
    }

    pub(crate) fn has_unread(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn poll(&mut self, _counters: &PacketCounters) -> bool {
        match self.0 {}
    }

    pub(crate) fn read(&mut self, _frames: usize, _counters: &PacketCounters, _accept: impl FnMut(Packet)) -> bool {
        match self.0 {}
    }

    pub(crate) fn flush(&self, _counters: &PacketCounters) {
        match self.0 {}
    }
}
