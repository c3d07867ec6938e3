//! LZF, with which Redis compresses strings of RDB payloads and files.
//!
//! ```text
//!   000nnnnn                    n + 1 bytes follow
//!   nnnooooo [n - 7] oooooooo   n + 2 bytes from o + 1 bytes back; n of 7 takes one byte more
//! ```

use super::Malformed;

/// Expands `input` to exactly `len` bytes. Calls `visit` for each run of up to 264 of them.
pub(super) fn expand(mut input: &[u8], len: usize, visit: &dyn Fn()) -> Result<Vec<u8>, Malformed> {
    // What it says of its length may be a lie.
    let mut out = Vec::with_capacity(len.min(input.len().saturating_mul(4)));
    while let Some((&control, rest)) = input.split_first() {
        visit();
        input = if control < 0x20 {
            let (literal, rest) = split(rest, usize::from(control) + 1)?;
            out.extend_from_slice(literal);
            rest
        } else {
            let (mut run, mut rest) = (usize::from(control >> 5), rest);
            if run == 7 {
                let (&more, after) = rest.split_first().ok_or(Malformed)?;
                run += usize::from(more);
                rest = after;
            }
            let (&low, rest) = rest.split_first().ok_or(Malformed)?;
            let back = usize::from(control & 0x1f) << 8 | usize::from(low);
            let from = out.len().checked_sub(back + 1).ok_or(Malformed)?;
            // The run may overlap with what it appends.
            for index in from..from + run + 2 {
                out.push(out[index]);
            }
            rest
        };
        if out.len() > len {
            return Err(Malformed);
        }
    }
    if out.len() == len { Ok(out) } else { Err(Malformed) }
}

/// Bits of a hash of three bytes.
const HASH_BITS: u32 = 14;
/// Least bytes of a run.
const RUN_MIN: usize = 3;
/// Most bytes of a run, and of what stands as it is.
const RUN_MAX: usize = 264;
const LITERAL_MAX: usize = 32;
/// The farthest that a run goes back.
const BACK_MAX: usize = 1 << 13;

/// Compresses strings, with memory that they share.
pub(crate) struct Compressor {
    /// Where three bytes with this hash were seen last: a place of this string is above `base`.
    places: Box<[u32]>,
    base: u32,
    out: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> Self {
        Self {
            places: vec![0; 1 << HASH_BITS].into(),
            base: 0,
            out: Vec::new(),
        }
    }

    /// Memory that it keeps.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.out.truncate(bytes);
        self.out.shrink_to(bytes);
    }

    /// The compressed form, if that is at least four bytes shorter.
    pub(crate) fn compress(&mut self, input: &[u8]) -> Option<&[u8]> {
        let most = input.len().checked_sub(RUN_MIN + 1)?;
        let places = u32::try_from(input.len()).ok()?;
        if self.base.checked_add(places).is_none() {
            self.places.fill(0);
            self.base = 0;
        }
        self.out.clear();
        let (mut at, mut literal_from) = (0, 0);
        while at + RUN_MIN <= input.len() && self.out.len() <= most {
            let Some((from, len)) = self.run_at(input, at) else {
                at += 1;
                continue;
            };
            self.put_literals(&input[literal_from..at]);
            self.put_run(at - from - 1, len - 2);
            at += len;
            literal_from = at;
        }
        self.put_literals(&input[literal_from..]);
        self.base += places;
        (self.out.len() <= most).then_some(&*self.out)
    }

    /// Where the bytes at `at` have stood before, and how many of them.
    fn run_at(&mut self, input: &[u8], at: usize) -> Option<(usize, usize)> {
        let three = u32::from_be_bytes([0, input[at], input[at + 1], input[at + 2]]);
        let hash = three.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS);
        let place = &mut self.places[hash as usize];
        let before = std::mem::replace(place, self.base + at as u32 + 1);
        let from = before.checked_sub(self.base + 1)? as usize;
        let (old, new) = (&input[from..], &input[at..]);
        let len = new.iter().zip(old).take(RUN_MAX).take_while(|(new, old)| new == old).count();
        (at - from <= BACK_MAX && len >= RUN_MIN).then_some((from, len))
    }

    fn put_literals(&mut self, bytes: &[u8]) {
        for literal in bytes.chunks(LITERAL_MAX) {
            self.out.push(literal.len() as u8 - 1);
            self.out.extend_from_slice(literal);
        }
    }

    fn put_run(&mut self, back: usize, len: usize) {
        let [high, low] = (back as u16).to_be_bytes();
        match len {
            len @ ..7 => self.out.push((len as u8) << 5 | high),
            len => self.out.extend([7 << 5 | high, (len - 7) as u8]),
        }
        self.out.push(low);
    }
}

fn split(bytes: &[u8], len: usize) -> Result<(&[u8], &[u8]), Malformed> {
    bytes.split_at_checked(len).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_compressed_expands(
            strings in proptest::collection::vec(
                (proptest::collection::vec(0..4_u8, 0..2_000), 1..9_usize), 1..8,
            ),
        ) {
            let mut compressor = Compressor::new();
            for (pattern, times) in strings {
                let text = pattern.repeat(times);
                let Some(compressed) = compressor.compress(&text) else {
                    prop_assert!(text.len() < 1_000, "{} bytes with many runs", text.len());
                    continue;
                };
                prop_assert!(compressed.len() + 4 <= text.len());
                prop_assert_eq!(expanded(compressed, text.len()), Ok(text));
            }
        }
    }

    #[test]
    fn a_string_without_runs_is_not_compressed_and_far_runs_are_none() {
        let mut compressor = Compressor::new();
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(compressor.compress(&all), None);
        assert_eq!(compressor.compress(b"abc"), None);
        // The table remembers places of strings before.
        compressor.base = u32::MAX - 100;
        for len in [50, 60, 300] {
            let text = b"abcdefgh".repeat(len);
            let compressed = compressor.compress(&text).expect("runs").to_vec();
            assert_eq!(expanded(&compressed, text.len()), Ok(text));
        }
        let far = [&all[..], &vec![0; BACK_MAX], &all[..]].concat();
        let compressed = compressor.compress(&far).expect("runs").to_vec();
        assert_eq!(expanded(&compressed, far.len()), Ok(far));
        compressor.shrink_to(10);
        assert!(compressor.out.capacity() < 100);
    }

    fn expanded(input: &[u8], len: usize) -> Result<Vec<u8>, Malformed> {
        expand(input, len, &|| {})
    }

    #[test]
    fn literals_and_runs_expand() {
        assert_eq!(expanded(b"\x02abc", 3), Ok(b"abc".to_vec()));
        // Three bytes, then six from three back.
        assert_eq!(expanded(b"\x02abc\x80\x02", 9), Ok(b"abcabcabc".to_vec()));
        // A run of 7 + 3 + 2 of the last byte.
        assert_eq!(expanded(b"\x00a\xe0\x03\x00", 13), Ok(b"a".repeat(13)));
        assert_eq!(expanded(b"", 0), Ok(Vec::new()));
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        for (input, len) in [
            (&b"\x02ab"[..], 3),
            (b"\x20\x00", 3),
            (b"\x02abc", 2),
            (b"\x02abc", 4),
            (b"\x02abc\x80", 9),
            (b"\x02abc\xe0", 9),
            (b"\x02abc\xe0\xff", 9),
            (b"\x02abc\x80\x03", 9),
        ] {
            assert_eq!(expanded(input, len), Err(Malformed), "{input:?}");
        }
    }
}
