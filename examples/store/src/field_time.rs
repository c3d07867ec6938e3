//! When the fields of hashes expire.

/// Milliseconds since the Unix epoch in six bytes, the highest first: their order is that of the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FieldTime([u8; Self::LEN]);

impl FieldTime {
    /// Bytes of a time.
    pub(crate) const LEN: usize = 6;
    const UNUSED: usize = size_of::<u64>() - Self::LEN;

    /// The time, or the last one that there is.
    pub(crate) fn new(unix_ms: u64) -> Self {
        let mut time = [u8::MAX; Self::LEN];
        if let [0, 0, fits @ ..] = unix_ms.to_be_bytes() {
            time = fits;
        }
        Self(time)
    }

    pub(crate) fn of(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(self) -> [u8; Self::LEN] {
        self.0
    }

    pub(crate) fn ms(self) -> u64 {
        let mut all = [0; size_of::<u64>()];
        all[Self::UNUSED..].copy_from_slice(&self.0);
        u64::from_be_bytes(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_order_and_end() {
        let last = (1 << 48) - 1;
        for (ms, kept) in [(0, 0), (1, 1), (1 << 40, 1 << 40), (last, last), (last + 1, last), (u64::MAX, last)] {
            assert_eq!(FieldTime::new(ms).ms(), kept);
            assert_eq!(FieldTime::of(FieldTime::new(ms).bytes()), FieldTime::new(kept));
        }
        assert!(FieldTime::new(255) < FieldTime::new(256));
    }
}
