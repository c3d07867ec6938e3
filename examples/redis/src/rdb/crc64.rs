//! The CRC-64 of Redis: the polynomial of Jones, reflected, from 0 on, without a final complement.

use super::BYTES_PER_VISIT;

/// 0xad93d23594c935a9, reflected.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// Bytes that are added at a time.
const STRIDE: usize = 8;

/// What a byte leaves that so many zero bytes follow.
const TABLES: [[u64; 256]; STRIDE] = tables();

const fn tables() -> [[u64; 256]; STRIDE] {
    let mut tables = [[0; 256]; STRIDE];
    let mut byte = 0;
    while byte < 256 {
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
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < STRIDE {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = tables[0][before as u8 as usize] ^ (before >> 8);
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// Calls `visit` for each [`BYTES_PER_VISIT`] bytes.
pub(super) fn checksum(bytes: &[u8], visit: &dyn Fn()) -> u64 {
    bytes.chunks(BYTES_PER_VISIT).fold(0, |checksum, chunk| {
        visit();
        add(checksum, chunk)
    })
}

/// The checksum of what had this one, and of `bytes` behind it.
pub(crate) fn add(checksum: u64, bytes: &[u8]) -> u64 {
    let (strides, rest) = bytes.as_chunks::<STRIDE>();
    let checksum = strides.iter().fold(checksum, |checksum, stride| {
        let mixed = (checksum ^ u64::from_le_bytes(*stride)).to_le_bytes();
        let of_each = mixed.iter().zip(TABLES.iter().rev());
        of_each.fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)])
    });
    rest.iter().fold(checksum, |checksum, byte| {
        let index = usize::from(checksum as u8 ^ byte);
        TABLES[0][index] ^ (checksum >> 8)
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

    #[test]
    fn parts_add_up_wherever_they_are_cut() {
        let bytes: Vec<u8> = (0..100_u8).map(|byte| byte.wrapping_mul(37)).collect();
        let whole = checksum(&bytes, &|| {});
        for cut in 0..bytes.len() {
            let (one, other) = bytes.split_at(cut);
            assert_eq!(add(add(0, one), other), whole, "{cut}");
        }
        let one_by_one = bytes.iter().fold(0, |sum, byte| add(sum, &[*byte]));
        assert_eq!(one_by_one, whole);
    }
}
