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

/// What one thread polls of a port, and where its requests come from.
pub(crate) type Polled<C> = (Packets, Arc<Endpoint<C>>);

/// Frames that the net worker reads before it looks at its workers: a look costs about as much as a frame.
pub(super) const FRAMES_PER_LOOK: usize = 8;

/// A port that the net worker polls, or the queues of one that are this worker's.
pub(super) struct PolledPort<C> {
    packets: Packets,
    endpoint: Arc<Endpoint<C>>,
}

impl<C> PolledPort<C> {
    pub(super) fn new((packets, endpoint): Polled<C>) -> Self {
        Self { packets, endpoint }
    }

    /// How long the net worker may sleep while nothing comes; `None` if it has to poll.
    pub(super) fn idle_sleep(&self) -> Option<Duration> {
        self.packets.idle_sleep()
    }

    /// Takes a burst from the port, once all frames of the last one are read. Returns whether there is any frame.
    pub(super) fn poll(&mut self, counters: &PacketCounters) -> bool {
        self.has_unread() || self.packets.poll(counters)
    }

    /// Whether frames of the burst are not read yet.
    #[inline]
    pub(super) fn has_unread(&self) -> bool {
        self.packets.has_unread()
    }

    /// Reads up to `frames` frames of the burst. Returns whether there were any.
    pub(super) fn read<F: Framing, K: Classifier<F::Head>>(
        &mut self,
        frames: usize,
        pool: &mut DatagramPool<C, F::Head>,
        sources: &Sources,
        mut intake: Intake<'_, F, K>,
    ) -> bool {
        let counters = intake.packet_counters();
        let endpoint = &self.endpoint;
        self.packets.read(frames, counters, |packet| {
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

    /// Sends the frames that wait on the queues of the port's thread.
    pub(super) fn flush(&self, counters: &PacketCounters) {
        self.packets.flush(counters);
    }
}
