//! Tells the thread sanitizer on which stack a thread runs: it would take a switch of stacks for a frame that never
//! returns, and requests of one worker for threads that race. Compiled by `.ci/sanitize thread` alone
//! (`--cfg psp_tsan`).
//!
//! ```text
//!   ContextPool::resume ── enter: the context's fiber ──► context ── leave: the thread's own ──► resume returns
//! ```
//!
//! The functions are those of `sanitizer/tsan_interface.h`.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::ptr;

unsafe extern "C" {
    fn __tsan_get_current_fiber() -> *mut c_void;
    fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
    fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
}

/// What the sanitizer calls a stack. It is kept for as long as the process lives, as those of contexts that are leaked
/// are.
#[derive(Debug)]
pub(super) struct Fiber(*mut c_void);

thread_local! {
    static OWN: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

impl Fiber {
    pub(super) fn new() -> Self {
        // SAFETY: the function makes a fiber, and has no further conditions.
        Self(unsafe { __tsan_create_fiber(0) })
    }

    /// The thread runs on this stack next.
    #[inline(always)]
    pub(super) fn enter(&self) {
        // SAFETY: the caller runs on the thread's own fiber, and this one runs nowhere else. Neither is destroyed.
        unsafe {
            OWN.set(__tsan_get_current_fiber());
            __tsan_switch_to_fiber(self.0, 0);
        }
    }

    /// The thread runs on its own stack next.
    #[inline(always)]
    pub(super) fn leave() {
        // SAFETY: the fiber is that which `enter` left on this thread. It is not destroyed while the thread runs.
        unsafe { __tsan_switch_to_fiber(OWN.get(), 0) };
    }
}
