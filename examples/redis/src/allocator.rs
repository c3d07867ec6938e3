//! The program's allocator, jemalloc, and its settings.
//!
//! It asks the system for huge pages. A look-up touches memory at several places, anywhere in the store. With small
//! pages the processor waits for where each page is as well as for the memory: a pipelined GET among 100 000 keys takes
//! a sixth more of its time. Redis advises against huge pages, because its snapshots are forks, which copy a page at
//! the first write to it. Those of this server share no pages. `_RJEM_MALLOC_CONF=thp:never` in the environment turns
//! huge pages off.
//!
//! Large allocations, such as the bodies of requests, are in small pages. They are written once, from beginning to end,
//! mostly by the net thread. At the first touch of a huge page the kernel clears two megabytes in one go.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{Advice, madvise};
use tikv_jemalloc_ctl::raw;
use tikv_jemallocator::Jemalloc;

/// Length from which on an allocation is in small pages.
const LARGE_BYTES_MIN: usize = 256 * 1024;
/// At most so many are. Each may take two of the mappings that a process can have, 65 530 by default.
const IN_SMALL_PAGES_MAX: usize = 8192;
const PAGE_BYTES: usize = 4096;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Whether the system gives huge pages only to programs that ask for them, and jemalloc asks.
static HAS_HUGE_PAGES: AtomicBool = AtomicBool::new(false);

/// How many large allocations there are.
static LARGE: AtomicUsize = AtomicUsize::new(0);

/// See the [module](self).
struct Allocator;

/// Puts large allocations in small pages from now on, if the system leaves that to programs.
pub(crate) fn begin() {
    // SAFETY: jemalloc has a text that ends in a zero under this name.
    let setting = unsafe { raw::read_str(b"opt.thp\0") };
    let is_always = setting.is_ok_and(|it| it.starts_with(b"always"));
    let system = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let by_advice = system.is_ok_and(|modes| modes.contains("[madvise]"));
    HAS_HUGE_PAGES.store(is_always && by_advice, Ordering::Relaxed);
}

/// Tells the system about a large allocation's pages before their first touch. `start` is null if there is no memory.
fn begins(start: *mut u8, len: usize) {
    let is_large = !start.is_null() && len >= LARGE_BYTES_MIN;
    if is_large && LARGE.fetch_add(1, Ordering::Relaxed) < IN_SMALL_PAGES_MAX {
        advise(start, len, Advice::LinuxNoHugepage);
    }
}

/// Tells the system that an allocation ends. Its pages may become part of small ones.
fn ends(start: *mut u8, len: usize) {
    if len >= LARGE_BYTES_MIN {
        LARGE.fetch_sub(1, Ordering::Relaxed);
        advise(start, len, Advice::LinuxHugepage);
    }
}

fn advise(start: *mut u8, len: usize, advice: Advice) {
    if !HAS_HUGE_PAGES.load(Ordering::Relaxed) {
        return;
    }
    let skipped = start.align_offset(PAGE_BYTES);
    let len = len.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    let pages = start.wrapping_add(skipped).cast::<c_void>();
    // SAFETY: the pages lie within an allocation that the caller has. Which size they are of changes no content. A
    // system that does not know the advice, or has no mapping left, refuses, which does no harm.
    let _ = unsafe { madvise(pages, len, advice) };
}

// SAFETY: all memory is jemalloc's, by the same layouts. The advice changes neither addresses nor content.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that jemalloc asks for.
        let start = unsafe { Jemalloc.alloc(layout) };
        begins(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let start = unsafe { Jemalloc.alloc_zeroed(layout) };
        begins(start, layout.size());
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        ends(start, layout.size());
        // SAFETY: as above.
        unsafe { Jemalloc.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ends(start, layout.size());
        // SAFETY: as above.
        let moved = unsafe { Jemalloc.realloc(start, layout, new_size) };
        match moved.is_null() {
            true => begins(start, layout.size()),
            false => begins(moved, new_size),
        }
        moved
    }
}

/// What jemalloc reads before its first allocation: text that ends in a zero.
// SAFETY: jemalloc has this name for a pointer to such a text, as a reference to an array is, and no other code has it.
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 29] = b"thp:always,metadata_thp:auto\0";
