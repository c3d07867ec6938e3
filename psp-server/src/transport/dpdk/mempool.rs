//! Pools of packet buffers, and the buffers.
//!
//! ```text
//!   buffer:  | headroom | frame: headers, request | free: headers, reply |
//!            0          start             start+len                      buffer_len
//! ```
#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dpdk_sys as sys;
use psp_protocols::packet::Checksums;

use super::eal::{Eal, c_string, last_error};
use crate::error::DpdkError;

/// Mbufs in a registered thread's cache.
pub(super) const CACHE_LEN: usize = 256;
/// How long a dropped pool waits for mbufs that a driver still has.
const RETURN_TIMEOUT: Duration = Duration::from_millis(100);

/// See [`mbufs_lost`].
static LOST: AtomicU64 = AtomicU64::new(0);

/// Mbufs of this process that were not returned when their port was closed. Each is leaked, or belongs to a
/// request that never ended.
#[must_use]
pub fn mbufs_lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// A pool of mbufs of one size. It must outlive them: every holder of an mbuf holds the pool's `Arc`, or that
/// of a port, which holds the pool's.
#[derive(Debug)]
pub(crate) struct Mempool(NonNull<sys::Mempool>);

// SAFETY: DPDK's pools are made for several threads: their rings take any number of producers and consumers,
// and each cache belongs to one registered thread.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    /// A pool of `count` mbufs with `room_len` bytes behind their headroom, on a NUMA node.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn new(_: Eal, count: usize, room_len: usize, socket: i32) -> Result<Self, DpdkError> {
        /// Pools of this process so far.
        static POOLS: AtomicU32 = AtomicU32::new(0);
        let number = POOLS.fetch_add(1, Ordering::Relaxed);
        let name = c_string(&format!("psp-{number}"))?;
        let too_large = |_| DpdkError::Setting("mbufs are too many or too large".to_owned());
        let count = u32::try_from(count).map_err(too_large)?;
        // SAFETY: it returns a constant.
        let headroom = unsafe { sys::psp_dpdk_headroom() };
        let room_len = u16::try_from(room_len + usize::from(headroom)).map_err(too_large)?;
        // SAFETY: the environment is initialised, and `name` outlives the call.
        let pool = unsafe { sys::rte_pktmbuf_pool_create(name.as_ptr(), count, CACHE_LEN as u32, 0, room_len, socket) };
        NonNull::new(pool)
            .map(Self)
            .ok_or_else(|| DpdkError::Mempool { mbufs: count, reason: last_error() })
    }

    pub(super) fn as_ptr(&self) -> *mut sys::Mempool {
        self.0.as_ptr()
    }

    /// An mbuf with an empty frame, if one is free.
    pub(crate) fn alloc(&self) -> Option<Mbuf> {
        let mut packet = std::mem::MaybeUninit::uninit();
        // SAFETY: the pool lives, and `packet` has room for what is written.
        let found = unsafe { sys::psp_dpdk_mbuf_alloc(self.as_ptr(), packet.as_mut_ptr()) };
        // SAFETY: `packet` was written, and the mbuf is fresh: it has no other owner.
        (found != 0).then(|| Mbuf(unsafe { packet.assume_init() }))
    }

    /// Writes `frame` into every mbuf, where a frame starts. All mbufs must be in the pool.
    pub(crate) fn fill(&self, frame: &[u8]) {
        if frame.is_empty() {
            return;
        }
        let all: Vec<Mbuf> = std::iter::from_fn(|| self.alloc()).collect();
        for mut mbuf in all {
            mbuf.resize(frame.len());
            let room = mbuf.frame_mut();
            let len = room.len().min(frame.len());
            room[..len].copy_from_slice(&frame[..len]);
        }
    }

    /// Mbufs that are not in the pool. An estimate while other threads take and free mbufs.
    pub(crate) fn in_use(&self) -> usize {
        // SAFETY: the pool lives; the figure is read without a lock.
        unsafe { sys::rte_mempool_in_use_count(self.as_ptr()) as usize }
    }
}

impl Drop for Mempool {
    fn drop(&mut self) {
        let deadline = Instant::now() + RETURN_TIMEOUT;
        while self.in_use() > 0 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let in_use = self.in_use();
        if in_use > 0 {
            LOST.fetch_add(in_use as u64, Ordering::Relaxed);
            tracing::warn!(in_use, "mbufs were not returned; their pool stays");
            return;
        }
        // SAFETY: no `Mbuf` is left, because its holder keeps the pool from being dropped, and no driver has
        // one, because all are in the pool. An `Mbuf` that outlived the pool would break this.
        unsafe { sys::rte_mempool_free(self.as_ptr()) };
    }
}

/// A packet buffer with a frame, owned by one holder.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Mbuf(sys::Packet);

// SAFETY: any thread may use and free an mbuf, one at a time.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// The buffer, including the frame.
    #[inline]
    fn buffer(&self) -> &[u8] {
        // SAFETY: the buffer has `buffer_len` bytes, which the environment mapped and so initialised. While
        // this lives they have no other user: it is one direct mbuf with one reference.
        unsafe { std::slice::from_raw_parts(self.0.buffer, self.0.buffer_len.into()) }
    }

    #[inline]
    fn buffer_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `buffer`; and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.0.buffer, self.0.buffer_len.into()) }
    }

    #[inline]
    fn place(&self) -> Range<usize> {
        let start = usize::from(self.0.start);
        start..start + usize::from(self.0.len)
    }

    /// The frame.
    #[inline]
    pub(crate) fn frame(&self) -> &[u8] {
        &self.buffer()[self.place()]
    }

    /// The frame, to be changed.
    #[inline]
    pub(crate) fn frame_mut(&mut self) -> &mut [u8] {
        let place = self.place();
        &mut self.buffer_mut()[place]
    }

    /// The frame, and the free part of the buffer behind it.
    #[inline]
    pub(crate) fn split(&mut self) -> (&[u8], &mut [u8]) {
        let Range { start, end } = self.place();
        let (used, free) = self.buffer_mut().split_at_mut(end);
        (&used[start..], free)
    }

    /// Shortens or lengthens the frame to `len` bytes, as far as the buffer goes.
    #[inline]
    pub(crate) fn resize(&mut self, len: usize) {
        let room = usize::from(self.0.buffer_len - self.0.start);
        self.0.len = len.min(room) as u16;
    }

    /// Makes the `len` bytes behind the present frame the new frame, as far as the buffer goes.
    #[inline]
    pub(crate) fn advance(&mut self, len: usize) {
        self.0.start = self.place().end as u16;
        self.resize(len);
    }

    /// Whether the port has verified the IPv4 and UDP checksums; `None` if it found a wrong one.
    #[inline]
    pub(crate) fn checksums(&self) -> Option<Checksums> {
        match self.0.checksums {
            1 => Some(Checksums::Port),
            0 => Some(Checksums::Software),
            _ => None,
        }
    }

    /// Gives the mbuf to a port, which sends it and owns it from here on.
    #[inline]
    pub(super) fn into_raw(self, checksums: Checksums) -> *mut sys::Mbuf {
        let offload = i32::from(checksums == Checksums::Port);
        let sys::Packet { mbuf, start, len, .. } = self.0;
        std::mem::forget(self);
        // SAFETY: this is the mbuf's only owner, and the frame is within its buffer.
        unsafe { sys::psp_dpdk_mbuf_set_frame(mbuf, start, len, offload) };
        mbuf
    }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        free(self.0.mbuf);
    }
}

/// Frees an mbuf from [`Mbuf::into_raw`] that no port has taken.
pub(super) fn free(mbuf: *mut sys::Mbuf) {
    // SAFETY: callers own the mbuf and do not use it again; its pool lives, see `Mempool`.
    unsafe { sys::psp_dpdk_mbuf_free(mbuf) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mbufs_that_are_not_returned_are_counted_as_lost() {
        let words = "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level=*:error";
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let eal = Eal::init(&words).unwrap();
        let pool = || Mempool::new(eal, 2 * CACHE_LEN, 2048, sys::SOCKET_ID_ANY).unwrap();
        // No other test of this process has mbufs.
        assert_eq!(mbufs_lost(), 0);
        let whole = pool();
        let mbufs = [whole.alloc().unwrap(), whole.alloc().unwrap()];
        assert_eq!(whole.in_use(), 2);
        drop(mbufs);
        drop(whole);
        assert_eq!(mbufs_lost(), 0);
        let leaky = pool();
        std::mem::forget([leaky.alloc(), leaky.alloc()]);
        drop(leaky.alloc());
        drop(leaky);
        assert_eq!(mbufs_lost(), 2);
    }
}
