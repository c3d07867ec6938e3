//! Random numbers from a seed: the same on each machine.

/// xorshift64* of Vigna, *An experimental exploration of Marsaglia's xorshift generators, scrambled* (2016).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of this seed. Neighbouring seeds have unlike numbers.
    pub(crate) fn new(seed: u64) -> Self {
        // SplitMix64 spreads the seed; 0 would stay 0.
        let spread = mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
        Self(spread | 1)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        #[cfg(fuzzing)]
        if let Some(number) = given::next() {
            return number;
        }
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, which is not 0.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    #[inline]
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Whether something happens that happens once in `times`; 0 for never.
    #[inline]
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// The finaliser of SplitMix64.
#[inline]
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(fuzzing)]
pub(crate) use given::with_numbers;

/// Numbers that a fuzzer gives, before those of a seed.
#[cfg(fuzzing)]
mod given {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    thread_local! {
        static NUMBERS: RefCell<VecDeque<u16>> = const { RefCell::new(VecDeque::new()) };
    }

    /// Runs `body`, in which random numbers begin with these, two bytes for each.
    pub(crate) fn with_numbers<T>(bytes: &[u8], body: impl FnOnce() -> T) -> T {
        let numbers = bytes.as_chunks().0.iter().map(|&pair| u16::from_be_bytes(pair));
        NUMBERS.with_borrow_mut(|left| {
            left.clear();
            left.extend(numbers);
        });
        let out = body();
        NUMBERS.with_borrow_mut(VecDeque::clear);
        out
    }

    /// The upper bits count most, in each use of a number.
    #[inline]
    pub(super) fn next() -> Option<u64> {
        let number = NUMBERS.with_borrow_mut(VecDeque::pop_front)?;
        Some(u64::from(number) << 48 | u64::from(number) << 20 | u64::from(number))
    }
}
