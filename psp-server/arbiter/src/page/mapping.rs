//! A page of memory that two processes share. `unsafe` is for `mmap`, which no crate could make safe: the other
//! process writes while this one reads, so the memory is only ever reached through an atomic word.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The mapping of a file's beginning.
#[derive(Debug)]
pub(super) struct Mapping<const WRITABLE: bool> {
    at: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only reached through an atomic word.
unsafe impl<const WRITABLE: bool> Send for Mapping<WRITABLE> {}
// SAFETY: as above; `&Mapping` gives nothing but the value of the atomic word.
unsafe impl<const WRITABLE: bool> Sync for Mapping<WRITABLE> {}

impl<const WRITABLE: bool> Mapping<WRITABLE> {
    /// Maps `bytes` bytes of a file, which must keep at least this size: reading beyond its end would end the
    /// process.
    pub(super) fn new(file: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        assert!(bytes >= size_of::<AtomicU32>());
        let write = if WRITABLE { libc::PROT_WRITE } else { 0 };
        let (protection, shared) = (libc::PROT_READ | write, libc::MAP_SHARED);
        let (anywhere, file) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice replaces no other. The result is checked.
        let at = unsafe { libc::mmap(anywhere, bytes, protection, shared, file, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { at, bytes })
    }

    /// The first word's value.
    #[inline]
    pub(super) fn load(&self) -> u32 {
        self.first_word().load(Ordering::Relaxed)
    }

    #[inline]
    fn first_word(&self) -> &AtomicU32 {
        // SAFETY: the mapping has at least a word, begins at a page's start, which is aligned, and lives as long as
        // `self`. Both processes reach it only as an atomic word.
        unsafe { self.at.cast().as_ref() }
    }
}

impl Mapping<true> {
    /// Writes the first word.
    pub(super) fn store(&self, value: u32) {
        self.first_word().store(value, Ordering::Relaxed);
    }
}

impl<const WRITABLE: bool> Drop for Mapping<WRITABLE> {
    fn drop(&mut self) {
        // SAFETY: `at` and `bytes` are those of the mapping, and all references to it have ended with `self`.
        let _ = unsafe { libc::munmap(self.at.as_ptr(), self.bytes) };
    }
}
