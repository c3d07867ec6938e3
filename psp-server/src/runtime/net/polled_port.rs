//! Receives datagrams from a polled port.

use std::sync::Arc;
use std::time::Duration;

use psp_protocols::Framing;

use super::intake::Intake;
use super::sources::Sources;
use crate::classifier::Classifier;
use crate::telemetry::PacketCounters;
use crate::transport::Packets;
use crate::transport::datagram::DatagramPool;
use crate::transport::endpoint::Endpoint;

/// Frames that the net worker reads before it looks at its workers: a look costs about as much as a frame.
const FRAMES_PER_LOOK: usize = 8;

/// A port that the net worker polls.
pub(super) struct PolledPort<C> {
    packets: Packets,
    endpoint: Arc<Endpoint<C>>,
}

impl<C> PolledPort<C> {
    pub(super) fn new(packets: Packets, endpoint: Arc<Endpoint<C>>) -> Self {
        Self { packets, endpoint }
    }

    /// How long the net worker may sleep while nothing comes; `None` if it has to poll.
    pub(super) fn idle_sleep(&self) -> Option<Duration> {
        self.packets.idle_sleep()
    }

    /// Takes a burst from the port. Returns whether any frame came.
    pub(super) fn poll(&mut self, counters: &PacketCounters) -> bool {
        self.packets.poll(counters)
    }

    /// Reads some frames of the burst. Returns whether there were any.
    pub(super) fn read<F: Framing, K: Classifier<F::Head>>(
        &mut self,
        pool: &mut DatagramPool<C, F::Head>,
        sources: &Sources,
        mut intake: Intake<'_, F, K>,
    ) -> bool {
        let counters = intake.packet_counters();
        let endpoint = &self.endpoint;
        self.packets.read(FRAMES_PER_LOOK, counters, |packet| {
            let Some(datagram) = pool.hold(endpoint, packet) else {
                counters.overflows.add(1);
                return;
            };
            let index = datagram.index;
            if !intake.admit(sources, datagram) {
                pool.discard(index);
            }
        })
    }

    /// Sends the frames that wait on the net thread's queues.
    pub(super) fn flush(&self, counters: &PacketCounters) {
        self.packets.flush(counters);
    }
}
