//! Lines of input that arrives in pieces.

use memchr::memchr;

use super::violation::Violation;

/// A place in the input from which lines are read, each byte once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LineScan {
    /// Where the next line begins.
    start: usize,
    /// Bytes before this offset hold no line feed of that line.
    scanned: usize,
}

impl LineScan {
    /// Reads lines from the offset `start` on.
    pub(super) const fn from(start: usize) -> Self {
        Self { start, scanned: start }
    }

    /// Where the next line begins.
    pub(super) const fn start(&self) -> usize {
        self.start
    }

    /// The next line of `input` without its line end; `None` while that has not arrived.
    pub(super) fn next_line<'a>(&mut self, input: &'a [u8]) -> Result<Option<&'a [u8]>, Violation> {
        let unscanned = input.get(self.scanned..).unwrap_or_default();
        let Some(at) = memchr(b'\n', unscanned) else {
            self.scanned = self.scanned.max(input.len());
            return Ok(None);
        };
        let end = self.scanned + at;
        let line = input[self.start..end].strip_suffix(b"\r").ok_or(Violation::BareLineFeed)?;
        *self = Self::from(end + 1);
        Ok(Some(line))
    }

    /// The offset after the next empty line of `input`; `None` while that has not arrived.
    pub(super) fn block_end(&mut self, input: &[u8]) -> Result<Option<usize>, Violation> {
        while let Some(line) = self.next_line(input)? {
            if line.is_empty() {
                return Ok(Some(self.start));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_however_they_arrive() {
        let input = b"ab\r\n\r\nc";
        let mut scan = LineScan::default();
        assert_eq!(scan.next_line(b""), Ok(None));
        assert_eq!(scan.next_line(&input[..3]), Ok(None));
        assert_eq!(scan.next_line(input), Ok(Some(&b"ab"[..])));
        assert_eq!((scan.start(), scan.block_end(input)), (4, Ok(Some(6))));
        assert_eq!(scan.next_line(input), Ok(None));
    }

    #[test]
    fn a_line_ends_with_both_bytes() {
        for input in [&b"\n"[..], b"a\n", b"a\r\n\n"] {
            let found = LineScan::default().block_end(input);
            assert_eq!(found, Err(Violation::BareLineFeed));
        }
    }
}
