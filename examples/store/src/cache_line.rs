//! Asks the processor for memory that will be needed soon.

#![allow(unsafe_code)]

/// Bytes that the processor fetches at once.
pub(crate) const LINE_BYTES: usize = 64;

/// Has the line at `address` fetched into the caches, and does not wait for it. A hint, which reads nothing: any
/// address will do. Without effect on processors for which Rust has no such instruction.
#[inline]
pub(crate) fn fetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction. It never faults and changes nothing that a program sees,
        // so no address breaks anything, not even a dangling one.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::fetch;

    #[test]
    fn any_address_will_do() {
        let here = 7_u8;
        for address in [&raw const here, ptr::null(), ptr::without_provenance(usize::MAX)] {
            fetch(address);
        }
        assert_eq!(here, 7);
    }
}
