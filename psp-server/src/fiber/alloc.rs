//! An allocator that is not preempted.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};

use super::thread_state::no_preempt;

/// Makes any allocator safe under [`PreemptPolicy::Signal`](crate::PreemptPolicy::Signal): a request is never
/// preempted within the allocator. Another request of the same thread would find its lists half changed.
///
/// A program whose handlers are [`SignalPreemptible`](crate::preempt::SignalPreemptible) and allocate uses it
/// as global allocator.
///
/// ```
/// use std::alloc::System;
///
/// use psp_server::preempt::PreemptSafeAlloc;
///
/// #[global_allocator]
/// static ALLOCATOR: PreemptSafeAlloc<System> = PreemptSafeAlloc(System);
/// # fn main() {}
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct PreemptSafeAlloc<A>(
    /// The allocator that does the work.
    pub A,
);

// SAFETY: every call goes unchanged to an allocator that keeps the trait's contract. `no_preempt` neither
// allocates nor panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for PreemptSafeAlloc<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised.
        no_preempt(|| unsafe { self.0.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        no_preempt(|| unsafe { self.0.dealloc(memory, layout) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised.
        no_preempt(|| unsafe { self.0.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promised.
        no_preempt(|| unsafe { self.0.realloc(memory, layout, bytes) })
    }
}
