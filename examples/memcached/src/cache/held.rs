//! Bytes that the allocator holds for an allocation.
//!
//! These are the size classes of jemalloc, the program's allocator: multiples of 16 bytes up to 128, and four
//! classes for each doubling beyond. A large allocation has pages of its own, and one page more so that its
//! start can vary.

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
    let step = 1 << ((len - 1).ilog2() - 2);
    let class = len.next_multiple_of(step);
    if class <= SMALL_LEN_MAX {
        class
    } else {
        class + PAGE_LEN
    }
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
            ((14 << 10) + 1, 20 << 10),
            ((1 << 20) + 1, (1280 << 10) + 4096),
        ] {
            assert_eq!(held_bytes(len), held, "{len}");
        }
    }

    #[test]
    fn the_classes_are_those_of_the_allocator() {
        let sizes = |count: &[u8], name: &[u8]| {
            let count: u32 = count.name().read().expect("a count");
            let mut mib: Mib<[usize; 4]> = name.name().mib().expect("a size");
            let size = move |index| {
                mib[2] = index as usize;
                mib.read().expect("a size")
            };
            (0..count).map(size).collect::<Vec<usize>>()
        };
        let small = sizes(b"arenas.nbins\0", b"arenas.bin.0.size\0");
        let large = sizes(b"arenas.nlextents\0", b"arenas.lextent.0.size\0");
        assert_eq!(small.last(), Some(&SMALL_LEN_MAX));
        // The first class, 8 bytes, is counted as 16.
        for pair in small[1..].windows(2) {
            assert_eq!(held_bytes(pair[0]), pair[0]);
            assert_eq!(held_bytes(pair[0] + 1), pair[1]);
        }
        for pair in large[..40].windows(2) {
            assert_eq!(held_bytes(pair[0]), pair[0] + PAGE_LEN);
            assert_eq!(held_bytes(pair[0] + 1), pair[1] + PAGE_LEN);
        }
    }
}
