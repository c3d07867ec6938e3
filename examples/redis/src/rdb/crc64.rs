//! The CRC-64 of Redis: the polynomial of Jones, reflected, from 0 on, without a final complement.

use super::BYTES_PER_VISIT;

/// 0xad93d23594c935a9, reflected.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut remainder = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 1;
            remainder >>= 1;
            if carry == 1 {
                remainder ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

/// Calls `visit` for each [`BYTES_PER_VISIT`] bytes.
pub(super) fn checksum(bytes: &[u8], visit: &dyn Fn()) -> u64 {
    bytes.chunks(BYTES_PER_VISIT).fold(0, |checksum, chunk| {
        visit();
        chunk.iter().fold(checksum, |checksum, byte| {
            let index = (checksum as u8 ^ byte) as usize;
            TABLE[index] ^ (checksum >> 8)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that Redis's own test names.
    #[test]
    fn the_checksum_of_the_digits() {
        assert_eq!(checksum(b"123456789", &|| {}), 0xe9c6_d914_c4b8_d9ca);
    }
}
