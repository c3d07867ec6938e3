//! Replies of RESP2 and RESP3.

use std::ops::Deref;

use bytes::Bytes;

use crate::sink::Sink;

use super::double::format_double;

/// Which replies the peer understands; RESP2 until it sent `HELLO 3`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// Simple strings, errors, integers, bulk strings and arrays.
    #[default]
    Resp2,
    /// Also maps, sets, doubles, booleans, big numbers, verbatim strings, pushes and attributes.
    Resp3,
}

/// Bulk strings of at least this many bytes are worth sharing instead of copying.
pub const SHARED_LEN_MIN: usize = 4096;

/// Writes replies to a [`Sink`].
///
/// For a RESP2 peer, types of RESP3 are written as Redis writes them in RESP2. To write an
/// aggregate, write its head (`array(3)`), then that many values.
#[derive(Debug)]
pub struct Encoder<'a, S: Sink + ?Sized> {
    sink: &'a mut S,
    version: Version,
}

impl<'a, S: Sink + ?Sized> Encoder<'a, S> {
    /// An encoder for a peer that speaks `version`.
    pub fn new(sink: &'a mut S, version: Version) -> Self {
        Self { sink, version }
    }

    /// The version it writes.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// A simple string: `+text`. CR and LF become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b"+", &[text]);
    }

    /// An error: `-line`, where `line` starts with its code (`ERR`, `WRONGTYPE`). CR and LF become
    /// spaces.
    pub fn error(&mut self, line: &str) {
        self.error_parts(&[line]);
    }

    /// [`error`](Self::error) with the line in pieces, which the caller need not join.
    pub fn error_parts(&mut self, parts: &[&str]) {
        self.line(b"-", parts);
    }

    /// An integer: `:value`.
    pub fn integer(&mut self, value: i64) {
        self.head(b':', value);
    }

    /// A bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        let head = Head::new(b'$', bytes.len());
        self.sink.put_pieces([&head, bytes, b"\r\n"]);
    }

    /// A bulk string that the sink may keep a reference to; long ones are not copied.
    pub fn bulk_shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_LEN_MIN {
            return self.bulk(&bytes);
        }
        self.head(b'$', bytes.len());
        self.sink.put_shared(bytes);
        self.sink.put(b"\r\n");
    }

    /// No value. RESP2: the null bulk string.
    pub fn null(&mut self) {
        self.by_version(b"$-1\r\n", b"_\r\n");
    }

    /// No value where an array was asked for. RESP2: the null array.
    pub fn null_array(&mut self) {
        self.by_version(b"*-1\r\n", b"_\r\n");
    }

    /// Head of an array of `len` values.
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len);
    }

    /// Head of a map of `pairs` keys, each followed by its value. RESP2: an array of twice as many.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Resp2 => self.head(b'*', pairs * 2),
            Version::Resp3 => self.head(b'%', pairs),
        }
    }

    /// Head of a set of `len` values. RESP2: an array.
    pub fn set(&mut self, len: usize) {
        self.aggregate(b'~', len);
    }

    /// Head of a push message of `len` values. RESP2: an array.
    pub fn push(&mut self, len: usize) {
        self.aggregate(b'>', len);
    }

    /// Head of `pairs` attributes, which precede the value that they describe. Returns false for
    /// RESP2, which has no attributes: the caller then writes no pairs.
    #[must_use]
    pub fn attribute(&mut self, pairs: usize) -> bool {
        let written = self.version == Version::Resp3;
        if written {
            self.head(b'|', pairs);
        }
        written
    }

    /// A floating point number, see [`format_double`]. RESP2: a bulk string.
    pub fn double(&mut self, value: f64) {
        self.number_text(b",", &format_double(value));
    }

    /// A truth value. RESP2: the integers 1 and 0.
    pub fn boolean(&mut self, value: bool) {
        if value {
            self.by_version(b":1\r\n", b"#t\r\n");
        } else {
            self.by_version(b":0\r\n", b"#f\r\n");
        }
    }

    /// An integer of any size, in decimal. RESP2: a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        self.number_text(b"(", digits);
    }

    /// Text with a hint how to show it, `txt` or `mkd`. The hint is cut or filled with spaces to
    /// three bytes. RESP2: a bulk string.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => {
                let mut prefix = *b"   :";
                for (place, byte) in prefix[..3].iter_mut().zip(format.bytes()) {
                    *place = byte;
                }
                self.head(b'=', prefix.len() + text.len());
                self.sink.put_pieces([&prefix, text, b"\r\n"]);
            }
        }
    }

    /// Bytes that are already encoded.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.sink.put(encoded);
    }

    /// Bytes that are already encoded, which the sink may keep a reference to.
    pub fn raw_shared(&mut self, encoded: Bytes) {
        self.sink.put_shared(encoded);
    }

    /// See [`Sink::reserve`].
    pub fn reserve(&mut self, bytes: usize) -> bool {
        self.sink.reserve(bytes)
    }

    fn by_version(&mut self, resp2: &[u8], resp3: &[u8]) {
        self.sink.put(match self.version {
            Version::Resp2 => resp2,
            Version::Resp3 => resp3,
        });
    }

    fn aggregate(&mut self, resp3_marker: u8, len: usize) {
        let marker = match self.version {
            Version::Resp2 => b'*',
            Version::Resp3 => resp3_marker,
        };
        self.head(marker, len);
    }

    fn number_text(&mut self, resp3_marker: &[u8], text: &str) {
        match self.version {
            Version::Resp2 => self.bulk(text.as_bytes()),
            Version::Resp3 => self.line(resp3_marker, &[text]),
        }
    }

    fn line(&mut self, marker: &[u8], parts: &[&str]) {
        self.sink.put(marker);
        for part in parts {
            let mut pieces = part.split(['\r', '\n']);
            self.sink.put(pieces.next().unwrap_or_default().as_bytes());
            for piece in pieces {
                self.sink.put(b" ");
                self.sink.put(piece.as_bytes());
            }
        }
        self.sink.put(b"\r\n");
    }

    fn head(&mut self, marker: u8, number: impl HeadNumber) {
        self.sink.put(&Head::new(marker, number));
    }
}

/// What stands in a [`Head`].
trait HeadNumber: itoa::Integer + Copy {
    /// The number, if it has one digit.
    fn digit(self) -> Option<u8>;
}

impl HeadNumber for usize {
    #[inline]
    fn digit(self) -> Option<u8> {
        (self < 10).then_some(self as u8)
    }
}

impl HeadNumber for i64 {
    #[inline]
    fn digit(self) -> Option<u8> {
        (0..10).contains(&self).then_some(self as u8)
    }
}

/// A marker, a decimal number and CRLF.
struct Head {
    line: [u8; 24],
    len: usize,
}

impl Head {
    #[inline]
    fn new(marker: u8, number: impl HeadNumber) -> Self {
        let mut line = [0; 24];
        line[0] = marker;
        if let Some(digit) = number.digit() {
            line[1..4].copy_from_slice(&[b'0' + digit, b'\r', b'\n']);
            return Self { line, len: 4 };
        }
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let end = 1 + digits.len();
        line[1..end].copy_from_slice(digits);
        line[end..end + 2].copy_from_slice(b"\r\n");
        Self { line, len: end + 2 }
    }
}

impl Deref for Head {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.line[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(version: Version, write: impl Fn(&mut Encoder<'_, Vec<u8>>)) -> String {
        let mut out = Vec::new();
        write(&mut Encoder::new(&mut out, version));
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn each_type_in_both_versions() {
        type Write = fn(&mut Encoder<'_, Vec<u8>>);
        let cases: [(Write, &str, &str); 19] = [
            (|e| e.simple("OK"), "+OK\r\n", "+OK\r\n"),
            (|e| e.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (|e| e.integer(-7), ":-7\r\n", ":-7\r\n"),
            (|e| e.bulk(b"ab"), "$2\r\nab\r\n", "$2\r\nab\r\n"),
            (|e| e.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|e| e.bulk_shared(Bytes::from_static(b"ab")), "$2\r\nab\r\n", "$2\r\nab\r\n"),
            (|e| e.null(), "$-1\r\n", "_\r\n"),
            (|e| e.null_array(), "*-1\r\n", "_\r\n"),
            (|e| e.array(12), "*12\r\n", "*12\r\n"),
            (|e| e.map(3), "*6\r\n", "%3\r\n"),
            (|e| e.set(3), "*3\r\n", "~3\r\n"),
            (|e| e.push(3), "*3\r\n", ">3\r\n"),
            (|e| e.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|e| e.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
            (|e| e.boolean(true), ":1\r\n", "#t\r\n"),
            (|e| e.boolean(false), ":0\r\n", "#f\r\n"),
            (|e| e.big_number("123"), "$3\r\n123\r\n", "(123\r\n"),
            (|e| e.verbatim("txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|e| e.raw(b"+QUEUED\r\n"), "+QUEUED\r\n", "+QUEUED\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(encoded(Version::Resp2, write), resp2);
            assert_eq!(encoded(Version::Resp3, write), resp3);
        }
    }

    #[test]
    fn attributes_exist_in_resp3_alone() {
        let write = |e: &mut Encoder<'_, Vec<u8>>| {
            if e.attribute(1) {
                e.simple("ttl");
                e.integer(1);
            }
            e.simple("OK");
        };
        assert_eq!(encoded(Version::Resp2, write), "+OK\r\n");
        assert_eq!(encoded(Version::Resp3, write), "|1\r\n+ttl\r\n:1\r\n+OK\r\n");
    }

    #[test]
    fn long_bulks_are_shared() {
        #[derive(Default)]
        struct Shared(usize);
        impl Sink for Shared {
            fn put(&mut self, _bytes: &[u8]) {}
            fn put_shared(&mut self, bytes: Bytes) {
                self.0 += bytes.len();
            }
        }
        let mut sink = Shared::default();
        let mut encoder = Encoder::new(&mut sink, Version::Resp3);
        encoder.bulk_shared(Bytes::from(vec![0; SHARED_LEN_MIN - 1]));
        encoder.bulk_shared(Bytes::from(vec![0; SHARED_LEN_MIN]));
        assert_eq!(sink.0, SHARED_LEN_MIN);
    }
}
