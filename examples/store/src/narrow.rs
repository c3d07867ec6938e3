//! Numbers in as many bytes as they need.

/// The bytes of a number, the lowest first, signed.
#[derive(Clone, Copy)]
pub(crate) struct Narrow {
    bytes: [u8; 8],
    len: usize,
}

impl From<i64> for Narrow {
    fn from(number: i64) -> Self {
        let unused_bits = match number {
            0.. => number.leading_zeros(),
            _ => number.leading_ones(),
        };
        Self {
            bytes: number.to_le_bytes(),
            len: 8 - (unused_bits as usize - 1) / 8,
        }
    }
}

impl Narrow {
    /// From 1 to 8 bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The number of these bytes, of which there are 1 to 8.
    pub(crate) fn widen(narrow: &[u8]) -> i64 {
        let sign = match narrow {
            [.., 128..=u8::MAX] => -1,
            _ => 0,
        };
        let highest_first = narrow.iter().rev();
        highest_first.fold(sign, |number, byte| number << u8::BITS | i64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        for (number, len) in [
            (0, 1),
            (-1, 1),
            (127, 1),
            (-128, 1),
            (128, 2),
            (-129, 2),
            (8_388_607, 3),
            (8_388_608, 4),
            (i64::MAX, 8),
            (i64::MIN, 8),
        ] {
            let narrow = Narrow::from(number);
            assert_eq!(narrow.as_slice().len(), len, "{number}");
            assert_eq!(Narrow::widen(narrow.as_slice()), number);
        }
    }
}
