//! The dense form: 6 bits for each register, from the lowest bit of the first byte up.

use super::REGISTERS;

const REGISTER_BITS: usize = 6;
const MASK: u32 = (1 << REGISTER_BITS) - 1;

/// Bytes of all registers.
pub(super) const BYTES: usize = REGISTERS * REGISTER_BITS / 8;

/// Calls `visit` with the value of each register.
pub(super) fn visit(bytes: &[u8], mut visit: impl FnMut(u8)) {
    // Three bytes hold four registers.
    let (groups, _) = bytes.as_chunks::<3>();
    for [low, middle, high] in groups {
        let group = u32::from_le_bytes([*low, *middle, *high, 0]);
        for register in 0..4 {
            visit((group >> (register * REGISTER_BITS) & MASK) as u8);
        }
    }
}

/// Raises `register` to at least `value`. Returns whether it changed.
pub(super) fn raise(bytes: &mut [u8], register: usize, value: u8) -> bool {
    let (groups, _) = bytes.as_chunks_mut::<3>();
    let Some(group) = groups.get_mut(register / 4) else {
        return false;
    };
    let shift = register % 4 * REGISTER_BITS;
    let old = u32::from_le_bytes([group[0], group[1], group[2], 0]);
    let value = u32::from(value) & MASK;
    if value <= (old >> shift & MASK) {
        return false;
    }
    let new = old & !(MASK << shift) | value << shift;
    group.copy_from_slice(&new.to_le_bytes()[..3]);
    true
}
