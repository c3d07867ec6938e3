//! Memory for values that grow by more than their request has: it is reserved before it is allocated.
//!
//! ```text
//!   SETRANGE k 536870910 x ──► reserved? ──► allocated, counted by the allocator ──► no more reserved
//!                                  └── beyond maxmemory, or what the control group has ──► -OOM
//! ```
//!
//! What a request has is in memory before its command runs, and [counts](crate::eviction) by then. A copy of a value
//! that others read is growth, too.

use std::cell::Cell;

use psp_program::GroupMemory;
use psp_server::{ServerHandle, checkpoint};
use psp_store::{Eviction, EvictionPolicy};
use quanta::Instant;

use crate::error::CommandError;
use crate::memory::Reserved;
use crate::parse::Result;
use crate::state::ServerState;

/// Less needs no reservation: the allocator takes as long to add up its figures as so much takes to copy.
const RESERVED_BYTES_MIN: usize = 256 * 1024;
/// Bytes of small parts that are reserved together.
const STEP_BYTES: usize = 1 << 20;
/// What an element takes beside its bytes, approximately.
const ELEMENT_BYTES: usize = 64;
/// Keys that are evicted between two looks at the memory, and looks.
const KEYS_PER_LOOK: usize = 256;
const LOOKS_MAX: usize = 4096;
/// This part of the margin stays free when a value has grown.
const PAGES_DIVISOR: u64 = 4;
/// This part of the limit is for what is no data when data has the rest.
const BESIDE_DATA_DIVISOR: u64 = 32;

impl ServerState {
    /// Reserves `bytes` that the command is about to allocate for a value. The reservation ends when they are
    /// allocated.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`] if the process would hold more than `maxmemory`, or than its control group has for
    /// data and buffers.
    pub fn reserve(&self, bytes: usize) -> Result<Option<Reserved<'_>>> {
        self.reserve_below(bytes, || self.growth_limit_bytes())
    }

    /// The same, after keys are [evicted](Self::make_room_for) for it.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`].
    pub fn evict_and_reserve(&self, bytes: usize) -> Result<Option<Reserved<'_>>> {
        self.make_room_for(|| bytes);
        self.reserve(bytes)
    }

    /// Reserves what the command drops when it has replied. `maxmemory` does not count.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`].
    pub fn reserve_for_reply(&self, bytes: usize) -> Result<Option<Reserved<'_>>> {
        self.reserve_below(bytes, || GroupMemory::get().map(|group| group.usable_bytes()))
    }

    #[inline]
    fn reserve_below(&self, bytes: usize, limit_bytes: impl FnOnce() -> Option<u64>) -> Result<Option<Reserved<'_>>> {
        if bytes < RESERVED_BYTES_MIN {
            return Ok(None);
        }
        let reserve = |limit_bytes| self.reserve_within(bytes, limit_bytes);
        limit_bytes().map(reserve).transpose()
    }

    fn reserve_within(&self, bytes: usize, limit_bytes: u64) -> Result<Reserved<'_>> {
        let pending_bytes = self.databases.pending_bytes();
        let reserved = self.memory.reserve(bytes, limit_bytes, pending_bytes);
        // Beside what is allocated there are freed pages, and gaps.
        let has_pages = GroupMemory::get().is_none_or(|group| {
            let limit_bytes = group.limit_bytes - group.margin_bytes / PAGES_DIVISOR;
            self.memory.has_pages(bytes, limit_bytes)
        });
        reserved.filter(|_| has_pages).ok_or(CommandError::OutOfMemory)
    }

    /// Evicts keys, if any may be evicted, until there is room for `bytes` more. No lock is held.
    pub fn make_room_for(&self, bytes: impl FnOnce() -> usize) {
        if self.evictions.policy() == EvictionPolicy::NoEviction {
            return;
        }
        let bytes = bytes();
        for _ in 0..LOOKS_MAX {
            if self.reserve(bytes).is_ok() || self.evict(bytes, KEYS_PER_LOOK) == Eviction::Nothing {
                return;
            }
            checkpoint();
        }
    }

    /// Checks that the server may hold something more that is no data: keys that a client watches or waits for,
    /// subscriptions.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`] if the process holds clearly more than data may have, buffers aside.
    pub fn check_memory(&self) -> Result<()> {
        let Some(limit_bytes) = self.growth_limit_bytes() else {
            return Ok(());
        };
        let buffered_bytes = self.runtime.get().map_or(0, ServerHandle::buffered_bytes);
        let limit_bytes = limit_bytes
            .saturating_add(limit_bytes / BESIDE_DATA_DIVISOR)
            .saturating_add(buffered_bytes as u64);
        self.check_below(limit_bytes)
    }

    /// The same for memory of a script, which `maxmemory` does not count: a script may be what makes room.
    ///
    /// # Errors
    /// [`CommandError::OutOfMemory`] if the process holds more than its control group has for data and buffers.
    pub fn check_memory_of_group(&self) -> Result<()> {
        GroupMemory::get().map_or(Ok(()), |group| self.check_below(group.usable_bytes()))
    }

    fn check_below(&self, limit_bytes: u64) -> Result<()> {
        let (now, memory) = (Instant::now(), &self.memory);
        match memory.exceeds(limit_bytes, now, || self.databases.pending_bytes()) {
            true => Err(CommandError::OutOfMemory),
            false => Ok(()),
        }
    }

    /// The most that the process may hold after a value has grown; `None` for no limit.
    fn growth_limit_bytes(&self) -> Option<u64> {
        let maxmemory_bytes = Some(self.settings.maxmemory_bytes()).filter(|bytes| *bytes > 0);
        let group_bytes = GroupMemory::get().map(|group| group.usable_bytes());
        maxmemory_bytes.into_iter().chain(group_bytes).min()
    }
}

/// The growth of a value by small parts.
pub(crate) struct Growth<'s> {
    server: &'s ServerState,
    bytes: Cell<usize>,
    is_refused: Cell<bool>,
}

impl<'s> Growth<'s> {
    pub(crate) const fn new(server: &'s ServerState) -> Self {
        Self { server, bytes: Cell::new(0), is_refused: Cell::new(false) }
    }

    /// Whether there is memory for one more element of `len` bytes.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        let bytes = self.bytes.get().saturating_add(len).saturating_add(ELEMENT_BYTES);
        if bytes < STEP_BYTES {
            self.bytes.set(bytes);
            return true;
        }
        self.bytes.set(0);
        let has_room = self.server.reserve(bytes).is_ok();
        self.is_refused.set(!has_room);
        has_room
    }

    /// # Errors
    /// [`CommandError::OutOfMemory`] if there was no room.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_refused.get() {
            true => Err(CommandError::OutOfMemory),
            false => Ok(()),
        }
    }
}
