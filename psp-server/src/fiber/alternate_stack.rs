//! The stack on which a worker's signals are handled.
//!
//! A signal that finds a context's stack full must be handled on another stack, and a signal that preempts must
//! not write over the frames of the interrupted code.

#![allow(unsafe_code)]

use std::io;
use std::{mem, ptr};

use corosensei::stack::{DefaultStack, Stack};

/// Room for the frame that the kernel makes (some 11 KiB with AMX) and for a handler.
const STACK_BYTES: usize = 64 * 1024;

/// The calling thread's alternate stack, until it is dropped on the same thread.
pub(crate) struct AlternateStack {
    /// Keeps the stack mapped as long as the kernel may use it.
    _stack: DefaultStack,
    before: libc::stack_t,
}

impl AlternateStack {
    /// Gives the calling thread an alternate stack.
    pub(crate) fn install() -> io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        let top = stack.base().get();
        let ours = libc::stack_t {
            ss_sp: ptr::with_exposed_provenance_mut(top - STACK_BYTES),
            ss_flags: 0,
            ss_size: STACK_BYTES,
        };
        // SAFETY: `before` is plain data. The memory named by `ours` is mapped, above its guard page, until
        // `drop` has put the former stack back; it is used for nothing else.
        unsafe {
            let mut before: libc::stack_t = mem::zeroed();
            if libc::sigaltstack(&raw const ours, &raw mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { _stack: stack, before })
        }
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // SAFETY: `before` is what the kernel reported: std's stack for the thread, or none. std keeps its
        // stack until the thread ends. A drop on another thread would change that thread's stack, so the type
        // is not `Send`.
        unsafe { libc::sigaltstack(&raw const self.before, ptr::null_mut()) };
    }
}
