//! Where a RESP request ends.

use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

use super::header::{bulk_header, multibulk_header};
use super::inline;
use super::rejection;
use super::violation::Violation;

/// [`Framing`] of RESP requests: arrays of bulk strings and inline commands.
///
/// A frame without arguments (an empty line, `*0\r\n`, `*-1\r\n`) is a frame like any other; Redis
/// gives it no reply, and neither should a handler. Unlike Redis this framing insists on the CRLF
/// after each bulk string, so that a peer with a wrong length learns of it at once.
///
/// The defaults are those of Redis 7.
#[derive(Debug, Clone)]
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

/// How much of an incomplete request has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RespCursor {
    /// Inline: bytes known to hold no line end. Array: where the next element starts, 0 while the
    /// count is not known.
    offset: usize,
    /// Array: elements from `offset` on.
    elements_left: usize,
}

impl Framing for Resp {
    type Cursor = RespCursor;

    #[inline]
    fn next_frame(&self, cursor: &mut RespCursor, input: &[u8]) -> Result<Step, FrameError> {
        let step = match input.first() {
            None => return Ok(Step::NeedMore { len_min: 1 }),
            Some(b'*') => self.array(cursor, input)?,
            Some(_) => self.inline(cursor, input)?,
        };
        if let Step::Frame { .. } = step {
            *cursor = RespCursor::default();
        }
        Ok(step)
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        rejection::encode(rejection, request, out);
    }
}

impl Resp {
    fn array(&self, cursor: &mut RespCursor, input: &[u8]) -> Result<Step, Violation> {
        let incomplete = Step::NeedMore {
            len_min: input.len() + 1,
        };
        if cursor.offset == 0 {
            let Some(header) = multibulk_header(input)? else {
                return Ok(incomplete);
            };
            let Ok(count) = usize::try_from(header.value.max(0)) else {
                return Err(Violation::MultibulkLength);
            };
            if count > self.elements_max {
                return Err(Violation::MultibulkLength);
            }
            cursor.offset = header.len;
            cursor.elements_left = count;
        }
        let RespCursor {
            mut offset,
            mut elements_left,
        } = *cursor;
        let step = loop {
            if elements_left == 0 {
                break Step::Frame { len: offset };
            }
            let Some(header) = bulk_header(&input[offset..])? else {
                break incomplete;
            };
            let len = usize::try_from(header.value).unwrap_or(usize::MAX);
            if len > self.bulk_len_max {
                return Err(Violation::BulkLength);
            }
            let end = (offset + header.len).saturating_add(len);
            let next = end.saturating_add(2);
            if next > self.frame_len_max {
                return Err(Violation::FrameTooLong);
            }
            match input.get(end..next) {
                Some(b"\r\n") => {}
                Some(_) => return Err(Violation::BulkTerminator),
                None => break Step::NeedMore { len_min: next },
            }
            offset = next;
            elements_left -= 1;
        };
        *cursor = RespCursor {
            offset,
            elements_left,
        };
        Ok(step)
    }

    fn inline(&self, cursor: &mut RespCursor, input: &[u8]) -> Result<Step, Violation> {
        let window = &input[..input.len().min(self.inline_len_max)];
        let unread = &window[cursor.offset..];
        if let Some(line_end) = memchr::memchr(b'\n', unread) {
            let len = cursor.offset + line_end + 1;
            inline::check(&input[..len])?;
            return Ok(Step::Frame { len });
        }
        if input.len() >= self.inline_len_max {
            return Err(Violation::InlineTooLong);
        }
        cursor.offset = input.len();
        Ok(Step::NeedMore {
            len_min: input.len() + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_step(input: &[u8]) -> Result<Step, String> {
        Resp::default()
            .next_frame(&mut RespCursor::default(), input)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn whole_frames_are_measured() {
        for frame in [
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
            let expected = Ok(Step::Frame { len: frame.len() });
            assert_eq!(first_step(frame), expected, "{}", frame.escape_ascii());
            let followed = [frame, b"*1\r\n$4\r\nPING\r\n"].concat();
            assert_eq!(first_step(&followed), expected);
        }
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
        let step = |input: &[u8]| {
            resp.next_frame(&mut RespCursor::default(), input)
                .map_err(|error| error.to_string())
        };
        assert_eq!(step(b"1234567\n"), Ok(Step::Frame { len: 8 }));
        assert!(step(b"12345678\n").is_err());
        assert_eq!(step(b"*1\r\n$4\r\n"), Ok(Step::NeedMore { len_min: 14 }));
        assert!(step(b"*1\r\n$5\r\n").is_err());
        assert!(step(b"*3\r\n").is_err());
        assert_eq!(
            step(b"*2\r\n$4\r\nabcd\r\n$1\r\n"),
            Err("Protocol error: request too large".to_owned())
        );
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
