//! The extended state of the processor: x87, SSE, AVX and AVX-512 registers, and protection keys.
//!
//! Intel SDM volume 1, chapter 13: `XCR0` says which components the system has enabled, CPUID leaf 0Dh
//! where each lies in an `XSAVE` area of the standard format.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// AMX tile configuration and data: 8 KiB that hardly any code uses. Code that has tiles in use is not
/// preempted, see [`has_tiles`].
const TILES: u64 = 0b11 << 17;
/// The legacy region and the header, which every area has.
const AREA_BYTES_MIN: usize = 576;
/// Offset of the header in an `XSAVE` area, whose first word says what is in use.
const HEADER_OFFSET: usize = 512;
/// Where the kernel says, in a signal's frame, that the area is longer than the legacy region
/// (`FP_XSTATE_MAGIC1` in `struct _fpx_sw_bytes`).
const MAGIC_OFFSET: usize = 464;
const MAGIC: u32 = 0x4650_5853;

/// Components that the trampoline saves and restores.
pub(super) static MASK: AtomicU64 = AtomicU64::new(0);
/// Length of the area that they need.
pub(super) static AREA_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Finds out which components there are. `false` if the processor or the system has no `XSAVE`.
pub(super) fn detect() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    // SAFETY: every x86-64 processor has CPUID; the instruction touches no memory.
    #[allow(unused_unsafe)]
    let has_xsave = unsafe { __cpuid(1) }.ecx & OSXSAVE != 0;
    if !has_xsave {
        return false;
    }
    let mask = xcr0() & !TILES;
    let end = |component: u32| {
        // SAFETY: as above; OSXSAVE implies that leaf 0Dh is there.
        #[allow(unused_unsafe)]
        let leaf = unsafe { __cpuid_count(0xd, component) };
        leaf.eax as usize + leaf.ebx as usize
    };
    let extended = (2..63).filter(|component| mask >> component & 1 == 1);
    let bytes = extended.map(end).max().unwrap_or(0).max(AREA_BYTES_MIN);
    AREA_BYTES.store(bytes, Ordering::Relaxed);
    MASK.store(mask, Ordering::Relaxed);
    true
}

/// The components that the system has enabled.
fn xcr0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: called only after CPUID said OSXSAVE, without which XGETBV is undefined. It reads a
    // register and touches no memory.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Whether the interrupted code has AMX tiles in use.
///
/// # Safety
/// `state` is what a signal's `ucontext_t` has as `fpregs`: null, or an area as the kernel writes it.
pub(super) unsafe fn has_tiles(state: *const u8) -> bool {
    if state.is_null() {
        return false;
    }
    // SAFETY: the area has at least the 512 bytes of the legacy region, and the header behind it if the
    // magic number says so; the kernel aligns it to 64 bytes.
    unsafe {
        state.add(MAGIC_OFFSET).cast::<u32>().read() == MAGIC
            && state.add(HEADER_OFFSET).cast::<u64>().read() & TILES != 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{AREA_BYTES, AREA_BYTES_MIN, MASK, detect};

    #[test]
    fn the_area_has_room_for_what_is_enabled() {
        assert!(detect());
        let mask = MASK.load(Ordering::Relaxed);
        assert_eq!(mask & 0b11, 0b11, "x87 and SSE are always there");
        let bytes = AREA_BYTES.load(Ordering::Relaxed);
        assert!(bytes >= AREA_BYTES_MIN);
        if std::is_x86_feature_detected!("avx") {
            assert!(mask & 0b100 != 0 && bytes >= AREA_BYTES_MIN + 256);
        }
    }
}
