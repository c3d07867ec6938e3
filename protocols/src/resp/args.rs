//! The arguments of one request frame.

use std::ops::{Deref, Range};

use smallvec::SmallVec;

use crate::framing::FrameError;

use super::header::{BULK_LEN_MIN, bulk_header, multibulk_header};
use super::inline::{self, Word, Words};
use super::violation::Violation;

/// Arguments that fit without allocation.
const INLINE_ARGS: usize = 8;

type ArgVec<'a> = SmallVec<[&'a [u8]; INLINE_ARGS]>;

/// The arguments of one request, its name first: a `[&[u8]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args<'a> {
    args: ArgVec<'a>,
}

impl<'a> Args<'a> {
    /// Splits `frame`, one whole request, into its arguments.
    ///
    /// The arguments are slices of `frame`, but for those of an inline command that hold escapes:
    /// they are written to `unescaped`, a place for the caller to own them, which is cleared first.
    /// An empty `Vec` does; it allocates only when such an argument turns up.
    ///
    /// ```
    /// # use psp_protocols::resp::Args;
    /// let mut unescaped = Vec::new();
    /// let args = Args::parse(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", &mut unescaped).unwrap();
    /// assert!(matches!(*args, [b"GET", b"k"]));
    /// ```
    ///
    /// # Errors
    /// When `frame` is not a whole request. No frame that [`Resp`](super::Resp) found fails.
    #[inline]
    pub fn parse(frame: &'a [u8], unescaped: &'a mut Vec<u8>) -> Result<Self, FrameError> {
        let mut args = SmallVec::new();
        if frame.first() == Some(&b'*') {
            parse_array(frame, &mut args)?;
        } else {
            parse_inline(frame, unescaped, &mut args)?;
        }
        Ok(Self { args })
    }
}

impl<'a> Deref for Args<'a> {
    type Target = [&'a [u8]];

    fn deref(&self) -> &Self::Target {
        &self.args
    }
}

#[inline]
fn parse_array<'a>(frame: &'a [u8], args: &mut ArgVec<'a>) -> Result<(), Violation> {
    let header = multibulk_header(frame)?.ok_or(Violation::Truncated)?;
    let mut rest = &frame[header.len..];
    let count = usize::try_from(header.value.max(0)).unwrap_or(usize::MAX);
    // A count that the frame cannot hold must not reserve memory.
    if count > rest.len() / BULK_LEN_MIN {
        return Err(Violation::Truncated);
    }
    args.reserve_exact(count);
    for _ in 0..count {
        let (arg, after) = split_bulk(rest)?;
        args.push(arg);
        rest = after;
    }
    Ok(())
}

/// Splits the bulk string at the start of `input` from what follows it.
#[inline]
fn split_bulk(input: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    let header = bulk_header(input)?.ok_or(Violation::Truncated)?;
    let data = &input[header.len..];
    let len = usize::try_from(header.value).unwrap_or(usize::MAX);
    match data.split_at_checked(len) {
        Some((arg, [b'\r', b'\n', after @ ..])) => Ok((arg, after)),
        Some((_, [_, _, ..])) => Err(Violation::BulkTerminator),
        _ => Err(Violation::Truncated),
    }
}

fn parse_inline<'a>(
    frame: &'a [u8],
    unescaped: &'a mut Vec<u8>,
    args: &mut ArgVec<'a>,
) -> Result<(), Violation> {
    enum Place<'a> {
        Frame(&'a [u8]),
        Unescaped(Range<usize>),
    }
    unescaped.clear();
    let mut places: SmallVec<[Place<'a>; INLINE_ARGS]> = SmallVec::new();
    for word in Words::new(frame) {
        places.push(match word? {
            Word::Plain(text) => Place::Frame(text),
            Word::Escaped(text) => {
                let start = unescaped.len();
                inline::unescape(text, unescaped);
                Place::Unescaped(start..unescaped.len())
            }
        });
    }
    let unescaped: &'a [u8] = unescaped;
    args.extend(places.into_iter().map(|place| match place {
        Place::Frame(text) => text,
        Place::Unescaped(range) => &unescaped[range],
    }));
    Ok(())
}

/// Walks the arguments of a frame without storing them: for classifiers, which look at few.
///
/// Ends early where the frame is malformed. An argument of an inline command that holds escapes is
/// given as it was written, quotes included.
#[derive(Debug, Clone)]
pub struct ArgsIter<'a> {
    form: Form<'a>,
}

#[derive(Debug, Clone)]
enum Form<'a> {
    Array { rest: &'a [u8], left: usize },
    Inline(Words<'a>),
}

impl<'a> ArgsIter<'a> {
    /// Starts at the name of the command in `frame`.
    #[inline]
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Self {
        let form = if frame.first() == Some(&b'*') {
            match multibulk_header(frame) {
                Ok(Some(header)) => Form::Array {
                    rest: &frame[header.len..],
                    left: usize::try_from(header.value.max(0)).unwrap_or(usize::MAX),
                },
                _ => Form::Array { rest: &[], left: 0 },
            }
        } else {
            Form::Inline(Words::new(frame))
        };
        Self { form }
    }

    /// How many arguments are left. Of an array that is what its header announced, so it costs
    /// nothing; an inline command is walked to its end.
    #[must_use]
    pub fn count_left(&self) -> usize {
        match &self.form {
            Form::Array { left, .. } => *left,
            Form::Inline(words) => words.clone().count(),
        }
    }
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        match &mut self.form {
            Form::Array { left: 0, .. } => None,
            Form::Array { rest, left } => {
                let Ok((arg, after)) = split_bulk(rest) else {
                    *left = 0;
                    return None;
                };
                *rest = after;
                *left -= 1;
                Some(arg)
            }
            Form::Inline(words) => match words.next()? {
                Ok(Word::Plain(text) | Word::Escaped(text)) => Some(text),
                Err(_) => None,
            },
        }
    }
}

/// The name of the command in `frame`, as the peer wrote it; `None` when the frame has no
/// arguments or is malformed at its start.
#[inline]
#[must_use]
pub fn command_name(frame: &[u8]) -> Option<&[u8]> {
    ArgsIter::new(frame).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(frame: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut unescaped = Vec::new();
        Args::parse(frame, &mut unescaped)
            .map(|args| args.iter().map(|arg| arg.to_vec()).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn arrays_and_lines_give_the_same_arguments() {
        let expected: Vec<Vec<u8>> = vec![b"set".into(), b"k".into(), b"a b".into()];
        for frame in [
            &b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$3\r\na b\r\n"[..],
            b"set k \"a b\"\r\n",
            b"set k \"a\\x20b\"\r\n",
            b" 'set'  k 'a b'\n",
        ] {
            assert_eq!(parse(frame).as_ref(), Ok(&expected));
        }
        for empty in [&b"*0\r\n"[..], b"*-1\r\n", b"\r\n", b"\n", b""] {
            assert_eq!(parse(empty), Ok(vec![]));
            assert_eq!(command_name(empty), None);
        }
    }

    #[test]
    fn incomplete_frames_are_errors() {
        let frame = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
        for cut in 1..frame.len() {
            assert!(parse(&frame[..cut]).is_err(), "{cut}");
        }
        assert!(parse(b"*1048576\r\n").is_err());
        assert!(parse(b"*9223372036854775807\r\n").is_err());
        assert!(parse(b"*1\r\n$9223372036854775807\r\n").is_err());
    }

    #[test]
    fn the_iterator_peeks_at_single_arguments() {
        let frame = b"*3\r\n$6\r\nLRANGE\r\n$1\r\nl\r\n$2\r\n-1\r\n";
        let mut iter = ArgsIter::new(frame);
        assert_eq!(iter.count_left(), 3);
        assert_eq!(iter.nth(2), Some(&b"-1"[..]));
        assert_eq!(iter.next(), None);
        assert_eq!(ArgsIter::new(b"a b c\r\n").count_left(), 3);
        assert_eq!(command_name(frame), Some(&b"LRANGE"[..]));
        assert_eq!(command_name(b"ping\r\n"), Some(&b"ping"[..]));
        assert_eq!(command_name(b"*1\r\n$4\r\nPI"), None);
    }
}
