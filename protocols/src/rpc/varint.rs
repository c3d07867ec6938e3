//! Base-128 varints, byte by byte; see the [protobuf
//! encoding](https://protobuf.dev/programming-guides/encoding/#varints).

/// Most bytes of a varint of 64 bits.
const LEN_MAX: u32 = 10;

/// A partly read varint.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Varint {
    value: u64,
    len: u32,
}

/// Number of bytes of `value` as a varint.
#[inline]
pub(super) const fn encoded_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// The varint has more than 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow;

impl Varint {
    /// Takes the next byte. The last byte yields the value and resets the varint.
    #[inline]
    pub(super) fn push(&mut self, byte: u8) -> Result<Option<u64>, Overflow> {
        if self.len == LEN_MAX - 1 && byte > 1 {
            return Err(Overflow);
        }
        self.value |= u64::from(byte & 0x7f) << (7 * self.len);
        self.len += 1;
        if byte & 0x80 != 0 {
            return Ok(None);
        }
        Ok(Some(std::mem::take(self).value))
    }

    /// Whether no byte was read yet.
    #[inline]
    pub(super) const fn is_new(self) -> bool {
        self.len == 0
    }

    /// The value at the start of `bytes` and its length in bytes; `None` when the value is cut off.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(u64, usize)>, Overflow> {
        // Tags and most lengths have one byte.
        if let Some(&byte) = bytes.first()
            && byte < 0x80
        {
            return Ok(Some((byte.into(), 1)));
        }
        let mut varint = Self::default();
        for (index, &byte) in bytes.iter().enumerate() {
            if let Some(value) = varint.push(byte)? {
                return Ok(Some((value, index + 1)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_grow_with_every_seven_bits() {
        for (value, len) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            assert_eq!(encoded_len(value), len, "{value}");
        }
    }

    #[test]
    fn values_end_where_the_high_bit_is_clear() {
        let largest = [&[0xff; 9][..], &[1]].concat();
        for (bytes, expected) in [
            (&[0][..], Ok(Some((0, 1)))),
            (&[0x96, 0x01, 0x55], Ok(Some((150, 2)))),
            (&[0x80, 0x00], Ok(Some((0, 2)))),
            (&[0x80], Ok(None)),
            (&[], Ok(None)),
            (&largest, Ok(Some((u64::MAX, 10)))),
            (&[0xff; 10], Err(Overflow)),
            (&[0x80; 11], Err(Overflow)),
        ] {
            assert_eq!(Varint::read(bytes), expected, "{bytes:x?}");
        }
    }
}
