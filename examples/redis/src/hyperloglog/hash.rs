//! The hash of a member: MurmurHash64A, with the seed of Redis.

use super::REGISTERS;

const SEED: u64 = 0xadc8_3b19;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// The register of a member, and the value that it raises the register to.
pub(super) fn register_of(member: &[u8]) -> (usize, u8) {
    let hash = murmur(member);
    let register = hash as usize % REGISTERS;
    // A one behind the last bit ends the run of zeros.
    let rest = hash >> REGISTERS.ilog2() | 1 << (u64::BITS - REGISTERS.ilog2());
    (register, rest.trailing_zeros() as u8 + 1)
}

/// Austin Appleby's MurmurHash64A, reading words from the lowest byte up on every processor.
fn murmur(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}
