//! The chunked transfer coding (RFC 9112, 7.1).

use std::ops::ControlFlow;

use super::head::HEADERS_CEILING;
use super::lines::LineScan;
use super::violation::Violation;

/// Longest line with the size of a chunk, its extensions and line end included, in bytes.
const CHUNK_LINE_MAX: usize = 256;
/// Longest size of a chunk in hexadecimal digits: that of a number of 64 bits.
const SIZE_DIGITS_MAX: usize = 16;
/// The last chunk and the empty line after it.
const END_LEN_MIN: usize = "0\r\n\r\n".len();

/// How much of a chunked body a framing will hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkLimits {
    /// Most bytes of data in all chunks.
    pub(super) body_bytes_max: usize,
    /// Most bytes of sizes and line ends beyond the number of bytes of data; also the longest trailers.
    pub(super) overhead_bytes_max: usize,
}

/// How far into a chunked body the stream has been scanned.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkScan {
    body_start: usize,
    /// Bytes of data in the chunks so far.
    data_len: usize,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Size(LineScan),
    /// The data of a chunk ends at this offset, and its line end follows.
    Data {
        end: usize,
    },
    Trailers {
        start: usize,
        lines: LineScan,
    },
}

impl ChunkScan {
    /// A body that begins at the offset `start`.
    pub(super) fn starting(start: usize) -> Self {
        Self {
            body_start: start,
            data_len: 0,
            stage: Stage::Size(LineScan::from(start)),
        }
    }

    /// Where the body ends; to go on while that has not arrived, with a lower bound of that offset.
    pub(super) fn end(&mut self, input: &[u8], limits: ChunkLimits) -> Result<ControlFlow<usize, usize>, Violation> {
        loop {
            self.stage = match &mut self.stage {
                Stage::Size(lines) => {
                    let start = lines.start();
                    let window = window(input, start, CHUNK_LINE_MAX);
                    let Some(line) = lines.next_line(window)? else {
                        if window.len() == start + CHUNK_LINE_MAX {
                            return Err(Violation::ChunkLine);
                        }
                        return Ok(ControlFlow::Continue(input.len() + 1));
                    };
                    let size = chunk_size(line).ok_or(Violation::ChunkLine)?;
                    let data_start = lines.start();
                    self.after_size(size, data_start, limits)?
                }
                Stage::Data { end } => {
                    let next = *end + 2;
                    let Some(line_end) = input.get(*end..next) else {
                        return Ok(ControlFlow::Continue(next + END_LEN_MIN));
                    };
                    if line_end != b"\r\n" {
                        return Err(Violation::ChunkEnd);
                    }
                    Stage::Size(LineScan::from(next))
                }
                Stage::Trailers { start, lines } => {
                    let window = window(input, *start, limits.overhead_bytes_max);
                    let Some(end) = lines.block_end(window)? else {
                        if window.len() == *start + limits.overhead_bytes_max {
                            return Err(Violation::HeadTooLong);
                        }
                        return Ok(ControlFlow::Continue(input.len() + 1));
                    };
                    check_trailers(&input[*start..end])?;
                    return Ok(ControlFlow::Break(end));
                }
            };
        }
    }

    /// What follows the size of a chunk whose data begins at `data_start`.
    fn after_size(&mut self, size: u64, data_start: usize, limits: ChunkLimits) -> Result<Stage, Violation> {
        let overhead = data_start - self.body_start - self.data_len;
        if overhead.saturating_sub(self.data_len) > limits.overhead_bytes_max {
            return Err(Violation::ChunksTooSmall);
        }
        if size == 0 {
            return Ok(Stage::Trailers { start: data_start, lines: LineScan::from(data_start) });
        }
        let left = limits.body_bytes_max - self.data_len;
        let size = usize::try_from(size).ok().filter(|size| *size <= left).ok_or(Violation::BodyTooLong)?;
        self.data_len += size;
        Ok(Stage::Data { end: data_start + size })
    }
}

/// The first `len_max` bytes of `input` after `start`, with all before them.
fn window(input: &[u8], start: usize, len_max: usize) -> &[u8] {
    &input[..input.len().min(start.saturating_add(len_max))]
}

/// The size in the line `<hexadecimal digits> [; extensions]`.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let len = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, extensions) = line.split_at(len);
    let extensions = extensions.trim_ascii_start();
    let printable = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    let well_formed = (1..=SIZE_DIGITS_MAX).contains(&digits.len())
        && (extensions.is_empty() || extensions[0] == b';')
        && line[len..].iter().all(printable);
    let digits = str::from_utf8(digits).ok().filter(|_| well_formed)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Whether `block`, which ends with an empty line, has nothing but header lines.
fn check_trailers(block: &[u8]) -> Result<(), Violation> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_CEILING];
    match httparse::parse_headers(block, &mut headers) {
        Ok(httparse::Status::Complete(_)) => Ok(()),
        Err(httparse::Error::TooManyHeaders) => Err(Violation::TooManyHeaders),
        _ => Err(Violation::Trailers),
    }
}

/// The data of a body, piece by piece: one piece, or the data of each chunk.
///
/// It never allocates. In a frame that the framing did not find it ends early.
#[derive(Debug, Clone)]
pub struct BodyPieces<'a> {
    rest: &'a [u8],
    chunked: bool,
}

impl<'a> BodyPieces<'a> {
    pub(super) fn new(body: &'a [u8], chunked: bool) -> Self {
        Self { rest: body, chunked }
    }

    fn next_chunk(&mut self) -> Option<&'a [u8]> {
        let mut lines = LineScan::default();
        let size = chunk_size(lines.next_line(self.rest).ok()??)?;
        let size = usize::try_from(size).ok().filter(|size| *size > 0)?;
        let data_end = lines.start().checked_add(size)?;
        let data = self.rest.get(lines.start()..data_end)?;
        self.rest = self.rest.get(data_end + 2..)?;
        Some(data)
    }
}

impl<'a> Iterator for BodyPieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let piece = if self.chunked {
            self.next_chunk()
        } else {
            Some(std::mem::take(&mut self.rest)).filter(|piece| !piece.is_empty())
        };
        if piece.is_none() {
            self.rest = &[];
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ChunkLimits = ChunkLimits { body_bytes_max: 20, overhead_bytes_max: 40 };

    fn end(body: &str) -> Result<ControlFlow<usize, usize>, Violation> {
        ChunkScan::starting(0).end(body.as_bytes(), LIMITS)
    }

    fn data(body: &str) -> String {
        let pieces: Vec<&[u8]> = BodyPieces::new(body.as_bytes(), true).collect();
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[test]
    fn bodies_end_after_their_trailers() {
        for (body, expected) in [
            ("0\r\n\r\n", ""),
            ("3\r\nabc\r\n0\r\n\r\n", "abc"),
            ("A;n=\"v\"\r\n0123456789\r\n00a \t;\r\n0123456789\r\n000\r\n\r\n", "01234567890123456789"),
            ("1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n", "a"),
        ] {
            assert_eq!(end(body), Ok(ControlFlow::Break(body.len())), "{body:?}");
            assert_eq!(data(body), expected);
        }
    }

    #[test]
    fn lower_bounds_count_what_must_follow() {
        for (body, len_min) in [("", 1), ("3", 2), ("3\r\na", 13), ("3\r\nabc\r\n", 9), ("0\r\n", 4)] {
            assert_eq!(end(body), Ok(ControlFlow::Continue(len_min)), "{body:?}");
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for (body, violation) in [
            ("\r\n", Violation::ChunkLine),
            ("x\r\n", Violation::ChunkLine),
            ("0x3\r\nabc\r\n", Violation::ChunkLine),
            ("-1\r\n", Violation::ChunkLine),
            ("+1\r\na\r\n", Violation::ChunkLine),
            (" 1\r\na\r\n", Violation::ChunkLine),
            ("1 a\r\n", Violation::ChunkLine),
            ("1;\0\r\n", Violation::ChunkLine),
            ("1;a\rb\r\n", Violation::ChunkLine),
            ("00000000000000001\r\n", Violation::ChunkLine),
            ("3\nabc\r\n", Violation::BareLineFeed),
            ("3\r\nabcd\r\n", Violation::ChunkEnd),
            ("3\r\nabc\n\n0\r\n\r\n", Violation::ChunkEnd),
            ("15\r\n", Violation::BodyTooLong),
            ("a\r\n0123456789\r\nb\r\n", Violation::BodyTooLong),
            ("ffffffffffffffff\r\n", Violation::BodyTooLong),
            ("0\r\nno colon\r\n\r\n", Violation::Trailers),
            ("0\r\nA: b\r\n c\r\n\r\n", Violation::Trailers),
        ] {
            assert_eq!(end(body), Err(violation), "{body:?}");
        }
    }

    #[test]
    fn sizes_and_trailers_are_limited() {
        let tiny = "1\r\na\r\n".repeat(10);
        assert_eq!(end(&tiny), Ok(ControlFlow::Continue(tiny.len() + 1)));
        let most = format!("1;\r\na\r\n{}", "1\r\na\r\n".repeat(9));
        assert_eq!(end(&most), Ok(ControlFlow::Continue(most.len() + 1)));
        let tiny = "1\r\na\r\n".repeat(11);
        assert_eq!(end(&tiny), Err(Violation::ChunksTooSmall));
        let long_line = format!("1;{}", "e".repeat(CHUNK_LINE_MAX));
        assert_eq!(end(&long_line), Err(Violation::ChunkLine));
        let trailers = format!("0\r\nA: {}", "b".repeat(40));
        assert_eq!(end(&trailers), Err(Violation::HeadTooLong));
        let many = format!("0\r\n{}\r\n", "a:\r\n".repeat(HEADERS_CEILING + 1));
        let limits = ChunkLimits { overhead_bytes_max: many.len(), ..LIMITS };
        assert_eq!(ChunkScan::starting(0).end(many.as_bytes(), limits), Err(Violation::TooManyHeaders));
    }

    #[test]
    fn bodies_of_no_frame_end_early() {
        for body in ["", "3", "3\r\nab", "3\r\nabc\r", "ffffffffffffffff\r\na", "z\r\n"] {
            assert_eq!(data(body), "", "{body:?}");
        }
    }
}
