//! Bytes that the allocator holds for an allocation.
//!
//! These are the size classes of jemalloc, the program's allocator: multiples of 16 bytes up to 128, and four
//! classes for each doubling beyond. A large allocation has pages of its own.

/// The longest allocation that shares its pages with others of its class.
pub(super) const SMALL_LEN_MAX: usize = 14 << 10;

const STEP_MIN: usize = 16;
const STEP_MIN_UP_TO: usize = 128;
const PAGE_LEN: usize = 4096;

/// Bytes that the allocator holds for an allocation of `len` bytes.
pub(super) const fn held_bytes(len: usize) -> usize {
    if len <= STEP_MIN_UP_TO {
        return len.next_multiple_of(STEP_MIN);
    }
    if len > SMALL_LEN_MAX {
        return len.next_multiple_of(PAGE_LEN);
    }
    len.next_multiple_of(1 << ((len - 1).ilog2() - 2))
}

#[cfg(test)]
mod tests {
    use tikv_jemalloc_ctl::{Access, AsName, Mib};

    use super::*;

    #[test]
    fn lengths_are_rounded_to_classes() {
        for (len, held) in [
            (0, 0),
            (1, 16),
            (128, 128),
            (129, 160),
            (160, 160),
            (257, 320),
            (1025, 1280),
            (14 << 10, 14 << 10),
            ((14 << 10) + 1, 16 << 10),
            ((1 << 20) + 1, (1 << 20) + 4096),
        ] {
            assert_eq!(held_bytes(len), held, "{len}");
        }
    }

    #[test]
    fn the_classes_are_those_of_the_allocator() {
        let count: u32 = b"arenas.nbins\0".name().read().expect("a count");
        let mut mib: Mib<[usize; 4]> = b"arenas.bin.0.size\0".name().mib().expect("a size");
        let small: Vec<usize> = (0..count)
            .map(|index| {
                mib[2] = index as usize;
                mib.read().expect("a size")
            })
            .collect();
        assert_eq!(small.last(), Some(&SMALL_LEN_MAX));
        // The first class, 8 bytes, is counted as 16.
        for pair in small[1..].windows(2) {
            assert_eq!(held_bytes(pair[0]), pair[0]);
            assert_eq!(held_bytes(pair[0] + 1), pair[1]);
        }
        let has_none: bool = b"opt.disable_large_size_classes\0".name().read().expect("an option");
        assert!(has_none, "large allocations have classes");
    }
}
