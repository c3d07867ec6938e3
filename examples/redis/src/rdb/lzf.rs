//! LZF, with which Redis compresses strings of RDB payloads: only its expansion.
//!
//! ```text
//!   000nnnnn                    n + 1 bytes follow
//!   nnnooooo [n - 7] oooooooo   n + 2 bytes from o + 1 bytes back; n of 7 takes one byte more
//! ```

use super::Malformed;

/// Expands `input` to exactly `len` bytes. Calls `visit` for each run of up to 264 of them.
pub(super) fn expand(mut input: &[u8], len: usize, visit: &dyn Fn()) -> Result<Vec<u8>, Malformed> {
    // A byte of input stands for less than 264 bytes.
    let mut out = Vec::with_capacity(len.min(input.len().saturating_mul(264)));
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

fn split(bytes: &[u8], len: usize) -> Result<(&[u8], &[u8]), Malformed> {
    bytes.split_at_checked(len).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

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
