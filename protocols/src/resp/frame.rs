//! Where a RESP request ends.

use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

use super::head::RespHead;
use super::header::{bulk_header, multibulk_header};
use super::rejection;
use super::violation::Violation;

/// Longest bulk string of a peer that has not authenticated, in bytes, as in Redis 7.
const UNAUTHENTICATED_BULK_LEN_MAX: usize = 16 << 10;
/// Most arguments of such a peer's command, as in Redis 7.
const UNAUTHENTICATED_ELEMENTS_MAX: usize = 10;

/// [`Framing`] of RESP requests: arrays of bulk strings and inline commands.
///
/// A frame without arguments (an empty line, `*0\r\n`, `*-1\r\n`) is a frame like any other. Redis
/// sends no reply to it, and a handler should send none either. Unlike Redis, this framing requires
/// the CRLF after each bulk string, so that a peer with a wrong length gets an error at once.
///
/// The defaults are those of Redis 7. A peer that has not authenticated may send 10 arguments of 16 KiB each.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Resp {
    /// Longest bulk string, in bytes; 512 MiB by default.
    pub bulk_len_max: usize,
    /// Most arguments of one command, its name included; 1024 * 1024 by default.
    pub elements_max: usize,
    /// Longest inline command in bytes, its line end included; 64 KiB by default.
    pub inline_len_max: usize,
    /// Longest request, in bytes; 1 GiB by default.
    pub frame_len_max: usize,
}

impl Default for Resp {
    fn default() -> Self {
        Self {
            bulk_len_max: 512 << 20,
            elements_max: 1024 * 1024,
            inline_len_max: 64 << 10,
            frame_len_max: 1 << 30,
        }
    }
}

limits! {
    Resp: bulk_len_max: usize, elements_max: usize, inline_len_max: usize, frame_len_max: usize,
}

/// How much of an incomplete request has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RespCursor {
    /// Inline: number of bytes that are known to hold no line end. Array: where the next element
    /// starts; 0 until the count is known.
    offset: usize,
    /// Array: number of elements from `offset` on.
    elements_left: u32,
    /// Array: the places of the elements before `offset`.
    head: RespHead,
}

impl Framing for Resp {
    type Cursor = RespCursor;
    type Head = RespHead;

    #[inline]
    fn next_frame(&self, cursor: &mut RespCursor, input: &[u8]) -> Result<Step<RespHead>, FrameError> {
        Ok(self.step(cursor, input)?)
    }

    fn next_frame_unauthenticated(&self, cursor: &mut RespCursor, input: &[u8]) -> Result<Step<RespHead>, FrameError> {
        let limited = Self {
            bulk_len_max: self.bulk_len_max.min(UNAUTHENTICATED_BULK_LEN_MAX),
            elements_max: self.elements_max.min(UNAUTHENTICATED_ELEMENTS_MAX),
            ..*self
        };
        Ok({ limited.step(cursor, input) }.map_err(Violation::unauthenticated)?)
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        rejection::encode(rejection, request, out);
    }
}

impl Resp {
    #[inline]
    fn step(&self, cursor: &mut RespCursor, input: &[u8]) -> Result<Step<RespHead>, Violation> {
        match input.first() {
            None => Ok(Step::NeedMore { len_min: 1 }),
            Some(b'*') => self.array(cursor, input),
            Some(_) => self.inline(cursor, input),
        }
    }

    fn array(&self, cursor: &mut RespCursor, input: &[u8]) -> Result<Step<RespHead>, Violation> {
        let mut read = *cursor;
        if read.offset == 0 {
            let Some(header) = multibulk_header(input)? else {
                return Ok(Step::NeedMore { len_min: input.len() + 1 });
            };
            let count = u32::try_from(header.value.max(0))
                .ok()
                .filter(|count| *count as usize <= self.elements_max)
                .ok_or(Violation::MultibulkLength)?;
            read = RespCursor {
                offset: header.len,
                elements_left: count,
                head: RespHead::of_array(count),
            };
        }
        while read.elements_left > 0 {
            let Some(header) = bulk_header(&input[read.offset..])? else {
                *cursor = read;
                return Ok(Step::NeedMore { len_min: input.len() + 1 });
            };
            let len = usize::try_from(header.value).unwrap_or(usize::MAX);
            if len > self.bulk_len_max {
                return Err(Violation::BulkLength);
            }
            let start = read.offset + header.len;
            let end = start.saturating_add(len);
            let next = end.saturating_add(2);
            if next > self.frame_len_max {
                return Err(Violation::FrameTooLong);
            }
            match input.get(end..next) {
                Some(b"\r\n") => {}
                Some(_) => return Err(Violation::BulkTerminator),
                None => {
                    *cursor = read;
                    return Ok(Step::NeedMore { len_min: next });
                }
            }
            read.head.place(start, end, false);
            read.offset = next;
            read.elements_left -= 1;
        }
        read.head.resolve(input);
        *cursor = RespCursor::default();
        Ok(Step::Frame { len: read.offset, head: read.head })
    }

    fn inline(&self, cursor: &mut RespCursor, input: &[u8]) -> Result<Step<RespHead>, Violation> {
        let window = &input[..input.len().min(self.inline_len_max)];
        let unread = &window[cursor.offset..];
        if let Some(line_end) = memchr::memchr(b'\n', unread) {
            let len = cursor.offset + line_end + 1;
            let head = RespHead::of_line(&input[..len])?;
            *cursor = RespCursor::default();
            return Ok(Step::Frame { len, head });
        }
        if input.len() >= self.inline_len_max {
            return Err(Violation::InlineTooLong);
        }
        cursor.offset = input.len();
        Ok(Step::NeedMore { len_min: input.len() + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(resp: &Resp, input: &[u8]) -> Result<Step, String> {
        match resp.next_frame(&mut RespCursor::default(), input) {
            Ok(Step::Frame { len, .. }) => Ok(frame(len)),
            Ok(Step::NeedMore { len_min }) => Ok(Step::NeedMore { len_min }),
            Err(error) => Err(error.to_string()),
        }
    }

    fn first_step(input: &[u8]) -> Result<Step, String> {
        step(&Resp::default(), input)
    }

    fn frame(len: usize) -> Step {
        Step::Frame { len, head: () }
    }

    #[test]
    fn whole_frames_are_measured() {
        for bytes in [
            &b"*1\r\n$4\r\nPING\r\n"[..],
            b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
            b"*2\r\n$3\r\nGET\r\n$12\r\nabcdefghij\r\n\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"\r\n",
            b"\n",
            b"PING\r\n",
            b"set k \"a b\"\n",
        ] {
            let expected = Ok(frame(bytes.len()));
            assert_eq!(first_step(bytes), expected, "{}", bytes.escape_ascii());
            let followed = [bytes, b"*1\r\n$4\r\nPING\r\n"].concat();
            assert_eq!(first_step(&followed), expected);
        }
    }

    #[test]
    fn a_peer_that_has_not_authenticated_sends_little() {
        let step = |input: &[u8]| {
            let step = Resp::default().next_frame_unauthenticated(&mut RespCursor::default(), input);
            step.map(|_| ()).map_err(|error| error.to_string())
        };
        let long = "Protocol error: unauthenticated bulk length";
        let many = "Protocol error: unauthenticated multibulk length";
        assert_eq!(step(b"*10\r\n$16384\r\n"), Ok(()));
        assert_eq!(step(b"*10\r\n$16385\r\n"), Err(long.to_owned()));
        assert_eq!(step(b"*11\r\n"), Err(many.to_owned()));
        assert!(first_step(b"*11\r\n$16385\r\n").is_ok());
    }

    #[test]
    fn breaches_are_named_as_in_redis() {
        let endless_count = [b"*", "1".repeat(70_000).as_bytes()].concat();
        let endless_length = [b"*1\r\n$", "1".repeat(70_000).as_bytes()].concat();
        let endless_line = vec![b'a'; 64 * 1024];
        let cases: [(&[u8], &str); 14] = [
            (b"*x\r\n", "invalid multibulk length"),
            (b"*3000000000\r\n", "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$blabla\r\n", "invalid bulk length"),
            (b"*1\r\n$2000000000\r\n", "invalid bulk length"),
            (b"*1\r\nfoo\r\n", "expected '$', got 'f'"),
            (b"*1\r\n\r\n", "expected '$', got '\\r'"),
            (b"*1\r\n$1\r\nabc", "expected CRLF after bulk"),
            (b"*1\r\n*1\r\n$1\r\na\r\n", "expected '$', got '*'"),
            (&endless_count, "too big mbulk count string"),
            (&endless_length, "too big bulk count string"),
            (&endless_line, "too big inline request"),
            (b"set \"\"\"k\"\"\" v\r\n", "unbalanced quotes in request"),
        ];
        for (input, reason) in cases {
            assert_eq!(first_step(input), Err(format!("Protocol error: {reason}")));
        }
    }

    #[test]
    fn limits_hold() {
        let resp = Resp {
            bulk_len_max: 4,
            elements_max: 2,
            inline_len_max: 8,
            frame_len_max: 20,
        };
        let step = |input: &[u8]| step(&resp, input);
        assert_eq!(step(b"1234567\n"), Ok(frame(8)));
        assert!(step(b"12345678\n").is_err());
        assert_eq!(step(b"*1\r\n$4\r\n"), Ok(Step::NeedMore { len_min: 14 }));
        assert!(step(b"*1\r\n$5\r\n").is_err());
        assert_eq!(step(b"*2\r\n$4\r\nabcd\r\n$0\r\n\r\n"), Ok(frame(20)));
        assert!(step(b"*3\r\n").is_err());
        assert_eq!(step(b"*2\r\n$4\r\nabcd\r\n$1\r\n"), Err("Protocol error: request too large".to_owned()));
    }

    #[test]
    fn need_more_asks_for_more_than_there_is() {
        let frame = b"*2\r\n$3\r\nGET\r\n$11\r\nhello world\r\n";
        for cut in 0..frame.len() {
            match first_step(&frame[..cut]) {
                Ok(Step::NeedMore { len_min }) => {
                    assert!(len_min > cut && len_min <= frame.len(), "{cut}: {len_min}");
                }
                other => panic!("{cut}: {other:?}"),
            }
        }
    }
}
