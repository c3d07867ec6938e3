//! The head of a request: its command, and where its arguments are.

use super::command_id::{CommandId, NAME_LEN_MAX};
use super::header::{bulk_header, multibulk_header};
use super::inline::{self, Words};
use super::violation::Violation;

/// Arguments whose place a head knows: `SET key value EX 10` has as many.
const PLACES: usize = 5;

/// The command of a request, the number of its arguments, and the places of the first ones in the frame.
///
/// [`Resp`](super::Resp) makes the head while it looks for the end of the request. The places of the first
/// five arguments are known if they end within 64 KiB; further arguments are parsed when they are asked for.
///
/// The methods take the frame that the head was made for. With another frame the arguments are wrong or
/// missing, and nothing worse.
///
/// ```
/// use psp_protocols::Framing;
/// use psp_protocols::resp::{CommandId, Resp};
///
/// let frame = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
/// let head = Resp::default().head_of(frame).unwrap();
/// assert_eq!(head.command(), CommandId::of(b"get"));
/// assert_eq!((head.arg_count(), head.arg(frame, 1)), (2, Some(&b"k"[..])));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RespHead {
    command: CommandId,
    /// How many of `places` are known.
    known: u8,
    /// A bit for each of `places`: the argument of an inline command holds escapes.
    escaped: u8,
    count: u32,
    /// Places of the first arguments, as far as they end within 64 KiB.
    places: [Place; PLACES],
}

const _: () = assert!(size_of::<RespHead>() == 28);

/// The range of an argument in its frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    start: u16,
    end: u16,
}

impl RespHead {
    /// An array of `count` arguments, whose places are yet to come.
    #[inline]
    pub(super) fn of_array(count: u32) -> Self {
        Self { count, ..Self::default() }
    }

    /// The head of the inline command `line`.
    pub(super) fn of_line(line: &[u8]) -> Result<Self, Violation> {
        let mut head = Self::default();
        for word in Words::new(line) {
            let word = word?;
            head.count += 1;
            head.place(word.start, word.end, word.escaped);
        }
        head.resolve(line);
        Ok(head)
    }

    /// Records where the next argument is.
    #[inline]
    pub(super) fn place(&mut self, start: usize, end: usize, escaped: bool) {
        // Arguments are in order: once one ends too far, all later ones do.
        if let Ok(end) = u16::try_from(end)
            && let Some(place) = self.places.get_mut(usize::from(self.known))
        {
            // An argument starts before it ends.
            let start = start as u16;
            *place = Place { start, end };
            self.escaped |= u8::from(escaped) << self.known;
            self.known += 1;
        }
    }

    /// Looks up the command by its name.
    #[inline]
    pub(super) fn resolve(&mut self, frame: &[u8]) {
        let name = self.known_arg(frame, 0).unwrap_or_default();
        self.command = match self.escaped & 1 {
            0 => CommandId::of(name),
            _ => resolve_escaped(name),
        };
    }

    /// The command, by its name.
    #[inline]
    #[must_use]
    pub fn command(&self) -> CommandId {
        self.command
    }

    /// How many arguments there are, the name included; 0 for an empty line and an empty array.
    #[inline]
    #[must_use]
    pub fn arg_count(&self) -> usize {
        self.count as usize
    }

    /// The argument with this index, 0 for the name, as the peer wrote it: one of an inline command
    /// that holds escapes comes with its quotes.
    #[inline]
    #[must_use]
    pub fn arg<'a>(&self, frame: &'a [u8], index: usize) -> Option<&'a [u8]> {
        let known = self.known_arg(frame, index);
        known.or_else(|| self.args(frame).nth(index))
    }

    /// The arguments from the name on, as [`arg`](Self::arg) has them.
    #[inline]
    #[must_use]
    pub fn args<'a>(&self, frame: &'a [u8]) -> ArgsIter<'a> {
        ArgsIter { frame, head: *self, index: 0, rest: 0 }
    }

    #[inline]
    fn known_arg<'a>(&self, frame: &'a [u8], index: usize) -> Option<&'a [u8]> {
        let places = self.places.get(..self.known.into())?;
        let Place { start, end } = *places.get(index)?;
        frame.get(start.into()..end.into())
    }

    /// Where in `frame` the arguments without a known place begin.
    fn known_end(&self, frame: &[u8]) -> usize {
        let last = self.known.checked_sub(1);
        let end = last.map(|last| usize::from(self.places[usize::from(last)].end));
        match (is_array(frame), end) {
            (true, Some(end)) => end + 2,
            (true, None) => match multibulk_header(frame) {
                Ok(Some(header)) => header.len,
                _ => frame.len(),
            },
            (false, end) => end.unwrap_or(0),
        }
    }
}

#[inline]
fn is_array(frame: &[u8]) -> bool {
    frame.first() == Some(&b'*')
}

/// The command whose name is written with escapes.
#[cold]
fn resolve_escaped(word: &[u8]) -> CommandId {
    let mut name = [0; NAME_LEN_MAX];
    let mut len = 0;
    inline::unescape(word, |byte| {
        if let Some(place) = name.get_mut(len) {
            *place = byte;
        }
        len += 1;
    });
    name.get(..len).map_or(CommandId::UNKNOWN, CommandId::of)
}

/// The arguments of a request, its name first. See [`RespHead::args`].
///
/// Ends early where the frame is not the one that the head was made for.
#[derive(Debug, Clone)]
pub struct ArgsIter<'a> {
    frame: &'a [u8],
    head: RespHead,
    /// Of the next argument.
    index: u32,
    /// Where the next argument begins, with its header. Used once all known places are.
    rest: usize,
}

impl<'a> ArgsIter<'a> {
    /// The next argument, and whether it holds escapes.
    #[inline]
    pub(super) fn next_raw(&mut self) -> Option<(&'a [u8], bool)> {
        let index = self.index;
        if let Some(arg) = self.head.known_arg(self.frame, index as usize) {
            self.index += 1;
            return Some((arg, self.head.escaped >> index & 1 == 1));
        }
        if index >= self.head.count {
            return None;
        }
        if index == u32::from(self.head.known) {
            self.rest = self.head.known_end(self.frame);
        }
        self.index += 1;
        let next = if is_array(self.frame) {
            self.next_bulk()
        } else {
            self.next_word()
        };
        if next.is_none() {
            self.index = self.head.count;
        }
        next
    }

    fn next_bulk(&mut self) -> Option<(&'a [u8], bool)> {
        let rest = self.frame.get(self.rest..)?;
        let header = bulk_header(rest).ok()??;
        let end = header.len.checked_add(usize::try_from(header.value).ok()?)?;
        let arg = rest.get(header.len..end)?;
        self.rest += end + 2;
        Some((arg, false))
    }

    fn next_word(&mut self) -> Option<(&'a [u8], bool)> {
        let word = Words::after(self.frame, self.rest).next()?.ok()?;
        self.rest = word.end;
        let arg = self.frame.get(word.start..word.end)?;
        Some((arg, word.escaped))
    }
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.next_raw().map(|(arg, _)| arg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;
    use crate::resp::{Resp, encode_command};

    fn head_of(frame: &[u8]) -> RespHead {
        Resp::default().head_of(frame).expect("a whole frame")
    }

    #[test]
    fn commands_are_resolved_however_they_are_written() {
        let get = CommandId::of(b"get");
        for frame in [
            &b"*2\r\n$3\r\nGet\r\n$1\r\nk\r\n"[..],
            b"get k\r\n",
            b"  GET\tk\n",
            b"'get' k\r\n",
            b"\"\\x47et\" k\r\n",
        ] {
            let head = head_of(frame);
            assert_eq!(head.command(), get, "{}", frame.escape_ascii());
            assert_eq!((head.arg_count(), head.arg(frame, 1)), (2, Some(&b"k"[..])));
        }
        for frame in [&b"\r\n"[..], b"*0\r\n", b"nosuch k\r\n", b"\"\\x47etgetgetgetgetget\"\r\n"] {
            assert_eq!(head_of(frame).command(), CommandId::UNKNOWN);
        }
    }

    #[test]
    fn arguments_that_are_not_known_are_found() {
        let long = vec![b'v'; 70_000];
        let mut frame = Vec::new();
        encode_command(&[&b"MSET"[..], b"a", &long, b"b", b"w"], &mut frame);
        let head = head_of(&frame);
        assert_eq!(head.known, 2);
        assert_eq!(head.arg(&frame, 2), Some(&long[..]));
        assert_eq!(head.arg(&frame, 4), Some(&b"w"[..]));
        assert_eq!(head.arg(&frame, 5), None);
        let line = b"mset a 1 'b b' 2 c \"3\" d \"\\x34\"\r\n";
        let head = head_of(line);
        assert_eq!((usize::from(head.known), head.arg_count()), (PLACES, 9));
        assert_eq!(head.arg(line, 6), Some(&b"3"[..]));
        assert_eq!(head.arg(line, 8), Some(&b"\"\\x34\""[..]));
        assert_eq!(head.args(line).count(), 9);
    }

    #[test]
    fn the_head_of_another_frame_does_no_harm() {
        let frames = [
            &b"*7\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n"[..],
            b"a b c d e f g h\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"\"a\\x41\" b\r\n",
            b"\r\n",
        ];
        for made_for in frames {
            for used_with in frames.iter().chain([&&b""[..], &&b"*1"[..], &&b"'"[..]]) {
                assert!(head_of(made_for).args(used_with).count() <= 8);
            }
        }
    }
}
