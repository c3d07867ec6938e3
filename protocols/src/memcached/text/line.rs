//! Command lines and their words.

/// Splits a frame into its first line, without the line end (LF, or CR and LF), and the rest.
#[inline]
pub(crate) fn split_line(frame: &[u8]) -> (&[u8], &[u8]) {
    let (line, after) = match memchr::memchr(b'\n', frame) {
        Some(end) => (&frame[..end], &frame[end + 1..]),
        None => (frame, &[][..]),
    };
    (line.strip_suffix(b"\r").unwrap_or(line), after)
}

/// The words of a line, which are separated by any number of spaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The words of `line`. If `line` has its line end, that is part of the last word.
    #[inline]
    #[must_use]
    pub fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// The words of the first line of `frame`.
    #[inline]
    pub(super) fn of_frame(frame: &'a [u8]) -> Self {
        Self::new(split_line(frame).0)
    }

    /// Whether there is no word.
    #[must_use]
    pub fn is_empty(mut self) -> bool {
        self.next().is_none()
    }

    /// The last word.
    pub(super) fn last_word(self) -> Option<&'a [u8]> {
        let end = self.rest.iter().rposition(|byte| *byte != b' ')? + 1;
        let start = memchr::memrchr(b' ', &self.rest[..end]).map_or(0, |space| space + 1);
        Some(&self.rest[start..end])
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b' ', self.rest).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// The first words of a line: as many as a command of fixed form can have.
#[derive(Debug, Clone, Copy)]
pub(super) struct FewWords<'a> {
    words: [&'a [u8]; FewWords::CAPACITY],
    count: usize,
}

impl<'a> FewWords<'a> {
    /// One more than the longest such command has: `cas k 0 0 1 1 noreply`.
    const CAPACITY: usize = 8;

    #[inline]
    pub(super) fn new(words: Words<'a>) -> Self {
        let mut few = Self { words: [&[]; Self::CAPACITY], count: 0 };
        for (place, word) in few.words.iter_mut().zip(words) {
            *place = word;
            few.count += 1;
        }
        few
    }

    /// The words. If there are eight, the line may have more.
    #[inline]
    pub(super) fn as_slice(&self) -> &[&'a [u8]] {
        &self.words[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_lf_or_cr_lf() {
        for (frame, line, after) in [
            (&b"get k\r\n"[..], &b"get k"[..], &b""[..]),
            (b"get k\n", b"get k", b""),
            (b"set k 0 0 1\r\n\n\r\n", b"set k 0 0 1", b"\n\r\n"),
            (b"\r\n", b"", b""),
            (b"get k", b"get k", b""),
        ] {
            assert_eq!(split_line(frame), (line, after));
        }
    }

    #[test]
    fn any_number_of_spaces_is_between_words() {
        for line in ["a bc d", "  a  bc d ", "a bc   d   "] {
            let words = Words::new(line.as_bytes());
            assert!(words.eq([&b"a"[..], b"bc", b"d"]), "{line:?}");
            assert_eq!(words.last_word(), Some(&b"d"[..]));
        }
        assert_eq!(Words::new(b"   ").next(), None);
        assert_eq!(Words::new(b"   ").last_word(), None);
        assert_eq!(Words::new(b"a").last_word(), Some(&b"a"[..]));
    }
}
