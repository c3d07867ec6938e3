//! The program's allocator, jemalloc, and its settings.
//!
//! It asks the system for huge pages. A look-up touches memory at several places, anywhere in the store. With small pages
//! the processor waits for where each page is as well as for the memory: a pipelined GET among 100 000 keys takes a sixth
//! more of its time. Redis advises against huge pages, because its snapshots are forks, which copy a page at the first write
//! to it. Those of this server share no pages. `_RJEM_MALLOC_CONF=thp:never` in the environment turns huge pages off.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What jemalloc reads before its first allocation: text that ends in a zero.
// SAFETY: jemalloc has this name for a pointer to such a text, as a reference to an array is, and nobody else has it.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 29] = b"thp:always,metadata_thp:auto\0";
