//! Receive and transmit queues of a port. Only one thread at a time uses a queue: queues can be sent to a
//! thread, but not shared, and every use borrows them mutably.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use dpdk_sys as sys;
use psp_protocols::packet::Checksums;

use super::config::BURST_MAX;
use super::eal::register_thread;
use super::mempool::{Mbuf, free};
use super::port::Port;

/// `Send`, but not `Sync`.
type NotShared = PhantomData<Cell<()>>;

/// A receive queue.
#[derive(Debug)]
pub(crate) struct RxQueue {
    port: Arc<Port>,
    queue: u16,
    not_shared: NotShared,
}

impl RxQueue {
    /// There must be no other of the same port and number.
    pub(super) fn new(port: Arc<Port>, queue: u16) -> Self {
        Self { port, queue, not_shared: PhantomData }
    }

    /// Adds up to `count` frames to `burst`, as far as its capacity goes. Returns the number of frames that
    /// were dropped because they did not fit into one mbuf.
    pub(crate) fn receive(&mut self, burst: &mut Vec<Mbuf>, count: usize) -> usize {
        register_thread(self.port.eal());
        let spare = burst.spare_capacity_mut();
        let count = count.min(spare.len()).min(BURST_MAX) as u16;
        let mut odd = 0;
        // SAFETY: the port is started and has this queue, and no other thread polls it: there is one `RxQueue`
        // of it, borrowed mutably. `Mbuf` is transparent, so that `spare` has room for `count` packets. Each
        // returned packet is one direct mbuf that the driver has given up.
        let received = self.port.rings().receive(|| unsafe {
            let packets = spare.as_mut_ptr().cast();
            sys::psp_dpdk_rx_burst(self.port.id(), self.queue, packets, count, &raw mut odd)
        });
        // SAFETY: that many elements were written.
        unsafe { burst.set_len(burst.len() + usize::from(received)) };
        odd.into()
    }
}

/// A transmit queue, with frames that wait to be sent together.
#[derive(Debug)]
pub(crate) struct TxQueue {
    /// Mbufs that this owns.
    pending: Vec<*mut sys::Mbuf>,
    port: Arc<Port>,
    queue: u16,
    not_shared: NotShared,
}

// SAFETY: the mbufs of `pending` belong to this queue alone, and any thread may use them.
unsafe impl Send for TxQueue {}

impl TxQueue {
    /// There must be no other of the same port and number.
    pub(super) fn new(port: Arc<Port>, queue: u16, burst: usize) -> Self {
        Self {
            pending: Vec::with_capacity(burst.clamp(1, BURST_MAX)),
            port,
            queue,
            not_shared: PhantomData,
        }
    }

    /// Whether the port or psp computes the checksums of sent frames.
    #[inline]
    pub(crate) fn checksums(&self) -> Checksums {
        self.port.tx_checksums()
    }

    /// Adds a frame to the waiting ones, and sends them all when they make a burst. The frame's checksums are
    /// right, or left to the port, as `checksums` says. Returns the number of frames that were dropped because
    /// the queue was full.
    #[inline]
    pub(crate) fn push(&mut self, mbuf: Mbuf, checksums: Checksums) -> usize {
        self.pending.push(mbuf.into_raw(checksums));
        if self.pending.len() == self.pending.capacity() {
            self.flush()
        } else {
            0
        }
    }

    /// Sends the waiting frames. Returns the number of frames that were dropped because the queue was full.
    pub(crate) fn flush(&mut self) -> usize {
        if self.pending.is_empty() {
            return 0;
        }
        register_thread(self.port.eal());
        let count = self.pending.len() as u16;
        // SAFETY: the port is started and has this queue, and no other thread sends on it: there is one
        // `TxQueue` of it, borrowed mutably. The mbufs are the queue's; the port owns those that it takes.
        let sent = self.port.rings().send(|| unsafe {
            let mbufs = self.pending.as_mut_ptr();
            sys::psp_dpdk_tx_burst(self.port.id(), self.queue, mbufs, count)
        });
        let unsent = self.pending.len() - usize::from(sent);
        for mbuf in self.pending.drain(..).skip(sent.into()) {
            free(mbuf);
        }
        unsent
    }
}

impl Drop for TxQueue {
    fn drop(&mut self) {
        for mbuf in self.pending.drain(..) {
            free(mbuf);
        }
    }
}
