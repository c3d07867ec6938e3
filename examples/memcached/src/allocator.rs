//! What the program's allocator, jemalloc, holds for the process, and how it gives memory back.

use std::fmt;

use psp_store::FreedPages;
use tikv_jemalloc_ctl::{Access, AsName, epoch, epoch_mib, stats};

/// The memory of the process at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all allocations, in their size classes.
    pub allocated: usize,
    /// Bytes of the pages that have allocations.
    pub active: usize,
    /// Bytes of the allocator's own data.
    pub metadata: usize,
    /// Bytes of physical memory that the allocator holds at most, including its own data.
    pub resident: usize,
}

impl Usage {
    /// Bytes between allocations, in their pages.
    #[must_use]
    pub fn gaps_in_pages(self) -> usize {
        self.active.saturating_sub(self.allocated)
    }

    /// Bytes that belong to no allocation: gaps between allocations, and freed pages.
    #[must_use]
    pub fn gaps(self) -> usize {
        self.resident.saturating_sub(self.allocated).saturating_sub(self.metadata)
    }
}

/// Reads the allocator's figures. In a process with another allocator, they are those of an idle one.
pub struct Allocator {
    epoch: epoch_mib,
    allocated: stats::allocated_mib,
    active: stats::active_mib,
    metadata: stats::metadata_mib,
    resident: stats::resident_mib,
    freed_pages: FreedPages,
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocator").finish_non_exhaustive()
    }
}

impl Allocator {
    /// Prepares the allocator: freed pages go back to the system after a second, also when nothing is allocated.
    /// `None` if it has no figures.
    #[must_use]
    pub fn new() -> Option<Self> {
        Some(Self {
            epoch: epoch::mib().ok()?,
            allocated: stats::allocated::mib().ok()?,
            active: stats::active::mib().ok()?,
            metadata: stats::metadata::mib().ok()?,
            resident: stats::resident::mib().ok()?,
            freed_pages: FreedPages::return_soon()?,
        })
    }

    /// The current figures.
    #[must_use]
    pub fn usage(&self) -> Usage {
        // The figures are those of the last advance.
        let _stale = self.epoch.advance();
        Usage {
            allocated: self.allocated.read().unwrap_or_default(),
            active: self.active.read().unwrap_or_default(),
            metadata: self.metadata.read().unwrap_or_default(),
            resident: self.resident.read().unwrap_or_default(),
        }
    }

    /// Gives all freed pages back at once.
    pub fn purge(&self) {
        self.freed_pages.purge();
    }
}

/// Lets the calling thread share the arena of all such threads, allocate from its oldest pages, and keep nothing
/// that it frees for itself.
///
/// By default a thread takes for a new item what it freed last. Items then stay scattered over all pages, and
/// few pages are ever free.
pub fn pack_this_thread() {
    // Where the allocator refuses, items are scattered.
    let _own_arena = b"thread.arena\0".name().write(0_u32);
    let _scattered = b"thread.tcache.enabled\0".name().write(false);
}
