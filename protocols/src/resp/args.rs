//! The arguments of one request, all at once.

use std::ops::{Deref, Range};

use smallvec::SmallVec;

use super::head::RespHead;
use super::header::BULK_LEN_MIN;
use super::inline;

/// Number of arguments that fit without allocation.
const INLINE_ARGS: usize = 8;

type ArgVec<'a> = SmallVec<[&'a [u8]; INLINE_ARGS]>;

/// The arguments of one request, its name first: a `[&[u8]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args<'a> {
    args: ArgVec<'a>,
}

impl<'a> Args<'a> {
    /// The arguments of `frame`, whose head is `head`.
    ///
    /// The arguments are slices of `frame`. The exception are arguments of an inline command with
    /// escapes: they are written to `unescaped`, which the caller owns and which is cleared first.
    /// An empty `Vec` will do; it allocates only if there is such an argument.
    ///
    /// ```
    /// use psp_protocols::Framing;
    /// use psp_protocols::resp::{Args, Resp};
    ///
    /// let frame = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    /// let head = Resp::default().head_of(frame).unwrap();
    /// let mut unescaped = Vec::new();
    /// let args = Args::new(frame, &head, &mut unescaped);
    /// assert!(matches!(*args, [b"GET", b"k"]));
    /// ```
    #[inline]
    #[must_use]
    pub fn new(frame: &'a [u8], head: &RespHead, unescaped: &'a mut Vec<u8>) -> Self {
        let mut args = SmallVec::new();
        if frame.first() == Some(&b'*') {
            // A count that the frame cannot hold must not reserve memory.
            args.reserve_exact(head.arg_count().min(frame.len() / BULK_LEN_MIN));
            // Not `extend`, which takes more instructions for few arguments.
            for arg in head.args(frame) {
                args.push(arg);
            }
        } else {
            collect_words(frame, head, unescaped, &mut args);
        }
        Self { args }
    }
}

impl<'a> Deref for Args<'a> {
    type Target = [&'a [u8]];

    fn deref(&self) -> &Self::Target {
        &self.args
    }
}

fn collect_words<'a>(frame: &'a [u8], head: &RespHead, unescaped: &'a mut Vec<u8>, args: &mut ArgVec<'a>) {
    enum Place<'a> {
        Frame(&'a [u8]),
        Unescaped(Range<usize>),
    }
    unescaped.clear();
    let mut places: SmallVec<[Place<'a>; INLINE_ARGS]> = SmallVec::new();
    let mut words = head.args(frame);
    while let Some((word, escaped)) = words.next_raw() {
        places.push(if escaped {
            let start = unescaped.len();
            inline::unescape(word, |byte| unescaped.push(byte));
            Place::Unescaped(start..unescaped.len())
        } else {
            Place::Frame(word)
        });
    }
    let unescaped: &'a [u8] = unescaped;
    args.extend(places.into_iter().map(|place| match place {
        Place::Frame(text) => text,
        Place::Unescaped(range) => &unescaped[range],
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;
    use crate::resp::Resp;

    #[test]
    fn arrays_and_lines_give_the_same_arguments() {
        let args = |frame: &[u8]| -> Vec<Vec<u8>> {
            let head = Resp::default().head_of(frame).expect("a whole frame");
            let mut unescaped = Vec::new();
            let args = Args::new(frame, &head, &mut unescaped);
            args.iter().map(|arg| arg.to_vec()).collect()
        };
        let expected: Vec<Vec<u8>> = vec![b"set".into(), b"k".into(), b"a b".into()];
        for frame in [
            &b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$3\r\na b\r\n"[..],
            b"set k \"a b\"\r\n",
            b"set k \"a\\x20b\"\r\n",
            b" 'set'  k 'a b'\n",
        ] {
            assert_eq!(args(frame), expected);
        }
        for empty in [&b"*0\r\n"[..], b"*-1\r\n", b"\r\n", b"\n"] {
            assert_eq!(args(empty), Vec::<Vec<u8>>::new());
        }
    }
}
